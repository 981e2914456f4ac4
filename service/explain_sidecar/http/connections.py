"""Limits on connections: a client that holds many open, with or without a token, cannot keep a probe from its answer.

uvicorn's own options do not give that. It has no time limit for a request's header, and beyond ``limit_concurrency``, which counts
idle connections too, it answers probes with 503 like everything else.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0
"""How long a client may take to send the header of its first or its next request."""

UNREAD_SECONDS = 30.0
"""How long a client may leave an answer unread: unread bytes take memory."""

OTHERS = 128
"""Connections beside those of event streams: probes, scrapes, a page's files."""

BACKLOG = 128
"""Connections taken from the kernel's queue at once, before any of them is counted: what is over the limit is open for a moment."""


class LimitedConnection(H11Protocol):
    """A connection of uvicorn's server with a deadline, and one of at most ``limit`` that are open.

    Beyond the limit a new connection is taken in, and the one that has waited longest for its client's request is
    closed. Where none waits, the oldest is closed: a browser opens its event stream again by itself.
    """

    def __init__(self, limit: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._limit = limit
        self._waiting_since = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_request()
        if len(self.connections) > self._limit:
            oldest = min(self.connections, key=lambda peer: (peer.answering, peer._waiting_since))  # type: ignore
            oldest.end()  # type: ignore[union-attr]

    @property
    def answering(self) -> bool:
        """Whether a request has come whose answer is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def end(self) -> None:
        """Close it now, even with unsent bytes."""
        self.connections.discard(self)  # at once, so that the next connection counts correctly
        self.transport.abort()

    def on_response_complete(self) -> None:
        self._wait_for_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.end)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel(self._unread)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel(self._deadline)
        self._cancel(self._unread)

    def _wait_for_request(self) -> None:
        self._cancel(self._deadline)
        self._waiting_since = self.loop.time()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        if not self.answering:
            self.transport.close()

    @staticmethod
    def _cancel(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
