"""``python -m benchmarks.label_free``: what importance for the prediction, and the estimate of the loss, cost: thread time of the fold with it, over that without.

The same records go to folds with and without, 500 in turn, in blocks as a worker folds them; each figure is the median over the turns of the ratio in one.
Default model, twelve numbers, iPFI and iSAGE of the loss, and alarms in all of them. Each tenth record has no label.
"""

from __future__ import annotations

import random
import time
from typing import Any

import click
import numpy as np
import orjson

from benchmarks.fold import folds
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.settings import Settings

TURN, WARM_UP = 500, 4
OF_LOSS = [{"kind": "ipfi"}, {"kind": "isage"}]
PFI = {"kind": "ipfi", "name": "moves", "losses": ["prediction"]}
SAGE = {"kind": "isage", "name": "shares", "losses": ["prediction"]}
ADDED: dict[str, dict[str, Any]] = {
    "without": {},
    "iSAGE of predictions": {"explainers": [*OF_LOSS, SAGE]},
    "iPFI of predictions": {"explainers": [*OF_LOSS, PFI]},
    "iPFI of predictions, one draw": {"explainers": [*OF_LOSS, PFI | {"n_samples": 1}]},
    "estimated loss": {"explain": {"estimated_loss": True}},
}
ALL = {"explainers": OF_LOSS, "alarms": {"enabled": True}, "record": {"unlabelled": "predict"}}


def records(count: int) -> list[bytes]:
    rng = random.Random(0)
    made = []
    for i in range(count):
        x: dict[str, Any] = {f"x{i}": rng.random() for i in range(12)}
        label = x["x0"] + x["x1"] + 0.3 * rng.gauss(0, 1) > 1.0
        made.append(orjson.dumps({**x, "label": label if i % 10 else None}))
    return made


@click.command(help=__doc__)
@click.option("--turns", default=30, show_default=True, help=f"Of {TURN} records each.")
def main(turns: int) -> None:
    states = [PartitionState(Settings.model_validate(ALL | more), 0) for more in ADDED.values()]
    given = records(TURN * (turns + WARM_UP))
    taken = np.empty((turns + WARM_UP, len(states)))
    for turn in range(turns + WARM_UP):
        values = given[turn * TURN : (turn + 1) * TURN]
        for place in [*range(turn % len(states), len(states)), *range(turn % len(states))]:
            started = time.thread_time()
            for _ in folds(states[place], values):
                pass
            taken[turn, place] = time.thread_time() - started
    kept = taken[WARM_UP:]
    for place, name in enumerate(ADDED):
        ratio = np.median(kept[:, place] / kept[:, 0])
        print(f"{name}: {1e6 * np.median(kept[:, place]) / TURN:.0f} µs a record, {100 * (ratio - 1):+.0f} %")


if __name__ == "__main__":
    main()
