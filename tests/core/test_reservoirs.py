"""Reservoirs draw from the distribution that the papers state, tested by chi-square at small sizes."""

import collections
import itertools
import math

import pytest
from scipy import stats

from explain_core.reservoirs import GeometricReservoir, UniformReservoir, make_reservoir

LEVEL = 1e-4


def filled(kind, size, n, seed):
    reservoir = kind(size, seed)
    for i in range(n):
        reservoir.add({"i": i})
    return [row["i"] for row in reservoir.rows]


def subsets(kind):
    """p-value of: each of the 15 pairs of 6 records is equally likely to be the reservoir."""
    counts = collections.Counter(tuple(sorted(filled(kind, 2, 6, seed))) for seed in range(6_000))
    return stats.chisquare([counts[pair] for pair in itertools.combinations(range(6), 2)]).pvalue


def test_every_subset_is_equally_likely_in_a_uniform_reservoir():
    assert subsets(UniformReservoir) > LEVEL


class SkipByTheWeightBefore(UniformReservoir):
    def _draw_skip(self):
        before = self._w
        super()._draw_skip()
        u = math.log(1.0 - self._rng.uniform())
        self._skip = math.floor(u / math.log1p(-before)) if before < 1.0 else 0


def test_the_test_of_subsets_sees_a_skip_drawn_with_the_weight_before():
    assert subsets(SkipByTheWeightBefore) < LEVEL


def test_late_records_are_as_likely_as_early_ones_in_a_uniform_reservoir():
    """The record in the first of three slots, by tenths of a stream of 200."""
    counts = collections.Counter(filled(UniformReservoir, 3, 200, seed)[0] // 20 for seed in range(4_000))
    assert stats.chisquare([counts[tenth] for tenth in range(10)]).pvalue > LEVEL


class Zeros:
    def uniform(self):
        return 0.0

    def below(self, n):
        return 0


def test_a_weight_that_rounds_to_one_skips_nothing():
    reservoir = UniformReservoir(2, 0)
    reservoir._rng = Zeros()  # type: ignore[assignment]
    for i in range(5):
        reservoir.add({"i": i})
    assert reservoir.rows == [{"i": 4}, {"i": 1}]


def test_ages_in_a_geometric_reservoir_are_geometric_with_mean_its_size():
    """A draw is k ≥ 1 steps old with probability p (1−p)^(k−1), p = 1/L (iPFI journal, Sect. 3.1.2)."""
    size, n, repeats = 4, 80, 4_000
    drawn = [n - filled(GeometricReservoir, size, n, seed)[0] for seed in range(repeats)]
    counts = collections.Counter(min(age, 15) for age in drawn)
    expected = [repeats * 0.25 * 0.75 ** (k - 1) for k in range(1, 15)] + [repeats * 0.75**14]
    assert stats.chisquare([counts[k] for k in range(1, 16)], expected).pvalue > LEVEL
    assert sum(drawn) / repeats == pytest.approx(size, rel=0.06)


@pytest.mark.parametrize("kind", ["geometric", "uniform"])
def test_a_reservoir_fills_with_the_first_records_and_never_exceeds_its_size(kind):
    reservoir = make_reservoir(kind, 3, seed=1)
    for i in range(50):
        reservoir.add({"i": i})
        assert len(reservoir.rows) == min(i + 1, 3)
        if i < 3:
            assert reservoir.rows == [{"i": j} for j in range(i + 1)]
    assert len({row["i"] for row in reservoir.rows}) == 3


def test_bad_reservoirs_are_refused():
    with pytest.raises(ValueError, match="'random' is not one of geometric, uniform"):
        make_reservoir("random")  # type: ignore[arg-type]
    for kind in ("geometric", "uniform"):
        with pytest.raises(ValueError, match="size: 0 is not a number of rows"):
            make_reservoir(kind, 0)  # type: ignore[arg-type]
