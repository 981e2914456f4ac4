"""A challenger beside versions of a model: one model that sees the records of all, compared with each version on its own records."""

import json
import math

import msgspec
import pytest

from explain_core.artefacts.load import load_artefact
from explain_core.state import StateError
from explain_sidecar.errors import SnapshotError
from explain_sidecar.fold.metrics import measure
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.snapshots.snapshot import encode
from tests.folds import fold, messages, restored
from tests.versions import COLUMNS, VersionedPartition, content, error_classes, records, versioned, write

LEARNS = {"factory": "river.tree:HoeffdingTreeClassifier", "params": {"grace_period": 20}, "every": 1}
FOREIGN = {"factory": "river.linear_model:LogisticRegression", "learner": "river", "every": 2}
ORDER = ["v1", "v1", "v2", "v1", "v2", "v2"] * 40


def file_of(folder, feature="a", columns=COLUMNS):
    """A challenger that is a file."""
    path = folder / "rival.json"
    path.write_bytes(content("rival", columns, feature))
    return {"uri": str(path), "every": 1}


def line_of(folder, challenger, **sections):
    return VersionedPartition(versioned(write(folder, "v1", "v2", "v3"), challenger=challenger, **sections))


def test_a_version_is_compared_on_its_own_records_as_if_it_were_alone(tmp_path):
    rows = records(ORDER)
    together = messages(line_of(tmp_path, file_of(tmp_path)).fold(rows))
    for version in ("v1", "v2"):
        alone = messages(
            line_of(tmp_path, file_of(tmp_path)).fold([x for x in rows if x["served_by"] == version])
        )
        own = [message["challenger"] for message in together if message["version"]["name"] == version]
        assert own == [message["challenger"] for message in alone]
        assert own[-1]["difference"]["cross_entropy"]["records"] > 0
        assert own[-1]["importance_difference"]["ipfi"]["cross_entropy"]["a"]["value"] is not None
    better = {message["version"]["name"]: message["challenger"]["difference"] for message in together}
    assert better["v1"] != better["v2"]


def test_the_versions_own_figures_are_those_without_a_challenger(tmp_path):
    rows = records(ORDER)
    compared = messages(line_of(tmp_path, LEARNS).fold(rows))
    alone = messages(VersionedPartition(versioned(write(tmp_path, "v1", "v2"))).fold(rows))
    for with_one, without in zip(compared, alone, strict=True):
        for name in ("version", "performance", "importance", "estimators"):
            assert with_one[name] == without[name]
        assert without["challenger"] is None and with_one["challenger"]["name"] == LEARNS["factory"]


@pytest.mark.parametrize("challenger", [LEARNS, FOREIGN])
def test_a_challenger_learns_the_records_of_all_versions(tmp_path, challenger):
    rows = records(ORDER)
    rows[0]["label"] = 0  # codes are then the labels, with versions or without
    line = line_of(tmp_path, challenger)
    line.fold(rows)
    model = {name: value for name, value in challenger.items() if name != "every"}
    as_model = versioned(
        "x", model=model, models={"pattern": None}, record={"model_version": None, "features": list(COLUMNS)}
    )
    alone = PartitionState(as_model, 3)
    fold(alone, rows)
    (shared,) = {
        id(one.explained.model): one.explained.model for one in line.state.challengers.values()
    }.values()
    assert len(line.state.challengers) == 2
    for x in records(["v1"] * 20, seed=1):
        row = {name: x[name] for name in COLUMNS}
        assert shared.predict(row) == alone.explained.model.predict(row)


def test_the_features_are_those_of_the_version_and_of_the_challenger_s_file(tmp_path):
    challenger = file_of(tmp_path, "d", ["d", "a"])
    rows = [{**x, "d": x["b"], "e": 1.0} for x in records(["v1"] * 60)]
    for record in ({}, {"features": ["a", "b", "c", "d", "e"]}):
        newest = messages(line_of(tmp_path, challenger, record=record).fold(rows))[-1]
        own, other = (
            about["importance"]["ipfi"]["cross_entropy"] for about in (newest, newest["challenger"])
        )
        assert own.keys() == other.keys() == {"a", "b", "c", "d"}
        assert own["d"]["value"] == 0.0 != other["d"]["value"]


def test_a_version_with_other_labels_than_the_challenger_s_is_refused_in_words(tmp_path):
    challenger = {**file_of(tmp_path), "classes": ["no", "yes"]}
    line = line_of(tmp_path, challenger)
    artefact = load_artefact(str(tmp_path / "v1.json"), "classification")
    assert "those of the challenger no, yes" in line.state.versions.unfit("v1", artefact)
    assert error_classes(line.fold(records(["v1"]))) == ["unknown_version"]
    same = line_of(tmp_path, challenger, model={"classes": ["yes", "no"]})
    rows = [{**x, "label": ("no", "yes")[x["label"]]} for x in records(["v1"] * 20)]
    assert messages(same.fold(rows))[-1]["challenger"]["difference"]["cross_entropy"]


def test_metrics_are_by_version(tmp_path):
    line = line_of(tmp_path, LEARNS)
    line.fold(records(ORDER))
    found = measure(line.state)
    versions = {tuple(labels) for labels, _ in found["smoothed_loss_challenger"]}
    assert versions == {("cross_entropy", name) for name in ("v1", "v2")}
    assert {labels[1] for labels, _ in found["challenger_loss_difference"]} <= {"v1", "v2"}


def test_a_state_with_a_challenger_is_not_one_without(tmp_path):
    line = line_of(tmp_path, LEARNS)
    line.fold(records(ORDER[:30]))
    with pytest.raises(SnapshotError, match="challenger: with one, or without"):
        restored(encode(line.state), versioned(write(tmp_path, "v1", "v2", "v3")))
    data = line.state.state(pack=None)
    opened = [msgspec.structs.replace(version, challenger=None) for version in data.versions.open]
    data = msgspec.structs.replace(data, versions=msgspec.structs.replace(data.versions, open=opened))
    with pytest.raises(StateError, match="challenger: with one, or without"):
        PartitionState(line.settings, 3).restore(data, unpack=None)


def test_the_message_says_what_it_says_of_one_model(tmp_path):
    newest = messages(line_of(tmp_path, LEARNS).fold(records(ORDER)))[-1]
    assert newest["version"]["name"] == "v2"
    assert (
        json.dumps(newest["challenger"]["difference"]["cross_entropy"]["sentence"]).count("challenger") == 1
    )


class Split:
    """A function of another team: by "a", with labels of its own."""

    def predict_proba_one(self, x):
        p = 0.9 if x["a"] > 0 else 0.1
        return {"yes": p, "no": 1.0 - p}


def test_a_challenger_that_never_learns_is_judged_by_its_own_labels(tmp_path):
    challenger = {"factory": "tests.service.test_challenged_versions:Split", "static": True, "every": 1}
    line = line_of(tmp_path, challenger, model={"classes": ["no", "yes"]})
    rows = [{**x, "label": "yes" if x["a"] > 0 else "no"} for x in records(["v1"] * 60)]
    line.fold(rows)
    (found,) = line.state.challengers.values()
    assert found.explained.performance.of("cross_entropy")[0] == pytest.approx(-math.log(0.9))
