"""What the dashboard says, from messages that a fold has made."""

import json
import math
from itertools import pairwise

import pytest

from explain_client import Explanation, merge
from explain_core.drift import dbshap
from explain_sidecar.http.changes import shown_change
from explain_sidecar.http.feed import Feed
from explain_sidecar.http.history import MAX_POINTS, History
from explain_sidecar.http.partition import MAX_VERSIONS, Partition
from explain_sidecar.http.segments import MAX_SEGMENTS
from explain_sidecar.http.views import VIEWS, Page, ViewSelection
from tests.feeds import IMPORTANCE, fed, newest, outputs, settings


def test_the_table_has_the_values_of_the_newest_message(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(fed(), IMPORTANCE).next()
    cells = newest()["importance"]["ipfi"]["cross_entropy"]
    ranked = sorted(cells, key=lambda name: -cells[name]["value"])
    assert [row["feature"] for row in page["rows"]] == page["lines"] == list(cells)
    assert page["other"] == {"count": 0, "value": 0}
    monkeypatch.setattr("explain_sidecar.http.views.MOST", 8)
    page = Page(fed(), IMPORTANCE).next()
    assert page["lines"] == [name for name in cells if name in ranked[:8]]
    for row in page["rows"]:
        cell = cells[row["feature"]]
        assert row["value"] == pytest.approx(cell["value"], rel=5e-4)  # four digits
        assert row["half"] == pytest.approx((cell["high"] - cell["low"]) / 2, rel=5e-4)
    rest = [cells[name]["value"] for name in ranked[8:]]
    assert page["other"]["count"] == len(rest) == 3
    assert page["other"]["value"] == pytest.approx(sum(rest), abs=1e-6)


def test_a_headline_says_where_its_alarm_tells_another_value_than_the_table() -> None:
    """An alarm tells the mean since its onset."""
    feed = fed()
    lead = max(feed.stories.of(0), key=lambda story: (story.over is None, story.lead.seq)).lead
    body, loss = newest(), "cross_entropy"
    for name, value in (("before", lead.before.value), ("after", lead.after.value)):
        cells = body["importance"]["ipfi"][loss]
        if lead.feature is None:
            body["performance"][loss] |= {"model": value, "empty": 2.0 * value}
        else:
            cells[lead.feature] |= {"value": value, "low": value, "high": value}
        body |= {"seq": body["seq"] + 1, "periods": []}
        feed.explanation(0, json.dumps(body).encode())
        told = Page(feed, IMPORTANCE).next()["sentence"]
        assert ("The first of these is" in told) == (name == "before"), told


def test_a_partition_is_called_by_its_label_else_by_its_only_key() -> None:
    page = Page(fed(), ViewSelection()).next()
    assert page["names"] == {"0": "k"} and page["chosen"]["partition"] == 0
    labelled = fed(EXPLAIN_PARTITION_LABELS='{"0": "JFK", "1": "LGA"}')
    labelled.partitions[1], labelled.partitions[2] = Partition(1), Partition(2)
    assert Page(labelled, ViewSelection()).next()["names"] == {"0": "JFK", "1": "LGA", "2": "partition 2"}


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


def values_of(history: History) -> dict[tuple[int, int], list[float | None]]:
    """What a history has of every point: the values of its features, and halves of their bands."""
    courses = history.courses(("ipfi", "cross_entropy"), history.features, range(len(history.positions)))
    points = zip(*(numbers for course in courses for numbers in course), strict=True)
    return dict(zip(history.positions, map(list, points), strict=True))


def test_history_is_thinned_out_and_keeps_its_ends() -> None:
    feed = fed()
    history = feed.partitions[0].versions[""].history
    first, last = history.positions[0], history.positions[-1]
    before = values_of(history)
    body = json.loads(json.dumps(newest()))
    for seq in range(last[1] + 1, 2_345):
        body |= {"seq": seq, "timestamp": 1_700_100_000_000 + seq}
        feed.explanation(0, json.dumps(body).encode())
        assert len(history.positions) < MAX_POINTS and history.positions[-1] == (0, seq)
    positions = history.positions
    assert positions[0] == first and positions == sorted(set(positions))
    after = values_of(history)
    both = [position for position in positions if position in before]
    assert len(both) > 10 and all(after[position] == before[position] for position in both)
    assert any(value is not None for position in both for value in after[position])
    gaps = {after[1] - before[1] for before, after in pairwise(positions[:-1])}
    assert len(gaps) == 1
    body |= {"epoch": 1, "seq": 0}
    feed.explanation(0, json.dumps(body).encode())
    assert feed.partitions[0].versions[""].history.positions == [(1, 0)]


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
    assert history.risks("m", points) == [[None, None], [None, 3.0]]
    assert history.risks("l", points) == [[1.0, 1.0], [2.0, 2.0]]
    assert history.newest(("a", "m")) == [(None, None), (0.5, 0.2)]


def test_the_share_of_served_predictions_that_differ_is_that_since_the_message_before() -> None:
    feed, body = fed(), newest()
    start = body["seq"]
    for step, (checked, differing) in enumerate([(100, 0), (200, 25), (200, 25), (300, 30)], start=1):
        skew = {"checked": checked, "differing": differing, "largest": 0.5, "tolerance": 0.001}
        later = {"seq": start + step, "timestamp": body["timestamp"] + step, "skew": skew}
        feed.explanation(0, json.dumps(body | later).encode())
    page = Page(feed, ViewSelection("changes")).next()
    history = feed.partitions[0].shown.history
    shares = dict(zip(history.positions, history.skew(range(len(history.positions))), strict=True))
    assert shares[0, start + 4] == 0.05 and shares.get((0, start)) is None
    assert [shares.get((0, start + step), value) for step, value in ((1, 0.0), (2, 0.25))] == [0.0, 0.25]
    assert shares.get((0, start + 3)) is None  # nothing was served
    assert page["series"][2] == list(shares.values()) and page["state"]["skew"]["differing"] == 30
    assert page["served"] is None and len(page["series"]) == 3


def test_a_search_and_a_focus_bring_in_what_is_not_among_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explain_sidecar.http.views.MOST", 8)
    feed, cells = fed(), newest()["importance"]["ipfi"]["cross_entropy"]
    shown = Page(feed, IMPORTANCE).next()["lines"]
    hidden = next(name for name in cells if name not in shown)
    for selection in (
        ViewSelection("importance", search=hidden.upper()),
        ViewSelection("importance", feature=hidden),
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
        page = Page(feed, ViewSelection(view))
        assert page.next()["alarms"] == [] and "alarms" not in page.next()
    kept = fed().partitions[0].alarms
    page = Page(feed, ViewSelection("changes"))
    page.next()
    feed.partitions[0].alarms.append(kept[0])
    again = page.next()
    assert again["whole"] and [alarm["id"] for alarm in again["alarms"]] == [kept[0]["id"]]
    for alarm, message in zip(kept, alarms, strict=True):
        assert (alarm["onset"], alarm["noticed"], alarm["after"][0]) == (
            message["onset"]["timestamp"], message["timestamp"], message["after"]["value"],
        )  # fmt: skip
        assert alarm["sentence"].startswith("Since ")
    assert {alarm["story"] for alarm in kept} == {story["key"] for story in again["stories"]}


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
    page = Page(feed, ViewSelection("changes")).next()
    assert page["chosen"]["version"] == page["state"]["version"]["name"] == "old"  # of most of the newest
    assert set(page["series"][0]) == {0.5} and len(page["times"]) == 30
    assert page["choices"]["version"] == ["new", "old"]
    assert {one["name"]: one["since"] - 1_700_000_000_000 for one in page["versions"]} == {"old": 0, "new": 3}
    page = Page(feed, ViewSelection("changes", version="new")).next()
    assert set(page["series"][0]) == {0.1} and len(page["times"]) == 10
    grid = Page(feed, ViewSelection("partitions")).next()["grid"]
    assert grid["average"][0][0] is not None and grid["losses"] == [[0.5, 0.6]]
    for seq in range(40, 40 + 3 * MAX_VERSIONS):
        own = {"seq": seq, "version": {"name": f"v{seq}", "sha256": "0" * 64, "records": 1}}
        feed.explanation(0, json.dumps(body | own).encode())
    assert len(feed.partitions[0].versions) == MAX_VERSIONS
    feed.explanation(0, json.dumps(body | {"epoch": 1, "seq": 0}).encode())
    assert list(feed.partitions[0].versions) == [""]


def test_segments_are_compared_by_what_was_told_of_each_last() -> None:
    feed, body = Feed(settings()), newest()
    segments = [("a", 10, 0.9, 0.6), (None, 300, 0.1, 0.4), ("a", 100, 0.5, 0.5)]
    for seq, (value, records, importance, model) in enumerate(segments):
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
    page = Page(feed, ViewSelection("partitions", feature="signal")).next()["segments"]
    assert (page["by"], page["compared"]) == ("plan", "signal")
    assert [(row["value"], row["records"], row["importance"], row["losses"]) for row in page["rows"]] == [
        (None, 300, 0.1, [0.4, 0.7]),
        ("a", 100, 0.5, [0.5, 0.7]),
    ]
    assert [row["half"] for row in page["rows"]] == [pytest.approx(0.2)] * 2
    assert (page["average"], page["spread"]) == (pytest.approx(0.2), pytest.approx(0.1732, rel=1e-3))
    assert Page(fed(), ViewSelection("partitions")).next()["segments"] is None
    for seq in range(3, 3 + 2 * MAX_SEGMENTS):
        segment = {"feature": "plan", "value": str(seq), "records": 1, "performance": {}, "importance": {}}
        feed.explanation(0, json.dumps(body | {"seq": seq, "segments": {"ipfi": segment}}).encode())
    assert len(feed.partitions[0].versions[""].segments["ipfi"]) == MAX_SEGMENTS


def test_the_overview_has_every_partition_and_the_alarms_of_all() -> None:
    feed = fed(EXPLAIN_PARTITION_LABELS='{"1": "LGA"}')
    for destination, output in outputs()[:300]:
        own = output.value.replace(b'"partition":0', b'"partition":1')
        if destination == "explanations":
            feed.explanation(1, own)
    feed.partitions[2] = Partition(2)
    page = Page(feed, ViewSelection()).next()
    one, other = page["partitions"]
    message = newest()
    performance = message["performance"]["cross_entropy"]
    assert (one["partition"], other["partition"], one["records"]) == (0, 1, message["records"])
    assert one["model"] == pytest.approx(performance["model"], rel=1e-3)
    assert one["empty"] == pytest.approx(performance["empty"], rel=1e-3)
    assert one["course"]["model"][-1] == one["model"] and len(one["course"]["times"]) <= 60
    cells = message["importance"]["ipfi"]["cross_entropy"]
    assert len(one["drivers"]) == 3 and all(driver["feature"] in cells for driver in one["drivers"])
    sure = message["drivers"]["ipfi"]["cross_entropy"]["drivers"]
    assert [driver["feature"] for driver in one["drivers"] if driver["sure"]] == [
        driver["feature"] for driver in sure
    ][:3]
    onsets = [alarm["onset"] for alarm in feed.partitions[0].alarms]
    assert [alarm["onset"] for alarm in page["alarms"]] == sorted(onsets, reverse=True)
    assert one["alarms"] == sorted(onsets) and other["alarms"] == []
    assert other["broken"] and page["sentence"].endswith(
        f"{len(onsets)} alarms so far. There are problems in LGA."
    )


def test_losses_grid_and_drift_are_those_of_the_messages() -> None:
    feed = fed()
    page = Page(feed, ViewSelection("changes")).next()
    performance = newest()["performance"]["cross_entropy"]
    losses = [performance["model"], performance["empty"]]
    assert page["losses"]["cross_entropy"] == pytest.approx(losses, rel=1e-3)
    assert [values[-1] for values in page["series"][:2]] == pytest.approx(losses, rel=1e-3)
    assert page["series"][2] == [None] * len(page["times"])  # no prediction was served
    grid = Page(feed, ViewSelection("partitions", feature="turned")).next()["grid"]
    cells = newest()["importance"]["ipfi"]["cross_entropy"]
    assert grid["partitions"] == [0] and grid["compared"] == "turned"
    assert grid["losses"] == [pytest.approx(losses, rel=1e-3)] and grid["halves"] == [
        pytest.approx((cells["turned"]["high"] - cells["turned"]["low"]) / 2, rel=1e-3)
    ]
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


def test_a_change_that_is_not_attributable_has_no_steps() -> None:
    baseline, target = ([({"day": w, "a": i % 3}, i % 2) for i in range(100)] for w in (0, 1))
    change = dbshap(baseline, target, hypothesis=lambda _: {0: 0.5, 1: 0.5})
    window = {"first_timestamp": 0, "last_timestamp": 1}
    message = {"epoch": 0, "seq": 0, "sentence": "", "target": window, "baseline": window}
    shown = shown_change({**message, "change": change.to_dict()})
    assert (shown["cause"], shown["steps"], shown["from"]) == ("unknown", [], change.baseline.observed)


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
    grid = Page(feed, ViewSelection(view="partitions")).next()["grid"]
    expected = merge(taken)
    assert (grid["label"], grid["warming"]) == ("average over partition models", 1)
    assert len(set(expected.weights.values())) == 2
    average = expected.importance("ipfi", "cross_entropy")
    assert grid["features"] == sorted(average, key=lambda name: -average[name].value)
    for name, found in zip(grid["features"], grid["average"], strict=True):
        merged = average[name]
        assert found == pytest.approx([merged.value, merged.std, merged.spread], rel=1e-3)
    assert any(spread > 0.001 for _, _, spread in grid["average"])


def test_only_the_selected_view_is_sent() -> None:
    own = {
        "overview": "partitions",
        "changes": "losses",
        "importance": "rows",
        "partitions": "grid",
        "predictions": "lookup",
        "integrity": "chains",
    }
    feed = fed(60)
    for view in VIEWS:
        assert set(own.values()) & Page(feed, ViewSelection(view=view)).next().keys() == {own[view]}


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
        assert Page(feed, ViewSelection.of(query)).next()["chosen"] == {
            "partition": 0,
            "estimator": "ipfi",
            "loss": "cross_entropy",
            "version": "",
        }
