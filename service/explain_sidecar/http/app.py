"""The routes for operators: metrics and health of the workers of ``run``."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from explain_sidecar.http.metrics import exposition
from explain_sidecar.http.workers import WorkerReports
from explain_sidecar.kafka.clients import admin_client
from explain_sidecar.kafka.ends import PartitionEnds
from explain_sidecar.settings import Settings

ENDS_SECONDS = 1.0
"""The ends of the input are asked for no more often, however many scrape."""

log = logging.getLogger(__name__)


class Operations:
    """``/metrics``, ``/healthz`` and ``/readyz`` of the workers of this machine."""

    def __init__(self, settings: Settings, workers: WorkerReports) -> None:
        self._settings = settings
        self._workers = workers
        self._asked_ends = PartitionEnds(admin_client(settings))
        self._asking = threading.Lock()
        self._asked_at = 0.0
        self._ends: dict[int, int] = {}
        self.stopping = False
        self.routes = [
            Route("/metrics", self.metrics),
            Route("/healthz", self.health),
            Route("/readyz", self.ready),
        ]

    # A plain function, which starlette runs in a thread: to ask for the ends may take a second.
    def metrics(self, request: Request) -> Response:
        partitions = self._workers.partitions
        body = exposition(
            self._workers.reports,
            partitions,
            self._ends_of(list(partitions)),
            self._settings.http.importance,
            self._workers.restarts,
            self._settings.checkpoint.hmac_key_file is not None,
            {"app_id": self._settings.app_id, "topic": self._settings.topics.records},
        )
        return Response(body, media_type=CONTENT_TYPE_LATEST)

    # Coroutines: a probe does not wait for one of those threads.
    async def health(self, request: Request) -> Response:
        limit = self._settings.http.stall_seconds
        stalled = self._workers.stalled(limit)
        body = {
            "healthy": not stalled,
            "stalled": [
                {"worker": worker, "silent_seconds": round(age, 1)} for worker, age in stalled.items()
            ],
        }
        return JSONResponse(body, 503 if stalled else 200)

    async def ready(self, request: Request) -> Response:
        waiting = [partition._asdict() for partition in self._workers.waiting()]
        ready = not waiting and not self.stopping
        body = {
            "ready": ready,
            "stopping": self.stopping,
            "partitions": list(self._workers.partitions),
            "waiting_for": waiting,
        }
        return JSONResponse(body, 200 if ready else 503)

    def _ends_of(self, partitions: Sequence[int]) -> dict[int, int]:
        with self._asking:
            if time.monotonic() - self._asked_at > ENDS_SECONDS:
                self._ends = self._asked_ends.last_stable(self._settings.topics.records, partitions)
                self._asked_at = time.monotonic()
            return self._ends
