"""``python -m benchmarks.windows --data DIR``: the whole fold without Kafka, and what drift windows add to it, on elec2.

Three states fold the same records in blocks by turns: without windows, with windows of 5,000 records and the joint game, and with
windows of 2,000 records, feature by feature. CPU time of the thread; the ratios of the totals are in one run.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from benchmarks.figures import table_of
from experiments.data import load
from explain_sidecar.collector import settle
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings

MODELS = {
    "logistic pipeline": {"name": "linear"},
    "Hoeffding adaptive tree": {"factory": "river.tree:HoeffdingAdaptiveTreeClassifier"},
    "ARF, 10 trees": {"factory": "river.forest:ARFClassifier"},
}
WINDOWS: dict[str, dict[str, Any]] = {
    "joint": {"window": 5_000},
    "per feature": {"window": 2_000, "factorisation": "per_feature"},
}
BEFORE = {"logistic pipeline": 86.0, "Hoeffding adaptive tree": 181.0}
"""Microseconds per record of the fold without windows when river itself learnt, on 2026-11-21: the goal is a tenth of it."""
BLOCK = 250


def measure(
    model: dict[str, str], values: list[bytes], **other: int
) -> tuple[list[float], list[float], list[int]]:
    """CPU seconds without and with each kind of windows, of the longest step of each, and the attributions made."""
    drifts = [{}, *({"enabled": True, **drift, **other} for drift in WINDOWS.values())]
    states = [PartitionState(Settings(model=model, drift=drift), 0) for drift in drifts]
    seconds, longest, made = [0.0] * 3, [0.0] * 3, [0] * 3
    for first in range(0, len(values), BLOCK):
        block = [
            InputRecord(offset, 0, None, value)
            for offset, value in enumerate(values[first : first + BLOCK], first)
        ]
        turn = first // BLOCK % 3
        for side in (*range(turn, 3), *range(turn)):
            step = states[side].step
            for record in block:
                started = time.thread_time()
                outputs = step(record)
                spent = time.thread_time() - started
                seconds[side] += spent
                if any(output.destination == "drift" for output in outputs):
                    made[side] += 1
                    longest[side] = max(longest[side], spent)
    return seconds, longest, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory with elec2.csv.gz")
    parser.add_argument("--records", type=int, default=45_312, help="the first so many (default all 45,312)")
    arguments = parser.parse_args()
    data = load("elec2", arguments.data)
    labels = data.y.tolist()
    rows = zip(data.rows(), labels, strict=True)
    values = [orjson.dumps({**x, "label": y}) for x, y in rows][: arguments.records]
    table = table_of(
        f"{len(values):,} records of elec2", "model", "µs per record without", "records/s", "windows", "adds, µs", "share",
        "share of the fold of 2026-11-21", "longest attribution", "attributions",
    )  # fmt: skip
    settle()
    for name, model in MODELS.items():
        measure(model, values[:1_000], window=300)  # compiles
        (without, *others), (_, *longest), (_, *made) = measure(model, values)
        for i, kind in enumerate(WINDOWS):
            added = (others[i] - without) / len(values) * 1e6
            table.add_row(
                name,
                f"{without / len(values) * 1e6:.0f}",
                f"{len(values) / without:,.0f}",
                f"{WINDOWS[kind]['window']:,}, {kind}",
                f"{added:.0f}",
                f"{others[i] / without - 1:.1%}",
                f"{added / BEFORE[name]:.1%} (goal ≤ 10 %)" if name in BEFORE else "–",
                f"{longest[i] * 1e3:.0f} ms",
                str(made[i]),
            )
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
