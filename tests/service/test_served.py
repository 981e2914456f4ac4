"""Served predictions: how good what was served is, and whether the model that is explained makes it."""

import math

import pytest

from explain_core.artefacts.load import load_artefact
from explain_sidecar.fold.metrics import measure
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.snapshot import encode
from tests.folds import fold, messages, restored, settings, values
from tests.versions import (
    COLUMNS,
    EXPLAINERS,
    VersionedPartition,
    content,
    error_classes,
    records,
    versioned,
    write,
)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "v1.json"
    path.write_bytes(content("v1"))
    return load_artefact(path).model


def known(tmp_path, **sections):
    return Settings(
        **{
            "model": {"uri": str(tmp_path / "v1.json"), **sections.pop("model", {})},
            "record": {"prediction": "p", **sections.pop("record", {})},
            "explainers": EXPLAINERS,
            "emit": {"every": 10},
            **sections,
        }
    )


def served(model, count, skewed=()):
    """Records with the probability of the second class that the model gives them, another where they are skewed."""
    made = []
    for place, x in enumerate(records([None] * count)):
        del x["served_by"]
        p = model.predict(x)[1]
        made.append({**x, "p": p / 2 if place in skewed else p})
    return made


def test_what_was_served_has_a_performance_beside_the_model_s(tmp_path, model):
    given = served(model, 60, skewed=range(30, 60))
    first, *_, last = messages(fold(VersionedPartition(known(tmp_path)).state, given))
    assert first["performance"]["cross_entropy"]["served"] == first["performance"]["cross_entropy"]["model"]
    weights = [0.95 ** (60 - place - 1) for place in range(60)]
    losses = [-math.log(x["p"] if x["label"] else 1 - x["p"]) for x in given]
    expected = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
    assert last["performance"]["cross_entropy"]["served"] == pytest.approx(expected)
    assert last["performance"]["cross_entropy"]["model"] != pytest.approx(expected)


def test_a_skewed_prediction_counts_and_one_that_was_rounded_does_not(tmp_path, model):
    given = served(model, 60, skewed=(20, 41))
    for x in given:
        x["p"] = round(x["p"], 3)
    line = VersionedPartition(known(tmp_path))
    *_, last = messages(fold(line.state, given))
    halved = max(given[20]["p"], given[41]["p"])
    assert last["skew"].pop("largest") == pytest.approx(halved, abs=2e-3)
    assert last["skew"] == {"checked": 60, "differing": 2, "tolerance": 0.001}
    found = measure(line.state)
    assert found["predictions_checked_total"] == [([""], 60)]
    assert found["predictions_skewed_total"] == [([""], 2)]
    assert [labels for labels, _ in found["smoothed_loss_served"]] == [["cross_entropy", ""]]
    strict = messages(
        fold(VersionedPartition(known(tmp_path, record={"prediction_tolerance": 1e-7})).state, given)
    )
    assert strict[-1]["skew"]["differing"] > 30


def test_a_mapping_says_the_same_as_a_probability_and_names_classes_as_json_does(tmp_path, model):
    given = served(model, 40)
    whole = messages(fold(VersionedPartition(known(tmp_path)).state, given))
    for names in (["0", "1"], ["no", "yes"], ["false", "true"]):
        labels = {"no": "no", "yes": "yes", "0": 0, "1": 1, "false": False, "true": True}
        own = [labels[name] for name in names]
        mapped = [
            {**x, "p": {names[1]: x["p"], names[0]: 1 - x["p"]}, "label": own[x["label"]]} for x in given
        ]
        found = messages(fold(VersionedPartition(known(tmp_path, model={"classes": own})).state, mapped))
        assert [m["skew"] for m in found] == [m["skew"] for m in whole]
        assert [m["performance"] for m in found] == [m["performance"] for m in whole]


def test_several_classes_and_numbers(tmp_path):
    given = [{**x, "p": {"up": 0.5, "down": 0.3, "flat": 0.2}} for x in values(50, "multiclass")]
    known = settings("multiclass", record={"prediction": "p"})
    *_, last = messages(fold(VersionedPartition(known).state, given))
    truths = [{"up": 0.5, "down": 0.3, "flat": 0.2}[x["label"]] for x in given]
    weights = [0.95 ** (49 - place) for place in range(50)]
    expected = sum(-w * math.log(p) for w, p in zip(weights, truths, strict=True)) / sum(weights)
    assert last["performance"]["cross_entropy"]["served"] == pytest.approx(expected)
    assert last["skew"] is None  # the model learns: it is not the one that served
    assert "p" not in last["importance"]["ipfi"]["cross_entropy"]
    given = [{**x, "p": x["label"] + 2.0} for x in values(50, "regression")]
    *_, last = messages(
        fold(VersionedPartition(settings("regression", record={"prediction": "p"})).state, given)
    )
    assert last["performance"]["squared"]["served"] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("task", "bad", "error"),
    [
        *(("binary", bad, "missing_prediction") for bad in (None, ...)),
        *(("binary", bad, "bad_prediction") for bad in (1.1, -0.1, True, "0.5", [0.5], {}, {"0": 0.5}, {"0": 0.9, "1": 0.9}, {"0": "a", "1": 1}, {"0": 0.5, "other": 0.5}, {"0": -0.2, "1": 1.2})),
        *(("multiclass", bad, "bad_prediction") for bad in (0.5, {"up": 0.5, "down": 0.4}, {f"c{i}": 1 / 1001 for i in range(1001)})),
        *(("regression", bad, "bad_prediction") for bad in ({"a": 1.0}, "1", 1e31, True)),
    ],
)  # fmt: skip
def test_a_bad_prediction_is_a_dead_letter_and_changes_nothing(tmp_path, model, task, bad, error):
    if task == "binary":
        line, given = VersionedPartition(known(tmp_path)), served(model, 10)
    else:
        line = VersionedPartition(settings(task, record={"prediction": "p"}))
        fine = 0.5 if task == "regression" else {"up": 0.5, "down": 0.5}
        given = [{**x, "p": fine} for x in values(10, task)]
    fold(line.state, given[:9])
    before = encode(line.state)
    x = {**given[9], "p": bad}
    if bad is ...:
        del x["p"]
    assert error_classes(line.fold([x])) == [error]
    after = VersionedPartition(line.settings, restored(before, line.settings))
    assert after.state.explained.state() == line.state.explained.state()
    assert list(after.state.labels) == list(line.state.labels)


def test_an_empty_prediction_is_said_to_be_one():
    line = VersionedPartition(settings(record={"prediction": "p"}))
    (letter,) = line.fold([{**values(1)[0], "p": {}}])
    assert b"'p' is a JSON object; it must be a mapping" in dict(letter.headers)["__explain.errors.message"]


def test_a_probability_alone_needs_a_class_that_it_is_of(tmp_path):
    learning = {"prediction": "p"}
    rows = values(30)
    line = VersionedPartition(settings(record=learning))
    found = messages(line.fold([{**x, "p": 0.9 if x["label"] else 0.1} for x in rows]))
    assert found[-1]["performance"]["cross_entropy"]["served"] == pytest.approx(-math.log(0.9))
    line = VersionedPartition(settings(record=learning))
    letters = line.fold([{**x, "p": 0.9, "label": "yes" if x["label"] else "no"} for x in rows[:2]])
    assert error_classes(letters) == ["bad_prediction"] * 2
    assert b"names no class" in dict(letters[0].headers)["__explain.errors.message"]


def test_each_version_is_compared_with_its_own_model(tmp_path):
    pattern = write(tmp_path, "v1", "v2")
    models = {name: load_artefact(tmp_path / f"{name}.json").model for name in ("v1", "v2")}
    given = records(["v1", "v2"] * 40)
    for place, x in enumerate(given):
        x["p"] = models["v1" if place > 60 else x["served_by"]].predict({c: x[c] for c in COLUMNS})[1]
    named = versioned(
        pattern, record={"model_version": "served_by", "prediction": "p", "prediction_tolerance": 1e-4}
    )
    line = VersionedPartition(named)
    found = line.fold(given)
    last = {m["version"]["name"]: m["skew"]["differing"] for m in messages(found)}
    assert last == {"v1": 0, "v2": 10}  # served by the model of before, under the name of the new one
    assert {labels[0]: n for labels, n in measure(line.state)["predictions_skewed_total"]} == last
