"""With ``explain.estimated_loss`` explanations say what records without a label are estimated to lose, apart from the true loss."""

import random

from explain_client import EstimatedLoss, Explanation
from explain_client.alarm_words import UNSEEN
from explain_client.fold import FoldDriver
from explain_core.estimated import BLIND

ASKED = {
    "model.name": "linear",
    "record.unlabelled": "predict",
    "explain.estimated_loss": True,
    "explain.every": 10,
    "emit.every": 400,
}


def given(n, seed=1, since=10**9, shift=0.0):
    """Half of the records without a label; from ``since`` on with another a, and few labels."""
    rng = random.Random(seed)
    for i in range(n):
        late = i >= since
        value = {"a": rng.gauss(shift if late else 0.0, 1.0), "b": rng.choice("uv")}
        label = rng.random() < (0.5 if value["a"] > 0.0 else 0.05)
        if rng.random() < (0.05 if late else 0.6):
            value["label"] = label
        yield value


def test_the_estimate_is_told_apart_from_the_loss_with_its_error_and_what_it_cannot_see():
    driver = FoldDriver({**ASKED, "emit.every": 50})
    records = list(given(3_300, since=2_500, shift=1.5))
    driver.send(records)
    before = next(one for one in driver.explanations if one.offset > 2_400)
    newest = driver.explanations[-1]
    early, late = (one.estimated_loss["cross_entropy"] for one in (before, newest))
    assert abs(early.value - before.performance["cross_entropy"].model) < 0.06
    assert late.value > early.value + 0.1 and late.low < late.value < late.high
    assert late.records > 0.9 * sum("label" not in one for one in records) and BLIND in late.notes
    assert late.settled.low is not None and late.settled.error == late.settled.true - late.settled.estimated
    assert late.sentence("cross entropy").startswith(
        "cross entropy of the newest records without a label: 0."
    )
    assert driver.explanations[0].estimated_loss["cross_entropy"].value is None


def test_an_earlier_message_has_no_estimate():
    assert Explanation.__dataclass_fields__["estimated_loss"].metadata["absent"] == {}
    assert EstimatedLoss(None, None, None, 0, 0.0, None, 0.0, None, ()).sentence("brier") == (
        "brier of records without a label: not estimated yet"
    )


WATCHED = {
    "alarms.enabled": True,
    "alarms.one_in": 10_000,
    "alarms.subjects": ["estimated_loss"],
    "alarms.warm_up": 300,
    "alarms.baseline": 300,
}


def test_an_alarm_says_that_the_loss_probably_rose_before_any_label_comes():
    driver = FoldDriver({**ASKED, **WATCHED})
    driver.send(given(6_000, since=4_500, shift=1.5))
    alarm = driver.alarms[0]
    assert (alarm.subject, alarm.direction, alarm.loss) == ("estimated_loss", "up", "cross_entropy")
    assert alarm.earliest.offset <= 4_500 + 200 and alarm.latest.offset >= 4_500
    assert "the log loss of records without a label probably rose, by at least 0." in alarm.sentence
    assert alarm.sentence.endswith(UNSEEN)
    driver.verify(every=2_500)


def test_without_a_change_there_is_no_such_alarm():
    driver = FoldDriver({**ASKED, **WATCHED})
    driver.send(given(6_000))
    assert driver.explanations[-1].estimated_loss["cross_entropy"].value is not None and not driver.alarms
