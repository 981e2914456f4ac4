"""``python -m tests.crash.cluster``: three brokers, each killed in turn under load, and the oracle at the end.

Replication 3, two in-sync replicas needed for a write, brokers and controllers in the same three processes.

On a machine under load the proof must be of what happens to a record, not of how fast it is folded. So there are few records: workers that cannot
keep up with them explain none from after a kill for minutes. And brokers and workers have their usual session timeouts: where one of the two brokers
that are left, or a worker, is kept waiting for longer, nothing can be committed.
"""

import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import click
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from explain_sidecar.broker.embedded import Broker, free_port
from tests.crash.load import Load, Verdict
from tests.crash.report import comparison, restarts, title
from tests.crash.streams import MIXED
from tests.crash.watch import Watch

BROKERS = (1, 2, 3)
WORKERS = 2
RECORDS_PER_SECOND = 5  # of each partition, all explained; readers see them with the next commit
START_SECONDS, TAKEOVER_SECONDS, SYNC_SECONDS = 120, 300, 120


class Cluster:
    """Three embedded brokers by number, each a process with a controller in it; a context manager."""

    def __init__(self) -> None:
        local = "127.0.0.1"
        ports = {number: (free_port(), free_port()) for number in BROKERS}
        common = {
            "controller.quorum.voters": ",".join(f"{n}@{local}:{port}" for n, (_, port) in ports.items()),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
        }
        self.brokers = {
            number: Broker(
                port=port,
                config={
                    **common,
                    "node.id": str(number),
                    "listeners": f"PLAINTEXT://{local}:{port},CONTROLLER://{local}:{controller}",
                },
            )
            for number, (port, controller) in ports.items()
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def __enter__(self) -> Self:
        with ExitStack() as stack, ThreadPoolExecutor(len(BROKERS)) as pool:
            stack.callback(self.__exit__)
            list(pool.map(Broker.start, self.brokers.values()))
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.kill()  # in order the last one would wait for the others
            broker.stop()

    def in_sync(self) -> bool:
        """Whether every broker has every replica of every partition."""
        try:
            topics = self._admin.list_topics(timeout=5).topics.values()
        except KafkaException:
            return False
        return all(
            len(partition.isrs) == len(BROKERS) for topic in topics for partition in topic.partitions.values()
        )

    def keep(self, folder: Path) -> None:
        """The logs of the brokers."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, broker in self.brokers.items():
            shutil.copy(broker.log, folder / f"broker-{number}.log")

    def coordinator(self, group: str) -> int:
        """The broker that coordinates a group."""
        described = self._admin.describe_consumer_groups([group], request_timeout=30)
        return int(described[group].result().coordinator.id)

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})


@dataclass
class Kill:
    """A broker that was killed: seconds without an explanation, by partition; seconds until it was in sync again."""

    broker: int
    coordinator: bool
    dark: list[float]
    in_sync: float


def run(
    seed: int,
    brokers: Sequence[int] | None = None,
    tell: Callable[[str], None] = lambda text: None,
    evidence: Path | None = None,
    partitions: int = MIXED.partitions,
) -> tuple[list[Kill], Verdict]:
    """Kill these brokers in turn, or the coordinator of the group alone, each once the one before is in sync again.

    ``evidence`` is a folder for the logs of all workers and brokers where something does not pass.
    """
    kills = []
    with Cluster() as cluster, ExitStack() as stack:
        settings = {
            "EXPLAIN_EMIT__EVERY": "1",
            "EXPLAIN_KAFKA__CONFIG": "{}",
            "EXPLAIN_COMMIT__INTERVAL_MS": "300",
        }
        stream = replace(MIXED, partitions=partitions, rate=partitions * RECORDS_PER_SECOND)
        load = Load(f"cluster-{seed}", cluster, settings, WORKERS, stream=stream)
        stack.callback(load.close)
        group, owned = load.pipeline.name, set(load.pipeline.inputs)
        running = load.until(
            lambda: set().union(*map(load.fleet.owned, load.fleet.live.values())) == owned, START_SECONDS
        )
        assert running, [process.log() for process in load.fleet.live.values()]
        watch = Watch(load.pipeline)
        stack.callback(watch.close)
        started, problems = time.time(), []
        if not load.until(
            lambda: watch.explained_since(started) == owned and cluster.in_sync(), SYNC_SECONDS
        ):
            problems.append("the cluster was never in sync")
        for number in brokers or [cluster.coordinator(group)]:
            coordinator = cluster.coordinator(group) == number
            killed = time.time()
            cluster.brokers[number].kill()
            # What was produced well after the kill is explained by the two that are left.
            if not load.until(
                lambda since=killed + 1: watch.explained_since(since) == owned, TAKEOVER_SECONDS
            ):
                problems.append(f"broker {number} dead: not every partition went on in {TAKEOVER_SECONDS} s")
            dark = watch.gaps(killed, time.time())
            cluster.brokers[number].start()
            back = time.time()
            if not load.until(cluster.in_sync, SYNC_SECONDS):
                problems.append(f"broker {number} was not in sync again in {SYNC_SECONDS} s")
            kills.append(Kill(number, coordinator, dark, time.time() - back))
            tell(
                f"broker {number}{', the coordinator of the group' if coordinator else ''}: dark for {max(dark):.1f} s"
            )
        verdict = load.verdict(len(kills), time.time() - started)
        verdict.problems[:0] = problems
        if evidence is not None and verdict.problems:
            load.fleet.keep(evidence)
            cluster.keep(evidence)
        return kills, verdict


def markdown(seed: int, kills: list[Kill], verdict: Verdict) -> str:
    """The report."""
    lines = [
        "# Three brokers",
        "",
        title(seed),
        "",
        f"Replication 3, `min.insync.replicas` 2; {WORKERS} workers, {len(kills)} kills of a broker under load. {comparison([verdict])}",
        "",
        "| broker killed | coordinator of the group | a partition without explanations, s: median | longest | in sync after its start, s |",
        "| ---: | --- | ---: | ---: | ---: |",
        *(
            f"| {kill.broker} | {'yes' if kill.coordinator else ''} | {statistics.median(kill.dark):.1f} | {max(kill.dark):.1f} | {kill.in_sync:.1f} |"
            for kill in kills
        ),
        "",
        restarts(verdict),
    ]
    return "\n".join(lines) + "\n"


@click.command(help=__doc__)
@click.option("--seed", default=1, show_default=True, help="Decides the order of the kills.")
@click.option("--rounds", default=2, show_default=True, help="How often each broker is killed.")
@click.option(
    "--report", default=Path("build/cluster.md"), show_default=True, type=click.Path(path_type=Path)
)
def main(seed: int, rounds: int, report: Path) -> None:
    rng = random.Random(seed)
    brokers = [number for _ in range(rounds) for number in rng.sample(BROKERS, len(BROKERS))]
    kills, verdict = run(seed, brokers, lambda text: click.echo(text, err=True), report.with_suffix(""))
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(markdown(seed, kills, verdict))
    click.echo(report.read_text(), err=True)
    sys.exit(1 if verdict.problems else 0)


if __name__ == "__main__":
    main()
