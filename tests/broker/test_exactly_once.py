"""The promise: what is published after kills, rebalances and aborts is what an uninterrupted run publishes, byte for byte."""

import itertools
import json
import random
import re
import time

import pytest
from confluent_kafka import Message

from benchmarks import oracle
from explain_client import Predictions
from explain_sidecar.errors import AGAIN
from explain_sidecar.kafka.checkpoints import Pointer
from tests.broker.harness import Factory, Pipeline, mixed_records
from tests.broker.memory import Member
from tests.driver.consumer import Consumer


def test_every_record_is_explained_once_with_exact_counts_offsets_and_sequence_numbers(
    memory: Factory,
) -> None:
    line = memory(4)
    line.feed(mixed_records(4, 2_000))
    line.run_to_end()
    line.verify()
    messages = line.explanations()
    assert [(m["partition"], m["offset"], m["records"], m["seq"]) for m in messages] == [
        (partition, 10 * k + 9, 10 * k + 10, k) for partition in range(4) for k in range(50)
    ]
    assert {m["status"] for m in messages[2:50]} == {"ready"}
    assert messages[0]["status"] == "warming"
    before = line.published()
    line.run_to_end()
    assert line.published() == before
    for partition, committed in line.committed().items():
        pointer = Pointer.decode(committed.metadata)
        assert pointer is not None and len(committed.metadata.encode()) < 1_000
        assert pointer.next_offset == committed.offset == 500
        assert pointer.chains["explanations"][0] == 50
        keys = {
            m.offset(): m.key() for m in line.read(line.topics["checkpoints"]) if m.partition() == partition
        }
        assert keys[pointer.first_chunk].endswith(f"/{partition}/0".encode())
        assert keys[pointer.manifest].endswith(b"/manifest")


def test_bad_records_go_to_dead_letters_and_leave_the_others_as_they_are(memory: Factory) -> None:
    line = memory(1, EXPLAIN_RECORD__DELETES="dead_letter")
    good = [value for _, value in mixed_records(1, 200)]
    bad = [
        b"",
        b"{",
        None,
        b"[]",
        b'{"a": 1}',
        b'{"a": 1, "label": null}',
        b'{"a": NaN, "label": 1}',
        b'{"a": [1], "label": 1}',
    ]
    bad += [
        b'{"a": 1, "label": {}}',
        b'{"a": "text", "label": 1}',
        json.dumps({"a": "x" * 2_000, "label": 1}).encode(),
        b'{"label": 1}',
    ]
    values: list[bytes | None] = [*good[:50], *bad, *good[50:]]
    line.feed([(0, value) for value in values], headers=[("trace", b"1")])
    line.run_to_end()
    line.verify()
    letters = line.published()["dead_letters"][0]
    assert [value for _, value, _ in letters] == list(bad)
    assert [dict(headers)["trace"] for _, _, headers in letters] == [b"1"] * len(bad)
    assert [dict(headers)["__explain.errors.class"] for _, _, headers in letters] == [
        b"not_json", b"not_json", b"null_value", b"not_object", b"missing_label", b"missing_label", b"not_json", b"nested_feature",
        b"bad_label", b"feature_type", b"string_too_long", b"no_features",
    ]  # fmt: skip
    alone = memory(1)
    alone.feed([(0, value) for value in good])
    drop = (
        "app_id",
        "topic",
        "offset",
        "timestamp",
        "rejected",
        "rejected_recently",
        "digest",
        "importance",
        "performance",
        "model",
    )
    kept = [{k: v for k, v in m.items() if k not in drop} for m in line.explanations()]
    alone.run_to_end()
    assert kept == [{k: v for k, v in m.items() if k not in drop} for m in alone.explanations()]


def traced(number: int) -> list[tuple[str, bytes]]:
    return [("traceparent", b"00-%032x-%016x-01" % (number, number)), ("tracestate", b"vendor=%d" % number)]


def asked(count: int, seed: int) -> list[tuple[int, bytes | None]]:
    """Records of which every third has no label, each with an id, and some are bad."""
    made: list[tuple[int, bytes | None]] = []
    for index, (partition, value) in enumerate(mixed_records(4, count, seed, bad_every=50)):
        if value is not None and value.startswith(b'{"a": ') and b'"b"' in value:
            x = {**json.loads(value), "id": f"{seed}-{index}"}
            if index % 3 == 0:
                del x["label"]
            value = json.dumps(x).encode()
        made.append((partition, value))
    return made


def test_killed_twice_it_publishes_the_same_bytes(pipeline: Factory) -> None:
    line = pipeline(4, EXPLAIN_COMMIT__INTERVAL_MS="50", EXPLAIN_CHECKPOINT__MAX_REPLAY_SECONDS="0.02")
    line.environment |= {
        "EXPLAIN_KAFKA__GROUP_INSTANCE_ID": line.name,  # a restart need not wait for the session of the one that was killed
        "EXPLAIN_RECORD__UNLABELLED": "predict",
        "EXPLAIN_DRIFT": '{"enabled": true, "window": 80, "bootstrap": 2}',
        "EXPLAIN_MODEL__NAME": "linear",
        "EXPLAIN_COMMIT__MAX_RECORDS": "40",
        "EXPLAIN_CLOUDEVENTS__ENABLED": "true",
        "EXPLAIN_TRACING__ENDPOINT": "http://127.0.0.1:1",  # where no collector is
        "EXPLAIN_PREDICTIONS__ENABLED": "true",
        "EXPLAIN_PREDICTIONS__MOST": "1",
        "EXPLAIN_PREDICTIONS__EVERY": "8",
        "EXPLAIN_RECORD__ID": "id",
    }

    def done() -> int:
        return sum(offset.offset for offset in line.committed().values())

    line.feed(asked(1_600, 1), traced(1))
    first = line.worker()
    line.wait_for(lambda: first.log().count("running from") == 4)
    time.sleep(random.Random(1).uniform(0.05, 0.4))
    first.kill()
    line.feed(asked(400, 2), traced(2))
    # The last one snapshots nothing but its beginning, so that something is left to replay.
    process = line.worker(EXPLAIN_CHECKPOINT__MAX_REPLAY_SECONDS="100")
    before = done()
    line.wait_for(lambda: done() > before + 300)
    process.kill()
    line.feed(asked(400, 3), traced(3))
    assert re.search(r"[1-9]\d* offsets to replay", line.run_to_end().log())
    line.verify()
    published = line.published()
    assert len(published["drift"][0]) >= 2
    headers = [dict(headers) for name in ("explanations", "drift") for _, _, headers in published[name][0]]
    assert len({header["traceparent"] for header in headers}) == 3
    assert len({header["ce_id"] for header in headers}) == len(headers)
    the_client_reads_each_prediction_once(line)


def the_client_reads_each_prediction_once(line: Pipeline) -> None:
    with Predictions(line.broker.bootstrap_servers, line.topics["predictions"], follow=False) as stream:
        found = list(stream)
    assert len(found) == len({(one.partition, one.offset) for one in found}) > 250
    for one in found:
        given = json.loads(line.inputs[one.partition][one.offset].value or b"")
        assert (one.id, one.label is None) == (given.get("id"), "label" not in given)
    told = line.cli("tail", "--predictions", "--from-beginning", "--json", "--until-caught-up").stdout
    assert len(told.splitlines()) == len(found)


def test_who_is_replaced_under_the_same_instance_id_or_as_the_same_static_member_ends_in_words(
    pipeline: Factory,
) -> None:
    line = pipeline(2)
    replacements: list[tuple[dict[str, str], dict[str, str], str]] = [
        ({}, {}, "duplicate instance id"),
        (static := {"EXPLAIN_KAFKA__GROUP_INSTANCE_ID": "same"}, static | {"EXPLAIN_INSTANCE_ID": "other"}, "error: the consumer cannot go on: "),
    ]  # fmt: skip
    for first_has, second_has, said in replacements:
        line.feed(mixed_records(2, 200))
        first = line.worker(0, **first_has)
        line.wait_for(lambda: "running from" in first.log())  # noqa: B023
        second = line.worker(0, **second_has)
        line.wait_for(lambda: "assigned" in second.log())  # noqa: B023
        line.feed(mixed_records(2, 200, seed=1))
        assert first.wait(60) == AGAIN
        assert said in first.log(), first.log()
        assert "Traceback" not in first.log()
        line.wait_for(line.folded)
        second.stop()
    line.verify()


def test_a_compacted_checkpoint_topic_still_restores(pipeline: Factory) -> None:
    line = pipeline(1)
    line.create(
        line.topics["checkpoints"], 1,
        cleanup_policy="compact", min_cleanable_dirty_ratio="0.001", segment_ms="200", max_compaction_lag_ms="100", delete_retention_ms="0",
    )  # fmt: skip
    for seed in range(
        4
    ):  # each run leaves a snapshot, and the last a new segment, so that the old ones can be compacted
        line.feed(mixed_records(1, 200, seed))
        line.run_to_end()
    messages_of_a_snapshot = 2
    line.wait_for(lambda: len(line.read(line.topics["checkpoints"])) <= 3 * messages_of_a_snapshot)
    line.feed(mixed_records(1, 300, seed=4))
    process = line.run_to_end()
    assert "restored a snapshot" in process.log()
    line.verify()


def test_the_oracle_waits_for_a_transaction_and_says_which_hangs(
    memory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = memory(1)
    topic = line.topics["records"]
    line.feed([(0, b"committed")])
    producer = line.kafka.producer({"transactional.id": line.name, "transaction.timeout.ms": 60_000})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", None, 0)
    assert producer.flush(30) == 0

    def read(seconds: float) -> tuple[list[bytes | None], list[str]]:
        monkeypatch.setattr(oracle, "READ_SECONDS", seconds)
        differences: list[str] = []
        found = oracle.read_topic(line.settings, topic, differences)[0]
        return [message.value() for message in found], differences

    assert read(0.1) == ([b"committed"], [f"{topic} 0: a transaction hangs before offset 2"])
    reads = itertools.count()

    def consume(self: Member, count: int, timeout: float) -> list[Message]:
        if next(reads) == 3:
            producer.commit_transaction(30)
        return Consumer.consume(self, count, timeout)

    monkeypatch.setattr(Member, "consume", consume)
    assert read(30) == ([b"committed", b"undecided"], [])
