"""What can be wrong with the data of a drift explanation: a result with a warning, or an error that names the cause."""

import math

import pytest
from river import naive_bayes

from explain_core.drift import RiskChange, dbshap
from explain_core.losses import Loss
from explain_core.models import wrap


def numbers(value):
    """Every number in nested lists and dictionaries."""
    if isinstance(value, dict):
        return [found for item in value.values() for found in numbers(item)]
    if isinstance(value, list):
        return [found for item in value for found in numbers(item)]
    return [value] if isinstance(value, int | float) else []


def rows(n, **features):
    """n records: each feature a function of the row's number, "y" the label."""
    y = features.pop("y", lambda i: i % 2)
    return [({name: f(i) for name, f in features.items() if f(i) is not ...}, y(i)) for i in range(n)]


def coin(x):
    return {0: 0.5, 1: 0.4, "c": 0.1}


@pytest.mark.parametrize(
    ("baseline", "target", "warning"),
    [
        (rows(40, a=float), rows(40, a=float, b=float), "only target has b"),
        (rows(40, a=float, b=lambda i: 7), rows(40, a=float, b=lambda i: 7), "b is constant"),
        (rows(40, a=float, y=lambda i: 1), rows(40, a=float, y=lambda i: 1), "every row has 1"),
        (rows(40, a=float), rows(40, a=float, y=lambda i: "c" if i > 20 else 0), "only target has 'c'"),
        (rows(3, a=float, b=float, c=float, d=float), rows(9, a=float, b=float, c=float, d=float), "4 of them and a window of 3 rows"),
        (rows(40, a=float, y=lambda i: "p"), rows(40, a=float, y=lambda i: "q"), "are they the same?"),
        (rows(40), rows(50), None),
        (rows(40, a=lambda i: None), rows(40, a=lambda i: float("nan")), "a is constant"),
        (rows(40, a=lambda i: i if i % 3 else ...), rows(40, a=lambda i: str(i % 2)), None),
        (rows(2, a=float), rows(2, a=float), None),
    ],
    ids=["feature in one window", "constant", "one class", "new class", "few rows", "other labels", "no features", "all missing", "mixed types", "two rows"],
)  # fmt: skip
@pytest.mark.parametrize("factorisation", ["joint", "per_feature"])
def test_poor_data_give_a_defined_result_with_a_warning(baseline, target, warning, factorisation):
    for conditional in ("auto", "table", "tree"):
        change = dbshap(
            baseline,
            target,
            hypothesis=coin,
            factorisation=factorisation,
            conditional=conditional,
            bootstrap=5,
            max_samples=100,
        )
        assert RiskChange.from_json(change.to_json()) == change
        assert all(map(math.isfinite, numbers(change.to_dict())))
        assert warning is None or any(warning in text for text in change.warnings)
        assert warning is not None or change.warnings == ()


def test_values_that_are_all_rare_are_no_constant():
    baseline, target = rows(90, a=float, b=lambda i: f"b{i}"), rows(90, a=float, b=lambda i: f"t{i}")
    assert dbshap(baseline, target, hypothesis=coin, bootstrap=0).warnings == (
        "features: b is made of values that less than 1% of the rows have each; "
        "they are not told apart, so what they do counts as concept",
    )


def test_features_that_share_no_value_are_sampled_only_as_they_are():
    """A date: no row of the one window tells what the other would be on that day."""
    names = list("abcdefg")
    baseline, target = (
        [({"day": i + shift, **{name: (i * (j + 3)) % 11 for j, name in enumerate(names)}}, i % 2) for i in range(200)]
        for shift in (0, 1_000)
    )  # fmt: skip
    change = dbshap(baseline, target, hypothesis=coin, bootstrap=3, max_samples=500)
    assert change.product.route == "monte carlo"
    assert {cause.name: cause.value for cause in change.product.inputs}["day"] == 0.0
    assert any("no value of day is in both windows" in warning for warning in change.warnings)


def test_cells_of_one_window_borrow_from_the_other_and_the_mass_is_in_the_result():
    baseline = [({"a": "one"}, 0)] * 50
    target = [({"a": "one"}, 0)] * 25 + [({"a": "two"}, 1)] * 25
    change = dbshap(baseline, target, hypothesis=lambda x: {0: 1.0}, conditional="table", bootstrap=0)
    assert change.back_off == pytest.approx(0.5)
    assert change.joint.concept.value == 0.0
    assert change.joint.inputs[0].value == pytest.approx(0.5)


def message(baseline, target, **arguments):
    try:
        dbshap(baseline, target, **arguments)
    except ValueError as error:
        return str(error)
    raise AssertionError("nothing was raised")


GOOD = rows(40, a=float)
TABLE = {"a": [1.0, 2.0, 3.0], "y": [0, 1, 0]}


@pytest.mark.parametrize(
    ("baseline", "target", "arguments", "expected"),
    [
        ([], GOOD, {}, "baseline: no row"),
        (GOOD, GOOD[:1], {}, "target: 1 row"),
        (GOOD[:3], GOOD, {}, "bring four or pass a model"),
        (TABLE, {"b": [1.0, 2.0], "y": [0, 1]}, {"label": "y"}, "only baseline has a; only target has b"),
        (TABLE, TABLE, {"label": "z"}, "baseline has no column 'z'"),
        (TABLE, TABLE, {}, "label: name the column of baseline"),
        (TABLE, {**TABLE, "a": [1.0]}, {"label": "y"}, "column 'a' has 1 values and 'y' has 3"),
        (GOOD, [*GOOD, ({"a": 1.0}, None)], {}, "target: row 40 has the label None"),
        (GOOD, [*GOOD, ({"a": 1.0}, float("inf"))], {}, "target: row 40 has the label inf"),
        (GOOD, [*GOOD, ({"a": 1.0}, [1])], {}, "a label is a number or a string"),
        (GOOD, [*GOOD, ({"a": [1]}, 1)], {}, "a: a value is a number, a string or missing"),
        (GOOD, [*GOOD, ({"a": math.inf}, 1)], {}, "a: a value is infinite"),
        (GOOD, [*GOOD, ({"a": 10**400}, 1)], {}, "a: a value is infinite or too large"),
        (GOOD, 3, {}, "target: is neither"),
        (GOOD, [3, 4], {"label": "y"}, "is neither columns by name nor a sequence of records"),
        (GOOD, GOOD, {"hypothesis": "forest"}, "'forest' is neither 'tree' nor a model"),
        (GOOD, GOOD, {"hypothesis": (coin, coin, coin)}, "3 models"),
        (GOOD, GOOD, {"hypothesis": 3}, "int has neither predict_one"),
        (GOOD, GOOD, {"hypothesis": lambda x: {0: math.nan}}, "probabilities must be finite"),
        (GOOD, GOOD, {"hypothesis": lambda x: 1.0}, "a classifier returns a mapping"),
        (GOOD, GOOD, {"loss": "zero"}, "'zero' is not one of"),
        (GOOD, GOOD, {"loss": Loss("log", "label", lambda y, label: math.inf)}, "'log' is inf for the truth 0"),
        (GOOD, [*GOOD, ({"a": 1.0}, 1e100)], {"loss": "squared", "hypothesis": wrap(lambda x: 0.0, "regression")}, "'squared' is 1e+200 for"),
        (GOOD, GOOD, {"loss": "squared", "hypothesis": wrap(coin, "classification")}, "'squared' is a regression loss"),
        (GOOD, GOOD, {"conditional": "forest"}, "conditional: 'forest' is not one of auto, table, tree"),
        (GOOD, GOOD, {"factorisation": "all"}, "factorisation: 'all' is not"),
        (GOOD, GOOD, {"max_bins": 1}, "max_bins: 1 is less than 2"),
        (GOOD, GOOD, {"max_samples": 5}, "max_samples: 5 is less than 100"),
        (GOOD, GOOD, {"bootstrap": 1}, "bootstrap: 1"),
        (GOOD, GOOD, {"prequential": ([0.1] * 40, [math.nan] * 40)}, "prequential: 40 losses for the 40 rows of target, or one is not finite"),
        (GOOD, GOOD, {"prequential": ([0.1], [0.1])}, "prequential: 1 losses for the 40 rows of baseline"),
    ],
)  # fmt: skip
def test_an_error_names_the_cause(baseline, target, arguments, expected):
    assert expected in message(baseline, target, **arguments)


def test_a_missing_value_is_a_bin_of_its_own_and_absent_for_the_model():
    seen = []

    def model(x):
        seen.append(x)
        return {int("a" in x): 1.0}

    baseline = [({"a": 1.0}, 1)] * 30 + [({}, 0)] * 10
    target = [({"a": 1.0}, 1)] * 10 + [({"a": None}, 1)] * 30
    change = dbshap(baseline, target, hypothesis=lambda x: model({k: v for k, v in x.items() if v is not None}), bootstrap=0)  # fmt: skip
    assert change.target.empirical == pytest.approx(0.75)
    assert change.joint.concept.value == pytest.approx(0.5)
    assert {} in seen


def test_a_river_model_with_integer_feature_names_is_explained():
    model = naive_bayes.GaussianNB()
    data = [({0: float(i % 7), 1: float(i % 5)}, i % 2) for i in range(100)]
    for x, y in data:
        model.learn_one(x, y)
    change = dbshap(data, data, hypothesis=model, bootstrap=0)
    assert [cause.name for cause in change.product.inputs] == ["0", "1"]
    assert list(change.bins) == ["0", "1"]
