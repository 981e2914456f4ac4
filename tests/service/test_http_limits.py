"""What many, slow and silent clients can and cannot do to the HTTP server: real sockets, no broker."""

import http.client
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import orjson
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route

from explain_sidecar.http.connections import REQUEST_SECONDS, UNREAD_SECONDS
from explain_sidecar.http.dashboard import Dashboard
from explain_sidecar.http.server import bind, serving
from explain_sidecar.http.views import Page
from explain_sidecar.settings import load_settings
from explain_sidecar.settings.operation import HttpSettings

SUPERVISOR = """
import sys
from explain_sidecar.http.site import beside_workers
from explain_sidecar.settings import load_settings
import logging
logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
with beside_workers(load_settings(), 0):
    sys.stdout.flush()
    sys.stdin.read()
"""
ENVIRONMENT = {
    "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "EXPLAIN_HTTP__PORT": "0",
    "EXPLAIN_HTTP__TOKEN": "s3cret",
}


LONG = 20_000_000


async def _hello(request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


async def _long(request: Request) -> PlainTextResponse:
    return PlainTextResponse("x" * LONG)


class Clock:
    """The time of a server's event loop: it passes only as a test says, however slow the machine is."""

    def __init__(self, server: uvicorn.Server) -> None:
        self._loop = server.servers[0].get_loop()
        self._now = self._loop.time()
        self._loop.time = lambda: self._now  # type: ignore[method-assign]

    def advance(self, seconds: float) -> None:
        """Let time pass. Returns when all that falls due in it is done."""
        self._now += seconds
        for _ in range(4):  # what falls due may ask for more, such as the end of a connection
            done = threading.Event()
            self._loop.call_soon_threadsafe(done.set)
            assert done.wait(60)


def is_open(connection: socket.socket) -> bool:
    connection.settimeout(0.1)
    try:
        while connection.recv(10_000):
            pass
    except TimeoutError:
        return True
    except ConnectionResetError:
        pass
    return False


@contextmanager
def served(*routes: BaseRoute, max_streams: int = 100) -> Iterator[tuple[int, uvicorn.Server]]:
    """The port and the server of ``/healthz`` and these routes."""
    settings = HttpSettings(port=0, max_streams=max_streams)
    sock = bind(settings)
    with serving([Route("/healthz", _hello), *routes], sock, settings) as server:
        while not server.started:
            time.sleep(0.01)
        yield sock.getsockname()[1], server


def connect(port: int, text: bytes = b"", timeout: float = 10) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout)
    made.sendall(text)
    return made


def request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def answers(port: int, path: str = "/healthz") -> int:
    """Status of a new connection's answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def test_1200_connections_that_send_no_request_do_not_keep_probes_from_an_answer() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    supervisor = subprocess.Popen(
        ["sh", "-c", f"ulimit -n 1024; exec {sys.executable} -c '{SUPERVISOR}'"],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert supervisor.stdin and supervisor.stdout
    port = int(supervisor.stdout.readline().rpartition(":")[2].strip("/\n"))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        stack.callback(supervisor.wait)
        stack.callback(supervisor.stdin.close)
        assert answers(port) == 200
        for count in range(1200):
            try:
                stack.enter_context(connect(port, b"GET / HT", timeout=0.5))
            except OSError:  # its own queue may be full for a moment; a closed one is no longer in it
                continue
            if count % 400 == 399:
                assert answers(port) == 200
        assert answers(port) == 200
        assert answers(port, "/readyz") == 200
        assert answers(port, "/metrics") == 401


def test_a_request_must_come_within_its_time_however_slowly_it_is_sent() -> None:
    with served() as (port, server):
        clock = Clock(server)
        silent, slow, second = connect(port), connect(port), connect(port, request("/healthz"))
        assert second.recv(1000).startswith(b"HTTP/1.1 200")
        clock.advance(0)  # what follows upon the answer is done
        for _ in range(3):
            clock.advance(REQUEST_SECONDS / 4)
            slow.sendall(b"E")
            second.sendall(b"G")
        assert all(is_open(connection) for connection in (silent, slow, second))
        clock.advance(REQUEST_SECONDS / 4)
        assert not any(is_open(connection) for connection in (silent, slow, second))
        assert answers(port) == 200


def test_beyond_the_limit_the_connection_that_has_waited_longest_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("explain_sidecar.http.server.OTHERS", 4)
    settings = load_settings(environ={**ENVIRONMENT, "EXPLAIN_HTTP__MAX_STREAMS": "1"})
    dashboard = Dashboard(settings)
    with served(*dashboard.routes, max_streams=1) as (port, _):
        stream = connect(port, request("/events"))
        assert stream.recv(1000).startswith(b"HTTP/1.1 200")
        waiting = [connect(port, b"GET /") for _ in range(12)]
        assert answers(port) == 200
        assert is_open(stream)
        assert [is_open(connection) for connection in waiting] == [False] * 9 + [True] * 3
        dashboard.stop()


def test_a_client_that_does_not_read_its_answer_is_left() -> None:
    with served(Route("/long", _long)) as (port, server):
        clock = Clock(server)
        idle = connect(port, request("/long"))
        assert idle.recv(1)
        clock.advance(0)  # what was sent is what can be sent, unless it reads on
        reading = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for start in (0, 2):
            clock.advance(start)
            reading.request("GET", "/long")
            answer = reading.getresponse()
            if start:
                clock.advance(UNREAD_SECONDS - start)  # as long as the first answer may take
            assert len(answer.read()) == LONG
        assert sum(map(len, iter(lambda: idle.recv(1_000_000), b""))) < LONG
        reading.close()


def test_only_so_many_pages_are_open_at_once() -> None:
    dashboard = Dashboard(load_settings(environ=ENVIRONMENT))
    dashboard._streams._limit = 2
    with served(*dashboard.routes) as (port, _):
        pages = [connect(port, request("/events")) for _ in range(2)]
        assert all(page.recv(1000).startswith(b"HTTP/1.1 200") for page in pages)
        refused = connect(port, request("/events"))
        assert refused.recv(1000).startswith(b"HTTP/1.1 503")
        pages[0].close()
        deadline = time.monotonic() + 5
        while not connect(port, request("/events")).recv(1000).startswith(b"HTTP/1.1 200"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        dashboard.stop()


def test_pages_that_show_the_same_share_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    original = Page.next

    def counted(page: Page) -> object:
        nonlocal made
        made += 1
        return original(page)

    monkeypatch.setattr(Page, "next", counted)
    dashboard = Dashboard(load_settings(environ=ENVIRONMENT))
    with served(*dashboard.routes) as (port, _):
        pages = [connect(port, request("/events?view=drift")).makefile("rb") for _ in range(30)]
        pages += [connect(port, request("/events?view=integrity")).makefile("rb") for _ in range(30)]
        for version in range(1, 5):
            for page in pages:
                while not (line := page.readline()).startswith(b"data: "):
                    pass
                assert "problem" in orjson.loads(line.removeprefix(b"data: "))
            if version > 1:
                assert made <= 2 * 2  # two views, and a moment of the update that may fall between two pages
            dashboard.feed.version, made = version, 0
        dashboard.stop()
