"""The oracle: what the output topics must contain, from the input up to the committed offset, in a plain loop over the fold.

``python -m benchmarks.oracle`` reads the settings of a sidecar from its environment, and its topics from their first byte. It
shares nothing with the service but the fold and the headers around its messages: no consumer, no loop, no checkpoint. It prints what it compared as JSON, and its
exit status is 1 where a byte differs.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from explain_core.models import Model
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.fold.versions import Find
from explain_sidecar.formats.schemas import Fetch
from explain_sidecar.formats.source import schema_source
from explain_sidecar.kafka.headers import read_headers
from explain_sidecar.settings import Settings, load_settings
from explain_sidecar.snapshots.files import first_state
from explain_sidecar.snapshots.snapshot import take
from explain_sidecar.wire.envelope import Envelope

READ_SECONDS = 30
"""A topic with more to read of which nothing comes in this time has a transaction that hangs, or a broker that is gone."""

Stream = list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]


Begin = Callable[[int, Mapping[int, Sequence[InputRecord]]], Any]
"""From a partition, and the records of all, to what folds it as a ``PartitionState`` does."""


@dataclass
class Verdict:
    """What was compared, and each thing that is not as it must be, in words."""

    records: int = 0
    messages: int = 0
    bytes: int = 0
    differences: list[str] = field(default_factory=list)
    models: dict[str, int] = field(default_factory=dict)


def check(settings: Settings, complete: bool = True, begin: Begin | None = None) -> Verdict:
    """Compare every output topic with the oracle, byte for byte, as a reader of committed records sees it.

    ``complete``: every record of the input must be committed. ``begin`` gives the state that folds a partition, else ``first`` does.
    """
    topics = settings.topics
    envelope, fetch = Envelope(settings, _topic_id(settings)), schema_source(settings)
    verdict = Verdict()
    differences = verdict.differences
    inputs = read_topic(settings, topics.records, differences)
    committed = _committed(settings, inputs)
    outputs = {name: read_topic(settings, getattr(topics, name), differences) for name in settings.outputs}
    explanations = {partition: _stream(outputs["explanations"].get(partition, [])) for partition in inputs}
    given = {partition: list(map(_record, messages)) for partition, messages in inputs.items()}
    for partition, messages in inputs.items():
        place = committed[partition]
        end = messages[-1].offset() + 1 if messages else 0
        if complete and place.offset != end and end:
            differences.append(f"records {partition}: committed {place.offset} of {end}")
        published = {name: _stream(read.get(partition, [])) for name, read in outputs.items()}
        differences += chain(settings, partition, published["explanations"])
        verdict.messages += sum(map(len, published.values()))
        verdict.bytes += sum(len(value or b"") for stream in published.values() for _, value, _ in stream)
        records = [record for record in given[partition] if record.offset < place.offset]
        verdict.records += len(records)
        state = first(settings, partition, explanations, given) if begin is None else begin(partition, given)
        name = "versions" if state.versions else _name(state.explained.model)
        verdict.models[name] = verdict.models.get(name, 0) + 1
        differences += compare(
            state, envelope, records, place, published, fetch, VersionSource(settings).find
        )
    return verdict


def first(
    settings: Settings,
    partition: int,
    explanations: Mapping[int, Stream],
    records: Mapping[int, Sequence[InputRecord]],
) -> PartitionState:
    """The first state of a partition: with the model of another one, after its records before an offset, where its first message says so."""
    value = next((value or b"" for _, value, _ in explanations[partition]), b"")
    begins = value.find(b'{"schema"')  # behind what a registry puts before it
    said = json.loads(value[begins:])["carried"] if begins >= 0 else None
    if said is None or said["from_partition"] is None:
        return PartitionState(settings, partition)
    donor = first(settings, said["from_partition"], explanations, records)
    for record in records[donor.partition]:
        if donor.next_offset <= record.offset < said["from_offset"]:
            donor.step(record)
    topics, identity = settings.topics, fold_settings(settings)
    snapshot = take(donor, settings.app_id, topics.records, "", identity)
    trusted = snapshot.model_copy(update={"trusted": True})
    return first_state(settings, partition, 0, said["offset"], trusted)


def compare(
    state: PartitionState,
    envelope: Envelope,
    records: Iterable[InputRecord],
    committed: TopicPartition,
    published: dict[str, Stream],
    fetch: Fetch = lambda key: None,
    models: Find = lambda name, unfit: None,
) -> list[str]:
    partition = state.partition
    expected: dict[str, Stream] = {name: [] for name in published}
    for record in records:
        for output in (envelope.wrap(partition, output) for output in state.supplied(record, fetch, models)):
            expected[output.destination].append((output.key, output.value, output.headers))
    differences = []
    for name, stream in expected.items():
        found = published[name]
        if found != stream:
            same = next(
                (i for i, pair in enumerate(zip(stream, found, strict=False)) if pair[0] != pair[1]), None
            )
            where = min(len(found), len(stream)) if same is None else same
            differences.append(
                f"{name} {partition}: {len(found)} messages, the oracle has {len(stream)}; the first difference is message {where}"
            )
    if committed.offset >= 0:
        known = json.loads(committed.metadata)
        getattr(state, "end", lambda offset: None)(
            committed.offset
        )  # an epoch may begin after the last record
        here = (
            state.next_offset,
            state.fold_digest.hex(),
            {name: [chain.seq, chain.digest.hex()] for name, chain in state.chains.items()},
        )
        there = (committed.offset, known["fold_digest"], known["chains"])
        if here != there:
            differences.append(f"offset {partition}: the metadata says {there}, the oracle {here}")
    return differences


def chain(settings: Settings, partition: int, stream: Stream) -> list[str]:
    """The digest chain, as a reader of the one topic verifies it: from the documentation, without the service."""
    digest, epoch, seq = b"", -1, 0
    for index, (_, value, _) in enumerate(stream):
        assert value is not None
        message = json.loads(value)
        if message["epoch"] != epoch:
            epoch, seq = message["epoch"], 0
            identity = f"{settings.app_id}/{settings.topics.records}/{partition}/{epoch}/explanations"
            digest = hashlib.blake2b(identity.encode(), digest_size=16).digest()
        body = value[: value.rindex(b',"digest":"')]
        digest = hashlib.blake2b(digest + body, digest_size=16).digest()
        if (message["seq"], message["digest"]) != (seq, digest.hex()):
            return [
                f"explanations {partition}: the digest chain breaks at message {index}, seq {message['seq']}"
            ]
        seq += 1
    return []


def _record(message: Message) -> InputRecord:
    offset, timestamp = message.offset() or 0, message.timestamp()[1]
    return InputRecord(offset, timestamp, message.key(), message.value(), *read_headers(message))


def _stream(messages: list[Message]) -> Stream:
    return [(m.key(), m.value(), tuple(m.headers() or ())) for m in messages]  # type: ignore[misc]


def read_topic(settings: Settings, topic: str, differences: list[str]) -> dict[int, list[Message]]:
    """Every committed message by partition, once all that is there is decided; what stays undecided is a hanging transaction."""
    common = {"bootstrap.servers": settings.servers, "group.id": "oracle", "enable.auto.commit": False}
    # A reader of committed messages would be told where the first undecided one is. Kafka answers a commit before its markers are in every partition.
    asking = Consumer({**common, "isolation.level": "read_uncommitted"})
    metadata = asking.list_topics(topic, timeout=READ_SECONDS).topics[topic]
    found: dict[int, list[Message]] = {partition: [] for partition in sorted(metadata.partitions)}
    ends = {p: asking.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1] for p in found}
    asking.close()
    left = set(found)
    reader = Consumer(
        {
            **common,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    reader.assign([TopicPartition(topic, partition, 0) for partition in found])
    deadline = time.monotonic() + READ_SECONDS
    while left and time.monotonic() < deadline:
        for message in reader.consume(10_000, 0.2):
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                deadline = time.monotonic() + READ_SECONDS
                found[partition].append(message)
            elif error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= ends[partition]:
                left.discard(partition)
    reader.close()
    differences += [
        f"{topic} {partition}: a transaction hangs before offset {ends[partition]}" for partition in left
    ]
    return found


def _topic_id(settings: Settings) -> str:
    admin, topic = AdminClient({"bootstrap.servers": settings.servers}), settings.topics.records
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=30)
    return str(described[topic].result().topic_id)


def _committed(settings: Settings, partitions: Iterable[int]) -> dict[int, TopicPartition]:
    group = Consumer({"bootstrap.servers": settings.servers, "group.id": settings.app_id})
    places = [TopicPartition(settings.topics.records, partition) for partition in partitions]
    found = group.committed(places, timeout=30)
    group.close()
    for place in found:
        if place.error is not None:
            raise KafkaException(place.error)
    return {place.partition: place for place in found}


def _name(model: Model) -> str:
    """What a model is called, a pipeline by its last step."""
    steps = getattr(model.wrapped, "steps", None)
    return type(list(steps.values())[-1]).__name__ if isinstance(steps, dict) else model.title


def main() -> int:
    verdict = check(load_settings())
    sys.stdout.write(json.dumps(asdict(verdict)) + "\n")
    return 1 if verdict.differences else 0


if __name__ == "__main__":
    sys.exit(main())
