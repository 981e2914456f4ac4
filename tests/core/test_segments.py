"""Segments: each is what the estimator finds, smoothed over its own records alone, whenever one looks."""

import msgspec
import numpy as np
import pytest

from explain_core.engine.smoothing import BLOCK
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.importance.segments import BATCH, OWN, Segments, key_of
from explain_core.state import StateError

PLANS = ("a", "b", "c", "d", None)


def model(x):
    return x["n"] * (2.0 if x.get("plan") == "a" else 0.5) + x.get("late", 0.0)


def rows(count, late=None, seed=0):
    """n is a number, plan one of five, the last missing; ``late`` comes with that record."""
    rng = np.random.Generator(np.random.PCG64(seed))
    for t in range(count):
        x = {"n": float(rng.normal())}
        plan = PLANS[int(rng.choice(5, p=[0.5, 0.2, 0.15, 0.1, 0.05]))]
        if plan is not None:
            x["plan"] = plan
        if late is not None and t >= late:
            x["late"] = float(rng.normal())
        y = model(x) + float(rng.normal())
        yield x, y, np.array([[(y - model(x)) ** 2], [y * y]])


def make(kind=IncrementalPFI, most=3, **settings):
    estimator = kind(
        model, task="regression", losses=["squared"], alpha=0.02, size=10, warm_up=10, **settings
    )
    return estimator, Segments(estimator, "plan", most)


def add(segments, estimator, x, losses):
    """Whether there were increments to add."""
    if estimator.increments is not None:
        segments.add(x, losses, estimator.increments)
    return estimator.increments is not None


@pytest.mark.parametrize("kind", [IncrementalPFI, IncrementalSAGE])
def test_a_segment_is_the_smoothed_mean_of_its_own_increments(kind):
    estimator, segments = make(kind)
    alone, counts = {}, {}
    for x, y, losses in rows(1_500):
        estimator.explain_one(x, y)
        if add(segments, estimator, x, losses):
            plan = segments.newest
            values = np.hstack([losses.T, estimator.increments])
            if plan not in alone:
                alone[plan] = estimator._new_smoother(values.shape[1])
                counts[plan] = 0
            alone[plan].update(values)
            counts[plan] += 1
            if counts[plan] % BLOCK == 0:
                alone[plan].end_block()
    reports = {report.value: report for report in segments}
    assert reports.keys() == alone.keys() and len(reports) == 4
    for plan, report in reports.items():
        smoother = alone[plan]
        assert report.records == counts[plan]
        assert report.losses.tolist() == smoother.value[:, :OWN].tolist()
        assert report.importance.values.tolist() == smoother.value[:, OWN:].tolist()
        assert report.importance.std.tolist() == smoother.std[:, OWN:].tolist()
        np.testing.assert_array_equal(report.importance.low, smoother.band(0.95)[0][:, OWN:])
    assert (
        reports["a"].importance.importance()["n"].value > 2 * reports["b"].importance.importance()["n"].value
    )


def test_the_first_values_are_kept_apart_and_all_others_are_one():
    estimator, segments = make(most=2)
    kept = []
    for x, y, losses in rows(300):
        estimator.explain_one(x, y)
        if add(segments, estimator, x, losses):
            plan = x.get("plan")
            kept = kept if plan in kept or plan is None or len(kept) == 2 else [*kept, plan]
            assert segments.newest == (plan if plan in kept else None)
    assert {report.value for report in segments} == {*kept, None} and len(kept) == 2


def test_whenever_one_looks_stores_and_restores_the_result_is_the_same():
    """A feature comes late, in the middle of what waits to be smoothed."""
    given = list(rows(700, late=333))
    estimator, whole = make()
    for x, y, losses in given:
        estimator.explain_one(x, y)
        add(whole, estimator, x, losses)
    rng = np.random.Generator(np.random.PCG64(1))
    estimator, segments = make()
    for t, (x, y, losses) in enumerate(given):
        estimator.explain_one(x, y)
        add(segments, estimator, x, losses)
        if rng.random() < 0.05:
            list(segments)
        if rng.random() < 0.03 or t % BATCH == 7:
            again = Segments(estimator, "plan", 3)
            again.restore(segments.state())
            assert again.state() == segments.state()
            segments = again
    assert segments.state() == whole.state()
    report = next(iter(segments))
    assert report.importance.features == ("n", "plan", "late")
    assert report.importance.importance()["late"].value > 0.0


def test_the_segment_of_which_most_is_new_is_told_first_and_none_without_anything_new():
    estimator, segments = make()
    assert segments.due() is None
    for x, y, losses in rows(400):
        estimator.explain_one(x, y)
        add(segments, estimator, x, losses)
    records = {report.value: report.records for report in segments}
    told = [segments.due().value for _ in records]
    assert told == sorted(records, key=lambda value: -records[value])
    assert segments.due() is None
    segments.add({"plan": "a"}, losses, estimator.increments)
    assert segments.due().value == "a"


def test_numbers_and_booleans_are_values_too():
    assert [key_of(value) for value in ("1", 1, 1.5, False, None)] == ["1", "1", "1.5", "false", None]


def changed(state, **fields):
    first, *others = state.segments
    return type(state)([msgspec.structs.replace(first, **fields), *others])


def test_a_state_that_is_none_is_refused():
    estimator, segments = make()
    for x, y, losses in rows(300):
        estimator.explain_one(x, y)
        add(segments, estimator, x, losses)
    state = segments.state()
    twice = type(state)([state.segments[0], state.segments[0]])
    too_many = type(state)([*state.segments, msgspec.structs.replace(state.segments[0], value="z")])
    narrower, _ = make()
    for estimated, wrong in (
        (estimator, twice),
        (estimator, too_many),
        (estimator, changed(state, unread=10**6)),
        (narrower, state),
    ):
        with pytest.raises(StateError):
            Segments(estimated, "plan", 3).restore(wrong)
