"""The model of ``model.uri``: its file says which columns and classes there are, and is part of what a state belongs to."""

import json

import numpy as np
import pytest

from explain_core.artefacts.ensemble import TreeEnsemble
from explain_sidecar.errors import SnapshotError, UserError
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.models import artefact, load_model, version_artefact
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.settings.model import ModelSettings
from explain_sidecar.snapshots.snapshot import encode
from tests.core.artefacts import trained
from tests.folds import fold, messages, restored, settings


@pytest.fixture
def path(tmp_path):
    return trained.xgboost(tmp_path)[0]


def known(path, **sections):
    return settings(model={"uri": str(path), **sections.pop("model", {})}, **sections)


def labelled(target=trained.TWO):
    rows = trained.records(trained.TABLE)
    return [
        {"noise": i % 3, **row, "label": y}
        for i, (row, y) in enumerate(zip(rows, target.tolist(), strict=True))
    ]


@pytest.mark.parametrize("kind", ["xgboost", "catboost"])
def test_importance_is_that_of_the_model_s_columns_and_performance_that_of_its_predictions(kind, tmp_path):
    if kind == "xgboost":
        (path, predicted), more, target = trained.xgboost(tmp_path), {}, trained.TWO
        own = np.where(target == 1, predicted, 1 - predicted)
    else:
        (path, predicted), more, target = trained.catboost(tmp_path), {"task": "multiclass"}, trained.NAMED
        own = predicted[np.arange(len(target)), np.searchsorted(["high", "low", "middle"], target)]
    given = known(path, model=more, emit={"every": 50}, explainers=[{"kind": "ipfi", "window": 1e9}])
    given = given.model_copy(update={"explainers": []})
    state = PartitionState(given, 3)
    found = messages(fold(state, labelled(target)[:50]))[-1]
    loss = found["performance"]["cross_entropy"]["model"]
    decayed = 0.999 ** np.arange(50)[::-1]
    assert loss == pytest.approx((-np.log(own[:50]) * decayed).sum() / decayed.sum(), rel=1e-4)
    state = PartitionState(known(path, model=more), 3)
    assert isinstance(state.explained.model, TreeEnsemble) is (kind == "xgboost")
    found = messages(fold(state, labelled(target)[:60]))[-1]
    assert set(found["importance"]["ipfi"]["cross_entropy"]) == {"age", "debt", "colour"}


def test_other_names_for_the_columns_of_a_file_without_names_are_another_identity(tmp_path):
    path, _ = trained.onnx(tmp_path)
    names = [f"f{i}" for i in range(trained.WHOLE.shape[1])]
    before = fold_settings(known(path, model={"features": names, "task": "multiclass"}))
    assert before["model"]["uri"]["features"] == names
    assert fold_settings(known(path, model={"features": names[::-1], "task": "multiclass"})) != before


def test_another_file_under_the_same_name_is_another_identity(path, tmp_path):
    given = known(path)
    before, raw = fold_settings(given), encode(PartitionState(given, 3))
    assert before["model"]["uri"]["sha256"] == artefact(given.model).sha256
    assert before["model"]["uri"]["classes"] == [0, 1]
    moved = tmp_path / "moved.json"
    moved.write_bytes(path.read_bytes())
    assert fold_settings(known(moved)) == before
    trained.xgboost(tmp_path, max_depth=2)
    from explain_sidecar.fold.models import _read

    _read.cache_clear()  # as a new process does
    assert fold_settings(given)["model"]["uri"] != before["model"]["uri"]
    with pytest.raises(SnapshotError, match="labels: others"):
        restored(raw, known(path, model={"classes": ["no", "yes"]}))


def test_labels_are_the_file_s_classes_and_no_others(path):
    state = PartitionState(known(path, model={"classes": ["no", "yes"]}), 3)
    row = {"age": 1.0, "debt": 0.5, "colour": "red"}
    (letter,) = messages_of_letters(fold(state, [{**row, "label": "maybe"}]))
    assert "'maybe' is none of the model's classes 'no', 'yes'; name its labels in model.classes" in letter
    assert fold(state, [{**row, "label": "yes"}]) == []
    (letter,) = messages_of_letters(fold(state, [{"other": 1, "label": "yes"}]))
    assert "no feature" in letter
    assert state.labels == {"no": 0, "yes": 1}


@pytest.mark.parametrize("kind", ["xgboost", "catboost", "versions", "challenger"])
def test_the_first_value_of_another_kind_than_the_model_takes_is_a_dead_letter(kind, path, tmp_path):
    row = {"age": 1.0, "debt": 0.5, "colour": "red", "label": 1, "version": "v1"}
    if kind == "versions":
        given = settings(record={"model_version": "version"}, models={"uris": {"v1": str(path)}})
        state = PartitionState(given, 3)
        state.versions.learn("v1", version_artefact(given, "v1"))
    elif kind == "challenger":
        names = ["age", "debt", "colour"]
        state = PartitionState(settings(record={"features": names}, challenger={"uri": str(path)}), 3)
    else:
        file = path if kind == "xgboost" else trained.catboost(tmp_path, trained.TWO)[0]
        state = PartitionState(known(file), 3)
    (letter,) = messages_of_letters(fold(state, [{**row, "age": "1.0"}]))
    assert letter == "feature 'age' is a string, and the model takes a number"
    if kind != "catboost":  # its categories may be whole numbers
        (letter,) = messages_of_letters(fold(state, [{**row, "colour": 3}]))
        assert letter == "feature 'colour' is a number, and the model takes a string"
    assert fold(state, [row]) == []
    assert state.records == 1


def messages_of_letters(outputs):
    return [
        dict(output.headers)["__explain.errors.message"].decode()
        for output in outputs
        if output.destination == "dead_letters"
    ]


def test_what_the_file_is_not_is_said(path, tmp_path):
    three = trained.xgboost(tmp_path, "ubj", target=trained.THREE, objective="multi:softprob", num_class=3)[0]
    for given, words in (
        ({"uri": str(three)}, "model.task: binary, and .* has 3 classes"),
        ({"uri": str(path), "task": "regression"}, "model.task: regression"),
        ({"uri": str(tmp_path / "none.json")}, "No such file"),
    ):
        with pytest.raises(UserError, match=words):
            load_model(ModelSettings(**given), 0)
    with pytest.raises(UserError, match="'age' is also a column"):
        PartitionState(known(path, record={"label": "age"}), 3)


def test_config_check_shows_what_the_file_holds(path, tmp_path, capsys):
    from explain_sidecar.commands.config import check

    check(known(path), as_json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out)["model.uri"]["value"] == str(path)
    assert "xgboost; version " in shown.err
    assert "3 features: age, debt, colour; 2 classes: 0, 1; categories of colour; sha256 " in shown.err
    for wrong, words in (
        ({"record": {"label": "age"}}, "record.label: 'age' is also a column of"),
        (
            {"record": {"features": ["plan"]}},
            "record.features: none is a column of .* which has age, debt, colour",
        ),
        ({"explainers": [{"kind": "ipfi", "by": "plan"}]}, "explainers: 'plan' is no column of"),
        (
            {"explainers": [{"kind": "ipfi", "groups": {"g": ["age", "plan"]}}]},
            "explainers: 'plan' is no column of",
        ),
    ):
        with pytest.raises(UserError, match=words):
            check(known(path, **wrong))
    check(known(path, record={"features": ["age", "plan"]}, explainers=[{"kind": "ipfi", "by": "plan"}]))
