"""Every Python gives the same bits: since 3.12 its ``sum`` carries the rounding error of floats along, compiled code does not."""

import builtins
from collections.abc import Iterable

import pytest
from river import linear_model, preprocessing, tree

from explain_core.importance.isage import IncrementalSAGE
from explain_core.learners.choice import learner_of
from explain_core.losses import Task
from explain_core.random import Generator
from explain_core.sums import total


def compensated(values: Iterable[float], start: float = 0) -> float:
    """``sum`` of Python 3.12: Neumaier's, from the first float on."""
    result, lost = start, 0.0
    for value in values:
        whole = result + value
        if isinstance(result, float) and isinstance(value, float):
            lost += (result - whole) + value if abs(result) >= abs(value) else (value - whole) + result
        result = whole
    return result + lost if lost else result


MODELS = {
    "linear": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
    "tree": lambda: tree.HoeffdingTreeRegressor(grace_period=50, leaf_prediction="mean"),
    "classes": lambda: tree.HoeffdingTreeClassifier(grace_period=50),
}


def explained(name: str, evaluator: str) -> list[list[float]]:
    task: Task = "classification" if name == "classes" else "regression"
    model = learner_of(MODELS[name](), task)
    sage = IncrementalSAGE(model, seed=1, evaluator=evaluator, n_samples=10, task=task)
    rng = Generator(3)
    for _ in range(400):
        x = {f"x{j}": rng.uniform() for j in range(5)}
        y = 2.0 * x["x0"] - x["x1"] + 0.3 * rng.uniform()
        truth = str(int(2.0 * y)) if task == "classification" else y
        sage.explain_one(x, truth)
        model.learn(x, truth)
    return sage.explanation.values.tolist()


def test_the_other_sum_is_another() -> None:
    assert compensated([0.1] * 10) == 1.0 > total([0.1] * 10)


@pytest.mark.parametrize("name", MODELS)
def test_explanations_are_the_same_whatever_sum_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = explained(name, "arrays")
    assert explained(name, "generic") == expected
    monkeypatch.setattr(builtins, "sum", compensated)
    assert explained(name, "generic") == explained(name, "arrays") == expected
