"""Versions of a model in mid-stream: each record is explained under the version that served it."""

import hashlib
import json
import random

import msgspec
import pytest

from explain_core.artefacts import mlflow
from explain_core.artefacts.artefact import ArtefactError
from explain_core.foreign import dumps, loads
from explain_sidecar.commands.config import check
from explain_sidecar.commands.sampling import tally
from explain_sidecar.errors import SnapshotError, UserError
from explain_sidecar.fold.carry import carry_over
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.metrics import measure
from explain_sidecar.fold.models import forget_artefacts, version_artefact
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.fold.version_source import ABSENT_SECONDS
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.snapshot import Before, begin, encode
from tests.folds import FIRST_TIMESTAMP, messages, record, restored
from tests.versions import (
    COLUMNS,
    EXPLAINERS,
    SeparateVersions,
    VersionedPartition,
    content,
    error_classes,
    feature_of,
    figures_of,
    records,
    versioned,
    write,
)


@pytest.fixture(autouse=True)
def _fresh():
    """Files are read once a process."""
    forget_artefacts()


def test_each_version_is_explained_as_if_it_were_alone(tmp_path):
    known = versioned(write(tmp_path, "v1", "v2", "v3"))
    order = random.Random(1).choices(["v1", "v2", "v3"], [5, 3, 1], k=200)
    given = records(order)
    alone = SeparateVersions(known, 3)
    expected = [told for told in map(alone.take, given) if told is not None]
    found = messages(VersionedPartition(known).fold(given))
    assert [figures_of(message) for message in found] == expected
    assert {message["version"]["name"] for message in found} == {"v1", "v2", "v3"}
    last = {message["version"]["name"]: message for message in found}
    for version, message in last.items():
        cells = message["importance"]["ipfi"]["cross_entropy"]
        assert [name for name in COLUMNS if cells[name]["value"] != 0] == [feature_of(version)]
        assert message["version"]["sha256"] == hashlib.sha256(content(version)).hexdigest()
        assert message["version"]["records"] == order.count(version) // 5 * 5


def test_a_version_is_explained_as_by_a_sidecar_that_has_it_alone(tmp_path):
    pattern = write(tmp_path, "v1", "v2")
    given = records(random.Random(2).choices(["v1", "v2"], k=100))
    found = messages(VersionedPartition(versioned(pattern)).fold(given))
    own = [
        {name: value for name, value in x.items() if name != "served_by"}
        for x in given
        if x["served_by"] == "v2"
    ]
    single = Settings(model={"uri": str(tmp_path / "v2.json")}, explainers=EXPLAINERS, emit={"every": 5})
    whole = messages(VersionedPartition(single).fold(own))
    assert [m["performance"] for m in found if m["version"]["name"] == "v2"] == [
        m["performance"] for m in whole
    ]
    assert {m["version"] for m in whole} == {None}


def test_the_version_may_come_in_a_header(tmp_path):
    line = VersionedPartition(versioned(write(tmp_path, "7"), record={"model_version": "header:model"}))

    def send(*headers):
        offset, value = line.state.next_offset, json.dumps(records([None])[0]).encode()
        return error_classes(line.send(InputRecord(offset, FIRST_TIMESTAMP, None, value, headers)))

    assert send(("model", b"7")) == [] and line.state.versions.open["7"].slot.explained.records == 1
    assert send(("model", b"8"), ("model", b"7")) == []
    assert send() == send(("model", None)) == ["missing_version"]
    assert send(("model", b"")) == ["bad_version"]


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (None, "missing_version"), ("", "bad_version"), (1.5, "bad_version"), (True, "bad_version"), (["v1"], "bad_version"),
        ("x" * 201, "bad_version"), ("../secret/v1", "unknown_version"), ("/v1", "unknown_version"), ("..", "unknown_version"),
        ("v9", "unknown_version"), (9, "unknown_version"),
    ],
)  # fmt: skip
def test_a_record_of_no_known_version_is_a_dead_letter_and_changes_nothing(tmp_path, version, error):
    (tmp_path / "secret").mkdir()
    write(tmp_path / "secret", "v1")
    line = VersionedPartition(versioned(write(tmp_path, "v1")))
    line.fold(records(["v1"] * 3))
    before = line.state.explained.state()
    assert error_classes(line.fold(records([version]))) == [error]
    assert list(line.state.versions.open) == ["v1"] and line.state.explained.state() == before
    assert line.state.records == 3


def test_a_new_version_appears_without_a_restart_once_it_is_looked_for_again(tmp_path, caplog):
    line = VersionedPartition(versioned(write(tmp_path, "v1")))
    assert error_classes(line.fold(records(["v1", "v2", "v2"]))) == ["unknown_version"] * 2
    assert [r.message for r in caplog.records] == [
        f"models: version 'v2': model.uri: {tmp_path}/v2.json: No such file or directory"
    ]
    write(tmp_path, "v2")
    assert error_classes(line.fold(records(["v2"]))) == ["unknown_version"]
    line.now += ABSENT_SECONDS
    assert error_classes(line.fold(records(["v2"]))) == []
    assert line.state.learnt == 2


def test_another_file_under_the_name_of_a_version_is_refused_in_words(tmp_path, caplog):
    line = VersionedPartition(versioned(write(tmp_path, "v1", "v2"), {"max_open": 1}))
    line.fold(records(["v1"] * 3))
    (tmp_path / "v1.json").write_bytes(content("v7"))
    with pytest.raises(
        UserError,
        match=r"models: version 'v1': its content is another \(sha256 .*put that back, or give the new model",
    ):
        line.restart()
    # Not for a version that was closed meanwhile either.
    line.fold(records(["v2"]))
    forget_artefacts()
    assert error_classes(line.fold(records(["v1"]))) == ["unknown_version"]
    assert "its content is another" in caplog.text
    (tmp_path / "v1.json").write_bytes(content("v1"))
    line.now += ABSENT_SECONDS
    assert error_classes(line.fold(records(["v1"]))) == []
    (tmp_path / "v1.json").unlink()
    with pytest.raises(UserError, match=r"models: version 'v1': .*No such file"):
        line.restart()


def test_versions_are_closed_after_their_number_of_records_and_where_one_too_many_is_open(tmp_path):
    pattern = write(tmp_path, "v1", "v2", "v3")
    line = VersionedPartition(versioned(pattern, {"close_after": 10}))
    line.fold(records(["v1"] * 6 + ["v2"] * 9))
    assert list(line.state.versions.open) == ["v1", "v2"]
    line.fold(records(["v2"]))
    assert list(line.state.versions.open) == ["v2"]
    line.fold(records(["v1"] * 5))
    assert line.state.versions.open["v1"].slot.explained.records == 5
    line = VersionedPartition(versioned(pattern, {"max_open": 2}))
    line.fold(records(["v1", "v2", "v1", "v3"]))
    assert list(line.state.versions.open) == ["v1", "v3"]
    assert line.state.versions.kept == {}


def test_a_bad_record_of_a_version_that_is_not_open_closes_no_other(tmp_path):
    known = versioned(write(tmp_path, "v1", "v2", "v3"), {"max_open": 1})
    given = records(["v1", "v2", "v3", "v2", "v2", "v3"])
    for place in (1, 2, 3, 5):
        given[place]["a"] = {"not": "a number"}
    whole = VersionedPartition(known)
    assert error_classes(whole.fold(given[:4])) == ["nested_feature"] * 3
    assert list(whole.state.versions.open) == ["v1"]
    again = whole.restart()
    assert list(again.state.versions.open) == ["v1"]
    assert again.state.versions.find("v2").slot.explained.records == 0  # a replay asks nobody
    assert error_classes(whole.fold(given[4:])) == ["nested_feature"]
    assert list(whole.state.versions.open) == ["v2"]


def test_drift_names_the_change_of_the_version_as_the_model_s_part(tmp_path):
    known = versioned(
        write(tmp_path, "v1", "w9"),
        {"close_after": 20},
        drift={"enabled": True, "window": 60, "bootstrap": 2},
    )
    line = VersionedPartition(known)
    given = records(["v1"] * 60 + ["v1"] * 50 + ["w9"] * 10 + ["w9"] * 60 + ["w9"] * 60)
    same, changed, again = messages(line.fold(given), "drift")
    windows = [
        (m["target"]["version"], m["target"]["records"], m["target"]["of_other_versions"])
        for m in (same, changed, again)
    ]
    assert windows == [("v1", 50, 10), ("w9", 60, 0), ("w9", 60, 0)]
    assert same["change"]["joint"]["hypothesis"] is None is again["change"]["joint"]["hypothesis"]
    part = changed["change"]["joint"]["hypothesis"]
    assert part["name"] == "hypothesis" and part["value"] != 0.0
    assert "from window 1 (version v1) to window 2 (version w9)" in changed["sentence"]
    # The losses are those of the versions that served the records.
    models = {name: version_artefact(known, name).model for name in ("v1", "w9")}
    wrong = [
        max(p := models[x["served_by"]].predict({c: x[c] for c in COLUMNS}), key=p.get) != x["label"]
        for x in given
    ]
    assert changed["change"]["baseline"]["prequential"] == pytest.approx(sum(wrong[60:110]) / 50)
    assert changed["change"]["target"]["prequential"] == pytest.approx(sum(wrong[120:180]) / 60)


def test_alarms_are_about_a_version_and_those_about_rejected_records_about_none(tmp_path):
    alarms = {
        "enabled": True,
        "one_in": 1000,
        "min_change": 0.0,
        "warm_up": 100,
        "baseline": 100,
        "subjects": ["loss", "rejected"],
    }
    known = versioned(write(tmp_path, "v2", "w9"), explainers=EXPLAINERS[:1], alarms=alarms)
    given = records(["v2", "w9"] * 900)
    for x in given[1000:]:
        x["label"] = int(x["a"] < 0.5) if x["served_by"] == "v2" else x["label"]
    raised = messages(VersionedPartition(known).fold(given), "alarms")
    assert {(alarm["subject"], alarm["version"]) for alarm in raised} == {("loss", "v2")}
    raised = messages(VersionedPartition(known).fold([*given[:400], *[b"{"] * 300]), "alarms")
    assert {(alarm["subject"], alarm["version"]) for alarm in raised} == {("rejected", None)}
    line = VersionedPartition(known)
    about = messages(line.fold(given[:500]))[-2:]
    assert {message["version"]["name"] for message in about} == {"v2", "w9"}
    assert all(message["performance"]["cross_entropy"]["floor"] > 0 for message in about)
    labels = {tuple(labels) for labels, _ in measure(line.state)["alarm_floor"]}
    assert labels == {("loss", "cross_entropy", "v2"), ("loss", "cross_entropy", "w9")}
    assert [labels for labels, _ in measure(line.state)["alarm_rejected_floor"]] == [[""]]


def test_versions_may_have_other_columns_and_other_orders_of_classes(tmp_path):
    write(tmp_path, "v1", columns=("b", "a"), feature="a")
    write(tmp_path, "v2", columns=("c", "a", "new"), feature="c")
    line = VersionedPartition(versioned(str(tmp_path / "{version}.json")))
    given = [{**x, "new": 1.0, "text": {"not": "read"}} for x in records(["v1", "v2"] * 20)]
    found = messages(line.fold(given))
    columns = {m["version"]["name"]: set(m["importance"]["ipfi"]["cross_entropy"]) for m in found}
    assert columns == {"v1": {"a", "b"}, "v2": {"a", "c", "new"}}
    assert line.state.versions.columns == ["b", "a", "c", "new"]
    assert error_classes(line.fold([{"new": 1, "label": 0, "served_by": "v1"}])) == ["no_features"]


def test_a_record_cannot_fix_the_kind_of_another_version_s_feature(tmp_path):
    write(tmp_path, "v1", columns=["a"], feature="a")
    line = VersionedPartition(versioned(write(tmp_path, "v2", columns=["b"], feature="b")))
    own, other = {"a": 0.1, "label": 1, "served_by": "v1"}, {"label": 1, "served_by": "v2"}
    line.fold([own])
    # v2 is loaded for a record that has none of its features, so that b is read; what kind it is, only v2 can say.
    assert error_classes(line.fold([{**other, "b": None}])) == ["no_features"]
    for each in (line.restart(), line):
        given = [{**own, "b": "red"}, {**other, "b": 0.2}, {**own, "b": "red"}, {**own, "b": 0.3}]
        assert error_classes(each.fold(given)) == []
        assert error_classes(each.fold([{**other, "b": "red"}])) == ["feature_type"]
        assert each.state.versions.open["v2"].slot.explained.records == 1


def test_groups_are_those_of_a_version_s_features(tmp_path):
    write(tmp_path, "v1", columns=["a"], feature="a")
    pattern = write(tmp_path, "v2")
    explainers = [{**chosen, "groups": {"both": ["b", "c"]}} for chosen in EXPLAINERS]
    known = versioned(pattern, explainers=explainers, record={"features": ["a", "b", "c"]})
    found = messages(VersionedPartition(known).fold(records(["v1", "v2"] * 10)))
    players = {m["version"]["name"]: set(m["importance"]["ipfi"]["cross_entropy"]) for m in found}
    assert players == {"v1": {"a"}, "v2": {"a", "both"}}


def test_a_model_that_does_not_fit_the_partition_is_refused(tmp_path, caplog):
    write(tmp_path, "v1")
    (tmp_path / "v2.json").write_bytes(b"{")
    write(tmp_path, "v3", columns=("label", *COLUMNS))
    line = VersionedPartition(versioned(str(tmp_path / "{version}.json")))
    assert error_classes(line.fold(records(["v1", "v2", "v3"]))) == ["unknown_version"] * 2
    assert "the file is truncated" in caplog.text and "'label' is one of its columns" in caplog.text


def test_where_versions_are_does_not_count_and_what_they_are_does(tmp_path):
    known = versioned(write(tmp_path, "v1", "v2"))
    by_name = versioned(None, {"uris": {"v1": str(tmp_path / "v1.json")}, "unknown": "wait"})
    assert fold_settings(known) == fold_settings(by_name)
    assert fold_settings(known) != fold_settings(versioned(known.models.pattern, {"close_after": 5}))
    line = VersionedPartition(known)
    line.fold(records(["v1"]))
    VersionedPartition(by_name, restored(encode(line.state), by_name))
    with pytest.raises(UserError, match=r"there is no version 'v1'; models.uris has v2"):
        restored(encode(line.state), versioned(None, {"uris": {"v2": str(tmp_path / "v2.json")}}))
    with pytest.raises(SnapshotError, match="versions: with them, or without"):
        restored(
            encode(line.state), Settings(model={"uri": str(tmp_path / "v1.json")}, explainers=EXPLAINERS)
        )


def test_config_check_shows_the_versions_that_are_named(tmp_path, capsys):
    write(tmp_path, "v1", "v2")
    uris = {name: str(tmp_path / f"{name}.json") for name in ("v1", "v2")}
    check(versioned(None, {"uris": uris}), as_json=True)
    shown = capsys.readouterr().err
    assert "settings are valid; versions of a model for binary are explained as they are" in shown
    for name in uris:
        assert f"version {name}: {uris[name]}: xgboost" in shown
        assert hashlib.sha256(content(name)).hexdigest() in shown
    with pytest.raises(UserError, match="models: version 'v9': "):
        check(versioned(None, {"uris": {"v9": str(tmp_path / "v9.json")}}), as_json=True)


def test_a_sample_of_the_records_is_read_by_the_columns_of_their_versions(tmp_path):
    known = versioned(write(tmp_path, "v1", "v2"))
    given = [{**x, "nested": {"not": "read"}} for x in records(["v1", "v2", "v3", None])]
    found = tally(known, known.record, [(0, record(place, x)) for place, x in enumerate(given)])
    assert found.good == 2 and set(found.features) == set(COLUMNS)
    assert found.bad.keys() == {"unknown_version", "missing_version"}


def test_a_pattern_may_be_one_of_a_registry(tmp_path, monkeypatch):
    write(tmp_path, "7")
    asked = []

    def downloaded(uri):
        asked.append(uri)
        version = uri.rpartition("/")[2]
        if version != "7":
            raise ArtefactError(f"model.uri: {uri}: RESOURCE_DOES_NOT_EXIST")
        return tmp_path / "7.json", version

    monkeypatch.setattr(mlflow, "downloaded", downloaded)
    line = VersionedPartition(versioned("models:/churn/{version}"))
    assert error_classes(line.fold(records([7, "7", 8]))) == ["unknown_version"]
    assert line.state.versions.open["7"].slot.explained.records == 2
    assert asked == ["models:/churn/7", "models:/churn/8"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v["open"].append(v["open"][0]), "versions: one twice"),
        (lambda v: v["pins"].pop("v1"), "versions: one twice, or of no sha256"),
        (lambda v: v.update(ready="v1"), "versions: one twice"),
        (lambda v: v.update(kept=["v3"]), "of no sha256"),
        (lambda v: v["pins"].update({f"x{i}": "0" * 64 for i in range(1_010)}), "too many are remembered"),
        (lambda v: v["pins"].update(v1="0" * 63), "is no state"),
        (lambda v: v["open"][0].update(name="x" * 201), "is no state"),
        (lambda v: v["open"][0]["explained"].update(explainers={}), "explainers: others"),
        (lambda v: v["open"][0].update(alarms={"detectors": {}, "causes": {}}), "is no state"),
    ],
)
def test_a_stored_state_that_is_not_of_these_versions_is_refused(tmp_path, change, words):
    line = VersionedPartition(versioned(write(tmp_path, "v1", "v2"), {"max_open": 2}))
    line.fold(records(["v1", "v2"] * 5))
    data = msgspec.msgpack.decode(encode(line.state))
    change(data["versions"])
    with pytest.raises(SnapshotError, match=words):
        restored(msgspec.msgpack.encode(data), line.settings)
    data = msgspec.msgpack.decode(encode(line.state))
    with pytest.raises(SnapshotError, match="too many are open"):
        restored(msgspec.msgpack.encode(data), versioned(line.settings.models.pattern, {"max_open": 1}))


@pytest.mark.parametrize(
    ("change", "begun"),
    [
        ({"emit": {"every": 5, "max_bytes": 500_000}}, []),
        ({"models": {"close_after": 1_000}}, ["versions"]),
        ({"explainers": EXPLAINERS[:1]}, ["versions"]),
        ({"challenger": {"name": "linear"}}, ["challenger", "versions"]),
        ({"alarms": {"enabled": True, "subjects": ["loss", "rejected"]}}, ["alarms rejected", "versions"]),
    ],
)
def test_a_change_of_settings_keeps_all_versions_or_begins_all_anew_with_the_files_of_before(
    change, begun, tmp_path
):
    given = records([*random.Random(4).choices(["v1", "v2"], k=100), *["v2"] * 100])
    common = {"challenger": {"name": "tree"}, "drift": {"enabled": True, "window": 40, "bootstrap": 2}}
    pattern = write(tmp_path, "v1", "v2")
    before, after = versioned(pattern, **common), versioned(pattern, **{**common, **change})
    line = VersionedPartition(before)
    line.fold(given[:100])
    carry = carry_over(fold_settings(before), after)
    data = line.state.state(dumps)
    state = begin(after, 3, 1, line.state.next_offset, Before(data, carry, loads))
    assert carry.begun == begun and f"begun anew: {', '.join(begun) or 'nothing'}" in state.notices[-1]
    assert not any(name in carry.sentence for name in ("explainer", "performance", "reservoir"))
    assert state.versions.pins == line.state.versions.pins
    now = state.state(dumps).versions
    assert (now.challenger == data.versions.challenger) == ("challenger" not in begun)
    outputs = [of.fold(given[100:]) for of in (line, VersionedPartition(after, state))]
    told = [messages(of) for of in outputs]
    if begun:
        assert now.open == [] and min(message["version"]["records"] for message in told[1]) == 5
    else:
        assert [figures_of(message) for message in told[0]] == [figures_of(message) for message in told[1]]
    # v1 served records of windows that go on, and does not open again.
    risks = [
        [(of["target"], of["change"]["baseline"], of["change"]["target"]) for of in messages(each, "drift")]
        for each in outputs
    ]
    assert risks[0] == risks[1] and len(risks[0]) == 3
