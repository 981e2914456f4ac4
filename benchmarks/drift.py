"""What DBShap costs by the number of features: Gauss–Legendre against brute force and KernelSHAP, in one run.

5,000 + 5,000 rows of a drifting radial basis function generator, a tree of depth 5 as hypothesis. ``whole`` is the public
function, from rows to result: reading, binning, trees, all Shapley values, without intervals; ``a resample`` is what each
bootstrap resample for the intervals adds; ``of it a feature`` what the game of single features costs beside the joint one, over their
number, in milliseconds. The columns after them solve the same game, whose risk for a coalition is a sum over boxes: by the library, by eq. (7) of the paper over
all coalitions (up to 15 features), and by ``shap.KernelExplainer`` with its default number of samples (up to 20). The
errors are the largest distance to the library's values. Seconds of CPU time, the median of the runs; needs shap.
"""

from __future__ import annotations

import math
import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from river.datasets import synth

from explain_core import losses
from explain_core.drift import dbshap
from explain_core.drift.binned import make_binned
from explain_core.drift.hypothesis import TreeHypothesis
from explain_core.drift.routes import Boxes
from explain_core.drift.shapley import solve_terms
from explain_core.drift.windows import read_pair

Array = np.ndarray[Any, Any]
Terms = tuple[Array, Array, Array]
ROWS = 5_000
CHUNK = 256


def rows(k: int, n: int) -> list[tuple[dict[Any, float], Any]]:
    stream = synth.RandomRBFDrift(
        seed_model=1, seed_sample=1, n_features=k, change_speed=0.87, n_drift_centroids=50
    )
    return list(islice(stream, n))


def game(k: int) -> Terms:
    """The product game as a sum over boxes: concept, then a player per feature."""
    loss = losses.get("zero_one")
    stream = rows(k, 3 * ROWS)
    windows, _ = read_pair(stream[: 2 * ROWS], stream[2 * ROWS :], None, "classification")
    data = make_binned(windows, loss, 10)
    taught = data.codes[0][:ROWS], data.classes.codes[0][:ROWS]
    hypothesis = TreeHypothesis(*taught, data.ranks(), loss, data.classes, data.bins)
    data = data.of_rows(np.arange(ROWS, 2 * ROWS), np.arange(ROWS))
    weights = np.ones(ROWS), np.ones(ROWS)
    boxes = Boxes(data.factors("per_feature"), data.sizes, [hypothesis])
    return boxes.terms(data.trees().fit(weights), weights)


def risk(terms: Terms, coalitions: Array) -> Array:
    """The risk of each row of coalitions × players, in {0, 1}."""
    vertices, baseline, target = terms
    found = []
    for part in np.array_split(coalitions.astype(float), math.ceil(len(coalitions) / CHUNK)):
        total = vertices[:, 0] + part[:, :1] * (vertices[:, 1] - vertices[:, 0])
        for s, b, a in zip(part.T[1:], baseline, target, strict=True):
            total *= b + s[:, None] * (a - b)
        found.append(total.sum(axis=1))
    return np.concatenate(found)


def brute_force(terms: Terms) -> Array:
    """Eq. (7): every coalition."""
    k = 1 + len(terms[1])
    coalitions = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    value, size = risk(terms, coalitions), coalitions.sum(axis=1)
    share = np.array([math.factorial(s) * math.factorial(k - s - 1) / math.factorial(k) for s in range(k)])
    without = [np.flatnonzero(coalitions[:, i] == 0) for i in range(k)]
    return np.array([np.sum(share[size[s]] * (value[s | 1 << i] - value[s])) for i, s in enumerate(without)])


def kernel_shap(terms: Terms) -> Array:
    import shap

    k = 1 + len(terms[1])
    np.random.seed(0)
    explainer = shap.KernelExplainer(lambda s: risk(terms, s), np.zeros((1, k)))
    return np.asarray(explainer.shap_values(np.ones((1, k)), silent=True))[0]


def timed(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        result = run()
        seconds.append(time.process_time() - started)
    return float(np.median(seconds)), result


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="10 features alone, one run.")
def main(quick: bool) -> None:
    repeats = 1 if quick else 3
    report = Table(
        "features", "boxes", "whole", "of it a feature, ms", "a resample", "Gauss–Legendre", "brute force", "error", "KernelSHAP", "error",
        box=None,
    )  # fmt: skip
    whole: dict[int, float] = {}
    joint: dict[int, float] = {}
    for k in (10,) if quick else (10, 15, 20, 54):
        stream = rows(k, 2 * ROWS)
        both = stream[:ROWS], stream[ROWS:]
        whole[k], _ = timed(lambda both=both: dbshap(*both, bootstrap=0), repeats)
        joint[k], _ = timed(lambda both=both: dbshap(*both, factorisation="joint", bootstrap=0), repeats)
        resampled, _ = timed(lambda both=both: dbshap(*both, bootstrap=10), repeats)
        terms = game(k)
        exact, solution = timed(lambda terms=terms: solve_terms(*terms), repeats)
        cells = [
            f"{k}",
            f"{len(terms[0])}",
            f"{whole[k]:.3f}",
            f"{1e3 * (whole[k] - joint[k]) / k:.1f}",
            f"{(resampled - whole[k]) / 10:.3f}",
            f"{exact:.4f}",
        ]
        for method, most in ((brute_force, 15), (kernel_shap, 20)):
            if k > most:
                cells += ["", ""]
                continue
            seconds, values = timed(lambda method=method, terms=terms: method(terms), 1)
            cells += [f"{seconds:.2f}", f"{np.abs(values - solution.values).max():.1e}"]
        report.add_row(*cells)
    Console().print(report)
    if not quick:
        growth = math.log(whole[54] / whole[10]) / math.log(54 / 10)
        print(f"the whole grows as features^{growth:.2f} from 10 to 54")


if __name__ == "__main__":
    main()
