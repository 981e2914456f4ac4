"""Pipelines on a real broker, and records for them."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import psutil
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConsumerGroupDescription,
)

from benchmarks.pipeline import SMALL, Pipeline, Process, Published

__all__ = [
    "SMALL",
    "Factory",
    "Pipeline",
    "Process",
    "Published",
    "configure",
    "delete_before",
    "group_of",
    "mixed_records",
]

Factory = Callable[..., Pipeline]


def mixed_records(
    partitions: int, count: int, seed: int = 0, bad_every: int = 0
) -> Iterator[tuple[int, bytes | None]]:
    """Records with numeric, categorical, missing and late features whose label depends on two of them; some are bad."""
    rng = random.Random(seed)
    for index in range(count):
        partition = index % partitions
        if bad_every and rng.random() < 1 / bad_every:
            yield (
                partition,
                rng.choice(
                    [b"{", b"[1]", None, b'{"label": 1}', b'{"a": 1}', b'{"a": {"b": 1}, "label": 0}']
                ),
            )
            continue
        x: dict[str, Any] = {
            "a": rng.gauss(0, 1),
            "b": rng.randrange(5),
            "color": rng.choice(["red", "green", "blue"]),
        }
        if rng.random() < 0.8:
            x["c"] = rng.random()
        if index > count // 2:
            x["late"] = rng.random() < 0.5
        x["label"] = int(x["a"] + (x["color"] == "red") + 0.3 * rng.gauss(0, 1) > 0.3)
        yield partition, json.dumps(x).encode()


def delete_before(line: Pipeline, offset: int) -> None:
    """Delete the records before this offset, as retention does."""
    where = TopicPartition(line.topics["records"], 0, offset)
    line.admin.delete_records([where])[where].result()


def configure(line: Pipeline, topic: str, **config: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, line.topics[topic])
    for name, value in config.items():
        entry = ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
    for future in line.admin.incremental_alter_configs([resource]).values():
        future.result()


def group_of(line: Pipeline) -> ConsumerGroupDescription:
    """The state and the members of the pipeline's consumer group."""
    return line.admin.describe_consumer_groups([line.name])[line.name].result()


def workers_of(supervisor: Process) -> dict[int, psutil.Process]:
    """By slot: what a fork is called, where the system shows it."""
    (parent,) = psutil.Process(supervisor.pid).children()
    return {int(fork.name().split()[1]): fork for fork in parent.children() if " " in fork.name()}
