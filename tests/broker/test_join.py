"""The join of events and late labels on a real broker, with processes that are killed; and its page, typed in."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from explain_sidecar.broker.embedded import Broker
from explain_sidecar.kafka.hidden import STANDS_SECONDS
from tests.broker.harness import Factory, Pipeline, Process
from tests.broker.test_docs import Reader

EVENTS = 3_000


def joining(pipeline: Factory, folder: Path, labels: int = 2, **environment: str) -> Pipeline:
    line = pipeline(2)
    names = {"events": f"{line.name}-in", "labels": f"{line.name}-late"}
    line.create(names["events"])
    line.create(names["labels"], labels)
    line.environment |= {f"EXPLAIN_JOIN__{side.upper()}__TOPIC": name for side, name in names.items()}
    line.environment |= {
        "EXPLAIN_JOIN__EVENTS__TIMESTAMP": "at",
        "EXPLAIN_JOIN__LABELS__TIMESTAMP": "at",
        "EXPLAIN_JOIN__UNLABELLED": "0",
        "EXPLAIN_JOIN__WAIT": "100",
        "EXPLAIN_JOIN__STATE_DIR": str(folder),
        "EXPLAIN_COMMIT__MAX_RECORDS": "500",
        **environment,
    }
    return line


def give(line: Pipeline, numbers: Sequence[int], partition_of_label: int = 2) -> None:
    """Events a second apart, each to the partition of its number; two in three with a label, 50 s later."""
    producer = Producer({"bootstrap.servers": line.broker.bootstrap_servers, "enable.idempotence": True})
    topic = line.environment["EXPLAIN_JOIN__EVENTS__TOPIC"], line.environment["EXPLAIN_JOIN__LABELS__TOPIC"]
    for n in numbers:
        event, label = {"at": 1_000 * n, "n": n}, {"at": 1_000 * n + 50_000, "label": 1}
        producer.produce(topic[0], json.dumps(event), b"%d" % n, partition=n % 2)
        if n % 3:
            producer.produce(topic[1], json.dumps(label), b"%d" % n, partition=n % partition_of_label)
        producer.poll(0)
    assert producer.flush(30) == 0


def outcomes(line: Pipeline) -> dict[int, list[tuple[int, str, int]]]:
    found: dict[int, list[tuple[int, str, int]]] = {}
    for message in line.read(line.topics["records"]):
        data = json.loads(message.value() or b"")
        headers = dict(message.headers() or [])  # type: ignore[arg-type]
        outcome = (message.partition() or 0, headers["outcome"].decode(), data["label"])
        found.setdefault(data["n"], []).append(outcome)
    return found


def test_every_event_has_one_outcome_after_kills_and_a_lost_disk(pipeline: Factory, tmp_path: Path) -> None:
    line = joining(pipeline, tmp_path)
    give(line, range(EVENTS))
    for point in ("commit.after:2", "commit.before:2"):
        once = {"SIDECAR_CRASH_POINT": point, "EXPLAIN_WORKERS__RESTARTS": "0"}
        line.cli("join", "--until-caught-up", status=1, **once)
    give(line, range(EVENTS, EVENTS + 300))
    (tmp_path / f"{line.name}-join").rename(tmp_path / "lost")
    line.cli("join", "--until-caught-up")
    (rows_0, rows_1) = json.loads(line.cli("join", "show", "--json").stdout)
    assert rows_0["events"] + rows_1["events"] == EVENTS + 300
    assert rows_0["pending"] and rows_1["pending"]
    found = outcomes(line)
    pending = rows_0["pending"] + rows_1["pending"]
    assert len(found) == EVENTS + 300 - pending
    wrong = {
        n: published
        for n, published in found.items()
        if published != [(n % 2, "matched", 1) if n % 3 else (n % 2, "expired", 0)]
    }
    assert wrong == {}
    kinds = Counter(published[0][1] for published in found.values())
    assert kinds["matched"] == rows_0["matched"] + rows_1["matched"]


def test_topics_that_are_partitioned_in_different_ways_are_refused_or_copied(
    pipeline: Factory, tmp_path: Path
) -> None:
    line = joining(pipeline, tmp_path, labels=3)
    give(line, range(300), 3)
    output = line.cli("join", "--until-caught-up", status=1).stderr
    assert f"'{line.name}-in' has 2 partitions and '{line.name}-late' has 3" in output
    assert "join.repartition" in output and "Traceback" not in output
    line.cli("join", "--until-caught-up", EXPLAIN_JOIN__REPARTITION="true", EXPLAIN_JOIN__WAIT="100000")
    found = outcomes(line)
    matched = {n for n, published in found.items() if published == [(n % 2, "matched", 1)]}
    assert matched == {n for n in range(300) if n % 3}


def test_topics_that_grow_stop_the_join_with_what_to_do_and_lose_nothing(
    pipeline: Factory, tmp_path: Path
) -> None:
    line = joining(pipeline, tmp_path)
    give(line, range(300))
    line.cli("join", "--until-caught-up")
    for side in ("EVENTS", "LABELS"):
        grow(line, line.environment[f"EXPLAIN_JOIN__{side}__TOPIC"])
    give(line, range(300, 600))
    grow(line, line.topics["records"])
    for _ in range(2):  # the changelog, and the dead letters of the join
        error = line.cli("join", "--until-caught-up", status=1).stderr
        assert "has 2 partitions and" in error and "Traceback" not in error
        grow(line, error.split("kafka-topics --alter --topic ")[1].split(" --partitions 4")[0])
    line.cli("join", "--until-caught-up")
    found = outcomes(line)
    assert len(found) > 450 and all(len(published) == 1 for published in found.values())


def grow(line: Pipeline, topic: str) -> None:
    """To 4 partitions."""
    for future in line.admin.create_partitions([NewPartitions(topic, 4)]).values():
        future.result()


def test_what_is_open_on_the_join_s_topics_is_shown(pipeline: Factory, tmp_path: Path) -> None:
    line = joining(pipeline, tmp_path)
    other = Producer({"bootstrap.servers": line.broker.bootstrap_servers, "transactional.id": f"{line.name}-join-0"})  # fmt: skip
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(line.topics["records"], b"{}", partition=1)
    assert other.flush(30) == 0
    joins = Process(["-m", "explain_sidecar.cli", "join"], line.environment)
    said = line.cli("transactions", "abort", "--yes").stdout
    assert f"{line.topics['records']} partition 1, offset 0: the transaction of producer" in said
    assert "Kafka ends it after" in said and "there is nothing to abort" in said
    stands = f"readers of {line.topics['records']} stand still at offset 0 of 1"
    line.wait_for(lambda: stands in joins.log(), STANDS_SECONDS + 30)
    other.abort_transaction(30)
    line.wait_for(lambda: "readers see what follows the open transaction again" in joins.log(), 30)
    assert joins.stop() == 0, joins.log()


def test_run_with_join_explains_what_it_joins(pipeline: Factory, tmp_path: Path) -> None:
    line = joining(pipeline, tmp_path)
    line.environment["EXPLAIN_TOPICS__RECORDS"] = f"{line.name}-made-by-the-join"
    give(line, range(600))
    process = Process(["-m", "explain_sidecar.cli", "run", "--with-join"], line.environment)
    line.wait_for(lambda: len(line.read(line.topics["explanations"])) >= 20, 180)
    process.signal(signal.SIGTERM)
    assert process.wait() == 0


def test_who_follows_the_page_gets_explanations(broker: Broker, tmp_path: Path) -> None:
    reader = Reader(broker, tmp_path)
    try:
        output = "\n".join(reader.read("docs/how-to/late-labels.md"))
    finally:
        reader.stop()
    assert "matched" in output and "position" in output
