"""``explain-sidecar run`` and ``join``: start the worker processes and end with them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from explain_sidecar.commands.supervisor import Stage, Supervisor
from explain_sidecar.forks import Forks
from explain_sidecar.join.topics import join_settings, prepare, sources
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings

if TYPE_CHECKING:
    from explain_sidecar.http.site import Site


def run(
    settings: Settings,
    forks: Forks,
    config: Path | None = None,
    workers: int = 1,
    until_caught_up: bool = False,
    stages: Sequence[Stage] = ("fold",),
) -> int:
    """Start ``workers`` processes for each stage from ``forks``, pass on SIGTERM and SIGINT, and return the exit status."""
    settings.servers  # noqa: B018  the messages about a missing address or key, before any process
    if "join" in stages:
        sources(settings)
        # The other stages read the join's output: its topic must exist before they start.
        stage = join_settings(settings)
        prepare(stage, Topics(stage))
    wanted = [(stage, slot) for stage in stages for slot in range(workers)]
    beside: AbstractContextManager[Site | None] = nullcontext()
    if settings.http.enabled:
        from explain_sidecar.http.site import beside_workers

        beside = beside_workers(settings, len(wanted))
    with beside as site:
        return Supervisor(settings, site, config, wanted, until_caught_up, forks).run()
