"""The report of a campaign: JSON to take it up again, Markdown to read."""

import json
import platform
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.figures import p99
from explain_sidecar.broker.jars import KAFKA_VERSION
from explain_sidecar.crash_points import POINTS
from tests.crash.campaign import Done
from tests.crash.faults import Recovery
from tests.crash.load import Verdict


@dataclass
class Report:
    """What a campaign has survived so far."""

    seed: int
    stream: str
    not_run: dict[str, str]
    faults: list[Done] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path, seed: int, stream: str, not_run: dict[str, str]) -> "Report":
        """The report of a campaign that was broken off, or a new one. Raises ``ValueError`` for another campaign's folder."""
        path = folder / "report.json"
        if not path.exists():
            return cls(seed, stream, not_run)
        data = json.loads(path.read_text())
        for option, value in (("seed", seed), ("stream", stream)):
            if data[option] != value:
                raise ValueError(
                    f"--{option} {value}: {path} is of {option} {data[option]}; take that, or another --state"
                )
        verdicts = [
            Verdict(**{**verdict, "recoveries": [Recovery(*seconds) for seconds in verdict["recoveries"]]})
            for verdict in data["verdicts"]
        ]
        return cls(seed, stream, data["not_run"], [Done(**fault) for fault in data["faults"]], verdicts)

    def save(self, folder: Path) -> None:
        (folder / "report.json").write_text(json.dumps(asdict(self), indent=1) + "\n")
        (folder / "report.md").write_text(self.markdown())

    @property
    def problems(self) -> list[str]:
        return [problem for verdict in self.verdicts for problem in verdict.problems]

    def markdown(self) -> str:
        verdicts, kinds = self.verdicts, Counter(fault.kind for fault in self.faults)
        points = _sum(verdict.points for verdict in verdicts)
        ended = _sum(verdict.ended for verdict in verdicts)
        left = sum(verdict.aborted for verdict in verdicts)
        not_run = [(kind, f"not run: {why}") for kind, why in sorted(self.not_run.items())]
        lines = [
            f"# Crash campaign on the stream {self.stream}",
            "",
            title(self.seed),
            "",
            comparison(verdicts),
            *_table("fault", "injected", rows=[*sorted(kinds.items()), *not_run]),
            *_table("model", "partitions", rows=sorted(_sum(v.models for v in verdicts).items())),
            *_table("outcome", "events", rows=sorted(_sum(v.joined for v in verdicts).items())),
            *_table("crash point", "reached", rows=[(point, points[point]) for point in POINTS if points]),
            *_table("after SIGKILL, seconds", "runs", "p50", "p99", rows=self._recoveries()),
            "",
            *[f"Kafka left {left} transactions open; `explain-sidecar transactions abort` ended them.\n"]
            * (left > 0),
            f"The slowest probe record took {max((v.probe_seconds for v in verdicts), default=0):.1f} s.",
            *_table("a worker ended by itself and was started again", "times", rows=ended.most_common()),
        ]
        return "\n".join(lines) + "\n"

    def _recoveries(self) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        for membership in ("dynamic", "static"):
            found = [r for v in self.verdicts if v.membership == membership for r in v.recoveries]
            for name in Recovery._fields:
                seconds = [getattr(recovery, name) for recovery in found]
                if seconds:
                    middle, high = f"{statistics.median(seconds):.2f}", f"{p99(seconds):.2f}"
                    rows.append((f"{membership} membership: {name}", len(seconds), middle, high))
        return rows


def title(seed: int) -> str:
    """When, and with what."""
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, seed {seed}; Python {platform.python_version()}, Kafka {KAFKA_VERSION}, confluent-kafka "
        f"{version('confluent-kafka')}, river {version('river')}; {platform.machine()}."
    )


def comparison(verdicts: Sequence[Verdict]) -> str:
    """What was compared, and each problem on a line of its own."""
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    text = (
        f"**{sum(v.faults for v in verdicts)} faults, {len(problems)} problems.** {sum(v.records for v in verdicts):,} records; "
        f"{sum(v.messages for v in verdicts):,} messages with {sum(v.bytes for v in verdicts):,} bytes compared with the oracle; "
        f"{sum(v.seconds for v in verdicts) / 60:.0f} minutes."
    )
    return "\n".join([text, "", *(f"- {problem}" for problem in problems)]).rstrip()


def restarts(verdict: Verdict) -> str:
    """Which workers ended by themselves."""
    ended = ", ".join(f"{reason} ({count})" for reason, count in verdict.ended.items())
    return f"Workers that ended by themselves and were started again: {ended or 'none'}."


def _table(*header: str, rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of a table, none without rows."""
    if not rows:
        return []
    cells = [" | ".join(str(cell).replace("|", " ") for cell in row) for row in rows]
    rule = " | ".join(["---", *["---:"] * (len(header) - 1)])
    return ["", *(f"| {line} |" for line in (" | ".join(header), rule, *cells))]


def _sum(counts: object) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:  # type: ignore[attr-defined]
        total.update(count)
    return total
