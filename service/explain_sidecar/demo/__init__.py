"""``explain-sidecar demo``: a year of flights explained on a real broker, in a few minutes."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import orjson
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from explain_client.words import day
from explain_sidecar.broker import child
from explain_sidecar.commands.produce import write
from explain_sidecar.commands.tail import view
from explain_sidecar.demo import late
from explain_sidecar.demo.flights import ORIGINS, by_origin, flights
from explain_sidecar.demo.summary import summary
from explain_sidecar.errors import UserError
from explain_sidecar.kafka.stream import messages
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.pinned import worker_environment
from explain_sidecar.settings import Settings, load_settings

EVERY = 5
"""Every fifth flight: 65,470 of them fold in about a minute on two cores."""

WORKERS = len(ORIGINS)

SERVERS = "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS"

PLAIN_SECONDS = 10.0
"""Without a terminal, seconds between lines that report the progress."""


def demo(
    *, follow: bool = False, late_labels: bool = False, limit: int | None = None, browser: bool = True
) -> None:
    """Start a broker (unless the environment names one), feed the flights, run the sidecar beside, show what it says.

    Ctrl-C ends it with the same summary, of what was folded until then; so do SIGTERM and a terminal that is closed.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, signal.default_int_handler)
    console = Console()
    steps = _Steps(console)
    with ExitStack() as stack:
        servers, broker = os.environ.get(SERVERS), None
        if servers is None:
            from explain_sidecar.broker.embedded import Broker

            broker = Broker()
            servers = broker.bootstrap_servers
        config = stack.enter_context(tempfile.TemporaryDirectory()) + "/demo.yaml"
        folder = Path(config).parent
        joined = late.settings_of_join(folder) if late_labels else ""
        settings = settings_of(servers, Path(config), joined)
        # The broker's start and the tables take seconds each and run side by side.
        reading = stack.enter_context(ThreadPoolExecutor(1)).submit(flights, EVERY, late_labels)
        if broker is not None:
            stack.enter_context(broker)
            steps.done(f"Apache Kafka answers on {servers}")
        records = reading.result()[:limit]
        steps.done(f"{len(records):,} flights of 2013 with the weather at departure, in time order")
        run = ["--config", config, "run", "--workers", str(WORKERS)]
        if late_labels:
            late.write_schema(folder, records)
            late.feed(settings, records)
            to, run = f"topics {late.DEPARTURES}, in Avro, and {late.ARRIVALS}", [*run, "--with-join"]
        else:
            values = by_origin((record, orjson.dumps(record)) for record in records)
            write(settings, values, count=len(records), partitions=len(ORIGINS), progress=False)
            to = f"topic {settings.topics.records}"
            run += ["--until-caught-up"] * (not follow)
        steps.done(f"fed to {to}, a partition for each of {', '.join(ORIGINS)}")
        sidecar = _spawn(stack, "explain_sidecar.cli", *run)
        steps.done(f"sidecar started, {WORKERS} workers")
        where = stack.enter_context(_dashboard(settings))
        steps.done(f"dashboard on {where}")
        if browser and console.is_terminal and (sys.platform != "linux" or _has_display()):
            webbrowser.open(where)
        counts = [sum(record["origin"] == origin for record in records) for origin in ORIGINS]
        history: dict[int, list[dict[str, Any]]] = {partition: [] for partition in range(len(ORIGINS))}
        interrupted = _watch(console, settings, history, sidecar, counts, follow or late_labels, steps)
        changes, alarms = _read(settings, "drift"), _read(settings, "alarms")
        console.print(summary(history, changes, alarms, ORIGINS, console.width), highlight=False)
        _farewell(console, config if follow and not interrupted else None)
        if interrupted:
            raise KeyboardInterrupt
        if follow:
            try:
                sidecar.wait()
            except KeyboardInterrupt:
                return
    if sidecar.returncode:
        raise UserError(f"the sidecar ended with status {sidecar.returncode}; its messages are above")


def settings_of(servers: str, file: Path, joined: str = "") -> Settings:
    """The demo's settings, as the file that a user would write."""
    file.write_text(
        f"""app_id: flights-demo
kafka: {{bootstrap_servers: "{servers}"}}
topics: {{records: flights, explanations: flights-explanations, drift: flights-drift, alarms: flights-alarms,
         checkpoints: flights-checkpoints, dead_letters: flights-dead-letters}}
record: {{label: late, timestamp: scheduled, features: [carrier, dest, dep_hour, arr_hour, distance,
         temp, dewp, humid, wind_speed, precip, pressure, visib]}}
emit: {{every: 250}}
drift: {{enabled: true, window: 2000, factorisation: per_feature}}
alarms: {{enabled: true, one_in: 100000, min_change: 0.02}}
log: {{level: warning}}
{joined}"""
    )
    return load_settings(file, environ={})


def _spawn(stack: ExitStack, module: str, *arguments: str) -> Popen[bytes]:
    """Run a module of the sidecar as its workers run; it ends with the block or with this process, however that ends."""
    environment = {
        name: value for name, value in worker_environment().items() if not name.startswith("EXPLAIN_")
    }
    process = Popen(
        [sys.executable, "-IS", child.__file__, "", sys.executable, "-P", "-m", module, *arguments],
        env=environment,
        stdin=PIPE,
        stdout=DEVNULL,
        start_new_session=True,  # so that Ctrl-C reaches this process alone, which then stops the others in order
    )
    # A byte is sent, as closing is not enough: a process forked from this one would hold the pipe open.
    stack.callback(process.communicate, b"\n")
    return process


def _dashboard(settings: Settings) -> AbstractContextManager[str]:
    """Serve the dashboard on its usual port where that is free, else on another; gives its address."""
    from explain_sidecar.http.dashboard import served
    from explain_sidecar.http.server import bind

    try:
        sock = bind(settings.http)
    except UserError:
        sock = bind(settings.http.model_copy(update={"port": 0}))
    return served(settings, sock)


def _has_display() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _watch(
    console: Console,
    settings: Settings,
    history: dict[int, list[dict[str, Any]]],
    sidecar: Popen[bytes],
    counts: Sequence[int],
    follow: bool,
    steps: _Steps,
) -> bool:
    """Show the explanations as they arrive, until all flights are folded; returns whether Ctrl-C came first.

    ``counts`` are the flights of each partition; whoever follows sees the last explanation of each.
    """
    latest: dict[int, dict[str, Any]] = {}
    every, total = settings.emit.every, sum(counts)
    explained = sum(count // every * every for count in counts)
    drawn = reported = time.monotonic()
    interrupted = False
    # Without a terminal it would show only its last picture, which the summary says better.
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False, transient=not follow) as live:
        interrupted = True
        for message in _until(settings, lambda: sidecar.poll() is not None):
            if message is not None:
                body = orjson.loads(message)
                if not latest:
                    steps.done("first explanation")
                latest[body["partition"]] = body
                history[body["partition"]].append(body)
            if console.is_terminal and time.monotonic() - drawn > 0.25:
                drawn = time.monotonic()
                live.update(_screen(settings, latest, total), refresh=True)
            elif not console.is_terminal and time.monotonic() - reported > PLAIN_SECONDS:
                reported = time.monotonic()
                steps.done(f"{_folded(latest):,} of {total:,} flights folded")
            if follow and _folded(latest) == explained:
                break
        interrupted = False
    steps.done(f"{_folded(latest):,} flights folded, {sum(map(len, history.values())):,} explanations")
    return interrupted


def _folded(latest: dict[int, dict[str, Any]]) -> int:
    """Records in the newest explanation of each partition."""
    return sum(explanation["records"] for explanation in latest.values())


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


def _read(settings: Settings, output: str) -> list[dict[str, Any]]:
    """What the topic of an output holds."""
    topic = getattr(settings.topics, output)
    if topic not in Topics(settings).describe(topic):
        return []  # it was interrupted before the sidecar made it
    stream = messages(settings, topic, "beginning", until_caught_up=True)
    return [orjson.loads(message.value() or b"{}") for message in stream if message is not None]


def _screen(settings: Settings, latest: dict[int, dict[str, Any]], total: int) -> Group:
    newest = max((explanation["timestamp"] for explanation in latest.values()), default=0)
    date = day(newest) if newest else "…"
    return Group(
        Text(f"\n{_folded(latest):,} of {total:,} flights, {date}", style="bold"), view(settings, latest)
    )


def _farewell(console: Console, running: str | None) -> None:
    """The last screen; ``running`` is the file with the settings of a sidecar that goes on."""
    if running:
        console.print(
            "\nIt goes on until Ctrl-C. In another terminal:\n"
            f"  explain-sidecar --config {running} tail --from-beginning\n"
            f"  explain-sidecar --config {running} tail --from-beginning --alarms\n"
            f"  explain-sidecar --config {running} checkpoint show\n"
            f"  explain-sidecar --config {running} topics show",
            soft_wrap=True,
            highlight=False,
        )
    else:
        console.print("\nTo look around in it: explain-sidecar demo --follow", highlight=False)
    console.print(
        "\nFor a topic of yours:\n"
        f"  export {SERVERS}=HOST:9092 EXPLAIN_TOPICS__RECORDS=TOPIC EXPLAIN_RECORD__LABEL=FIELD\n"
        "  explain-sidecar check   can it work there, and which features are found?\n"
        "  explain-sidecar run     keep a model and its explanations\n"
        "  explain-sidecar tail    see what drives the model\n"
        "No Kafka at hand: explain-sidecar kafka run --port 9092, and explain-sidecar produce --input FILE.csv",
        soft_wrap=True,
        highlight=False,
    )


class _Steps:
    """Named steps with the time since the start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()

    def done(self, text: str) -> None:
        self._console.print(f"[dim]{time.monotonic() - self._started:6.1f} s[/dim]  {text}", highlight=False)
