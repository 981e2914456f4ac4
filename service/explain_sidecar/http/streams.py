"""The event streams that fill the open pages of the dashboard.

All streams are served at the same moments, so that pages that show the same share one message: it is made and encoded once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator

import orjson
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from explain_sidecar.http.feed import Feed
from explain_sidecar.http.views import Page, ViewSelection

UPDATE_SECONDS = 0.25
KEEP_ALIVE_SECONDS = 15.0
"""A comment is sent when nothing else was for so long: proxies close what is silent."""

log = logging.getLogger(__name__)


class Streams:
    """Opens event streams, ``limit`` at once at the most."""

    def __init__(self, feed: Feed, limit: int) -> None:
        self._feed = feed
        self._limit = limit
        self._open: set[Response] = set()
        self._moment = 0
        self._version = -1
        self._made: dict[tuple[ViewSelection, str], asyncio.Future[tuple[str, bytes]]] = {}

    def open(self, selection: ViewSelection, last_id: str) -> Response:
        """The answer to a page that shows this and has what came until ``last_id``; 503 where too many are open."""
        if len(self._open) >= self._limit:
            return PlainTextResponse(
                f"{self._limit} pages are open, as many as http.max_streams allows; close one, or raise it\n",
                503,
            )
        return _Stream(self._events(selection, last_id), self._open)

    async def _events(self, selection: ViewSelection, last_id: str) -> AsyncIterator[bytes]:
        seen, sent_at = -1, time.monotonic()
        yield b"retry: 1000\n\n"
        while not self._feed.stopping:
            version = self._version_now()
            if version != seen:
                seen, sent_at = version, time.monotonic()
                last_id, event = await self._event(selection, last_id)
                yield event
            elif time.monotonic() - sent_at > KEEP_ALIVE_SECONDS:
                sent_at = time.monotonic()
                yield b":\n\n"
            await asyncio.sleep(UPDATE_SECONDS - time.monotonic() % UPDATE_SECONDS)

    def _version_now(self) -> int:
        """The feed's version at this moment of the update, which is the same for all streams."""
        moment = round(time.monotonic() / UPDATE_SECONDS)
        if moment != self._moment:
            self._moment, self._version = moment, self._feed.version
            self._made.clear()
        return self._version

    async def _event(self, selection: ViewSelection, last_id: str) -> tuple[str, bytes]:
        """The event after ``last_id`` and its own id, made by the first stream that asks for it."""
        key = (selection, last_id)
        if key not in self._made:
            # In a thread: it may have to wait for the feed to take messages in.
            self._made[key] = asyncio.ensure_future(asyncio.to_thread(self._make, *key))
        return await asyncio.shield(self._made[key])  # a visitor who leaves does not cancel it for the others

    def _make(self, selection: ViewSelection, last_id: str) -> tuple[str, bytes]:
        page = Page(self._feed, selection, last_id)
        try:
            body = page.next()
        except Exception as error:  # whatever one message holds, the page shows the next one
            log.exception("the dashboard's view %s", selection.view)
            problem = f"the view {selection.view} cannot be shown: {type(error).__name__}: {error}"
            body = {"sentence": "", "problem": problem, "whole": True}
        return page.id, b"id: %s\ndata: %s\n\n" % (page.id.encode(), orjson.dumps(body))


class _Stream(StreamingResponse):
    """A stream of events that is counted while it is open."""

    def __init__(self, events: AsyncIterator[bytes], opened: set[Response]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._opened.add(self)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._opened.discard(self)
