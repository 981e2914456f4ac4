"""``python -m benchmarks.segments``: what segments cost: thread time of the fold with 50 of them, over that without.

The same records go to folds with and without segments, block by block in turn; each figure is the median over the blocks of the ratio in
one block. Default model, twelve numbers and a feature of 60 values; "both" keeps segments for iPFI and for iSAGE.
"""

from __future__ import annotations

import random
import time
from typing import Any

import click
import numpy as np
import orjson

from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings

BLOCK = 500
SEGMENTS, VALUES = 50, 60


def records(count: int) -> list[InputRecord]:
    rng = random.Random(0)
    made = []
    for offset in range(count):
        x: dict[str, Any] = {f"x{i}": rng.random() for i in range(12)}
        plan = rng.randrange(VALUES)
        label = x["x0"] + (plan % 2) * x["x1"] + 0.3 * rng.gauss(0, 1) > 0.8
        value = orjson.dumps({**x, "plan": f"plan{plan}", "label": label})
        made.append(InputRecord(offset, offset, b"key", value, ()))
    return made


def folds() -> dict[str, PartitionState]:
    """By name; the first is the one without segments."""
    by = {"by": "plan", "segments": SEGMENTS}
    alarms = {"enabled": True, "subjects": ["loss", "gain", "importance"]}
    watched = {**alarms, "subjects": [*alarms["subjects"], "segments"]}
    known: dict[str, dict[str, Any]] = {
        "without": {"explainers": [{"kind": "ipfi"}, {"kind": "isage"}]},
        "iPFI": {"explainers": [{"kind": "ipfi", **by}, {"kind": "isage"}]},
        "both": {"explainers": [{"kind": "ipfi", **by}, {"kind": "isage", **by}]},
        "alarms, without": {"explainers": [{"kind": "ipfi"}, {"kind": "isage"}], "alarms": alarms},
        "alarms on segments of iPFI": {
            "explainers": [{"kind": "ipfi", **by}, {"kind": "isage"}],
            "alarms": watched,
        },
    }
    return {name: PartitionState(Settings(**sections), 0) for name, sections in known.items()}


@click.command(help=__doc__)
@click.option("--blocks", default=40, show_default=True, help=f"Of {BLOCK} records each.")
def main(blocks: int) -> None:
    states, given = folds(), records(BLOCK * (blocks + 10))
    names = list(states)
    taken = np.empty((blocks + 10, len(names)))
    for block in range(blocks + 10):
        rows = given[BLOCK * block : BLOCK * (block + 1)]
        for turn in range(len(names)):
            at = (block + turn) % len(names)
            step = states[names[at]].step
            started = time.thread_time()
            for record in rows:
                step(record)
            taken[block, at] = time.thread_time() - started
    taken = taken[10:]  # by then all segments are there, and everything is compiled
    print("| fold | µs a record | over that without |")
    print("| --- | --- | --- |")
    for at, name in enumerate(names):
        base = 3 if "alarms" in name else 0
        ratio = float(np.median(taken[:, at] / taken[:, base]))
        print(f"| {name} | {1e6 * float(np.median(taken[:, at])) / BLOCK:.0f} | {ratio:.3f} |")


if __name__ == "__main__":
    main()
