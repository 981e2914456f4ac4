"""``explain-sidecar produce``: the rows of a file as labelled records."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import KafkaException
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from explain_core.markers import Markers, identifiers, remarks
from explain_sidecar.commands.tables import read_table
from explain_sidecar.errors import UserError
from explain_sidecar.fold.records import Decoder
from explain_sidecar.formats.errors import SchemaProblem
from explain_sidecar.formats.schemas import Schemas
from explain_sidecar.kafka.clients import plain_producer
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings
from explain_sidecar.settings.base import topic_name
from explain_sidecar.terminal import plain

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
    """Write the rows of a file to the records topic, in order, round robin over its partitions or by key.

    Values are written as the settings ``record`` have them read; a schema that is needed is registered. Columns that are numeric but for another text
    are named on stderr. ``label`` is renamed to the setting ``record.label`` where the two differ.
    """
    table = read_table("--input", file, limit, missing)
    if not table.count:
        raise UserError(f"--input {file}: it has no rows")
    for option, column in (("--label", label), ("--key", key)):
        if column is not None:
            table.check(option, column)
    if rate is not None and not isfinite(rate):
        raise UserError(f"--rate {rate:g}: write a number of records per second, or leave it out")
    if topic is not None:
        try:
            topic_name(topic)
        except ValueError as error:
            raise UserError(f"--topic {topic!r}: {error}") from None
    texts = {name: Markers() for name, kind in table.columns.items() if "string" in kind and name != label}
    for _, record in table.rows() if texts else ():
        for name in texts.keys() & record.keys():
            texts[name].add(record[name])
    is_feature = Decoder(settings.record, settings.model.task, Schemas()).is_feature
    features = {name: found for name, found in texts.items() if is_feature(name)}
    of_ids = identifiers(features, "name the other features in record.features")
    for remark in (*remarks(texts, "produce it anew with --missing"), *of_ids):
        sys.stderr.write(f"column {plain(remark)}\n")
    if label != settings.record.label and settings.record.label in table.columns:
        raise UserError(
            f"--label {label}: it would be written as record.label, {settings.record.label!r}, and {file.name} has another column "
            "of that name; rename that one, or set record.label to the label's own name"
        )
    topic = topic or settings.topics.records
    encode = table.writer(label, settings.record, settings.registry, topic)

    def records() -> Iterator[tuple[bytes | None, int | None, bytes]]:
        for number, (row, record) in enumerate(table.rows(), start=1):
            try:
                value = encode(record)
            except SchemaProblem as error:
                raise UserError(
                    f"--input {file}: row {number} does not fit the schema: {error}; {number - 1} rows were written"
                ) from None
            yield None if key is None else _key(row.get(key)), None, value

    write(settings, records(), count=table.count, topic=topic, rate=rate, partitions=partitions)


def _key(cell: Any) -> bytes | None:
    return None if cell is None else cell.encode() if isinstance(cell, str) else orjson.dumps(cell)


def write(
    settings: Settings,
    records: Iterator[tuple[bytes | None, int | None, bytes]],
    *,
    count: int,
    topic: str | None = None,
    rate: float | None = None,
    partitions: int | None = None,
    progress: bool = True,
) -> int:
    """Write (key, partition, value) to a topic; without key and partition they go round robin. Returns how many."""
    topic = topic or settings.topics.records
    total = Topics(settings).found_or_made("--topic", topic, partitions).partitions
    producer = plain_producer(settings)
    started = time.monotonic()
    written = 0
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(file=sys.stderr), disable=not progress,
    )  # fmt: skip
    try:
        with bar:
            task = bar.add_task(f"producing to {topic}", total=count)
            for key, partition, value in records:
                if partition is None:
                    partition = written % total if key is None else BY_KEY
                while True:
                    try:
                        producer.produce(topic, value, key, partition)
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
    except UserError:  # what stands before a row that cannot be written is written
        producer.flush(FLUSH_SECONDS)
        raise
    left = producer.flush(FLUSH_SECONDS)
    if left:
        raise UserError(
            f"topic {topic!r}: {left} of {written} records were not acknowledged within {FLUSH_SECONDS:g} s; does the broker run?"
        )
    return written
