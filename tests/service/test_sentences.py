"""The sentences of the dashboard."""

import json
from dataclasses import asdict
from typing import Any

from explain_client import Explanation, Stories, Story
from explain_client.alarm_words import moment
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.http.feed import Feed
from explain_sidecar.http.partition import Partition, ShownVersion
from explain_sidecar.http.sentences import overview_sentence, period_sentences, sentence
from explain_sidecar.http.views import Page, ViewSelection
from tests import folds
from tests.feeds import IMPORTANCE, fed, newest, outputs
from tests.told import alarm_of


def headline_of(
    courses: dict[str, list[float]],
    half: float = 0.01,
    driven: dict[str, Any] | None = None,
    banded: bool = True,
    rejected: int = 0,
    floor: float | None = None,
    alarms: list[Story] | None = None,
) -> str:
    """The sentence on features whose values take such courses, a day from point to point."""
    body = newest()
    shown = ShownVersion(0, Explanation.from_json(json.dumps(body).encode()))
    for i, values in enumerate(zip(*courses.values(), strict=True)):
        band = {"std": half / 1.96, "steady": True, "floor": floor}
        cells = {
            name: {"value": v, **band}
            | ({"low": v - half, "high": v + half} if banded else {"low": None, "high": None})
            for name, v in zip(courses, values, strict=True)
        }
        body |= {
            "seq": i,
            "rejected_recently": rejected,
            "timestamp": 1_700_000_000_000 + i * 86_400_000,
            "importance": {"ipfi": {"cross_entropy": cells}},
            "drivers": {"ipfi": {"cross_entropy": driven}},
        }
        shown.newest = Explanation.from_json(json.dumps(body).encode())
        shown.history.add(shown.newest)
    return sentence(shown, ("ipfi", "cross_entropy"), alarms)


def test_the_page_says_what_drove_the_model_over_the_newest_periods() -> None:
    chosen = folds.settings(emit={"every": 100, "periods": [1000, "all"]})
    outputs = folds.fold(PartitionState(chosen, 0), folds.values(2_100))
    messages = [Explanation.from_json(o.value or b"") for o in outputs if o.destination == "explanations"]
    partition = Partition(0)
    for message in messages:
        partition.take(message)
    assert partition.shown is not None
    newest, whole = period_sentences(partition.shown, ("ipfi", "cross_entropy"))
    assert newest.startswith("Over the newest 1,000 records: ") and "over 1,000 records" in newest
    assert whole.startswith("Over all records until 20") and "over 2,000 records" in whole


def driven(*drivers: tuple[str, float, float, float], gain: float = 0.3) -> dict[str, Any]:
    """What drives the model over 5,000 records, with a gain ± .1."""
    names = ("feature", "value", "low", "high")
    return {
        "records": 5_000,
        "since_alarm": False,
        "gain": gain,
        "gain_low": gain - 0.1,
        "gain_high": gain + 0.1,
        "drivers": [dict(zip(names, driver, strict=True)) | {"lasting": True} for driver in drivers],
    }


def test_with_alarms_the_sentence_is_the_newest_story_of_this_model_or_what_would_raise_an_alarm() -> None:
    course = {"a": [0.15] * 3, "b": [0.2] * 3}
    stories = Stories()
    for seq, name in enumerate(("b", "a")):
        stories.add(alarm_of(seq=seq, cause=1 + seq, feature=name, before=0.02, after=0.2, onset=1_000 * seq))
    known = list(stories)
    assert headline_of(course, alarms=known).endswith(f"better than no model. {known[1].sentence()}")
    stories.add(alarm_of(seq=2, cause=3, feature="a", before=0.2, after=0.02, onset=2_000))
    first, second = stories
    assert second.over and headline_of(course, alarms=[first, second]).endswith(first.sentence())
    assert headline_of(course, alarms=[second]).endswith(
        f"It is over: nearer to its old level since {moment(asdict(second.over))}."
    )
    other = [*Stories().add(alarm_of(seq=0, version="v2")), *Stories().add(alarm_of(seq=0, epoch=3))]
    assert headline_of(course, floor=0.03, alarms=other).endswith(
        "; no alarm so far; a lasting change of b by 0.030 would raise one."
    )
    assert headline_of(course, alarms=[]).endswith("; it is too early for an alarm on an importance.")


def test_the_sentence_begins_with_the_records_that_could_not_be_used_if_they_are_many() -> None:
    course = {"a": [0.1] * 3}
    usual = headline_of(course)
    assert headline_of(course, rejected=50) == usual
    assert headline_of(course, rejected=830) == f"830 of the last 1,000 records could not be used. {usual}"


def test_the_sentence_names_the_driver_its_worth_and_what_changed() -> None:
    over = "over the last 5,000 records, in which it is better than no model by 0.300 [0.200, 0.400] of log loss; "
    steady = headline_of({"a": [0.1] * 3, "b": [0.0] * 3}, driven=driven(("a", 0.1, 0.09, 0.11)))
    assert steady == (
        f"a drives the model: 0.100 [0.090, 0.110], {over}"
        "no change detected since 2023-11-14 22:13 UTC; one of a by 0.036 would have been."
    )
    two = headline_of({"a": [0.1] * 3}, driven=driven(("a", 0.1, 0.09, 0.11), ("b", 0.05, 0.04, 0.06)))
    assert two.startswith(
        "a 0.100 [0.090, 0.110], b 0.050 [0.040, 0.060] drive the model, over the last 5,000"
    )
    rose = headline_of({"a": [0.1] * 3, "b": [0.0, 0.0, 0.05]})
    assert rose.endswith("b rose from 0.000 to 0.050 since 2023-11-14 22:13 UTC.")
    back = headline_of({"a": [0.01, 0.108, 0.042]})
    assert back.endswith(
        "a rose from 0.010 to 0.108 between 2023-11-14 22:13 UTC and 2023-11-15 22:13 UTC, now 0.042."
    )
    warming = Page(fed(8), IMPORTANCE).next()
    assert warming["state"]["status"] == "warming" and warming["sentence"].startswith("Warming up.")
    assert (warming["state"]["records"], warming["state"]["warm_up"]) == (16, 20)
    assert "No explanation yet" in Page(fed(0), ViewSelection()).next()["sentence"]
    refused = fed(0)
    (letter,) = [output for destination, output in outputs(60) if destination == "dead_letters"][:1]
    refused.letter(0, InputRecord(0, 0, letter.key, letter.value, letter.headers))
    said = Page(refused, ViewSelection()).next()["sentence"]
    assert said.startswith("No explanation yet, and 1 record could not be used (not_json): ")


def test_what_does_not_drive_the_model_is_said_with_its_reason() -> None:
    course = {"a": [0.009] * 2, "b": [0.0] * 2}
    assert headline_of(course, driven=driven()).startswith(
        "No feature stands out: over the last 5,000 records "
    )
    worthless = headline_of(course, driven=driven(gain=0.05))
    assert worthless.startswith(
        "The model may be worth nothing, so nothing drives it for certain: over the last 5,000"
    )
    assert "by 0.050 [-0.050, 0.150] of log loss; give it better features" in worthless
    early = headline_of({"a": [0.5] * 2}, banded=False)
    assert early.startswith("It is too early to say what drives the model; log loss ")
    assert early.endswith("it is too early to say what changed.")
    assert headline_of({"a": [0.5]}).endswith("it is too early to say what changed.")


def test_a_model_that_is_no_better_than_none_is_named_first() -> None:
    assert (
        overview_sentence({"JFK": True, "LGA": True}, 0, [])
        == "Every model predicts better than no model; no alarm so far."
    )
    one = overview_sentence({"JFK": True, "LGA": False}, 1, ["JFK", "EWR"])
    assert one == "LGA predicts no better than no model; 1 alarm so far. There are problems in JFK and EWR."
    assert overview_sentence({}, 0, []) == "No model has a loss yet; no alarm so far."


def test_an_importance_without_labels_begins_with_the_name_and_stands_beside_a_loss() -> None:
    chosen = folds.settings(
        explainers=[{"kind": "ipfi"}, {"kind": "ipfi", "name": "moves", "losses": ["prediction"]}]
    )
    feed = Feed(chosen)
    feed.problem = None
    for output in folds.fold(PartitionState(chosen, 0), folds.values(600)):
        if output.destination == "explanations":
            feed.explanation(0, output.value or b"")
    importance, overview = (
        Page(feed, ViewSelection(view=view, estimator="moves", loss="prediction")).next()
        for view in ("importance", "overview")
    )
    assert " the predictions most" in importance["sentence"] and importance["sentence"][0].islower()
    (one,) = overview["partitions"]
    assert one["loss"] == "cross_entropy" and one["model"] is not None and one["course"]["model"]
    assert "no model" in overview["sentence"] and "loss yet" not in overview["sentence"]
