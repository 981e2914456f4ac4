import numpy as np
import pytest

from explain_core.learners.columns import Columns


def test_a_record_that_is_held_is_encoded_once():
    columns, x = Columns(), {"a": 1.0, "b": "red"}
    columns.hold(x)
    x["a"] = 2.0  # against the promise, to see that it is not read
    assert columns.row(x).tolist() == [1.0, 0.0]
    columns.hold(x)
    assert columns.row(x).tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    "between", [lambda columns: columns.row({"a": 7.0}), lambda columns: columns.add(["c"])]
)
def test_another_record_or_column_ends_that(between):
    columns, x = Columns(), {"a": 1.0, "b": 3.0}
    columns.hold(x)
    between(columns)
    assert columns.row(x)[:2].tolist() == [1.0, 3.0]
    assert np.isnan(columns.row(x)[2:]).all()


def test_a_record_that_cannot_be_encoded_is_not_held():
    columns, good = Columns(), {"a": 1.0}
    columns.hold(good)
    bad = {"a": "red"}
    for _ in range(2):
        with pytest.raises(ValueError, match="was a number before"):
            columns.hold(bad)
    assert columns.row(good).tolist() == [1.0]
