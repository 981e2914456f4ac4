"""Workers on an in-memory cluster, a turn of their loops at a time, and what they published beside what the fold says.

In the spirit of Kafka Streams' TopologyTestDriver, but with the worker's own loop: rebalances, aborts and recovery are what is
tested. Everything happens in one thread, in an order that the test gives; the same order is the same run.
"""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import TopicPartition

from benchmarks import KEY_FILE
from benchmarks.oracle import Stream, chain, compare, first
from explain_sidecar.errors import UserError
from explain_sidecar.fold.messages import Output
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.fold.versions import Find
from explain_sidecar.formats.schemas import Fetch
from explain_sidecar.kafka.loop import Worker
from explain_sidecar.kafka.member import Member
from explain_sidecar.settings import Settings
from explain_sidecar.settings.kafka import TRANSACTION_TIMEOUT_MS
from explain_sidecar.wire.envelope import Envelope
from tests.driver.clients import kafka_of
from tests.driver.log import Cluster, Entry, Killed
from tests.driver.process import Fault, Process

RECORDS = "records"
OUTPUTS = {
    "explanations": "explanations",
    "drift": "drift",
    "alarms": "alarms",
    "dead_letters": "dead-letters",
}

TINY: dict[str, Any] = {
    "app_id": "app",
    "instance_id": "test",
    "kafka": {"bootstrap_servers": "memory"},
    "topics": {"records": RECORDS, **OUTPUTS, "checkpoints": "checkpoints"},
    "model": {"factory": "tests.driver.model:Counting"},
    "explainers": [{"kind": "ipfi", "n_samples": 1, "reservoir": {"size": 5}}],
    "emit": {"every": 3},
    "commit": {"interval_ms": 50, "max_records": 8},
    "checkpoint": {"hmac_key_file": KEY_FILE, "max_replay_seconds": 0.002, "max_age": 5, "max_overhead": 1},
}
"""Settings under which a record takes a tenth of a millisecond, and snapshots are frequent."""

SETTINGS = Settings(**TINY)

PATIENCE = 2_000
"""Turns after which a worker that has not caught up never will."""

TURN_SECONDS = 0.02
"""What a turn takes beside the looks at the clock, where a worker is waited for."""

AWAY_SECONDS = 11.0
"""Longer than the session, and than a transaction may be open."""

MAX_ENDED = 20
"""Workers that have ended by themselves, after which no other will do better."""


class Stuck(AssertionError):
    """The workers do not come to an end of the input."""


def values(count: int, seed: int = 0) -> list[bytes]:
    """Records, one in six bad: no JSON, or without a label."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        x = {"a": rng.randrange(3), "b": rng.random(), "label": rng.randrange(2)}
        bad = rng.random() < 1 / 6
        made.append(rng.choice([b"{", b'{"a": 1}']) if bad else json.dumps(x).encode())
    return made


@dataclass
class Running:
    """A worker in its process."""

    process: Process
    turns: Generator[None]
    worker: Member[Any] | None = None
    busy: bool = False
    """Whether it is in the middle of a call, at which something else happens."""


@dataclass
class Driver:
    """A cluster with the topics of these settings, and workers by slot. ``ended`` says why workers have ended by themselves."""

    settings: Settings = SETTINGS
    partitions: int = 2
    tick: float = 1e-4
    workers: dict[int, Running] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    fetch: Fetch = lambda key: None
    models: Find = lambda name, unfit: None

    def __post_init__(self) -> None:
        self.cluster = Cluster(self.tick)
        self.cluster.create(self.settings.topics.records, self.partitions)
        for name in self.settings.outputs:
            self.cluster.create(getattr(self.settings.topics, name), self.partitions)
        self.cluster.create(self.settings.topics.checkpoints, self.partitions, cleanup_policy="compact")

    # --- what happens ----------------------------------------------------------------------------------------------

    def feed(self, partition: int, records: Sequence[bytes | None]) -> None:
        log = self.cluster.log(self.settings.topics.records, partition)
        for value in records:
            stamp = 1_700_000_000_000 + 1_000 * log.high
            log.append(Entry(b"k%d" % partition, value, (("own", b"1"),), stamp))

    def start(
        self,
        slot: int = 0,
        settings: Settings | None = None,
        until_caught_up: bool = False,
        faults: Mapping[int, Fault] | None = None,
    ) -> Running:
        """A worker, up to its first turn; the one before in this slot must have ended. ``faults``: by number of its calls."""
        assert slot not in self.workers
        process = Process(self.cluster, faults or {})
        running = Running(process, (_ for _ in ()))
        self.workers[slot] = running
        self._guarded(slot, lambda: self._make(slot, running, settings or self.settings, until_caught_up))
        return running

    def _make(self, slot: int, running: Running, settings: Settings, until_caught_up: bool) -> None:
        running.worker = self.worker(settings, slot, running.process)
        running.turns = running.worker.turns(until_caught_up)

    def worker(self, settings: Settings, slot: int, process: Process) -> Member[Any]:
        return Worker(settings, slot, lambda: None, kafka_of(process))

    def turn(self, slot: int, count: int = 1) -> None:
        """Turns of a worker's loop; none where it has ended, stands still, or is in the middle of one."""
        for _ in range(count):
            running = self.workers.get(slot)
            if running is None or running.busy or running.process.paused:
                return
            self._guarded(slot, lambda turns=running.turns: next(turns))

    def _guarded(self, slot: int, action: Any) -> None:
        running = self.workers[slot]
        running.busy = True
        try:
            action()
        except StopIteration:
            del self.workers[slot]
        except Killed:
            del self.workers[slot]
        except UserError as error:
            self.ended.append(str(error))
            running.process.killed = True
            del self.workers[slot]
        finally:
            running.busy = False

    def kill(self, slot: int) -> None:
        """As by SIGKILL: between two turns, or in the middle of the call in which this is asked for."""
        running = self.workers.get(slot)
        if running is not None:
            running.process.killed = True
            if not running.busy:
                self._guarded(slot, running.turns.close)

    def lose(self, slot: int = 0) -> None:
        """``kill``, and the time after which nothing is left of the worker in the cluster."""
        self.kill(slot)
        self.cluster.clock.sleep(AWAY_SECONDS)
        self.cluster.pass_time()

    def lose_after(self, offset: int, settings: Settings | None = None) -> None:
        """A worker, lost once it has committed the first partition up to this offset."""
        self.start(0, settings)
        while self.committed()[0] < offset:
            assert 0 in self.workers, self.ended
            self.turn(0)
        self.lose()

    def stop(self, slot: int) -> None:
        """As by SIGTERM: it commits, and leaves the group."""
        running = self.workers.get(slot)
        if running is not None and running.worker is not None:
            running.worker.stopping = True
            self.turn(slot, 2)

    def finish(self) -> None:
        """Without further faults: all workers go on until everything is committed, and stop. Starts one if there is none."""
        for running in self.workers.values():
            running.process.faults.clear()
            running.process.paused = False
        before: list[int] = []
        for _ in range(PATIENCE):
            if not self.workers:
                self.start()
            for slot in list(self.workers):
                self.turn(slot)
            # Where nothing moves it is a session or a transaction that has to expire.
            self.cluster.clock.sleep(TURN_SECONDS if self.committed() != before else 10 * TURN_SECONDS)
            before = self.committed()
            if before == self.ends() or len(self.ended) > MAX_ENDED:
                break
        if self.committed() != self.ends():
            raise Stuck(f"committed {self.committed()} of {self.ends()}; ended: {self.ended}")
        for slot in list(self.workers):
            self.stop(slot)
        self.cluster.clock.sleep(
            TRANSACTION_TIMEOUT_MS / 1_000 + 1
        )  # what a dead worker left open is aborted
        self.cluster.pass_time()

    def finish_in_order(self) -> None:
        """``finish``, with no byte that differs, and no worker that has ended by itself."""
        self.finish()
        assert self.differences() == [] and self.ended == []

    def run_to_end(self, settings: Settings | None = None) -> list[str]:
        """A worker until it has caught up, or has ended by itself; returns why, if so."""
        before = len(self.ended)
        self.start(0, settings, until_caught_up=True)
        for _ in range(PATIENCE):
            self.turn(0)
            self.cluster.clock.sleep(TURN_SECONDS)
            if not self.workers:
                break
        assert not self.workers
        self.cluster.clock.sleep(AWAY_SECONDS)
        return self.ended[before:]

    # --- what has become of it -------------------------------------------------------------------------------------

    def ends(self) -> list[int]:
        return [log.high for log in self.cluster.topics[self.settings.topics.records].logs]

    def positions(self) -> dict[int, tuple[int, str]]:
        """Committed offset and its metadata of each partition that has one."""
        group = self.cluster.groups.get(self.settings.app_id)
        return {} if group is None else {where[1]: known for where, known in group.committed.items()}

    def committed(self) -> list[int]:
        positions = self.positions()
        return [positions.get(partition, (0, ""))[0] for partition in range(self.partitions)]

    def inputs(self, partition: int) -> list[InputRecord]:
        log = self.cluster.log(self.settings.topics.records, partition)
        return [
            InputRecord(offset, entry.timestamp, entry.key, entry.value, entry.headers)
            for offset, entry in enumerate(log.entries)
        ]

    def published(self, partition: int) -> dict[str, Stream]:
        """What a reader of committed records gets of each output topic."""
        found: dict[str, Stream] = {}
        for name in self.settings.outputs:
            log = self.cluster.log(getattr(self.settings.topics, name), partition)
            entries = [log.entries[offset] for offset in log.visible(0, committed=True)]
            found[name] = [(entry.key, entry.value, entry.headers) for entry in entries]
        return found

    def differences(self) -> list[str]:
        """Each byte in which the committed outputs differ from a plain loop over the fold, in words; transactions that hang."""
        envelope = Envelope(self.settings, self.cluster.topics[self.settings.topics.records].id)
        found = []
        for name in (*self.settings.outputs, "checkpoints"):
            topic = getattr(self.settings.topics, name)
            found += [f"{name} {p}: a transaction hangs" for p, log in enumerate(self.cluster.topics[topic].logs) if log.open]  # fmt: skip
        inputs = {partition: self.inputs(partition) for partition in range(self.partitions)}
        explanations = {partition: self.published(partition)["explanations"] for partition in inputs}
        for partition in range(self.partitions):
            offset, metadata = self.positions().get(partition, (-1, ""))
            place = TopicPartition(self.settings.topics.records, partition, offset, metadata=metadata)
            published = self.published(partition)
            found += chain(self.settings, partition, published["explanations"])
            records = self.inputs(partition)[: max(0, offset)]
            state = self._folded(partition, records, explanations, inputs)
            found += compare(state, envelope, records, place, published, self.fetch, self.models)
        return found

    def _folded(
        self,
        partition: int,
        records: list[InputRecord],
        explanations: dict[int, Stream],
        inputs: dict[int, list[InputRecord]],
    ) -> Any:
        """What folds these records; most runs of a test have the same ones, which need not be folded again for each."""
        state = partial(first, self.settings, partition, explanations, inputs)
        if (self.fetch, self.models) != (Driver.fetch, Driver.models):
            return state()
        key = (
            self.settings.model_dump_json(),
            partition,
            len(records),
            str(explanations[partition][:1]),
            *map(tuple, inputs.values()),
        )
        if key not in _FOLDED:
            if len(_FOLDED) > MOST_FOLDED:
                _FOLDED.clear()
            _FOLDED[key] = Folded(state(), records)
        return _FOLDED[key]


class Folded:
    """What the fold gives of some records: to ``compare`` it is a ``PartitionState``."""

    def __init__(self, state: PartitionState, records: list[InputRecord]) -> None:
        self.partition = state.partition
        self._outputs = {record.offset: state.step(record) for record in records}
        self.next_offset, self.fold_digest, self.chains = state.next_offset, state.fold_digest, state.chains

    def supplied(self, record: InputRecord, *_: Any) -> list[Output]:
        return self._outputs[record.offset]


MOST_FOLDED = 100

_FOLDED: dict[tuple[Any, ...], Folded] = {}
