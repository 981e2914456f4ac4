"""Logs go to stderr: for people, or one JSON object a line; partition and offset on every line that has one."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import orjson

from explain_sidecar.settings.operation import LogSettings
from explain_sidecar.terminal import plain

FIELDS = ("worker", "partition", "offset")


class _Console(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        where = "".join(f" {name}={value}" for name, value in _fields(record).items())
        text = f"{moment} {record.levelname.lower():7} {plain(record.getMessage())}{where}"
        if record.exc_info is None:
            return text
        return f"{text}\n{plain(self.formatException(record.exc_info), keep=chr(10))}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


def set_up_logging(settings: LogSettings, worker: int | None = None) -> None:
    """Send all logs of this process to stderr, in the format and from the level of the settings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if settings.format == "json" else _Console())

    def add_worker(record: logging.LogRecord) -> bool:
        record.worker = worker
        return True

    handler.addFilter(add_worker)
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
