"""explain_client without a broker: decoding, the chain, merging, tables, positions."""

import math
import re
import sqlite3
from dataclasses import MISSING, FrozenInstanceError, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from explain_client import (
    Alarm,
    ChainError,
    ClientError,
    Drift,
    EarlierPrediction,
    EstimatedLoss,
    Explanation,
    Explanations,
    Importance,
    ModelVersion,
    PartialDependence,
    PartitionPosition,
    Period,
    Position,
    Prediction,
    SchemaError,
    Segment,
    Stories,
    merge,
    merge_periods,
    to_pandas,
)
from explain_client.chain import Link, next_link
from explain_client.fields import utc
from explain_client.fold import FoldDriver
from explain_client.messages import Row
from explain_sidecar.fold.partition import PartitionState
from tests.folds import fold, settings, values
from tests.told import alarm_of, drift_of


def explained(n=100, partition=0, epoch=0):
    """The explanations of n records, one for each ten."""
    outputs = fold(PartitionState(settings(), partition, epoch=epoch), values(n, seed=partition + 1))
    return [Explanation.from_json(output.value) for output in outputs if output.destination == "explanations"]


# --- decoding ----------------------------------------------------------------------------------------------------


def test_an_explanation_has_what_the_message_says():
    for explanation in explained():
        data = orjson.loads(explanation.raw)
        assert (explanation.seq, explanation.records, explanation.digest, explanation.notices) == (
            data["seq"],
            data["records"],
            data["digest"],
            (),
        )
        for estimator in ("ipfi", "isage"):
            cells = data["importance"][estimator]["cross_entropy"]
            assert explanation.importance(estimator, "cross_entropy") == {
                feature: Importance(**cell) for feature, cell in cells.items()
            }
        assert explanation.performance["cross_entropy"].model == data["performance"]["cross_entropy"]["model"]
        assert explanation.time.timestamp() * 1000 == data["timestamp"]


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (1_700_000_000_000_000_000, datetime.max),  # in nanoseconds
        (2**63 - 1, datetime.max),
        (-(2**63), datetime.min),
        (253_402_300_799_999, datetime(9999, 12, 31, 23, 59, 59, 999_000)),
        (1_387_576_800_123, datetime(2013, 12, 20, 22, 0, 0, 123_000)),
    ],
)
def test_any_timestamp_has_a_time(timestamp, expected):
    explanation = replace(explained()[-1], timestamp=timestamp)
    assert explanation.time == expected.replace(tzinfo=UTC)
    assert len(to_pandas([explanation, explained()[-1]])) > 0


def test_a_message_that_no_sidecar_wrote_breaks_the_chain_in_words():
    first, second = explained()[:2]
    foreign = orjson.dumps(dict(reversed(orjson.loads(second.raw).items())), option=orjson.OPT_INDENT_2)
    with pytest.raises(ChainError, match="its digest does not follow"):
        next_link(next_link(None, first), Explanation.from_json(foreign))


def test_the_top_features_are_the_largest_and_unknown_ones_come_last():
    explanation = explained(200)[-1]
    known = {
        "a": Importance(0.1, *3 * [0.0], True),
        "b": Importance(None, None, None, None, False),
        "c": Importance(-0.2, *3 * [0.0], True),
    }
    assert [
        name for name, _ in replace(explanation, importances={"e": {"l": known}}).importance().top(9)
    ] == [
        "a",
        "c",
        "b",
    ]
    top = explanation.importance("ipfi").top(2)
    assert [cell.value for _, cell in top] == sorted(
        (c.value for c in explanation.importance().values()), reverse=True
    )[:2]


def test_an_explanation_is_frozen_and_says_what_it_has():
    explanation = explained(20)[-1]
    with pytest.raises(FrozenInstanceError):
        explanation.seq = 3
    with pytest.raises(KeyError, match="estimator 'shap' is not in this explanation, which has ipfi, isage"):
        explanation.importance("shap")
    with pytest.raises(KeyError, match="loss 'brier'"):
        explanation.importance("ipfi", "brier")


def test_a_field_that_is_not_known_yet_is_ignored():
    explanation = explained(20)[0]
    data = orjson.loads(explanation.raw) | {"new": {"x": 1}}
    assert Explanation.from_json(orjson.dumps(data)) == explanation


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"", "not an explanation"),
        (None, "not an explanation: None; is this the explanations topic"),  # a tombstone
        (b"[1]", "not an explanation"),
        (b"\xff{", "not an explanation"),
        (b'{"a": 1}', "is this the explanations topic"),
        (
            b'{"schema": "explanation/2"}',
            "schema 'explanation/2', and this explain-client reads 'explanation/1'",
        ),
        (b'{"schema": "explanation/1", "performance": {}}', "KeyError: 'app_id'"),
        (b'{"schema": "explanation/1", "performance": []}', "not an explanation"),
    ],
)
def test_what_cannot_be_read_is_named(value, problem):
    with pytest.raises(SchemaError, match=problem):
        Explanation.from_json(value)


def example(kind):
    """A message with the examples of all its fields."""
    known = [field for field in fields(kind) if "examples" in field.metadata]
    return {field.metadata.get("alias", field.name): field.metadata["examples"][0] for field in known}


def leaves(said, path=()):
    """The paths to what is no object or list."""
    inner = said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, list) else ()
    return [leaf for key, value in inner for leaf in leaves(value, (*path, key))] if inner else [path]


def changed(said, path, value):
    copied = orjson.loads(orjson.dumps(said))
    holder = copied
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return copied


MESSAGES = pytest.mark.parametrize("kind", [Alarm, Drift, Explanation, Row])


@MESSAGES
def test_a_value_of_another_type_is_refused_with_the_name_of_its_field(kind):
    said = example(kind)
    kind.from_json(orjson.dumps(said))
    paths = [path for path in leaves(said) if path[:1] not in (("schema",), ("estimators",), ("change",))]
    assert len(paths) > 20
    for path in paths:
        (name, *_) = [key for key in reversed(path) if isinstance(key, str)]
        with pytest.raises(SchemaError, match=f"{name} is "):
            kind.from_json(orjson.dumps(changed(said, path, [[True]])))


def whole(kind):
    """``example`` with all that is empty in it."""
    if kind is Drift:
        found = drift_of(0, differences=[{}], where={"feature": "plan", "value": "pro"})
        return orjson.loads(found.raw) | {"separation": {"features": ["a"], "attributable": True}}
    said = example(kind)
    if kind is Prediction:
        said["earlier"] = example(EarlierPrediction)
    if kind is Explanation:
        several = {"periods": Period, "partial_dependence": PartialDependence}
        said |= {name: [example(of)] for name, of in several.items()}
        said |= {"segments": {"isage": example(Segment)}, "version": example(ModelVersion)}
        said["estimated_loss"] = {"cross_entropy": example(EstimatedLoss)}
    return said


def within(said):
    """All that is within a message: lists and objects, and what is none."""
    inner = said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, list) else ()
    for key, value in inner:
        yield (key,)
        yield from ((key, *path) for path in within(value))


def used(message):
    """Whatever a reader may ask of a message."""
    if not is_dataclass(message):
        parts = message.values() if isinstance(message, dict) else message if type(message) is tuple else ()
        for part in parts:
            used(part)
        return
    for name in ("sentence", "driven", "importance", "importance_difference", "loss_difference"):
        ask = getattr(message, name, None)
        if callable(ask):
            ask(*["brier"] * isinstance(message, EstimatedLoss))
    for name in dir(type(message)):
        if not name.startswith("_") and not callable(value := getattr(message, name)):
            used(value)
    if isinstance(message, Explanation):
        merge([message])
        if message.periods:
            used(merge_periods([*message.periods] * 2))
    if isinstance(message, Explanation | Drift | Alarm):
        stories = Stories()
        for one in (alarm_of(seq=0, cause=2), message):
            stories.add(one)
        assert [story.sentence() for story in stories]


@pytest.mark.parametrize("kind", [Alarm, Drift, Explanation, Prediction, Row])
def test_a_damaged_message_is_refused_or_can_be_used(kind):
    said = whole(kind)
    used(kind.from_json(orjson.dumps(said)))
    read = 0
    for path in within(said):
        for value in (None, 0, 7.5, [], [None], {}, {"a": None}):
            try:
                message = kind.from_json(orjson.dumps(changed(said, path, value)))
            except SchemaError:
                continue
            used(message)
            read += 1
    assert read > 20


@MESSAGES
def test_what_a_message_has_to_have_is_missed_and_what_an_earlier_version_did_not_have_is_not(kind):
    said = example(kind)
    known = {field.metadata.get("alias", field.name): field for field in fields(kind)}
    for name in said.keys() - {"schema"}:
        body = orjson.dumps({key: value for key, value in said.items() if key != name})
        if known[name].metadata["absent"] is MISSING:
            with pytest.raises(SchemaError, match=f"KeyError: '{name}'"):
                kind.from_json(body)
        else:
            kind.from_json(body)


def test_a_choice_that_a_later_version_may_widen_is_read_and_no_other():
    assert Alarm.from_json(orjson.dumps(example(Alarm) | {"subject": "tides"})).subject == "tides"
    with pytest.raises(SchemaError, match="direction is 'left', and has to be up or down"):
        Alarm.from_json(orjson.dumps(example(Alarm) | {"direction": "left"}))


# --- the chain ---------------------------------------------------------------------------------------------------


def link_all(explanations, link=None):
    for explanation in explanations:
        link = next_link(link, explanation)
    return link


def test_an_unbroken_chain_is_accepted_from_its_start_from_the_middle_and_into_a_new_epoch():
    first, second = explained(), explained(50, epoch=1)
    last = link_all(first)
    assert last == Link(0, 9, first[-1].digest) == link_all(first[4:])
    assert link_all(first + second) == link_all(second) == Link(1, 4, second[-1].digest)


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (lambda e: [*e[:3], *e[4:]], "seq 4: 1 messages are missing"),
        (lambda e: [*e[:3], e[2], *e[3:]], "seq 2: came after seq 2; doubled"),
        (lambda e: [e[0], e[2], e[1]], "seq 2: 1 messages are missing"),
        (lambda e: [*e, *explained(20)], "seq 0: came after seq 9"),
        (lambda e: [*e, *explained(50, epoch=1)[1:]], "the first 1 messages of this epoch are missing"),
        (lambda e: [*explained(50, epoch=1), *e], "came after epoch 1"),
        (lambda e: [*explained(partition=1)[:5], *e[5:]], "seq 5: its digest does not follow"),
    ],
)
def test_lost_doubled_swapped_and_forked_messages_break_the_chain(broken, problem):
    with pytest.raises(ChainError, match=problem):
        link_all(broken(explained()))


@pytest.mark.parametrize("index", [0, 5])
def test_a_single_altered_byte_breaks_the_chain(index):
    given = explained()
    raw = given[index].raw.replace(b'"rejected":0', b'"rejected":1')
    with pytest.raises(ChainError, match=f"seq {index}: its digest does not follow"):
        link_all([*given[:index], Explanation.from_json(raw)])


# --- positions ---------------------------------------------------------------------------------------------------


def test_a_position_survives_json():
    position = Position({0: PartitionPosition(7), 3: PartitionPosition(12, {"app/t/3": Link(1, 4, "00ff")})})
    assert Position.from_json(position.to_json()) == position


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"a": 1}', '{"0": {"offset": 3}}'])
def test_what_is_no_position_is_refused(text):
    with pytest.raises(ClientError, match="not a position"):
        Position.from_json(text)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"start": "newest"}, "start: 'newest' is not one of 'earliest', 'latest', or a datetime"),
        ({"start": datetime(2026, 1, 1)}, "has no time zone"),
        ({"verify": True}, "verify: True is not one of 'raise', 'warn', 'off'"),
    ],
)
def test_wrong_arguments_are_named(arguments, problem):
    with pytest.raises(ValueError, match=problem):
        Explanations("127.0.0.1:9092", "t", **arguments)


def test_a_setting_that_the_client_owns_is_refused():
    with pytest.raises(ClientError, match=r"config: isolation.level cannot be set"):
        Explanations("127.0.0.1:1", "t", config={"isolation.level": "read_uncommitted"}).__enter__()
    with pytest.raises(ClientError, match=r"config: No such configuration property: \"no.such\""):
        Explanations("127.0.0.1:1", "t", config={"no.such": 1}).__enter__()


# --- merging -----------------------------------------------------------------------------------------------------


def explained_as(partition, records, value, std=0.1, *, seq=None, timestamp=0, status="ready", feature="a"):
    """An explanation for each 100 records, with one feature."""
    cell = Importance(value, std, None, None, False)
    seq = records // 100 - 1 if seq is None else seq
    return replace(
        explained(10)[0],
        partition=partition,
        records=records,
        seq=seq,
        timestamp=timestamp,
        status=status,
        importances={"ipfi": {"zero_one": {feature: cell}}},
    )


def test_the_merged_value_error_and_spread_are_those_of_the_formulas():
    # 300 of the last 400 records are of partition 0.
    history = [explained_as(0, n, 0.2 if n == 300 else 9.0, 0.03, timestamp=n) for n in (100, 200, 300)]
    merged = merge([*history, explained_as(1, 100, 0.6, 0.04, timestamp=250)])
    cell = merged.importance("ipfi", "zero_one")["a"]
    assert merged.weights == {("records", 0): 0.75, ("records", 1): 0.25}
    assert cell.value == pytest.approx(0.75 * 0.2 + 0.25 * 0.6)
    assert cell.std == pytest.approx(math.sqrt(0.75**2 * 0.03**2 + 0.25**2 * 0.04**2))
    assert cell.spread == pytest.approx(math.sqrt(0.75 * 0.1**2 + 0.25 * 0.3**2))
    assert merged.importance() == merged.importance(*next((e, next(iter(by))) for e, by in merged.importances.items()))  # fmt: skip
    with pytest.raises(KeyError, match="estimator 'ifpi' is not in this explanation, which has ipfi"):
        merged.importance("ifpi")
    assert (merged.warming, merged.label) == (0, "average over partition models")


def test_weights_are_the_shares_of_the_last_records_in_event_time():
    old = [explained_as(0, n, 0.1, timestamp=n) for n in range(100, 1_100, 100)]
    new = [explained_as(1, n, 0.5, timestamp=2_000 + n) for n in range(100, 400, 100)]
    assert merge(old + new, window=300).weights == {("records", 0): 0.0, ("records", 1): 1.0}
    assert merge(old + new, window=500).weights == pytest.approx({("records", 0): 0.4, ("records", 1): 0.6})
    assert merge(old + new).weights == pytest.approx({("records", 0): 10 / 13, ("records", 1): 3 / 13})


def test_warming_partitions_are_left_out_and_counted():
    merged = merge([explained_as(0, 100, 0.3), explained_as(1, 100, None, None, status="warming")])
    assert merged.importance("ipfi", "zero_one")["a"].value == pytest.approx(0.3)
    assert (merged.warming, merged.weights) == (1, {("records", 0): 1.0})


def test_a_feature_of_some_partitions_is_averaged_over_those():
    merged = merge(
        [
            explained_as(0, 100, 0.3),
            explained_as(1, 100, 0.5, feature="b"),
            explained_as(2, 100, 0.7, None, feature="b"),
        ]
    )
    cells = merged.importance("ipfi", "zero_one")
    assert cells["a"].value == pytest.approx(0.3)
    assert cells["b"].value == pytest.approx(0.6)
    assert cells["b"].std is None  # one of its errors is not known


def test_nothing_to_merge_is_an_error():
    with pytest.raises(ValueError, match="none to merge"):
        merge([])
    with pytest.raises(ValueError, match="window: 0"):
        merge([explained_as(0, 100, 0.3)], window=0)


# --- tables ------------------------------------------------------------------------------------------------------


def test_the_frame_has_a_row_per_estimator_loss_and_feature():
    given = explained(60)
    frame = to_pandas(given)
    assert len(frame) == sum(
        len(features) for e in given for by in e.importances.values() for features in by.values()
    )
    row = frame[(frame.seq == 5) & (frame.estimator == "isage") & (frame.feature == "a")].iloc[0]
    cell = given[5].importance("isage")["a"]
    assert (row.value, row["std"], row.steady) == (cell.value, cell.std, cell.steady)
    assert math.isnan(row.low) and cell.low is None  # of 60 records
    assert row.time.to_pydatetime() == given[5].time
    assert list(to_pandas([]).columns) == list(frame.columns)
    assert frame.value.dtype == "float64"


def with_periods(partition, n):
    losses = ["cross_entropy", "brier"]
    explainers = [{"kind": "ipfi", "losses": losses}, {"kind": "isage", "losses": losses}]
    chosen = settings(emit={"every": 100, "periods": [1000]}, explainers=explainers)
    outputs = fold(PartitionState(chosen, partition), values(n, seed=partition + 1))
    return [Explanation.from_json(output.value) for output in outputs if output.destination == "explanations"]


def test_the_rows_of_periods_add_up_in_sql_as_in_python():
    given = [one for partition in (0, 1) for one in with_periods(partition, 2_400)]
    frame = to_pandas(given, of="periods")
    periods = [period for one in given for period in one.periods]
    assert [period.records for period in periods] == [1000] * 4
    assert len(frame) == sum(
        len(means)
        for period in periods
        for by_loss in (period.performance, *period.importances.values())
        for means in by_loss.values()
    )
    frame["version"] = frame["version"].astype(str)
    database = sqlite3.connect(":memory:")
    frame.to_sql("periods", database, index=False)
    page = (Path(__file__).parents[2] / "docs/how-to/consume.md").read_text()
    plain, skewed = (
        database.execute(statement.replace("'day'", "'1000'")).fetchall()
        for statement in re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
        if "FROM periods" in statement
    )
    merged = merge_periods(periods)
    means = merged.importances["ipfi"]["cross_entropy"]
    assert {feature for feature, *_ in plain} == set(means) and merged.records == 4_000
    for feature, *found in plain:
        mean = means[feature]
        assert found == pytest.approx((mean.value, mean.low, mean.high), rel=0.1)
    for feature, *found in skewed:
        mean = means[feature]
        assert found == pytest.approx((mean.value, mean.low, mean.high), rel=1e-4)


def test_alarms_drifts_segments_and_challengers_are_data_frames():
    driver = FoldDriver(
        {
            "model.name": "linear",
            "explainers": [{"kind": "ipfi", "by": "colour", "segments": 2}],
            "challenger": {"factory": "river.tree:HoeffdingTreeClassifier"},
            "alarms": {"enabled": True, "one_in": 1_000, "warm_up": 100, "baseline": 100},
            "drift": {"enabled": True, "window": 300, "bootstrap": 2},
        }
    )
    turned = [{**row, "label": row["label"] != (i >= 900)} for i, row in enumerate(values(1_500))]
    driver.send(turned)
    alarms = to_pandas(driver.alarms)
    assert list(alarms["before_value"]) == [alarm.before.value for alarm in driver.alarms] != []
    assert list(alarms["onset_time"]) == [alarm.onset.time for alarm in driver.alarms]
    assert str(alarms["time"].dtype) == "datetime64[ms, UTC]"
    drifts = to_pandas(driver.drifts)
    assert list(drifts["sentence"]) == [drift.sentence for drift in driver.drifts] != []
    assert list(drifts["target_last_time"]) == [utc(drift.target.last_timestamp) for drift in driver.drifts]
    segments = to_pandas(driver.explanations, of="segments")
    assert set(segments["by"]) == {"colour"} and segments["segment"].nunique() > 1
    challenger = to_pandas(driver.explanations, of="challenger")
    assert set(challenger["of"]) == {"river.tree:HoeffdingTreeClassifier", "difference"}
    for frame in (segments, challenger):
        assert frame["value"].notna().any() and frame["value"].dtype == "float64"
    assert list(to_pandas([], of="segments").columns) == list(segments.columns)
    with pytest.raises(ValueError, match=r"^of: 'period' is not one of importances, periods"):
        to_pandas(driver.explanations, of="period")
    with pytest.raises(
        ValueError, match=r"^messages: there are Explanation and Alarm; give those of one kind"
    ):
        to_pandas([*driver.explanations, *driver.alarms])
