"""Schemas from files: Avro's .avsc, a .proto or a FileDescriptorSet, a JSON Schema."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.formats.avro import AvroSchema, sources
from explain_sidecar.formats.errors import Read, SchemaProblem
from explain_sidecar.formats.json_schema import JsonSchema
from explain_sidecar.settings.records import FormatSettings

if TYPE_CHECKING:
    from explain_sidecar.formats.protobuf import ProtobufSchema

EXTRA = "it needs the extra `registry`: pip install 'explanation-sidecar[registry]'"

COMPILE_SECONDS = 30.0


class SchemaFile:
    """The schema of ``schema_file``. Raises ``SettingsError`` where it cannot be used."""

    def __init__(self, settings: FormatSettings, section: str) -> None:
        assert settings.schema_file is not None
        self._where = f"{section}.schema_file {settings.schema_file}"
        self._message = settings.message
        self._section = section
        self.avro: AvroSchema | None = None
        self.protobuf: ProtobufSchema | None = None
        self.json: JsonSchema | None = None
        data = contents(settings.schema_file, self._where)
        try:
            if settings.format == "avro":
                self.avro = AvroSchema(sources([data.decode()]))
            elif settings.format == "json_schema":
                self.json = JsonSchema(orjson.dumps({"": orjson.loads(data)}))
            else:
                from explain_sidecar.formats.protobuf import ProtobufSchema

                if settings.schema_file.suffix == ".proto":
                    data = compiled(settings.schema_file.name, data)
                self.protobuf = ProtobufSchema(data)
        except ImportError as error:
            raise UserError(f"{self._where}: {error.name or error} is missing; {EXTRA}") from None
        except (SchemaProblem, UnicodeDecodeError, orjson.JSONDecodeError, orjson.JSONEncodeError) as error:
            raise SettingsError(f"{self._where}: {error}") from None

    def reader(self) -> tuple[Read, str | None]:
        """A reader of values without a frame, and the name of their type."""
        if self.json is not None:
            return self.json.read, self.json.title
        if self.avro is not None:
            return self.avro.reader(), self.avro.names[0]
        assert self.protobuf is not None
        if self._message is None and len(self.protobuf.names) > 1:
            raise SettingsError(
                f"{self._section}.message is not set: {self._where} has {', '.join(self.protobuf.names)}; name the one that is in the values"
            )
        name = self._message or self.protobuf.names[0]
        try:
            return self.protobuf.reader(name), name
        except SchemaProblem as error:
            raise SettingsError(f"{self._section}.message: {self._where}: {error}") from None


@cache
def contents(file: Path, where: str) -> bytes:
    """The bytes of a file, as they were when this process first read them. Raises ``SettingsError``."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingsError(f"{where}: {error.strerror}; it must be a file that can be read") from None


def digest(file: Path, where: str) -> str:
    """The SHA-256 of a schema's file, for the settings that a state belongs to."""
    return sha256(contents(file, where)).hexdigest()


def compiled(name: str, proto: bytes, imports: Mapping[str, bytes] | None = None) -> bytes:
    """A .proto file as a serialised FileDescriptorSet, by protoc. Raises ``SchemaProblem``, or ``UserError`` where protoc is missing."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in {**(imports or {}), name: proto}.items():
            target = Path(folder, path)
            if not target.resolve().is_relative_to(Path(folder).resolve()):
                raise SchemaProblem(f"it refers to {path!r}, a path outside of its folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
        out = Path(folder, "descriptors")
        command = [
            sys.executable,
            "-P",
            "-m",
            "grpc_tools.protoc",
            f"-I{folder}",
            "--include_imports",
            f"--descriptor_set_out={out}",
            name,
        ]
        done = subprocess.run(command, capture_output=True, timeout=COMPILE_SECONDS, check=False)
        complaint = done.stderr.decode(errors="replace").strip()
        if done.returncode and "No module named" in complaint:
            raise UserError(f"protobuf: grpcio-tools is missing, which compiles .proto files; {EXTRA}")
        if done.returncode:
            raise SchemaProblem(f"it is no .proto file: {complaint}")
        return out.read_bytes()
