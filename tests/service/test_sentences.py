"""The sentences of the dashboard."""

import json
from typing import Any

from explain_client import Explanation
from explain_sidecar.http.partition import ShownVersion
from explain_sidecar.http.sentences import overview_sentence, sentence
from explain_sidecar.http.views import Page, Selection
from tests.feeds import IMPORTANCE, fed, newest


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
    shown = ShownVersion(0, Explanation.from_json(json.dumps(body).encode()))
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
        shown.newest = Explanation.from_json(json.dumps(body).encode())
        shown.history.add(shown.newest)
    return sentence(shown, ("ipfi", "cross_entropy"), alarms)


def test_with_alarms_the_sentence_names_the_newest_of_this_estimator_and_loss_or_what_would_raise_one() -> (
    None
):
    course = {"a": [0.1] * 3, "b": [0.2] * 3}
    alarm = {
        "estimator": "ipfi",
        "loss": "cross_entropy",
        "version": None,
        "segment": None,
        "feature": "b",
        "direction": "up",
        "before": [0.02, 0.01, 0.03],
        "after": [0.2, 0.1, 0.3],
        "subject": "importance",
        "onset": 1_700_000_000_000,
    }
    others = [{**alarm, key: "other"} for key in ("estimator", "loss", "version")]
    others += [{**alarm, "feature": None}, {**alarm, "segment": {"feature": "plan", "value": "big"}}]
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


def test_a_model_that_is_no_better_than_none_is_named_first() -> None:
    assert (
        overview_sentence({"JFK": True, "LGA": True}, 0, [])
        == "Every model predicts better than no model; no alarm so far."
    )
    one = overview_sentence({"JFK": True, "LGA": False}, 1, ["JFK", "EWR"])
    assert one == "LGA predicts no better than no model; 1 alarm so far. There are problems in JFK and EWR."
    assert overview_sentence({}, 0, []) == "No model has a loss yet; no alarm so far."
