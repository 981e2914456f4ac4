"""How a partition finds its state again: waiting → restoring, and then where a silent replay has to end.

A slice of ``advance`` takes about a tenth of a second at the most, so that other partitions keep flowing.
"""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from explain_core.foreign import dumps, loads
from explain_sidecar.crash_points import reach
from explain_sidecar.errors import (
    DamagedSnapshot,
    LaterVersion,
    RecoveryError,
    SettingsError,
    SnapshotError,
    UserError,
)
from explain_sidecar.fold.carry import Carry, carry_over
from explain_sidecar.fold.identity import fold_settings, settings_digest, settings_of
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.versions import Find
from explain_sidecar.formats.schemas import Fetch
from explain_sidecar.kafka.checkpoints import Location, Pointer, SnapshotReader, Undecided
from explain_sidecar.kafka.clock import BEHIND_SECONDS, SLICE_SECONDS, Clock
from explain_sidecar.kafka.errors import kept_by_reset
from explain_sidecar.kafka.past import MESSAGES, Past, Read, Seen
from explain_sidecar.kafka.reading import Superseded
from explain_sidecar.kafka.sent import Ends
from explain_sidecar.kafka.topics import same
from explain_sidecar.kafka.totals import Phase
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.files import MODEL, first_state
from explain_sidecar.snapshots.signatures import Keys
from explain_sidecar.snapshots.snapshot import Before, Manifest, Snapshot, Versions, begin, load

SUPERSEDED_SECONDS = 10.0
"""A snapshot replaced while it was read is found again at once; one that stays missing is lost."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cluster:
    """What a partition needs of the cluster to recover. ``schema`` asks the registry for the schema of records under an id, ``model`` finds
    the model of a version, ``partitions`` says how many the records topic has.
    """

    settings: Settings
    topic_id: str
    keys: Keys
    group: Consumer
    reader: Consumer
    uncommitted: Callable[[], Consumer]
    read: Read
    schema: Fetch
    model: Find
    partitions: Callable[[], int]
    clock: Clock = field(default_factory=Clock)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What of the settings a state belongs to; files as they were when it was first asked for."""
        return fold_settings(self.settings)


@dataclass(frozen=True)
class Target:
    """What must be true of a replay at the committed offset, and what readers see of its outputs.

    ``fold_digest`` and ``chains`` are those of the committed offset's metadata; without them there is nothing to compare there.
    ``visible``: the last message that readers see of each output. It can be of a record beyond that offset: a transaction may have been
    committed in part.
    """

    offset: int
    fold_digest: str | None = None
    chains: dict[str, tuple[int, str]] = field(default_factory=dict)
    visible: dict[str, Seen] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """Where the replay ends: what was visible before is to be reproduced."""
        return max([self.offset, *(seen.offset + 1 for seen in self.visible.values())])

    def differences(self, state: PartitionState) -> list[str]:
        """Each digest of a replayed state that is not the committed one. The fold digest is blind to the explanations, the chains are not."""
        pairs = [("fold digest", state.fold_digest.hex(), self.fold_digest or state.fold_digest.hex())]
        for name, (seq, digest) in self.chains.items():
            chain = state.chains.get(name)
            here = f"{chain.digest.hex()} of {chain.seq} messages" if chain else "is off"
            pairs.append((f"chain of {name}", here, f"{digest} of {seq} messages"))
        return [f"{name} {here} here, {there} there" for name, here, there in pairs if here != there]


@dataclass(frozen=True)
class Recovered:
    """A state to go on with once it has been replayed to its target, and the snapshot that it is from, if any.

    ``location``: where that snapshot is, if it is one of this state. ``carry``: the state is one of earlier settings, and at its target a new
    epoch begins, which takes over that much of it.
    """

    state: PartitionState
    target: Target
    stored: Manifest | None = None
    stored_at: float = 0.0
    location: Location | None = None
    carry: Carry | None = None


class Recovery:
    """Finds the stored state of a partition, and restores it. ``past`` is what the topics still know of it."""

    def __init__(self, cluster: Cluster, partition: int) -> None:
        self.partition = partition
        self.phase: Phase = "waiting"
        self._cluster = cluster
        self.past = self._past_of(partition)
        self._clock = cluster.clock
        self._reader: SnapshotReader | None = None
        self._pointer: Pointer | None = None
        self._target: Target | None = None
        self._newest: Manifest | None = None
        self._before: Pointer | None = None
        """The snapshot that the replay has to begin before, where that of the committed offset does not do, and why: ``_problem``."""
        self._problem = ""
        self._retry_until: float | None = None
        self._behind_until: float | None = None
        self.delay = ""
        """Why it last had to wait; empty where it has not."""
        self._topic = cluster.settings.topics.records
        self._who = f"{self._topic} partition {partition}"
        self._extra = {"partition": partition, "offset": None}

    def advance(self) -> Recovered | None:
        """One slice; what has been found once it is whole. Raises ``RecoveryError`` where the past does not fit."""
        try:
            return self._wait() if self.phase == "waiting" else self._restore()
        except LaterVersion as error:
            raise RecoveryError(f"{self._who}: {error}") from None
        except DamagedSnapshot as error:
            if self.phase == "waiting" or self._pointer is None:
                raise RecoveryError(f"{self._who}: {error}. {self._remedy()}") from None
            self._begin_before(self._pointer, str(error))
            return None
        except SnapshotError as error:
            raise RecoveryError(f"{self._who}: {error}. {self._remedy()}") from None

    def _wait(self) -> Recovered | None:
        cluster, where = self._cluster, TopicPartition(self._topic, self.partition)
        try:
            # Blocks while a predecessor's transaction is open: its outcome decides where we start.
            committed = cluster.group.committed([where], timeout=SLICE_SECONDS)[0]
            # The group's connection is busy fetching for other partitions.
            low, high = cluster.reader.get_watermark_offsets(where, timeout=1.0, cached=False)
            if committed.error is not None:
                raise KafkaException(committed.error)
            if committed.offset < 0:
                return self._without_offset(low, high)
            pointer = self._pointer_of(committed)
            visible = self.past.visible(pointer)
            target = Target(committed.offset, pointer.fold_digest, pointer.chains, visible)
            self._newest = self.past.newest_manifest(pointer.manifest + 1, self._cluster.keys)
            if self._before is not None:
                return self._older(pointer, target, low, high)
        except KafkaException as error:
            self._delayed(error.args[0].str())
            self._refresh()
            return None
        except Undecided as error:
            self._delayed(str(error))
            self._clock.sleep(SLICE_SECONDS / 2)  # it may take minutes, which other partitions need
            return None
        self._check_log(pointer, target, low, high)
        self._start_restore(pointer, target)
        return None

    def _pointer_of(self, committed: TopicPartition) -> Pointer:
        pointer = Pointer.decode(committed.metadata)
        if pointer is None:
            raise RecoveryError(
                f"{self._who}: the committed offset {committed.offset} is not ours: it has no pointer to a snapshot, so the state at it "
                f"is unknown; an operator or another program committed it to group {self._cluster.settings.app_id!r}. "
                f"{self._remedy()}"
            )
        return pointer

    def _refresh(self) -> None:
        """Have the reader ask where partitions are: what it learnt while a broker was away it would believe for minutes."""
        try:
            self._cluster.reader.list_topics(timeout=1.0)
        except KafkaException as error:
            log.debug("metadata: %s", error.args[0].str(), extra=self._extra)

    def _found(self, found: Recovered) -> Recovered | None:
        """What was found, with what is visible of its own epoch; None where an epoch after it has begun, so that Kafka has lost offsets.

        A coordinator whose broker was killed may answer before it has loaded all that was committed: it is asked again.
        """
        epoch, target = found.state.epoch, found.target
        newer = [
            f"the {MESSAGES[name]} of offset {seen.offset} of epoch {seen.epoch}"
            for name, seen in target.visible.items()
            if seen.epoch > epoch
        ]
        # The first snapshot of the next epoch, and nothing after it: the transaction that began it was committed in part, and it begins again.
        stored = self._newest
        if (
            stored
            and stored.epoch > epoch
            and (stored.epoch, stored.next_offset) != (epoch + 1, target.offset)
        ):
            newer.append(f"the snapshot at offset {stored.next_offset} of epoch {stored.epoch}")
        if not newer:
            # An output that the settings of now have and the state has not was off in its epoch: nothing of it is missing.
            outputs = found.state.chains
            own = {
                name: seen for name, seen in target.visible.items() if seen.epoch == epoch and name in outputs
            }
            return replace(found, target=replace(target, visible=own))
        text = f"{self._who}: the committed offset {target.offset} of epoch {epoch} is behind {newer[0]}"
        self._behind_until = self._behind_until or self._clock.monotonic() + BEHIND_SECONDS
        if self._clock.monotonic() > self._behind_until:
            raise RecoveryError(
                f"{text}: the group's offsets were moved back, or lost; going on would double what was published. {self._remedy()}"
            )
        self._delayed(f"{text}; Kafka may not have loaded the group's offsets yet")
        self._clock.sleep(SLICE_SECONDS / 2)
        self.phase = "waiting"
        return None

    def _delayed(self, reason: str) -> None:
        """Kafka cannot answer yet; the next slice retries."""
        if reason != self.delay:
            self.delay = reason
            log.info("waiting: %s", reason, extra=self._extra)

    def _check_log(self, pointer: Pointer, target: Target, low: int, high: int) -> None:
        committed = target.offset
        if not same(pointer.topic_id, self._cluster.topic_id):
            raise RecoveryError(
                f"{self._who}: the topic was deleted and created again (its id was {pointer.topic_id} and is {self._cluster.topic_id}); "
                f"the state is of records that are gone. {self._remedy()}"
            )
        if pointer.next_offset > committed:
            raise RecoveryError(
                f"{self._who}: the snapshot is at offset {pointer.next_offset}, beyond the committed offset {committed}; "
                f"the offset was moved back. {self._remedy()}"
            )
        if target.end > high:
            what = (
                "committed offset" if target.end == committed else "offset after the last published message"
            )
            raise RecoveryError(
                f"{self._who}: the {what} {target.end} is beyond the end of the log {high}; records were lost. {self._remedy()}"
            )
        if low > pointer.next_offset:
            lost = (
                f"records {pointer.next_offset} to {min(low, target.end) - 1}, which a replay needs,"
                if pointer.next_offset < target.end
                else f"records {committed} to {low - 1}, which were never folded,"
            )
            before = f"{self._problem}, and before it " if self._before else ""
            raise RecoveryError(
                f"{self._who}: {before}{lost} were deleted by retention: the log starts at {low}, the snapshot is at {pointer.next_offset}, "
                f"the committed offset is {committed}. Give the topic a longer retention. {self._remedy()}"
            )

    def _remedy(self) -> str:
        return f"To go on with the newest state that is whole: {kept_by_reset(self.partition)}"

    def _without_offset(self, low: int, high: int) -> Recovered | None:
        """No committed offset: a new partition, or a group that expired while the snapshot is still there."""
        found = self.past.find_snapshot(self._cluster.keys, strict=self._before is None, before=self._before)
        if found is None and self._before is not None:
            raise self._lost()
        if found is None:
            self._newest = None
            state = first_state(self._cluster.settings, self.partition, start=low, donor=self._donor())
            return self._found(Recovered(state, Target(low, visible=self.past.visible())))
        pointer, self._newest = found
        target = Target(pointer.next_offset, visible=self.past.visible(pointer))
        self._check_log(pointer, target, low, high)
        log.warning(
            "no committed offset: recovering from the snapshot and the last published message",
            extra=self._extra,
        )
        self._start_restore(pointer, target)
        return None

    def _donor(self) -> Snapshot | None:
        """The newest snapshot of the partition that had the keys of this one, where the records topic has gained it; else None."""
        cluster, settings = self._cluster, self._cluster.settings
        if settings.model.on_new_partition == "fresh" or settings.model.static or settings.models.enabled:
            return None

        def partitions(partition: int) -> int:
            """How many the topic had when this one had its first state; 0 where it has none."""
            manifest = self._past_of(partition).newest_manifest(0, cluster.keys)
            return manifest.partitions if manifest and same(manifest.topic_id, cluster.topic_id) else 0

        before, then = 0, partitions(0)
        while before < then <= self.partition:
            before, then = then, partitions(then)
        if not before:
            return None
        # Kafka's partitioners take a hash of the key modulo the number of partitions.
        donor, found = self.partition % before, None
        for snapshot in self._past_of(donor).snapshots(cluster.keys):
            found = snapshot if same(snapshot.manifest.topic_id, cluster.topic_id) else found
        if found is None or carry_over(found.manifest.settings, settings).of(MODEL).other_model:
            log.warning(
                "partition %d had the keys of this one, and there is no whole snapshot of it with this model: a new model begins",
                donor,
                extra=self._extra,
            )
            return None
        log.info("it begins with the model of partition %d", donor, extra=self._extra)
        return found

    def _past_of(self, partition: int) -> Past:
        cluster = self._cluster
        return Past(cluster.reader, cluster.uncommitted, cluster.settings, partition, cluster.read)

    def _start_restore(self, pointer: Pointer, target: Target) -> None:
        settings = self._cluster.settings
        self._pointer, self._target = pointer, target
        self._reader = SnapshotReader(
            self._cluster.reader,
            settings.topics.checkpoints,
            self.partition,
            pointer,
            settings.app_id,
            self._cluster.keys,
        )
        self.phase = "restoring"

    def _restore(self) -> Recovered | None:
        reader, pointer, target = self._reader, self._pointer, self._target
        assert reader is not None and pointer is not None and target is not None
        try:
            snapshot = reader.advance(SLICE_SECONDS)
        except Undecided as error:
            self._delayed(str(error))
            self.phase = "waiting"
            return None
        except Superseded:
            if self._retry_until:  # not the first time, when something newer is there at once
                self._clock.sleep(SLICE_SECONDS / 2)
            self._retry_until = self._retry_until or self._clock.monotonic() + SUPERSEDED_SECONDS
            if self._clock.monotonic() > self._retry_until:
                self._begin_before(
                    pointer,
                    f"the snapshot that the committed offset points to is not at offset {pointer.manifest} of "
                    f"{self._cluster.settings.topics.checkpoints!r}; that topic was emptied or created again",
                )
                return None
            log.debug("the snapshot was superseded; reading the committed offset again", extra=self._extra)
            self.phase = "waiting"
            return None
        if snapshot is None:
            return None
        reach("restore")
        settings, manifest = self._cluster.settings, snapshot.manifest
        stored_at, self._reader = reader.written_at / 1000, None
        if (manifest.epoch, manifest.next_offset, manifest.topic_id) != (
            pointer.epoch,
            pointer.next_offset,
            pointer.topic_id,
        ):
            raise RecoveryError(
                f"{self._who}: the snapshot is not the one that the committed offset points to. {self._remedy()}"
            )
        difference = settings_difference(manifest.settings, self._cluster.identity)
        if difference:
            found = self._settings_changed(snapshot, stored_at, target, difference)
            if found.carry is None:
                return self._found(found)
        else:
            found = Recovered(load(snapshot, settings), target, manifest, stored_at)
        state = found.state
        # What came out of a snapshot is no garbage: without this the collector visits all of it three times before it lets it rest.
        gc.freeze()
        if (state.partition, state.epoch, state.next_offset, state.fold_digest.hex()) != (
            self.partition,
            manifest.epoch,
            manifest.next_offset,
            manifest.fold_digest,
        ):
            raise RecoveryError(
                f"{self._who}: the state in the snapshot is not the one that its manifest describes. {self._remedy()}"
            )
        for name, chain in state.chains.items():
            seen = target.visible.get(name)
            missing = chain.seq - seen.seq - 1 if seen and seen.epoch == state.epoch else 0
            if missing > 0:
                self._begin_before(
                    pointer,
                    f"readers do not see {missing} messages of {settings.topics.names[name]!r}, which the snapshot at offset {state.next_offset} "
                    "counts: their transaction was aborted in part",
                )
                return None
        here = Versions.here()
        if manifest.versions != here:
            log.warning(
                "the snapshot was written by %s and this is %s; a replay may differ in the last bit",
                manifest.versions,
                here,
                extra=self._extra,
            )
        log.info(
            "restored a snapshot of %d bytes; %d offsets to replay",
            snapshot.size,
            target.end - state.next_offset,
            extra={"partition": self.partition, "offset": state.next_offset},
        )
        location = Location(Ends(pointer.first_chunk, pointer.manifest), manifest.next_offset, pointer.ends)
        return self._found(replace(found, location=location))

    def _begin_before(self, pointer: Pointer, problem: str) -> None:
        """Begin again at the snapshot before a pointer's: a replay from there gives what readers do not see."""
        log.warning("%s; the replay begins before it", problem, extra=self._extra)
        self._before, self._problem = pointer, problem
        self._reader = self._retry_until = None
        self.phase = "waiting"

    def _older(self, pointer: Pointer, target: Target, low: int, high: int) -> Recovered | None:
        """Restore the snapshot before the one that ``_before`` points to; if there is none, replay the first epoch from its first record.

        The digests of the committed offset say whether that gives the state at it. Raises ``RecoveryError`` if neither is left.
        """
        assert self._before is not None
        found = self.past.find_snapshot(self._cluster.keys, strict=False, before=self._before)
        # What an output published between the two snapshots may be all that readers see of it.
        target = replace(target, visible=self.past.visible(replace(pointer, ends={})))
        if found is not None:
            self._check_log(found[0], target, low, high)
            self._start_restore(found[0], target)
            return None
        if pointer.epoch or low:
            raise self._lost()
        return self._found(Recovered(first_state(self._cluster.settings, self.partition, start=low), target))

    def _lost(self) -> RecoveryError:
        return RecoveryError(
            f"{self._who}: {self._problem}, and no older snapshot is left. Begin with a file of `state export`, if there is one: explain-sidecar "
            f"state import FILE --yes; or with a new model: explain-sidecar reset --partition {self.partition} --yes"
        )

    def _settings_changed(
        self, snapshot: Snapshot, stored_at: float, target: Target, difference: str
    ) -> Recovered:
        """The state under the settings of before, which replays to its target and is carried over there; or the first one of the new epoch."""
        settings, manifest = self._cluster.settings, snapshot.manifest
        how = settings.checkpoint.on_mismatch
        carry = carry_over(manifest.settings, settings)
        changed = f"{self._who}: settings that the state depends on have changed:\n{difference}\n"
        if how == "fail":
            raise RecoveryError(
                f"{changed}Set them back; or begin a new epoch by checkpoint.on_mismatch=carry ({carry.sentence})"
            )
        if settings_digest(carry.now) in manifest.superseded and how == "carry":
            raise RecoveryError(
                f"{changed}Epoch {manifest.epoch} has followed the one with the settings of this instance, so that it leaves the partition to "
                "instances that have the new ones. To go back to these settings: explain-sidecar reset "
                f"--partition {self.partition} --keep all --yes"
            )
        if carry.loses_model and how == "carry":
            raise RecoveryError(
                f"{changed}The model would begin anew ({carry.sentence}). Set them back; or accept a new model: explain-sidecar run --new-model"
            )
        log.warning(
            "settings changed, beginning epoch %d at offset %d:\n%s",
            manifest.epoch + 1,
            target.end,
            difference,
            extra=self._extra,
        )
        if how == "reset":
            start = target.offset
            state = begin(settings, self.partition, manifest.epoch + 1, start)
            state.notices.append(f"settings changed: epoch {manifest.epoch + 1} begins at offset {start}")
            return Recovered(state, Target(start, visible=target.visible), manifest, stored_at)
        try:
            state = load(snapshot, settings_of(manifest.settings, settings))
        except (SettingsError, UserError) as error:
            if target.end > manifest.next_offset:
                raise RecoveryError(
                    f"{changed}The records {manifest.next_offset} to {target.end - 1} are to be replayed under the settings of before, and these "
                    f"cannot be had any more ({error}). Set them back for one clean stop; or go on without these records: explain-sidecar reset "
                    f"--partition {self.partition} --keep all --yes"
                ) from None
            before = Before.of(snapshot, carry)
            state = begin(settings, self.partition, manifest.epoch + 1, target.end, before)
            log.warning("%s", carry.sentence, extra=self._extra)
            return Recovered(state, Target(target.end, visible=target.visible), manifest, stored_at)
        return Recovered(state, target, manifest, stored_at, carry=carry)

    def next_epoch(self, state: PartitionState, carry: Carry) -> PartitionState:
        """The first state of the epoch after a state's, with what it takes over."""
        before = Before(state.state(dumps), carry, loads)
        made = begin(self._cluster.settings, self.partition, state.epoch + 1, state.next_offset, before)
        log.warning("epoch %d: %s", made.epoch, carry.sentence, extra=self._extra)
        for notice in made.notices[1:]:
            log.warning("%s", notice, extra=self._extra)
        return made

    def accept(self, target: Target, state: PartitionState) -> set[str]:
        """Accept the published digests for a state that differs from the one that published them, if an operator has allowed
        it; returns the outputs whose chain was another. Raises ``RecoveryError`` otherwise.
        """
        settings = self._cluster.settings
        recovery = settings.recovery
        accepted = recovery.on_divergence == "continue" and (recovery.partition, recovery.offset) == (
            self.partition,
            target.offset,
        )
        text = (
            f"{self._who}: the replay up to offset {target.offset} gives another state than the one that published: "
            f"{'; '.join(target.differences(state))} (epoch {state.epoch}); the model is not deterministic, or "
            f"the software or CPU changed (here: {Versions.here()})"
        )
        if not accepted:
            raise RecoveryError(
                f"{text}. Return to the software that wrote it; or accept the difference with recovery.on_divergence=continue, "
                f"recovery.partition={self.partition}, recovery.offset={target.offset}; or begin anew: {self._remedy()}"
            )
        log.warning("%s; accepted by recovery.on_divergence", text, extra=self._extra)
        state.notices.append(f"an operator accepted that the replay up to offset {target.offset} diverged")
        others = set()
        for name, chain in state.chains.items():
            published = target.chains.get(name)
            if published is not None and published != (chain.seq, chain.digest.hex()):
                # Downstream's chain goes on unbroken, where a transaction was committed in part behind the last message that is visible.
                seen = target.visible.get(name)
                chain.seq, digest = min(published, seen.link) if seen else published
                chain.digest = bytes.fromhex(digest)
                others.add(name)
        return others


def settings_difference(before: Any, now: Any, path: str = "") -> str:
    """Each setting that differs, a line each; empty where none does."""
    lines = []
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            inner = f"{path}.{key}" if path else key
            lines.append(settings_difference(before.get(key, _DEFAULT), now.get(key, _DEFAULT), inner))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (a, b) in enumerate(zip(before, now, strict=True)):
            lines.append(settings_difference(a, b, f"{path}.{index}"))
    elif isinstance(before, dict) and now is _DEFAULT:
        lines = [settings_difference(before, {}, path)]
    elif isinstance(now, dict) and before is _DEFAULT:
        lines = [settings_difference({}, now, path)]
    elif before != now:
        default = _default(path)
        known = "the default" if default is None else f"the default ({json.dumps(default)})"
        was, now_is = (known if value is _DEFAULT else json.dumps(value) for value in (before, now))
        lines.append(f"  {path}: was {was}, is {now_is}")
    return "\n".join(line for line in lines if line)


def _default(path: str) -> Any:
    """The default of a setting by its whole name; None where it has none."""
    kind: Any = Settings
    default = None
    for name in path.split("."):
        if not hasattr(kind, "model_fields") or name not in kind.model_fields:
            return None
        field = kind.model_fields[name]
        kind, default = field.annotation, None if field.is_required() else field.default
    return default if isinstance(default, str | int | float) else None


_DEFAULT = object()
"""Stands for a setting that is not given."""
