"""The change detector against its formulas written out over all records, and what it promises on streams."""

import math
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from scipy import stats

from explain_core.alarms import BASELINE, BLOCK, WARM_UP
from explain_core.alarms.causes import Causes, CausesState
from explain_core.alarms.detector import ChangeDetector, Position, constants_of
from explain_core.engine.alarms import BY_0, CLIP, NOISE, PAIRS, PER_LEVEL, SAFETY
from explain_core.state import StateError, block

MEMORY = 100


def run(detector, values, start=0, **how):
    """Changes, each with the number of records when it was noticed."""
    found = []
    for i, row in enumerate(values):
        if detector.add(row, [Position(start + i, 10 * (start + i))]):
            found += [(start + i + 1, change) for change in detector.end_block(**how)]
    return found


def written_out(x, one_in, subjects, min_change, draws=1):
    """The first change of a single subject, from all its records: (noticed, evidence, onset), or None.

    It keeps no sums but the records themselves; only the boundaries that may be tried are those of the exponential histogram.
    """
    first = x[:WARM_UP]
    centre, spread = first.mean(), first.std()
    own = x[WARM_UP:] - centre
    y = np.clip(own, -CLIP * spread, CLIP * spread)
    h = math.log(subjects * one_in / BLOCK)
    by_0, by_1, total, noise = constants_of(MEMORY, draws, WARM_UP, BASELINE)[BY_0 : NOISE + 1]
    sizes: list[int] = []
    for _ in range(WARM_UP // BLOCK):  # the histogram's boundaries know of the warm-up
        sizes = merged([*sizes, 1])
    for blocks in range(1, len(y) // BLOCK + 1):
        sizes = merged([*sizes, 1])
        seen = y[: blocks * BLOCK]
        means = seen.reshape(-1, BLOCK).mean(axis=1)
        before_each = np.concatenate([[0.0], means[:-1]])
        ends = np.cumsum(sizes) - WARM_UP // BLOCK
        edges = [0, *[int(end) * BLOCK for end in ends if end > 0]]
        buckets = [seen[a:b] for a, b in pairwise(edges)]
        best = None
        evidence = 0.0
        for i, edge in enumerate(edges[1:-1]):
            if edge < BASELINE:
                continue
            old, new = seen[:edge], seen[edge:]
            n0, n1 = len(old), len(new)
            r = 1.0 / n0 + 1.0 / n1
            residual = np.concatenate([old - old.mean(), new - new.mean()])
            variance = (residual**2).sum() / (n0 + n1 - 2)
            m = blocks
            centred = [*(means[: edge // BLOCK] - old.mean()), *(means[edge // BLOCK :] - new.mean())]
            gone = edge // BLOCK * old.mean() ** 2 + n1 // BLOCK * new.mean() ** 2
            unit = max(m - 2.0, 1.0) * variance / BLOCK
            part = by_0 * (np.square(centred).sum() / unit - 1.0)
            part += by_1 * ((means * before_each).sum() - gone) / unit
            turned = min(max(total * part, 0.0), 2.0 * draws)
            turned = min(turned + SAFETY * noise * (1.0 + turned) / math.sqrt(m), 2.0 * draws)
            apart = [
                (b.mean() - a.mean()) ** 2 / (1.0 / len(a) + 1.0 / len(b))
                for k, (a, b) in enumerate(pairwise(buckets))
                if abs(k - i) > 1
            ]
            v = max(variance * (1.0 + turned), float(np.mean(apart)) if len(apart) >= PAIRS else 0.0)
            more = v / variance - 1.0
            c = (np.abs(seen) ** 3).mean() / variance * (1.0 + 3.0 * (draws + 1.0) * more) / (1.0 + more)
            bound = math.sqrt(2.0 * h * v * r) + h * c / 3.0 * (1.0 / n0**2 + 1.0 / n1**2) / r
            off = abs(new.mean() - old.mean())
            evidence = max(evidence, off / (min_change + bound))
            gain = off * off / (2.0 * v * r)
            if best is None or gain > best[0]:
                best = gain, edge
        if evidence > 1.0:
            return (blocks * BLOCK + WARM_UP, evidence, best[1] + WARM_UP)
    return None


def merged(sizes):
    size = 1
    while sizes.count(size) > PER_LEVEL:
        at = sizes.index(size)
        sizes[at : at + 2] = [2 * size]
        size *= 2
    return sizes


def reservoir_game(rng, n):
    """Increments that a shared reservoir makes dependent."""
    rows, out = rng.normal(size=MEMORY), np.empty(n)
    for t in range(n):
        x, error = rng.normal(), rng.normal()
        out[t] = (error + x - rows[rng.integers(MEMORY)]) ** 2 - error**2
        rows[rng.integers(MEMORY)] = x
    return out


@pytest.mark.parametrize("kind", ["normal", "tail", "reservoir", "drifting"])
def test_a_change_is_noticed_when_and_as_the_formulas_say(kind):
    rng = np.random.default_rng(3)
    x = {
        "normal": lambda: rng.normal(size=9_000),
        "tail": lambda: rng.standard_t(3, size=9_000),
        "reservoir": lambda: reservoir_game(rng, 9_000),
        "drifting": lambda: rng.normal(size=9_000) + 0.5 * np.sin(np.arange(9_000) / 400.0),
    }[kind]()
    x[6_020:] += 0.6 * x.std()
    expected = written_out(x, 20_000, 20, 0.05)
    assert expected is not None
    detector = ChangeDetector(2, one_in=20_000, memory=MEMORY)
    found = run(detector, np.column_stack([x, rng.normal(size=len(x))]), min_change=0.05, among=20)
    noticed, change = found[0]
    assert change.subject == 0
    assert (noticed, change.onset.offset) == (expected[0], expected[2])
    assert change.evidence == pytest.approx(expected[1], rel=1e-9)
    assert change.onset.timestamp == 10 * change.onset.offset


def test_subjects_do_not_depend_on_each_other():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(10_000, 3))
    values[5_000:, 1] += 0.5
    alone = run(ChangeDetector(1, one_in=10_000), values[:, 1:2], among=3)
    together = run(ChangeDetector(3, one_in=10_000), values)
    assert [change._replace(subject=1) for _, change in alone] == [change for _, change in together]


@pytest.mark.parametrize("kind", ["normal", "reservoir"])
def test_false_alarms_are_at_most_as_many_as_stated(kind):
    """25 N; beyond the bound once in a thousand if there were exactly one in N."""
    rng, one_in, spans = np.random.default_rng(11), 2_500, 25
    if kind == "normal":
        values = rng.normal(size=(one_in * spans, 20))
    else:
        stream = reservoir_game(rng, 2 * one_in * spans)
        values = np.column_stack(np.split(stream, 2))
    found = run(ChangeDetector(values.shape[1], one_in=one_in), values)
    assert len(found) <= stats.poisson.ppf(0.999, spans)


@pytest.mark.parametrize(("change", "most"), [(0.5, 400), (0.2, 1_800), (0.1, 8_000)])
def test_changes_are_noticed_in_time_and_dated(change, most):
    rng = np.random.default_rng(5)
    values = rng.normal(size=(10_000 + 2 * most, 40))
    values[10_000:] += change
    found = {}
    for noticed, alarm in run(ChangeDetector(40, one_in=20_000), values, among=20):
        if noticed > 10_000:
            found.setdefault(alarm.subject, (noticed - 10_000, alarm))
    assert np.median([noticed for noticed, _ in found.values()]) <= most
    changes = [alarm for _, alarm in found.values()]
    assert np.median([abs(change.onset.offset - 10_000) for change in changes]) <= most / 2
    assert np.mean([change.earliest.offset <= 10_000 <= change.latest.offset for change in changes]) >= 0.85
    assert np.mean([change.before.low <= 0.0 <= change.before.high for change in changes]) >= 0.85
    assert np.mean([alarm.after.low <= change <= alarm.after.high for alarm in changes]) >= 0.75
    assert all(change.before.value < change.after.value for change in changes)


def test_what_is_told_is_the_mean_of_the_values_as_they_came():
    """Rare large losses are clipped for the decision alone."""
    rng = np.random.default_rng(0)
    values = np.where(rng.random((30_000, 1)) < 0.003, 30.0, rng.random((30_000, 1)))
    values[20_000:] += 2.0
    ((noticed, change),) = run(ChangeDetector(1, one_in=100_000), values)
    n = change.onset.offset
    assert change.clipped > 0.001
    assert change.before.value == pytest.approx(values[WARM_UP:n].mean(), rel=1e-9)
    assert change.after.value == pytest.approx(values[n:noticed].mean(), rel=1e-9)
    assert (change.before.records, change.after.records) == (n - WARM_UP, noticed - n)


def test_after_an_alarm_the_subject_begins_anew_and_nothing_is_said_before_warm_up_and_baseline():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(14_000, 1))
    values[5_000:] += 3.0
    values[5_500:] -= 3.0  # within the new warm-up
    values[12_000:] += 3.0
    noticed = [at for at, _ in run(ChangeDetector(1, one_in=10_000), values)]
    assert len(noticed) == 2
    assert 5_000 < noticed[0] <= 5_100 and 12_000 < noticed[1] <= 12_100
    early = np.concatenate([np.zeros((1_500, 1)), np.ones((400, 1))]) + 0.1 * rng.normal(size=(1_900, 1))
    assert not run(ChangeDetector(1, one_in=10_000), early)


def test_a_change_below_the_tolerance_is_none_and_the_tolerance_is_that_of_the_warm_up():
    rng = np.random.default_rng(2)
    values = rng.normal(size=(20_000, 2))
    values[8_000:] += 0.5
    detector = ChangeDetector(2, one_in=10_000)
    found = run(detector, values[:1_000], min_change=np.array([0.6, 0.1]))
    found += run(detector, values[1_000:], 1_000, min_change=np.array([0.0, 100.0]))
    assert [change.subject for _, change in found] == [1]


def test_no_change_is_noticed_that_is_below_the_floor():
    rng = np.random.default_rng(4)
    detector = ChangeDetector(3, one_in=10_000)
    run(detector, rng.normal(size=(1_900, 3)))
    assert np.isnan(detector.floor()).all()
    run(detector, rng.normal(size=(8_100, 3)), 1_900, min_change=0.25)
    h = math.log(3 * 10_000 / BLOCK)
    np.testing.assert_allclose(detector.floor(), math.sqrt(2.0 * h / 9_000), rtol=0.05)


def test_a_subject_that_comes_late_is_watched_from_its_own_first_whole_block():
    rng = np.random.default_rng(6)
    late = rng.normal(7.0, 1.0, size=(8_000, 1))
    late[5_000:] += 1.0
    detector = ChangeDetector(1, one_in=10_000)
    run(detector, rng.normal(size=(3_020, 1)))
    detector.grow(2)
    both = np.column_stack([rng.normal(size=8_000), late])
    ((_, change),) = run(detector, both, 3_020)
    assert change.subject == 1
    assert abs(change.onset.offset - 8_020) <= BLOCK
    assert change.before.records == change.onset.offset - 3_050 - WARM_UP
    assert change.before.low < 7.0 < change.before.high


def test_a_subject_without_variance_is_quiet_and_one_that_starts_to_vary_is_not():
    rng = np.random.default_rng(6)
    values = np.zeros((9_000, 2))
    values[5_020:, 1] = rng.random(3_980) < 0.5
    found = run(ChangeDetector(2, one_in=10_000), values)
    assert [change.subject for _, change in found] == [1]
    assert found[0][1].before.value == 0.0


@pytest.mark.parametrize("size", [1.0, 1e-12, -1e9])
def test_a_constant_that_becomes_another_is_dated_and_told_to_the_record(size):
    values = np.zeros((6_000, 1))
    values[5_000:] = size
    ((at, change),) = run(ChangeDetector(1, one_in=10_000), values)
    assert at <= 5_100
    assert (change.onset.offset, change.before.value) == (5_000, 0.0)
    assert change.after.value == pytest.approx(size, rel=1e-12)
    assert change.earliest.offset < 5_000 < change.latest.offset


@pytest.mark.parametrize(
    "change",
    [
        {"pending": block(np.zeros((BLOCK, 2)))},
        {"pending": block(np.full((3, 2), np.nan))},
        {"cells": block(np.zeros((7, 2)))},
        *({"cells": block(np.where(np.arange(8)[:, None] == row, value, np.zeros((8, 2))))} for row, value in ((0, 0.5), (0, -2.0), (1, 1e100), (2, 1e100), (3, 1e150), (6, -1e100))),
        {"sizes": block(np.zeros(1, np.int64)), "buckets": block(np.zeros((2, 8, 1))), "starts": block(np.zeros((2, 2), np.int64))},
        {"starts": block(np.zeros((9, 2), np.int64))},
        {"buckets": block(np.zeros((3, 8, 0)))},
    ],
)  # fmt: skip
def test_a_state_that_is_none_is_refused(change):
    state = msgspec.structs.replace(ChangeDetector(2, one_in=10_000).state(), **change)
    with pytest.raises(StateError):
        ChangeDetector(2, one_in=10_000).restore(state, 2)


def test_alarms_with_onsets_in_common_have_one_cause():
    causes = Causes()
    assert [causes.of(*onsets) for onsets in [(10, 20), (15, 30), (18, 19), (24, 30), (1, 12)]] == [
        1,
        1,
        1,
        2,
        3,
    ]
    restored = Causes()
    restored.restore(causes.state())
    assert restored.of(32, 40) == causes.of(32, 40) == 2  # a range counts half as wide again
    with pytest.raises(StateError):
        restored.restore(CausesState(1, [(2, 0, 1)]))
    with pytest.raises(StateError):
        restored.restore(CausesState(1, [(1, 2, 1)]))


def weekly(rng, weeks, amplitude=1.0, subjects=4, records=2_000):
    """Hours, and values whose mean is another in each quarter of each day of the week."""
    hours = np.repeat(np.arange(weeks * 168), rng.poisson(records / 168, weeks * 168))
    profile = amplitude * np.repeat(rng.normal(size=(28, subjects)), 6, axis=0)
    return hours, profile[hours % 168] + rng.normal(size=(len(hours), subjects))


def run_by_hour(detector, values, hours, start=0):
    """As ``run``, with event times."""
    found = []
    for i, (row, hour) in enumerate(zip(values, hours.tolist(), strict=True), start):
        if detector.add(row, [Position(i, hour * 3_600_000 + 1_234)]):
            found += [(i + 1, change) for change in detector.end_block()]
    return found


def test_a_season_of_the_week_raises_no_alarm_where_it_is_known_and_many_where_it_is_not():
    hours, values = weekly(np.random.default_rng(0), 10, subjects=20)
    assert not run_by_hour(ChangeDetector(20, one_in=20_000, season="week"), values, hours)
    assert len(run_by_hour(ChangeDetector(20, one_in=20_000), values, hours)) > 15


@pytest.mark.parametrize("season", ["week", "auto"])
def test_a_level_shift_within_seasons_is_noticed_once_dated_and_told_without_the_season(season):
    hours, values = weekly(np.random.default_rng(1), 16, amplitude=0.6 if season == "auto" else 2.0)
    if season == "auto":  # every day alike, so that the season of the day holds from the third day on
        profile = np.random.default_rng(2).normal(size=(24, 4))
        values = profile[hours % 24] + np.random.default_rng(3).normal(size=values.shape)
    at = int(np.searchsorted(hours, 8 * 168 + 61))
    level = values[:at].mean(axis=0)
    values[at:] += 0.8
    found = run_by_hour(ChangeDetector(4, one_in=20_000, season=season), values, hours)
    assert sorted(change.subject for _, change in found) == [0, 1, 2, 3]
    for noticed, change in found:
        assert 0 < noticed - at <= 200
        assert change.earliest.offset <= at <= change.latest.offset
        assert change.before.value == pytest.approx(level[change.subject], abs=0.1)
        assert change.after.value - change.before.value == pytest.approx(0.8, abs=0.35)


def test_no_season_is_watched_before_two_of_its_periods_are_known():
    rng = np.random.default_rng(4)
    hours = np.repeat(np.arange(21 * 24), 100)
    values = rng.normal(size=(len(hours), 1))
    values[hours >= 5 * 24] += 2.0
    values[(hours >= 4 * 24) & (hours < 4 * 24 + 12)] += 2.0
    ((noticed, _), *_) = run_by_hour(ChangeDetector(1, one_in=20_000, season="day"), values, hours)
    assert 2 * 2_400 + WARM_UP + BASELINE < noticed <= 4 * 2_400 + 100
    first = hours < 14 * 24
    assert not run_by_hour(ChangeDetector(1, one_in=20_000, season="week"), values[first], hours[first])


def test_a_subject_that_comes_late_has_seasons_of_its_own():
    rng = np.random.default_rng(6)
    hours, values = weekly(rng, 12, subjects=2)
    detector = ChangeDetector(1, one_in=20_000, season="week")
    assert not run_by_hour(detector, values[:5_010, :1], hours[:5_010])
    detector.grow(2)
    assert not run_by_hour(detector, values[5_010:], hours[5_010:], 5_010)
    late = ChangeDetector(1, one_in=20_000, season="week")
    run_by_hour(late, values[5_050:, 1:], hours[5_050:], 5_050)
    np.testing.assert_allclose(detector.floor(2)[1], late.floor(2)[0], rtol=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"hours": None},
        {"profile": block(np.zeros((168, 5, 1)))},
        {"profile": block(np.full((168, 5, 2), -1.0))},
        {"visits": block(np.full(168, -(2**63)))},
        {"seasons": block(np.ones((7, 2)))},
        {"seasons": block(np.full((7, 2), 7.0))},
        {"seasons": block(np.zeros((7, 2)))},
    ],
)
def test_a_stored_season_that_is_none_is_refused(change):
    state = ChangeDetector(2, one_in=10_000, season="week").state()
    with pytest.raises(StateError):
        ChangeDetector(2, one_in=10_000, season="week").restore(msgspec.structs.replace(state, **change), 2)
    with pytest.raises(StateError):
        ChangeDetector(2, one_in=10_000).restore(state, 2)
