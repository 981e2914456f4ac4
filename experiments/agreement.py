"""Does the library agree with the reference implementations?

Paired differences over seeds, a t-test per feature at Šidák level 0.001 over the features of a comparison:

- batch permutation importance (estimate and exact) against scikit-learn's ``permutation_importance`` times N/(N−1),
  since that permutes with fixed points (accuracy, N = 200);
- batch SAGE against the package ``sage-importance`` at equal m: both average the same whole background of 20 rows;
- iPFI and iSAGE (m = 1) against ``ixai`` on a static Hoeffding tree, raw values, geometric reservoir with insertion
  probability 1 (ixai's default is 1/L).

Needs scikit-learn, sage-importance and ixai; with ``--data`` also on elec2.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report
from scipy import stats

from experiments.data import Table, agrawal, load
from experiments.options import data_or_none
from explain_core import losses
from explain_core.importance.batch.permutation import PermutationImportance
from explain_core.importance.batch.sage import SAGE
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.progress import track

LEVEL = 0.001
Difference = Callable[[int], Any]


def batch_pfi(table: Table, method: str, n: int, n_repeats: int) -> Difference:
    from sklearn.inspection import permutation_importance

    model = boosted(table)

    def difference(seed: int) -> Any:
        part = table.take(np.random.Generator(np.random.PCG64(seed)).choice(len(table.y), n, replace=False))
        pfi = PermutationImportance(model, loss="zero_one", features=part.features, seed=seed)
        ours = pfi.explain(part.X, part.y, method=method, kind="difference", n_repeats=n_repeats)  # type: ignore[arg-type]
        theirs = permutation_importance(
            model, part.X, part.y, scoring="accuracy", n_repeats=n_repeats, random_state=seed
        )
        return ours.values[0] - theirs.importances_mean * n / (n - 1)

    return difference


def batch_sage(table: Table, records: int) -> Difference:
    import sage

    model = boosted(table)

    def difference(seed: int) -> Any:
        order = np.random.Generator(np.random.PCG64(seed)).choice(len(table.y), 520, replace=False)
        background, part = table.take(order[:20]), table.take(order[20:])
        estimator = SAGE(model, n_samples=None, features=table.features, seed=seed)
        ours = estimator.explain(part.X, part.y, background=background.X, n_outer=records, tolerance=None)
        reference = sage.PermutationEstimator(sage.MarginalImputer(model, background.X), random_state=seed)
        theirs = reference(
            part.X, part.y, batch_size=100, n_permutations=records, detect_convergence=False, bar=False
        )
        return ours.values[0] - theirs.values

    return difference


def incremental(table: Table, kind: str, length: int) -> Difference:
    from ixai.explainer import IncrementalPFI as TheirPFI
    from ixai.explainer.sage import IncrementalSage as TheirSAGE
    from ixai.storage import GeometricReservoirStorage
    from river import tree

    model = tree.HoeffdingTreeClassifier()
    rows, truths, half = table.rows(), table.y.tolist(), len(table.y) // 2
    for x, y in zip(rows[:half], truths[:half], strict=True):
        model.learn_one(x, y)
    ours = {"iPFI": IncrementalPFI, "iSAGE": IncrementalSAGE}[kind]
    theirs = {"iPFI": TheirPFI, "iSAGE": TheirSAGE}[kind]

    def difference(seed: int) -> Any:
        order = half + np.random.Generator(np.random.PCG64(seed)).choice(
            len(rows) - half, length, replace=False
        )
        random.seed(seed)  # ixai draws from the global generators
        np.random.seed(seed)
        # A function of our own in place of model.predict_proba_one: ixai's wrapper for river does not know its labels.
        reference = theirs(
            model_function=lambda x: model.predict_proba_one(x),
            loss_function=losses.get("cross_entropy"),
            feature_names=table.features,
            storage=GeometricReservoirStorage(size=100, constant_probability=1.0, store_targets=False),
            n_inner_samples=1,
            smoothing_alpha=0.001,
            dynamic_setting=True,
        )
        estimator = ours(
            model, features=table.features, alpha=0.001, size=100, warm_up=1, n_samples=1, seed=seed
        )
        for i in order.tolist():
            reference.explain_one(rows[i], truths[i])
            estimator.explain_one(rows[i], truths[i])
        return estimator.raw[0] - np.array([reference.importance_values[name] for name in table.features])

    return difference


def boosted(table: Table) -> Any:
    """A model whose probabilities are never 0: the packages clip them differently."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(table.X, table.y)


def t_tests(differences: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], float]:
    """p of a t-test that each column has mean 0 (1 where every difference is 0), and the Šidák level of one."""
    noise = differences.std(axis=0, ddof=1)
    exact = noise <= 1e-15
    p = np.where(exact, np.abs(differences.mean(axis=0)) <= 1e-12, 0.0)
    p[~exact] = stats.ttest_1samp(differences[:, ~exact], 0.0).pvalue
    return p, 1.0 - (1.0 - LEVEL) ** (1.0 / differences.shape[1])


@click.command(help=__doc__)
@data_or_none("Directory with elec2.csv.gz.")
@click.option("--quick", is_flag=True, help="2 seeds and 200 records, for a check that it runs.")
def main(data: Path | None, quick: bool) -> None:
    warnings.filterwarnings("ignore", category=UserWarning)  # ixai comments on every model function
    seeds, length, n, n_repeats, permutations = (
        (2, 200, 40, 10, 100) if quick else (20, 5_000, 200, 100, 1_000)
    )
    tables = [agrawal(max(1_000, 4 * length), seed=1)] + ([load("elec2", data)] if data else [])
    report = Report("data", "comparison", "largest mean difference", "smallest p", "level", "agree")
    failed = 0
    for table in tables:
        comparisons: dict[str, Difference] = {
            "estimate, scikit-learn": batch_pfi(table, "estimate", n, n_repeats),
            "exact, scikit-learn": batch_pfi(table, "exact", n, n_repeats),
            "SAGE, sage-importance": batch_sage(table, permutations),
            "iPFI, ixai": incremental(table, "iPFI", length),
            "iSAGE, ixai": incremental(table, "iSAGE", length),
        }
        for name, difference in comparisons.items():
            found = np.array(
                [difference(seed) for seed in track(range(seeds), f"{table.name}: {name}", seeds, True)]
            )
            p, level = t_tests(found)
            worst = int(np.argmax(np.abs(found.mean(axis=0))))
            largest = f"{found.mean(axis=0)[worst]:+.5f} ({table.features[worst]})"
            agree = bool((p >= level).all())
            failed += not agree
            report.add_row(
                table.name, name, largest, f"{p.min():.4f}", f"{level:.6f}", "yes" if agree else "NO"
            )
    Console().print(report)
    raise SystemExit(1 if failed and not quick else 0)


if __name__ == "__main__":
    main()
