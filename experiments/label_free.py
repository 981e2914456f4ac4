"""Monitoring without labels: does it ring for nothing, and does it see what it should?

- ``nulls``: alarms on importances for the prediction, on streams on which nothing changes: 20 seeds × 5 models, with the default tolerance. Each stream has ``one_in``
  records: one alarm a stream is the promise.
- ``changes``: the same streams with a change of the inputs after half of the records, and no label ever: in how many of the 5 models it is noticed, and after how many records.
- ``losses``: alarms about the estimated loss. Half of the records have a label; then, and with the change, no label comes any more. In how many of the 5 models an alarm comes, and whether
  it says rose or fell as the true loss did. Without a change: 2 seeds × 5 models.
- ``versions``: ``ExplanationShift`` on pairs of models that differ on identical inputs, and on equal ones, 2,000 records each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Report

from experiments.options import quick_option
from explain_core import Alarming, Explainer, ExplanationShift, Options, StreamExplainer, learner_of
from explain_core.losses import DEFAULT, get
from explain_core.models import Model

Rng = np.random.Generator
Row = dict[str, Any]

NAMES = "abcdef"
LENGTH = 5_000
CHANGES = {"a spreads out": "a", "a is stuck": "a", "d in another unit": "d", "a moves by 2 SD": "a"}
"""What changes, and in which feature."""
TAUGHT = 3_000
WEIGHTS = (2.0, 1.5, 1.0, 0.5, 0.0, 0.0)


def rows(rng: Rng, n: int, change: str = "", since: int = 0) -> Iterator[Row]:
    """Normal features, b with heavy tails and c of three values; from the record ``since`` on they change."""
    x = rng.normal(size=(n, len(NAMES)))
    x[:, 1] = np.sinh(1.2 * x[:, 1]) / 1.5
    x[:, 2] = rng.integers(0, 3, n) - 1.0
    late = np.arange(n) >= since
    if change == "a spreads out":
        x[late, 0] *= 2.0
    elif change == "a is stuck":
        x[late, 0] = 0.0
    elif change == "d in another unit":
        x[late, 3] *= 10.0
    elif change == "a moves by 2 SD":
        x[late, 0] += 2.0
    for row in x.tolist():
        yield dict(zip(NAMES, row, strict=True))


def target(x: Row, rng: Rng) -> float:
    return (
        sum(w * x[name] for w, name in zip(WEIGHTS, NAMES, strict=True))
        + x["a"] * x["d"]
        + float(rng.normal())
    )


def taught(made: Any, task: str, rng: Rng) -> Model:
    """A learner of 3,000 records, which learns no more."""
    model = learner_of(made, task)  # type: ignore[arg-type]
    assert model is not None
    for x in rows(rng, TAUGHT):
        y = target(x, rng)
        model.learn(x, y > 0.0 if task == "classification" else y)
    return model


def boosted(rng: Rng, **settings: Any) -> Model:
    """XGBoost on 3,000 records."""
    import xgboost

    from explain_core.artefacts.load import load_model

    data = list(rows(rng, TAUGHT))
    y = [float(target(x, rng) > 0.0) for x in data]
    matrix = xgboost.DMatrix(np.array([[*x.values()] for x in data]), y, feature_names=list(NAMES))
    chosen = {"objective": "binary:logistic", "max_depth": 4, "nthread": 1, "seed": 0} | settings
    booster = xgboost.train(chosen, matrix, 30)
    with tempfile.TemporaryDirectory() as folder:
        booster.save_model(f"{folder}/model.ubj")
        return load_model(f"{folder}/model.ubj", "classification")


def models() -> dict[str, Callable[[Rng], Model]]:
    from river import linear_model, preprocessing, tree

    def linear(rng: Rng) -> Model:
        return taught(preprocessing.StandardScaler() | linear_model.LinearRegression(), "regression", rng)

    return {
        "a linear regression": linear,
        "a logistic regression": lambda rng: taught(
            preprocessing.StandardScaler() | linear_model.LogisticRegression(), "classification", rng
        ),
        "a Hoeffding tree": lambda rng: taught(
            tree.HoeffdingTreeClassifier(grace_period=50), "classification", rng
        ),
        "a regression tree": lambda rng: taught(
            tree.HoeffdingTreeRegressor(grace_period=50), "regression", rng
        ),
        "XGBoost": boosted,
    }


def alarms(model: Model, stream: Iterator[Row], one_in: int) -> list[tuple[int, str]]:
    """Record and feature of each alarm."""
    options = Options(
        explainers=[
            Explainer(kind="ipfi", name="moves", losses=["prediction"]),
            Explainer(kind="isage", name="shares", losses=["prediction"]),
        ],
        alarms=Alarming(subjects=("importance",), one_in=one_in),
    )
    explainer = StreamExplainer(model, options, static=True)
    found = []
    for number, x in enumerate(stream):
        for event in explainer.update_unlabelled(x):
            found.append((number, event.subject.feature))  # type: ignore[union-attr]
    return found


def changed(base: Callable[[Row], float], **how: Any) -> Callable[[Row], float]:
    return lambda x: base({**x, **{name: of(x) for name, of in how.items()}})


def versions(rng: Rng) -> list[tuple[str, Any, Any, str]]:
    """Name, two versions that differ on identical inputs, and their task."""

    def smooth(x: Row) -> float:
        return 2.0 * x["a"] + x["b"] + np.tanh(x["c"]) + 0.5 * x["d"]

    def as_class(of: Callable[[Row], float]) -> Callable[[Row], dict[int, float]]:
        def predict(x: Row) -> dict[int, float]:
            p = float(1.0 / (1.0 + np.exp(-of(x))))
            return {0: 1.0 - p, 1: p}

        return predict

    flipped = changed(smooth, d=lambda x: -x["d"])
    first = boosted(np.random.default_rng(rng.integers(2**31)))
    other = np.random.default_rng(rng.integers(2**31))
    return [
        ("a coefficient's sign", smooth, flipped, "regression"),
        ("a coefficient by a fifth", smooth, lambda x: smooth(x) + 0.4 * x["a"], "regression"),
        ("a feature that is left out", smooth, changed(smooth, d=lambda x: 0.0), "regression"),
        ("a feature that is new", smooth, lambda x: smooth(x) + 0.5 * x["e"], "regression"),
        ("an interaction", smooth, lambda x: smooth(x) + 0.5 * x["a"] * x["e"], "regression"),
        (
            "two features exchanged",
            smooth,
            changed(smooth, a=lambda x: x["d"], d=lambda x: x["a"]),
            "regression",
        ),
        ("a threshold", smooth, lambda x: smooth(x) + 2.0 * (x["a"] > 1.0), "regression"),
        ("a sign, of probabilities", as_class(smooth), as_class(flipped), "classification"),
        (
            "a constant for a missing value",
            smooth,
            lambda x: smooth(x) if x["c"] else smooth({**x, "c": 3.0}),
            "regression",
        ),
        ("XGBoost, trained on other records", first, boosted(other), "classification"),
        ("XGBoost, deeper", first, boosted(np.random.default_rng(0), max_depth=8, eta=0.5), "classification"),
        ("XGBoost and a tree", first, taught(_tree(), "classification", other), "classification"),
    ]


def _tree() -> Any:
    from river import tree

    return tree.HoeffdingTreeClassifier()


def nulls(quick: bool) -> bool:
    """Whether there were no more alarms than promised."""
    seeds, length = (1, 3_000) if quick else (20, LENGTH)
    report = Report("without a change", "records", "alarms", f"promised: at most one in {length:,}")
    kept = True
    for name, make in models().items():
        count = 0
        for seed in range(seeds):
            rng = np.random.default_rng([seed, 1])
            count += len(alarms(make(rng), rows(rng, length), length))
        report.add_row(name, f"{seeds * length:,}", str(count), str(seeds))
        kept &= count <= seeds
    Console(width=110).print(report)
    return kept


def changes(quick: bool) -> bool:
    length = 3_000 if quick else 6_000
    report = Report("a change half way", "noticed", "median records", "names the feature")
    for change, feature in CHANGES.items():
        delays, right, tried = [], 0, 0
        for make in models().values():
            rng = np.random.default_rng([tried, 2])
            tried += 1
            found = alarms(make(rng), rows(rng, length, change, length // 2), length)
            late = [(number - length // 2, name) for number, name in found if number >= length // 2]
            if late:
                delays.append(late[0][0])
                right += feature in {name for _, name in late}
        median = f"{np.median(delays):,.0f}" if delays else "–"
        report.add_row(change, f"{len(delays)} of {tried}", median, str(right))
    Console(width=110).print(report)
    return True


def pairs(quick: bool) -> bool:
    """Whether 95 % of the pairs that differ were found, and none of the equal ones."""
    runs, records = (1, 600) if quick else (5, 2_000)
    kept: dict[str, list[Any]] = {}
    for seed in range(runs):
        rng = np.random.default_rng([seed, 3])
        for name, own, other, task in versions(rng):
            counts = kept.setdefault(name, [0, 0, []])
            for place, second in enumerate((other, own)):
                shift = ExplanationShift(own, second, task=task, seed=seed)  # type: ignore[arg-type]
                for x in rows(np.random.default_rng([seed, 4]), records):
                    shift.update(x)
                counts[place] += any(one.found for one in shift.features)
                if place == 0:
                    counts[2].append(shift.features[0].share)
    report = Report(
        f"two versions, {records:,} records", "differ: found", "equal: found", "in the first feature"
    )
    for name, (differ, equal, shares) in kept.items():
        report.add_row(
            name, f"{differ} of {runs}", f"{equal} of {runs}", f"{100.0 * np.median(shares):.1f} %"
        )
    found, wrong = (sum(counts[place] for counts in kept.values()) for place in (0, 1))
    tried = runs * len(kept)
    report.add_row("all", f"{found} of {tried}", f"{wrong} of {tried}", "")
    Console(width=110).print(report)
    return wrong == 0 and found >= 0.95 * tried


def harm(
    make: Callable[[Rng], Model], seed: int, length: int, change: str = ""
) -> tuple[list[tuple[int, str]], float]:
    """Record after the change, which is half way, and direction of each alarm about the estimated loss; and by how much the true mean loss rose."""
    rng = np.random.default_rng([seed, 5])
    model = make(rng)
    loss = get(DEFAULT[model.task])
    alarming = Alarming(subjects=("estimated_loss",), one_in=length, warm_up=500, baseline=500)
    options = Options(
        explainers=[Explainer(kind="ipfi", n_samples=1)], every=50, estimates=True, alarms=alarming
    )
    explainer, found = StreamExplainer(model, options, static=True), []
    true: tuple[list[float], list[float]] = ([], [])
    for number, x in enumerate(rows(rng, length, change, length // 2)):
        y = target(x, rng)
        truth: Any = y if model.task == "regression" else y > 0.0
        true[number >= length // 2].append(loss(truth, model.predict(x)))
        if rng.random() < 0.5 and not (change and number >= length // 2):
            events = explainer.update(x, truth)
        else:
            events = explainer.update_unlabelled(x)
        found += [(number - length // 2, "up" if event.change.least > 0.0 else "down") for event in events]  # type: ignore[union-attr]
    return found, float(np.mean(true[1]) - np.mean(true[0]))


def losses(quick: bool) -> bool:
    """Whether there were no more alarms about the estimated loss than promised."""
    seeds, length = (1, 5_000) if quick else (2, 9_000)
    made = models()
    nulls = [len(harm(make, seed, length)[0]) for make in made.values() for seed in range(seeds)]
    report = Report(
        f"alarms about the estimated loss, {length:,} records",
        "alarms",
        "median records",
        "the right direction",
    )
    report.add_row(f"without a change: {len(nulls)} streams, at most one each", str(sum(nulls)), "", "")
    for change in CHANGES:
        delays, right = [], 0
        for place, make in enumerate(made.values()):
            alarms, rose = harm(make, 100 + place, length, change)
            late = [(number, way) for number, way in alarms if number >= 0]
            if late:
                delays.append(late[0][0])
                right += late[0][1] == ("up" if rose > 0.0 else "down")
        median = f"{np.median(delays):,.0f}" if delays else "–"
        report.add_row(change, f"{len(delays)} of {len(made)}", median, f"{right} of {len(delays)}")
    Console(width=140).print(report)
    return sum(nulls) <= len(nulls)


PARTS = {"nulls": nulls, "changes": changes, "losses": losses, "versions": pairs}


@click.command(help=__doc__)
@quick_option
@click.option("--only", type=click.Choice(list(PARTS)), help="One of the parts.")
def main(quick: bool, only: str | None) -> None:
    held = [part(quick) for name, part in PARTS.items() if only in (None, name)]
    raise SystemExit(0 if quick or all(held) else 1)


if __name__ == "__main__":
    main()
