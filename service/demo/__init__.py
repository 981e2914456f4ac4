"""``explain-sidecar demo``: a year of flights explained on a real broker, in a few minutes."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import orjson
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from service.demo.flights import ORIGINS, flights
from service.demo.summary import summary
from service.errors import UserError
from service.produce import write
from service.settings import Settings, load_settings
from service.stream import messages
from service.tail import view

EVERY = 5
"""Every fifth flight: 65,470 of them fold in about a minute and a half on two cores."""

WORKERS = 2
SERVERS = "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS"


def demo(*, follow: bool = False, limit: int | None = None) -> None:
    """Start a broker (unless the environment names one), feed the flights, run the sidecar beside, show what it says."""
    console = Console()
    steps = _Steps(console)
    with ExitStack() as stack:
        servers = os.environ.get(SERVERS)
        if servers is None:
            from service.kafka.broker import Broker

            broker = stack.enter_context(Broker())
            servers = broker.bootstrap_servers
            steps.done(f"Apache Kafka answers on {servers}")
        config = stack.enter_context(tempfile.TemporaryDirectory()) + "/demo.yaml"
        settings = _settings(servers, Path(config))
        records = flights(EVERY)[:limit]
        steps.done(f"{len(records):,} flights of 2013 with the weather at departure, in time order")
        keyed = ((one["origin"].encode(), ORIGINS.index(one["origin"]), one) for one in records)
        write(settings, keyed, count=len(records), partitions=len(ORIGINS), progress=False)
        steps.done(f"fed to topic {settings.topics.records}, a partition for each of {', '.join(ORIGINS)}")
        sidecar = _start(config, stack, until_caught_up=not follow)
        steps.done(f"sidecar started, {WORKERS} workers")
        history: dict[int, list[dict[str, Any]]] = {partition: [] for partition in range(len(ORIGINS))}
        _watch(console, settings, history, sidecar, len(records), follow, steps)
        console.print(summary(history, _changes(settings), ORIGINS), highlight=False)
        _farewell(console, servers if follow else None, config)
        if follow:
            try:
                sidecar.wait()
            except KeyboardInterrupt:
                return
    if sidecar.returncode:
        raise UserError(f"the sidecar ended with status {sidecar.returncode}; its messages are above")


def _settings(servers: str, file: Path) -> Settings:
    """The demo's settings, as the file that a user would write."""
    file.write_text(
        f"""app_id: flights-demo
kafka: {{bootstrap_servers: "{servers}"}}
topics: {{records: flights, explanations: flights-explanations, drift: flights-drift,
         checkpoints: flights-checkpoints, dead_letters: flights-dead-letters}}
record: {{label: late, timestamp: scheduled, features: [carrier, dest, dep_hour, arr_hour, distance,
         temp, dewp, humid, wind_speed, precip, pressure, visib]}}
explain: {{every: 2}}
emit: {{every: 250}}
drift: {{enabled: true, window: 2000, factorisation: per_feature}}
log: {{level: warning}}
"""
    )
    return load_settings(file, environ={})


def _start(config: str, stack: ExitStack, until_caught_up: bool) -> Popen[bytes]:
    command = [sys.executable, "-m", "service.cli", "--config", config, "run", "--workers", str(WORKERS)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EXPLAIN_")}
    sidecar = Popen(command + ["--until-caught-up"] * until_caught_up, env=environment, stdin=PIPE)

    def stop() -> None:
        if sidecar.poll() is None:
            sidecar.terminate()
            sidecar.wait()

    stack.callback(stop)
    return sidecar


def _watch(
    console: Console,
    settings: Settings,
    history: dict[int, list[dict[str, Any]]],
    sidecar: Popen[bytes],
    total: int,
    follow: bool,
    steps: _Steps,
) -> None:
    """Show the explanations as they come, until all flights are folded."""
    latest: dict[int, dict[str, Any]] = {}
    drawn = 0.0
    with Live(console=console, auto_refresh=False, transient=not follow) as live:
        for message in _until(settings, lambda: sidecar.poll() is not None):
            if message is not None:
                body = orjson.loads(message)
                if not latest:
                    steps.done("first explanation")
                latest[body["partition"]] = body
                history[body["partition"]].append(body)
            if console.is_terminal and time.monotonic() - drawn > 0.25:
                drawn = time.monotonic()
                live.update(_screen(latest, total), refresh=True)
            if follow and sum(one["records"] + settings.emit.every for one in latest.values()) > total:
                break
    folded = sum(one["records"] for one in latest.values())
    steps.done(f"{folded:,} flights folded, {sum(map(len, history.values())):,} explanations")


def _until(settings: Settings, ended: Callable[[], bool]) -> Iterator[bytes | None]:
    """Values of the explanations topic until the sidecar has ended and nothing more comes."""
    while True:
        try:
            stream = messages(settings, settings.topics.explanations, "beginning")
            for message in stream:
                yield None if message is None else message.value()
                if message is None and ended():
                    return
        except UserError:  # the sidecar has not created the topic yet
            if ended():
                raise
            time.sleep(0.2)
            yield None


def _changes(settings: Settings) -> list[dict[str, Any]]:
    """What the drift topic holds: why the risk changed from window to window."""
    stream = messages(settings, settings.topics.drift, "beginning", until_caught_up=True)
    return [orjson.loads(message.value() or b"{}") for message in stream if message is not None]


def _screen(latest: dict[int, dict[str, Any]], total: int) -> Group:
    folded = sum(one["records"] for one in latest.values())
    day = max((one["timestamp"] for one in latest.values()), default=0)
    date = time.strftime("%d %B %Y", time.gmtime(day / 1000)) if day else "…"
    return Group(Text(f"\n{folded:,} of {total:,} flights, {date}", style="bold"), view(latest))


def _farewell(console: Console, servers: str | None, config: str) -> None:
    if servers is None:
        console.print(
            "\nTo look around in it:      explain-sidecar demo --follow\n"
            "To try your own data:      explain-sidecar kafka run --port 9092        (a local broker, in its own terminal)\n"
            f"                           export {SERVERS}=127.0.0.1:9092\n"
            "                           explain-sidecar produce --input FILE.csv --label COLUMN --partitions 2\n"
            "                           explain-sidecar run   and   explain-sidecar tail",
            soft_wrap=True,
            highlight=False,
        )
        return
    console.print(
        f"\nIt goes on until Ctrl-C. In another terminal:\n"
        f"  explain-sidecar --config {config} tail --from-beginning\n"
        f"  explain-sidecar --config {config} checkpoint show\n"
        f"  explain-sidecar --config {config} topics show",
        soft_wrap=True,
        highlight=False,
    )


class _Steps:
    """Named steps with the time since the start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._lock = threading.Lock()

    def done(self, text: str) -> None:
        with self._lock:
            self._console.print(
                f"[dim]{time.monotonic() - self._started:6.1f} s[/dim]  {text}", highlight=False
            )
