"""Records that are seldom, and possible: their partition goes on, is taken back from its snapshot, and goes on as the one that was never stored."""

import random

import numpy as np
import pytest
from river import base

from explain_core.foreign import loads
from explain_core.learners.columns import Columns
from explain_sidecar.fold.carry import carry_over
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.snapshots.snapshot import Before, begin, encode, parts_of
from tests.folds import SMALL, TASKS, fold, fold_with_restores, new_state, record, restored, settings, values
from tests.service.test_blocks import ALARMS
from tests.versions import content

HOUR = 3_600_000
PREDICTED = {"id": "id", "unlabelled": "predict", "max_string": 20_000}


def goes_on(given, cuts, **known):
    """The outputs are those of a state that was never stored; it has the same bytes."""
    state = new_state(**known)
    assert fold_with_restores(known, given, [*cuts, len(given)]) == fold(state, given)


def test_clocks_may_go_back_further_than_a_season_is_long():
    hours = [i / 4 if i < 400 else 500.0 - i for i in range(900)]
    given = [{**x, "time": int(hour * HOUR)} for x, hour in zip(values(900), hours, strict=True)]
    goes_on(given, range(25, 900, 25), record={"timestamp": "time"}, alarms={**ALARMS, "season": "day"})


def test_a_feature_may_have_values_that_differ_in_their_last_bit_alone():
    rng = random.Random(1)
    given = [{**x, "a": rng.choice([0.3, 0.1 + 0.2])} for x in values(60)]
    goes_on(given, range(5, 60, 5), partial_dependence={"features": ["a"], "every": 1})


def test_curves_are_told_in_the_order_of_before():
    rng, weights, given = random.Random(1), [1.0, 2.0, 3.0, 4.0, 5.0], []
    for i in range(900):
        if i % 100 == 0:
            rng.shuffle(weights)
        x = {f"f{j}": rng.gauss(0.0, 1.0) for j in range(5)}
        given.append({**x, "label": sum(w * v for w, v in zip(weights, x.values(), strict=True))})
    goes_on(given, range(100, 900, 37), task="regression", partial_dependence={"top": 3, "every": 7})


def test_what_is_compared_may_be_so_small_that_its_cube_is_none():
    rng = random.Random(1)
    given = [
        {
            "a": 1.0 if i < 300 else float(i % 3),
            "label": 1e-54 * (1.0 + rng.random()) if i % 100 == 50 else 0.0,
        }
        for i in range(600)
    ]
    goes_on(given, range(50, 600, 50), task="regression", explainers=SMALL[:1])


def test_alarms_of_missing_values_leave_nothing_behind_that_is_no_part_of_the_state():
    known = {"alarms": {**ALARMS, "subjects": ["missing"]}, "explainers": SMALL[:1]}
    state, other = new_state(**known), None
    for i, x in enumerate(values(900)):
        fold(state, [x])
        if other is not None:
            fold(other, [x])
            assert encode(other) == encode(state)
        if i % 50 == 45:
            other = restored(encode(state), settings(**known))


@pytest.mark.parametrize("task", TASKS)
def test_a_model_may_be_asked_for_a_prediction_before_it_knows_a_class(task):
    given = [{**x, "label": None} if i < 50 else x for i, x in enumerate(values(120, task))]
    goes_on(
        given,
        [3, 50, 70],
        task=task,
        record={"unlabelled": "predict"},
        challenger={"name": "tree", "shift_every": 1},
    )


def test_a_record_that_waits_for_its_label_may_have_a_long_id():
    given = [{**x, "id": str(i)} for i, x in enumerate(values(30))]
    given.insert(20, {"a": 1.0, "id": "y" * 10_001})
    goes_on(
        given, [21, 25], record=PREDICTED, predictions={"enabled": True, "every": 1, "remember": 5},
        emit={"every": 100, "max_bytes": 10_000_000},
    )  # fmt: skip


def test_a_time_may_be_the_smallest_number():
    given = [{**x, "time": -(2**63) if i == 0 else 10} for i, x in enumerate(values(20))]
    goes_on(given, [1, 10], record={"timestamp": "time"})


def test_what_a_challenger_meets_without_labels_is_the_same_in_blocks():
    known = {
        "record": {"unlabelled": "predict"}, "challenger": {"name": "tree", "every": 3}, "emit": {"every": 400},
        "explainers": [{**kind, "reservoir": {"kind": "geometric", "size": 3}} for kind in SMALL],
    }  # fmt: skip
    for seed in range(4):
        rng = random.Random(seed)
        alone, together = new_state(**known), new_state(**known)
        given = [
            record(i, {**x, "label": None, "colour": f"c{i}"} if i > 60 and rng.random() < 0.5 else x)
            for i, x in enumerate(values(120, seed=seed))
        ]
        while together.next_offset < 120:
            begin_at = together.next_offset
            folded, _ = together.fold(given[begin_at : begin_at + 40])
            if not folded:
                together.step(given[begin_at])
            for one in given[begin_at : together.next_offset]:
                alone.step(one)
            assert encode(alone) == encode(together)


def test_a_bad_record_that_is_masked_may_be_nested_too_deeply_to_be_written_again():
    state = new_state(record={"masked": ["secret"]})
    fold(state, values(5))
    nested = b'{"label": true, "secret": "s", "a": ' + b"[" * 300 + b"]" * 300 + b"}"
    (letter,) = state.step(record(5, nested))
    assert letter.destination == "dead_letters" and b"s" not in (letter.value or b"")


def test_a_feature_that_no_version_took_may_have_any_kind_before_one_takes_it(tmp_path):
    for version, columns in {"v1": ["a", "b"], "v2": ["a", "flag"]}.items():
        (tmp_path / f"{version}.json").write_bytes(content(version, columns, columns[0]))
    pattern = str(tmp_path / "{version}.json")
    state = new_state(model={"uri": None}, record={"model_version": "by"}, models={"pattern": pattern})
    source = VersionSource(state.settings, lambda: 0.0)
    given = [
        {"a": 0.1, "b": 0.2, "by": "v1"}, {"a": 0.1, "by": "v2"}, {"a": 0.1, "flag": "no", "by": "v1"}, {"a": 0.1, "flag": "no", "by": "v2"},
    ]  # fmt: skip
    letters = [
        dict(output.headers)["__explain.errors.class"]
        for i, x in enumerate(given)
        for output in state.supplied(record(i, {**x, "label": 1}), lambda _: None, source.find)
        if output.destination == "dead_letters"
    ]
    assert letters == [b"feature_type"]


def test_a_column_is_added_once_however_many_rows_bring_its_name():
    columns = Columns()
    columns.add(name for row in [{"a": 1.0}, {"a": 2.0, "b": 1.0}] for name in row)
    assert columns.names == ["a", "b"]


@pytest.mark.parametrize("losses", [["brier", "zero_one"], ["zero_one"]])
def test_alarms_of_an_explainer_with_other_losses_begin_anew(losses):
    def known(chosen):
        explainer = {"kind": "ipfi", "losses": chosen, "reservoir": {"size": 10}}
        return {"explainers": [explainer], "alarms": {**ALARMS, "subjects": ["importance"]}}

    state = new_state(**known(["brier"]))
    fold(state, values(100))
    new = settings(**known(losses))
    carry = carry_over(fold_settings(settings(**known(["brier"]))), new)
    fold(begin(new, 3, 1, 100, Before(parts_of(encode(state)), carry, loads)), values(150)[100:])


def test_what_is_kept_by_the_place_of_a_loss_begins_anew_where_explainers_change_places():
    chosen = [
        {"kind": "ipfi", "name": name, "losses": [loss], "reservoir": {"size": 10}}
        for name, loss in (("e0", "absolute"), ("e1", "squared"))
    ]
    known = {"task": "regression", "alarms": {**ALARMS, "subjects": ["loss"]}, "challenger": {"name": "tree"}}
    state, new = new_state(explainers=chosen, **known), settings(explainers=chosen[::-1], **known)
    fold(state, values(120, "regression"))
    carry = carry_over(fold_settings(settings(explainers=chosen, **known)), new)
    assert "alarms performance" in carry.sentence.partition("begun anew")[2]
    other = begin(new, 3, 1, 120, Before(parts_of(encode(state)), carry, loads))
    fold(other, values(150, "regression")[120:])


class OfNumpy(base.Classifier):
    """Gives its probabilities as numpy does."""

    def learn_one(self, x, y):
        pass

    def predict_proba_one(self, x):
        p = np.float64(0.25 + 0.5 * (x.get("a", 0.0) > 0.0))
        return {True: p, False: 1.0 - p}


def test_a_model_of_ones_own_may_give_numbers_of_numpy():
    given = [
        {**x, "id": str(i // 2), "label": x["label"] if i % 2 else None} for i, x in enumerate(values(60))
    ]
    goes_on(
        given, [20, 40], record=PREDICTED, predictions={"enabled": True, "every": 1, "remember": 5}, emit={"max_bytes": 10_000_000},
        model={"factory": "tests.service.test_own_states:OfNumpy"}, challenger={"name": "tree", "shift_every": 1},
    )  # fmt: skip
