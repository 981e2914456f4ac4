"""The demo's flights as two topics: each departure finds its arrival, and says nothing of it beforehand."""

from pathlib import Path

import orjson
import pytest

from explain_sidecar.demo import late
from explain_sidecar.demo.flights import flights
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.writing import value_writer
from explain_sidecar.join.entries import Event, Label
from explain_sidecar.join.inputs import EventInput, LabelInput
from explain_sidecar.settings import Settings, load_settings


@pytest.fixture(scope="module")
def records() -> list[dict[str, object]]:
    return flights(500, arrivals=True)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    file = tmp_path / "demo.yaml"
    file.write_text("record: {label: late}\n" + late.settings_of_join(tmp_path))
    return load_settings(file, environ={})


def test_each_departure_in_avro_has_one_arrival_within_the_wait(
    records: list[dict[str, object]], settings: Settings, tmp_path: Path
) -> None:
    late.write_schema(tmp_path, records)
    write = value_writer(settings.join.events, settings.registry, late.DEPARTURES, {}, "join.events")
    events, labels = EventInput(settings), LabelInput(settings)
    given: dict[bytes, Event] = {}
    for record in records:
        departure = {name: value for name, value in record.items() if name not in late.AT_ARRIVAL}
        event = events.read(InputRecord(0, 0, b"JFK", write(departure)), 0)
        assert isinstance(event, Event) and event.id not in given
        assert b"arrived" not in event.body and b'"late"' not in event.body
        given[event.id] = event
    for record in records:
        value = {name: record[name] for name in ("flight", *late.AT_ARRIVAL)}
        label = labels.read(InputRecord(0, 0, b"JFK", orjson.dumps(value)), 0)
        assert isinstance(label, Label) and label.value == (b"true" if record["late"] else b"false")
        delay = label.timestamp - given.pop(label.id).timestamp
        assert 0 < delay < 1_000 * late.LONGEST_SECONDS
    assert given == {}
