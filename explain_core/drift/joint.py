"""The joint game, DBShap's eq. (12) and (13): concept, hypothesis and inputs P(x) whole, on the rows of both windows.

R(c, h, w) is the risk of hypothesis h where y follows the concept of window c and x the inputs of window w. With c = w it
is a mean of losses that were seen. The others are estimated with two functions, learnt on one half of the rows and used on the
other: m_c(x), the mean loss in window c at x, and r(x), the ratio of x's density in w to that in c:

    R(c, h, w) = mean over w of m_c(x) + mean over c of r(x)·(loss − m_c(x)).

The estimate is right if either function is (doubly robust), and no row is judged by a function that has seen it (cross-fitted), so windows of
unequal size do not bias it: Chernozhukov et al. 2018, Double/debiased machine learning. Every Shapley value is then
a sum of one mean per window, and its standard error that of two means.

A row *matches* the other window where P(w | x) is at most 1 − ``UNMATCHED``. For a row that does not, y in
the other window is not known. Its own loss is taken, so its effect counts as inputs and not as concept.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import stdtrit

from explain_core.drift.arrays import Codes, Flags, Values
from explain_core.drift.binned import Binned, FeatureBins, make_bins
from explain_core.drift.boosting import TrainingSet, boosted
from explain_core.drift.change import LEVEL, Attribution, Cause
from explain_core.drift.conditional import CellIndex, Pair
from explain_core.drift.hypothesis import Hypothesis
from explain_core.drift.predictions import Predictions, outputs, own_losses
from explain_core.drift.windows import Column, Window
from explain_core.losses import Loss
from explain_core.random import derive_seed

BINS = 32
"""Bins of a number, at the most."""
UNMATCHED = 0.05
LIMIT = math.log((1.0 - UNMATCHED) / UNMATCHED)
EXACT_BACK_OFF = 0.05
"""Rows of a window in cells that the other lacks, up to which cells serve in place of trees."""
CODE: Any = np.uint8
"""Small codes make small tables: fits take two thirds of the time."""
GROWS = 0.99
PARTS = 10
"""A number is a clock that does not fall from ``GROWS`` of the rows to the next, and grows by its medians in so many parts of each window: a flag
that is set for a while goes back."""
FEW = 50
"""The variance of a window of fewer rows is that of both windows together, at least: its own is 0 where no row happens to be wrong. Of one that is shorter than
the other by a share it is this share of that, at least: of heavy tails a short window has often seen nothing."""


class CodedColumns(NamedTuple):
    """Rows × features as codes of both windows; ``exact`` where a code is one value of its feature. A prediction has no name."""

    names: list[str | None]
    codes: tuple[Codes, Codes]
    sizes: list[int]
    unordered: list[int]
    exact: bool

    def without(self, names: Collection[str]) -> CodedColumns:
        kept = [j for j, name in enumerate(self.names) if name not in names]
        return CodedColumns(
            [self.names[j] for j in kept],
            (self.codes[0][:, kept], self.codes[1][:, kept]),
            [self.sizes[j] for j in kept],
            [i for i, j in enumerate(kept) if j in self.unordered],
            self.exact,
        )


class Joint(NamedTuple):
    """The game solved. ``scores[w]`` is players × rows of window w; a player's value is the sum of its two means.

    ``matched`` are the shares of each window's rows that match the other.
    """

    scores: Pair
    matched: tuple[float, float]
    cells: bool

    @property
    def values(self) -> Values:
        return np.asarray(self.scores[0].mean(axis=1) + self.scores[1].mean(axis=1))


def standard_error(first: Values, second: Values) -> Values:
    """Of the sum of a mean of the baseline's rows and one of the target's, along the last axis."""
    n = first.shape[-1], second.shape[-1]
    own = [part.var(axis=-1, ddof=1) for part in (first, second)]
    both = (own[0] * (n[0] - 1) + own[1] * (n[1] - 1)) / (n[0] + n[1] - 2)
    least = [1.0 if rows < FEW else 1.0 - rows / max(n) for rows in n]
    parts = [np.maximum(var, share * both) for var, share in zip(own, least, strict=True)]
    return np.sqrt(parts[0] / n[0] + parts[1] / n[1])  # type: ignore[no-any-return]


def skewness(first: Values, second: Values) -> Values:
    """Of the same sums, each a sum of independent terms; 0 where nothing varies. Of windows that are alike the two parts cancel."""
    parts = [part - part.mean(axis=-1, keepdims=True) for part in (first, second)]
    # Third powers of large losses overflow; to divide by a power of two rounds nothing.
    scale = int(np.frexp(max(np.abs(part).max(initial=0.0) for part in parts))[1])
    third = sum((np.ldexp(part, -scale) ** 3).sum(axis=-1) / part.shape[-1] ** 3 for part in parts)
    cubed = np.ldexp(standard_error(first, second), -scale) ** 3
    return np.asarray(np.divide(third, cubed, out=np.zeros_like(cubed), where=cubed > 0.0))


def clocks(windows: tuple[Window, Window], names: Iterable[str]) -> list[str]:
    """Those of the features that grow, or fall, from row to row of both windows, and share no values: times, counters."""
    found = []
    for name in names:
        before, after = windows[0].columns[name], windows[1].columns[name]
        if not all(type(column.values[at]) in (int, float) for column in (before, after) for at in (0, -1)):
            continue
        if before.numbers is None or after.numbers is None:
            continue
        numbers = (before.numbers, after.numbers)
        parts = [_medians(column[~np.isnan(column)]) for column in numbers]
        for sign in (1.0, -1.0):
            if (
                all(np.mean(sign * np.diff(column) >= 0.0) >= GROWS for column in numbers)
                and all(medians[0] != medians[-1] for medians in parts)
                and np.all(sign * np.diff(parts[0] + parts[1]) >= 0.0)
            ):
                found.append(name)
                break
    return found


def _medians(numbers: Values) -> list[np.floating[Any]]:
    return [np.median(part) for part in np.array_split(numbers, min(PARTS, len(numbers)))]


def make_columns(data: Binned, without: Sequence[str], predicted: Sequence[Sequence[Any]]) -> CodedColumns:
    """The features but ``without``, and what the hypotheses predicted, binned too."""
    n = len(data.windows[0])
    kept = [j for j, bin_ in enumerate(data.bins) if bin_.feature not in without]
    columns: list[tuple[str | None, FeatureBins, Codes]] = [
        (data.bins[j].feature, data.bins[j], np.concatenate([codes[:, j] for codes in data.codes]))
        for j in kept
    ]
    for before, after in predicted:
        pooled = Column.of(before).followed_by(Column.of(after))
        bins = make_bins("prediction", pooled, BINS)
        columns.append((None, bins, bins.codes(pooled)))
    columns = [column for column in columns if column[1].size > 1]
    table: Codes = np.zeros((n + len(data.windows[1]), len(columns)), dtype=CODE)
    for i, (_, _, codes) in enumerate(columns):
        table[:, i] = codes
    return CodedColumns(
        [name for name, _, _ in columns],
        (table[:n], table[n:]),
        [bins.size for _, bins, _ in columns],
        [i for i, (_, bins, _) in enumerate(columns) if bins.edges is None],
        all(data.bins[j].exact for j in kept),
    )


def solve(columns: CodedColumns, losses: Pair, form: str, rng: np.random.Generator) -> Joint:
    """The game on ``losses[w]``, hypotheses × rows of window w. ``form`` is table, tree, or auto: cells where a code is a
    value and hardly any cell lacks rows of a window, else trees.
    """
    found = None
    if form == "table" or (form == "auto" and columns.exact):
        found = _by_cells(columns, losses, EXACT_BACK_OFF if form == "auto" else 1.0)
    cells = found is not None
    means, ratios, matched = found or _by_trees(columns, losses, rng)
    k = 3 if len(losses[0]) == 2 else 2
    shares = _shapley(k)
    scores = []
    for w in (0, 1):
        own, mean, known = losses[w], means[w], matched[w]
        # risks[c, h, inputs] as this window's rows add to them
        risks = np.zeros((2, len(own), 2, own.shape[1]))
        risks[w, :, w] = own
        risks[1 - w, :, w] = np.where(known, mean[1 - w], own)
        risks[w, :, 1 - w] = ratios[w] * (own - mean[w])
        scores.append(np.einsum("pv,vn->pn", shares, risks.reshape(2**k, -1)))
    first, second = (float(np.mean(part)) for part in matched)
    return Joint((scores[0], scores[1]), (first, second), cells)


Halves = list[tuple[list[Codes], list[Codes]]]
"""Twice the rows of each window that are learnt from, and those that are judged."""


def halves_of(columns: CodedColumns, rng: np.random.Generator) -> Halves:
    halves = [rng.permutation(len(part)) % 2 == 0 for part in columns.codes]
    return [
        (
            [np.flatnonzero(in_half != half) for in_half in halves],
            [np.flatnonzero(in_half == half) for in_half in halves],
        )
        for half in (False, True)
    ]


def log_odds(columns: CodedColumns, halves: Halves, weights: Pair | None = None) -> Pair:
    """The log-odds of the target at each row: by default of windows that weigh the same, the log-ratio of their densities."""
    codes = columns.codes
    odds = np.empty(len(codes[0])), np.empty(len(codes[1]))

    def both(rows: list[Codes]) -> TrainingSet:
        sizes = [len(chosen) for chosen in rows]
        if weights is None:
            least = min(sizes)  # the shorter window limits what is known
            weigh = np.repeat([least / size for size in sizes], sizes)
        else:
            weigh = np.concatenate([part[chosen] for part, chosen in zip(weights, rows, strict=True)])
        given = np.concatenate([part[chosen] for part, chosen in zip(codes, rows, strict=True)])
        return TrainingSet(given, np.repeat([0.0, 1.0], sizes), weigh)

    for learnt, served in halves:
        score, _ = boosted(both(learnt), both(served), codes[0][:0], columns.sizes, columns.unordered, True)
        odds[0][served[0]], odds[1][served[1]] = score[: len(served[0])], score[len(served[0]) :]
    return odds


def matched_by(odds: Pair) -> tuple[Flags, Flags]:
    """The row's own window may be as much more likely, the other one may be however likely."""
    return odds[0] >= -LIMIT, odds[1] <= LIMIT


_Helps = tuple[tuple[Values, Values], Pair, tuple[Flags, Flags]]
"""Per window the mean losses at its rows, 2 × hypotheses × n, by the window they are of; the ratio; whether they match."""


def _by_trees(columns: CodedColumns, losses: Pair, rng: np.random.Generator) -> _Helps:
    codes = columns.codes
    halves = halves_of(columns, rng)
    means = [np.empty((2, len(losses[0]), len(part))) for part in codes]
    for learnt, served in halves:
        for w in (0, 1):
            for h, loss in enumerate(losses[w]):
                part, tested = (
                    TrainingSet(codes[w][chosen], loss[chosen], np.ones(len(chosen)))
                    for chosen in (learnt[w], served[w])
                )
                more = codes[1 - w][served[1 - w]]
                own, other = boosted(part, tested, more, columns.sizes, columns.unordered, False)
                means[w][w, h, served[w]], means[1 - w][w, h, served[1 - w]] = own, other
    odds = log_odds(columns, halves)
    matched = matched_by(odds)
    ratios = []
    for w, sign in ((0, 1.0), (1, -1.0)):
        ratio = np.where(sign * odds[w] <= LIMIT, np.exp(np.minimum(sign * odds[w], LIMIT)), 0.0)
        total = float(np.mean(ratio))
        ratios.append(ratio * (float(np.mean(matched[1 - w])) / total if total > 0.0 else 0.0))
    return (means[0], means[1]), (ratios[0], ratios[1]), matched


def _by_cells(columns: CodedColumns, losses: Pair, limit: float) -> _Helps | None:
    """Means and shares of each cell of the codes; None where more rows than ``limit`` are in cells that a window lacks."""
    index = CellIndex(np.concatenate(columns.codes).astype(np.int64), columns.sizes)
    cells = [index.find(part.astype(np.int64)) for part in columns.codes]
    counts = np.array([np.bincount(own, minlength=index.size) for own in cells], dtype=float)
    matched = counts[1][cells[0]] > 0.0, counts[0][cells[1]] > 0.0
    if max(1.0 - float(np.mean(matches)) for matches in matched) > limit:
        return None
    at = [
        np.array([np.bincount(own, weights=values, minlength=index.size) for values in loss])
        / np.maximum(count, 1.0)
        for own, loss, count in zip(cells, losses, counts, strict=True)
    ]
    means = [np.array([of[:, own] for of in at]) for own in cells]
    share = counts / counts.sum(axis=1, keepdims=True)
    ratios = [share[1 - w][own] / share[w][own] for w, own in enumerate(cells)]
    return (means[0], means[1]), (ratios[0], ratios[1]), matched


def _shapley(k: int) -> Values:
    """Players × corners of the cube of coalitions: the shares with which the corners' risks add to each player's value."""
    corners = np.indices((2,) * k).reshape(k, -1)
    size = corners.sum(axis=0)
    joined = np.array([math.factorial(max(s - 1, 0)) * math.factorial(k - s) for s in range(k + 1)])
    apart = np.array([math.factorial(s) * math.factorial(max(k - s - 1, 0)) for s in range(k + 1)])
    result: Values = np.where(corners == 1, joined[size], -apart[size]) / math.factorial(k)
    return result


ROUNDING = 1e-12
"""Intervals are widened by this share of the risk: sums of floats are not exact."""


class Played(NamedTuple):
    """The joint game on some rows. ``own`` are the losses of the rows of each window under the hypothesis of that window."""

    predictions: list[list[Predictions]]
    columns: CodedColumns
    solved: Joint
    own: Pair


def play(
    data: Binned,
    hypotheses: Sequence[Hypothesis],
    loss: Loss,
    form: Literal["auto", "table", "tree"],
    without: Sequence[str],
    seed: int,
    before: Sequence[Predictions] | None = None,
) -> Played:
    """The joint game; ``before`` are the predictions for the baseline where they are known."""
    windows = data.windows
    predictions = [
        [q.on_rows(windows[0]) if before is None else before[i], q.on_rows(windows[1])]
        for i, q in enumerate(hypotheses)
    ]
    own = [
        np.array([own_losses(loss, of_q[w], window.y, data.classes, w) for of_q in predictions])
        for w, window in enumerate(windows)
    ]
    predicted = [column for of_q in predictions for column in outputs(of_q)]
    columns = make_columns(data, without, predicted)
    solved = solve(columns, (own[0], own[1]), form, generator(seed, "joint"))
    return Played(predictions, columns, solved, (own[0][0], own[1][-1]))


def of_rows(played: Played) -> Attribution:
    """The joint game's values with the intervals of their two means.

    Of windows of unequal size the shorter one decides, and where its losses are skewed, value and standard error err together: Student's
    interval is too short, which to first order a share of γ² (z⁴ + 2z² − 3)/18 mends, γ being the value's skewness (Hall 1992, Sect. 2.6).
    """
    solved, own = played.solved, played.own
    names = ["concept", *["hypothesis"] * (len(played.predictions) - 1), "inputs"]
    deviations = standard_error(*solved.scores)
    risks = risks_of(own)
    reach = quantile(len(names), min(map(len, own)) - 1)
    reaches = reach * (1.0 + skewness(*solved.scores) ** 2 * (reach**4 + 2.0 * reach**2 - 3.0) / 18.0)
    causes = [
        cause_of(name, float(value), 0.0, float(std), float(wide), risks)
        for name, value, std, wide in zip(names, solved.values, deviations, reaches, strict=True)
    ]
    first, *between, last = causes
    route = "cells" if solved.cells else "trees"
    return Attribution(first, between[0] if between else None, (last,), *risks, route, sum(map(len, own)))


def cause_of(
    name: str, value: float, error: float, std: float | None, reach: float, risks: tuple[float, float]
) -> Cause:
    if std is None:
        return Cause(name, value, error, None, None, None)
    width = reach * std + ROUNDING * max(map(abs, risks))
    return Cause(name, value, error, std, value - width, value + width)


def cause_by(name: str, terms: Pair, own: Pair) -> Cause:
    """The sum of the two means of the terms, with its interval; ``own`` as in ``Played``."""
    value = float(np.mean(terms[0]) + np.mean(terms[1]))
    reach = quantile(1, min(map(len, terms)) - 1)
    return cause_of(name, value, 0.0, float(standard_error(*terms)), reach, risks_of(own))


def risks_of(own: Pair) -> tuple[float, float]:
    return float(np.mean(own[0])), float(np.mean(own[1]))


def quantile(players: int, freedom: int) -> float:
    """Half the width in standard errors of intervals that hold for all players at once (Bonferroni, Student's t)."""
    return float(stdtrit(freedom, 1.0 - (1.0 - LEVEL) / 2.0 / players))


def generator(seed: int, purpose: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(derive_seed(seed, purpose)))
