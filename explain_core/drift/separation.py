"""Which features tell rows of two windows apart, and whether a change that is not attributable is so without them.

A calendar does so, a version, a new code: a row of one window has nothing alike in the other. Those that do it alone are found by their
shares of values. Of features that only do it together, that is left out by which the trees' odds vary most, then the next.
"""

from __future__ import annotations

import math

import numpy as np

from explain_core.drift.arrays import Codes, totals
from explain_core.drift.change import LEAST_MATCHED, WORTH_SAYING, Separation
from explain_core.drift.conditional import Pair
from explain_core.drift.joint import LIMIT, CodedColumns, Joint, halves_of, log_odds, matched_by

MOST = 5
"""Features, up to which it is worth leaving them out."""
MOST_OF = 0.5
"""Share of the rows without a match that a feature alone tells apart, to be named."""
FITS = 4
"""Times that trees learn to tell the windows apart: less than an attribution costs."""


def of(columns: CodedColumns, solved: Joint, rng: np.random.Generator) -> Separation | None:
    """What tells the rows apart that have nothing alike; None where these are few, or nothing does, or cells were compared.

    ``rng`` is as it was for the game: an attribution without these features has the same trees.
    """
    matched = min(solved.matched)
    if 1.0 - matched <= WORTH_SAYING or solved.cells:
        return None
    attributed = matched >= LEAST_MATCHED
    # Of rows that are few, a feature tells half apart.
    limit = 1.0 - MOST_OF * (1.0 - matched) if attributed else LEAST_MATCHED
    alone = [name for j, name in enumerate(columns.names) if _alike(columns, j) < limit]
    found = [name for name in alone if name is not None]
    if attributed:
        return Separation(tuple(found), True) if found else None
    if len(found) > MOST or None in alone:  # no feature can be left out of a prediction
        return Separation(tuple(found), False) if found else None
    halves = halves_of(columns, rng)
    for fit in range(FITS):
        rest = columns.without(found)
        odds = log_odds(rest, halves)
        if min(float(np.mean(part)) for part in matched_by(odds)) >= LEAST_MATCHED:
            return Separation(tuple(found), True)
        named = [(_told(rest, j, odds), -j) for j, name in enumerate(rest.names) if name is not None]
        if not named or len(found) == MOST or fit == FITS - 1:
            break
        found.append(str(rest.names[-max(named)[1]]))
    return Separation(tuple(found), False) if found else None


def _alike(columns: CodedColumns, j: int) -> float:
    """The smaller share of a window's rows that match the other by this column alone."""
    shares = [
        np.bincount(codes[:, j], minlength=columns.sizes[j]) / max(len(codes), 1) for codes in columns.codes
    ]
    ratio = math.exp(LIMIT)
    return min(
        float(np.sum(own[ratio * other >= own]))
        for own, other in ((shares[0], shares[1]), (shares[1], shares[0]))
    )


def _told(columns: CodedColumns, j: int, odds: Pair) -> float:
    """The share of the odds' variance that is between the values of a column, less what chance gives it (Ezekiel's adjusted R²)."""
    codes: Codes = np.concatenate([part[:, j] for part in columns.codes]).astype(np.int64)
    score = np.concatenate(odds)
    weights = np.concatenate([np.full(len(part), 1.0 / len(part)) for part in odds])
    score = score - np.average(score, weights=weights)
    mass, sums = (totals(codes, terms, columns.sizes[j]) for terms in (weights, weights * score))
    whole = float(np.sum(weights * score**2))
    between = float(np.sum(sums**2 / np.maximum(mass, 1e-300)))
    values = int(np.count_nonzero(mass))
    if whole <= 0.0 or len(codes) <= values:
        return 0.0
    return 1.0 - (1.0 - between / whole) * (len(codes) - 1) / (len(codes) - values)
