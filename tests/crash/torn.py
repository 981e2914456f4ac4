"""``python -m tests.crash.torn --trials 100``: transactions torn on purpose, both ways, and whether the sidecar goes on by itself.

A proxy answers some of the worker's requests in the broker's place, so that the coordinator never hears of them, and then cuts the connection as a
broker's death does. *Hidden*: of the outputs; the offsets are committed, and the messages stay behind an open transaction until
``explain-sidecar transactions abort`` ends it. *Uncommitted*: of the offsets; the messages are visible. In the end every byte is compared.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import click
from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import AdminClient

from explain_sidecar.broker.embedded import Broker
from explain_sidecar.kafka.ends import PartitionEnds
from explain_sidecar.kafka.operators import abort, find_open
from tests.broker.harness import Pipeline, Process, mixed_records
from tests.crash.proxy import Proxy, proxied_broker

SECONDS = 300.0
ADD_PARTITIONS, ADD_OFFSETS, END_TXN, COMMIT_OFFSETS = 24, 25, 26, 28

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""A broker takes messages of a transaction that its coordinator has not heard of, as those did before KIP-890."""


def answer(request: bytes, error: int = 0) -> bytes:
    """What a broker says that has done what is asked, or not for this reason: AddPartitionsToTxn 0, AddOffsetsToTxn 0 and TxnOffsetCommit 0 to 3."""
    key, version = (int.from_bytes(request[at : at + 2]) for at in (0, 2))
    at = 10 + int.from_bytes(request[8:10])
    head = request[4:8] + bytes(4)  # correlation id, no throttling
    if key == ADD_OFFSETS:
        return head + error.to_bytes(2)
    compact = key == COMMIT_OFFSETS and version >= 3

    def text(at: int) -> tuple[bytes, int]:
        size = request[at] - 1 if compact else int.from_bytes(request[at : at + 2])
        begin = at + (1 if compact else 2)
        return request[at : begin + max(0, size)], begin + max(0, size)

    def length(at: int) -> tuple[int, int]:
        return (request[at] - 1, at + 1) if compact else (int.from_bytes(request[at : at + 4]), at + 4)

    def lengths(count: int) -> bytes:
        return bytes([count + 1]) if compact else count.to_bytes(4)

    if compact:
        at += 1  # tagged fields of the header
        head = request[4:8] + bytes(1) + bytes(4)
    at = text(at)[1]  # transactional id
    if key == COMMIT_OFFSETS:
        at = text(at)[1]  # group
    at += 10  # producer id and epoch
    if compact:
        at = text(text(at + 4)[1])[1]  # generation, member, instance
    topics, at = length(at)
    body = lengths(topics)
    for _ in range(topics):
        name, at = text(at)
        count, at = length(at)
        body += name + lengths(count)
        for _ in range(count):
            body += request[at : at + 4] + error.to_bytes(2) + (bytes(1) if compact else b"")
            at += 4
            if key == COMMIT_OFFSETS:
                at = text(at + 8 + (4 if version >= 2 else 0))[1] + (1 if compact else 0)
        if compact:
            body += bytes(1)
            at += 1
    return head + body + (bytes(1) if compact else b"")


class Line:
    """A pipeline behind a proxy, and its worker."""

    command, pause = ("explain_sidecar.cli", "run"), 0.1

    def __init__(self, broker: Broker, proxy: Proxy, name: str, **environment: str) -> None:
        self.proxy = proxy
        environment["EXPLAIN_KAFKA__BOOTSTRAP_SERVERS"] = f"127.0.0.1:{proxy.port}"
        self.pipeline = Pipeline(broker, name, 2, environment)
        self.records = mixed_records(2, 10_000_000, bad_every=50)
        self.worker = self.start()

    def start(self) -> Process:
        return Process(["-m", *self.command], self.pipeline.environment)

    def feed(self, count: int) -> None:
        self.pipeline.feed([next(self.records) for _ in range(count)])

    def until(self, condition: Callable[[], Any]) -> float:
        """How long it took, in seconds; it does not hold yet where Kafka does not say."""
        began = time.monotonic()
        while True:
            with suppress(KafkaException):
                if condition():
                    return time.monotonic() - began
            if not self.worker.running() or time.monotonic() > began + SECONDS:
                raise SystemExit(f"ended, or not within {SECONDS} s; the worker says:\n{self.worker.log()[-4_000:]}")  # fmt: skip
            time.sleep(self.pause)


class TornLine(Line):
    """With the ends of its outputs."""

    def __init__(self, broker: Broker, proxy: Proxy) -> None:
        super().__init__(broker, proxy, "torn", EXPLAIN_CHECKPOINT__MAX_AGE="2")
        self.settings = self.pipeline.settings
        self.ends = PartitionEnds(AdminClient({"bootstrap.servers": broker.bootstrap_servers}))
        self.places = [(self.pipeline.topics[name], p) for name in (*self.settings.outputs, "checkpoints") for p in (0, 1)]  # fmt: skip

    def hidden(self) -> list[tuple[str, int]]:
        ends = [self.ends.ask(self.places, level) for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)]  # fmt: skip
        stable, high = (
            {(w.topic, w.partition): f.result().offset for w, f in asked.items()} for asked in ends
        )
        return [place for place in self.places if stable[place] < high[place]]

    def tear(self, way: str) -> None:
        """Tear the next transaction."""
        keys = (ADD_PARTITIONS,) if way == "hidden" else (ADD_OFFSETS, COMMIT_OFFSETS)
        self.proxy.tear(keys, END_TXN, answer)
        while self.proxy.tearing:
            self.feed(4)
            time.sleep(0.05)


def main(trials: int, seed: int, ways: Sequence[str] = ("hidden", "hidden", "uncommitted")) -> None:
    rng, found, repaired, torn_outputs = random.Random(seed), list[float](), list[float](), 0
    broker, proxy = proxied_broker(None, UNVERIFIED)
    with broker:
        line = TornLine(broker, proxy)
        line.feed(60)
        line.until(lambda: line.worker.log().count("running from") >= 2)
        for trial in range(trials):
            way = ways[trial % len(ways)]
            before = len(line.worker.log())
            line.tear(way)
            torn_outputs += way == "hidden" and bool(line.hidden())
            if rng.random() < 0.06:
                before = 0
                line.worker.kill()
                line.worker = line.start()
                line.until(lambda: "assigned" in line.worker.log())
            line.feed(rng.randrange(20))
            if way == "hidden":
                said = lambda: "is not whole for readers" in line.worker.log()[before:] or "is open since offset" in line.worker.log()[before:] or not line.hidden()  # noqa: E731, B023  # fmt: skip
                found.append(line.until(said))
                torn = [one for one in find_open(line.settings, line.places) if one.torn]
                if torn and trial % 10 == 0:  # as an operator does
                    subprocess.run([sys.executable, "-P", "-m", "explain_sidecar.cli", "transactions", "abort", "--yes"], env=line.pipeline.environment, check=True, stdout=subprocess.DEVNULL)  # fmt: skip
                elif torn:
                    abort(line.settings, torn)
            repaired.append(line.until(line.pipeline.folded))
            long = f"found after {found[-1]:.1f} s, " if way == "hidden" else ""
            click.echo(f"{trial} {way}: {long}repaired after {repaired[-1]:.1f} s", err=True)
        line.worker.signal(15)
        line.worker.wait(60)
        line.pipeline.verify()
        proxy.close()
    click.echo(
        json.dumps(
            {
                "trials": trials,
                "hidden": torn_outputs,
                "longest until found, s": round(max(found, default=0.0), 1),
                "longest until repaired, s": round(max(repaired), 1),
                "bytes that differ": 0,
            }
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    main(arguments.trials, arguments.seed)
