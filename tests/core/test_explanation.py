"""The result type: bands, order, JSON and data frame."""

import json
import math

import numpy as np
import pytest

from explain_core.explanation import Explanation, Importance


def explanation(**changes):
    arguments = {
        "estimator": "ipfi",
        "features": ("a", "b", "c"),
        "losses": ("brier", "zero_one"),
        "values": np.array([[1.0, -2.0, math.nan], [0.5, 0.5, 4.0]]),
        "std": np.array([[0.5, 1.0, math.nan], [0.0, 0.1, 0.2]]),
        "n": 7,
        "width": 2.0,
        "metadata": {"alpha": 0.1},
    }
    return Explanation(**arguments | changes)


def test_bands_and_variance_are_those_of_the_standard_error():
    made = explanation()
    np.testing.assert_array_equal(made.variance, made.std**2)
    assert made.importance()["a"] == Importance(1.0, 0.5, 0.0, 2.0, None)
    assert made.importance("zero_one")["c"][:4] == pytest.approx((4.0, 0.2, 3.6, 4.4))
    assert explanation(steady=np.array([[1.0, 0.0, math.nan]] * 2)).importance()["b"].steady is False


def test_the_largest_come_first_equal_ones_in_order_and_the_unknown_last():
    assert [name for name, _ in explanation().top(3)] == ["a", "b", "c"]
    assert [name for name, _ in explanation().top(3, "zero_one")] == ["c", "a", "b"]
    assert len(explanation().top(2)) == 2


def test_an_unknown_loss_is_refused_by_name():
    with pytest.raises(ValueError, match="loss: 'hinge' was not estimated; there are brier, zero_one"):
        explanation().importance("hinge")


@pytest.mark.parametrize("samples", [None, np.array([[[1.0, math.nan]] * 3] * 2)])
def test_json_keeps_everything_and_writes_the_unknown_as_null(samples):
    made = explanation(samples=samples, status="warming")
    assert json.loads(made.to_json())["values"] == [[1.0, -2.0, None], [0.5, 0.5, 4.0]]
    again = Explanation.from_json(made.to_json())
    assert again.to_dict() == made.to_dict()
    np.testing.assert_array_equal(again.values, made.values)
    np.testing.assert_array_equal(again.std, made.std)
    np.testing.assert_array_equal(again.low, made.low)
    assert (again.features, again.losses, again.status) == (made.features, made.losses, "warming")


def test_an_explanation_without_features_survives_json():
    empty = explanation(features=(), values=np.empty((2, 0)), std=np.empty((2, 0)))
    assert Explanation.from_json(empty.to_json()).values.shape == (2, 0)


def test_json_that_is_no_explanation_is_refused():
    with pytest.raises(ValueError, match="explanation: std, n is missing; pass what to_dict"):
        Explanation.from_dict({k: v for k, v in explanation().to_dict().items() if k not in ("std", "n")})
    with pytest.raises(ValueError, match="cannot reshape"):
        Explanation.from_dict(explanation().to_dict() | {"values": [1.0]})
    with pytest.raises(ValueError, match="Expecting value"):
        Explanation.from_json("nonsense")


def test_the_frame_has_a_row_for_each_loss_and_feature():
    frame = explanation().to_frame()
    assert list(frame.columns) == ["loss", "feature", "value", "std", "low", "high", "steady"]
    assert len(frame) == 6
    row = frame[(frame.loss == "zero_one") & (frame.feature == "c")].iloc[0]
    assert (row["value"], row["std"]) == (4.0, 0.2)
