"""``python -m benchmarks.formats``: the fold of the same records in JSON, Avro, Protobuf and JSON by a JSON Schema, logistic model, block by block, by turns.

A record has eight numbers, a text and the label. The throughput of a format against JSON is the median over blocks of JSON's time to its
own in the same round. Time is that of the thread, which others on the machine disturb less.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import statistics
import time
from typing import Any

import fastavro
import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.schemas import StoredSchema
from explain_sidecar.settings import Settings

FORMATS = ("json", "avro", "protobuf", "json_schema")
NUMBERS = [f"x{i}" for i in range(8)]
GOAL = 0.85
BLOCK = 1_000
FRAME = b"\0\0\0\0\1"
AVRO = {
    "type": "record",
    "name": "Record",
    "fields": [
        *({"name": name, "type": "double"} for name in NUMBERS),
        {"name": "colour", "type": "string"},
        {"name": "label", "type": "boolean"},
    ],
}


JSON_SCHEMA = {
    "properties": {
        **{name: {"type": "number"} for name in NUMBERS},
        "colour": {"enum": ["red", "green", "blue"]},
        "label": {"type": "boolean"},
    },
    "required": ["label"],
}


def protobuf_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="record.proto", syntax="proto3")
    message, kinds = file.message_type.add(name="Record"), descriptor_pb2.FieldDescriptorProto
    types = [
        *[(name, kinds.TYPE_DOUBLE) for name in NUMBERS],
        ("colour", kinds.TYPE_STRING),
        ("label", kinds.TYPE_BOOL),
    ]
    for number, (name, kind) in enumerate(types, start=1):
        message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    return file


def schemas() -> dict[str, StoredSchema]:
    files = descriptor_pb2.FileDescriptorSet(file=[protobuf_file()])
    return {
        "avro": StoredSchema("1", "AVRO", json.dumps([AVRO]).encode()),
        "protobuf": StoredSchema("1", "PROTOBUF", files.SerializeToString()),
        "json_schema": StoredSchema("1", "JSON", json.dumps({"": JSON_SCHEMA}).encode()),
    }


def values(count: int) -> dict[str, list[bytes]]:
    """The same records in each format."""
    rng, parsed, pool = random.Random(1), fastavro.parse_schema(AVRO), descriptor_pool.DescriptorPool()
    pool.Add(protobuf_file())
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("Record"))
    found: dict[str, list[bytes]] = {format: [] for format in FORMATS}
    for _ in range(count):
        record: dict[str, Any] = {name: rng.gauss(0, 1) for name in NUMBERS}
        record["colour"] = rng.choice(("red", "green", "blue"))
        record["label"] = record["x0"] - record["x1"] + 0.3 * rng.gauss(0, 1) > 0
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, record)
        found["json"].append(orjson.dumps(record))
        found["json_schema"].append(FRAME + found["json"][-1])
        found["avro"].append(FRAME + out.getvalue())
        found["protobuf"].append(FRAME + b"\0" + message(**record).SerializeToString())
    return found


def state_of(format: str) -> PartitionState:
    settings = Settings(
        record={"format": format},
        registry={"url": "http://127.0.0.1:1", "format": "none"},
    )
    return PartitionState(settings, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=20)
    arguments = parser.parse_args()
    given, known = values(BLOCK * (arguments.blocks + 1)), schemas()
    states = {format: state_of(format) for format in FORMATS}
    times: dict[str, list[float]] = {format: [] for format in FORMATS}
    for block in range(arguments.blocks + 1):
        turn = block % len(FORMATS)
        for format in FORMATS[turn:] + FORMATS[:turn]:
            state = states[format]
            first = block * BLOCK
            records = [
                InputRecord(first + i, 0, None, value)
                for i, value in enumerate(given[format][first : first + BLOCK])
            ]
            started = time.thread_time()
            for record in records:
                state.schemas.supply(state.step, record, lambda key, format=format: known[format])  # type: ignore[misc]
            times[format].append((time.thread_time() - started) / BLOCK)
    print(
        f"model: {states['json'].explained.model.title}; blocks of {BLOCK:,} records, {arguments.blocks} of each format"
    )
    for format in FORMATS:
        measured = times[format][1:]  # the first one compiles
        ratio = statistics.median(a / b for a, b in zip(times["json"][1:], measured, strict=True))
        size = statistics.mean(map(len, given[format]))
        goal = "" if format == "json" else f" (goal ≥ {GOAL:.0%})"
        micros = statistics.median(measured) * 1e6
        print(
            f"{format}: {micros:.1f} µs and {size:.0f} bytes a record, {ratio:.0%} of JSON's throughput{goal}"
        )
    assert [state.records for state in states.values()] == [BLOCK * (arguments.blocks + 1)] * len(FORMATS)
    assert len({state.fold_digest for state in states.values()}) == 1, (
        "a format has changed what is predicted"
    )


if __name__ == "__main__":
    main()
