"""What river's naive Bayes of a leaf adds up: priors, and a factor for each feature; as logarithms; compiled."""

from __future__ import annotations

import math
from typing import Any

from explain_core.compiling import AVAILABLE, inlined
from explain_core.learners import layout as at
from explain_core.sums import COMPENSATED, total

HALF_LOG_TAU = 0.5 * math.log(math.tau)

SURE = 1.25
"""A square is the C library's pow too where its rounding error is below 0.5/1.25 of a unit in the last place, and pow errs by less than
0.6 of one (glibc: 0.54)."""

if AVAILABLE:
    from numba.extending import intrinsic  # type: ignore[import-untyped, unused-ignore]

    @intrinsic
    def fused(typing: Any, a: Any, b: Any, c: Any) -> Any:
        """a · b + c, rounded once."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fma(*arguments)

        return a(a, b, c), generate


@inlined
def square(value: float, two: float) -> float:
    """``value ** two`` in CPython, whose ** is the C library's pow: its square differs from v · v in the last bit now and then."""
    found = value * value
    rest: float = fused(value, value, -found)  # type: ignore[call-arg, unused-ignore]
    if 1e-280 < found < 1e300 and found + SURE * rest == found:
        return found
    return math.pow(value, two)


@inlined
def priors(leaf: int, n: int, whole: float, stats: Any, classes: Any, places: Any, out: Any) -> None:
    """The logarithms of the classes' shares of a leaf, and by class the place of its vote, −1 for a class without weight."""
    for i in range(n):
        weight = stats[leaf, i]
        places[classes[leaf, i]] = i if weight > 0.0 else -1
        out[i] = math.log(weight / whole) if weight > 0.0 else 0.0


@inlined
def share_of(links: Any, cells: Any, first: int, category: float) -> float:
    """``NominalSplitterClassif.cond_proba`` in a chain of categories."""
    found, whole, lost = -1.0, 0.0, 0.0
    cell = first
    while cell >= 0:
        value = cells[cell, at.WEIGHT]
        if cells[cell, at.CATEGORY] == category:
            found = value
        t = whole + value
        if COMPENSATED:
            lost += (whole - t) + value if abs(whole) >= abs(value) else (value - t) + whole
        whole = t
        cell = links[cell, at.NEXT_CELL]
    if COMPENSATED and lost != 0.0 and math.isfinite(lost):
        whole += lost
    return found / whole if found >= 0.0 and whole != 0.0 else 0.0


@inlined
def factors(
    observers: Any,
    cells: Any,
    links: Any,
    observer: int,
    value: float,
    two: float,
    places: Any,
    terms: Any,
    n: int,
) -> None:
    """What an observer adds to each vote for that value of its feature, −∞ for nothing; ``places`` are the votes' by class."""
    for i in range(n):
        terms[i] = -math.inf
    cell = observers[observer, at.HEAD_CELL]
    if math.isnan(value):
        cell = -1
    if observers[observer, at.CATEGORICAL] == 0:
        while cell >= 0:
            place = places[links[cell, at.CLASS]]
            freedom = cells[cell, at.WEIGHT] - 1.0
            if place >= 0 and freedom > 0.0:
                variance = cells[cell, at.SQUARES] / freedom
                if variance > 0.0:
                    terms[place] = (
                        square(value - cells[cell, at.MEAN], two) / (-2.0 * variance)
                        - HALF_LOG_TAU
                        - cells[cell, at.HALF_LOG]
                    )
            cell = links[cell, at.NEXT_CELL]
        return
    while cell >= 0:
        place = places[links[cell, at.CLASS]]
        if place >= 0:
            share = share_of(links, cells, links[cell, at.VALUES], value)
            if share > 0.0:
                terms[place] = math.log(share)
        cell = links[cell, at.NEXT_CELL]


@inlined
def normalise(votes: Any, n: int, parts: Any) -> None:
    """Logarithms of votes to probabilities, as river does."""
    highest = votes[0]
    for i in range(1, n):
        highest = max(votes[i], highest)
    for i in range(n):
        below = votes[i] - highest
        parts[i] = math.exp(below) if below != 0.0 else 1.0
    whole = highest + math.log(total(parts, n))
    for i in range(n):
        votes[i] = math.exp(votes[i] - whole)
