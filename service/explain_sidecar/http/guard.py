"""The checks of every request, and the headers of every answer.

A web page of somebody else can make a visitor's browser send requests here under a name of its own that resolves to this
machine. Such a request has that name as its Host, so a Host must be an IP address or one of the names that are ours.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from explain_sidecar.settings.operation import HttpSettings

COOKIE = "explain-sidecar-token"
OPEN = ("/healthz", "/readyz")
"""Paths that need no token: an orchestrator's probes have none."""

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware: Host, bearer token, security headers."""

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._names = {"localhost", socket.gethostname().lower(), settings.host.lower()}
        self._names |= {name.lower() for name in settings.allowed_hosts}
        self._token = settings.token.get_secret_value() if settings.token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._refuse(Request(scope))
        await (refused or self._app)(scope, receive, send_guarded)

    def _refuse(self, request: Request) -> Response | None:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not _is_ours(hosts[0], self._names):
            return PlainTextResponse(
                f"Host {', '.join(hosts)[:100]!r} is not this server; add its name to http.allowed_hosts\n",
                421,
            )
        if self._token is None or request.scope["path"] in OPEN or self._carries_token(request.headers):
            return None
        if "token" in request.query_params:
            return self._sign_in(request)
        if secrets.compare_digest(request.cookies.get(COOKIE, "").encode(), self._token.encode()):
            return None
        return PlainTextResponse(
            "a token is needed: send `Authorization: Bearer TOKEN`, or open /?token=TOKEN in a browser; it is http.token\n",
            401,
            {"WWW-Authenticate": "Bearer"},
        )

    def _carries_token(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and secrets.compare_digest(
            given.encode(), (self._token or "").encode()
        )

    def _sign_in(self, request: Request) -> Response:
        """A browser cannot send the header: it gives the token once, and a cookie that no script can read carries it on."""
        if not secrets.compare_digest(request.query_params["token"].encode(), (self._token or "").encode()):
            return PlainTextResponse("this is not the token; it is http.token\n", 401)
        answer = RedirectResponse("/" + request.scope["path"].lstrip("/"), 303)
        answer.set_cookie(COOKIE, self._token or "", httponly=True, samesite="strict")
        return answer


def _is_ours(host: str, names: Iterable[str]) -> bool:
    if not re.fullmatch(r"[\w.:\[\]%-]+", host, re.ASCII):
        return False
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "*" in names or name.rstrip(".") in names
    return True
