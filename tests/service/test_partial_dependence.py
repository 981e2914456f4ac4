"""Partial dependence in the explanations: which way features move the predictions, in the same bytes whatever happens to the worker."""

import json
import math
from itertools import pairwise

import msgspec
import pytest

from explain_client import Explanation
from explain_core.foreign import dumps, loads
from explain_core.state import StateError
from explain_sidecar.fold.carry import carried, carry_over
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.http.feed import Feed
from explain_sidecar.http.sentences import sentence
from explain_sidecar.http.views import Page, ViewSelection
from tests.folds import SMALL, fold, new_state, record, settings, values

ASKED = {"partial_dependence": {"features": ["a"], "every": 5, "points": 4}, "emit": {"every": 20}}
LINEAR = {"model": {"name": "linear"}, "explainers": SMALL}


def curves(outputs):
    return [Explanation.from_json(out.value).partial_dependence for out in outputs if out.destination == "explanations"]  # fmt: skip


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_a_curve_is_the_mean_of_the_models_predictions_as_it_was_after_each_fifth_record(task):
    known = {**ASKED, "explainers": [{"kind": "ipfi", "alpha": 1e-9, "reservoir": {"size": 10}}]}
    state = new_state(task=task, model={"name": "linear", "task": task}, **known)
    seen, found = [], []
    for i, value in enumerate(values(200, task)):
        found += curves(state.step(record(i, value)))
        model, x = state.explained.model, {k: v for k, v in value.items() if k != "label"}
        followed = state.explained.followed.pdp._grids.get("a")
        if (i + 1) % 5 == 0 and isinstance(x.get("a"), int | float) and followed is not None:
            predictions = [model.predict({**x, "a": point}) for point in followed.tolist()]
            code = state.explained.followed.code
            seen.append([one if code is None else one[code] for one in predictions])
    (curve,) = found[-1]
    assert curve.feature == "a" and curve.label == (None if task == "regression" else "true")
    assert curve.records == len(seen) > 20
    expected = [math.fsum(column) / len(seen) for column in zip(*seen, strict=True)]
    assert list(curve.values) == pytest.approx(expected, rel=1e-6)
    assert curve.sentence().startswith("a higher a ") and all(one > 0 for one in curve.std)


def test_a_curve_says_where_the_remembered_values_are():
    state = new_state(**ASKED, **LINEAR)
    (curve,) = curves(fold(state, values(200)))[-1]
    rows = state.explained.followed.pdp.reservoir.rows
    known = [row["a"] for row in rows if isinstance(row.get("a"), int | float)]
    cuts = [-math.inf, *curve.points, math.inf]
    inside = [sum(low <= value < high for value in known) for low, high in pairwise(cuts)]
    assert list(curve.shares) == [count / len(known) for count in inside]
    assert sum(count > 0 for count in inside) > 2


def test_records_without_a_label_count_too():
    state = new_state(record={"unlabelled": "predict"}, **ASKED, **LINEAR)
    given = values(200)
    fold(state, given[:100])
    before = {curve.feature: curve.records for curve in state.explained.followed.curves}
    for i, value in enumerate(given[100:]):
        state.step(record(100 + i, {**value, "label": None}))
    after = {curve.feature: curve.records for curve in state.explained.followed.curves}
    assert after["a"] > before["a"] + 10


def test_the_most_important_features_are_followed_and_those_that_fall_behind_are_not():
    state = new_state(
        partial_dependence={"top": 1, "every": 1},
        model={"factory": "tests.service.test_partial_dependence:by_half", "static": True},
        explainers=[{"kind": "ipfi", "alpha": 0.1, "reservoir": {"size": 10}}],
        emit={"every": 20},
    )
    given = [{"half": float(i >= 200), "a": i % 7 / 7, "b": i % 5 / 5, "c": i % 3 / 3, "label": (i % 7 if i < 200 else i % 5) > 2} for i in range(600)]  # fmt: skip
    found = [{curve.feature for curve in told} for told in curves(fold(state, given))]
    assert found[8] >= {"a"} and found[-1] >= {"b"} and len(found[-1]) <= 2


def by_half():
    def predict(x):
        p = 0.1 + 0.8 * (x["b"] if x["half"] else x["a"])
        return {True: p, False: 1.0 - p}

    return predict


def test_a_state_that_is_none_of_these_settings_is_refused():
    state = new_state(**ASKED, **LINEAR)
    fold(state, values(200))
    data = state.state(dumps)

    def read(**changed):
        curve = data.explained.followed.curves["a"]
        changed = {name: msgspec.structs.replace(curve, **change) for name, change in changed.items()}
        followed = msgspec.structs.replace(data.explained.followed, curves=changed)
        explained = msgspec.structs.replace(data.explained, followed=followed)
        new_state(**ASKED, **LINEAR).restore(msgspec.structs.replace(data, explained=explained), loads)

    read(a={})
    with pytest.raises(StateError, match="more features than are followed"):
        read(b={})
    for grid in ([1.0, 2.0], [1.0, 2.0, 2.0, 3.0], [1.0, 2.0, 3.0, math.inf]):
        with pytest.raises(StateError, match="points that are none"):
            read(a={"grid": grid})
    without = msgspec.structs.replace(data, explained=msgspec.structs.replace(data.explained, followed=None))
    with pytest.raises(StateError, match="with curves, or without"):
        new_state(**ASKED, **LINEAR).restore(without, loads)


def test_curves_go_on_under_other_settings_and_begin_anew_under_their_own():
    state = new_state(**ASKED, **LINEAR)
    fold(state, values(200))
    for change, kept in (
        ({"emit": {"every": 7}}, True),
        ({"partial_dependence": {**ASKED["partial_dependence"], "points": 5}}, False),
        ({"explainers": [{**SMALL[0], "alpha": 0.3}, *SMALL[1:]]}, False),
        ({"partial_dependence": {}}, None),
    ):
        now = settings(**{**ASKED, **LINEAR, **change})
        carry = carry_over(fold_settings(state.settings), now)
        after = carried(state.state(dumps), carry, now, state.partition, 1, 200, loads)
        assert ("partial dependence" in carry.carried) == bool(kept)
        if kept is None:
            assert after.explained.followed is None and "partial dependence" in carry.ended
        else:
            same = after.explained.followed.curves == state.explained.followed.curves
            assert same == kept


def test_the_dashboard_says_which_way_a_driver_moves_the_prediction_and_has_its_curve():
    state = new_state(partial_dependence={"features": ["a"], "every": 5}, emit={"every": 100}, **LINEAR)
    outputs = [out for out in fold(state, values(2_000)) if out.destination == "explanations"]
    feed = Feed(state.settings)
    for out in outputs:
        feed.explanation(state.partition, out.value)
    shown = feed.partitions[state.partition].shown
    (curve,) = shown.newest.partial_dependence
    column = ("ipfi", "cross_entropy")
    assert curve.sentence() in sentence(shown, column)
    body = Page(feed, ViewSelection(view="importance", partition=state.partition)).next()
    assert json.loads(json.dumps(body["curves"])) == [
        {
            "feature": "a",
            "points": list(curve.points),
            "values": list(curve.values),
            "shares": list(curve.shares),
            "sentence": curve.sentence(),
        }
    ]
