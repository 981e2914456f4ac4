"""``explain-sidecar transactions``: show what is open on the sidecar's topics, and end what Kafka has forgotten."""

from __future__ import annotations

import sys
from dataclasses import replace

from explain_sidecar.errors import UserError
from explain_sidecar.join.topics import changelog, join_settings, sources
from explain_sidecar.kafka.operators import Open, abort, find_open
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings

OFFSETS = "__consumer_offsets"


def show(settings: Settings) -> list[Open]:
    """Print the transactions that are open on the topics that the sidecar reads and writes."""
    topics, others = Topics(settings), _not_replayed(settings)
    described = topics.describe(*dict.fromkeys([*topics.outputs.values(), OFFSETS, *others])).values()
    found = [
        replace(one, replayed=topic.name not in others)
        for topic in described
        for one in find_open(settings, [(topic.name, partition) for partition in range(topic.partitions)])
        # Offsets of all groups are on one topic.
        if topic.name != OFFSETS or (one.name or "").startswith(f"{settings.app_id}-")
    ]
    for one in found:
        sys.stdout.write(f"{one}\n")
    if not found:
        sys.stdout.write("no transaction is open on the sidecar's topics\n")
    return found


def _not_replayed(settings: Settings) -> list[str]:
    """The topics that other programs write to, and the join where there is one: no replay of the sidecar publishes again what they held."""
    if settings.join.events.topic is None:
        return [settings.topics.records]
    stage = join_settings(settings)
    return [*sources(settings), stage.topics.records, stage.topics.dead_letters, changelog(stage)]


def abort_torn(settings: Settings, *, yes: bool = False) -> None:
    """End those that Kafka has forgotten, with ``yes``. Nothing is lost: a partition publishes again what readers did not see."""
    torn = [one for one in show(settings) if one.torn and one.replayed]
    if not torn:
        sys.stdout.write("there is nothing to abort\n")
        return
    if not yes:
        raise UserError("nothing was done; add --yes to abort them")
    abort(settings, torn)
    sys.stdout.write(f"aborted {len(torn)}; the partitions go on by themselves\n")
