"""``python -m tests.crash.soak --minutes 30``: a steady load with a fault a minute, and the oracle at the end.

The rate is by default half of what two workers fold from a backlog: the other half is for catching up after a fault. The report has
the latency from a record to its explanation by minute, and memory, open files and threads of the workers. Worker 0 is
spared by the faults that hit a worker, so that one process lives from the beginning to the end.
"""

import math
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import psutil

from explain_sidecar.broker.embedded import Broker
from tests.brokers import BRIEF_SESSION
from tests.crash.campaign import Campaign, Done, order_of_faults
from tests.crash.faults import KINDS
from tests.crash.load import Load, Verdict
from tests.crash.report import comparison, p99, restarts, title
from tests.crash.watch import Arrival, Watch

SHARE = 0.5
BACKLOG = 20_000
SAMPLE_SECONDS = 5.0
QUIET_SECONDS = 20.0
"""From the beginning of a minute to its fault."""

SETTLED_SECONDS = 30.0
"""What a process takes until its imports and first compilations are behind it."""

DEFAULTS = {
    "EXPLAIN_DRIFT__WINDOW": "5000",
    "EXPLAIN_DRIFT__BOOTSTRAP": "20",
    "EXPLAIN_DRIFT__MAX_SAMPLES": "20000",
    "EXPLAIN_CHECKPOINT__MAX_REPLAY_SECONDS": "3",
    "EXPLAIN_CHECKPOINT__MAX_AGE": "15",
    "EXPLAIN_CHECKPOINT__MAX_OVERHEAD": "0.05",
}
"""The service's own, in place of the campaign's short windows and frequent snapshots."""

NOT_HERE = ("full disk", "crash point rebalance.assign", "crash point rebalance.revoke")
"""Faults that need a disk of their own, or that stop workers other than their victim."""


LATENCIES = ("p50 before the fault", "p99 before the fault", "p50", "p99")


class Sample(NamedTuple):
    """A worker process at a moment: seconds since 1970, its number and slot, its age in seconds, resident bytes."""

    at: float
    pid: int
    slot: int
    age: float
    resident: int
    files: int
    threads: int


class Sampler:
    """Looks at the workers every few seconds."""

    def __init__(self, load: Load) -> None:
        self.samples: list[Sample] = []
        self._load = load
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._open.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._open.wait(SAMPLE_SECONDS):
            for slot, worker in list(self._load.fleet.live.items()):
                try:
                    process, now = psutil.Process(worker.pid), time.time()
                    with process.oneshot():
                        self.samples.append(
                            Sample(
                                now, worker.pid, slot, now - process.create_time(), process.memory_info().rss,
                                process.num_fds(), process.num_threads(),
                            )
                        )  # fmt: skip
                except psutil.Error:
                    pass  # it has just ended


class Soaked(NamedTuple):
    """What a soak has seen."""

    rate: float
    started: float
    faults: list[Done]
    arrivals: list[Arrival]
    samples: list[Sample]
    verdict: Verdict


def capacity() -> float:
    """Records that two workers fold in a second, from a backlog."""
    with Broker(config={"group.min.session.timeout.ms": "1000"} | BRIEF_SESSION) as broker:
        load = Load("capacity", broker, DEFAULTS, 0, records_per_second=1e9, count=BACKLOG)
        try:
            time.sleep(10)
            load.fleet.start(0)
            load.fleet.start(1)
            assert load.until(lambda: sum(load.committed()) > BACKLOG / 4, 120)
            began, first = time.monotonic(), sum(load.committed())
            assert load.until(lambda: sum(load.committed()) > 0.9 * BACKLOG, 300)
            return (sum(load.committed()) - first) / (time.monotonic() - began)
        finally:
            load.close()


def run(seed: int, minutes: int, rate: float, tell: Callable[[str], None] = lambda text: None) -> Soaked:
    """A fault in each minute; ``rate`` is in records a second."""
    kinds = [kind for kind in KINDS if kind not in NOT_HERE]
    campaign = Campaign(
        seed,
        0,
        name="soak",
        environment=DEFAULTS,
        records_per_second=rate,
        count=int(60 * rate * (minutes + 10)),
    )
    campaign.spared = {0}
    try:
        assert campaign.until(lambda: min(campaign.committed(), default=-1) > 0, 300)
        watch, sampler = Watch(campaign.pipeline), Sampler(campaign)
        started, faults = time.time(), []
        for index in range(minutes):
            campaign.fleet.wait(started + 60 * index + QUIET_SECONDS - time.time())
            kind, began = order_of_faults(seed, index, kinds), time.time()
            detail = campaign.inject(kind, f"{seed}/{index}")
            faults.append(Done(index, kind, detail, began - started, time.time() - began))
            tell(f"{index + 1} of {minutes}: {detail}")
        campaign.fleet.wait(started + 60 * minutes - time.time())
        seconds = time.time() - started
        for probe in (watch, sampler):
            probe.close()
        tell("comparing")
        verdict = campaign.verdict(minutes, seconds)
        return Soaked(rate, started, faults, watch.arrivals, sampler.samples, verdict)
    finally:
        campaign.close()


def markdown(seed: int, soaked: Soaked, note: str) -> str:
    """The report."""
    minutes: list[list[Arrival]] = [[] for _ in range(int(soaked.verdict.seconds // 60))]
    for arrival in soaked.arrivals:
        minute = int((arrival.at - soaked.started) // 60)
        if minute < len(minutes):
            minutes[minute].append(arrival)
    latencies = [_latencies(own, soaked.started + 60 * minute) for minute, own in enumerate(minutes)]
    lines = [
        "# Soak",
        "",
        title(seed),
        *([note] if note else []),
        "",
        f"{soaked.rate:,.0f} records a second on 8 partitions, 2 to 4 workers, a fault a minute. {comparison([soaked.verdict])}",
        "",
        "| | first third | last third |",
        "| --- | ---: | ---: |",
        *(
            f"| record to explanation, {name} (median over the minutes), ms | {first:,.0f} | {end:,.0f} |"
            for name, (first, end) in zip(LATENCIES, map(_thirds, zip(*latencies, strict=True)), strict=True)
        ),
        "",
        f"Worker processes that lived for {4 * SETTLED_SECONDS / 60:g} minutes or more, from their {SETTLED_SECONDS:g}th second on; medians of the first third of their life against the last:",
        "",
        "| worker | lived, minutes | resident, MB | change | open files | threads |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
        *_processes(soaked.samples),
        "",
        f"| minute | explanations | {', ms | '.join(LATENCIES)}, ms | worker 0: resident, MB | open files | threads | fault |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for minute, own in enumerate(latencies):
        seen = [
            sample
            for sample in soaked.samples
            if sample.slot == 0 and (sample.at - soaked.started) // 60 == minute
        ]
        process = f"{seen[-1].resident / 1e6:.0f} | {seen[-1].files} | {seen[-1].threads}" if seen else "| |"
        fault = next((fault.detail for fault in soaked.faults if fault.index == minute), "")
        milliseconds = " | ".join("–" if math.isnan(value) else f"{value:,.0f}" for value in own)
        lines.append(f"| {minute + 1} | {len(minutes[minute]):,} | {milliseconds} | {process} | {fault} |")
    return "\n".join([*lines, "", restarts(soaked.verdict)]) + "\n"


def _latencies(arrivals: list[Arrival], begun: float) -> tuple[float, ...]:
    """Milliseconds, as ``LATENCIES`` names them, of a minute that began at a moment; NaN where nothing came."""
    whole = [1000 * arrival.latency for arrival in arrivals]
    quiet = [1000 * arrival.latency for arrival in arrivals if arrival.at < begun + QUIET_SECONDS]
    return tuple(
        function(own) if own else math.nan for own in (quiet, whole) for function in (statistics.median, p99)
    )


def _processes(samples: list[Sample]) -> list[str]:
    rows = []
    for pid in dict.fromkeys(sample.pid for sample in samples):
        own = [sample for sample in samples if sample.pid == pid and sample.age > SETTLED_SECONDS]
        if not own or own[-1].age < 4 * SETTLED_SECONDS:
            continue
        (before, after), files, threads = (
            _thirds([getattr(sample, name) for sample in own]) for name in ("resident", "files", "threads")
        )
        rows.append(
            f"| {own[0].slot} | {own[-1].age / 60:.1f} | {before / 1e6:.0f} → {after / 1e6:.0f} | {after / before - 1:+.1%} | "
            f"{files[0]:g} → {files[1]:g} | {threads[0]:g} → {threads[1]:g} |"
        )
    return rows


def _thirds(values: Sequence[float]) -> tuple[float, float]:
    """Medians of the first and of the last third."""
    values = [value for value in values if not math.isnan(value)]
    third = max(1, len(values) // 3)
    return statistics.median(values[:third]), statistics.median(values[-third:])


@click.command(help=__doc__)
@click.option("--seed", default=1, show_default=True, help="Decides the faults.")
@click.option("--minutes", default=30, show_default=True)
@click.option("--rate", type=float, help="Records a second; measured by default.")
@click.option("--note", default="", help="A sentence for the report, on the machine.")
@click.option("--report", default=Path("build/soak.md"), show_default=True, type=click.Path(path_type=Path))
def main(seed: int, minutes: int, rate: float | None, note: str, report: Path) -> None:
    if rate is None:
        most = capacity()
        rate = SHARE * most
        note = f"{note} Two workers folded {most:,.0f} records a second from a backlog.".strip()
    soaked = run(seed, minutes, rate, lambda text: click.echo(text, err=True))
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(markdown(seed, soaked, note))
    click.echo(report.read_text(), err=True)
    sys.exit(1 if soaked.verdict.problems else 0)


if __name__ == "__main__":
    main()
