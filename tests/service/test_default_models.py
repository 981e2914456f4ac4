"""The model that the settings name, by a name or as code of a user, and the one that serves where they name none."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from explain_core import losses
from explain_core.learners.named import Name
from explain_sidecar.errors import UserError
from explain_sidecar.fold import models
from explain_sidecar.fold.models import load_model
from explain_sidecar.settings.model import ModelSettings

Task = Literal["binary", "multiclass", "regression"]
TASKS: tuple[Task, ...] = ("binary", "multiclass", "regression")


def stream(task: Task, n: int = 2_000) -> list[tuple[dict[str, Any], Any]]:
    """Mixed features of very different scale, a tenth of them missing, a category that appears half-way."""
    r, samples = random.Random(1), []
    for i in range(n):
        x: dict[str, Any] = {
            "small": r.gauss(0, 1),
            "large": r.gauss(1e4, 1e3),
            "flag": r.random() < 0.5,
            "colour": r.choice(["red", "green", "blue"] if i < n // 2 else ["red", "green", "blue", "black"]),
        }
        score = 2 * x["small"] + (x["large"] - 1e4) / 1e3 - x["flag"] + 3 * (x["colour"] in ("red", "black"))
        y: Any = {
            "binary": int(score > 0.7),
            "multiclass": int(score > -0.5) + int(score > 2.0),
            "regression": 10 * score + 500,
        }[task]
        samples.append(({name: value for name, value in x.items() if r.random() > 0.1}, y))
    return samples


def prequential(task: Task, name: Name | None = None) -> tuple[list[str], float, float]:
    """Predictions, and the mean loss over the second half: of the model of that name, and of the best constant prediction."""
    model, samples = load_model(ModelSettings(task=task, name=name), 0), stream(task)
    loss = losses.get(losses.DEFAULT[model.task])
    tail = [y for _, y in samples[len(samples) // 2 :]]
    constant: Any
    if task == "regression":
        constant = sum(tail) / len(tail)
    else:
        constant = {label: tail.count(label) / len(tail) for label in range(3)}
    predictions, own = [], []
    for x, y in samples:
        prediction = model.predict(x)
        predictions.append(repr(prediction))
        own.append(loss(y, prediction))
        model.learn(x, y)
    return predictions, sum(own[-len(tail) :]) / len(tail), sum(loss(y, constant) for y in tail) / len(tail)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", [None, "mixture", "linear", "tree", "forest"])
def test_each_named_model_learns_mixed_features_with_gaps_and_new_categories(
    name: Name | None, task: Task
) -> None:
    _, own, constant = prequential(task, name)
    assert own < 0.75 * constant


def test_the_default_is_the_mixture() -> None:
    for task in TASKS:
        assert prequential(task)[0] == prequential(task, "mixture")[0]


def test_a_factory_with_a_seed_gets_ours_unless_the_params_have_one() -> None:
    factory = "river.forest:ARFClassifier"
    assert load_model(ModelSettings(factory=factory), 5).wrapped.seed == 5
    chosen = load_model(ModelSettings(factory=factory, params={"seed": 7, "n_models": 3}), 5).wrapped
    assert (chosen.seed, chosen.n_models) == (7, 3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ModelSettings(factory="no_such_package:Model"), ["model.factory", "no_such_package", "install"]),
        (ModelSettings(factory="river.tree:NoTree"), ["model.factory", "'NoTree'", "river.tree"]),
        (ModelSettings(factory="river:__version__"), ["model.factory", "str", "class or a function"]),
        (
            ModelSettings(factory="river.tree:HoeffdingTreeClassifier", params={"grace": 1}),
            ["model.params", "'grace'", "grace_period"],
        ),
        (
            ModelSettings(factory="collections:deque", params={"maxlen": -1}),
            ["model.params", "collections:deque", "maxlen"],
        ),
        (ModelSettings(params={"l2": 1}), ["model.params", "l2", "model.factory", "model.name"]),
        (ModelSettings(learner="river"), ["model.learner", "no mixture", "model.factory"]),
        (
            ModelSettings(factory="river.tree:HoeffdingTreeRegressor"),
            ["model.factory", "HoeffdingTreeRegressor", "binary", "regression"],
        ),
        (ModelSettings(factory="builtins:object"), ["model.factory", "object", "predict_one"]),
        (ModelSettings(factory="builtins:dict.fromkeys", params={}), ["model.params", "dict.fromkeys"]),
        (ModelSettings(factory="operator:itemgetter", params={}), ["model.params", "operator:itemgetter"]),
    ],
)
def test_a_model_that_cannot_be_made_is_refused_with_the_setting_to_correct(
    settings: ModelSettings, words: list[str]
) -> None:
    with pytest.raises(UserError) as caught:
        load_model(settings, 0)
    for word in words:
        assert word in str(caught.value)


def test_a_model_that_cannot_learn_must_be_static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "frozen_model.py").write_text("def make():\n    return lambda x: {0: 0.5, 1: 0.5}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"model\.static"):
        load_model(ModelSettings(factory="frozen_model:make"), 0)
    static = load_model(ModelSettings(factory="frozen_model:make", static=True), 0)
    assert static.predict({"a": 1}) == {0: 0.5, 1: 0.5}


@pytest.mark.parametrize(
    ("factory", "params"),
    [
        ("river.forest:ARFClassifier", {"n_models": 3}),
        ("river.tree:HoeffdingAdaptiveTreeClassifier", {"grace_period": 20}),
        ("river.forest:ARFClassifier", {"n_models": 3, "seed": 9}),
    ],
)
def test_a_model_that_is_made_again_has_its_own_seed_and_state(factory: str, params: dict[str, Any]) -> None:
    """The river model behind a learner is made once, and learns nothing: what came before must not show."""
    settings = ModelSettings(factory=factory, params=params)
    samples = stream("binary", 300)

    def taught(seed: int) -> tuple[Any, ...]:
        model = load_model(settings, seed)
        for x, y in samples:
            model.learn(x, y)
        return model.wrapped.seed, [model.predict(x) for x, _ in samples], model.state()  # type: ignore[attr-defined]

    models._UNTAUGHT.clear()
    alone = {}
    for seed in (1, 2):
        alone[seed] = taught(seed)
        models._UNTAUGHT.clear()
    assert [taught(seed) for seed in (2, 1, 2)] == [alone[2], alone[1], alone[2]]
    assert (alone[1] == alone[2]) == ("seed" in params)


def test_no_worker_imports_the_server_or_a_model_and_the_default_one_is_explained_without_what_river_imports() -> (
    None
):
    """It would otherwise take 130 MB more, and two seconds longer to start; one of the join 200 MB."""
    program = f"""
import json, sys, explain_sidecar.worker, explain_sidecar.join.copies
print([name for name in ("starlette", "uvicorn", "prometheus_client", "river", "scipy") if name in sys.modules])
from explain_core.foreign import dumps
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings

for task in {TASKS!r}:
    asked = {{"model": {{"task": task}}, "drift": {{"enabled": True, "window": 50}}, "alarms": {{"enabled": True}}}}
    state = PartitionState(Settings(**asked), 0)
    for i in range(120):
        x = {{"a": i % 7, "b": "xyz"[i % 3], "label": i % 2}}
        state.step(InputRecord(i, i, None, json.dumps(x).encode(), ()))
    state.state(dumps)
print([name for name in ("pandas", "sklearn", "scipy.stats", "river") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n[]\n"
