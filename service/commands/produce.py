"""``explain-sidecar produce``: the rows of a CSV file as labelled records."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import KafkaException
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from service.commands.csv_rows import converters_of, read_rows
from service.commands.markers import Markers, remarks
from service.errors import UserError
from service.kafka.clients import plain_producer
from service.kafka.topics import Topics
from service.settings import Settings

FLUSH_SECONDS = 30.0

BY_KEY = -1
"""librdkafka's RD_KAFKA_PARTITION_UA: its partitioner chooses by the key."""


def produce(
    settings: Settings,
    *,
    file: Path,
    label: str,
    topic: str | None = None,
    key: str | None = None,
    rate: float | None = None,
    limit: int | None = None,
    partitions: int | None = None,
    missing: Sequence[str] = (),
) -> None:
    """Write the rows of a CSV file to the records topic, in order, round robin over its partitions or by key.

    A column whose cells are all numbers becomes numbers, one of true and false booleans, any other strings; an empty cell,
    and one that is a text of ``missing``, is left out. Columns that are numeric but for another text are named on stderr. ``label`` is renamed to the setting ``record.label`` where the two differ.
    """
    absent = {"", *missing}
    converters, count = converters_of(read_rows("--input", file, limit), absent)
    if not count:
        raise UserError(f"--input {file}: it has no rows")
    for option, column in (("--label", label), ("--key", key)):
        if column is not None and column not in converters:
            raise UserError(
                f"{option} {column}: {file.name} has no such column; it has {', '.join(converters)}"
            )
    texts = {name: Markers() for name, convert in converters.items() if convert is str and name != label}
    for row in read_rows("--input", file, limit) if texts else ():
        for name, markers in texts.items():
            if row[name] not in absent:
                markers.add(row[name])
    for remark in remarks(texts, "produce it anew with --missing"):
        sys.stderr.write(f"column {remark}\n")
    if label != settings.record.label and settings.record.label in converters:
        raise UserError(
            f"--label {label}: it would be written as record.label, {settings.record.label!r}, and {file.name} has another column "
            "of that name; rename that one, or set record.label to the label's own name"
        )
    names = {name: settings.record.label if name == label else name for name in converters}
    rows = (
        (row, {names[name]: converters[name](cell) for name, cell in row.items() if cell not in absent})
        for row in read_rows("--input", file, limit)
    )
    write(
        settings,
        ((None if key is None else row[key].encode(), None, record) for row, record in rows),
        count=count,
        topic=topic,
        rate=rate,
        partitions=partitions,
    )


def write(
    settings: Settings,
    records: Iterator[tuple[bytes | None, int | None, dict[str, Any]]],
    *,
    count: int,
    topic: str | None = None,
    rate: float | None = None,
    partitions: int | None = None,
    progress: bool = True,
) -> int:
    """Write (key, partition, record) to a topic; without key and partition they go round robin. Returns how many."""
    topic = topic or settings.topics.records
    total = _partitions(settings, topic, partitions)
    producer = plain_producer(settings)
    started = time.monotonic()
    written = 0
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(file=sys.stderr), disable=not progress,
    )  # fmt: skip
    with bar:
        task = bar.add_task(f"producing to {topic}", total=count)
        for key, partition, record in records:
            if partition is None:
                partition = written % total if key is None else BY_KEY
            while True:
                try:
                    producer.produce(topic, orjson.dumps(record), key, partition)
                    break
                except BufferError:
                    producer.poll(0.1)
                except KafkaException as error:
                    raise UserError(f"topic {topic!r}: {error.args[0].str()}") from None
            written += 1
            if written % 1_000 == 0 or rate is not None:
                producer.poll(0)
                bar.update(task, completed=written)
                if rate is not None:
                    time.sleep(max(0.0, started + written / rate - time.monotonic()))
        bar.update(task, completed=written)
    left = producer.flush(FLUSH_SECONDS)
    if left:
        raise UserError(
            f"topic {topic!r}: {left} of {written} records were not acknowledged within {FLUSH_SECONDS:g} s; does the broker run?"
        )
    return written


def _partitions(settings: Settings, topic: str, partitions: int | None) -> int:
    topics = Topics(settings)
    found = topics.describe(topic)
    if topic not in found:
        if partitions is None:
            raise UserError(
                f"--topic {topic}: there is no such topic on {settings.servers}; give --partitions to create it"
            )
        topics.create_topics([(topic, partitions, {})])
        return partitions
    if partitions not in (None, found[topic].partitions):
        raise UserError(
            f"--partitions {partitions}: {topic!r} is there already, with {found[topic].partitions}"
        )
    return found[topic].partitions
