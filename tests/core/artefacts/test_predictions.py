"""A model read from its file predicts what its library predicts, with classes and columns in their places."""

import math

import numpy as np
import pytest

from explain_core.artefacts import shallow
from explain_core.artefacts.artefact import ArtefactError
from explain_core.artefacts.ensemble import TreeEnsemble, below_single, up_to_single
from explain_core.artefacts.load import load_artefact, load_model
from explain_core.models import ArrayModel, OnnxModel
from tests.core.artefacts import trained

XGBOOST = {
    "json": {},
    "ubj": {"suffix": "ubj"},
    "dart": {"booster": "dart", "rate_drop": 0.4, "one_drop": 1},
    "parallel trees": {"num_parallel_tree": 3, "subsample": 0.5},
    "one hot": {"max_cat_to_onehot": 100},
    "three classes": {"target": trained.THREE, "objective": "multi:softprob", "num_class": 3},
    "hinge": {"objective": "binary:hinge"},
    "squares": {"target": trained.SCORE, "objective": "reg:squarederror"},
    "counts": {"target": trained.THREE, "objective": "count:poisson"},
    "shares": {"objective": "reg:logistic"},
}
LIGHTGBM = {
    "two classes": {},
    "zero is missing": {"zero_as_missing": True},
    "nothing is missing": {"use_missing": False},
    "dart": {"boosting": "dart"},
    "three classes": {"target": trained.THREE, "objective": "multiclass", "num_class": 3},
    "one against all": {"target": trained.THREE, "objective": "multiclassova", "num_class": 3},
    "squares": {"target": trained.SCORE, "objective": "regression"},
    "roots": {"target": trained.SCORE, "objective": "regression", "reg_sqrt": True},
    "counts": {"target": trained.THREE, "objective": "poisson"},
    "shares": {"objective": "cross_entropy"},
    "rates": {"objective": "cross_entropy_lambda"},
    "average": {"target": trained.SCORE, "objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
}  # fmt: skip


def compared(model, rows, expected, tolerance=1e-6):
    """The largest relative difference is at most the tolerance; the positive class is compared where the library gives it alone."""
    found = model.predict_many(rows)
    if isinstance(found[0], dict):
        found = [list(prediction.values()) for prediction in found]
        if np.ndim(expected) == 1:
            np.testing.assert_allclose([sum(prediction) for prediction in found], 1.0, rtol=1e-6)
            found = [prediction[1] for prediction in found]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-30)
    single, together = [model.predict(row) for row in rows[:20]], model.predict_many(rows)[:20]
    if isinstance(model, ArrayModel):  # BLAS may add many rows in another order, and of 32-bit floats
        together = [pytest.approx(prediction, rel=1e-6, abs=0.0) for prediction in together]
    assert single == together


BOOSTED = {"xgboost": XGBOOST, "lightgbm": LIGHTGBM}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in BOOSTED for name in BOOSTED[kind]])
def test_boosted_trees_predict_what_their_library_does_and_by_bits_what_walks_do(
    kind, name, tmp_path, monkeypatch
):
    path, expected = getattr(trained, kind)(tmp_path, **BOOSTED[kind][name])
    found, rows = load_artefact(path), trained.records(trained.TABLE)
    assert (found.kind, found.features) == (kind, ["age", "debt", "colour"])
    assert set(found.categories["colour"]) == set(trained.COLOURS)
    assert isinstance(found.model, TreeEnsemble)
    compared(found.model, rows, expected, 1e-6 if kind == "xgboost" else 1e-12)
    for row, debt in zip(rows, (1e-36, -1e-36, -0.0, 1e300, math.inf, -math.inf), strict=False):
        row["debt"] = debt
    monkeypatch.setattr(shallow, "MAX_LEAVES", 0)
    walked = load_model(path)
    assert (found.model.shallow, walked.shallow) == (True, False)
    assert found.model.predict_many(rows) == walked.predict_many(rows)


@pytest.mark.parametrize("leaves, is_shallow", [(1, True), (64, True), (65, False)])
def test_a_tree_is_shallow_up_to_64_leaves(leaves, is_shallow, tmp_path):
    from sklearn.tree import DecisionTreeRegressor

    noise = np.random.Generator(np.random.PCG64(0)).normal(size=trained.N)
    # A split must be worth more than any is where there shall be none.
    tree = DecisionTreeRegressor(
        max_leaf_nodes=max(leaves, 2), min_impurity_decrease=1e9 if leaves == 1 else 0.0
    )
    path, expected = trained.sklearn(tmp_path, tree, trained.NUMBERS, noise)
    model = load_model(path)
    assert (tree.get_n_leaves(), model.shallow) == (leaves, is_shallow)
    compared(model, trained.records(trained.NUMBERS), expected, 1e-12)


def sklearn_models():
    from sklearn import ensemble, linear_model, pipeline, preprocessing, tree

    return {
        "tree": (tree.DecisionTreeClassifier(random_state=0), trained.NUMBERS, trained.NAMED, True),
        "forest": (ensemble.RandomForestClassifier(9, random_state=0), trained.NUMBERS, trained.NAMED, True),
        "extra trees": (ensemble.ExtraTreesClassifier(9, random_state=0), trained.WHOLE, trained.NAMED, True),
        "forest of numbers": (ensemble.RandomForestRegressor(9, random_state=0), trained.WHOLE, trained.SCORE, True),
        "boosting": (ensemble.GradientBoostingClassifier(n_estimators=9, random_state=0), trained.WHOLE, trained.NAMED, True),
        "boosting, exponential": (
            ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=9, random_state=0), trained.WHOLE, trained.TWO, True,
        ),
        "boosting that another model began": (
            ensemble.GradientBoostingClassifier(init=linear_model.LogisticRegression(), n_estimators=9, random_state=0), trained.WHOLE, trained.NAMED, False,
        ),
        "boosting of numbers": (ensemble.GradientBoostingRegressor(n_estimators=9, random_state=0), trained.WHOLE, trained.SCORE, True),
        "histograms": (ensemble.HistGradientBoostingClassifier(max_iter=9, random_state=0), trained.NUMBERS, trained.NAMED, True),
        "histograms of counts": (
            ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=9, random_state=0), trained.NUMBERS, trained.THREE, True,
        ),
        "pipeline": (
            pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()), trained.WHOLE, trained.NAMED, False,
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", sklearn_models())
def test_sklearn(name, tmp_path):
    model, table, target, compiled = sklearn_models()[name]
    path, expected = trained.sklearn(tmp_path, model, table, target)
    found = load_artefact(path)
    assert found.features == ["age", "debt"]
    assert found.classes == (None if not hasattr(model, "classes_") else model.classes_.tolist())
    assert isinstance(found.model, TreeEnsemble) is compiled
    compared(found.model, trained.records(table), expected, 1e-12)


def test_catboost(tmp_path):
    path, expected = trained.catboost(tmp_path)
    found = load_artefact(path)
    assert (found.kind, found.features) == ("catboost", ["age", "debt", "colour"])
    assert set(found.classes) == {"low", "middle", "high"}
    compared(found.model, trained.records(trained.TABLE), expected)


@pytest.mark.parametrize("zipmap", [True, False])
def test_onnx(zipmap, tmp_path):
    path, expected = trained.onnx(tmp_path, zipmap=zipmap)
    found = load_artefact(
        path, features=["age", "debt"], classes=None if zipmap else ["high", "low", "middle"]
    )
    assert (found.kind, found.classes) == ("onnx", ["high", "low", "middle"])
    compared(found.model, trained.records(trained.WHOLE), expected)


def onnx_models():
    from sklearn import ensemble, linear_model, tree

    two, names = {"target": trained.TWO}, {"target": trained.NAMED, "zipmap": True}
    numbers, options = {"target": trained.SCORE}, {"random_state": 0}
    return {
        "two classes": (ensemble.RandomForestClassifier(9, **options), two, True),
        "three classes": (ensemble.ExtraTreesClassifier(9, **options), names, True),
        "three numbered classes": (
            tree.DecisionTreeClassifier(**options),
            {"target": trained.THREE, "zipmap": False},
            True,
        ),
        "numbers": (ensemble.RandomForestRegressor(9, **options), numbers, True),
        "doubles": (ensemble.RandomForestClassifier(9, **options), {**two, "width": np.float64}, False),
        "boosting": (ensemble.GradientBoostingClassifier(n_estimators=9, **options), two, False),
        "boosting of numbers": (
            ensemble.GradientBoostingRegressor(n_estimators=9, **options),
            numbers,
            False,
        ),
        "no trees": (linear_model.LogisticRegression(), two, False),
    }


@pytest.mark.parametrize("name", onnx_models())
def test_trees_in_onnx_predict_the_bits_of_onnxruntime(name, tmp_path):
    """On rows with missing values too, and with numbers that no 32-bit float is."""
    model, options, compiled = onnx_models()[name]
    path, _ = trained.onnx(tmp_path, model=model, **options)
    found = load_artefact(path, features=["age", "debt"]).model
    reference = OnnxModel(path.read_bytes(), found.task, ["age", "debt"])
    assert isinstance(found, TreeEnsemble) is compiled
    rng = np.random.Generator(np.random.PCG64(0))
    rows = [*trained.records(trained.WHOLE), *({"age": a, "debt": b} for a, b in rng.normal(size=(300, 2)))]
    rows += trained.records(trained.NUMBERS) if compiled else []
    predictions = found.predict_many(rows)
    assert predictions == reference.predict_many(rows)
    if found.task == "classification":
        assert list(predictions[0]) == list(reference.predict(rows[0]))


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_columns_and_classes_keep_their_places_in_any_order(kind, tmp_path):
    """Permuted columns in training, permuted fields in the records, permuted labels: each prediction goes to its own."""
    library = pytest.importorskip(kind)
    order = ["colour", "debt", "age"]
    settings = {"num_class": 3, "objective": "multi:softprob", "nthread": 1, "max_depth": 3}
    if kind == "lightgbm":
        settings = {"num_class": 3, "objective": "multiclass", "num_threads": 1, "verbose": -1}
    for places in ([0, 1, 2], [2, 0, 1]):
        target = np.array(places)[trained.THREE]
        if kind == "xgboost":
            data = library.DMatrix(trained.TABLE[order], target, enable_categorical=True)
            booster = library.train(settings, data, 5)
            expected = booster.predict(data)
        else:
            booster = library.train(settings, library.Dataset(trained.TABLE[order], target), 5)
            expected = booster.predict(trained.TABLE[order])
        path = tmp_path / f"{kind}.json"
        booster.save_model(path)
        names = ["low", "middle", "high"]
        labels = [names[places.index(column)] for column in range(3)]
        model = load_model(path, classes=labels)
        assert model.features == order
        for fields in (["age", "debt", "colour"], ["debt", "colour", "age"]):
            for row, line in zip(trained.records(trained.TABLE[fields])[:50], expected, strict=False):
                found = model.predict({"a column of no model": "text", **row})
                assert found == pytest.approx(dict(zip(labels, line.tolist(), strict=True)), rel=1e-6)


def test_an_unknown_category_is_a_missing_value(tmp_path):
    for make in (trained.xgboost, trained.lightgbm):
        model = load_model(make(tmp_path)[0])
        assert model.predict({"age": 1.0, "debt": 1.0, "colour": "pink"}) == model.predict(
            {"age": 1.0, "debt": 1.0}
        )


def test_a_text_for_a_number_is_refused(tmp_path):
    model = load_model(trained.xgboost(tmp_path)[0])
    with pytest.raises(ValueError, match="feature 'age': 'old' is a str"):
        model.predict({"age": "old"})


def test_thresholds_of_32_bits_decide_as_the_library_does():
    rng = np.random.Generator(np.random.PCG64(3))
    limits = np.concatenate([rng.normal(size=50), [0.0, 1e-40, -1e-40, 1e30]]).astype(np.float32)
    near = np.concatenate([np.linspace(np.nextafter(t, np.float32(-np.inf), dtype=np.float32).astype(float), np.nextafter(t, np.float32(np.inf), dtype=np.float32).astype(float), 9) for t in limits])  # fmt: skip
    for limit, low, high in zip(
        limits, below_single(limits), up_to_single(limits.astype(float)), strict=True
    ):
        assert ((near <= low) == (near.astype(np.float32) < limit)).all()
        assert ((near <= high) == (near.astype(np.float32) <= limit)).all()


def test_early_stopping_ends_with_the_best_iteration_as_the_estimator_does(tmp_path):
    library = pytest.importorskip("xgboost")
    noise = np.random.Generator(np.random.PCG64(0)).integers(0, 2, trained.N)
    model = library.XGBClassifier(n_estimators=40, max_depth=5, early_stopping_rounds=2, n_jobs=1)
    model.fit(trained.WHOLE[:200], noise[:200], eval_set=[(trained.WHOLE[200:], noise[200:])], verbose=False)
    assert model.best_iteration < model.get_booster().num_boosted_rounds() - 1
    model.save_model(tmp_path / "early.json")
    compared(
        load_model(tmp_path / "early.json"),
        trained.records(trained.WHOLE),
        model.predict_proba(trained.WHOLE)[:, 1],
    )


def test_what_is_asked_of_a_file_is_checked(tmp_path):
    path, _ = trained.xgboost(tmp_path)
    assert load_artefact(path).sha256 == load_artefact(f"file://{path}").sha256
    for asked, words in (
        ({"task": "regression"}, "model.task"),
        ({"features": ["debt", "age", "colour"]}, "features: .* age, debt, colour"),
        ({"classes": ["only"]}, "classes: 1 labels for the 2 classes"),
    ):
        with pytest.raises(ArtefactError, match=words):
            load_artefact(path, **asked)
