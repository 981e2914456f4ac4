"""Every change of settings keeps what it does not touch: the published bytes are those of an oracle that applies it at the same offset."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from pydantic import BaseModel

from benchmarks.oracle import chain, compare
from explain_core.foreign import dumps
from explain_sidecar.fold.identity import part_of
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings
from explain_sidecar.settings.explain import ExplainerSettings
from explain_sidecar.wire.envelope import Envelope
from tests.changes import Epochs, merged
from tests.documentation import ROOT
from tests.driver.driver import TINY, Driver, values
from tests.driver.log import Cluster

(IPFI,) = TINY["explainers"]
LOGISTIC = {"model": {"factory": "river.linear_model:LogisticRegression"}}
FOREST = {"model": {"factory": "river.forest:ARFClassifier", "params": {"n_models": 2, "grace_period": 20}}}
DRIFT = {"drift": {"enabled": True, "window": 10, "bootstrap": 2}}
ALARMS = {"alarms": {"enabled": True, "one_in": 1_000, "warm_up": 50, "baseline": 50}}
TREE = {"challenger": {"factory": "river.tree:HoeffdingTreeClassifier", "every": 1}}
FEATURES = {"record": {"features": ["a", "b"]}}
LOSSES = {"explainers": [{**IPFI, "losses": ["cross_entropy", "brier"]}]}
PREDICTED = {"record": {"unlabelled": "predict"}}
ESTIMATED = merged(PREDICTED, {"explain": {"estimated_loss": True}})
EXPLAINER = {"explainer ipfi"}
SMOOTHED = {"performance", "periods"}


def explainers(**changes: Any) -> dict[str, Any]:
    return {"explainers": [merged(IPFI, changes)]}


KEPT: dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]] = {
    "emit.every": ({}, {"emit": {"every": 2}}, set()),
    "emit.max_bytes": ({}, {"emit": {"max_bytes": 500_000}}, set()),
    "emit.periods": ({}, {"emit": {"periods": [100]}}, {"periods"}),
    "record.on_bad": ({}, {"record": {"on_bad": "skip"}}, set()),
    "record.masked": ({}, {"record": {"masked": ["ssn"]}}, set()),
    "record.max_bytes": ({}, {"record": {"max_bytes": 999_999}}, set()),
    "record.max_features": ({}, {"record": {"max_features": 10}}, set()),
    "record.max_string": ({}, {"record": {"max_string": 100}}, set()),
    "record.missing": ({}, {"record": {"missing": ["?"]}}, set()),
    "record.deletes": ({}, {"record": {"deletes": "dead_letter"}}, set()),
    "record.id": ({}, {"record": {"id": "name"}}, set()),
    "record.weight": (LOGISTIC, {"record": {"weight": "b"}}, set()),
    "record.timestamp": (DRIFT, {"record": {"timestamp": "time"}}, {"periods", "drift"}),
    "record.where": ({}, {"record": {"where": {"a": [0, 1]}}}, {"reservoir geometric 5", *EXPLAINER, *SMOOTHED}),
    "record.prediction": ({}, {"record": {"prediction": "served"}}, {"served"}),
    "record.prediction_tolerance": (
        {"record": {"prediction": "served"}}, {"record": {"prediction_tolerance": 0.1}}, {"served"},
    ),
    "a feature more": (FEATURES, {"record": {"features": ["a", "b", "c"]}}, set()),
    "a feature less": (FEATURES, {"record": {"features": ["b"]}}, set()),
    "features in another order, while there is drift": (
        merged(FEATURES, DRIFT), {"record": {"features": ["b", "a"]}}, {"drift"},
    ),
    "a renamed feature": ({}, {"record": {"renamed": {"b": "c"}}}, set()),
    "confidence": ({}, explainers(confidence=0.99), set()),
    "band": ({}, explainers(band="chebyshev"), set()),
    "alpha": ({}, explainers(alpha=0.01), EXPLAINER | SMOOTHED),
    "n_samples": ({}, explainers(n_samples=2), EXPLAINER),
    "a loss more": ({}, LOSSES, EXPLAINER | SMOOTHED),
    "a loss less": (LOSSES, explainers(losses=["brier"]), set()),
    "a group": ({}, explainers(groups={"g": ["a", "b"]}), EXPLAINER),
    "another size of the reservoir": ({}, explainers(reservoir={"size": 7}), EXPLAINER | {"reservoir geometric 7"}),
    "an explainer more": ({}, {"explainers": [IPFI, {**IPFI, "kind": "isage"}]}, {"explainer isage"}),
    "an explainer less": ({"explainers": [IPFI, {**IPFI, "kind": "isage"}]}, explainers(), set()),
    "segments": ({}, explainers(by="a"), {"segments ipfi"}),
    "another kind of reservoir": (
        {}, explainers(reservoir={"kind": "uniform"}), EXPLAINER | {"reservoir uniform 5"},
    ),
    "removal": (
        explainers(kind="isage"), explainers(kind="isage", removal="conditional"), {"explainer isage"},
    ),
    "window": ({}, explainers(window=50), EXPLAINER | SMOOTHED),
    "another name of an explainer": ({}, explainers(name="mine"), {"explainer mine"}),
    "segments of a feature": (explainers(by="a"), explainers(by="a", segments=2), {"segments ipfi"}),
    "explain.every": ({}, {"explain": {"every": 2}}, EXPLAINER),
    "explain.evaluator": ({}, {"explain": {"evaluator": "generic"}}, set()),
    "explain.warm_up": ({}, {"explain": {"warm_up": 2}}, set()),
    "estimated losses on": (PREDICTED, ESTIMATED, {"estimated"}),
    "`alpha`, while losses are estimated": (ESTIMATED, explainers(alpha=0.01), EXPLAINER | SMOOTHED | {"estimated"}),
    "a feature, while losses are estimated": (
        merged(ESTIMATED, {"record": {"features": ["a"]}}), FEATURES, {"estimated"},
    ),
    "drift on": ({}, DRIFT, {"drift"}),
    "drift.window": (DRIFT, {"drift": {"window": 12}}, {"drift"}),
    "drift.bootstrap": (DRIFT, {"drift": {"bootstrap": 3}}, {"drift"}),
    "drift.ignore": (DRIFT, {"drift": {"ignore": ["b"]}}, {"drift"}),
    "drift.on_alarm": (merged(DRIFT, ALARMS), {"drift": {"on_alarm": True}}, {"drift"}),
    "drift off": (DRIFT, {"drift": {"enabled": False}}, set()),
    "something else, while there is drift": (DRIFT, {"emit": {"every": 2}}, set()),
    "rows on": ({}, {"rows": {"enabled": True}}, set()),
    "predictions on": ({}, {"predictions": {"enabled": True}}, set()),
    "partial_dependence.points": (
        {"partial_dependence": {"features": ["a"]}}, {"partial_dependence": {"points": 5}}, {"partial dependence"},
    ),
    "alarms on": ({}, ALARMS, {"alarms performance", "alarms importance/ipfi/cross_entropy"}),
    "alarms.one_in": (ALARMS, {"alarms": {"one_in": 2_000}}, {"alarms performance", "alarms importance/ipfi/cross_entropy"}),
    "alarms.min_change": (ALARMS, {"alarms": {"min_change": 0.1}}, {"alarms performance", "alarms importance/ipfi/cross_entropy"}),
    "alarms.season": (ALARMS, {"alarms": {"season": "day"}}, {"alarms performance", "alarms importance/ipfi/cross_entropy"}),
    "a subject of alarms more": (
        ALARMS, {"alarms": {"subjects": ["loss", "gain", "importance", "rejected"]}}, {"alarms rejected"},
    ),
    "alarms about estimated losses": (
        merged(ESTIMATED, ALARMS),
        {"alarms": {"subjects": ["loss", "gain", "importance", "estimated_loss"]}},
        {"alarms estimated"},
    ),
    "an explainer more, while there are alarms": (
        ALARMS,
        {"explainers": [IPFI, {**IPFI, "kind": "isage"}]},
        {"explainer isage", "alarms importance/isage/cross_entropy", "alarms performance"},
    ),
    "a challenger": (LOGISTIC, TREE, {"challenger", "comparison"}),
    "another challenger": (
        merged(LOGISTIC, TREE), {"challenger": {"factory": "river.tree:ExtremelyFastDecisionTreeClassifier"}}, {"challenger", "comparison"},
    ),
    "challenger.every": (merged(LOGISTIC, TREE), {"challenger": {"every": 2}}, {"comparison"}),
    "challenger.confidence": (merged(LOGISTIC, TREE), {"challenger": {"confidence": 0.9}}, {"comparison"}),
    "challenger.shift_every": (merged(LOGISTIC, TREE), {"challenger": {"shift_every": 3}}, {"shift"}),
    "the comparison, while features are compared": (
        merged(merged(LOGISTIC, TREE), {"challenger": {"shift_every": 3}}), {"challenger": {"every": 2}}, {"comparison", "shift"},
    ),
    "something else, while there is a challenger": (merged(LOGISTIC, TREE), {"emit": {"every": 2}}, set()),
    "the learning rate": (LOGISTIC, {"model": {"params": {"intercept_lr": 0.1}}}, set()),
    "the learning rate in a function of one's own": (
        {"model": {"factory": "tests.driver.model:line"}}, {"model": {"params": {"rate": 0.1}}}, set(),
    ),
    "the grace period, while there is drift": (
        merged({"model": {"factory": "river.tree:HoeffdingTreeClassifier", "params": {"grace_period": 20}}}, DRIFT),
        {"model": {"params": {"grace_period": 10, "delta": 0.1}}},
        {"drift"},
    ),
    "the delta of a forest": (
        FOREST,
        {"model": {"params": {"delta": 0.1, "lambda_value": 5}}},
        set(),
    ),
    "more trees in a forest": (FOREST, {"model": {"params": {"n_models": 4}}}, set()),
}  # fmt: skip
"""By change: the settings before, what changes in them, and what begins anew. The model goes on in each of them."""

OTHER_MODEL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "seed": ({}, {"seed": 1}),
    "record.label": ({}, {"record": {"label": "a"}, "model": {"task": "multiclass"}}),
    "model.factory": ({}, LOGISTIC),
    "model.learner": (LOGISTIC, {"model": {"learner": "river"}}),
    "model.params": (LOGISTIC, {"model": {"params": {"intercept_init": 1.0}}}),
    "fewer trees in a forest": (FOREST, {"model": {"params": {"n_models": 1}}}),
}  # fmt: skip
"""The model begins anew, so that nothing happens unless somebody accepts that."""


ELSEWHERE: list[tuple[str, str, str, str]] = [
    ("`kafka`, `commit`, `checkpoint` and all that the fold does not read", "kept", "nothing", "tests/driver/test_changes.py::test_settings_that_no_state_depends_on_begin_no_epoch"),
    ("a section that is off", "kept", "nothing", "tests/service/test_identity.py::test_a_section_that_is_off_changes_nothing"),
    ("the number of workers, a crash, a rebalance", "kept", "nothing", "tests/driver/test_schedules.py::test_whatever_happens_the_same_bytes_are_published"),
    ("a later version of the sidecar", "kept", "nothing", "tests/golden/test_golden.py::test_a_snapshot_of_a_release_is_restored_and_goes_on_with_the_same_bytes"),
    ("a later version with another shape of a part", "kept, migrated", "nothing", "tests/service/test_snapshot.py::test_a_part_of_an_earlier_version_is_migrated_and_goes_on_alike"),
    ("a later version with one setting more", "kept", "nothing", "tests/service/test_identity.py::test_defaults_never_enter_an_identity"),
    ("an earlier version of the sidecar", "kept for instances of the later one", "nothing", "tests/driver/test_rolling.py::test_an_earlier_version_leaves_what_the_later_one_has_stored_and_the_later_one_goes_on"),
    ("an instance with the settings of before", "kept for instances with the new ones", "nothing", "tests/driver/test_changes.py::test_an_instance_with_the_settings_of_before_leaves_the_partition_to_others"),
    ("other software or another CPU, by which a replay differs", "kept, as `recovery.on_divergence` says", "nothing", "tests/driver/test_past.py::test_a_replay_that_diverges_is_refused_and_names_both_sides_and_is_accepted_by_name_alone"),
    ("more partitions", "kept; a new partition begins with that of the one that had its keys", "of new partitions all but labels and model", "tests/driver/test_growing.py::test_a_new_partition_begins_with_the_model_of_the_one_that_had_its_keys"),
    ("more partitions, `model.on_new_partition: fresh`", "kept; new partitions begin anew", "nothing", "tests/driver/test_growing.py::test_it_begins_anew_where_that_is_wished_or_where_no_partition_is_older"),
    ("another cluster, with other offsets", "kept by `state export` and `state import`", "nothing", "tests/broker/test_state.py::test_a_sidecar_moves_to_another_cluster_whose_offsets_are_others"),
    ("a new sidecar, another `app_id`", "kept by `model export` and `model.initial`", "all but labels and model", "tests/broker/test_state.py::test_a_new_sidecar_begins_with_the_model_of_another"),
    ("a new sidecar whose records were learnt before, from a file or a topic", "kept by `warm-up` and `model.initial`", "all but labels and model", "tests/driver/test_initial.py::test_a_partition_that_begins_with_a_file_is_exact_after_crashes_and_without_it"),
    ("the records topic deleted and created again", "kept by `reset --keep all`", "nothing", "tests/broker/test_state.py::test_a_topic_created_again_costs_its_records_and_not_the_model"),
    ("retention shorter than a downtime", "kept by `reset --keep all`", "nothing", "tests/broker/test_state.py::test_retention_shorter_than_a_downtime_costs_the_records_and_not_the_model"),
    ("the newest snapshot damaged or lost", "kept: the one before it and the records since, which the digests prove", "nothing", "tests/driver/test_past.py::test_a_damaged_snapshot_costs_a_longer_replay_and_no_byte"),
    ("the same, and records since the one before it are gone", "kept by `reset --keep all`, from the newest that is whole", "nothing", "tests/broker/test_past.py::test_a_damaged_snapshot_whose_records_are_gone_costs_one_command"),
    ("the checkpoints topic emptied, of a partition in its first epoch whose log is whole", "kept: the log is replayed, and the digests prove it", "nothing", "tests/driver/test_past.py::test_emptied_checkpoints_are_made_again_from_a_log_that_is_whole"),
    ("the checkpoints topic emptied otherwise", "kept by `state import` of an earlier `state export`; else lost, and `reset --from earliest` learns again from what the log has", "nothing; else everything", "tests/broker/test_past.py::test_a_checkpoint_topic_that_was_emptied_is_made_again_from_a_file"),
    ("the group's offsets expired", "kept", "nothing", "tests/driver/test_past.py::test_an_expired_group_goes_on_after_the_last_message"),
    ("the group's offsets of an older backup", "kept", "nothing", "tests/driver/test_past.py::test_an_offset_of_the_past_doubles_nothing"),
]  # fmt: skip
"""Changes of software and topology: what becomes of the model, what begins anew, and the test that shows it."""

PAGE = ROOT / "docs" / "how-to" / "changes.md"


def table() -> list[str]:
    """The rows of the page: what each change keeps."""

    def shown(name: str) -> str:
        return f"`{name}`" if "." in name or name in ("alpha", "window", "confidence", "band", "removal", "n_samples", "seed") else name  # fmt: skip

    def parts(begun: set[str]) -> str:
        named = {re.sub(r"^(explainer|segments|reservoir) .*", r"\1", re.sub("^(alarms) .*", r"\1", part)) for part in begun}  # fmt: skip
        return ", ".join(sorted(named)) or "nothing"

    rows = [f"| {shown(name)} | kept | {parts(begun)} |" for name, (_, _, begun) in KEPT.items()]
    rows += [f"| {shown(name)} | another, after `run --new-model` | all that depends on the model |" for name in OTHER_MODEL]  # fmt: skip
    return rows + [f"| {name} | {model} | {begun} |" for name, model, begun, _ in ELSEWHERE]


def test_the_page_has_a_row_for_each_change_that_is_tested() -> None:
    page = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert page[2:] == table(), "\n".join(["docs/how-to/changes.md is to have these rows:", *table()])


@pytest.mark.parametrize("place", [place for *_, place in ELSEWHERE])
def test_what_is_shown_elsewhere_is_tested_there(place: str) -> None:
    file, _, name = place.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


def test_each_setting_of_the_fold_is_in_a_row_or_shares_its_part_with_one_that_is() -> None:
    declared = dict(settings_with_parts(Settings))
    named = {path for _, what, *_ in [*KEPT.values(), *((b, w) for b, w in OTHER_MODEL.values())] for path in paths(what)}  # fmt: skip
    assert {"emit.every", "explainers.alpha", "drift.window"} <= named
    covered = {declared[name] for name in named if name in declared}
    # These have tests of their own: tests/service/test_versions.py, tests/service/test_predictions.py.
    assert set(declared.values()) - covered == {"versions", "waiting"}


def test_settings_of_the_operation_belong_to_no_state() -> None:
    operation = ("kafka.", "commit.", "checkpoint.", "http.", "log.", "join.", "registry.", "tracing.")
    assert not [name for name, _ in settings_with_parts(Settings) if name.startswith(operation)]


def settings_with_parts(section: type[BaseModel], path: str = "") -> Iterator[tuple[str, str]]:
    for name, field in section.model_fields.items():
        kind, part = field.annotation, part_of(section, field).name
        if name == "explainers":
            yield from settings_with_parts(ExplainerSettings, "explainers.")
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from settings_with_parts(kind, f"{path}{name}.")
        elif part is not None:
            yield path + name, part


def paths(what: Any, path: str = "") -> Iterator[str]:
    """The dotted names of the settings in a change."""
    if isinstance(what, dict) and (path == "" or not path.endswith("params")):
        for name, value in what.items():
            yield from paths(value, f"{path}.{name}" if path else name)
    elif path == "explainers":
        for explainer in what:
            yield from paths(explainer, path)
    yield path


def records(count: int, seed: int) -> list[bytes]:
    """``values`` with a field for everything that is named above."""
    made = []
    for i, value in enumerate(values(count, seed)):
        try:
            x = json.loads(value)
        except ValueError:
            x = {}
        if "label" in x:
            x |= {"b": 1.5 + x["b"], "c": i / 30, "time": 1_700_000_000_000 + i, "served": 0.25, "name": i}
            value = json.dumps(x).encode()
        made.append(value)
    return made


def settings_of(changes: dict[str, Any]) -> Settings:
    return Settings(**merged(TINY, changes))


def differences(
    driver: Driver,
    before: Settings,
    changes: list[tuple[int, Settings]],
    partition: int = 0,
    oracle: Any = None,
) -> list[str]:
    """Each byte in which what was published differs from the oracle."""
    cluster: Cluster = driver.cluster
    after = changes[-1][1] if changes else before
    envelope = Envelope(after, cluster.topics[after.topics.records].id)
    offset, metadata = driver.positions()[partition]
    published = driver.published(partition)
    oracle = oracle or Epochs(before, partition, changes)
    found = chain(after, partition, published["explanations"])
    place = TopicPartition(after.topics.records, partition, offset, metadata=metadata)
    oracle_outputs = {name: published.get(name, []) for name in {*published, *before.outputs}}
    return found + compare(oracle, envelope, driver.inputs(partition)[:offset], place, oracle_outputs)


COUNT = 60
"""Records before a change, and after it."""


def changed(before: Settings, after: Settings, *, crash: bool = False) -> tuple[Driver, int]:
    """A partition whose settings change, after a clean stop or in the middle; and the offset at which they do."""
    more = {
        name: {"enabled": True}
        for name in ("alarms", "rows", "predictions")
        if getattr(after, name).enabled and not getattr(before, name).enabled
    }
    driver = Driver(Settings(**merged(before.model_dump(exclude_unset=True), more)), partitions=1)
    driver.feed(0, records(COUNT, 1))
    if crash:
        driver.lose_after(50, before)
    else:
        assert driver.run_to_end(before) == []
    offset = driver.committed()[0]
    driver.feed(0, records(COUNT, 2))
    assert driver.run_to_end(after) == []
    return driver, offset


def first_messages(driver: Driver) -> dict[int, dict[str, Any]]:
    """The first explanation of each epoch."""
    found: dict[int, dict[str, Any]] = {}
    for _, value, _ in driver.published(0)["explanations"]:
        message = json.loads(value or b"")
        found.setdefault(message["epoch"], message)
    return found


@pytest.mark.parametrize("change", KEPT)
def test_a_change_keeps_the_model_and_all_that_it_does_not_touch(change):
    base, what, begun = KEPT[change]
    before, after = settings_of(base), settings_of(merged(merged({}, base), what))
    driver, offset = changed(before, after)
    first = first_messages(driver)[1]["carried"]
    assert "model" in first["carried"]
    assert (first["from_epoch"], first["offset"], set(first["begun"])) == (0, offset, begun)
    assert differences(driver, before, [(offset, after)]) == []


@pytest.mark.parametrize("change", ["emit.every", "alpha", "drift on", "a feature more", "a challenger"])
def test_after_a_crash_the_replay_is_under_the_settings_of_before(change):
    base, what, _ = KEPT[change]
    before, after = settings_of(base), settings_of(merged(merged({}, base), what))
    driver, offset = changed(before, after, crash=True)
    assert offset < COUNT
    assert differences(driver, before, [(offset, after)]) == []


@pytest.mark.parametrize("crash", [False, True], ids=["after a clean stop", "after a crash"])
def test_an_output_that_is_off_for_an_epoch_doubles_and_misses_nothing(crash):
    """It is switched off where a replay gives its messages once more, and on again where its topic has those of before."""
    off = settings_of({"checkpoint": {"max_replay_seconds": 100, "max_age": 1000}})
    on = merged(off.model_dump(exclude_unset=True), {"predictions": {"enabled": True}})
    before, again = Settings(**on), Settings(**merged(on, {"emit": {"every": 2}}))
    driver, offset = changed(before, off, crash=crash)
    driver.feed(0, records(COUNT, 3))
    assert driver.run_to_end(again) == []
    told = [json.loads(value or b"")["epoch"] for _, value, _ in driver.published(0)["predictions"]]
    assert set(told) == {0, 2}
    assert differences(driver, before, [(offset, off), (2 * COUNT, again)]) == []


def test_what_is_carried_over_is_stored_and_restored_exactly():
    """A worker ends in the middle of each epoch, with something to replay."""
    before, after = settings_of(DRIFT), settings_of(merged(DRIFT, {"emit": {"every": 2}}))
    driver, offset = changed(before, after)
    driver.feed(0, records(40, 3))
    driver.lose_after(2 * COUNT + 10, after)
    assert driver.run_to_end(after) == []
    assert differences(driver, before, [(offset, after)]) == []
    assert [message["carried"] is None for message in first_messages(driver).values()] == [True, False]


@pytest.mark.parametrize("on_alarm", [False, True])
def test_windows_that_begin_anew_are_judged_by_the_model_that_goes_on(on_alarm):
    """And not by one that has learnt nothing, as the first window of a new model is."""
    drift = merged(merged(DRIFT, ALARMS), {"drift": {"on_alarm": on_alarm}})
    state = Epochs(settings_of(LOGISTIC), 0, [(100, settings_of(merged(LOGISTIC, drift)))])
    given = list(map(plain_record, range(101)))
    for record in given[:100]:
        state.supplied(record, lambda key: None, lambda name, unfit: None)
    model = state.state(dumps).explained.model
    state.supplied(given[100], lambda key: None, lambda name, unfit: None)
    after = state.state(dumps)
    assert (after.recent.chunks[0] if on_alarm else after.windows.current).model == model


def plain_record(i: int) -> InputRecord:
    value = json.dumps({"a": i % 7, "b": i % 3, "label": int(i % 7 > 3)}).encode()
    return InputRecord(i, 1_700_000_000_000 + i, None, value)


@pytest.mark.parametrize("change", OTHER_MODEL)
def test_a_model_is_not_lost_unless_somebody_accepts_it(change):
    base, what = OTHER_MODEL[change]
    what = merged(base, what)
    before, after = settings_of(base), settings_of(what)
    driver = Driver(before, partitions=1)
    driver.feed(0, records(60, 1))
    assert driver.run_to_end(before) == []
    published = driver.published(0)
    (reason,) = driver.run_to_end(after)
    assert "The model would begin anew" in reason and "run --new-model" in reason
    assert driver.published(0) == published
    accepted = settings_of(merged(what, {"checkpoint": {"on_mismatch": "new_model"}}))
    driver.feed(0, records(60, 2))
    assert driver.run_to_end(accepted) == []
    assert "model" in first_messages(driver)[1]["carried"]["begun"]
    assert differences(driver, before, [(60, accepted)]) == []


def test_an_instance_with_the_settings_of_before_leaves_the_partition_to_others():
    """As in a rolling change of settings: it would begin an epoch of its own, and lose what began anew."""
    before, after = settings_of({}), settings_of(explainers(alpha=0.01))
    driver, _ = changed(before, after)
    published = driver.published(0)
    driver.feed(0, records(20, 3))
    (reason,) = driver.run_to_end(before)
    assert "leaves the partition to instances that have the new ones" in reason
    assert driver.published(0) == published
    assert driver.run_to_end(after) == []


def test_an_offset_of_the_epoch_before_is_refused_once_the_next_has_published():
    """There is no snapshot of the new epoch but its first, which stands at that offset: the messages tell."""
    rare = {"checkpoint": {**TINY["checkpoint"], "max_replay_seconds": 1e6, "max_age": 1e6}}
    before, after = settings_of(rare), settings_of(merged(merged({}, rare), {"emit": {"every": 2}}))
    driver = Driver(before, partitions=1)
    driver.feed(0, records(COUNT, 1))
    assert driver.run_to_end(before) == []
    (committed,) = driver.positions().values()
    driver.feed(0, records(COUNT, 2))
    driver.lose_after(driver.ends()[0], after)
    driver.cluster.groups["app"].committed["records", 0] = committed
    published = driver.published(0)
    (reason,) = driver.run_to_end(after)
    assert f"the committed offset {committed[0]} of epoch 0 is behind the explanation of offset" in reason
    assert "of epoch 1: the group's offsets were moved back, or lost" in reason
    assert driver.published(0) == published


def test_nothing_begins_where_a_difference_is_to_stop_the_sidecar():
    before = settings_of({})
    driver = Driver(before, partitions=1)
    driver.feed(0, records(60, 1))
    assert driver.run_to_end(before) == []
    (reason,) = driver.run_to_end(settings_of({"emit": {"every": 2}, "checkpoint": {"on_mismatch": "fail"}}))
    assert "emit.every: was 3, is 2" in reason and "carried over: " in reason


def test_settings_that_no_state_depends_on_begin_no_epoch():
    driver, _ = changed(settings_of({}), settings_of({"commit": {"interval_ms": 40}}))
    assert set(first_messages(driver)) == {0}


def test_everything_begins_anew_where_that_is_wished():
    driver, offset = changed(
        settings_of({}), settings_of({"seed": 7, "checkpoint": {"on_mismatch": "reset"}})
    )
    first = first_messages(driver)[1]
    assert (first["seq"], first["records"], first["carried"]) == (0, 3, None)
    assert first["notices"] == [f"settings changed: epoch 1 begins at offset {offset}"]
    last = json.loads(driver.published(0)["explanations"][-1][1] or b"")
    assert last["notices"] == []
