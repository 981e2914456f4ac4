"""Topics whose settings do not suit the sidecar, and topics that gain partitions."""

import json
from itertools import islice
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions

from explain_sidecar.kafka import stream
from tests.broker.harness import Factory, Pipeline, configure, mixed_records


def test_a_compacted_input_is_refused(memory: Factory) -> None:
    line = memory(1)
    configure(line, "records", cleanup_policy="compact")
    assert "is compacted" in line.fails()


def test_a_short_retention_is_warned_about(memory: Factory) -> None:
    line = memory(1, EXPLAIN_CHECKPOINT__MAX_AGE="100000000000")
    configure(line, "records", retention_ms="3600000000000")
    line.feed(mixed_records(1, 10))
    assert "10 × checkpoint.max_age" in line.run_to_end().log()


def test_unequal_partition_counts_are_an_error_and_missing_topics_can_be_forbidden(memory: Factory) -> None:
    line = memory(2, EXPLAIN_TOPICS__CREATE="false")
    assert "topics.create is false" in line.fails()
    for topic in ("explanations", "drift", "dead_letters"):
        line.create(line.topics[topic], 2)
    line.create(line.topics["checkpoints"], 3, cleanup_policy="compact")
    assert (
        f"{line.topics['checkpoints']!r} has 3 partitions and {line.topics['records']!r} has 2"
        in line.fails()
    )


def grow(line: Pipeline, partitions: int) -> None:
    """Give the records topic more partitions, and wait until everybody hears of them."""
    records = line.topics["records"]
    for future in line.admin.create_partitions(
        [NewPartitions(records, partitions)], request_timeout=30
    ).values():
        future.result()
    for partition in range(line.partitions, partitions):
        line.inputs[partition] = []
    line.partitions = partitions
    line.wait_for(
        lambda: len(line.admin.list_topics(records, timeout=5).topics[records].partitions) == partitions
    )


def test_what_follows_an_output_reads_the_partitions_that_it_gains(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "LOOK_SECONDS", 0.0)
    line = memory(1)
    line.feed(mixed_records(1, 100))
    line.run_to_end()
    with line.in_place_of_kafka():
        followed = stream.messages(line.settings, line.topics["explanations"], "newest")
        assert any(message is not None for message in islice(followed, 5))
        grow(line, 2)
        line.feed(mixed_records(2, 200, seed=1))
        line.run_to_end()
        found = {message.partition() for message in islice(followed, 100) if message is not None}
        followed.close()  # type: ignore[attr-defined]
    assert found == {0, 1}


def test_an_input_that_gains_partitions_has_them_folded_with_the_models_that_had_their_keys(
    pipeline: Factory,
) -> None:
    """While it runs, with a worker that is killed then; and while it is stopped."""
    line = pipeline(1, EXPLAIN_KAFKA__CONFIG='{"topic.metadata.refresh.interval.ms": 500}')
    line.feed(mixed_records(1, 100))
    process = line.worker()
    line.wait_for(lambda: line.committed()[0].offset == 100)
    grow(line, 2)
    line.feed(mixed_records(2, 200, seed=1))
    line.wait_for(lambda: line.committed()[1].offset == 100)
    process.kill()
    line.feed(mixed_records(2, 100, seed=2))
    line.run_to_end()
    grow(line, 4)
    line.feed(mixed_records(4, 200, seed=3))
    line.run_to_end()
    line.verify()
    said = [json.loads(messages[0][1] or b"")["carried"] for messages in line.published()["explanations"].values()]  # fmt: skip
    assert [carried and carried["from_partition"] for carried in said] == [None, 0, 0, 1]
    assert [carried["from_offset"] for carried in said[2:]] == [250, 150]
