"""What every windowed and batch estimator promises, too. A new one is tested by being listed."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from explain_core.explanation import Explanation
from explain_core.importance.batch.intervals import IntervalPFI
from explain_core.importance.batch.permutation import PermutationImportance
from explain_core.importance.batch.sage import SAGE, SlidingWindowSAGE
from tests.core.property.test_estimators import (
    BAD,
    GROUPS,
    LOSSES,
    Flaky,
    assert_same,
    every_task,
    follow,
    infinite_at_seven,
    recycled,
    renamed,
    with_old_names,
)
from tests.streams import mixed_stream, model_for

N = 50


class OnTable:
    """A batch estimator in the place of a streaming one: it explains the records that it was given, all at once."""

    def __init__(self, estimator, **arguments):
        self.estimator, self.arguments, self.rows, self.ys = estimator, arguments, [], []

    def explain_one(self, x, y):
        self.rows.append(dict(x))
        self.ys.append(y)

    @property
    def explanation(self):
        return self.estimator.explain(self.rows, self.ys, **self.arguments)


def sage(model, **settings):
    return OnTable(SAGE(model, n_samples=2, **settings), tolerance=None)


def permutation(method):
    def made(model, losses, groups=None, **settings):
        order = ["a", "b", *((tuple(GROUPS["look"]),) if groups else ("colour", "flag")), "late"]
        arguments = {"features": order, "kind": "difference", "n_repeats": 3, "method": method}
        prefix = settings.pop("prefix", "")
        named = [
            tuple(prefix + m for m in player) if isinstance(player, tuple) else prefix + player
            for player in order
        ]
        return OnTable(
            PermutationImportance(model, loss=losses, **settings), **arguments | {"features": named}
        )

    return made


WINDOWED = {
    "interval pfi": lambda model, **settings: IntervalPFI(
        model, window=20, stride=9, n_repeats=2, **settings
    ),
    "sw-sage": lambda model, **settings: SlidingWindowSAGE(
        model, window=20, stride=9, n_samples=2, **settings
    ),
}
BATCH = {
    "sage": sage,
    "permutation importance": permutation("estimate"),
    "exact permutation importance": permutation("exact"),
}
ALL = WINDOWED | BATCH

every_estimator = pytest.mark.parametrize("name", ALL)
every_windowed = pytest.mark.parametrize("name", WINDOWED)


def make(name, task="classification", model=None, **settings):
    return ALL[name](model or model_for(task), task=task, **{"losses": LOSSES[task], "seed": 3} | settings)


@every_task
@every_estimator
def test_missing_and_new_features_groups_and_several_losses_are_explained_at_once(name, task):
    explanation = follow(make(name, task, groups=GROUPS), mixed_stream(N, 1, task)).explanation
    assert {feature.strip("()") for feature in explanation.features} in (
        {"a", "b", "look", "late"},
        {"a", "b", "colour, flag", "late"},
    )
    assert explanation.losses == tuple(LOSSES[task])
    assert explanation.values.shape == explanation.std.shape == (len(LOSSES[task]), 4)
    assert np.isfinite(explanation.values).all()
    assert explanation.status == "ready"


@every_estimator
def test_each_loss_has_the_result_that_it_has_alone(name):
    together = follow(make(name), mixed_stream(N, 1)).explanation
    for row, loss in enumerate(LOSSES["classification"]):
        alone = follow(make(name, losses=loss), mixed_stream(N, 1)).explanation
        assert alone.values[0].tobytes() == together.values[row].tobytes()


@every_task
@every_estimator
def test_the_same_seed_gives_the_same_bits_and_another_one_others(name, task):
    first, again = (follow(make(name, task), mixed_stream(N, 1, task)) for _ in range(2))
    assert_same(first.explanation, again.explanation)
    other = follow(make(name, task, seed=4), mixed_stream(N, 1, task)).explanation
    assert np.array_equal(first.explanation.values, other.values) == name.startswith("exact")


@every_task
@every_estimator
def test_a_pickle_taken_at_any_time_continues_with_the_same_bits(name, task):
    records = list(mixed_stream(N, 1, task))
    whole = follow(make(name, task, groups=GROUPS), records)
    for cut in (0, 19, 20, 33):
        half = follow(make(name, task, groups=GROUPS), records[:cut])
        assert_same(follow(pickle.loads(pickle.dumps(half)), records[cut:]).explanation, whole.explanation)


@every_task
@every_estimator
def test_names_of_features_change_names_alone(name, task):
    plain = follow(make(name, task), mixed_stream(N, 1, task)).explanation
    prefix = {"prefix": "x "} if "permutation" in name else {}
    model = with_old_names(model_for(task))
    other = follow(make(name, task, model, **prefix), renamed(mixed_stream(N, 1, task))).explanation
    assert other.features == tuple(f"x {feature}" for feature in plain.features)
    np.testing.assert_array_equal(other.values, plain.values)


@every_task
@every_estimator
def test_the_order_within_a_record_changes_nothing_where_features_are_given(name, task):
    given = {"features": ["a", "b", "colour", "flag", "late"]}
    plain = follow(make(name, task, **given), mixed_stream(N, 1, task)).explanation
    backwards = ((dict(reversed(x.items())), y) for x, y in mixed_stream(N, 1, task))
    assert_same(follow(make(name, task, **given), backwards).explanation, plain)


@every_task
@every_estimator
def test_an_explanation_survives_json(name, task):
    explanation = follow(make(name, task, groups=GROUPS), mixed_stream(N, 1, task)).explanation
    assert_same(Explanation.from_json(explanation.to_json()), explanation)


@every_task
@every_windowed
def test_a_record_may_be_changed_by_its_owner_afterwards(name, task):
    fresh = follow(make(name, task), mixed_stream(N, 1, task)).explanation
    assert_same(follow(make(name, task), recycled(mixed_stream(N, 1, task))).explanation, fresh)


@every_task
@every_windowed
def test_a_label_never_predicted_and_a_value_never_seen_are_explained(name, task):
    estimator = follow(make(name, task), mixed_stream(19, 1, task))
    estimator.explain_one({"a": 1e9, "colour": "ultraviolet"}, 1e6 if task == "regression" else "unheard of")
    assert estimator.explanation.n == 20
    assert np.isfinite(estimator.explanation.values).all()


@pytest.mark.parametrize("left", [0, 19, 21], ids=["first record", "last record", "a copy"])
@every_task
@every_windowed
def test_a_record_that_fails_changes_no_bit_of_the_state(name, task, left):
    model = Flaky(task)
    estimator = follow(make(name, task, model, groups=GROUPS), mixed_stream(28, 1, task))
    state, x = pickle.dumps(estimator), {"a": 0.77, "b": 0.123, "brand_new": 1.0, "colour": "new"}
    for model.answer in BAD[task]:
        model.left = left
        with pytest.raises((ValueError, RuntimeError), match=r"model: predicted|down"):
            estimator.explain_one(x, 0.5 if task == "regression" else "up")
        model.left, model.answer = None, None
        assert pickle.dumps(estimator) == state


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # inf − inf, which is refused
@every_task
@every_windowed
def test_a_truth_or_loss_that_is_not_finite_or_a_feature_named_as_a_group_changes_no_bit(name, task):
    given = {"losses": infinite_at_seven, "groups": GROUPS}
    estimator = follow(make(name, task, **given), mixed_stream(28, 1, task))
    state = pickle.dumps(estimator)
    for x, message in (
        ({"a": 0.77, "brand_new": 1.0}, r"a loss of \['infinite_at_seven'\] is not finite .* y = 7"),
        ({"a": 0.77, "brand_new": 1.0, "look": 2}, "groups: 'look' is also the name of a feature"),
    ):
        with pytest.raises(ValueError, match=message):
            estimator.explain_one(x, 7)
        assert pickle.dumps(estimator) == state


def test_the_bits_do_not_depend_on_the_hash_seed_or_the_process():
    script = (
        "from tests.core.property.test_baselines import *\n"
        "for name in ALL:\n"
        "    for task in LOSSES:\n"
        "        print(follow(make(name, task, groups=GROUPS), mixed_stream(30, 1, task)).explanation.to_json())\n"
    )
    root = Path(__file__).parents[3]
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script], cwd=root, env=os.environ | {"PYTHONHASHSEED": seed},
            check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert outputs[0] == outputs[1]
    assert outputs[0].count("\n") == 2 * len(ALL)
