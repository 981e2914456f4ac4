"""The dashboard: a page, its files, and the stream of server-sent events that fills it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from explain_sidecar.http.feed import Feed
from explain_sidecar.http.server import address, bind, serving
from explain_sidecar.http.streams import Streams
from explain_sidecar.http.views import ViewSelection
from explain_sidecar.settings import Settings

FILES = Path(__file__).parent / "static"


class Dashboard:
    """Serves the state of the feed."""

    def __init__(self, settings: Settings) -> None:
        self.feed = Feed(settings)
        self._streams = Streams(self.feed, settings.http.max_streams)
        self.routes: list[BaseRoute] = [
            Route("/", self._page),
            Route("/events", self._events),
            Route("/api/predictions", self._predictions),
            Mount("/static", StaticFiles(directory=FILES)),
        ]

    def stop(self) -> None:
        """End the open event streams."""
        self.feed.stop()

    async def _page(self, request: Request) -> Response:
        return FileResponse(FILES / "index.html")

    async def _events(self, request: Request) -> Response:
        return self._streams.open(
            ViewSelection.of(request.query_params), request.headers.get("last-event-id", "")
        )

    # A plain function, which starlette runs in a thread: it may have to wait for the feed to take messages in.
    def _predictions(self, request: Request) -> Response:
        with self.feed.lock:
            status, body = self.feed.look_up(request.query_params.get("id", ""))
        return JSONResponse(body, status)


@contextmanager
def served(settings: Settings, sock: socket) -> Iterator[str]:
    """Serve the dashboard alone within the block; gives its address."""
    site = Dashboard(settings)
    # The feed stops before the server, which waits for the event streams to end.
    with serving(site.routes, sock, settings.http), site.feed.following():
        yield address(sock)


def dashboard(settings: Settings, *, browser: bool = False) -> None:
    """``explain-sidecar dashboard``: serve the dashboard alone until SIGTERM or Ctrl-C."""
    settings.servers  # noqa: B018  the message about a missing address, before anything else
    sock = bind(settings.http)
    ended = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    try:
        with served(settings, sock) as where:
            sys.stdout.write(f"dashboard on {where}\n")
            sys.stdout.flush()
            if browser:
                import webbrowser

                webbrowser.open(where)
            ended.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
