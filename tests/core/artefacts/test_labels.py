"""Labels stay with their probabilities, whatever a file names and the settings ask for; what is no prediction of one label or number is refused."""

import numpy as np
import pytest

from explain_core.artefacts.artefact import ArtefactError
from explain_core.artefacts.load import load_artefact
from tests.core.artefacts import trained

NAMES = ["high", "low", "middle"]
NUMBERED = np.array([1, 2, 0])[trained.THREE]
"""The classes by the places of their names."""


@pytest.mark.parametrize("kind", ["linear", "forest", "catboost", "onnx"])
def test_a_file_with_names_for_its_classes_keeps_them(kind, tmp_path):
    models = pytest.importorskip("sklearn.linear_model"), pytest.importorskip("sklearn.ensemble")
    path, expected = {
        "linear": lambda: trained.sklearn(tmp_path, models[0].LogisticRegression()),
        "forest": lambda: trained.sklearn(tmp_path, models[1].RandomForestClassifier(5, random_state=1)),
        "catboost": lambda: trained.catboost(tmp_path),
        "onnx": lambda: trained.onnx(tmp_path, zipmap=True),
    }[kind]()
    features = ["age", "debt"] if kind == "onnx" else None
    found = load_artefact(path, features=features, classes=NAMES[::-1])
    assert list(found.classes) == NAMES
    rows = trained.records(trained.TABLE if kind == "catboost" else trained.WHOLE)[:1]
    assert found.model.predict(rows[0]) == pytest.approx(dict(zip(NAMES, expected[0], strict=True)), rel=1e-5)
    wrong = [["a", "b", "c"], NAMES[:2], [*NAMES, "none"]]
    for classes in wrong if kind == "linear" else wrong[:1]:
        with pytest.raises(ArtefactError, match=r"classes: .* has 'high'"):
            load_artefact(path, features=features, classes=classes)
    with pytest.raises(ArtefactError, match="one of the labels is there twice"):
        load_artefact(path, features=features, classes=["high", "high", "low"])


def test_a_file_with_numbers_for_its_classes_takes_names(tmp_path):
    linear = pytest.importorskip("sklearn.linear_model").LogisticRegression()
    path, expected = trained.sklearn(tmp_path, linear, target=NUMBERED)
    found = load_artefact(path, classes=NAMES)
    predictions = found.model.predict_many(trained.records(trained.WHOLE))
    assert found.classes == list(predictions[0]) == NAMES
    np.testing.assert_allclose([list(one.values()) for one in predictions], expected, rtol=1e-12)
    with pytest.raises(ArtefactError, match="has 0, 1, 2, in this order, and not 2, 1, 0"):
        load_artefact(path, classes=[2, 1, 0])


def test_a_classifier_without_probabilities_has_all_its_classes(tmp_path):
    linear = pytest.importorskip("sklearn.linear_model").RidgeClassifier()
    path, expected = trained.sklearn(tmp_path, linear)
    found = load_artefact(path)
    assert found.classes == NAMES
    assert found.model.predict_many(trained.records(trained.WHOLE)) == [{label: 1.0} for label in expected]


def onnx_file(folder, model, target, **options):
    """A graph of a model of two columns, with probabilities as a matrix."""
    convert = pytest.importorskip("skl2onnx")
    model.fit(trained.WHOLE, target)
    example = trained.WHOLE.to_numpy(np.float32)[:1]
    graph = convert.to_onnx(model, example, options={"zipmap": False, **options} if options else None)
    path = folder / "other.onnx"
    path.write_bytes(graph.SerializeToString())
    return path


def test_onnx_probabilities_get_the_labels_that_the_graph_returns(tmp_path):
    linear = pytest.importorskip("sklearn.linear_model").LogisticRegression()
    columns = ["age", "debt"]
    for target, right in ((trained.NAMED, NAMES), (NUMBERED + 1, [1, 2, 3])):
        path = onnx_file(tmp_path, linear, target, raw_scores=False)
        assert load_artefact(path, features=columns, classes=right).classes == right
        for classes in (None, right[::-1]):
            with pytest.raises(ArtefactError, match="the model's label is"):
                load_artefact(path, features=columns, classes=classes)
    path = onnx_file(tmp_path, linear, NUMBERED, raw_scores=False)
    for classes in (None, NAMES):
        assert load_artefact(path, features=columns, classes=classes).classes == (classes or [0, 1, 2])
    path = onnx_file(tmp_path, linear, NUMBERED, raw_scores=True)
    with pytest.raises(ArtefactError, match="which is no probability"):
        load_artefact(path, features=columns)


def test_several_numbers_for_a_record_are_refused(tmp_path):
    linear = pytest.importorskip("sklearn.linear_model").LinearRegression()
    two = np.column_stack([trained.SCORE, -trained.SCORE])
    for path in (trained.sklearn(tmp_path, linear, target=two)[0], onnx_file(tmp_path, linear, two)):
        with pytest.raises(ArtefactError, match="a regression has one number for each"):
            load_artefact(path, "regression", ["age", "debt"])
    forest = pytest.importorskip("sklearn.ensemble").RandomForestClassifier(3)
    path, _ = trained.sklearn(tmp_path, forest, target=np.column_stack([trained.TWO, trained.THREE]))
    with pytest.raises(ArtefactError, match="several labels at once"):
        load_artefact(path)
    library = pytest.importorskip("catboost")
    model = library.CatBoostRegressor(
        iterations=2, verbose=0, thread_count=1, loss_function="MultiRMSE", allow_writing_files=False
    )
    model.fit(trained.WHOLE, two).save_model(tmp_path / "several.cbm")
    with pytest.raises(ArtefactError, match="MultiRMSE is that of several numbers"):
        load_artefact(tmp_path / "several.cbm")


def test_onnx_columns_keep_their_names(tmp_path):
    convert = pytest.importorskip("skl2onnx")
    kinds = pytest.importorskip("skl2onnx.common.data_types")
    pipeline, compose = pytest.importorskip("sklearn.pipeline"), pytest.importorskip("sklearn.compose")
    linear = pytest.importorskip("sklearn.linear_model").LinearRegression()
    columns = compose.ColumnTransformer([("all", "passthrough", ["age", "debt"])])
    model = pipeline.make_pipeline(columns, linear).fit(trained.WHOLE, trained.SCORE)
    inputs = [(name, kinds.FloatTensorType([None, 1])) for name in ("age", "debt")]
    path = tmp_path / "columns.onnx"
    path.write_bytes(convert.convert_sklearn(model, initial_types=inputs).SerializeToString())
    for twice in (path, trained.sklearn(tmp_path, linear, trained.WHOLE.to_numpy(), trained.SCORE)[0]):
        with pytest.raises(ArtefactError, match="one of the columns is there twice"):
            load_artefact(twice, "regression", ["age", "age"])
    row = {"age": 1.0, "debt": -2.0}
    own = load_artefact(path, "regression").model.predict(row)
    assert load_artefact(path, "regression", ["debt", "age"]).model.predict(row) == own
    with pytest.raises(ArtefactError, match="the ONNX model's columns are age, debt"):
        load_artefact(path, "regression", ["user.age", "user.debt"])


def test_categories_that_xgboost_stores_without_their_ends_are_refused(tmp_path):
    library = pytest.importorskip("xgboost")
    table = trained.TABLE.assign(colour=trained.TABLE.colour.cat.rename_categories({"red": "rosé"}))
    data = library.DMatrix(table, trained.TWO, enable_categorical=True)
    path = tmp_path / "letters.json"
    library.train({"objective": "binary:logistic", "nthread": 1}, data, 2).save_model(path)
    with pytest.raises(ArtefactError, match="feature 'colour' has categories with letters beyond ASCII"):
        load_artefact(path)
