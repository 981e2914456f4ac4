"""``python -m benchmarks.windows --data DIR``: what drift windows add to the fold, on elec2.

Two states fold the same records, one of them with windows of 5,000 records and the joint game, in blocks by turns. CPU time
of the thread; the ratio of both totals is in one run.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import orjson
from rich.console import Console

from benchmarks.figures import table_of
from experiments.data import load
from service.fold.partition import PartitionState
from service.fold.records import InputRecord
from service.settings import Settings

MODELS = {
    "logistic pipeline": {},
    "Hoeffding adaptive tree": {"factory": "river.tree:HoeffdingAdaptiveTreeClassifier"},
    "ARF, 10 trees": {"factory": "river.forest:ARFClassifier"},
}
BLOCK = 250


def measure(model: dict[str, str], values: list[bytes], window: int) -> tuple[float, float, float, int]:
    """CPU seconds without and with windows, of the longest step, and the attributions made."""
    states = [
        PartitionState(Settings(model=model, drift=drift), 0)  # type: ignore[arg-type]
        for drift in ({}, {"enabled": True, "window": window})
    ]
    seconds, longest, made = [0.0, 0.0], 0.0, 0
    for first in range(0, len(values), BLOCK):
        block = [
            InputRecord(offset, 0, None, value)
            for offset, value in enumerate(values[first : first + BLOCK], first)
        ]
        for side in (0, 1) if first // BLOCK % 2 else (1, 0):
            step = states[side].step
            for record in block:
                started = time.thread_time()
                outputs = step(record)
                spent = time.thread_time() - started
                seconds[side] += spent
                if any(output.destination == "drift" for output in outputs):
                    made += 1
                    longest = max(longest, spent)
    return seconds[0], seconds[1], longest, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory with elec2.csv.gz")
    parser.add_argument("--quick", action="store_true", help="10,000 records, windows of 1,000")
    arguments = parser.parse_args()
    limit, window = (10_000, 1_000) if arguments.quick else (45_312, 5_000)
    data = load("elec2", arguments.data)
    labels = data.y.tolist()
    values = [orjson.dumps({**x, "label": y}) for x, y in zip(data.rows(), labels, strict=True)][:limit]
    title = f"{len(values):,} records of elec2, windows of {window:,}"
    table = table_of(
        title, "model", "µs per record", "with windows", "adds", "longest attribution", "attributions"
    )
    for name, model in MODELS.items():
        without, with_windows, longest, made = measure(model, values, window)
        table.add_row(
            name,
            f"{without / len(values) * 1e6:.0f}",
            f"{with_windows / len(values) * 1e6:.0f}",
            f"{with_windows / without - 1:.1%}",
            f"{longest * 1e3:.0f} ms",
            str(made),
        )
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
