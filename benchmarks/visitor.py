"""Who asks a process over HTTP while it is timed: Prometheus and a browser."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import click

SCRAPE_SECONDS = 2.0


class Visitor:
    """Prometheus and a browser: scrapes every ``SCRAPE_SECONDS``, and keeps an event stream of the dashboard open."""

    def __init__(self, pid: int, log: Path) -> None:
        self._pid = pid
        self._begun: tuple[float, float] | None = None
        for target in (self._scrape, self._look):
            threading.Thread(target=target, args=(log,), daemon=True).start()

    def share(self) -> float:
        """What the process, which has ended, spent on the CPU since the first scrape, as a share of a core."""
        if self._begun is None:
            raise click.ClickException("it ended before it could be scraped")
        moment, spent = self._begun
        return (cpu_seconds(self._pid) - spent) / (time.monotonic() - moment)

    def _scrape(self, log: Path) -> None:
        address = address_of(None, log)
        with suppress(OSError, HTTPException):
            while True:
                with urlopen(f"{address}metrics", timeout=10) as answer:
                    answer.read()
                self._begun = self._begun or (time.monotonic(), cpu_seconds(self._pid))
                time.sleep(SCRAPE_SECONDS)

    def _look(self, log: Path) -> None:
        with suppress(OSError, HTTPException):
            stream(address_of(None, log)).read()


def address_of(process: subprocess.Popen[bytes] | None, log: Path) -> str:
    """Where it says that it serves."""
    while (found := re.search(r"http://[\d.:]+/", log.read_text())) is None:
        if process is not None and process.poll() is not None:
            raise click.ClickException(f"it ended before it served:\n{log.read_text()}")
        time.sleep(0.05)
    return found.group()


def stream(address: str) -> HTTPResponse:
    """An event stream of the dashboard, after its first line."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=600)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    answer.readline()
    return answer


def cpu_seconds(pid: int) -> float:
    """What a process, be it one that has ended and was not waited for, has spent on the CPU."""
    spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")
