"""Where the concept changed: the value of a feature, or the range of a number, at which most of its effect is made by few of the rows.

A row adds its score to the concept's Shapley value (``explain_core.drift.joint``). Of all values and ranges that is taken at which the share of
the effect is most above that of the rows. It is named if it has most of the effect, and more than its rows by a margin that chance does
not give to any of those looked at (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from scipy.special import ndtri

from explain_core.drift import joint
from explain_core.drift.arrays import Flags, totals
from explain_core.drift.binned import Binned, FeatureBins
from explain_core.drift.change import Where
from explain_core.drift.conditional import Pair
from explain_core.figures import bound, exact

LEVEL = 0.01
"""Chance that a place is named where all rows have an equal part in the effect."""
MOST = 0.6
"""Least share of the effect at the place ..."""
MORE = 0.3
"""... and by how much it is above the share of the rows."""


def where(data: Binned, scores: Pair, without: Collection[str]) -> Where | None:
    """The place; None where there is none. ``scores`` are the concept's of the rows of each window."""
    effect = float(scores[0].mean() + scores[1].mean())
    best: tuple[float, int, Flags, float, float] | None = None
    candidates = 0
    for j, bins in enumerate(data.bins):
        if bins.feature in without:
            continue
        codes = [part[:, j] for part in data.codes]
        mass = np.mean([np.bincount(part, minlength=bins.size) / len(part) for part in codes], axis=0)
        parts = zip(codes, scores, strict=True)
        share = np.sum([totals(part, score, bins.size) / len(part) for part, score in parts], axis=0)
        for chosen in _places(bins):
            candidates += 1
            of_effect, of_rows = float(np.sum(share[chosen])) / effect, float(np.sum(mass[chosen]))
            if best is None or of_effect - of_rows > best[0]:
                best = (of_effect - of_rows, j, chosen, of_effect, of_rows)
    if best is None or best[0] < MORE or best[3] < MOST:
        return None
    _, j, chosen, of_effect, of_rows = best
    first, second = (
        score * (chosen[part[:, j]] - of_rows) for part, score in zip(data.codes, scores, strict=True)
    )
    reach = -float(ndtri(LEVEL / 2.0 / candidates))
    if abs(float(first.mean() + second.mean())) <= reach * float(joint.standard_error(first, second)):
        return None
    return Where(data.bins[j].feature, _words(data.bins[j], chosen), min(1.0, of_effect), of_rows)


def _places(bins: FeatureBins) -> Iterator[Flags]:
    """Which codes each place has: one value, or the bins of a number that are next to each other."""
    size = bins.size
    if bins.edges is None:
        yield from np.eye(size, dtype=bool)
        return
    numbers = len(bins.edges) + 1
    for first in range(numbers):
        for last in range(first, numbers):
            if last - first + 1 < numbers:
                yield (np.arange(size) >= first) & (np.arange(size) <= last)
    if size > numbers:
        yield np.arange(size) == numbers


def _words(bins: FeatureBins, chosen: Flags) -> str:
    """The place in words, after "is"."""
    codes = np.flatnonzero(chosen)
    first, last = int(codes[0]), int(codes[-1])
    if bins.representatives[first] is None:
        return "missing"
    if bins.edges is None or (first == last and bins.exact):
        value = bins.representatives[first]
        return exact(value) if isinstance(value, float) else str(value)
    low = f"above {bound(bins.edges[first - 1])}" if first else ""
    high = f"at most {bound(bins.edges[last])}" if last < len(bins.edges) else ""
    return " and ".join(filter(None, (low, high)))
