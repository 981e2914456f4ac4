"""What a text for missing values does to a column of numbers, and what naming it changes.

A partition of the sidecar folds 3,000 records with an income, an age and a label that depends on the income; an income is "?" in
one of five. *CSV*: ``produce`` reads a file, and ``--missing`` names the text; unnamed, it makes all incomes texts. *JSON*: only "?"
is a text, and ``record.missing`` names it. Rejected records go to the dead letters; the loss of the frequencies is that of the
labels' shares alone.
"""

from __future__ import annotations

import json
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from explain_sidecar.commands.csv_rows import converters_of
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings

TIME = 1_700_000_000_000


def records(n: int, csv: bool, missing: list[str]) -> list[dict[str, Any]]:
    rng = np.random.Generator(np.random.PCG64(0))
    incomes, ages = rng.integers(1, 3_000, n).tolist(), rng.integers(18, 90, n).tolist()
    cells = ["?" if gone else str(income) for income, gone in zip(incomes, rng.random(n) < 0.2, strict=True)]
    convert = converters_of([{"income": cell} for cell in cells], missing)[0]["income"] if csv else int
    return [
        {"income": cell if cell == "?" else convert(cell), "age": age, "label": income > 1_500}
        for income, cell, age in zip(incomes, cells, ages, strict=True)
    ]


def folded(n: int, csv: bool, missing: list[str]) -> dict[str, Any]:
    """The last explanation of a partition after n records."""
    state = PartitionState(
        Settings(
            record={"missing": missing},
            model={"task": "binary"},
            explainers=[{"kind": "ipfi"}],
            emit={"every": 100},
        ),
        0,
    )
    last: dict[str, Any] = {}
    for offset, value in enumerate(records(n, csv, missing)):
        record = InputRecord(offset, TIME + offset, b"key", json.dumps(value).encode(), ())
        for output in state.step(record):
            if output.destination == "explanations":
                last = json.loads(output.value)
    return last


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="1,000 records.")
def main(quick: bool) -> None:
    n = 1_000 if quick else 3_000
    report = Report("records", "named", "status", "rejected", "loss", "of the frequencies")
    for csv in (True, False):
        missing: list[str]
        for missing in ([], ["?"]):
            last = folded(n, csv, missing)
            loss = last["performance"]["cross_entropy"]
            cells = str(last["rejected"]), f"{loss['model']:.3f}", f"{loss['empty']:.3f}"
            report.add_row("CSV" if csv else "JSON", "?" if missing else "–", last["status"], *cells)
    Console(width=120).print(report)


if __name__ == "__main__":
    main()
