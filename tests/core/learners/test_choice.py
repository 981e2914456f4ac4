"""What the arrays do not know is left to river."""

from typing import Any

import pytest
from river import drift, forest, linear_model, metrics, optim, preprocessing, tree
from river.tree.splitter import HistogramSplitter, QOSplitter, TEBSTSplitter

from explain_core.learners.choice import learner_of

EMPTIED = drift.ADWIN(max_buckets=1)
"""A detector that is left with empty rows."""


def scaled(model: Any, **options: Any) -> Any:
    return preprocessing.StandardScaler(**options) | model


def learnt(model: Any) -> Any:
    model.learn_one({"a": 1.0}, True)
    return model


CLASSES: list[Any] = [
    scaled(linear_model.LogisticRegression(optimizer=optim.Adam())),
    scaled(linear_model.LogisticRegression(l1=0.1)),
    scaled(linear_model.LogisticRegression(), window_size=10),
    preprocessing.OneHotEncoder() | linear_model.LogisticRegression(),
    preprocessing.MinMaxScaler() | linear_model.LogisticRegression(),
    learnt(scaled(linear_model.LogisticRegression())),
    tree.HoeffdingTreeClassifier(splitter=HistogramSplitter()),
    tree.HoeffdingTreeClassifier(max_size=1.0),
    tree.HoeffdingTreeClassifier(remove_poor_attrs=True, leaf_prediction="mc"),
    learnt(tree.HoeffdingTreeClassifier()),
    tree.HoeffdingAdaptiveTreeClassifier(drift_detector=EMPTIED),
    forest.ARFClassifier(n_models=2, warning_detector=EMPTIED),
]
NUMBERS: list[Any] = [
    scaled(linear_model.LinearRegression(loss=optim.losses.Huber())),
    tree.HoeffdingTreeRegressor(leaf_model=linear_model.PARegressor()),
    tree.HoeffdingTreeRegressor(leaf_model=linear_model.LinearRegression(optim.Adam())),
    tree.HoeffdingTreeRegressor(leaf_model=linear_model.LinearRegression(intercept_init=1.0)),
    tree.HoeffdingTreeRegressor(nominal_attributes=["a"]),
    tree.HoeffdingTreeRegressor(splitter=QOSplitter(allow_multiway_splits=True)),
    tree.HoeffdingTreeRegressor(splitter=TEBSTSplitter(digits=-1)),
    tree.HoeffdingTreeRegressor(remove_poor_attrs=True),
    tree.HoeffdingTreeRegressor(max_size=100.0),
    tree.HoeffdingTreeRegressor(min_samples_split="5"),
    tree.HoeffdingAdaptiveTreeRegressor(drift_detector=drift.PageHinkley()),
    tree.HoeffdingAdaptiveTreeRegressor(stop_mem_management=True),
    tree.SGTRegressor(),
    forest.ARFRegressor(metric=metrics.R2()),
    forest.ARFRegressor(n_models=200),
    forest.ARFRegressor(drift_detector=drift.PageHinkley()),
    forest.ARFRegressor(leaf_model=linear_model.PARegressor()),
]


@pytest.mark.parametrize("model", CLASSES + NUMBERS, ids=lambda model: " ".join(str(model).split()))
def test_river_itself_learns_what_the_arrays_do_not_know(model: Any) -> None:
    assert learner_of(model, "regression" if model in NUMBERS else "classification") is None


def test_a_detector_of_two_buckets_is_known() -> None:
    model = tree.HoeffdingAdaptiveTreeClassifier(drift_detector=drift.ADWIN(max_buckets=2))
    assert learner_of(model, "classification") is not None
