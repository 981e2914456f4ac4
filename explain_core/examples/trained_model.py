"""What drives a trained model on a CSV file, and whether the next model is better: as short as a notebook.

    python explain_core/examples/trained_model.py --csv loans.csv --model current.ubj --challenger next.ubj --label granted

The models are files of XGBoost, LightGBM, scikit-learn (skops), ONNX or CatBoost, or MLflow directories of these. XGBoost and
LightGBM need not be installed to read theirs.

Without files, `--make FOLDER` makes them there: loan applications by river's Agrawal generator, and two models that XGBoost (which it needs)
learns from others of them.
"""

import argparse
import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from river.datasets.synth import Agrawal

import explain_core as ec

RECORDS = 12_000
TRAINED_ON = 6_000


def make(folder: Path) -> tuple[Path, Path, Path]:
    """Write a CSV file and two models, the second of which is the better one."""
    import numpy as np
    import xgboost

    folder.mkdir(parents=True, exist_ok=True)
    applications = list(
        islice(Agrawal(classification_function=1, seed=7, perturbation=0.1), TRAINED_ON + RECORDS)
    )
    names = list(applications[0][0])
    rows = np.array([[x[name] for name in names] for x, _ in applications[:TRAINED_ON]], np.float32)
    granted = np.array([y for _, y in applications[:TRAINED_ON]])
    for name, depth, trees in (("current", 2, 8), ("next", 4, 40)):
        data = xgboost.DMatrix(rows, granted, feature_names=names)
        trained = xgboost.train(
            {"objective": "binary:logistic", "max_depth": depth, "nthread": 1}, data, trees
        )
        trained.save_model(folder / f"{name}.ubj")
    with (folder / "loans.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*names, "granted"])
        writer.writeheader()
        writer.writerows({**x, "granted": y} for x, y in applications[TRAINED_ON:])
    return folder / "loans.csv", folder / "current.ubj", folder / "next.ubj"


def value(text: str) -> float | str:
    """A cell as a number where it is one."""
    try:
        return float(text)
    except ValueError:
        return text


def records(path: Path, label: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """The rows of the file and their labels; an empty cell is a missing value."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            y = value(row.pop(label))
            yield {name: value(cell) for name, cell in row.items() if cell}, y


def explain(path: Path, uri: Path, label: str) -> None:
    """What drives one model."""
    model = ec.load_model(uri)  # recognised by its content; columns, classes and categories are the file's
    print(f"{uri.name}: {len(model.features or ())} features, {', '.join(model.features or ())}")

    # Plain means over the file: nothing is forgotten. Both estimators explain in one evaluation, by compiled code; they read the
    # rows of one reservoir, which is ours to fill.
    rows = ec.GeometricReservoir(100, seed=2)
    settings: dict[str, Any] = {"alpha": None, "reservoir": rows, "features": model.features, "seed": 2}
    pfi = ec.IncrementalPFI(model, **settings)
    sage = ec.IncrementalSAGE(model, evaluator=pfi.evaluator, **settings)
    both = ec.EstimatorGroup([pfi, sage])
    performance = ec.Performance([ec.losses.get("cross_entropy")], None)
    for x, y in records(path, label):
        prediction = model.predict(x)
        both.explain_one(x, y, prediction)
        rows.add(x)
        performance.update(y, prediction)

    own, without, _ = performance.of("cross_entropy")
    print(f"cross-entropy {own:.3f}, without any feature {without:.3f}")
    for explanation in (pfi.explanation, sage.explanation):
        found = [
            f"{name} {importance.value:.3f} ({importance.low:.3f} to {importance.high:.3f})"
            for name, importance in explanation.top(3)
        ]
        print(f"{explanation.estimator}: {', '.join(found)}")


def compare(path: Path, uri: Path, challenger: Path, label: str) -> None:
    """Which of two models loses less, looked at as often as one likes, and what matters more to which."""
    models = ec.load_model(uri), ec.load_model(challenger)
    comparison = ec.Comparison(*models, losses="brier", alpha=None)
    for n, (x, y) in enumerate(records(path, label), start=1):
        comparison.update(x, y)
        if n in (100, 1_000, 4_000) or n == RECORDS:
            print(f"after {n:,}: {comparison.sentence(uri.stem, challenger.stem)}")
    for name, difference in comparison.importance().top(2):
        band = f"{difference.low:+.3f} to {difference.high:+.3f}"
        print(f"{name} matters more to {challenger.stem} by {difference.value:.3f} ({band})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv", type=Path, metavar="FILE", help="records, with a header")
    parser.add_argument("--model", type=Path, metavar="FILE")
    parser.add_argument("--challenger", type=Path, metavar="FILE", help="compare the model with this one")
    parser.add_argument("--label", default="granted", metavar="COLUMN")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="make the files there")
    given = parser.parse_args()
    if given.make is not None:
        given.csv, given.model, given.challenger = make(given.make)
    if given.csv is None or given.model is None:
        parser.error("--csv and --model: name both files, or let --make FOLDER make them")
    explain(given.csv, given.model, given.label)
    if given.challenger is not None:
        compare(given.csv, given.model, given.challenger, given.label)


if __name__ == "__main__":
    main()
