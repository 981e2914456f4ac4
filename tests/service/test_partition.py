"""The fold: what a record does to a partition, and what leaves it as it was."""

import math

import msgspec
import numpy as np
import pytest
from msgspec import structs

from explain_core import losses as known_losses
from explain_core.foreign import dumps
from explain_sidecar.errors import UserError
from explain_sidecar.fold.metrics import measure
from explain_sidecar.fold.models import load_model
from explain_sidecar.fold.partition import FoldError
from explain_sidecar.settings.model import ModelSettings
from explain_sidecar.snapshots.snapshot import encode
from tests.folds import (
    GOOD,
    SMALL,
    TASKS,
    fold,
    grouped,
    messages,
    new_state,
    record,
    restored,
    settings,
    values,
)


class Scripted:
    """A model whose calls can be read afterwards, and that fails where it is told to."""

    def __init__(self, fails_at=None):
        self.calls, self.n, self.fails_at = [], 0, fails_at

    def predict_proba_one(self, x):
        self.calls.append(("predict", dict(x)))
        return {0: 0.25, 1: 0.75}

    def predict_one(self, x):
        return 1

    def learn_one(self, x, y):
        if self.n == self.fails_at:
            raise ZeroDivisionError("no way")
        self.n += 1
        self.calls.append(("learn", dict(x), y))


def scripted(**params):
    return {"factory": f"{__name__}:Scripted", "params": params}


def test_a_record_that_is_not_meant_moves_the_offset_and_a_count_alone():
    state = new_state(record={"where": {"header:trace": [1]}})
    fold(state, values(5))
    before = msgspec.structs.replace(state.state(dumps), next_offset=0, skipped=0)
    assert (
        state.step(record(5, None)) == [] and state.step(structs.replace(record(6, b"{"), headers=())) == []
    )
    after = state.state(dumps)
    assert msgspec.structs.replace(after, next_offset=0, skipped=0) == before
    assert (after.next_offset, after.skipped) == (7, 2)
    known = settings(record={"where": {"header:trace": [1]}})
    assert restored(encode(state), known).skipped == 2


def test_a_state_of_thousands_of_categories_takes_memory_for_each_of_them_once():
    state = new_state(explain={"every": 100})

    def size(first, last):
        fold(state, [{"shop": f"shop {i}", "label": i % 2} for i in range(first, last)])
        return len(encode(state))

    few, many = size(0, 1_000), size(1_000, 5_000)
    assert (many - few) / 4_000 < 60
    assert size(0, 1_000) - many < 1_000


@pytest.mark.filterwarnings("error:overflow", "error:invalid value")
@pytest.mark.parametrize("task", TASKS)
def test_the_largest_numbers_and_weights_let_the_fold_go_on_to_finite_results(task):
    large = (1e30, -1e30, 1.0, 0.0, 1e-300, 5, -7)
    label = {
        "binary": lambda i: i % 2,
        "multiclass": lambda i: i % 3,
        "regression": lambda i: large[i * 3 % 7],
    }[task]
    given = [
        {
            "a": large[i % 7],
            "b": large[i * 5 % 6],
            "weight": max(abs(large[i * 2 % 7]), 1e-30),
            "label": label(i),
        }
        for i in range(150)
    ]
    model = {"factory": "river.tree:HoeffdingTreeRegressor"} if task == "regression" else {}
    weighted = {} if task == "multiclass" else {"weight": "weight"}
    state = new_state(task=task, record=weighted, model=model)
    last = messages(fold(state, given))[-1]
    cells = [
        cell
        for estimator in last["importance"].values()
        for loss in estimator.values()
        for cell in loss.values()
    ]
    assert all(value is not None for cell in cells for value in (cell["value"], cell["std"]))
    assert (last["records"], last["rejected"]) == (150, 0)


# --- the order inside a step -------------------------------------------------------------------------------------


def test_a_record_is_predicted_before_it_is_learnt_and_stored_after_it_is_explained():
    state = new_state(model=scripted())
    given = [{"a": i, "label": i % 2} for i in range(60)]
    fold(state, given)
    calls = state.explained.model.wrapped.calls
    learnt = -1
    for what, x, *_ in calls:
        if what == "predict":
            assert x["a"] <= learnt + 1
        else:
            assert x["a"] == learnt + 1
            learnt += 1
    assert learnt == 59
    of_last = calls[calls.index(("learn", {"a": 58}, 0)) + 1 : -1]
    assert of_last[0] == ("predict", {"a": 59})
    assert len(of_last) > 1
    assert {x["a"] for _, x in of_last[1:]} <= set(range(59)) | {59}
    assert {"a": 59} in [row for reservoir in state.explained.reservoirs.values() for row in reservoir.rows]


def test_a_model_gets_classes_as_numbers_in_order_of_appearance():
    state = new_state(model=scripted(), task="multiclass")
    fold(state, [{"a": 1, "label": name} for name in ("up", "down", "up", "flat")])
    assert [call[2] for call in state.explained.model.wrapped.calls if call[0] == "learn"] == [0, 1, 0, 2]


def test_a_static_model_is_explained_and_never_taught():
    state = new_state(model={**scripted(), "static": True})
    assert messages(fold(state, values(30)))[-1]["explained"] == 10
    assert {what for what, *_ in state.explained.model.wrapped.calls} == {"predict"}


def test_a_weight_reaches_a_model_that_takes_one_and_is_refused_for_another():
    heavy, light = new_state(record={"weight": "w"}), new_state(record={"weight": "w"})
    fold(heavy, [{**value, "w": 5} for value in values(30)])
    fold(light, [{**value, "w": 1} for value in values(30)])
    x = {"a": 0.5, "colour": "red"}
    assert heavy.explained.model.predict(x)[1] > light.explained.model.predict(x)[1]
    with pytest.raises(UserError, match=r"record\.weight: .*takes no weights"):
        new_state(model=scripted(), record={"weight": "w"})


def test_a_model_that_fails_stops_the_fold_and_names_the_record():
    state = new_state(model=scripted(fails_at=5))
    with pytest.raises(
        FoldError,
        match=r"records partition 3 offset 5: the model \(Scripted\) failed: ZeroDivisionError: no way",
    ):
        fold(state, values(10))


def test_offsets_may_have_gaps_and_never_go_back():
    state = new_state()
    state.step(record(10, GOOD))
    state.step(record(99, GOOD))
    assert (state.next_offset, state.records) == (100, 2)
    with pytest.raises(AssertionError, match="offset 99 after 100"):
        state.step(record(99, GOOD))


# --- messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "published"),
    [
        ([b"JFK"] * 4, ["JFK"] * 4),
        ([b"JFK", b"JFK", b"LGA", b"JFK"], ["JFK", "JFK", None, None]),
        ([b"JFK", None, b"JFK", b"JFK"], ["JFK", None, None, None]),
        ([None, None, b"JFK", b"JFK"], [None] * 4),
        (["größe".encode()] * 4, ["größe"] * 4),
        ([b"k" * 200] * 4, ["k" * 200] * 4),
        ([b"k" * 201] * 4, [None] * 4),
        ([b""] * 4, [None] * 4),
        ([b"\xff"] * 4, [None] * 4),
        ([b"\0\0\0\0\1k"] * 4, [None] * 4),  # framed by a registry
    ],
)
def test_a_message_names_the_one_key_of_all_records_also_after_a_restore(keys, published):
    state = new_state(emit={"every": 1})
    outputs = []
    for offset, (key, value) in enumerate(zip(keys, values(4), strict=True)):
        outputs += state.step(structs.replace(record(2 * offset, b"{"), key=b"of a bad record"))
        outputs += state.step(structs.replace(record(2 * offset + 1, value), key=key))
        state = restored(encode(state), settings(emit={"every": 1}))
    assert [message["keys"] for message in messages(outputs)] == published


@pytest.mark.parametrize("task", TASKS)
def test_a_message_says_what_was_folded_and_has_every_number(task):
    names = {"regression": ["squared", "absolute"]}.get(task, ["cross_entropy", "brier"])
    explainers = [{**explainer, "losses": names} for explainer in SMALL]
    found = messages(
        fold(
            new_state(task=task, explainers=explainers, record={"id": "key"}),
            [{**value, "key": f"no {i}"} for i, value in enumerate(values(60, task))],
        )
    )
    assert [message["records"] for message in found] == [10, 20, 30, 40, 50, 60]
    assert [message["offset"] for message in found] == [9, 19, 29, 39, 49, 59]
    assert [message["seq"] for message in found] == [0, 1, 2, 3, 4, 5]
    assert [message["id"] for message in found] == ["no 9", "no 19", "no 29", "no 39", "no 49", "no 59"]
    assert [message["timestamp"] for message in found] == [1_700_000_000_000 + m["offset"] for m in found]
    last = found[-1]
    assert (last["topic"], last["partition"], last["epoch"], last["app_id"]) == (
        "records",
        3,
        0,
        "explanation-sidecar",
    )
    assert set(last["importance"]) == {"ipfi", "isage"}
    for estimator in last["importance"].values():
        assert list(estimator) == list(last["performance"]) == names
        for features in estimator.values():
            assert set(features) == {"a", "b", "colour", "flag", "late"}
            for cell in features.values():
                assert (cell["low"], cell["high"], cell["steady"]) == (None, None, None)  # of 50 records
                assert math.isfinite(cell["value"]) and cell["std"] >= 0


def test_it_is_warming_until_the_reservoir_is_full_and_then_ready():
    found = messages(fold(new_state(), values(40)))
    assert [message["status"] for message in found] == ["warming", "warming", "ready", "ready"]
    assert [message["explained"] for message in found] == [0, 0, 10, 20]
    cold = found[0]["importance"]["ipfi"]["cross_entropy"]["a"]
    assert set(cold) == {"value", "std", "low", "high", "steady", "floor"} and set(cold.values()) == {None}


def test_warm_up_may_be_shorter_and_the_slowest_explainer_decides():
    short = messages(fold(new_state(explain={"warm_up": 5}), values(20)))
    assert [(message["status"], message["explained"]) for message in short] == [("ready", 5), ("ready", 15)]
    slow = [SMALL[0], {**SMALL[1], "reservoir": {"size": 25, "kind": "uniform"}}]
    found = messages(fold(new_state(explainers=slow), values(30)))
    assert [(m["status"], m["explained"]) for m in found] == [("warming", 0), ("warming", 0), ("ready", 5)]


def test_each_kth_record_is_explained_and_all_are_learnt():
    state = new_state(explain={"every": 3}, model=scripted())
    last = messages(fold(state, values(40)))[-1]
    assert last["explained"] == len([i for i in range(20, 40) if i % 3 == 0])
    assert state.explained.model.wrapped.n == last["records"] == 40


def test_messages_come_by_the_number_of_records_folded():
    outputs = fold(new_state(emit={"every": 7}), [*values(10), b"{", b"[", *values(11)])
    assert [message["records"] for message in messages(outputs)] == [7, 14, 21]
    assert [message["offset"] for message in messages(outputs)] == [6, 15, 22]


def test_a_group_has_one_importance():
    state, given = grouped()
    importance = messages(fold(state, given))[-1]["importance"]
    for estimator in importance.values():
        assert set(estimator["cross_entropy"]) == {"a", "b", "look", "late"}


@pytest.mark.parametrize("task", TASKS)
def test_performance_is_the_smoothed_loss_before_learning_of_the_model_of_the_frequencies_and_of_the_mean_prediction(
    task,
):
    given, alpha = values(200, task), SMALL[0]["alpha"]
    model = load_model(ModelSettings(task=task, name="linear"), 0)
    loss = known_losses.get(known_losses.DEFAULT[model.task])
    labels: dict = {}
    own = empty = frequencies = weights = 0.0
    clipped = 0
    labels_before: list = []
    mean: dict = {}
    for value in given:
        x = {name: cell for name, cell in value.items() if name != "label"}
        y = value["label"] if task == "regression" else labels.setdefault(value["label"], len(labels))
        prediction = model.predict(x)
        if task == "regression" and not labels_before:  # nobody knows yet where the numbers lie
            prediction = y
        weights = 1.0 + (1.0 - alpha) * weights
        cells = {None: prediction} if task == "regression" else prediction
        for label in {**mean, **cells}:
            mean[label] = mean.get(label, 0.0) + (cells.get(label, 0.0) - mean.get(label, 0.0)) / weights
        expected = (
            mean[None]
            if task == "regression"
            else {k: p / (sum(mean.values()) or 1.0) for k, p in mean.items()}
        )
        own += (loss(y, prediction) - own) / weights
        clipped += loss(y, prediction) == loss.clipped
        empty += (loss(y, expected) - empty) / weights
        w = (1.0 - alpha) ** np.arange(len(labels_before))[::-1]
        if task == "regression":
            guess = float(w @ labels_before / w.sum()) if labels_before else y
        else:
            counts = dict.fromkeys([*labels_before, y], 0.5)
            for weight, before in zip(w, labels_before, strict=True):
                counts[before] += weight
            guess = {label: count / sum(counts.values()) for label, count in counts.items()}
        frequencies += (loss(y, guess) - frequencies) / weights
        labels_before.append(y)
        model.learn(x, y)
    last = messages(fold(new_state(task=task), given))[-1]["performance"][loss.name]
    assert {name for name, value in last.items() if value is None} == {
        *("floor", "gain_floor", "served"),
        *("low", "high", "gain_low", "gain_high"),  # of 200 records
        *(() if loss.clipped else ("clipped",)),
    }
    assert last["clipped"] == (None if loss.clipped is None else clipped)
    known = {name: value for name, value in last.items() if value is not None and name != "clipped"}
    expected = {"model": own, "empty": frequencies, "mean_prediction": empty, "gain": frequencies - own}
    assert known == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_drivers_are_in_the_message_and_their_number_in_the_metric():
    state, given = new_state(), [{**value, "label": value["a"] > 0} for value in values(900)]
    assert measure(state)["drivers"] == []
    named = messages(fold(state, given))[-1]["drivers"]["ipfi"]["cross_entropy"]["drivers"]
    assert named[0]["feature"] == "a"
    found = {tuple(labels): count for labels, count in measure(state)["drivers"]}
    assert found["ipfi", "cross_entropy", ""] == len(named)


def test_the_feature_that_decides_the_label_comes_first():
    given = [{**value, "label": value["a"] > 0} for value in values(1_500)]
    last = messages(fold(new_state(explain={"every": 2}), given))[-1]["importance"]
    for estimator in last.values():
        cells = estimator["cross_entropy"]
        assert max(cells, key=lambda name: cells[name]["value"]) == "a"
        a = cells["a"]["value"] - 1.96 * cells["a"]["std"]
        assert a > max(cells[name]["value"] for name in cells if name != "a")


def test_a_class_that_appears_late_is_learnt_and_explained():
    given = [
        {"a": i % 3, "label": "late" if i >= 60 and i % 3 == 2 else ("up", "down")[i % 2]} for i in range(120)
    ]
    state = new_state(task="multiclass")
    found = messages(fold(state, given))
    assert state.labels == {"up": 0, "down": 1, "late": 2}
    assert state.explained.model.predict({"a": 2})[2] > 0.3
    assert math.isfinite(found[-1]["importance"]["ipfi"]["cross_entropy"]["a"]["value"])
