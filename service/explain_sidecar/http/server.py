"""The HTTP server, in a thread beside what it tells of."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from explain_sidecar.errors import UserError
from explain_sidecar.http.connections import BACKLOG, OTHERS, LimitedConnection
from explain_sidecar.http.guard import Guard
from explain_sidecar.settings.operation import HttpSettings

STOP_SECONDS = 1
"""How long an answer that is being sent may take once the server stops; event streams end at once."""


def bind(settings: HttpSettings) -> socket.socket:
    """The socket to serve on. Raises ``UserError`` where the address is taken or is not ours."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except (OSError, UnicodeError) as error:
        number = error.errno or 0 if isinstance(error, OSError) else 0
        reason = os.strerror(number) if number > 0 else error
        raise UserError(
            f"http.port: cannot serve on {settings.host}:{settings.port}: {reason}; "
            "set http.port to a free one (0 takes any) and http.host to an address of this machine"
        ) from None


def address(sock: socket.socket) -> str:
    """What to type into a browser on this machine."""
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


@contextmanager
def serving(
    routes: Sequence[BaseRoute], sock: socket.socket, settings: HttpSettings
) -> Iterator[uvicorn.Server]:
    """Serve the routes until the end of the block, which takes ``STOP_SECONDS`` at the most."""
    connection: Any = partial(LimitedConnection, settings.max_streams + OTHERS)
    server = uvicorn.Server(
        uvicorn.Config(
            Starlette(routes=routes, middleware=[Middleware(Guard, settings=settings)]),
            http=connection,
            backlog=BACKLOG,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=STOP_SECONDS,
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(STOP_SECONDS + 1)
        sock.close()
