"""What outlives a change: settings, a broken past, another cluster; each with the bytes of an oracle that does the same.

In memory; `test_driver.py` shows that these commands say and do the same on a broker.
"""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from river import tree

from benchmarks import KEY_FILE
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.files import read_file
from explain_sidecar.snapshots.signatures import Keys
from explain_sidecar.snapshots.snapshot import load_parts
from explain_sidecar.wire.envelope import Envelope
from tests.broker.harness import Factory, Pipeline, delete_before, mixed_records
from tests.broker.memory import MEMORY, MemoryPipeline
from tests.changes import Epochs

CHANGES: dict[str, tuple[dict[str, str], str]] = {
    "a feature less": ({"RECORD__FEATURES": '["a", "b"]'}, "begun anew: nothing"),
    "explain.every": ({"EXPLAIN__EVERY": "2"}, "begun anew: explainer ipfi, explainer isage"),
    "an explainer less": ({"EXPLAINERS": '[{"kind": "ipfi", "alpha": 0.01, "reservoir": {"size": 20}}]'}, "ended: explainer isage"),
}  # fmt: skip
"""The others: tests/driver/test_changes.py."""


def bytes_of(line: Pipeline, before: Settings, changes: list[tuple[int, Settings]]) -> list[bytes | None]:
    """What the explanations must be, as the settings change at these offsets."""
    state: Any = Epochs(before, 0, changes)
    envelope = Envelope(line.settings, line.topic_id)
    return [
        envelope.wrap(0, output).value
        for record in line.inputs[0]
        for output in state.supplied(record, lambda key: None, lambda name, unfit: None)
        if output.destination == "explanations"
    ]


def explanations(line: Pipeline) -> list[bytes | None]:
    return [value for _, value, _ in line.published()["explanations"][0]]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_settings_is_said_before_and_carried_over(line: Pipeline, change: str) -> None:
    environment, said = CHANGES[change]
    before = line.settings
    line.environment |= {f"EXPLAIN_{name}": value for name, value in environment.items()}
    checked = line.cli("config", "check", "--against-running")
    assert "a new epoch begins; carried over: " in checked.stdout and said in checked.stdout, checked.stdout
    line.feed(mixed_records(1, 100, seed=1))
    line.run_to_end()
    assert explanations(line) == bytes_of(line, before, [(300, line.settings)])
    assert "nothing changes" in line.cli("config", "check", "--against-running").stdout


def test_a_snapshot_that_the_keys_do_not_fit_is_told_from_none(line: Pipeline, tmp_path: Path) -> None:
    """Before the restart that would stop, and where the model could be given up for lost."""
    key = str(tmp_path / "key")
    line.cli("key", "new", key)
    line.environment["EXPLAIN_CHECKPOINT__HMAC_KEY_FILE"] = key
    why = "checkpoint manifest: it has no signature; it was not written by this sidecar, or before it had a key: checkpoint.allow_unsigned=true accepts it"
    checked = line.cli("config", "check", "--against-running", status=1)
    assert f"partitions 0: the newest snapshot cannot be used: {why}" in checked.stdout
    assert "the workers stop where they need the newest snapshot of partitions 0" in checked.stderr
    assert f"partition 0: nothing to compare: {why}" in line.cli("upgrade", "check").stdout
    kept = line.cli("reset", "--partition", "0", "--keep", "all", status=1).stderr
    assert f"no snapshot is whole, so that nothing can be kept ({why})" in kept
    assert why in line.fails()
    allowed = {"EXPLAIN_CHECKPOINT__ALLOW_UNSIGNED": "true"}
    assert "nothing changes" in line.cli("config", "check", "--against-running", **allowed).stdout


def test_the_model_is_named_before_it_is_lost(line: Pipeline) -> None:
    line.environment |= {"EXPLAIN_SEED": "7"}
    assert "run --new-model" in line.cli("config", "check", "--against-running", status=1).stderr
    assert "The model would begin anew" in line.fails()


def test_an_epoch_that_has_published_nothing_is_taken_back(line: Pipeline) -> None:
    before = line.environment | {}
    line.environment |= {"EXPLAIN_EXPLAIN__EVERY": "2"}
    line.feed(mixed_records(1, 5, seed=1))
    line.run_to_end()
    line.environment = before
    assert "leaves the partition to instances that have the new ones" in line.fails()
    lost = line.cli("reset", "--partition", "0", status=1).stdout
    assert "after 5 records of epoch 1 and what that took over from the one before" in lost
    assert "back:  to epoch 0" in line.cli("reset", "--partition", "0", "--undo", "--yes").stdout
    line.feed(mixed_records(1, 100, seed=2))
    line.run_to_end()
    line.verify()
    line.environment |= {"EXPLAIN_EXPLAIN__EVERY": "2"}
    line.feed(mixed_records(1, 20, seed=3))
    line.run_to_end()
    line.environment = before
    assert "has published" in line.cli("reset", "--partition", "0", "--undo", "--yes", status=1).stderr


def test_retention_shorter_than_a_downtime_costs_the_records_and_not_the_model(line: Pipeline) -> None:
    line.feed(mixed_records(1, 100, seed=1))
    delete_before(line, 350)
    assert "reset --partition 0 --keep all --yes" in line.fails()
    done = line.cli("reset", "--partition", "0", "--keep", "all", "--yes").stdout
    assert "has learnt up to offset 300, and it goes on at 350" in done
    line.run_to_end()
    first = line.explanations()[30]
    assert (first["epoch"], first["carried"]["offset"], first["carried"]["begun"]) == (1, 350, [])


def test_a_topic_created_again_costs_its_records_and_not_the_model(line: Pipeline) -> None:
    records = line.topics["records"]
    line.admin.delete_topics([records])[records].result()
    line.wait_for(lambda: records not in line.admin.list_topics(timeout=5).topics)
    line.create(records, retention_ms="-1")
    line.inputs[0] = []
    line.feed(mixed_records(1, 100, seed=1))
    assert "was deleted and created again" in line.fails()
    done = line.cli("reset", "--partition", "0", "--keep", "all", "--yes").stdout
    assert "the topic was created again" in done and "learnt up to" not in done
    assert "explained again" not in done  # all records are new
    line.run_to_end()
    carried = line.explanations()[30]["carried"]
    assert "model" in carried["carried"] and carried["offset"] == 0


def test_a_sidecar_moves_to_another_cluster_whose_offsets_are_others(memory: Factory, tmp_path: Path) -> None:
    """There the topic of the same name lacks its first 100 records, so that all offsets are lower by that."""
    old, file, again = memory(2), str(tmp_path / "state"), tmp_path / "again"
    new = MemoryPipeline(MEMORY, old.name, 2)
    moved = list(mixed_records(2, 600))
    old.feed(moved)
    old.run_to_end()
    assert "2 partitions" in old.cli("state", "export", file).stdout
    new.feed(moved[100:])
    assert "nothing was done" in new.cli("state", "import", file, status=1).stderr
    assert not set(new.topics.values()) & set(new.admin.list_topics(timeout=5).topics) - {
        new.topics["records"]
    }
    assert "here: epoch 0 from offset 250" in new.cli("state", "import", file, "--yes").stdout
    new.cli("state", "export", str(again))
    before, after = (
        [load_parts(snapshot) for snapshot, _ in read_file(path, Keys())] for path in (Path(file), again)
    )
    for ours, theirs in zip(before, after, strict=True):
        assert (
            ours.explained is not None and ours.explained == theirs.explained and ours.labels == theirs.labels
        )
    more = list(mixed_records(2, 200, seed=1))
    old.feed(more)
    new.feed(more)
    old.run_to_end()
    new.run_to_end()
    for partition in range(2):
        ours, theirs = (
            [json.loads(value) for _, value, _ in line.published()["explanations"][partition]]
            for line in (old, new)
        )
        assert "model" in theirs[0]["carried"]["carried"] and theirs[0]["carried"]["begun"] == []
        for here, there in zip(theirs, ours[30:], strict=True):
            assert {name: here[name] for name in ("performance", "importance", "drivers")} == {
                name: there[name] for name in ("performance", "importance", "drivers")
            }


def test_an_import_says_what_a_sidecar_that_has_gone_on_loses(line: Pipeline, tmp_path: Path) -> None:
    file = str(tmp_path / "state")
    line.cli("state", "export", file)
    line.feed(mixed_records(1, 100, seed=1))
    line.run_to_end()
    said = line.cli("state", "import", file, status=1).stdout
    assert "lost: epoch 0: the model and its explanations after 400 records" in said
    assert "records 300 to 399 are explained again" in said


def test_a_copy_without_the_last_records_is_waited_for(memory: Factory, tmp_path: Path) -> None:
    old, new, file = memory(1), memory(1), str(tmp_path / "state")
    moved = list(mixed_records(1, 300))
    old.feed(moved)
    old.run_to_end()
    old.cli("state", "export", file)
    new.feed(moved[:250])
    assert "wait until the topic is copied" in new.cli("state", "import", file, "--yes", status=1).stderr
    assert new.committed()[0].offset < 0


def test_a_refused_import_leaves_the_topics_as_they_are(memory: Factory, tmp_path: Path) -> None:
    """Those of a sidecar whose records topic is another, with more partitions."""
    line, wrong, file = memory(1), memory(2), str(tmp_path / "state")
    line.feed(mixed_records(1, 60))
    line.run_to_end()
    line.cli("state", "export", file)
    line.environment["EXPLAIN_TOPICS__RECORDS"] = wrong.topics["records"]
    assert "they are not there" in line.cli("state", "import", file, "--yes", status=1).stderr
    line.environment["EXPLAIN_TOPICS__RECORDS"] = line.topics["records"]
    line.feed(mixed_records(1, 60, seed=1))
    line.run_to_end()
    line.verify()


def test_records_that_are_all_alike_tell_no_place(memory: Factory, tmp_path: Path) -> None:
    old, new, file = memory(1), memory(1), str(tmp_path / "state")
    old.feed([(0, b'{"a": 1, "label": true}')] * 100)
    old.run_to_end()
    old.cli("state", "export", file)
    new.feed([(0, b'{"a": 1, "label": true}')] * 20)
    assert "none of them differs" in new.cli("state", "import", file, "--yes", status=1).stderr
    different = [(0, b'{"a": %d, "label": true}' % n) for n in range(20)]
    old.feed([*different, *[(0, b'{"a": 1, "label": true}')] * 100])
    old.run_to_end()
    old.cli("state", "export", file)
    new.feed([*different, *[(0, b'{"a": 1, "label": true}')] * 50])
    assert "they are not there" in new.cli("state", "import", file, "--yes", status=1).stderr
    new.feed([(0, b'{"a": 1, "label": true}')] * 50)
    assert "from offset 140" in new.cli("state", "import", file, "--yes").stdout


def test_a_new_sidecar_begins_with_the_model_of_another(
    line: Pipeline, memory: Factory, tmp_path: Path
) -> None:
    file, river = tmp_path / "model", tmp_path / "model.pickle"
    said = line.cli("model", "export", "--partition", "0", "--river", str(river), str(file)).stdout
    assert "after 300 records" in said and "ArrayClassifier" in said
    ((snapshot, _),) = read_file(file, Keys())
    explained = load_parts(snapshot).explained
    assert explained is not None and explained.reservoirs[0].rows == []
    assert pickle.loads(river.read_bytes()).learner.state() == explained.model.learner
    new = memory(1, EXPLAIN_MODEL__INITIAL=str(file))
    new.feed(mixed_records(1, 100, seed=1))
    new.run_to_end()
    first = new.explanations()[0]
    assert first["carried"]["carried"] == ["labels", "model"]
    assert "after 300 records, up to offset 300" in first["notices"][0]
    other = memory(
        1, EXPLAIN_MODEL__INITIAL=str(file), EXPLAIN_MODEL__FACTORY="river.tree:HoeffdingTreeClassifier"
    )
    other.feed(mixed_records(1, 10))
    assert "holds another model" in other.fails()
    line.environment |= {"EXPLAIN_EXPLAIN__EVERY": "2"}
    line.feed(mixed_records(1, 5, seed=1))
    line.run_to_end()
    other_file = str(tmp_path / "later")  # a process reads a file once
    line.cli("model", "export", "--partition", "0", other_file)
    later = memory(1, EXPLAIN_MODEL__INITIAL=other_file)
    later.feed(mixed_records(1, 100, seed=1))
    later.run_to_end()
    learnt = "after 5 records of epoch 1 and what that took over from the one before, up to offset 305"
    assert learnt in later.explanations()[0]["notices"][0]


def test_a_model_that_river_runs_is_exported_as_the_object_that_it_is(
    memory: Factory, tmp_path: Path
) -> None:
    file, river = str(tmp_path / "model"), tmp_path / "model.pickle"
    line = memory(
        1,
        EXPLAIN_MODEL__FACTORY="river.tree:HoeffdingTreeClassifier",
        EXPLAIN_MODEL__LEARNER="river",
        EXPLAIN_CHECKPOINT__HMAC_KEY_FILE=str(KEY_FILE),
    )
    given = list(mixed_records(1, 300))
    line.feed(given)
    line.run_to_end()
    said = line.cli("model", "export", "--partition", "0", "--river", str(river), file).stdout
    assert "HoeffdingTreeClassifier; its classes are places in [" in said
    model = pickle.loads(river.read_bytes())
    assert type(model) is tree.HoeffdingTreeClassifier and model.n_nodes
    assert model.predict_proba_one({})
    none = line.cli(
        "model", "export", "--partition", "4", nowhere := str(tmp_path / "no" / "where"), status=1
    )
    assert "has no state of it; run the sidecar first, or name one of the partitions 0 to 0" in none.stderr
    assert "cannot be written" in line.cli("model", "export", "--partition", "0", nowhere, status=1).stderr


def test_a_new_sidecar_learns_from_another_topic_first(memory: Factory, tmp_path: Path) -> None:
    """The records of all its partitions, in the order of their timestamps."""
    linear = {"EXPLAIN_MODEL__NAME": "linear"}  # it draws nothing that an app_id would change
    old, new, alone = memory(2), memory(1, **linear), memory(1, **linear)
    files = [str(tmp_path / name) for name in ("model", "again", "alone")]
    old.feed(mixed_records(2, 300))
    topic = old.topics["records"]
    for file in files[:2]:
        said = new.cli("warm-up", "--topic", topic, "--out", file).stdout
    assert "learnt from 300 records, 0 could not be used" in said
    assert Path(files[0]).read_bytes() == Path(files[1]).read_bytes()
    # The records of both have the same timestamps, by turns.
    alone.feed((0, record.value) for pair in zip(*old.inputs.values(), strict=True) for record in pair)
    alone.run_to_end()
    alone.cli("model", "export", "--partition", "0", files[2])
    models = [
        load_parts(read_file(Path(file), Keys())[0][0]).explained.model for file in (files[0], files[2])
    ]  # type: ignore[union-attr]
    assert models[0] == models[1]
    new.environment["EXPLAIN_MODEL__INITIAL"] = files[0]
    new.feed(mixed_records(1, 20, seed=1))
    new.run_to_end()
    first = new.explanations()[0]
    assert (
        first["carried"]["carried"] == ["labels", "model"]
        and f"{topic}, after 300 records (fold" in first["notices"][0]
    )
    assert "is not on" in new.cli("warm-up", "--topic", "nowhere", "--out", files[1], status=1).stderr
