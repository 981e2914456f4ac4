"""The dashboard: a page, its files, and the stream of server-sent events that fills it."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import orjson
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from service.http.app import make_app
from service.http.feed import Feed
from service.http.server import address, bind, serving
from service.http.views import Page, Selection
from service.settings import Settings

FILES = Path(__file__).parent / "static"
UPDATE_SECONDS = 0.25
KEEP_ALIVE_SECONDS = 15.0
"""A comment is sent when nothing else was for so long: proxies close what is silent."""

log = logging.getLogger(__name__)


class Dashboard:
    """Serves what the feed knows."""

    def __init__(self, settings: Settings) -> None:
        self.feed = Feed(settings)
        self.routes: list[BaseRoute] = [
            Route("/", self._page),
            Route("/events", self._events),
            Mount("/static", StaticFiles(directory=FILES)),
        ]

    @contextmanager
    def following(self) -> Iterator[None]:
        """Read the topics within the block."""
        self.feed.start()
        try:
            yield
        finally:
            self.feed.stop()

    def stop(self) -> None:
        """End the open event streams."""
        self.feed.stop()

    async def _page(self, request: Request) -> Response:
        return FileResponse(FILES / "index.html")

    async def _events(self, request: Request) -> Response:
        page = Page(self.feed, Selection.of(request.query_params), request.headers.get("last-event-id", ""))
        return StreamingResponse(self._stream(page), media_type="text/event-stream")

    async def _stream(self, page: Page) -> AsyncIterator[bytes]:
        feed, seen, sent_at = self.feed, -1, 0.0
        yield b"retry: 1000\n\n"
        while not feed.stopping:
            now = time.monotonic()
            if feed.version != seen:
                seen, sent_at = feed.version, now
                # Making it may have to wait for the feed to take messages in; the other visitors do not.
                body = await asyncio.to_thread(page.next)
                yield b"id: %s\ndata: %s\n\n" % (page.id.encode(), orjson.dumps(body))
            elif now - sent_at > KEEP_ALIVE_SECONDS:
                sent_at = now
                yield b":\n\n"
            await asyncio.sleep(UPDATE_SECONDS)


def dashboard(settings: Settings, *, browser: bool = False) -> None:
    """``explain-sidecar dashboard``: serve the dashboard alone until SIGTERM or Ctrl-C."""
    settings.servers  # noqa: B018  the message about a missing address, before anything else
    sock = bind(settings.http)
    site = Dashboard(settings)
    ended = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        site.stop()
        ended.set()

    before = signal.signal(signal.SIGTERM, stop)
    with site.following(), serving(make_app(settings.http, site.routes), sock):
        where = address(sock)
        sys.stdout.write(f"dashboard on {where}\n")
        sys.stdout.flush()
        if browser:
            webbrowser.open(where)
        try:
            ended.wait()
        finally:
            site.stop()
            signal.signal(signal.SIGTERM, before)
