"""What ``produce`` reads from files, and writes in each format: what it writes is read again by the same settings."""

import datetime
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from explain_sidecar.commands.tables import read_table
from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.formats.errors import SchemaProblem
from explain_sidecar.formats.inferred import kinds_of, schema_of
from explain_sidecar.formats.reading import ValueReader
from explain_sidecar.formats.registry import RegistryClient
from explain_sidecar.formats.schemas import Schemas
from explain_sidecar.formats.source import SchemaSource
from explain_sidecar.formats.writing import value_writer
from explain_sidecar.settings.records import Format, FormatSettings
from explain_sidecar.settings.wire import RegistrySettings

RECORDS: list[dict[str, Any]] = [
    {"a": 1, "b": 0.5, "c": "x", "label": True},
    {"a": -(2**63), "b": 2, "label": False},
    {"a": 7, "c": "größe", "label": True},
]
FORMATS: tuple[Format, ...] = ("json", "avro", "protobuf", "json_schema")


class Fake:
    """A client of a registry that numbers what is registered; subjects by number."""

    def __init__(self) -> None:
        self.texts: list[Any] = []
        self.subjects: list[str] = []

    def register(self, subject: str, text: str, kind: str) -> int:
        from confluent_kafka.schema_registry import Schema

        self.subjects.append(subject)
        self.texts.append(Schema(text, schema_type=kind))
        return len(self.texts)

    def schema(self, key: str) -> Any:
        return self.texts[int(key) - 1]


def read_by(settings: FormatSettings, values: list[bytes], client: Any) -> list[dict[str, Any]]:
    schemas = Schemas()
    reader = ValueReader(settings, schemas)
    fetch = SchemaSource(client, settings.format).fetch
    return [schemas.supply(lambda raw: reader.read(raw, ()), value, fetch)[0] for value in values]


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_written_by_an_inferred_schema_is_read_again(
    format: Format, framed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    columns, count = kinds_of(RECORDS)
    assert (columns, count) == ({"a": "integer", "b": "number", "c": "string", "label": "boolean"}, 3)
    client = Fake()
    monkeypatch.setattr(RegistryClient, "register", lambda self, *arguments: client.register(*arguments))
    sections: dict[str, Any] = {"framing": "registry" if framed else "none"}
    if format != "json" and not framed:
        file = tmp_path / {"avro": "a.avsc", "protobuf": "a.proto", "json_schema": "a.json"}[format]
        file.write_text(schema_of(format, columns))
        sections["schema_file"] = file
    settings = FormatSettings(format=format, **sections)
    write = value_writer(settings, RegistrySettings(url="http://127.0.0.1:1"), "flights", columns)
    found = read_by(settings, [write(record) for record in RECORDS], client)
    kept = [{name: value for name, value in record.items() if value is not None} for record in found]
    assert kept == RECORDS
    assert client.subjects == (["flights-value"] if framed else [])


@pytest.mark.parametrize(
    ("format", "suffix", "text", "problem"),
    [
        ("avro", "avsc", '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}', "c"),
        ("protobuf", "proto", 'syntax = "proto3"; message R { int64 a = 1; }', 'no field named "c"'),
        ("json_schema", "json", '{"properties": {"c": {"type": "integer"}}}', '"x" is not of type "integer"'),
    ],
)
def test_a_record_that_does_not_fit_the_users_schema_is_refused_in_words(
    format: Format, suffix: str, text: str, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / f"schema.{suffix}"
    file.write_text(text)
    settings = FormatSettings(format=format, framing="none", schema_file=file)
    write = value_writer(settings, RegistrySettings(), "flights", {})
    assert read_by(settings, [write({"a": 5})], None) == [{"a": 5}]
    with pytest.raises(SchemaProblem, match=problem):
        write({"a": 5, "c": "x"})


def test_a_missing_value_is_null_where_the_users_avro_schema_has_no_default_for_it(tmp_path: Path) -> None:
    file = tmp_path / "schema.avsc"
    fields = [
        {"name": "a", "type": ["null", "long"]},
        {"name": "c", "type": ["string", "null"], "default": "x"},
    ]
    file.write_text(json.dumps({"type": "record", "name": "R", "fields": fields}))
    settings = FormatSettings(format="avro", framing="none", schema_file=file)
    write = value_writer(settings, RegistrySettings(), "flights", {})
    assert read_by(settings, [write({"a": 5}), write({})], None) == [
        {"a": 5, "c": "x"},
        {"a": None, "c": "x"},
    ]


@pytest.mark.parametrize(
    ("format", "columns", "problem"),
    [
        ("avro", {"a b": "number"}, "record.format avro: field 'a b' cannot have this name"),
        ("protobuf", {"größe": "number"}, "field 'größe' cannot have this name in protobuf"),
        ("avro", {"a": "object"}, "field 'a' is object, and .* record.schema_file"),
        ("protobuf", {"a": "string or number"}, "field 'a' is string or number"),
        ("protobuf", {"a_b": "number", "aB": "number"}, "record.format protobuf: .*[Jj][Ss][Oo][Nn]"),
    ],
)
def test_columns_that_a_schema_cannot_have_are_named(
    format: Format, columns: dict[str, str], problem: str
) -> None:
    settings = FormatSettings(format=format, framing="registry")
    with pytest.raises(SettingsError, match=problem):
        value_writer(settings, RegistrySettings(url="http://127.0.0.1:1"), "flights", columns)


def test_json_lines_and_parquet_are_read_as_records(tmp_path: Path) -> None:
    lines = tmp_path / "rows.jsonl.gz"
    lines.write_bytes(gzip.compress(b'{"a": 1, "b": "?"}\n\n{"a": 2.5, "n": {"x": [1]}, "b": null}\n'))
    table = read_table("--input", lines, None, ["?"])
    assert (table.count, table.columns) == (2, {"a": "number", "n": "object"})
    assert [record for _, record in table.rows()] == [{"a": 1}, {"a": 2.5, "n": {"x": [1]}}]
    assert read_table("--input", lines, 1, []).count == 1
    moment = datetime.datetime(2013, 1, 1, 12, tzinfo=datetime.UTC)
    cells: dict[str, list[Any]] = {
        "a": [1, None],
        "when": [moment, moment.replace(microsecond=500)],
        "day": [datetime.date(1970, 1, 2), None],
        "at": [datetime.time(0, 0, 1), None],
        "long": [datetime.timedelta(seconds=2), None],
        "price": [Decimal("1.25"), Decimal("2.00")],
        "raw": [b"\xff", None],
        "in": [{"x": [moment]}, None],
    }
    file = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table(cells), file)
    table = read_table("--input", file, None, [])
    first, second = (record for _, record in table.rows())
    milliseconds = 1_357_041_600_000
    assert first == {
        "a": 1, "when": milliseconds, "day": 86_400_000, "at": 1_000, "long": 2_000, "price": 1.25, "raw": "/w==", "in": {"x": [milliseconds]},
    }  # fmt: skip
    assert second == {"when": milliseconds + 0.5, "price": 2.0}
    assert table.columns["when"] == table.columns["price"] == "number"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("rows.txt", b"", r"must end in \.csv"),
        ("rows.jsonl", b'{"a": 1}\n[1]\n', "line 2 is no JSON object"),
        ("rows.jsonl", b'{"a": 1}\n{', "line 2 is no JSON: "),
        ("rows.jsonl.gz", b"not packed", "cannot be read: "),
        ("rows.parquet", b"not Parquet at all", "cannot be read as Parquet: "),
    ],
)
def test_a_file_that_cannot_be_read_is_named(name: str, content: bytes, problem: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(UserError, match=f"^--input .*{name}: .*{problem}|^--input .*{name}: {problem}"):
        read_table("--input", file, None, [])


def test_values_of_json_are_as_they_were() -> None:
    write = value_writer(FormatSettings(), RegistrySettings(), "flights", {"größe": "object"})
    assert json.loads(write({"größe": {"x": 1}})) == {"größe": {"x": 1}}
