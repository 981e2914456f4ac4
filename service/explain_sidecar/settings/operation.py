"""The sections for operators: HTTP, traces and logs."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from explain_sidecar.settings.base import Address, Section


class HttpSettings(Section):
    """Metrics, health and the dashboard."""

    enabled: bool = False
    """Serve metrics, health and the dashboard with `run`."""
    host: str = "127.0.0.1"
    """Address to bind; 0.0.0.0 is every address of this machine."""
    port: int = Field(8080, ge=0, le=65535)
    """Port; 0 takes a free one."""
    token: SecretStr | None = None
    """Bearer token that requests must carry, except those for health."""
    allowed_hosts: list[str] = Field(default_factory=list)
    """Names under which this server is reached, besides localhost, its own host name and every IP address."""
    stall_seconds: float = Field(30, gt=0)
    """A worker that shows no sign of life for this long makes /healthz fail."""
    dashboard: bool = True
    """Serve the dashboard too."""
    max_streams: int = Field(100, ge=1, le=500)
    """Largest number of open dashboard pages; one more is answered with 503."""
    importance: bool = False
    """Also serve metrics of importance: 20 features per partition, and the sum of the others."""
    show_payloads: bool = False
    """Show keys, values and error messages of dead letters in the dashboard."""

    @field_validator("token")
    @classmethod
    def _sendable(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and not re.fullmatch(r"[!-~]+", token.get_secret_value()):
            raise ValueError(
                "a token has at least one character, and none but printable ASCII without spaces"
            )
        return token


class WorkerSettings(Section):
    """The worker processes of `run` and `join`."""

    restarts: int = Field(10, ge=0)
    """How often within ten minutes a worker that was killed, or whose client cannot go on, is started again; one more end stops the others too."""


class TracingSettings(Section):
    """Spans of the messages whose last record has a traceparent; the header itself is always passed on. `OTEL_…` variables work too."""

    endpoint: Address | None = None
    """Collector for OTLP over HTTP, http://host:4318; by default that of OTEL_EXPORTER_OTLP_ENDPOINT, and without it there are no spans."""


class LogSettings(Section):
    """Logs go to stderr."""

    format: Literal["console", "json"] = "console"
    """console is for people, json is one object per line."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""
