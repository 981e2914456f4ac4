"""In which features two windows differ, in which sense, and what of the change of the risk goes with each; by tests of the rows, without a model.

A feature is *moved* where its own distribution differs: by χ² of its bins, and the binomial of each bin of which a window has too few rows for that; by location and
spread of their ranks; by the share of missing values. It is *unlike* the others where it is not moved, and neither is another feature, and yet their values do not go together as they
did: by χ² of the one within bins of the other. Both are tested over all features together (Holm 1979) at ``LEVEL`` each.

Moved features come first, the one first whose values say most about the window a row is from (in bits). Nothing says more than the feature
by which rows were drawn, for what merely depends on it is a channel (data-processing inequality); and where a feature was altered by itself,
no other is moved. Of features that do not go together, that comes first which makes most pairs differ.

The part of the risk is the composition effect of Kitagawa (1955): Σ (p₁ − p₀)(m₀ + m₁)/2 over the values of the feature, p being their shares and
m the mean losses there; where only one window has a value, m is that of this window.

An offset or a factor of a single feature changes the inputs, and what they say about the label: it looks like a new concept. So where
one number explains how a feature alone moved, it is undone and the game is played anew. It looks like a fault if

- before, something did not follow: the concept stood out, or another feature no longer went with it; where next to nothing was alike, the model
  erred otherwise for it;
- after, nothing is left: the feature is neither moved nor unlike the others, and neither the concept nor the inputs stand out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import combinations
from types import NoneType
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc, chdtrc, kolmogorov, ndtr

from explain_core.bands import holm
from explain_core.drift.arrays import Codes, Flags, Values, totals
from explain_core.drift.binned import FeatureBins, make_bins
from explain_core.drift.change import LEAST_MATCHED, Difference, Sense, listed
from explain_core.drift.conditional import Pair
from explain_core.drift.joint import Played, cause_by, generator, of_rows
from explain_core.drift.windows import Column, Window
from explain_core.figures import bound, exact
from explain_core.sums import total

LEVEL = 0.01
"""Chance that any feature is named where none differs; once for what is moved, once for what is unlike."""
BINS = 32
"""Bins of a number, at the most."""
COARSE = 8
"""Bins of each of two features that are looked at together, at the most; so many that the shorter window has about ``EXPECTED`` rows in each pair."""
ROWS = 20_000
"""Rows of a window that are looked at, at the most."""
PAIRED = 64
"""Features that are looked at in pairs, at the most: the first of them."""
EXPECTED = 5.0
"""Least number of rows that χ² expects in a cell of either window; cells with fewer are one."""
MOST_OF = 0.5
"""Share of a feature's information that one sense must explain to be called the sense of its change."""
ALSO = 0.1
"""Share of the bits of a suspect that another feature may say too."""
RESIDUE = 0.2
"""Share of an effect that may be left when the number behind it is undone."""
ROUNDING = 1e-9
"""Numbers that differ by this share of the largest are the same."""
QUANTILES = np.linspace(0.05, 0.95, 19)


class Feature(NamedTuple):
    """Both windows' values of a feature, their bins and codes. ``coarse`` are codes of at most ``COARSE`` bins, and ``COARSE`` of missing values."""

    name: str
    columns: tuple[Column, Column]
    bins: FeatureBins
    codes: tuple[Codes, Codes]
    coarse: tuple[Codes, Codes]

    @property
    def shares(self) -> Values:
        """Windows × codes."""
        return np.array([np.bincount(part, minlength=self.bins.size) / len(part) for part in self.codes])

    @property
    def missing(self) -> Flags:
        """Which codes stand for no value."""
        return np.array([value is None for value in self.bins.representatives])


def features_of(
    windows: tuple[Window, Window], without: Collection[str], rng: np.random.Generator
) -> list[Feature]:
    """All features but ``without`` that have more than one value."""
    rows = [None if len(w) <= ROWS else np.sort(rng.permutation(len(w))[:ROWS]) for w in windows]
    found = []
    for name in windows[0].columns:
        if name in without:
            continue
        first, second = (
            window.columns[name] if kept is None else window.columns[name].take(kept)
            for window, kept in zip(windows, rows, strict=True)
        )
        feature = _feature(name, (first, second))
        if feature.bins.size > 1:
            found.append(feature)
    return found


def _feature(name: str, columns: tuple[Column, Column]) -> Feature:
    pooled = columns[0].followed_by(columns[1])
    bins = make_bins(name, pooled, BINS)
    codes = bins.codes(pooled)
    n = len(columns[0].values)
    counts = np.bincount(codes, minlength=bins.size)
    missing = np.array([value is None for value in bins.representatives])
    present = np.where(missing, 0, counts)
    middle = (np.cumsum(present) - 0.5 * present) / max(int(present.sum()), 1)
    few = min(COARSE, max(2, math.isqrt(int(min(n, len(codes) - n) / EXPECTED))))
    coarse = np.where(missing, COARSE, np.minimum((few * middle).astype(np.int64), few - 1))[codes]
    return Feature(name, columns, bins, (codes[:n], codes[n:]), (coarse[:n], coarse[n:]))


def differences(features: Sequence[Feature]) -> list[Difference]:
    """The features that differ, the one first that is most likely the one that itself changed."""
    moved = holm([_moved_chance(feature) for feature in features], LEVEL)
    found = sorted(
        (_described(feature) for feature, yes in zip(features, moved, strict=True) if yes),
        key=lambda difference: -difference.bits,
    )
    rest = [feature for feature, yes in zip(features, moved, strict=True) if not yes][:PAIRED]
    return found + _unlike(rest)


def undone(column: Column, one: Difference, like: Values) -> list[Any]:
    """The values as they were before a shift or a factor; one that differs by rounding alone from one of the sorted numbers ``like`` is that."""
    by = one.by
    if by is None or column.numbers is None:
        raise AssertionError("neither shifted nor scaled")
    back = column.numbers / by if one.sense == "scaled" else column.numbers - by
    slack = ROUNDING * max(np.nanmax(np.abs(column.numbers)), np.nanmax(np.abs(back)))
    at = np.minimum(np.searchsorted(like, back - slack), len(like) - 1)
    back = np.where(np.abs(like[at] - back) <= slack, like[at], back)
    whole = column.kinds <= {int, NoneType}
    return [
        None if value != value else int(value) if whole and value.is_integer() else value
        for value in back.tolist()
    ]


def suspect(features: Sequence[Feature], found: Sequence[Difference]) -> bool | None:
    """Of the feature that alone moved, by one number throughout, and was perhaps measured otherwise: whether another one that goes with it did not follow.

    None where there is no such feature; else it is the first one found.
    """
    if not found or found[0].by is None:
        return None
    if any(one.bits > ALSO * found[0].bits for one in found[1:] if one.sense != "unlike"):
        return None
    at = next(j for j, feature in enumerate(features) if feature.name == found[0].feature)
    before, after = features[at].columns
    others = [*features[:at], *features[at + 1 :]][: PAIRED - 1]
    back = _feature(features[at].name, (before, Column.of(undone(after, found[0], known(before)))))
    alone, excess = _apart(features[at], others)
    still, rest = _apart(back, others)
    bits = information(back.shares, [len(part) for part in back.codes])
    # The number is known from a sample, so a little of what it explains is left.
    left = (still and rest > RESIDUE * excess) or (
        _moved_chance(back) <= LEVEL and bits > RESIDUE * found[0].bits
    )
    return None if left else alone


def _apart(feature: Feature, others: Sequence[Feature]) -> tuple[bool, float]:
    """Whether any of the others has other values beside the same values of the feature, and by how much more than by chance χ² says so."""
    statistic, freedom = _together(feature, others)
    apart = any(holm(chdtrc(freedom, statistic).tolist(), LEVEL))
    return apart, float(np.sum(np.maximum(statistic - freedom, 0.0)))


def _moved_chance(feature: Feature) -> float:
    """The chance of so large a difference of the feature's distributions where there is none (Bonferroni over the tests)."""
    counts = np.array([np.bincount(part, minlength=feature.bins.size) for part in feature.codes], dtype=float)
    missing = feature.missing
    chances = [_chi_squared(counts), *_few_chance(counts)]
    if missing.any() and feature.bins.size > 2:
        chances.append(
            _chi_squared(np.array([counts[:, missing].sum(axis=1), counts[:, ~missing].sum(axis=1)]).T)
        )
    if feature.bins.edges is not None:
        present = counts[:, ~missing]
        pooled = present.sum(axis=0)
        rank = (np.cumsum(pooled) - 0.5 * pooled) / pooled.sum() - 0.5
        chances += [_mean_chance(present, rank), _mean_chance(present, rank**2)]
    return min(1.0, len(chances) * min(chances))


def _chi_squared(counts: Values) -> float:
    statistic, freedom = chi_squared(counts[:, None])
    return float(chdtrc(freedom, statistic)[0]) if freedom[0] else 1.0


def _few_chance(counts: Values) -> list[float]:
    """Of so many, or so few, rows of the shorter window in any of the cells of which χ² expects too few; nothing where there is none."""
    n = counts.sum(axis=1)
    share = float(n.min() / n.sum())
    own, pooled = counts[int(n.argmin())].astype(np.int64), counts.sum(axis=0).astype(np.int64)
    few = (pooled > 0) & (pooled * share < EXPECTED)
    tails = [bdtr(own[few], pooled[few], share), bdtrc(own[few] - 1, pooled[few], share)]
    return [2.0 * int(few.sum()) * float(np.min(tails))] if few.any() else []


def chi_squared(counts: Values) -> Pair:
    """Pearson's statistic of each group of windows × groups × cells, and its degrees of freedom."""
    n = counts.sum(axis=2)
    least = n.min(axis=0) / np.maximum(n.sum(axis=0), 1.0)
    few = counts.sum(axis=0) * least[:, None] < EXPECTED
    rest = np.where(few, counts, 0.0).sum(axis=2, keepdims=True)
    counts = np.concatenate([np.where(few, 0.0, counts), rest], axis=2)
    kept = counts.sum(axis=0) * least[:, None] >= EXPECTED
    counts = np.where(kept, counts, 0.0)
    n = counts.sum(axis=2)
    expected = (n / np.maximum(n.sum(axis=0), 1.0))[:, :, None] * counts.sum(axis=0)
    terms = np.divide((counts - expected) ** 2, expected, out=np.zeros_like(counts), where=expected > 0.0)
    compared = n.min(axis=0) > 0.0
    statistic = np.where(compared, terms.sum(axis=(0, 2)), 0.0)
    return statistic, np.where(compared, np.maximum(kept.sum(axis=1) - 1, 0), 0).astype(float)


def _mean_chance(counts: Values, score: Values) -> float:
    """Of two windows' mean scores that differ so, by the normal distribution; ``counts`` is windows × codes."""
    n, pooled = counts.sum(axis=1), counts.sum(axis=0)
    if not n.all():
        return 1.0
    means = np.einsum("wc,c->w", counts, score) / n
    centre = float(np.sum(pooled * score) / pooled.sum())
    variance = float(np.sum(pooled * (score - centre) ** 2) / pooled.sum())
    error = math.sqrt(variance * float(np.sum(1.0 / n)))
    return float(2.0 * ndtr(-abs(means[1] - means[0]) / error)) if error > 0.0 else 1.0


def information(shares: Values, n: Sequence[int]) -> float:
    """Bits that a value says about the window of its row, windows that weigh the same, less what chance gives (Miller 1955). Never below 0."""
    mixed = shares.mean(axis=0)
    ratio = np.divide(shares, mixed, out=np.ones_like(shares), where=shares > 0.0)
    nats = float(np.mean(np.sum(shares * np.log(ratio), axis=1)))
    chance = (np.count_nonzero(mixed) - 1) / 8.0 * sum(1.0 / size for size in n)
    return max(0.0, float(nats - chance)) / math.log(2.0)


def _described(feature: Feature) -> Difference:
    """The difference of a moved feature, in the sense that explains most of it."""
    shares, missing = feature.shares, feature.missing
    n = [len(part) for part in feature.codes]
    bits = information(shares, n)

    def only(*which: float) -> float:
        """What the shares of some of a window's rows say."""
        return information(np.array([which, 1.0 - np.array(which)]).T, n) / max(bits, 1e-300)

    first, second = shares[:, missing].sum(axis=1).tolist()
    if only(first, second) >= MOST_OF:
        return Difference(feature.name, "missing", bits, first, second)
    if feature.bins.edges is not None:
        return _of_numbers(feature, bits, only)
    for sense, which in (("new", shares[0] == 0.0), ("gone", shares[1] == 0.0)):
        first, second = shares[:, which & ~missing].sum(axis=1).tolist()
        if only(first, second) >= MOST_OF:
            named = [str(feature.bins.representatives[code]) for code in np.flatnonzero(which & ~missing)]
            return Difference(feature.name, sense, bits, first, second, listed(named))  # type: ignore[arg-type]
    moved = shares[1] - shares[0]
    most = int(np.argmax(np.abs(moved) + ROUNDING * (moved > 0.0)))  # of two alike the one that grew
    first, second = shares[:, most].tolist()
    return Difference(feature.name, "shares", bits, first, second, str(feature.bins.representatives[most]))


def _of_numbers(feature: Feature, bits: float, only: Callable[[float, float], float]) -> Difference:
    before, after = (known(column) for column in feature.columns)
    present = [
        len(part) / len(column.values) for part, column in zip((before, after), feature.columns, strict=True)
    ]
    means = float(np.mean(before)), float(np.mean(after))
    mapped = moved_by(before, after)
    if mapped is not None:
        sense, by = mapped
        return Difference(feature.name, sense, bits, *means, by=by)
    # The value whose share changed most, and the values past those of the other window.
    values, places = np.unique(np.concatenate([before, after]), return_inverse=True)
    one, two = (
        np.bincount(part, minlength=len(values)) / part.size for part in np.split(places, [len(before)])
    )
    most = int(np.argmax(np.abs(two - one)))
    ways = [(exact(values[most]), float(one[most]), float(two[most]))]
    for own, other, swapped in ((after, before, False), (before, after, True)):
        for words, outside in (
            (f"above {bound(other.max(), 6)}", own > other.max()),
            (f"below {bound(other.min(), 6)}", own < other.min()),
        ):
            share = float(np.mean(outside))
            ways.append((words, share, 0.0) if swapped else (words, 0.0, share))
    # Else the bound that the values pass most more, or less, often.
    at = int(np.argmax(np.abs(np.cumsum(two - one))))
    past = (f"above {bound(values[at])}", float(one[at + 1 :].sum()), float(two[at + 1 :].sum()))
    words, first, second = next(
        (way for way in ways if only(way[1] * present[0], way[2] * present[1]) >= MOST_OF), past
    )
    first, second = first * present[0], second * present[1]
    kind: Sense = "new" if first == 0.0 else "gone" if second == 0.0 else "shares"
    return Difference(feature.name, kind, bits, first, second, words)


def known(column: Column) -> Values:
    """The numbers that are there, sorted."""
    if column.numbers is None:
        raise AssertionError("bins with edges are of numbers")
    return np.sort(column.numbers[~np.isnan(column.numbers)])


def moved_by(before: Values, after: Values) -> tuple[Literal["shifted", "scaled"], float] | None:
    """The one number that added to all sorted values of the first window, or by which to multiply them, gives the distribution of the second;
    None where there is none (Kolmogorov and Smirnov's test).
    """
    first, second = (np.quantile(part, QUANTILES, method="inverted_cdf") for part in (before, after))
    apart = np.abs(first) > 1e-12 * float(np.abs(first).max())
    size = math.sqrt(len(before) * len(after) / (len(before) + len(after)))
    found: list[tuple[float, Literal["shifted", "scaled"], float]] = []
    ways: tuple[tuple[Literal["shifted", "scaled"], Values, Callable[[Values, float], Values]], ...] = (
        ("shifted", second - first, np.add),
        ("scaled", second[apart] / first[apart], np.multiply),
    )
    for sense, numbers, apply in ways:
        numbers = numbers[(numbers != 0.0) if sense == "shifted" else (numbers > 0.0)]
        if not len(numbers):
            continue
        # The median errs least. Of values on a grid only some quantiles have the very number, which then fits by far better.
        middle = float(np.median(numbers))
        best = min(numbers.tolist(), key=lambda by: _distance(apply(first, by), before, first, after))
        of_middle, of_best = (_distance(apply(before, by), before, before, after) for by in (middle, best))
        found.append((of_best, sense, best) if of_best < 0.5 * of_middle else (of_middle, sense, middle))
    # Of two that explain as much the offset is told; a number that explains hardly more than none does not explain it.
    found.sort(key=lambda one: one[0])
    unmoved = _distance(before, before, before, after)
    fits = (one[1:] for one in found if one[0] <= MOST_OF * unmoved and kolmogorov(size * one[0]) > LEVEL)
    return next(fits, None)


def _distance(mapped: Values, before: Values, own: Values, after: Values) -> float:
    """The largest distance of the distribution functions, of the first window at some values of its own and of the second where these are mapped to.

    Both windows are sorted. Values that differ by rounding alone are the same.
    """
    slack = ROUNDING * max(float(np.abs(after[[0, -1]]).max()), float(np.abs(mapped).max()))
    largest = 0.0
    for side, beyond in (("left", -slack), ("right", slack)):
        first = np.searchsorted(before, own, side=side) / len(before)  # type: ignore[call-overload]
        second = np.searchsorted(after, mapped + beyond, side=side) / len(after)  # type: ignore[call-overload]
        largest = max(largest, float(np.max(np.abs(first - second))))
    return largest


def _unlike(features: Sequence[Feature]) -> list[Difference]:
    """Those whose values go with each other otherwise than they did, the one first that makes most pairs differ."""
    k = len(features)
    pairs = list(combinations(range(k), 2))
    excess, chances = np.zeros((k, k)), []
    for i in range(k - 1):
        statistic, freedom = _together(features[i], features[i + 1 :])
        chances += chdtrc(freedom, statistic).tolist()
        excess[i, i + 1 :] = excess[i + 1 :, i] = statistic - freedom
    left = [pair for pair, yes in zip(pairs, holm(chances, LEVEL), strict=True) if yes]
    found = []
    while left:
        sums = [total(float(excess[pair]) for pair in left if i in pair) for i in range(k)]
        most = max(range(k), key=lambda i: (sums[i], float(excess[i].sum()), -i))
        partner = max(
            (sum(pair) - most for pair in left if most in pair), key=lambda i: (excess[most, i], -i)
        )
        n = sum(map(len, features[most].codes))
        bits = min(1.0, float(excess[most, partner]) / n / math.log(4.0))
        found.append(Difference(features[most].name, "unlike", bits, value=features[partner].name))
        left = [pair for pair in left if most not in pair]
    return found


def _together(feature: Feature, others: Sequence[Feature]) -> Pair:
    """χ² of the values of each other feature within each bin of this one, over the windows, and its degrees of freedom."""
    k, width = len(others), COARSE + 1
    first = np.arange(k)[:, None] * width
    tables = (
        np.array(
            [
                np.bincount(
                    ((first + own) * width + np.array([other.coarse[w] for other in others])).ravel(),
                    minlength=k * width * width,
                )
                for w, own in enumerate(feature.coarse)
            ],
            dtype=float,
        ).reshape(2, k * width, width)
        if k
        else np.zeros((2, 0, width))
    )
    statistic, freedom = (part.reshape(k, width).sum(axis=1) for part in chi_squared(tables))
    return statistic, np.maximum(freedom, 1.0)


def part_of(feature: Feature, windows: tuple[Window, Window], losses: Pair) -> Pair:
    """Terms of each row of the windows; the sum of their means is the part of the change of the risk that goes with the feature."""
    codes = [feature.bins.codes(window.columns[feature.name]) for window in windows]
    counts = np.array([np.bincount(part, minlength=feature.bins.size) for part in codes], dtype=float)
    shares = counts / counts.sum(axis=1, keepdims=True)
    sums = np.array([totals(part, loss, feature.bins.size) for part, loss in zip(codes, losses, strict=True)])
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0.0)
    weight = np.where(counts[::-1] > 0.0, 0.5, 1.0) * (counts > 0.0)
    level = np.sum(weight * means, axis=0)
    moved = shares[1] - shares[0]
    first, second = (
        sign * level[part]
        + (np.divide(weight[w] * moved, shares[w], out=np.zeros_like(moved), where=shares[w] > 0.0))[part]
        * (loss - means[w][part])
        for w, (sign, part, loss) in enumerate(zip((-1.0, 1.0), codes, losses, strict=True))
    )
    return first, second


def named(
    windows: tuple[Window, Window],
    evaluated: tuple[Window, Window],
    played: Played,
    undo: Callable[[Window], Played],
    without: Collection[str],
    seed: int,
) -> tuple[Difference, ...]:
    """How the features differ, the one first that most likely itself changed; ``played`` and the parts of the risk are of the ``evaluated`` rows.

    ``undo`` plays the joint game with other rows of the target.
    """
    features = features_of(windows, without, generator(seed, "differences"))
    by_name = {feature.name: feature for feature in features}
    found = [
        one
        if one.sense == "unlike"
        else replace(
            one, risk=cause_by("inputs", part_of(by_name[one.feature], evaluated, played.own), played.own)
        )
        for one in differences(features)
    ]
    alone = suspect(features, found)
    if alone is not None:
        first, target = found[0], evaluated[1]
        like = known(by_name[first.feature].columns[0])
        again = undo(target.with_column(first.feature, undone(target.columns[first.feature], first, like)))
        part = cause_by("inputs", (np.zeros(len(played.own[0])), played.own[1] - again.own[1]), played.own)
        game, rest = of_rows(played), of_rows(again)
        followed = not (game.concept if _attributed(played) else part).stands_out and not alone
        most = RESIDUE * max(abs(cause.value) for cause in (game.concept, *game.inputs))
        left = any(cause.stands_out and abs(cause.value) > most for cause in (rest.concept, *rest.inputs))
        if _attributed(again) and not followed and not left:
            found[0] = replace(first, fault=True, risk=part)
    return tuple(found)


def _attributed(played: Played) -> bool:
    return min(played.solved.matched) >= LEAST_MATCHED
