"""The join of events and late labels on a real broker, with processes that are killed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer

from explain_sidecar.kafka.hidden import STANDS_SECONDS
from tests.broker.harness import Factory, Pipeline, Process

EVENTS = 3_000


def joining(pipeline: Factory, folder: Path) -> Pipeline:
    line = pipeline(2)
    names = {"events": f"{line.name}-in", "labels": f"{line.name}-late"}
    line.create(names["events"])
    line.create(names["labels"])
    line.environment |= {f"EXPLAIN_JOIN__{side.upper()}__TOPIC": name for side, name in names.items()}
    line.environment |= {
        "EXPLAIN_JOIN__EVENTS__TIMESTAMP": "at",
        "EXPLAIN_JOIN__LABELS__TIMESTAMP": "at",
        "EXPLAIN_JOIN__UNLABELLED": "0",
        "EXPLAIN_JOIN__WAIT": "100",
        "EXPLAIN_JOIN__STATE_DIR": str(folder),
        "EXPLAIN_COMMIT__MAX_RECORDS": "500",
    }
    return line


def give(line: Pipeline, numbers: Sequence[int]) -> None:
    """Events a second apart, each to the partition of its number; two in three with a label, 50 s later."""
    producer = Producer(
        {"bootstrap.servers": line.broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    )
    topic = line.environment["EXPLAIN_JOIN__EVENTS__TOPIC"], line.environment["EXPLAIN_JOIN__LABELS__TOPIC"]
    for n in numbers:
        event, label = {"at": 1_000 * n, "n": n}, {"at": 1_000 * n + 50_000, "label": 1}
        producer.produce(topic[0], json.dumps(event), b"%d" % n, partition=n % 2)
        if n % 3:
            producer.produce(topic[1], json.dumps(label), b"%d" % n, partition=n % 2)
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


def test_run_with_join_shows_what_is_open_on_its_topics_and_explains_what_it_joins(
    pipeline: Factory, tmp_path: Path
) -> None:
    line = joining(pipeline, tmp_path)
    other = Producer({"bootstrap.servers": line.broker.bootstrap_servers, "transactional.id": f"{line.name}-join-0", "log_level": 0})  # fmt: skip
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(line.topics["records"], b"{}", partition=1)
    events = line.environment["EXPLAIN_JOIN__EVENTS__TOPIC"]
    other.produce(events, b"{}", partition=1)
    assert other.flush(30) == 0
    process = Process(["-m", "explain_sidecar.cli", "run", "--with-join"], line.environment)
    said = line.cli("transactions", "abort", "--yes").stdout
    assert f"{line.topics['records']} partition 1, offset 0: the transaction of producer" in said
    assert f"{events} partition 1, offset 0: the transaction of producer" in said
    assert "Kafka ends it after" in said and "there is nothing to abort" in said
    stands = f"readers of {line.topics['records']} stand still at offset 0 of 1"
    line.wait_for(lambda: stands in process.log(), STANDS_SECONDS + 30)
    other.abort_transaction(30)
    line.wait_for(lambda: "readers see what follows the open transaction again" in process.log(), 30)
    give(line, range(600))
    line.wait_for(lambda: len(line.read(line.topics["explanations"])) >= 20, 180)
    assert process.stop() == 0, process.log()
