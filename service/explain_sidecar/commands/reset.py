"""``explain-sidecar reset``: begin a new epoch of a partition, with all of its state that can be kept or with nothing; or take the newest one back."""

from __future__ import annotations

import sys
from typing import Literal

from explain_sidecar.commands.stopped import Found, Stopped, stopped
from explain_sidecar.crash_points import reach
from explain_sidecar.errors import UserError
from explain_sidecar.fold.carry import carry_over
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.kafka.checkpoints import links
from explain_sidecar.kafka.topics import Topic, same
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.files import first_state
from explain_sidecar.snapshots.snapshot import Before, Snapshot, begin, take


def reset(
    settings: Settings,
    *,
    partition: int,
    yes: bool = False,
    start: Literal["committed", "state", "earliest", "latest"] = "committed",
    keep: Literal["nothing", "all"] = "nothing",
    undo: bool = False,
) -> None:
    """Print what becomes of the state; with ``yes`` write the first snapshot of the next epoch and commit its offset, in one transaction.

    ``start``: "committed" goes on where the old epoch ended (after the last record that the kept state has learnt, if that is later; at the first record of a topic that was created again), "state" after
    the last record that the kept state has learnt, "earliest" folds the whole topic again, "latest" what comes. ``keep`` "all" goes on from the newest snapshot that is whole, whatever became of
    offsets, log and topic. ``undo`` goes back to the epoch before.
    """
    with stopped(settings, "reset", hold=yes) as sidecar:
        records = sidecar.records
        if partition >= records.partitions:
            raise UserError(
                f"--partition {partition}: {records.name!r} has the partitions 0 to {records.partitions - 1}"
            )
        found = sidecar.find(partition)
        if not found.epochs and found.committed < 0 and found.unreadable is None:
            raise UserError(
                f"partition {partition} of {records.name!r} has no state of {settings.app_id!r}; there is nothing to reset"
            )
        chains: dict[str, tuple[int, str]] = {}
        sys.stdout.write(f"{records.name} partition {partition}, group {settings.app_id}\n")
        if undo:
            snapshot = _epoch_before(sidecar, partition, found)
            _say(
                "back",
                f"to epoch {snapshot.manifest.epoch} at offset {snapshot.manifest.next_offset}, {snapshot.manifest.learnt}",
            )
        else:
            low, high, ended = found.low, found.high, found.ended
            kept = _newest(sidecar, partition, found) if keep == "all" else None
            known = kept.manifest if kept else found.manifest
            again = known is not None and not same(known.topic_id, records.id)
            if start == "state" and (kept is None or again):
                raise UserError(
                    "--from state: add --keep all; without it there is no state to go on from"
                    if kept is None
                    else f"--from state: the state is of another topic, which was {records.name!r} before; its offsets are not those of this one"
                )
            if kept is not None:
                ended = max(kept.manifest.next_offset, ended if start != "state" else 0)
            ended = low if again else min(max(ended, low), high)
            first = {"earliest": low, "latest": high}.get(start, ended)
            _announce(settings, found, first, kept, again)
        if not yes:
            raise UserError("nothing was done; add --yes to begin the new epoch")
        reach("reset.before")
        if not undo:
            snapshot, chains = first_of(settings, partition, found, first, records, kept)
        sidecar.store(partition, snapshot, chains, found)
    sys.stdout.write("done\n")


def first_of(
    settings: Settings, partition: int, found: Found, start: int, topic: Topic, kept: Snapshot | None
) -> tuple[Snapshot, dict[str, tuple[int, str]]]:
    """The first snapshot of the next epoch with what it takes over of another one, and the chains that begin with it."""
    if kept is None:
        state = first_state(settings, partition, found.epoch, start)
    else:
        before = Before.of(kept, carry_over(kept.manifest.settings, settings))
        state = begin(settings, partition, found.epoch, start, before)
    chains = links(state)
    partitions = found.manifest.partitions if found.manifest else topic.partitions
    return take(state, settings.app_id, topic.name, topic.id, fold_settings(settings), partitions), chains


def _announce(settings: Settings, found: Found, first: int, kept: Snapshot | None, again: bool) -> None:
    manifest = found.manifest if kept is None else kept.manifest
    if kept is None:
        offsets = f"snapshot at offset {manifest.next_offset if manifest else 'none'}, committed offset {found.committed if found.committed >= 0 else 'none'}"
        _say(
            "lost",
            f"epoch {max(found.epochs, default=0)}: the model and its explanations {manifest.learnt if manifest else 'after an unknown number of records'} ({offsets})",
        )
        what = "with a new model"
    else:
        carry = carry_over(kept.manifest.settings, settings)
        _say(
            "keeps",
            f"the state of epoch {kept.manifest.epoch} at offset {kept.manifest.next_offset}: {carry.sentence}",
        )
        if first != kept.manifest.next_offset and not again:
            _say(
                "note",
                f"that state has learnt up to offset {kept.manifest.next_offset}, and it goes on at {first}: what is between them it never learns, or learns twice"
                + ("; --from state learns it" if found.low <= kept.manifest.next_offset < first else ""),
            )
        what = "with that state"
    if again:
        _say("note", "the topic was created again: all that it holds is new; --from latest leaves it out")
    _say("stays", "all messages that were published")
    _say(
        "next",
        f"epoch {found.epoch} {what}, from offset {first} (the log has {found.low} to {found.high - 1})",
    )
    if found.unreadable is not None:
        _say(
            "note",
            f"the newest manifest on {settings.topics.checkpoints!r} cannot be used and counts as none: {found.unreadable}",
        )
    if first < found.ended and not again:
        _say("note", explained_again(first, found))


def explained_again(first: int, found: Found) -> str:
    return f"records {first} to {found.ended - 1} are explained again, in the new epoch"


def _say(what: str, text: str) -> None:
    sys.stdout.write(f"  {f'{what}:':<6} {text}\n")


def _newest(sidecar: Stopped, partition: int, found: Found) -> Snapshot:
    whole = sidecar.snapshots(partition)
    if not whole:
        why = f" ({found.unreadable})" if found.unreadable is not None else ""
        raise UserError(
            f"partition {partition}: no snapshot is whole, so that nothing can be kept{why}; begin with a file of `state export`, if there is one: explain-sidecar state import FILE "
            "--yes; without --keep the new epoch begins with a new model"
        )
    return whole[0]


def _epoch_before(sidecar: Stopped, partition: int, found: Found) -> Snapshot:
    """The newest snapshot of the epoch before the newest one, which has published nothing."""
    newest = max(found.epochs, default=0)
    published = [name for name, seen in found.visible.items() if seen.epoch == newest]
    if published:
        raise UserError(
            f"--undo: epoch {newest} of partition {partition} has published ({', '.join(published)}), so that it cannot be taken back; "
            "with the settings of before, --keep all begins another epoch with what is left of the state"
        )
    before = [whole for whole in sidecar.snapshots(partition) if whole.manifest.epoch < newest]
    if not before:
        raise UserError(
            f"--undo: Kafka has compacted the snapshots of the epoch before epoch {newest} of partition {partition} away; with the settings of before, "
            "--keep all begins another epoch with what is left of the state"
        )
    return before[0]
