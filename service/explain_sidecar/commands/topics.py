"""``explain-sidecar topics``: the topics as they are, and making the missing ones."""

from __future__ import annotations

from explain_sidecar.commands.printing import print_rows
from explain_sidecar.errors import UserError
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings


def create(settings: Settings, *, partitions: int | None = None) -> None:
    """``explain-sidecar topics create``: the missing topics, with the settings that they need."""
    topics = Topics(settings)
    source = topics.found_or_made("topics.records", settings.topics.records, partitions)
    outputs = topics.outputs.values()
    found = topics.describe(*outputs)
    missing = [name for name in outputs if name not in found]
    if missing:
        topics.create(missing, source)
    topics.prepare()
    show(settings)


def show(settings: Settings, *, as_json: bool = False) -> None:
    """``explain-sidecar topics show``: each topic as it is; exit status 1 where something is wrong."""
    topics = Topics(settings)
    names = {"records": settings.topics.records} | topics.outputs
    found = topics.describe(*names.values())
    shown = ("cleanup.policy", "retention.ms", "max.message.bytes")
    rows = [
        {
            "setting": f"topics.{setting}",
            "topic": name,
            "partitions": found[name].partitions if name in found else None,
            "topic_id": found[name].id if name in found else None,
            **{key: found[name].config.get(key) if name in found else None for key in shown},
        }
        for setting, name in names.items()
    ]
    print_rows(rows, as_json)
    missing = [str(row["topic"]) for row in rows if row["partitions"] is None]
    if missing:
        raise UserError(
            f"missing on {settings.servers}: {', '.join(missing)}; `explain-sidecar topics create` makes them"
        )
    Topics(
        settings.model_copy(update={"topics": settings.topics.model_copy(update={"create": False})})
    ).prepare()
