"""Losses against values worked out by hand."""

import math
import pickle

import pytest

from explain_core import losses
from explain_core.losses import Loss
from explain_core.models.empty import Performance

P = {"a": 0.5, "b": 0.3, "c": 0.2}


BY_HAND = [
    ("cross_entropy", "a", P, math.log(2)),
    ("cross_entropy", "new", P, -math.log(1e-7)),
    ("cross_entropy", "a", {}, -math.log(1e-7)),
    ("cross_entropy", "a", {"a": 0.2, "b": 0.2}, math.log(2)),
    ("cross_entropy", "a", {"a": 7.0, "b": 0.0}, 0.0),
    ("zero_one", "a", P, 0.0),
    ("zero_one", "b", P, 1.0),
    ("zero_one", "b", {"a": 0.5, "b": 0.5}, 1.0),
    ("zero_one", "a", {}, 1.0),
    ("brier", "a", P, 0.25 + 0.09 + 0.04),
    ("brier", "new", P, 1.0 + 0.25 + 0.09 + 0.04),
    ("brier", "a", {}, 1.0),
    ("hinge", "a", P, 1.0 - (0.5 - 0.3)),
    ("hinge", "c", P, 1.0 + 0.3),
    ("hinge", "a", {"a": 1.0}, 0.0),
    ("squared", 1.0, 3.0, 4.0),
    ("absolute", 1.0, 3.0, 2.0),
    ("huber", 1.0, 1.5, 0.125),
    ("huber", 1.0, 4.0, 2.5),
]


@pytest.mark.parametrize(("name", "y", "prediction", "expected"), BY_HAND)
def test_loss_has_the_value_worked_out_by_hand(name, y, prediction, expected):
    assert losses.get(name)(y, prediction) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_each_named_loss_has_a_value_worked_out_by_hand():
    assert {name for name, *_ in BY_HAND} == set(losses.NAMED)


def test_a_cross_entropy_is_16_at_most_and_the_records_are_counted_of_which_it_would_be_more():
    performance = Performance([losses.get("cross_entropy"), losses.get("zero_one")], None)
    for p in (0.5, 1e-6, 1e-8, 0.0, 1.0):
        found = performance.update("a", {"a": p, "b": 1.0 - p})
        assert found[0] == pytest.approx(-math.log(max(p, 1e-7)))
    assert performance.clipped == [2, 0]
    other = Performance(performance.losses, None)
    other.restore(performance.state())
    other.update("a", {"a": 0.0, "b": 1.0})
    assert other.clipped == [3, 0]


@pytest.mark.parametrize("loss", losses.NAMED.values(), ids=losses.NAMED)
def test_quadratic_says_whether_two_draws_give_the_loss_of_the_mean_without_bias(loss):
    """For a quadratic loss 2 L((p + q)/2) − (L(p) + L(q))/2 over independent p, q has the mean L(E p)."""
    draws, y = (
        ([1.0, 2.0, 6.0], 2.5) if loss.reads == "number" else ([P, {"a": 0.1, "b": 0.9}, {"c": 1.0}], "a")
    )

    def mean(values):
        if loss.reads == "number":
            return sum(values) / len(values)
        return {label: sum(p.get(label, 0.0) for p in values) / len(values) for label in "abc"}

    pairs = [2 * loss(y, mean([p, q])) - (loss(y, p) + loss(y, q)) / 2 for p in draws for q in draws]
    assert loss.quadratic == (sum(pairs) / 9 == pytest.approx(loss(y, mean(draws))))


def test_losses_are_refused_that_do_not_fit_the_task_or_do_not_exist():
    with pytest.raises(
        ValueError,
        match=r"'squared' is a regression loss and the task is classification \(binary or multiclass\); use one of cross",
    ):
        losses.get("squared", "classification")
    with pytest.raises(ValueError, match="'gini' is not one of cross_entropy"):
        losses.get("gini")
    with pytest.raises(ValueError, match="'log_loss' is cross_entropy here; name that"):
        losses.get("log_loss")
    with pytest.raises(ValueError, match="3 is neither a name nor a callable"):
        losses.get(3)  # type: ignore[arg-type]


def weighted_error(y: float, prediction: float) -> float:
    return 3.0 * abs(y - prediction)


def test_a_callable_is_a_loss_of_what_it_is_said_to_read():
    assert losses.get(weighted_error, "regression")(1.0, 2.0) == 3.0
    assert losses.get(lambda y, label: float(label == "b"), reads="label")("a", {"a": 0.1, "b": 0.9}) == 1.0
    assert losses.get(lambda y, p: p["b"])("a", {"a": 0.1, "b": 0.9}) == 0.9


def test_a_callable_with_the_name_of_a_loss_stays_itself():
    def squared(y, prediction):
        return 7.0

    assert losses.get(squared, "regression")(1.0, 1.0) == 7.0
    assert not losses.get(squared, "regression").quadratic


def test_a_named_loss_that_compiled_code_does_not_know_is_computed_by_python(monkeypatch):
    monkeypatch.setitem(losses.NAMED, "slow", Loss("slow", "probabilities", losses.brier, quadratic=True))
    performances = [Performance([losses.get(name)], None) for name in ("slow", "brier")]
    assert [performance.update("a", P) for performance in performances] == [[pytest.approx(0.38)]] * 2


def test_losses_survive_pickling_and_named_ones_stay_the_same_object():
    assert pickle.loads(pickle.dumps(losses.get("brier"))) is losses.get("brier")
    own = Loss("own", "number", weighted_error, quadratic=True)
    assert pickle.loads(pickle.dumps(own)) == own
