"""The server beside the workers of ``run``: metrics, health and the dashboard."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from explain_sidecar.http.app import Operations
from explain_sidecar.http.dashboard import Dashboard
from explain_sidecar.http.server import address, bind, serving
from explain_sidecar.http.workers import WorkerReports
from explain_sidecar.settings import Settings

log = logging.getLogger(__name__)


class Site:
    """The supervisor's state for the server: what is known of its workers, and whether it is stopping."""

    def __init__(self, settings: Settings, workers: int) -> None:
        self.workers = WorkerReports(workers)
        self._operations = Operations(settings, self.workers)
        self._dashboard = Dashboard(settings) if settings.http.dashboard else None
        self.routes = [*self._operations.routes, *(self._dashboard.routes if self._dashboard else ())]

    @contextmanager
    def pipe_of(self, worker: int) -> Iterator[int]:
        """The end of a pipe that the process of this worker, started in the block, reports to."""
        ours, theirs = os.pipe()
        try:
            yield theirs
        finally:
            os.close(theirs)
        self.workers.listen(worker, ours)

    def stopping(self) -> None:
        """The workers are told to stop: not ready any more, and open event streams end."""
        self._operations.stopping = True
        if self._dashboard:
            self._dashboard.stop()

    def following(self) -> AbstractContextManager[None]:
        """Fill the dashboard within the block."""
        return self._dashboard.feed.following() if self._dashboard else nullcontext()


@contextmanager
def beside_workers(settings: Settings, workers: int) -> Iterator[Site]:
    sock = bind(settings.http)
    site = Site(settings, workers)
    with site.following(), serving(site.routes, sock, settings.http):
        log.info("metrics, health%s on %s", " and the dashboard" * settings.http.dashboard, address(sock))
        try:
            yield site
        finally:
            site.stopping()  # the workers may have ended by themselves
