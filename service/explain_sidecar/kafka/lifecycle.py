"""One partition of a worker, from assignment to the end: waiting → restoring → replaying → running (⇄ held) → (gone)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, takewhile

from confluent_kafka import KafkaException, TopicPartition

from explain_core.artefacts.artefact import Artefact
from explain_sidecar.crash_points import reach
from explain_sidecar.fold.carry import Carry
from explain_sidecar.fold.messages import Output
from explain_sidecar.fold.metrics import Samples, measure
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.fold.versions import Unfit
from explain_sidecar.kafka.checkpoints import Location, point, to_records
from explain_sidecar.kafka.recovery import Cluster, Recovered, Recovery, Target
from explain_sidecar.kafka.sent import Keyed
from explain_sidecar.kafka.totals import Phase
from explain_sidecar.snapshots.snapshot import Manifest, take

ENDS_SECONDS = 5.0
"""How old the ends of the output topics in a snapshot's pointer may be: to ask for them takes as long as the rest of the snapshot."""

log = logging.getLogger(__name__)


class Held(Exception):
    """A record waits for the model that served it."""


class OwnedPartition:
    """A partition assigned to this worker: its state, and how much of it is committed.

    Another thread may read its properties; only its own methods change it.
    """

    def __init__(self, cluster: Cluster, partition: int) -> None:
        self._clock = cluster.clock
        self._cluster = cluster
        self._recovery = Recovery(cluster, partition)
        self._target: Target | None = None
        self._carry: Carry | None = None
        self._proved = False
        self._withheld: list[Output] = []
        """What a replay gives and readers do not see: published once it has reached its end."""
        self._taken: Manifest | None = None
        self._topic = cluster.settings.topics.records
        self.partition = partition
        self.phase: Phase = "waiting"
        self.state: PartitionState | None = None
        self.location: Location | None = None
        self.consuming = False
        self.since = self.snapshot_at = self._clock.monotonic()
        self.stored: Manifest | None = None
        self.stored_at = 0.0
        self.metrics: dict[str, Samples] = {}
        self.caught_up_at = -1
        self.committed_offset = -1
        self.folded_at: int | None = None
        """Kafka's time of the newest record that this worker folded, in ms since 1970."""
        self.fold_seconds = 0.0
        self._stored_learnt = 0
        self._ends_until = 0.0
        self.held: str | None = None
        """The version of the model that the next record waits for."""

    @property
    def _restored(self) -> PartitionState:
        """The state, once it is found."""
        assert self.state is not None
        return self.state

    @property
    def learnt(self) -> bool:
        """Whether records were folded with schemas or models that no snapshot has: the next commit needs a new one."""
        return self.state is not None and self.state.learnt > self._stored_learnt

    @property
    def dirty(self) -> bool:
        """Whether the state has folded something that no committed offset covers."""
        return (
            self.phase == "running"
            and self.state is not None
            and self.state.next_offset > self.committed_offset
        )

    @property
    def unsaved(self) -> bool:
        """Whether the newest snapshot, if there is one, is of an earlier state."""
        return self.state is not None and (
            self.location is None or self.location.next_offset < self.state.next_offset
        )

    @property
    def position(self) -> int | None:
        """Offset up to which the input has been folded, counting control records; None before there is a state."""
        return None if self.state is None else max(self.state.next_offset, self.caught_up_at)

    @property
    def replay_left(self) -> int:
        """Offsets between the state and the end of its replay."""
        if self._target is None or self.state is None:
            return 0
        return max(0, self._target.end - self.state.next_offset)

    @property
    def reason(self) -> str:
        """Why it does not go on; empty where it does."""
        if self.held is not None:
            return f"until the model's version {self.held!r} can be loaded"
        return self._recovery.delay if self.phase == "waiting" else ""

    def reached(self, offset: int) -> bool:
        """Whether everything before an offset has been folded and is no replay."""
        position = self.position
        return self.phase == "running" and position is not None and position >= offset

    # --- recovery and input ------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """One slice of recovery. Raises ``RecoveryError`` where the past does not fit."""
        found = self._recovery.advance()
        self.phase = self._recovery.phase
        if found is not None:
            self._take_up(found)

    def consume(self) -> list[TopicPartition]:
        """The offset at which input begins; from now on it is folded."""
        self.consuming = True
        return [TopicPartition(self._topic, self.partition, self._restored.next_offset)]

    def inputs(self) -> list[TopicPartition]:
        """The topic partitions consumed for it, if any."""
        return [TopicPartition(self._topic, self.partition)] if self.consuming else []

    def fold(
        self, record: InputRecord, following: Iterable[InputRecord]
    ) -> tuple[list[InputRecord], list[Output]]:
        """Fold a record of the input, and as many of those that follow it as go with it; returns these, and what is to be published now.

        Raises ``Held`` where the record waits for its model: nothing has happened, and the partition is to ``consume`` again once it is
        ``found``.
        """
        state, target = self._restored, self._target
        if record.offset < state.next_offset:
            return [record], []
        started = self._clock.monotonic()
        known = target is not None and record.offset < target.offset
        if target is not None:  # what comes at its offset, or behind it, is looked at one by one
            until = target.offset
            following = takewhile(lambda one: one.offset < until, following if known else ())
        folded, outputs = state.fold(chain([record], following))
        if not folded:
            # What a replay does not find in its snapshot was not there: the commit would have stored a snapshot with it.
            if known:
                outputs = state.supplied(record, lambda key: None, lambda name, unfit: None)
            else:
                outputs = state.supplied(record, self._cluster.schema, self._model)
            folded = [record]
        self.fold_seconds += self._clock.monotonic() - started
        self.folded_at = folded[-1].timestamp
        if target is None:
            return folded, outputs
        for _ in folded:
            reach("replay")
        self._withheld += [output for output in outputs if not self._is_visible(output, target)]
        self._after_replay(state.next_offset)
        if self.phase == "replaying":
            return folded, []
        outputs, self._withheld = self._withheld, []
        return folded, outputs

    def _is_visible(self, output: Output, target: Target) -> bool:
        """Whether readers see a message already; one that they do not see was sent in a transaction that was committed in part.

        An output that is off by now gets nothing more, and its topic is not looked at: it may be gone.
        """
        if output.destination not in self._cluster.settings.outputs:
            return True
        state, seen = self._restored, target.visible.get(output.destination)
        if seen is None or state.chains[output.destination].seq <= seen.seq:
            return seen is not None
        here = self._recovery.past.message(output.destination, output.value, output.headers)
        assert here is not None
        if here.seq > seen.seq:
            return False
        if self._proved and here.seq == seen.seq and here.digest != seen.digest:
            self._diverged(Target(state.next_offset, chains={output.destination: seen.link}), state)
        return True

    def _model(self, name: str, unfit: Unfit) -> Artefact | None:
        found = self._cluster.model(name, unfit)
        if found is None and self._cluster.settings.models.unknown == "wait":
            self.held, self.consuming = name, False
            log.warning(
                "held until the model's version %r can be loaded, which served the next record: %s",
                name,
                "models.unknown is wait",
                extra={"partition": self.partition, "offset": self._restored.next_offset},
            )
            raise Held(name)
        return found

    def found(self) -> bool:
        """Whether the model that the next record waits for is there now."""
        versions = self._restored.versions
        assert self.held is not None and versions is not None
        if self._cluster.model(self.held, versions.unfit) is None:
            return False
        self.held = None
        return True

    def at_end(self, offset: int) -> None:
        """The input has nothing more before this offset (its last records may have been control records)."""
        self.caught_up_at = offset
        if self.phase == "replaying":
            self._after_replay(offset)

    def _take_up(self, found: Recovered) -> None:
        self.state, self.location, self._target = found.state, found.location, found.target
        self._carry = found.carry
        self.stored, self.stored_at = found.stored, found.stored_at
        self._stored_learnt = found.state.learnt
        self.snapshot_at = self._clock.monotonic()
        self.phase = "replaying"
        self._after_replay(found.state.next_offset)

    def _after_replay(self, position: int) -> None:
        """Go on to running where the replay has reached its end, once it is proved to be the state that published."""
        target, state = self._target, self._restored
        assert target is not None
        if position >= target.offset and not self._proved:
            self._proved = True
            if target.differences(state):
                self._diverged(target, state)
            elif self.location is not None:
                self.committed_offset = target.offset
        if position < target.end:
            return
        missed = {name: seen for name, seen in target.visible.items() if state.chains[name].seq <= seen.seq}
        if missed:
            self._diverged(
                Target(target.end, chains={name: seen.link for name, seen in missed.items()}), state
            )
        elif target.end > target.offset:
            log.warning(
                "readers see messages of the records %d to %d, which no committed offset covers: their transaction was committed in part; "
                "the replay has given the same messages, and it goes on after them",
                target.offset,
                target.end - 1,
                extra={"partition": self.partition, "offset": target.end},
            )
        self._target = None
        if self._carry is not None:
            self.state = self._recovery.next_epoch(state, self._carry)
            self._carry, self.location, self.committed_offset = None, None, -1
        self._run()

    def _diverged(self, target: Target, state: PartitionState) -> None:
        accepted = self._recovery.accept(target, state)
        # Of their chains everything counts as published; in place, as the caller may be adding to it.
        self._withheld[:] = [output for output in self._withheld if output.destination not in accepted]
        self.location = None  # a new snapshot, with the accepted chains in it, before anything else

    def _run(self) -> None:
        self.phase = "running"
        self._count()
        offset = self._restored.next_offset
        log.info("running from offset %d", offset, extra={"partition": self.partition, "offset": offset})

    @property
    def copied(self) -> bool:
        """Whether a new partition has the model of another one or of a file, and is not stored yet: at another time that may be another model."""
        state = self.state
        return (
            self.phase == "running"
            and self.location is None
            and state is not None
            and state.epoch == 0
            and state.carried is not None
        )

    # --- commits -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[list[Keyed], dict[str, int], int]:
        """The records that store a snapshot of the state as it is now, where the output topics end before it, and its bytes."""
        cluster, settings = self._cluster, self._cluster.settings
        ends, now = self.location.ends if self.location else {}, self._clock.monotonic()
        if not ends or now > self._ends_until:
            with suppress(KafkaException):
                ends, self._ends_until = self._recovery.past.ends(), now + ENDS_SECONDS
        partitions = self.stored.partitions if self.stored else cluster.partitions()
        taken = take(
            self._restored, settings.app_id, self._topic, cluster.topic_id, cluster.identity, partitions
        )
        self._taken = taken.manifest
        stored_chunks = len(self.stored.chunk_sizes) if self.stored else 0
        return to_records(taken, stored_chunks, cluster.keys), ends, taken.size

    def offset(self, location: Location | None) -> TopicPartition:
        """The offset to commit, with its pointer to a snapshot: at this location, or to the one of before."""
        state, location = self._restored, location or self.location
        assert location is not None
        if state.next_offset < self.committed_offset:
            raise AssertionError(
                f"{self._topic} partition {self.partition}: offset {state.next_offset} after {self.committed_offset}"
            )
        pointer = point(self._cluster.topic_id, state, location)
        return TopicPartition(self._topic, self.partition, state.next_offset, metadata=pointer.encode())

    def committed(self, location: Location | None) -> None:
        """The state's offset is committed, and with ``location`` the snapshot that was taken last."""
        self.committed_offset = self._restored.next_offset
        self._count()
        if location is not None:
            self.location, self.stored = location, self._taken
            self._stored_learnt = self._restored.learnt
            self.stored_at = self._clock.time()
            self.fold_seconds = 0.0
            self.snapshot_at = self._clock.monotonic()

    def _count(self) -> None:
        """The state is that of the committed offset: note what it reports."""
        self.metrics = measure(self._restored)
