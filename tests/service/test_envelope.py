"""What is around a message on its way out: trace context and CloudEvents headers, Avro; all of it a function of the input."""

import functools
import io
import json
from datetime import datetime

import fastavro
import pytest

from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings
from explain_sidecar.wire.avro import teach_fastavro
from explain_sidecar.wire.envelope import Envelope
from explain_sidecar.wire.registry import SCHEMAS, _json, _to_dict
from explain_sidecar.wire.schemas import avro_schemas
from tests.crash.streams import ALARMS
from tests.folds import FIRST_TIMESTAMP, SMALL, fold, settings, values
from tests.service.test_windows import QUICK, stream

TOPIC_ID = "x3vB/tRvQ9GrhJXW+kFzKA"


def traceparent(number):
    return b"00-%032x-%016x-01" % (number + 1, number + 1)


def traced(state, objects, **fields):
    """The outputs of folding these values, each with a trace context of its own."""
    found = []
    for offset, value in enumerate(objects, state.next_offset):
        headers = (
            ("own", b"1"),
            ("traceparent", traceparent(offset)),
            ("tracestate", b"vendor=%d" % offset),
            ("tracestate", None),
        )
        payload = value if isinstance(value, bytes) else json.dumps({**value, **fields}).encode()
        found += state.step(InputRecord(offset, FIRST_TIMESTAMP + offset, b"key", payload, headers))
    return found


def test_the_trace_context_of_the_last_record_is_passed_on_unchanged():
    outputs = traced(PartitionState(settings(drift=QUICK), 3), stream(700))
    found = {
        name: [output for output in outputs if output.destination == name]
        for name in ("explanations", "drift")
    }
    assert len(found["explanations"]) == 70 and len(found["drift"]) == 1
    for output in outputs:
        offset = json.loads(output.value)["offset"]
        assert output.headers == (
            ("schema", b"drift/1" if output.destination == "drift" else b"explanation/1"),
            ("traceparent", traceparent(offset)),
            ("tracestate", b"vendor=%d" % offset),
            ("tracestate", None),
        )


def test_a_message_without_cloudevents_is_as_the_fold_made_it():
    configured = settings()
    for output in fold(PartitionState(configured, 3), [*values(40), b"{"]):
        assert Envelope(configured, TOPIC_ID).wrap(3, output) is output


def test_a_cloudevent_has_the_headers_of_the_kafka_binding():
    configured = settings(
        app_id="churn",
        cloudevents={"enabled": True, "type_prefix": "com.example.ml"},
        drift=QUICK,
        record={"timestamp": "at"},
    )
    state = PartitionState(configured, 3, epoch=2)
    rows = [{**row, "at": 1_700_000_000_000 + 250 * index} for index, row in enumerate(stream(610))]
    envelope = Envelope(configured, TOPIC_ID)
    wrapped = [envelope.wrap(3, output) for output in fold(state, rows)]
    for destination, kind, offset, seq, time in (
        ("explanations", "explanation/1", 19, 1, "2023-11-14T22:13:24.750Z"),
        ("drift", "drift/1", 599, 0, "2023-11-14T22:15:49.750Z"),
    ):
        output = [message for message in wrapped if message.destination == destination][seq]
        assert json.loads(output.value)["offset"] == offset
        assert output.headers == (
            ("schema", kind.encode()),
            ("ce_specversion", b"1.0"),
            ("ce_id", f"churn/x3vB_tRvQ9GrhJXW-kFzKA/3/{destination}/2/{seq}".encode()),
            ("ce_source", b"urn:explanation-sidecar:churn"),
            ("ce_type", f"com.example.ml.{kind.replace('/', '.v')}".encode()),
            ("ce_dataschema", f"urn:explanation-sidecar:schema:{kind.replace('/', ':')}".encode()),
            ("ce_time", time.encode()),
            ("ce_subject", b"records/3"),
            ("content-type", b"application/json"),
        )
        assert datetime.fromisoformat(time).timestamp() * 1_000 == json.loads(output.value)["timestamp"]
    ids = [dict(output.headers)["ce_id"] for output in wrapped]
    assert len(set(ids)) == len(ids) == 62


@pytest.mark.parametrize(
    ("at", "time"),
    [
        (0, b"1970-01-01T00:00:00.000Z"),
        (-1, b"1969-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, b"0001-01-01T00:00:00.000Z"),
        (253_402_300_799_999, b"9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, None),
        (2**62, None),
        (-(2**63), None),
    ],
)
def test_an_event_time_that_no_calendar_has_is_left_out(at, time):
    configured = settings(cloudevents={"enabled": True}, record={"timestamp": "at"}, emit={"every": 1})
    (output,) = fold(PartitionState(configured, 0), [{"a": 1, "at": at, "label": 0}])
    headers = dict(Envelope(configured, TOPIC_ID).wrap(0, output).headers)
    assert headers.get("ce_time") == time
    assert ("ce_time" in headers) == (time is not None)


def test_a_dead_letter_keeps_the_headers_it_came_with_and_gets_none_of_ours():
    configured = settings(cloudevents={"enabled": True})
    theirs = (("ce_id", b"theirs"), ("content-type", b"text/plain"), ("traceparent", traceparent(0)))
    (letter,) = PartitionState(configured, 0).step(InputRecord(0, 0, b"k", b"{", theirs))
    wrapped = Envelope(configured, TOPIC_ID).wrap(0, letter)
    assert wrapped is letter
    assert wrapped.headers[:3] == theirs
    assert all(name.startswith("__explain.") for name, _ in wrapped.headers[3:])


@functools.cache
def parsed(name):
    return fastavro.parse_schema(json.loads(avro_schemas()[f"{name}.avsc"]))


def in_avro(name, message):
    """A message's JSON after it was written and read as Avro."""
    schema = parsed(name)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, _to_dict(message, None))
    written.seek(0)
    return _json(fastavro.schemaless_reader(written, schema))


def test_avro_keeps_every_byte_of_a_messages_json():
    teach_fastavro()
    sections = {"drift": {**QUICK, "factorisation": "per_feature"}, "record": {"id": "a"}}
    outputs = fold(PartitionState(settings(**sections), 0), stream(1_000, flips_at=500))
    outputs += fold(
        PartitionState(settings(task="regression", explainers=SMALL[:1]), 0), values(30, "regression")
    )
    outputs += fold(
        PartitionState(Settings(drift={**QUICK, "window": 10}, emit={"every": 1}), 0),
        [{"größe 🙂": 0.1, "label": index % 2} for index in range(40)],
    )
    outputs += fold(
        PartitionState(
            settings(
                alarms=ALARMS,
                explainers=SMALL[:1],
                rows={"enabled": True},
                predictions={"enabled": True, "every": 40},
                emit={"every": 10, "periods": [100]},
            ),
            0,
        ),
        stream(400, flips_at=250),
    )
    whole = {
        "explainers": [{**SMALL[0], "by": "a", "segments": 3}, SMALL[1]],
        "challenger": {"factory": "river.tree:HoeffdingTreeClassifier"},
        "drift": {**QUICK, "on_alarm": True},
        "record": {"prediction": "served"},
        "rows": {"enabled": True},
    }
    subjects = ["loss", "gain", "importance", "segments", "segment_importance"]
    outputs += fold(
        PartitionState(settings(alarms={**ALARMS, "subjects": subjects}, **whole), 0),
        [{**value, "served": 0.5} for value in stream(400, flips_at=250)],
    )
    outputs += fold(
        PartitionState(settings(predictions={"enabled": True}, record={"unlabelled": "predict"}), 0),
        [{"a": 1, "label": True}, {"a": 2}],
    )
    numbers = settings(task="regression", predictions={"enabled": True})
    outputs += fold(PartitionState(numbers, 0), values(5, "regression"))
    kinds, told = set(), set()
    for output in outputs:
        assert in_avro(SCHEMAS[output.destination], output.value) == output.value
        message = json.loads(output.value)
        kinds.add((output.destination, message.get("status"), message.get("change", ...) is None))
        told |= {name for name in ("challenger", "segments", "skew", "alarm") if message.get(name)}
    assert kinds >= {
        ("explanations", "warming", False),
        ("explanations", "ready", False),
        ("drift", None, False),
        ("alarms", None, False),
        ("rows", None, False),
        ("predictions", None, False),
    }
    assert told >= {"challenger", "segments", "alarm"}
