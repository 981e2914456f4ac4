"""What the service costs: ``python -m benchmarks.service --data DIR [SECTION…]``; all sections take a quarter of an hour.

Worker processes on the embedded broker, with the default settings, beside the same fold in a plain loop in a process
with the same environment. All that is compared runs in one rotated block; blocks are summed up by medians. The service
is timed by the workers' own last log lines: first fold to last commit, all snapshots in it. Not in it are the start of
the process, the join, and what a worker spends on finding the past of its partitions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from river.datasets import Phishing

from benchmarks.figures import machine, table_of
from benchmarks.processes import CASES, ONE_DRAW, Bench, Case, Run, Runs
from experiments.data import load
from experiments.options import data_or_none
from explain_sidecar.broker.embedded import Broker

PARTS = (
    ("explaining and learning", "StreamExplainer.fold_block "),
    ("explaining and learning", "StreamExplainer.fold "),
    ("encoding", "PartitionState._explanation "),
    ("decoding", "BlockFold.fold "),
    ("decoding", "Decoder.decode "),
    ("decoding", "Vocabulary.accept "),
    ("rest of the fold", "PartitionState.step "),
    ("rest of the fold", "PartitionState.fold "),
    ("snapshots", "Commits._save "),
    ("committing", "Member._commit_or_send_again "),
    ("consuming and producing", "Member._take_in_waiting "),
    ("consuming and producing", "Member._receive "),
)
"""What a worker's stack is counted as, by the first of these functions that is in it."""

OWN = ("consuming and producing", "decoding", "encoding")


def throughput(bench: Bench, quick: bool) -> Table:
    """The service against the plain loop."""
    table = table_of(
        "Throughput of one worker", "model", "partitions", "records", "loop, 1/s", "service, 1/s", "ratio", "goal",
        "ratio of CPU", "folding", "committing",
    )  # fmt: skip
    blocks, each = (1, (1,)) if quick else (4, (1, 4))
    for case in CASES:
        records = case.quick_records if quick else case.records
        for partitions, pairs in _pairs(bench, case, records, blocks, each).items():
            table.add_row(
                case.name,
                str(partitions),
                f"{records:,}",
                f"{median(records / plain.seconds for plain, _ in pairs):,.0f}",
                f"{median(records / service.seconds for _, service in pairs):,.0f}",
                _spread([plain.seconds / service.seconds for plain, service in pairs]),
                f"≥ {case.goal}",
                _spread([plain.cpu_seconds / service.cpu_seconds for plain, service in pairs]),
                f"{median(service.fold_seconds / service.seconds for _, service in pairs):.1%}",
                f"{median(service.commit_seconds / service.seconds for _, service in pairs):.1%}",
            )
    return table


def snapshots(bench: Bench, quick: bool) -> Table:
    """What storing the state of four partitions takes, with the default cadence."""
    table = table_of(
        "Snapshots of four partitions", "model", "records", "seconds", "snapshots", "time of one, ms", "share", "goal"
    )  # fmt: skip
    for case in CASES:
        records = case.quick_records if quick else case.records
        run = bench.service(bench.environment(case, 4, records), 4, records)
        table.add_row(
            case.name,
            f"{records:,}",
            f"{run.seconds:.1f}",
            str(run.snapshots),
            f"{1e3 * run.snapshot_seconds / run.snapshots:.1f}",
            f"{run.snapshot_seconds / run.seconds:.2%}",
            "≤ 5 %",
        )
    return table


def recovery(bench: Bench, quick: bool) -> Table:
    """A worker that is killed, and its successor. With the default the kill, which follows a commit, often follows a snapshot too."""
    rarely = {"EXPLAIN_CHECKPOINT__MAX_REPLAY_SECONDS": "3"}
    table = table_of(
        "kill -9 near the end, one partition, checkpoint.max_replay_seconds 3", "model", "snapshot, kB", "replayed records", "restore, s", "replay, s"
    )  # fmt: skip
    for case in CASES:
        records = 5 * case.quick_records if quick else case.records
        found = bench.recovery(bench.environment(case, 1, records) | rarely, records)
        table.add_row(
            case.name,
            f"{found['size'] / 1e3:.1f}",
            f"{found['replayed']:,}",
            f"{found['restore']:.2f}",
            f"{found['replay']:.1f}",
        )
    return table


def memory(bench: Bench, quick: bool) -> Table:
    """What a partition takes once it has seen every record."""
    table = table_of(
        "A partition", "model", "after records", "resident, MB", "snapshot, kB", "taking it, ms", "loading it, ms"
    )  # fmt: skip
    for case in CASES:
        held, rows = (2, 1_000) if quick else (case.held, bench.size)
        # The state is as large however often its records are explained: explaining seldom saves minutes.
        environment = bench.environment(case, held, 0) | {"EXPLAIN_EXPLAIN__EVERY": "50"}
        of_one = bench.fold("held", environment, held, rows)
        table.add_row(
            case.name,
            f"{rows:,}",
            f"{of_one['resident'] / 1e6:.2f}",
            f"{of_one['snapshot'] / 1e3:.1f}",
            f"{1e3 * of_one['take_seconds']:.1f}",
            f"{1e3 * of_one['load_seconds']:.1f}",
        )
    return table


def _pairs(
    bench: Bench, case: Case, records: int, blocks: int, each: Sequence[int]
) -> dict[int, list[tuple[Run, Run]]]:
    """Pairs of (plain, service), run one after the other, by number of partitions; four blocks have every order once."""
    pairs: dict[int, list[tuple[Run, Run]]] = {partitions: [] for partitions in each}
    for block in range(blocks):
        for partitions in each if block % 2 else reversed(each):
            arguments = bench.environment(case, partitions, records), partitions, records
            if block // 2 % 2:
                service, plain = bench.service(*arguments), bench.plain(*arguments)
            else:
                plain, service = bench.plain(*arguments), bench.service(*arguments)
            if plain.digests != service.digests:
                raise click.ClickException(f"{case.name}: the service folded something else than the loop")
            pairs[partitions].append((plain, service))
    return pairs


def profile(bench: Bench, quick: bool) -> Table:
    """Where the CPU time of a worker goes; explaining every 50th record alone shows what is the service's own."""
    case, records, runs = CASES[0], 4_000 if quick else 30_000, 1 if quick else 4
    table = table_of(
        f"CPU time of a worker, µs per record (py-spy, least of {runs} runs; {case.name}, each 50th record explained)",
        "part", "µs", "goal",
    )  # fmt: skip
    spent: dict[str, list[float]] = {part: [] for part, _ in PARTS}
    for _ in range(runs):
        run, stacks = bench.sampled(bench.environment(case, 1, records) | {"EXPLAIN_EXPLAIN__EVERY": "50"})
        samples = dict.fromkeys(spent, 0)
        for stack, number in stacks.items():
            part = next((part for part, function in PARTS if function in stack), None)
            if part is not None:
                samples[part] += number
        # py-spy takes the wait for a commit's outcome for work.
        unit = 1e6 * run.cpu_seconds / records / (sum(samples.values()) - samples["committing"])
        for part, number in samples.items():
            spent[part].append(number * unit)
    del spent["committing"]
    for part, values in spent.items():
        table.add_row(part, f"{min(values):.1f}", "")
    own = min(map(sum, zip(*(spent[part] for part in OWN), strict=True)))
    table.add_row(" + ".join(OWN), f"{own:.1f}", "≤ 10")
    return table


def workers(bench: Bench, quick: bool) -> Table:
    """One and two workers on the eight partitions of a backlog; ``most``: the ratio where two cores have nothing else to do and are never idle."""
    case, records, blocks = CASES[2], 1_600 if quick else 40_000, 1 if quick else 4
    table = table_of(
        "Workers on 8 partitions; CPU in µs a record", "model", "records", "1 worker, 1/s", "2 workers, 1/s", "ratio", "goal",
        "CPU of 1", "of 2", "broker's with 1", "with 2", "most",
    )  # fmt: skip
    found: dict[int, list[Runs]] = {1: [], 2: []}
    for block in range(blocks):
        for number in (2, 1) if block % 2 else (1, 2):
            environment = bench.environment(case, 8, records)
            del environment["EXPLAIN_KAFKA__GROUP_INSTANCE_ID"]  # one that ends first leaves the group
            found[number].append(bench.services(number, environment, 8, records))
    cpu = {number: [1e6 * run.cpu_seconds / records for run in runs] for number, runs in found.items()}
    broker = {number: [1e6 * run.broker_seconds / records for run in runs] for number, runs in found.items()}
    table.add_row(
        case.name,
        f"{records:,}",
        *(f"{median(records / run.seconds for run in found[number]):,.0f}" for number in (1, 2)),
        _spread([single.seconds / two.seconds for single, two in zip(found[1], found[2], strict=True)]),
        "≥ .97 of most",
        *(f"{median(spent[number]):.0f}" for spent in (cpu, broker) for number in (1, 2)),
        f"{2 * median(cpu[1]) / (median(cpu[2]) + median(broker[2])):.2f}",
    )
    return table


def rivals(bench: Bench, quick: bool, quix: str | None) -> Table:
    """River and ixai doing the same, in a plain loop and under Quix Streams."""
    title = "The same job, records/s (iPFI and iSAGE; m is the number of draws)"
    columns = [
        "model",
        "records",
        "ixai, loop, m = 1",
        "ixai, Quix Streams, m = 1",
        "service, m = 1",
        "service, default m",
    ]
    table = table_of(title, *columns, "m = 1 against Quix", "goal")
    for case in CASES:
        records = case.quick_records // 2 if quick else case.records
        rates: dict[str, list[float]] = {"loop": [], "quix": [], "one": [], "default": []}

        names = [name for name in rates if quix or name != "quix"]
        for block in range(1 if quick else 4):
            for name in [*names[block % len(names) :], *names[: block % len(names)]]:
                rates[name].append(records / _seconds(bench, case, records, name, quix))
        against = [ours / other for ours, other in zip(rates["one"], rates["quix"], strict=False)]
        table.add_row(
            case.name,
            f"{records:,}",
            *(f"{median(rates[name]):,.0f}" if rates[name] else "–" for name in rates),
            _spread(against, 1) if against else "–",
            f"≥ {case.rival_goal}",
        )
    return table


def watched(bench: Bench, quick: bool) -> Table:
    """``run`` with HTTP, metrics that are scraped and a dashboard that is looked at, against ``run`` without."""
    case, partitions = CASES[0], 4
    records, blocks = (case.quick_records, 1) if quick else (case.records, 10)
    table = table_of(
        "Metrics and dashboard", "model", "records", "without, 1/s", "with, 1/s", "ratio of time", "ratio of the worker's CPU",
        "goal", "supervisor's CPU",
    )  # fmt: skip
    pairs, shares = [], []
    for block in range(blocks):
        arguments = [(bench.environment(case, partitions, records), partitions, records) for _ in range(2)]
        plain = bench.unwatched(*arguments[0]) if block % 2 else None
        run, share = bench.watched(*arguments[1])
        pairs.append((plain or bench.unwatched(*arguments[0]), run))
        shares.append(share)
    table.add_row(
        case.name,
        f"{records:,}",
        f"{median(records / plain.seconds for plain, _ in pairs):,.0f}",
        f"{median(records / run.seconds for _, run in pairs):,.0f}",
        _spread([run.seconds / plain.seconds for plain, run in pairs], 3),
        _spread([run.cpu_seconds / plain.cpu_seconds for plain, run in pairs], 3),
        "≤ 1.03",
        f"{median(shares):.1%} of a core",
    )
    return table


def stopping(bench: Bench, quick: bool) -> Table:
    """SIGTERM with ten open event streams."""
    table = table_of("SIGTERM with ten open event streams", "command", "seconds to its end", "goal")
    for command in ("run", "dashboard"):
        seconds = [
            bench.stop_with_streams(bench.environment(CASES[0], 4, 2_000), command, 10)
            for _ in range(1 if quick else 5)
        ]
        table.add_row(command, _spread(seconds), "≤ 2")
    return table


def _seconds(bench: Bench, case: Case, records: int, name: str, quix: str | None) -> float:
    environment = bench.environment(case, 4, records)
    if name in ("loop", "quix"):
        return bench.rival(name, environment, records, quix)
    return bench.service(environment | (ONE_DRAW if name == "one" else {}), 4, records).seconds


def _spread(values: list[float], digits: int = 2) -> str:
    middle, least, most = (f"{value:.{digits}f}" for value in (median(values), min(values), max(values)))
    return f"{middle} ({least}–{most})" if len(values) > 1 else middle


def _records(data: Path | None) -> tuple[str, list[dict[str, Any]]]:
    if data is not None:
        elec2 = load("elec2", data)
        rows = zip(elec2.rows(), elec2.y.tolist(), strict=True)
        return "elec2", [{**x, "label": y} for x, y in rows]
    repeated = islice(cycle(Phishing()), 45_312)
    return "river's Phishing, repeated to 45,312 records", [{**x, "label": int(y)} for x, y in repeated]


SECTIONS: dict[str, Callable[..., Table]] = {
    section.__name__: section
    for section in (throughput, snapshots, recovery, memory, profile, workers, watched, stopping, rivals)
}


@click.command(help=__doc__)
@click.argument("sections", nargs=-1, type=click.Choice(list(SECTIONS)))
@data_or_none("Folder of elec2.csv.gz; without it river's Phishing, repeated.")
@click.option("--quick", is_flag=True, help="One block, fewer records: some twenty seconds a section.")
@click.option(
    "--quix",
    metavar="PYTHON",
    help="Interpreter of an environment with quixstreams, ixai, orjson and what explain-core needs; Quix Streams needs an older confluent-kafka.",
)
def main(sections: tuple[str, ...], data: Path | None, quick: bool, quix: str | None) -> None:
    console = Console(width=180)
    name, records = _records(data)
    console.print(f"{machine()}; {name}")
    # Kafka's default: two workers that start together share the partitions from the beginning.
    config = {"group.initial.rebalance.delay.ms": "3000"}
    with tempfile.TemporaryDirectory() as folder, Broker(config=config) as broker:
        bench = Bench(broker, records, Path(folder))
        for section in sections or SECTIONS:
            more = {"quix": quix} if section == "rivals" else {}
            console.print(SECTIONS[section](bench, quick, **more))


if __name__ == "__main__":
    main()
