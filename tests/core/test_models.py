"""Every kind of model looks the same from outside, and a wrong one is refused by name."""

import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from river import compose, linear_model, naive_bayes, preprocessing, tree

from explain_core.models import OnnxModel, check_prediction, wrap
from explain_core.tables import labels, records

FEATURES = ["a", "b", "c"]
DATA = np.random.Generator(np.random.PCG64(1)).normal(size=(300, 3))
CLASSES = np.where(DATA[:, 0] + DATA[:, 1] > 0.5, "up", np.where(DATA[:, 0] < -0.5, "down", "flat"))
TARGET = DATA @ [1.0, -2.0, 0.5]
ROWS = records(DATA, FEATURES)


def classifier(names=False):
    import pandas as pd
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0)
    return model.fit(pd.DataFrame(DATA, columns=FEATURES) if names else DATA, CLASSES)


def regressor():
    from sklearn.linear_model import LinearRegression

    return LinearRegression().fit(DATA, TARGET)


def onnx_bytes(model, **options):
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType

    return to_onnx(model, initial_types=[("X", FloatTensorType([None, 3]))], **options).SerializeToString()


def onnx_graph(kinds, output="float", nodes=()):
    """A graph with one n × 1 input per feature that computes ``out``."""
    from onnx import TensorProto, helper

    types = {"float": TensorProto.FLOAT, "int64": TensorProto.INT64, "string": TensorProto.STRING}
    inputs = [helper.make_tensor_value_info(name, types[kind], [None, 1]) for name, kind in kinds.items()]
    outputs = [helper.make_tensor_value_info("out", types[output], [None, 1])]
    graph = helper.make_graph([helper.make_node(*node) for node in nodes], "graph", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return model.SerializeToString()


def test_a_model_fitted_with_names_gets_a_frame_in_its_own_order_without_a_warning(recwarn):
    model = wrap(classifier(names=True), "classification")
    shuffled = [{"c": x["c"], "a": x["a"], "b": x["b"]} for x in ROWS]
    assert model.predict_many(shuffled) == wrap(classifier(), "classification", FEATURES).predict_many(ROWS)
    assert not recwarn.list


def test_a_missing_feature_is_nan_for_a_model_on_arrays():
    class Sum:
        def predict(self, table):
            return np.where(np.isnan(table[:, 1]), -1.0, table.sum(axis=1))

    model = wrap(Sum(), "regression", FEATURES)
    assert model.predict_many([{"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1.0, "c": 1.0}]) == [3.0, -1.0]


def test_text_reaches_a_pipeline_that_encodes_it():
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"colour": ["red", "blue"] * 20, "size": range(40)})
    pipeline = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough"), LogisticRegression()
    ).fit(frame, frame["colour"] == "red")
    model = wrap(pipeline, "classification")
    assert model.predict({"colour": "red", "size": 3})[True] > 0.8
    assert records(frame)[0] == {"colour": "red", "size": 0}


@pytest.mark.parametrize("options", [{"zipmap": True}, {"zipmap": False}])
def test_an_onnx_classifier_agrees_with_the_model_it_was_made_from(options):
    model = classifier()
    data = onnx_bytes(model, options={id(model): options})
    wrapped = wrap(data, "classification", FEATURES, classes=sorted(set(CLASSES)))
    expected = model.predict_proba(DATA.astype(np.float32))
    got = [[p[label] for label in model.classes_] for p in wrapped.predict_many(ROWS)]
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_the_runtime_of_onnx_keeps_no_identifier_and_reports_to_nobody(tmp_path):
    kept = ("CI", "ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED")
    environment = {name: value for name, value in os.environ.items() if name not in kept}
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    code = "import sys; from explain_core.models import OnnxModel; OnnxModel(sys.stdin.buffer.read(), 'regression')"
    graph = onnx_graph(dict.fromkeys(FEATURES, "float"), nodes=[("Sum", ["a", "b", "c"], ["out"])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=graph,
        env={**environment, **home},
        capture_output=True,
        check=True,
    )
    assert done.stderr == b"" and not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_onnx_model_with_one_input_per_feature_names_its_columns_itself():
    nodes = [("Mul", ["a", "b"], ["ab"]), ("Add", ["ab", "c"], ["out"])]
    model = wrap(onnx_graph(dict.fromkeys(FEATURES, "float"), nodes=nodes), "regression")
    assert model.features == FEATURES
    np.testing.assert_allclose(model.predict_many(ROWS), DATA[:, 0] * DATA[:, 1] + DATA[:, 2], atol=1e-5)
    assert model.predict(ROWS[0]) == model.predict_many(ROWS)[0]


def test_one_column_of_onnx_probabilities_is_that_of_the_second_class():
    data = onnx_graph({"a": "float"}, nodes=[("Sigmoid", ["a"], ["out"])])
    assert wrap(data, "classification", classes=["no", "yes"]).predict({"a": 0.0}) == {"no": 0.5, "yes": 0.5}
    assert wrap(data, "classification").predict({"a": 9.0})[1] > 0.99


def test_an_onnx_label_has_probability_one():
    data = onnx_graph({"a": "string"}, output="string", nodes=[("Identity", ["a"], ["out"])])
    assert wrap(data, "classification").predict({"a": "up"}) == {"up": 1.0}


def test_a_feature_that_an_onnx_model_needs_whole_is_named_when_it_is_missing():
    data = onnx_graph({"a": "int64"}, output="int64", nodes=[("Identity", ["a"], ["out"])])
    assert wrap(data, "regression").predict({"a": 7}) == 7.0
    with pytest.raises(
        ValueError, match="X: feature 'a' is missing in a row and the ONNX model takes whole numbers"
    ):
        wrap(data, "regression").predict({})


def test_an_onnx_model_given_as_bytes_survives_pickling_and_a_session_says_why_it_does_not():
    model = wrap(onnx_bytes(regressor()), "regression", FEATURES)
    restored = pickle.loads(pickle.dumps(model))
    assert restored.predict_many(ROWS) == model.predict_many(ROWS)
    session = OnnxModel(model._session, "regression", FEATURES)
    assert session.predict_many(ROWS) == model.predict_many(ROWS)
    with pytest.raises(ValueError, match="model: an ONNX session cannot be stored; wrap the bytes"):
        pickle.dumps(session)


@pytest.mark.parametrize(
    "part",
    [
        preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        compose.Select("a", "b") | linear_model.LogisticRegression(),
        compose.TransformerUnion(compose.Select("a"), compose.Select("b")) | linear_model.Perceptron(),
        tree.HoeffdingTreeClassifier(grace_period=20),
        naive_bayes.MultinomialNB(),
        linear_model.PAClassifier(),
        linear_model.LinearRegression(),
    ],
    ids=str,
)
def test_a_river_model_predicts_the_same_one_by_one_and_in_batches(part):
    regression = isinstance(part, linear_model.LinearRegression)
    model = wrap(part.clone(), "regression" if regression else "classification")
    rows = [{name: abs(value) for name, value in x.items()} for x in ROWS]
    for x, y in zip(rows, TARGET.tolist() if regression else (CLASSES == "up").tolist(), strict=True):
        model.learn(x, y)
    found = model.predict_many(rows[:20])
    assert any(found)
    for many, x in zip(found, rows, strict=False):
        assert many == pytest.approx(model.predict(x))


def test_records_with_different_features_are_predicted_one_by_one():
    model = wrap(linear_model.LogisticRegression(), "classification")
    for x, y in zip(ROWS, CLASSES == "up", strict=True):
        model.learn(x, bool(y))
    rows = [ROWS[0], {"a": 1.0}]
    assert model.predict_many(rows) == [model.predict(x) for x in rows]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: wrap(classifier(), "regression", FEATURES), "model: RandomForestClassifier is a classifier and"),
        (lambda: wrap(regressor(), "classification", FEATURES), "model: LinearRegression is a regressor and the task"),
        (lambda: wrap(linear_model.LinearRegression(), "classification"), "is for regression and the task"),
        (lambda: wrap(classifier(), "classification"), r"features: RandomForestClassifier .* pass features=\["),
        (lambda: wrap(classifier(), "classification", ["a"]), "features: 1 names for the 3 columns"),
        (lambda: wrap(classifier(True), "classification", ["a", "b", "z"]), "was fitted with the columns a, b, c"),
        (lambda: wrap(onnx_bytes(regressor()), "regression"), "features: the ONNX model does not name its columns"),
        (lambda: wrap(onnx_bytes(regressor()), "regression", ["a"]), "features: 1 names for the 3 columns"),
        (lambda: wrap(3, "regression"), "model: int has neither"),
        (lambda: wrap(len, "ranking"), "task: 'ranking' is not one of"),
        (lambda: wrap(wrap(len, "regression"), "classification"), "task: classification, and the model was wrapped"),
    ],
)  # fmt: skip
def test_a_model_that_does_not_fit_is_refused_with_the_argument_the_value_and_the_remedy(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_predictions_that_do_not_fit_are_refused():
    class Probabilities:
        def predict_proba(self, table):
            return np.full((len(table), 2), 0.5)

    class Words:
        def predict(self, table):
            return np.array(["up"] * len(table))

    with pytest.raises(ValueError, match="classes: Probabilities does not name"):
        wrap(Probabilities(), "classification", FEATURES)
    with pytest.raises(ValueError, match=r"classes: 3 labels for probabilities of shape \(1, 2\)"):
        wrap(Probabilities(), "classification", FEATURES, classes=["x", "y", "z"]).predict(ROWS[0])
    with pytest.raises(ValueError, match="model: predicted 'up' and the task is regression"):
        wrap(Words(), "regression", FEATURES).predict(ROWS[0])


def test_truths_are_checked_against_the_predictions():
    model = wrap(lambda x: {"yes": 1.0}, "classification")
    rows = [{"a": 1.0}]
    assert labels(np.array(["yes"]), rows, model, [{"yes": 1.0}]) == ["yes"]
    with pytest.raises(ValueError, match="y: the label 1 is in no prediction; the model's classes are 'yes'"):
        labels([1], rows, model, [{"yes": 1.0}])
    names_one = [{"yes": 1.0}, {"yes": 1.0}]
    assert labels(["yes", "no"], rows * 2, model, names_one) == ["yes", "no"]
    with pytest.raises(ValueError, match="y: the label 'no' is in no prediction"):
        labels(["yes", "no"], rows * 2, model, [{"yes": 0.9, "maybe": 0.1}] * 2)
    with pytest.raises(ValueError, match="y: 2 values for 1 rows"):
        labels(["yes", "no"], rows, model, [{"yes": 1.0}])
    with pytest.raises(ValueError, match=r"model: predicted .*nan.* must be finite"):
        labels(["yes"], rows, model, [{"yes": math.nan}])


def test_tables_without_names_or_of_another_width_are_refused():
    with pytest.raises(ValueError, match=r"features: the columns of X have no names"):
        records(DATA)
    with pytest.raises(ValueError, match="X: not every row has a value for each of the 2 features"):
        records(DATA, ["a", "b"])
    with pytest.raises(ValueError, match="X: there are no rows"):
        records([])


@pytest.mark.parametrize("prediction", [1e73, -1e73])
def test_a_prediction_whose_losses_have_no_finite_moments_is_refused(prediction):
    with pytest.raises(ValueError, match=r"between ±1e\+72"):
        check_prediction(prediction, "regression")
    check_prediction(prediction / 10, "regression")
