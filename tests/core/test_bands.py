"""Bands hold the mean of the truths, at every look and over every period; and the rules that name drivers."""

import numpy as np
import pytest

from experiments.bands import tallies
from explain_core import bands
from explain_core.engine.smoothing import BLOCK, FACTOR
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.periods import Periods, Sums
from explain_core.smoothing import Smoother
from explain_core.state import StateError


def coverage(tally):
    return float(np.mean(tally.coverage))


@pytest.mark.parametrize(
    ("game", "widest"),
    [
        ("additive", 1.2),
        ("seasonal", 1.2),
        ("learning model", 1.25),
        ("abrupt switch", 1.9),
        ("clustered inputs", 1.2),
    ],
)
def test_every_band_is_shown_and_holds_the_mean_of_the_truths_while_things_change_too(game, widest):
    """60 streams of 6,000 records, 180 bands a look: the standard error of a look's coverage is .016."""
    found = tallies(game, 60, 6_000)
    assert len(found["smoothed"].low) == 56  # each look from 500 records on
    for name, tally in found.items():
        assert coverage(tally) >= 0.915, name
        assert min(tally.coverage) >= 0.87, name
    assert found["smoothed"].width < widest and found["5000"].width < widest


def test_the_lower_end_is_right_where_informative_records_are_few():
    """What names a driver; on the side of the skew what did not come yet is made up for by a wider band."""
    found = tallies("1 % labels, confident", 60, 6_000)["smoothed"]
    assert np.mean(found.low) <= 0.025 and coverage(found) >= 0.95
    assert np.mean(tallies("lognormal inputs, 1.5", 60, 6_000)["smoothed"].low) <= 0.03


def test_without_the_factor_for_dependence_bands_of_clustered_records_are_wrong(monkeypatch):
    inputs_of = Smoother._inputs.fget

    def independent(smoother):
        inputs = inputs_of(smoother)
        inputs[FACTOR] = 1.0
        return inputs

    monkeypatch.setattr(Smoother, "_inputs", property(independent))
    assert coverage(tallies("clustered inputs", 60, 4_000)["smoothed"]) < 0.7


def follow(steps, alpha=0.001):
    smoother, seen = Smoother((1, 1), alpha), []
    for delta in steps:
        smoother.update(np.full((1, 1), delta))
        if smoother.n % BLOCK == 0:
            smoother.end_block()
            seen.append(float(smoother.steady[0, 0]))
    return smoother, seen


def test_a_mean_is_steady_until_it_changes_and_again_when_it_has_forgotten():
    rng = np.random.Generator(np.random.PCG64(0))
    _, seen = follow(rng.normal(size=12_000) + (np.arange(12_000) >= 5_000))
    assert np.isnan(seen[:8]).all()
    assert seen[8:50] == [1.0] * 42
    assert seen[52:70] == [0.0] * 18  # 90 % of the weight are newer after ln 10 / α = 2,300 records
    assert seen[-10:] == [1.0] * 10


def test_an_observation_out_of_all_proportion_leaves_a_state_of_numbers():
    smoother, _ = follow([1.0] * 250 + [1e300] + [1.0] * 349)
    assert np.isfinite(smoother.cells).all() and np.isfinite(smoother.sums).all()
    assert np.isfinite(smoother.std).all()


def test_the_band_is_wider_on_the_side_of_the_skew_alone():
    rng = np.random.Generator(np.random.PCG64(0))
    smoother, _ = follow(np.exp(1.5 * rng.normal(size=3_000)))
    low, high = smoother.band(0.95)
    value = smoother.value
    assert (high - value)[0, 0] > 1.5 * (value - low)[0, 0]


def test_no_band_below_500_observations_and_one_from_then_on():
    rng = np.random.Generator(np.random.PCG64(0))
    early, _ = follow(rng.normal(size=499))
    later, _ = follow(rng.normal(size=500))
    assert np.isnan(early.band(0.95)[0]).all() and np.isfinite(later.band(0.95)[0]).all()


def of_few_rows(seed, n, alpha):
    """The importance of ``a``, truth 2, by a uniform reservoir of 20 rows."""
    rng = np.random.Generator(np.random.PCG64(seed))
    pfi = IncrementalPFI(
        lambda x: x["a"], task="regression", alpha=alpha, reservoir="uniform", size=20, seed=seed
    )
    for a, e in rng.normal(size=(n, 2)).tolist():
        pfi.explain_one({"a": a}, a + 0.5 * e)
    return pfi.explanation.importance()["a"], float(pfi._smoother.std[0, 0])


def test_the_band_of_a_uniform_reservoir_knows_that_its_rows_are_few():
    found = [of_few_rows(seed, 500, None) for seed in range(30)]
    assert sum(abs(cell.value - 2.0) <= 1.96 * cell.std for cell, _ in found) >= 28
    assert sum(abs(cell.value - 2.0) <= 1.96 * alone for cell, alone in found) < 24


def record(estimator, n, start=0):
    rng = np.random.Generator(np.random.PCG64(3))
    rows = rng.normal(size=(start + n, 2)).tolist()[start:]
    for i, (a, b) in enumerate(rows, start):
        x = {"a": a} if i < 400 else {"a": a, "b": b}
        estimator.explain_one(x, a + 2.0 * b)
    return estimator


def make():
    return IncrementalPFI(lambda x: x["a"] + 2.0 * x.get("b", 0.0), task="regression", alpha=0.01, size=50)


def test_a_late_feature_has_a_band_from_its_own_500th_record_on():
    late = record(make(), 400 + 499)
    cell = late.explanation.importance()["b"]
    assert late._smoother.sums[0].tolist() == [849.0, 499.0] and np.isnan(cell.low)
    cell = record(late, 1, 899).explanation.importance()["b"]
    assert cell.low < cell.value < cell.high


def test_the_confidence_sequence_keeps_its_level_however_often_one_looks():
    """Of 200 streams without importance, how many ever have one above 0 for certain?"""
    rng, ever = np.random.Generator(np.random.PCG64(1)), np.zeros(200, bool)
    smoother, total = Smoother((200, 1), None), np.zeros((5, 200, 1))
    pointwise = ever.copy()
    for t in range(1, 8_001):
        smoother.update(rng.normal(size=(200, 1)))
        if t % BLOCK == 0:
            total = total + smoother.end_block()
            if t >= 500:
                sums = Sums(total)
                std = sums.spread.std
                ever |= (sums.value > bands.anytime(float(sums.n[0, 0]), 0.05) * std)[:, 0]
                pointwise |= (sums.value > 1.96 * std)[:, 0]
    assert ever.mean() <= 0.05 and ever.sum() < pointwise.sum()


def block_of(means, spread=1.0):
    """A closed block of 100 records whose cells have these means."""
    means = np.atleast_2d(means)
    variance = np.full_like(means, 100.0 * spread**2)
    return np.stack([np.full_like(means, 100.0), 100.0 * means, variance, np.zeros_like(means), variance**2])


def periods_of(importances, gain, blocks=20, **at):
    periods = Periods(["1000", "day"])
    periods.begin(0, 0)
    for i in range(1, blocks + 1):
        periods.add("ipfi", block_of(importances))
        periods.add("", block_of([[0.5, gain]]))
        periods.close(100 * i, 100 * i - 1, at.get("day", 0) * i)
    return periods


def named(periods):
    driven = periods.driven("ipfi", ["a", "b", "c"], 0, "", 0)
    return None if driven is None else [driver.feature for driver in driven.drivers]


def test_drivers_are_above_0_over_all_features_and_have_a_share_of_the_gain():
    assert named(periods_of([0.5, 0.0, 0.3], 1.0)) == ["a", "c"]
    assert named(periods_of([0.5, 0.04, 0.3], 1.0, blocks=40)) == ["a", "c"]  # less than 5 % of the gain
    assert named(periods_of([0.5, 0.0, 0.3], 1.0, blocks=4)) is None  # too early
    assert named(periods_of([0.5, 0.0, 0.3], -0.1)) == []  # the model is worse than none
    assert named(periods_of([0.5, 0.0, 0.3], 0.01)) == []  # or not better for certain


def test_where_the_newest_records_name_none_all_records_may():
    periods, found = Periods([]), {}
    periods.begin(0, 86_400_000)
    for i in range(1, 201):
        periods.add("ipfi", block_of([0.5, 0.0, 0.0], spread=20.0))
        periods.add("", block_of([[0.5, 1.0]]))
        periods.close(100 * i, 100 * i - 1, 86_400_000 + i)
        found[i] = periods.driven("ipfi", ["a", "b", "c"], 0, "", 0)
    assert not found[50].drivers and found[50].records == 4_000
    assert [driver.feature for driver in found[200].drivers] == ["a"] and found[200].records == 20_000
    assert found[200].since == 86_400_000
    periods.alarmed(20_000, 19_999, 86_400_200)  # from then on what was before is not meant
    assert not periods.driven("ipfi", ["a", "b", "c"], 0, "", 0).drivers


def test_after_an_alarm_drivers_are_those_since_then_once_they_are_known():
    periods = periods_of([1.0, 0.0, 0.0], 1.0)
    periods.alarmed(2_000, 1_999, 0)
    for i in range(21, 51):
        periods.add("ipfi", block_of([0.0, 1.0, 0.0]))
        periods.add("", block_of([[0.5, 1.0]]))
        periods.close(100 * i, 100 * i - 1, 0)
        if i == 29:
            assert (
                named(periods)[0] == "a" and not periods.driven("ipfi", ["a", "b", "c"], 0, "", 0).since_alarm
            )
    driven = periods.driven("ipfi", ["a", "b", "c"], 0, "", 0)
    assert (
        named(periods) == ["b"]
        and driven.since_alarm
        and driven.records == 3_000
        and driven.drivers[0].lasting
    )


def test_days_end_with_the_first_message_of_the_next_and_thousands_with_their_records():
    day = 86_400_000
    periods = Periods(["1000", "day"])
    periods.begin(7, day // 2)
    ended = []
    for i in range(1, 31):
        periods.add("ipfi", block_of([1.0]))
        ended += [
            (i, period.name, period.offset)
            for period in periods.close(100 * i, 100 * i + 6, day // 2 + i * day // 12)
        ]
    # The third thousand ends with the next message: one has a period at most.
    assert ended == [
        (6, "day", 6),
        (10, "1000", 6),
        (18, "day", 606),
        (20, "1000", 1_006),
        (30, "day", 1_806),
    ]
    (last,) = periods.close(3_100, 3_106, day // 2 + 31 * day // 12)
    assert (last.name, last.offset) == ("1000", 2_006)


def test_weeks_end_where_each_message_ends_a_day_too():
    day, periods, ended = 86_400_000, Periods(["day", "week", "all"]), []
    periods.begin(0, 0)
    for i in range(1, 31):
        periods.add("ipfi", block_of([1.0]))
        ended += [period.name for period in periods.close(100 * i, 100 * i - 1, i * day)]
    assert ended.count("week") == 4 and ended.count("day") == 26 and ended.count("all") == 30


def test_a_time_that_is_far_ahead_keeps_no_period_open_and_records_out_of_order_end_none():
    """Days by message: one is dated 70 years ahead, two come before midnight again, and later the clock is set back by a week."""
    days = [0, 0, 25_000, 1, 1, 2, 1, 2, 1, 2, 3, 10, 11, 4, 5]
    day, periods, ended = 86_400_000, Periods(["day"]), []
    periods.begin(0, 0)
    for i, at in enumerate(days, 1):
        periods.add("ipfi", block_of([1.0]))
        ended += [(i, at) for period in periods.close(100 * i, 100 * i - 1, at * day) if period.name == "day"]
    assert ended == [(3, 25_000), (4, 1), (6, 2), (11, 3), (12, 10), (13, 11), (14, 4), (15, 5)]


def test_the_means_since_the_last_alarm_and_over_all_records_come_with_each_period_that_ends():
    periods, seen = Periods(["alarm", "all"]), []
    periods.begin(0, 0)
    for i in range(1, 31):
        periods.add("ipfi", block_of([1.0]))
        if i == 14:
            periods.alarmed(1_400, 1_399, 0)
        seen += [
            (i, period.name, period.records, float(period.sums["ipfi"][0, 0, 0]))
            for period in periods.close(100 * i, 100 * i - 1, 0)
        ]
    assert seen == [
        (10, "all", 0, 1_000.0),
        (20, "alarm", 1_400, 600.0), (20, "all", 0, 2_000.0),
        (30, "alarm", 1_400, 1_600.0), (30, "all", 0, 3_000.0),
    ]  # fmt: skip


def test_periods_are_restored_to_the_same_bits_and_only_such_of_these_sources():
    periods = periods_of([0.5, 0.0, 0.3], 1.0, blocks=37)
    shapes = {"ipfi": (1, 0, 3), "": (1, 2, 2)}
    restored = Periods(["1000", "day"])
    restored.restore(periods.state(), shapes)
    assert restored.state() == periods.state()
    for wrong in ({**shapes, "ipfi": (1, 0, 2)}, {**shapes, "": (1, 3, 3)}, {"ipfi": (1, 0, 3)}):
        with pytest.raises(StateError, match="periods"):
            Periods(["1000", "day"]).restore(periods.state(), wrong)
    with pytest.raises(StateError, match="periods: others"):
        Periods(["1000"]).restore(periods.state(), shapes)
