"""What the dashboard makes of messages that are foreign, incomplete or altered."""

import json
from typing import Any

import pytest

from explain_sidecar.fold.records import InputRecord
from explain_sidecar.http.feed import MAX_CLASSES, Feed
from explain_sidecar.http.streams import Streams
from explain_sidecar.http.views import VIEWS, Page, ViewSelection
from tests.feeds import IMPORTANCE, fed, newest, outputs, settings


@pytest.mark.parametrize(
    "message", [b"{}", b'{"change": 3, "sentence": 7}', b'{"change": {"joint": 1}}', b"[1]", b"x"]
)
def test_a_drift_message_of_another_shape_is_no_error(message: bytes) -> None:
    feed = fed(50)
    feed.change(0, message)
    assert all(
        "steps" not in change for change in Page(feed, ViewSelection(view="changes")).next()["changes"]
    )


def test_a_message_of_another_schema_is_said() -> None:
    feed = fed(50)
    feed.explanation(0, b'{"schema": "explanation/9"}')
    assert "explanation/9" in (Page(feed, ViewSelection()).next()["problem"] or "")


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
    before = Page(feed, ViewSelection(view="integrity")).next()
    assert before["problem"] is None and before["foreign"] == []
    feed.explanation(0, json.dumps(newest() | change).encode())
    after = Page(feed, ViewSelection(view="integrity")).next()
    (foreign,) = after["foreign"]
    assert (foreign["topic"], foreign["partition"], foreign["count"]) == ("explanations", 0, 1)
    assert foreign["newest"] in after["problem"] and "1 messages" in after["problem"]
    for destination, output in outputs()[50:60]:
        if destination == "explanations":
            feed.explanation(0, output.value)
    last = Page(feed, ViewSelection(view="integrity")).next()
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
        assert Page(feed, ViewSelection(view=view)).next()["state"]["warm_up"] == 0


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
                page = Page(feed, ViewSelection(view=view)).next()
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
        broken.setattr("explain_sidecar.http.views.sentence", lambda *_: 1 / 0)
        mark, event = streams._make(IMPORTANCE, "")
    assert b"the view importance cannot be shown: ZeroDivisionError" in event
    assert "ZeroDivisionError" in caplog.text
    assert b"to say what drives the model" in streams._make(IMPORTANCE, mark)[1]


def test_ids_and_places_of_any_length_are_taken() -> None:
    feed = fed(50)
    assert Page(feed, ViewSelection(), "a@" + "1" * 5_000 + ".1").next()["whole"]
    own = [("__explain.app_id", b"explanation-sidecar")]
    feed.letter(0, InputRecord(0, 1, b"k", b"v", (*own, ("__explain.errors.offset", b"1" * 5_000))))
    assert feed.letters[-1].offset == -1
    for number in range(1_000):
        feed.letter(0, InputRecord(0, 1, b"k", b"v", (*own, ("__explain.errors.class", b"class%d" % number))))
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
        (chain,) = Page(feed, ViewSelection(view="integrity")).next()["chains"]
        assert (problem in chain["broken"]) if problem else chain["broken"] is None
        assert chain["verified"] == len(broken) - (1 if problem else 0)


@pytest.mark.parametrize("shown", [False, True])
def test_payloads_of_dead_letters_are_shown_only_where_it_is_set(shown: bool) -> None:
    feed = fed(EXPLAIN_HTTP__SHOW_PAYLOADS=str(shown).lower())
    letters = Page(feed, ViewSelection(view="integrity")).next()["letters"]
    assert letters["classes"] == {"not_json": 14}
    assert [letter["offset"] for letter in letters["newest"]][:2] == [699, 649]
    for letter in letters["newest"]:
        assert (letter["details"] is not None) == shown
        assert not shown or (letter["details"]["value"] == "{" and "not JSON" in letter["details"]["message"])


def test_what_people_expect_is_shown_in_the_sentence_and_what_cannot_be_read_is_said() -> None:
    feed = fed()
    story = feed.stories.of(0)[-1]
    onset = story.lead.onset.timestamp
    page = Page(feed, ViewSelection("changes"))
    assert "Expected" not in str(page.next()["stories"]) and "stories" not in page.next()
    feed.control(0, json.dumps({"expected": [onset, onset, "a price list"]}).encode())
    shown = {one["key"]: one for one in page.next()["stories"]}[story.key]
    assert shown["sentence"].endswith(" Expected: a price list.") and shown["known"]
    feed.control(3, b"{")
    assert "not a control message" in (feed.notice or "")
