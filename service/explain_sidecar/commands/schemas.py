"""``explain-sidecar schemas``: register the messages' schemas with a Schema Registry."""

from __future__ import annotations

from explain_sidecar.commands.printing import print_rows
from explain_sidecar.settings import Settings
from explain_sidecar.wire.registry import Registry


def register(settings: Settings, *, as_json: bool = False) -> None:
    """``explain-sidecar schemas register``."""
    print_rows(Registry(settings).register(), as_json)
