"""Topics whose settings do not suit the sidecar, and topics that gain partitions."""

import json

from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from explain_sidecar.kafka.topics import WITHOUT_IDS
from tests.broker.harness import Factory, Pipeline, mixed_records
from tests.crash.proxy import proxied_broker

METADATA = 3


def test_a_compacted_input_is_refused(pipeline: Factory) -> None:
    line = pipeline(1)
    resource = ConfigResource(ConfigResource.Type.TOPIC, line.topics["records"])
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    for future in line.admin.incremental_alter_configs([resource]).values():
        future.result()
    assert "is compacted" in line.fails()


def test_a_short_retention_is_warned_about(pipeline: Factory) -> None:
    line = pipeline(1, EXPLAIN_CHECKPOINT__MAX_AGE="100000000000")
    resource = ConfigResource(ConfigResource.Type.TOPIC, line.topics["records"])
    resource.add_incremental_config(
        ConfigEntry("retention.ms", "3600000000000", incremental_operation=AlterConfigOpType.SET)
    )
    for future in line.admin.incremental_alter_configs([resource]).values():
        future.result()
    line.feed(mixed_records(1, 10))
    assert "10 × checkpoint.max_age" in line.run_to_end().log()


def test_unequal_partition_counts_are_an_error_and_missing_topics_can_be_forbidden(pipeline: Factory) -> None:
    line = pipeline(2, EXPLAIN_TOPICS__CREATE="false")
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
    for future in line.admin.create_partitions([NewPartitions(records, partitions)]).values():
        future.result()
    for partition in range(line.partitions, partitions):
        line.inputs[partition] = []
    line.partitions = partitions
    line.wait_for(
        lambda: len(line.admin.list_topics(records, timeout=5).topics[records].partitions) == partitions
    )


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


def test_brokers_without_topic_ids_are_named_and_do_no_harm_once_they_are_upgraded() -> None:
    broker, proxy = proxied_broker(None)
    with broker:
        line = Pipeline(broker, "without-ids", partitions=2)
        line.environment["EXPLAIN_KAFKA__BOOTSTRAP_SERVERS"] = f"127.0.0.1:{proxy.port}"
        proxy.limits[METADATA] = 9  # that of Kafka 2.7
        line.feed(mixed_records(2, 100))
        assert WITHOUT_IDS in line.run_to_end().log()
        found = json.loads(line.cli("check", "--json").stdout)["checks"]
        assert [check["detail"] for check in found if check["what"] == "topic ids"] == [WITHOUT_IDS]
        line.feed(mixed_records(2, 100, seed=1))
        line.run_to_end()
        proxy.limits.clear()
        line.feed(mixed_records(2, 100, seed=2))
        assert WITHOUT_IDS not in line.run_to_end().log()
        line.verify()
        proxy.close()
