"""The experiment on stories judges what they say."""

import numpy as np
import pytest

from experiments.data import Table
from experiments.stories import altered, judged
from explain_client import Stories
from tests.told import alarm_of, drift_of

LOSS = {
    "subject": "loss",
    "feature": None,
    "estimator": None,
    "loss": "cross_entropy",
    "before": 0.4,
    "after": 0.6,
}


class Half:
    def predict_proba(self, X):
        chance = np.where(X["a"] > 0.75, 0.9, 0.5)
        return np.stack([chance, 1.0 - chance], axis=1)


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        ("concept", lambda X, y: y[X[:, 0] <= 0.5].all() and 0.5 < np.mean(y[X[:, 0] > 0.5] == 0) < 0.7),
        ("drawn", lambda X, y: np.mean(X[:, 0] > 0.75) == pytest.approx(0.75, abs=0.05)),
        ("offset", lambda X, y: X[:, 0].mean() > 0.8 and y.all()),
        ("missing", lambda X, y: 0.55 < np.isnan(X[:, 0]).mean() < 0.65),
        ("none", lambda X, y: X[:, 0].mean() < 0.6 and y.all()),
    ],
)
def test_a_stream_is_altered_as_it_says(kind, holds):
    rng = np.random.Generator(np.random.PCG64(0))
    table = Table("x", rng.random((4_000, 2)), np.ones(4_000, dtype=int), ["a", "b"])
    changed = altered(kind, table, 0, Half(), rng)
    assert holds(changed.X, changed.y)


def told(*messages):
    stories = Stories()
    for message in messages:
        stories.add(message)
    return list(stories)


def test_a_story_is_right_with_the_cause_and_the_feature_and_nothing_else():
    alarm = alarm_of(**LOSS, seq=0, cause=1, onset=6_000, offset=6_100)
    right = drift_of(0, causes=["inputs"], differences=[{"feature": "a"}])
    verdict = judged("drawn", {"a"}, told(alarm, right))
    assert verdict["all three"] and not verdict["else"]
    assert judged("drawn", {"b"}, told(alarm, right))["else"]
    assert judged("concept", {"a"}, told(alarm, right))["else"]
    place = drift_of(0, where={"feature": "a", "value": "above 1"})
    assert judged("concept", {"a"}, told(alarm, place))["all three"]
    fault = drift_of(0, causes=["inputs"], differences=[{"feature": "a", "fault": True}])
    assert judged("offset", {"a"}, told(alarm, fault))["all three"]
    assert not judged("offset", {"a"}, told(alarm, right))["cause"]
    second = alarm_of(seq=1, cause=2, feature="b", before=0.1, after=0.3, onset=7_000, offset=7_100)
    assert judged("drawn", {"a"}, told(alarm, right, second))["else"]
    assert judged("none", {"a"}, told(alarm)) == {"else": True}
    assert judged("none", {"a"}, []) == {"else": False}
