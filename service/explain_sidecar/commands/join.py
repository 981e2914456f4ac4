"""``explain-sidecar join show``: what the join has committed, by partition."""

from __future__ import annotations

from contextlib import closing

from explain_client.fields import utc
from explain_sidecar.commands.printing import print_rows
from explain_sidecar.errors import UserError
from explain_sidecar.join.changelog import newest
from explain_sidecar.join.topics import account, changelog, join_settings
from explain_sidecar.kafka.clients import reading_consumer
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings


def show(settings: Settings, *, as_json: bool = False) -> None:
    """Print a row for each partition. Raises ``UserError`` where the join has never run, or an event is unaccounted for."""
    stage = join_settings(settings)
    name = changelog(stage)
    found = Topics(stage).describe(name)
    if name not in found:
        raise UserError(
            f"join: there is no topic {name!r} on {settings.servers}; has `explain-sidecar join` run yet?"
        )
    rows = []
    with closing(reading_consumer(stage)) as reader:
        for partition in range(found[name].partitions):
            saved = newest(reader, name, partition)
            if saved is None:
                continue
            counts, time = saved.progress.counts, saved.progress.time
            rows.append(
                {"partition": partition}
                | account(counts)
                | {
                    "corrected": counts.corrections,
                    "evicted": counts.evicted,
                    "late_labels": counts.ignored + counts.unmatched,
                }
                | {"stream_time": None if time is None else utc(time).replace(microsecond=0)}
            )
    print_rows(rows, as_json)
    for row in rows:
        if row["events"] != sum(int(str(row[name])) for name in ("matched", "expired", "dropped", "pending")):
            raise UserError(
                f"join: partition {row['partition']}: matched + expired + dropped + pending is not events; this is a defect"
            )
