"""The crash campaign: faults in a seeded order against workers on a real broker, and the oracle at the end."""

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from service.errors import UserError
from service.run import worker_environment
from tests.broker.harness import Pipeline, mixed_records
from tests.crash.faults import KINDS, MIN_WORKERS, Recovery
from tests.crash.fleet import Fleet
from tests.crash.proxy import SESSION_SECONDS, proxied_broker

PARTITIONS = 8
RECORDS_PER_SECOND = 160
SLICE = 25
"""Faults between two verdicts; each slice has a broker of its own."""

PROBE = b"a probe that is no JSON: it comes out as a dead letter at once"


@dataclass
class Verdict:
    """What a slice of the campaign survived; without ``problems`` it survived all of it."""

    faults: int
    membership: str
    seconds: float
    records: int
    messages: int
    bytes: int
    points: dict[str, int]
    ended: dict[str, int]
    recoveries: list[Recovery]
    probe_seconds: float
    problems: list[str]


@dataclass
class Done:
    """A fault that was injected."""

    index: int
    kind: str
    detail: str
    at: float
    seconds: float


def order_of_faults(seed: int, index: int, kinds: list[str]) -> str:
    """The kind of a fault: every kind comes once before any comes again."""
    deck, position = divmod(index, len(kinds))
    return random.Random(f"{seed}/{deck}").sample(kinds, len(kinds))[position]


class Campaign:
    """One slice: workers, a producer that never rests, faults, and the verdict."""

    def __init__(self, seed: int, number: int, data: Path | None = None) -> None:
        self.broker, self.proxy = proxied_broker(data)
        self.broker.start()
        self.recoveries: list[Recovery] = []
        self.static = bool(number // SLICE % 2)
        name = f"crash-{seed}-{number}"
        environment = {
            "EXPLAIN_LOG__FORMAT": "json",
            "EXPLAIN_DRIFT__ENABLED": "true",
            "EXPLAIN_DRIFT__WINDOW": "200",
            "EXPLAIN_DRIFT__BOOTSTRAP": "2",
            "EXPLAIN_DRIFT__MAX_SAMPLES": "100",
            "EXPLAIN_CHECKPOINT__MAX_REPLAY_SECONDS": "1",
            "EXPLAIN_CHECKPOINT__MAX_AGE": "4",
            "EXPLAIN_CHECKPOINT__MAX_OVERHEAD": "1",
            "EXPLAIN_KAFKA__CONFIG": json.dumps({"session.timeout.ms": int(1000 * SESSION_SECONDS)}),
            **({"EXPLAIN_KAFKA__GROUP_INSTANCE_ID": name} if self.static else {}),
        }
        self.pipeline = Pipeline(self.broker, name, PARTITIONS, environment)
        behind_proxy = {"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{self.proxy.port}"}
        self.fleet = Fleet({**self.pipeline.environment, **behind_proxy})
        self._feeding = threading.Event()
        self._feeding.set()
        self._producer = threading.Thread(target=self._feed, args=(f"{seed}/{number}",), daemon=True)
        self._producer.start()
        for slot in range(MIN_WORKERS + 1):
            self.fleet.start(slot)

    def inject(self, kind: str, seed: str) -> str:
        """One fault; returns what it did."""
        rng = random.Random(seed)
        detail = KINDS[kind](self, rng)
        self.fleet.wait(rng.uniform(0.3, 2))
        return detail

    def start_broker(self) -> None:
        """A machine under load may need more than one try until the broker answers."""
        for attempt in range(3):
            try:
                self.broker.start()
                return
            except UserError:
                if attempt == 2:
                    raise

    def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Tend the workers until a condition holds; False where it does not in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.fleet.wait(0.1)
        return True

    def verdict(self, faults: int, seconds: float) -> Verdict:
        """Probe every partition, stop, and compare every byte with the oracle."""
        self._feeding.clear()
        self._producer.join()
        problems = []
        ends = self._ends()
        if not self.until(lambda: self._committed() == ends, 90):
            problems.append(f"not caught up within 90 s: committed {self._committed()} of {ends}")
        probe_seconds = self._probe(problems)
        for slot in list(self.fleet.live):
            self.fleet.stop(slot)
        if not self.until(lambda: self._members() == 0, 2 * SESSION_SECONDS):
            problems.append(f"the group still has {self._members()} members after they all left")
        done = subprocess.run(
            [sys.executable, "-m", "tests.crash.oracle"],
            env={**worker_environment(), **self.pipeline.environment},
            capture_output=True,
            text=True,
        )
        compared = json.loads(done.stdout) if done.stdout else {"differences": [done.stderr]}
        return Verdict(
            faults,
            "static" if self.static else "dynamic",
            seconds,
            compared.get("records", 0),
            compared.get("messages", 0),
            compared.get("bytes", 0),
            dict(self.fleet.points),
            dict(self.fleet.ended),
            self.recoveries,
            probe_seconds,
            [*problems, *self.fleet.failures, *compared["differences"]],
        )

    def close(self) -> None:
        self._feeding.clear()
        self.fleet.close()
        self.proxy.close()
        self.broker.stop()

    def _feed(self, seed: str) -> None:
        """Records at an even rate, through every crash of the broker, in order and without doubles."""
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        records = mixed_records(PARTITIONS, 10**6, random.Random(seed).randrange(2**31), bad_every=50)
        topic = self.pipeline.topics["records"]
        for partition, value in records:
            if not self._feeding.is_set():
                break
            producer.produce(topic, value, b"k%d" % partition, partition=partition)
            producer.poll(1 / RECORDS_PER_SECOND)
        assert producer.flush(60) == 0

    def _probe(self, problems: list[str]) -> float:
        topic = self.pipeline.topics["dead_letters"]

        def probes() -> int:
            return sum(message.value() == PROBE for message in self.pipeline.read(topic))

        started = time.monotonic()
        self.pipeline.feed((partition, PROBE) for partition in range(PARTITIONS))
        if not self.until(lambda: probes() == PARTITIONS, 30):
            problems.append(f"{probes()} of {PARTITIONS} probes came through within 30 s")
        return time.monotonic() - started

    def _ends(self) -> list[int]:
        messages = Counter(m.partition() for m in self.pipeline.read(self.pipeline.topics["records"]))
        return [messages[partition] for partition in range(PARTITIONS)]

    def _committed(self) -> list[int]:
        return [place.offset for _, place in sorted(self.pipeline.committed().items())]

    def _members(self) -> int:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        name = self.pipeline.name
        return len(admin.describe_consumer_groups([name])[name].result().members)


def run_slice(
    seed: int,
    indices: range,
    kinds: list[str],
    disk: Path | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[list[Done], Verdict]:
    """Inject the faults with these indices, and compare; ``disk`` is a folder for the broker's data that can be filled."""
    data = None if disk is None else disk / f"broker-{indices.start}"
    campaign = Campaign(seed, indices.start, data)
    started, done = time.monotonic(), []
    try:
        for index in indices:
            kind, began = order_of_faults(seed, index, kinds), time.monotonic()
            detail = campaign.inject(kind, f"{seed}/{index}")
            done.append(Done(index, kind, detail, began - started, time.monotonic() - began))
            tell(detail)
        return done, campaign.verdict(len(done), time.monotonic() - started)
    finally:
        campaign.close()
        if data is not None:
            shutil.rmtree(data, ignore_errors=True)
