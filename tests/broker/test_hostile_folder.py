"""The installed command in a folder whose files bear the names of what it imports: none of them is executed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.harness import Factory, Pipeline

MODULES = (
    "service",
    "queue",
    "logging",
    "numpy",
    "explain_sidecar",
    "explain_core",
    "explain_client",
    "confluent_kafka",
    "grpc_tools",
    "sitecustomize",
)
COMMAND = Path(sys.executable).with_name("explain-sidecar")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Each name as a file and as a package with modules of the sidecar's names; what is executed leaves a file in `executed`."""
    here, executed = tmp_path / "here", tmp_path / "executed"
    executed.mkdir()
    for name in MODULES:
        inner = (f"{name}/{file}.py" for file in ("__init__", "__main__", "worker", "cli", "protoc"))
        for file in (f"{name}.py", *inner):
            (here / file).parent.mkdir(parents=True, exist_ok=True)
            mark = executed / file.replace("/", ".")
            (here / file).write_text(f"open({str(mark)!r}, 'w').close()\n")
    return here


def typed(line: Pipeline, folder: Path, *arguments: str, closed: bool = False) -> str:
    """What the installed command prints, started in this folder; ``closed``: without its standard streams."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("EXPLAIN_", "PYTHON"))}
    shell = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash"] if closed else []
    done = subprocess.run(
        [*shell, COMMAND, *arguments],
        cwd=folder,
        env={**clean, **line.environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    executed = sorted(path.name for path in (folder.parent / "executed").iterdir())
    assert executed == [], f"{arguments}: {done.stderr}"
    return done.stdout


def test_no_command_executes_what_lies_in_the_working_directory_nor_needs_an_open_stderr(
    pipeline: Factory, folder: Path
) -> None:
    """The compiler of a Protobuf schema, which ``check`` and ``run`` start, neither."""
    schema = folder / "flight.proto"
    schema.write_text('syntax = "proto3"; message Flight { double distance = 1; int32 label = 2; }')
    record = {"format": "protobuf", "framing": "none", "schema_file": str(schema), "message": "Flight"}
    line = pipeline(1, EXPLAIN_RECORD=json.dumps(record))
    line.feed((0, b"\x09" + bytes(6) + bytes([i, 64]) + b"\x10" + bytes([i % 2])) for i in range(120))
    assert "record.label" in typed(line, folder, "config", "show")
    assert "100 of the newest 100 records can be folded" in typed(line, folder, "check")
    typed(line, folder, "run", "--until-caught-up", "--workers", "2", closed=True)
    line.verify()
    assert '"records":120,' in typed(line, folder, "tail", "--json", "--until-caught-up")
