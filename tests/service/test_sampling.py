"""What ``check`` sees in records of any format, and the settings that it prints."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from explain_sidecar.commands.sampling import Placed, RecordShape, look, tally, to_paste
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.framing import HEADER
from explain_sidecar.formats.registry import RegistryClient
from explain_sidecar.settings import Settings
from explain_sidecar.settings.records import Format
from tests.crash.registry import SchemaServer
from tests.evolving import FORMATS, values

URL = {"url": "http://127.0.0.1:1", "format": "none"}
ROW = {"a": 1, "b": "x", "label": True}


def placed(found: list[bytes | None], headers: Any = ()) -> list[Placed]:
    return [(0, InputRecord(offset, 0, None, value, headers)) for offset, value in enumerate(found)]


def seen(settings: Settings, records: list[Placed]) -> RecordShape:
    found = look(settings, records)
    assert found is not None
    return found


@pytest.mark.parametrize("in_header", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_format_and_framing_are_found_by_the_registry_and_read_every_record(
    format: Format, in_header: bool
) -> None:
    server = SchemaServer()
    server.format = format
    server.start()
    try:
        settings = Settings(registry={**URL, "url": server.url})
        size = 5 + (format == "protobuf")
        records: list[Placed] = []
        for offset, value in enumerate(values(format, [0, 1, 2, 1])):
            moved = (value[size:], ((HEADER, value[:size]),)) if in_header else (value, ())
            records.append((0, InputRecord(offset, 0, None, *moved)))
        found = seen(settings, [*records, *placed([None, b"junk"])])
        assert ("in the header" if in_header else "before each value") in found.words
        pasted = yaml.safe_load(to_paste(settings, found.settings, found.fields))  # type: ignore[arg-type]
        assert pasted == {
            "record": {"format": format, "label": "label"},
            "registry": {"url": server.url, "format": "none"},
        }
        known = Settings(**pasted)
        assert tally(known, known.record, records).good == 4
        is_bare_json = format == "json_schema" and in_header
        assert tally(settings, settings.record, records).good == 4 * is_bare_json
        assert seen(known, records).settings == known.record
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ROW, {"format": "json", "label": "label"}),
        (
            {"payload": {"op": "c", "before": None, "after": ROW}, "schema": {}},
            {"format": "json", "root": "payload.after", "label": "label"},
        ),
        (
            {"op": "c", "before": None, "after": ROW, "source": {}},
            {"format": "json", "root": "after", "label": "label"},
        ),
        (
            {"specversion": "1.0", "id": "1", "data": ROW},
            {"format": "json", "root": "data", "label": "label"},
        ),
    ],
)
def test_envelopes_are_recognised(value: Any, expected: dict[str, Any]) -> None:
    settings = Settings()
    found = seen(settings, placed([orjson.dumps(value)]))
    assert found.fields == ("a", "b", "label")
    pasted = yaml.safe_load(to_paste(settings, found.settings, found.fields))  # type: ignore[arg-type]
    assert pasted == {"record": expected}
    assert tally(Settings(**pasted), Settings(**pasted).record, placed([orjson.dumps(value)])).good == 1


def test_a_label_that_is_not_there_is_to_be_chosen_among_the_fields() -> None:
    settings = Settings(record={"label": "late"})
    found = seen(settings, placed([orjson.dumps(ROW)]))
    assert "label: late  # no such field; one of a, b, label" in to_paste(
        settings, found.settings, found.fields
    )  # type: ignore[arg-type]


def test_settings_with_the_file_of_a_schema_are_told_with_it(tmp_path: Path) -> None:
    file = tmp_path / "row.json"
    file.write_text('{"type": "object"}')
    own = {"format": "json_schema", "framing": "none", "schema_file": str(file), "label": "label"}
    settings = Settings(record=own)
    found = seen(settings, placed([orjson.dumps(ROW)]))
    assert yaml.safe_load(to_paste(settings, found.settings, found.fields)) == {"record": own}  # type: ignore[arg-type]


def test_what_cannot_be_told_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    framed = b"\0\0\0\0\7" + b"\2\4"
    assert look(Settings(), placed([None])) is None
    bare = seen(Settings(), placed([b"\x02\x04"]))
    assert bare.settings is None and "record.framing none and record.schema_file" in bare.words
    unknown = seen(Settings(), placed([framed]))
    assert unknown.settings is None and "set registry.url" in unknown.words
    framed_json = seen(Settings(), placed([framed[:5] + orjson.dumps(ROW)]))
    assert framed_json.settings is not None and framed_json.settings.framing == "registry"
    monkeypatch.setattr(RegistryClient, "schema", lambda self, key: None)
    absent = seen(Settings(registry=URL), placed([framed]))
    assert (
        absent.settings is None
        and "such as 7, which the registry at http://127.0.0.1:1 does not have" in absent.words
    )
