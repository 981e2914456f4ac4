"""What the dashboard says, from messages that a fold has made."""

import io
import json
import math
import random
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console

from explain_client import Explanation, merge
from explain_core.drift import dbshap
from service.commands import tail
from service.fold.partition import PartitionState
from service.fold.records import InputRecord
from service.http.changes import shown_change
from service.http.feed import MAX_CLASSES, MAX_VERSIONS, Feed, Partition, Told
from service.http.history import MAX_POINTS, History, figures
from service.http.segments import MAX_SEGMENTS
from service.http.sentences import overview_sentence, sentence
from service.http.streams import Streams
from service.http.views import VIEWS, Page, Selection
from service.settings import Settings, load_settings

ENVIRONMENT = {
    "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "EXPLAIN_EXPLAINERS": '[{"kind": "ipfi", "alpha": 0.02, "reservoir": {"size": 20}}]',
    "EXPLAIN_EMIT__EVERY": "2",
    "EXPLAIN_DRIFT__ENABLED": "true",
    "EXPLAIN_DRIFT__WINDOW": "100",
    "EXPLAIN_DRIFT__BOOTSTRAP": "10",
    "EXPLAIN_ALARMS__ENABLED": "true",
    "EXPLAIN_ALARMS__ONE_IN": "1000",
    "EXPLAIN_ALARMS__WARM_UP": "100",
    "EXPLAIN_ALARMS__BASELINE": "100",
}


def settings(**environment: str) -> Settings:
    return load_settings(environ={**ENVIRONMENT, **environment})


@cache
def outputs(count: int = 700) -> list[tuple[str, Any]]:
    """Messages of a partition whose label follows `signal`, then from the middle on `turned`; every 50th record is bad."""
    state, rng = PartitionState(settings(), 0), random.Random(1)
    found: list[tuple[str, Any]] = []
    for offset in range(count):
        x: dict[str, Any] = {name: rng.gauss(0, 1) for name in ("signal", "turned")}
        x |= {f"noise{n}": rng.random() for n in range(9)}
        x["label"] = int(x["signal" if offset < count // 2 else "turned"] > 0)
        value = b"{" if offset % 50 == 49 else json.dumps(x).encode()
        for output in state.step(InputRecord(offset, 1_700_000_000_000 + offset * 60_000, b"k", value)):
            found.append((output.destination, output))
    return found


def fed(upto: int | None = None, **environment: str) -> Feed:
    feed = Feed(settings(**environment))
    feed.problem = None  # as when it is connected
    for destination, output in outputs()[:upto]:
        if destination == "explanations":
            feed.explanation(0, output.value)
        elif destination == "drift":
            feed.change(0, output.value)
        elif destination == "alarms":
            feed.alarm(0, output.value)
        else:
            feed.letter(0, 1_700_000_000_000, output.key, output.value, output.headers)
    return feed


def newest() -> dict[str, Any]:
    return json.loads(
        [output.value for destination, output in outputs() if destination == "explanations"][-1]
    )  # type: ignore[no-any-return]


IMPORTANCE = Selection(view="importance")


def test_the_table_has_the_values_of_the_newest_message(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(fed(), IMPORTANCE).next()
    cells = newest()["importance"]["ipfi"]["cross_entropy"]
    ranked = sorted(cells, key=lambda name: -cells[name]["value"])
    assert [row["feature"] for row in page["rows"]] == page["lines"] == list(cells)
    assert page["other"] == {"count": 0, "value": 0}
    monkeypatch.setattr("service.http.views.MOST", 8)
    page = Page(fed(), IMPORTANCE).next()
    assert page["lines"] == [name for name in cells if name in ranked[:8]]
    for row in page["rows"]:
        cell = cells[row["feature"]]
        assert row["value"] == pytest.approx(cell["value"], rel=1e-6)
        assert row["half"] is None and cell["low"] is None  # of 700 records
    rest = [cells[name]["value"] for name in ranked[8:]]
    assert page["other"]["count"] == len(rest) == 3
    assert page["other"]["value"] == pytest.approx(sum(rest), abs=1e-6)


def test_a_partition_is_called_by_its_label_else_by_its_only_key() -> None:
    page = Page(fed(), Selection()).next()
    assert page["names"] == {"0": "k"} and page["chosen"]["partition"] == 0
    labelled = fed(EXPLAIN_PARTITION_LABELS='{"0": "JFK", "1": "LGA"}')
    labelled.partitions[1], labelled.partitions[2] = Partition(1), Partition(2)
    assert Page(labelled, Selection()).next()["names"] == {"0": "JFK", "1": "LGA", "2": "partition 2"}


def test_tail_calls_a_partition_by_its_label_else_by_its_only_key() -> None:
    def shown(message: dict[str, Any], **environment: str) -> str:
        console = Console(width=200, file=io.StringIO())
        console.print(tail.view(settings(**environment), {0: message}))
        return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]

    message = newest()
    assert shown(message).startswith("records k: 686 ")
    assert shown(message | {"keys": None}).startswith("records partition 0: ")
    del message["keys"]  # as messages of before
    assert shown(message).startswith("records partition 0: ")
    assert shown(message, EXPLAIN_PARTITION_LABELS__0="JFK").startswith("records JFK: ")
    assert Explanation.from_json(json.dumps(message).encode()).keys is None


def test_tail_names_the_version_what_was_served_and_the_skew() -> None:
    message = newest()
    message["version"] = {"name": "7", "sha256": "0" * 64, "records": 100}
    message["performance"]["cross_entropy"]["served"] = 0.1234
    message["skew"] = {"checked": 1000, "differing": 12, "largest": 0.25, "tolerance": 0.001}
    console = Console(width=300, file=io.StringIO())
    console.print(tail.view(settings(), {0: message}))
    shown = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert shown.startswith("records k, version 7: 686 records") and ", served 0.1234" in shown
    assert "12 of 1,000 served predictions are not the model's, by up to 0.25" in shown


def headline_of(
    courses: dict[str, list[float]],
    half: float = 0.01,
    settled: bool = True,
    rejected: int = 0,
    floor: float | None = None,
    alarms: list[dict[str, Any]] | None = None,
) -> str:
    """The sentence on features whose values take such courses, a day from point to point."""
    body = newest()
    told = Told(0, Explanation.from_json(json.dumps(body).encode()))
    for i, values in enumerate(zip(*courses.values(), strict=True)):
        band = {"std": half / 1.96, "settled": settled, "floor": floor}
        cells = {
            name: {"value": v, **band}
            | ({"low": v - half, "high": v + half} if settled else {"low": None, "high": None})
            for name, v in zip(courses, values, strict=True)
        }
        body |= {
            "seq": i,
            "rejected_recently": rejected,
            "timestamp": 1_700_000_000_000 + i * 86_400_000,
            "importance": {"ipfi": {"cross_entropy": cells}},
        }
        told.newest = Explanation.from_json(json.dumps(body).encode())
        told.history.add(told.newest)
    return sentence(told, ("ipfi", "cross_entropy"), alarms)


def test_with_alarms_the_sentence_names_the_newest_of_this_estimator_and_loss_or_what_would_raise_one() -> (
    None
):
    course = {"a": [0.1] * 3, "b": [0.2] * 3}
    alarm = {
        "estimator": "ipfi",
        "loss": "cross_entropy",
        "version": None,
        "feature": "b",
        "direction": "up",
        "before": [0.02, 0.01, 0.03],
        "after": [0.2, 0.1, 0.3],
        "subject": "importance",
        "onset": 1_700_000_000_000,
    }
    others = [{**alarm, key: "other"} for key in ("estimator", "loss", "version")]
    others.append({**alarm, "feature": None})
    assert headline_of(course, alarms=[alarm, *others]).endswith(
        "; since 14 November 2023 22:13 UTC b matters more, 0.020 before and 0.200 after."
    )
    assert headline_of(course, alarms=[{**alarm, "direction": "down"}]).count("b matters less") == 1
    assert headline_of(course, floor=0.03, alarms=others).endswith(
        "; no alarm on an importance so far; a lasting change of b by 0.030 would raise one."
    )
    assert headline_of(course, alarms=[]).endswith("; it is too early for an alarm on an importance.")


def test_the_sentence_begins_with_the_records_that_could_not_be_used_if_they_are_many() -> None:
    course = {"a": [0.1] * 3}
    usual = headline_of(course)
    assert headline_of(course, rejected=50) == usual
    assert headline_of(course, rejected=830) == f"830 of the last 1,000 records could not be used. {usual}"


def test_the_sentence_names_the_driver_its_worth_and_what_changed() -> None:
    performance = newest()["performance"]["cross_entropy"]
    gain = performance["empty"] - performance["model"]
    worth = f"; log loss {abs(gain):.3f} {'better' if gain > 0 else 'worse'} than no model; "
    steady = headline_of({"a": [0.1] * 3, "b": [0.0] * 3})
    assert steady == (
        f"a drives the model, 0.100 ± 0.010{worth}"
        "no change detected since 14 November 2023 22:13 UTC; one of a by 0.030 would have been."
    )
    rose = headline_of({"a": [0.1] * 3, "b": [0.0, 0.0, 0.05]})
    assert rose.endswith("b rose from 0.000 to 0.050 since 14 November 2023 22:13 UTC.")
    back = headline_of({"a": [0.01, 0.108, 0.042]})
    assert back.endswith(
        "a rose from 0.010 to 0.108 between 14 November 2023 22:13 UTC and 15 November 2023 22:13 UTC, now 0.042."
    )
    warming = Page(fed(8), IMPORTANCE).next()
    assert warming["state"]["status"] == "warming" and warming["sentence"].startswith("Warming up.")
    assert (warming["state"]["records"], warming["state"]["warm_up"]) == (16, 20)
    assert "No explanation yet" in Page(fed(0), Selection()).next()["sentence"]


def test_nothing_drives_the_model_while_its_band_holds_0_or_is_not_settled() -> None:
    assert headline_of({"a": [0.009] * 2, "b": [0.0] * 2}).startswith("No feature stands out from chance; ")
    many = {f"f{i}": [0.011] * 2 for i in range(10)}  # beyond 1.96 standard errors, which one of ten often is
    assert headline_of(many).startswith("No feature stands out from chance; ")
    early = headline_of({"a": [0.5] * 2}, settled=False)
    assert early.startswith("Too few informative records to say what drives the model; ")
    assert early.endswith("it is too early to say what changed.")
    assert headline_of({"a": [0.5]}).endswith("it is too early to say what changed.")


def test_a_stream_that_goes_on_has_each_point_once_in_order() -> None:
    whole = Page(fed(), IMPORTANCE)
    expected = whole.next()
    assert expected["whole"] and len(expected["times"]) == len(set(expected["times"])) <= MAX_POINTS
    feed = fed(100)
    page = Page(feed, IMPORTANCE)
    times = page.next()["times"]
    for destination, output in outputs()[100:200]:
        if destination == "explanations":
            feed.explanation(0, output.value)
    again = Page(feed, IMPORTANCE, page.id).next()  # as after a restart of the server
    if not again["whole"]:
        times += again["times"]
        assert times == sorted(set(times))
    else:  # other features lead now, so that the lines are others
        times = again["times"]
    assert Page(feed, IMPORTANCE, Page(feed, IMPORTANCE).id).next()["whole"]
    known = Page(feed, IMPORTANCE)
    known.next()
    assert known.next()["times"] == [] and not known.next()["whole"]
    assert Page(feed, IMPORTANCE, "nonsense").next()["whole"]


def test_history_is_thinned_out_and_keeps_its_ends() -> None:
    feed = fed()
    history = feed.partitions[0].told[""].history
    first, last = history.positions[0], history.positions[-1]
    cells = history.cells(("ipfi", "cross_entropy"))
    before = dict(zip(history.positions, cells.tolist(), strict=True))
    body = json.loads(json.dumps(newest()))
    for seq in range(last[1] + 1, 2_345):
        body |= {"seq": seq, "timestamp": 1_700_100_000_000 + seq}
        feed.explanation(0, json.dumps(body).encode())
        assert len(history.positions) < MAX_POINTS and history.positions[-1] == (0, seq)
    positions = history.positions
    assert positions[0] == first and positions == sorted(set(positions))
    after = dict(zip(positions, history.cells(("ipfi", "cross_entropy")).tolist(), strict=True))
    both = [position for position in positions if position in before]
    assert len(both) > 10 and all(str(after[one]) == str(before[one]) for one in both)  # NaN is NaN
    gaps = {after[1] - before[1] for before, after in pairwise(positions[:-1])}
    assert len(gaps) == 1
    body |= {"epoch": 1, "seq": 0}
    feed.explanation(0, json.dumps(body).encode())
    assert feed.partitions[0].told[""].history.positions == [(1, 0)]


def test_a_feature_an_estimator_and_a_loss_that_come_later_are_unknown_before() -> None:
    history, body = History(), newest()
    cell = {"value": 0.5, "std": 0.1, "low": 0.3, "high": 0.7, "settled": True}
    for seq, by_estimator in enumerate(
        [
            {"a": {"l": {"x": cell}}},
            {"a": {"l": {"x": cell, "y": cell}, "m": {"y": cell}}, "b": {"l": {"x": cell}}},
        ]
    ):
        losses = {"l": {"model": 1.0, "empty": 2.0}} | ({"m": {"model": None, "empty": 3.0}} if seq else {})
        body |= {"seq": seq, "importance": by_estimator, "performance": losses}
        history.add(Explanation.from_json(json.dumps(body).encode()))
    points = history.charted()
    assert history.courses(("a", "l"), ["x", "y"], points) == [
        [[0.5, 0.5], [0.2, 0.2]],
        [[None, 0.5], [None, 0.2]],
    ]
    assert history.courses(("a", "m"), ["x", "y"], points) == [[[None] * 2] * 2, [[None, 0.5], [None, 0.2]]]
    assert figures(history.risks("m")).tolist() == [[None, None], [None, 3.0]]
    assert figures(history.risks("l")).tolist() == [[1.0, 2.0]] * 2


def test_a_search_and_a_focus_bring_in_what_is_not_among_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.http.views.MOST", 8)
    feed, cells = fed(), newest()["importance"]["ipfi"]["cross_entropy"]
    shown = Page(feed, IMPORTANCE).next()["lines"]
    hidden = next(name for name in cells if name not in shown)
    for selection in (
        Selection("importance", search=hidden.upper()),
        Selection("importance", feature=hidden),
    ):
        page = Page(feed, selection).next()
        assert page["lines"] == [*shown, hidden]
        values, halves = page["series"][8]
        assert len(values) == len(halves) == len(page["times"])
        assert values[-1] == pytest.approx(cells[hidden]["value"], rel=1e-3)


def test_alarms_are_told_once_and_again_when_one_comes() -> None:
    alarms = [json.loads(output.value) for destination, output in outputs() if destination == "alarms"]
    assert len(alarms) > 1
    feed = fed()
    feed.partitions[0].alarms.clear()
    for view in ("changes", "importance"):
        page = Page(feed, Selection(view))
        assert page.next()["alarms"] == [] and "alarms" not in page.next()
    kept = fed().partitions[0].alarms
    page = Page(feed, Selection("changes"))
    page.next()
    feed.partitions[0].alarms.append(kept[0])
    again = page.next()
    assert again["whole"] and [alarm["id"] for alarm in again["alarms"]] == [kept[0]["id"]]
    for alarm, message in zip(kept, alarms, strict=True):
        assert (alarm["onset"], alarm["noticed"], alarm["after"][0]) == (
            message["onset"]["timestamp"], message["timestamp"], message["after"]["value"],
        )  # fmt: skip
        assert "False alarms" not in alarm["sentence"] and alarm["sentence"].startswith("Since ")


def test_versions_of_the_model_have_each_their_own_course() -> None:
    feed, body = Feed(settings()), newest()
    for seq in range(40):
        version = "new" if seq % 4 == 3 else "old"  # a quarter of the traffic tries the new one
        own = {
            "seq": seq,
            "timestamp": 1_700_000_000_000 + seq,
            "version": {"name": version, "sha256": "0" * 64, "records": 1},
            "performance": {"cross_entropy": {"model": 0.1 if version == "new" else 0.5, "empty": 0.6}},
        }
        feed.explanation(0, json.dumps(body | own).encode())
    page = Page(feed, Selection("changes")).next()
    assert page["chosen"]["version"] == page["state"]["version"]["name"] == "old"  # of most of the newest
    assert set(page["series"][0]) == {0.5} and len(page["times"]) == 30
    assert page["choices"]["version"] == ["new", "old"]
    assert {one["name"]: one["since"] - 1_700_000_000_000 for one in page["versions"]} == {"old": 0, "new": 3}
    page = Page(feed, Selection("changes", version="new")).next()
    assert set(page["series"][0]) == {0.1} and len(page["times"]) == 10
    grid = Page(feed, Selection("partitions")).next()["grid"]
    assert grid["average"][0][0] is not None and grid["losses"] == [[0.5, 0.6]]
    for seq in range(40, 40 + 3 * MAX_VERSIONS):
        own = {"seq": seq, "version": {"name": f"v{seq}", "sha256": "0" * 64, "records": 1}}
        feed.explanation(0, json.dumps(body | own).encode())
    assert len(feed.partitions[0].told) == MAX_VERSIONS
    feed.explanation(0, json.dumps(body | {"epoch": 1, "seq": 0}).encode())
    assert list(feed.partitions[0].told) == [""]


def test_segments_are_compared_by_what_was_told_of_each_last() -> None:
    feed, body = Feed(settings()), newest()
    told = [("a", 10, 0.9, 0.6), (None, 300, 0.1, 0.4), ("a", 100, 0.5, 0.5)]
    for seq, (value, records, importance, model) in enumerate(told):
        cell = {
            "value": importance,
            "std": 0.1,
            "low": importance - 0.2,
            "high": importance + 0.2,
            "settled": True,
        }
        segment = {
            "feature": "plan",
            "value": value,
            "records": records,
            "performance": {"cross_entropy": {"model": model, "empty": 0.7, "floor": None}},
            "importance": {"cross_entropy": {"signal": cell}},
        }
        feed.explanation(0, json.dumps(body | {"seq": seq, "segments": {"ipfi": segment}}).encode())
    page = Page(feed, Selection("partitions", feature="signal")).next()["segments"]
    assert (page["by"], page["compared"]) == ("plan", "signal")
    assert [(row["value"], row["records"], row["importance"], row["losses"]) for row in page["rows"]] == [
        (None, 300, 0.1, [0.4, 0.7]),
        ("a", 100, 0.5, [0.5, 0.7]),
    ]
    assert [row["half"] for row in page["rows"]] == [pytest.approx(0.2)] * 2
    assert (page["average"], page["spread"]) == (pytest.approx(0.2), pytest.approx(0.1732, rel=1e-3))
    assert Page(fed(), Selection("partitions")).next()["segments"] is None
    for seq in range(3, 3 + 2 * MAX_SEGMENTS):
        segment = {"feature": "plan", "value": str(seq), "records": 1, "performance": {}, "importance": {}}
        feed.explanation(0, json.dumps(body | {"seq": seq, "segments": {"ipfi": segment}}).encode())
    assert len(feed.partitions[0].told[""].segments["ipfi"]) == MAX_SEGMENTS


def test_the_overview_has_every_partition_and_the_alarms_of_all() -> None:
    feed = fed(EXPLAIN_PARTITION_LABELS='{"1": "LGA"}')
    for destination, output in outputs()[:300]:
        own = output.value.replace(b'"partition":0', b'"partition":1')
        if destination == "explanations":
            feed.explanation(1, own)
    feed.partitions[2] = Partition(2)
    page = Page(feed, Selection()).next()
    one, other = page["partitions"]
    message = newest()
    performance = message["performance"]["cross_entropy"]
    assert (one["partition"], other["partition"], one["records"]) == (0, 1, message["records"])
    assert one["model"] == pytest.approx(performance["model"], rel=1e-3)
    assert one["empty"] == pytest.approx(performance["empty"], rel=1e-3)
    assert one["course"]["model"][-1] == one["model"] and len(one["course"]["times"]) <= 60
    cells = message["importance"]["ipfi"]["cross_entropy"]
    assert [driver["feature"] for driver in one["drivers"]] == sorted(
        cells, key=lambda name: -cells[name]["value"]
    )[:3]
    assert not any(driver["sure"] for driver in one["drivers"])  # of 700 records
    onsets = [alarm["onset"] for alarm in feed.partitions[0].alarms]
    assert [alarm["onset"] for alarm in page["alarms"]] == sorted(onsets, reverse=True)
    assert one["alarms"] == sorted(onsets) and other["alarms"] == []
    assert other["broken"] and page["sentence"].endswith(
        f"{len(onsets)} alarms so far. There are problems in LGA."
    )


def test_a_model_that_is_no_better_than_none_is_named_first() -> None:
    assert (
        overview_sentence({"JFK": True, "LGA": True}, 0, [])
        == "Every model predicts better than no model; no alarm so far."
    )
    one = overview_sentence({"JFK": True, "LGA": False}, 1, ["JFK", "EWR"])
    assert one == "LGA predicts no better than no model; 1 alarm so far. There are problems in JFK and EWR."
    assert overview_sentence({}, 0, []) == "No model has a loss yet; no alarm so far."


def test_losses_grid_and_drift_are_those_of_the_messages() -> None:
    feed = fed()
    page = Page(feed, Selection("changes")).next()
    performance = newest()["performance"]["cross_entropy"]
    told = [performance["model"], performance["empty"]]
    assert page["losses"]["cross_entropy"] == pytest.approx(told, rel=1e-3)
    assert [values[-1] for values in page["series"]] == pytest.approx(told, rel=1e-3)
    grid = Page(feed, Selection("partitions", feature="turned")).next()["grid"]
    cells = newest()["importance"]["ipfi"]["cross_entropy"]
    assert grid["partitions"] == [0] and grid["compared"] == "turned"
    assert grid["losses"] == [pytest.approx(told, rel=1e-3)] and grid["halves"] == [None]
    for name, row in zip(grid["features"], grid["values"], strict=True):
        assert row[0] == pytest.approx(cells[name]["value"], rel=1e-3)
    messages = [json.loads(output.value) for destination, output in outputs() if destination == "drift"]
    assert [change["sentence"] for change in page["changes"]] == [
        message["sentence"].replace(" → ", " to ") for message in reversed(messages)
    ] and len(messages) > 3
    for change, message in zip(page["changes"], reversed(messages), strict=True):
        assert math.isclose(
            change["from"] + sum(step["value"] for step in change["steps"]), change["to"], abs_tol=1e-9
        )
        names = [step["name"] for step in change["steps"]]
        assert names[:2] == ["the concept", "the model itself"] and "hypothesis" not in names
        causes = message["change"]["causes"]
        assert change["cause"] == (causes[0] if causes else change["cause"])
        assert causes or change["cause"] in ("none", "model")


def test_a_feature_that_is_called_like_a_cause_keeps_its_name() -> None:
    rows = [({"concept": i % 2, "dependence": i % 3}, i % 2) for i in range(60)]
    change = dbshap(rows, [(x, 1 - y) for x, y in rows], hypothesis=lambda _: {0: 0.5, 1: 0.5})
    window = {"first_timestamp": 0, "last_timestamp": 1}
    shown = shown_change(
        {
            "epoch": 0,
            "seq": 0,
            "sentence": "",
            "target": window,
            "baseline": window,
            "change": change.to_dict(),
        }
    )
    assert {"concept", "dependence", "the concept", "inputs together"} <= {
        step["name"] for step in shown["steps"]
    }
    assert len(shown["steps"]) == len(change.steps(8))


def test_the_average_over_partition_models_is_that_of_the_client() -> None:
    values = [output.value for destination, output in outputs() if destination == "explanations"]
    feed, taken = Feed(settings()), []
    for number, upto in ((0, 300), (1, 120), (2, 5)):  # the last one is warming up
        for value in values[:upto]:
            own = value.replace(b'"partition":0', b'"partition":%d' % number)
            feed.explanation(number, own)
            taken.append(Explanation.from_json(own))
    grid = Page(feed, Selection(view="partitions")).next()["grid"]
    expected = merge(taken)
    assert (grid["label"], grid["warming"]) == ("average over partition models", 1)
    assert len(set(expected.weights.values())) == 2
    average = expected.importance("ipfi", "cross_entropy")
    assert grid["features"] == sorted(average, key=lambda name: -average[name].value)
    for name, found in zip(grid["features"], grid["average"], strict=True):
        merged = average[name]
        assert found == pytest.approx([merged.value, merged.std, merged.spread], rel=1e-3)
    assert any(spread > 0.001 for _, _, spread in grid["average"])


@pytest.mark.parametrize(
    "message", [b"{}", b'{"change": 3, "sentence": 7}', b'{"change": {"joint": 1}}', b"[1]", b"x"]
)
def test_a_drift_message_of_another_shape_is_no_error(message: bytes) -> None:
    feed = fed(50)
    feed.change(0, message)
    assert all("steps" not in change for change in Page(feed, Selection(view="changes")).next()["changes"])


def test_a_message_of_another_schema_is_said() -> None:
    feed = fed(50)
    feed.explanation(0, b'{"schema": "explanation/9"}')
    assert "explanation/9" in (Page(feed, Selection()).next()["problem"] or "")


FOREIGN = {
    "another schema": {"schema": "explanation/9"},
    "seq of text": {"seq": "x"},
    "no epoch": {"epoch": None},
    "a yes for a number": {"records": True},
    "timestamp of text": {"timestamp": "now"},
    "an estimator that is a number": {"estimators": {"a": 1}},
    "estimators in a list": {"estimators": [1]},
    "no digest": {"digest": None},
    "a digest of other letters": {"digest": "z" * 32},
    "a value of text": {
        "importance": {"ipfi": {"cross_entropy": {"a": {"value": "x", "std": 1, "low": 1, "high": 1}}}}
    },
    "a loss in a list": {"performance": {"cross_entropy": {"model": [1], "empty": 1}}},
    "a notice that is a number": {"notices": [1]},
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_message_is_counted_said_and_followed_by_the_next(change: dict[str, Any]) -> None:
    feed = fed(50)
    before = Page(feed, Selection(view="integrity")).next()
    assert before["problem"] is None and before["foreign"] == []
    feed.explanation(0, json.dumps(newest() | change).encode())
    after = Page(feed, Selection(view="integrity")).next()
    (foreign,) = after["foreign"]
    assert (foreign["topic"], foreign["partition"], foreign["count"]) == ("explanations", 0, 1)
    assert foreign["newest"] in after["problem"] and "1 messages" in after["problem"]
    for destination, output in outputs()[50:60]:
        if destination == "explanations":
            feed.explanation(0, output.value)
    last = Page(feed, Selection(view="integrity")).next()
    assert last["chains"][0]["verified"] > before["chains"][0]["verified"] and not last["chains"][0]["broken"]
    assert last["foreign"] == after["foreign"]


def test_settings_of_an_estimator_that_are_no_numbers_do_not_matter() -> None:
    feed = fed(50)
    message = newest() | {
        "seq": 2_000,
        "estimators": {"ipfi": {"alpha": "x", "size": [1]}, "b": {"alpha": -1}},
    }
    feed.explanation(0, json.dumps(message).encode())
    for view in VIEWS:
        assert Page(feed, Selection(view=view)).next()["state"]["warm_up"] == 0


@pytest.mark.parametrize("timestamp", [1_700_000_000_000_000_000, -(2**63), 2**63 - 1, 253_402_300_800_000])
def test_a_time_that_is_no_date_is_said_and_is_in_no_chart(timestamp: int) -> None:
    values = [output.value for destination, output in outputs() if destination == "explanations"][:200]
    feed = Feed(settings())
    for number, value in enumerate(values):
        message = json.loads(value)
        if 100 <= number < 150:
            message["timestamp"] = timestamp
        feed.explanation(0, json.dumps(message).encode())
        if number == 140:
            for view in VIEWS:
                page = Page(feed, Selection(view=view)).next()
                assert (
                    str(timestamp) in page["state"]["notices"][0]
                    and "record.timestamp" in page["state"]["notices"][0]
                )
            page = Page(feed, IMPORTANCE).next()
            assert len(page["times"]) == len(page["series"][0][0]) == 100
    page = Page(feed, IMPORTANCE).next()
    assert page["state"]["notices"] == []
    assert len(page["times"]) == 150 and page["times"] == sorted(page["times"])
    assert page["times"][0] > 1_690_000_000 and page["times"][-1] < 1_710_000_000


def test_a_view_that_cannot_be_made_is_said_in_the_stream_which_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    streams = Streams(fed(50), 1)
    with monkeypatch.context() as broken:
        broken.setattr("service.http.views.sentence", lambda *_: 1 / 0)
        mark, event = streams._make(IMPORTANCE, "")
    assert b"the view importance cannot be shown: ZeroDivisionError" in event
    assert "ZeroDivisionError" in caplog.text
    assert b"to say what drives the model" in streams._make(IMPORTANCE, mark)[1]


def test_ids_and_places_of_any_length_are_taken() -> None:
    feed = fed(50)
    assert Page(feed, Selection(), "a@" + "1" * 5_000 + ".1").next()["whole"]
    own = [("__explain.app_id", b"explanation-sidecar")]
    feed.letter(0, 1, b"k", b"v", [*own, ("__explain.errors.offset", b"1" * 5_000)])
    assert feed.letters[-1].offset == -1
    for number in range(1_000):
        feed.letter(0, 1, b"k", b"v", [*own, ("__explain.errors.class", b"class%d" % number)])
    assert len(feed.letter_classes) <= MAX_CLASSES + 1 and feed.letter_classes["other"] > 900


def test_the_chain_of_the_drift_topic_is_checked_too() -> None:
    feed = Feed(settings())
    values = [output.value for destination, output in outputs() if destination == "drift"]
    for value in (values[0], values[2]):
        feed.change(0, value)
    broken = feed.partitions[0].broken
    assert feed.partitions[0].verified == 1 and broken is not None and "missing before it" in broken
    whole = fed().partitions[0]
    assert whole.broken is None
    assert whole.verified == sum(destination != "dead_letters" for destination, _ in outputs())


def test_the_chain_check_finds_a_missing_and_an_altered_message() -> None:
    values = [output.value for destination, output in outputs() if destination == "explanations"][:10]
    for broken, problem in (
        ([*values[:4], *values[5:]], "missing before it"),
        ([*values[:4], values[4].replace(b'"rejected":0', b'"rejected":1'), *values[5:]], "digest"),
        (values, None),
    ):
        feed = Feed(settings())
        for value in broken:
            feed.explanation(0, value)
        (chain,) = Page(feed, Selection(view="integrity")).next()["chains"]
        assert (problem in chain["broken"]) if problem else chain["broken"] is None
        assert chain["verified"] == len(broken) - (1 if problem else 0)


@pytest.mark.parametrize("shown", [False, True])
def test_payloads_of_dead_letters_are_shown_only_where_it_is_set(shown: bool) -> None:
    feed = fed(EXPLAIN_HTTP__SHOW_PAYLOADS=str(shown).lower())
    letters = Page(feed, Selection(view="integrity")).next()["letters"]
    assert letters["classes"] == {"not_json": 14}
    assert [letter["offset"] for letter in letters["newest"]][:2] == [699, 649]
    for letter in letters["newest"]:
        assert (letter["details"] is not None) == shown
        assert not shown or (letter["details"]["value"] == "{" and "not JSON" in letter["details"]["message"])


def test_only_the_selected_view_is_sent() -> None:
    own = {
        "overview": "partitions",
        "changes": "losses",
        "importance": "rows",
        "partitions": "grid",
        "integrity": "chains",
    }
    feed = fed(60)
    for view in VIEWS:
        assert set(own.values()) & Page(feed, Selection(view=view)).next().keys() == {own[view]}


def test_any_query_is_answered_with_what_exists() -> None:
    feed = fed(60)
    for query in (
        {
            "view": "x",
            "partition": "99999999999",
            "estimator": "no",
            "loss": "no",
            "feature": "no",
            "search": "\x00<b>",
        },
        {"partition": "-1"},
        {"partition": "٣"},
        {"view": "partitions", "loss": "squared"},
    ):
        assert Page(feed, Selection.of(query)).next()["chosen"] == {
            "partition": 0,
            "estimator": "ipfi",
            "loss": "cross_entropy",
            "version": "",
        }
