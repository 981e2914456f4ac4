"""Gradient-boosted trees on bin codes (Friedman 2001), stopped by rows that they do not learn from; compiled.

A fit is least squares for a number, the log-odds of a row being one of the second kind for 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explain_core.drift.arrays import Codes, Values
from explain_core.drift.tree import rank_by_score
from explain_core.engine import drift as engine

ROUNDS = 100
"""Trees at the most."""
PATIENCE = 4
"""Trees without a better fit to the other rows, after which no more are grown."""
DEPTH = 3
RATE = 0.25


class TrainingSet(NamedTuple):
    """n × k codes, n targets and weights."""

    codes: Codes
    target: Values
    weights: Values


def boosted(
    learnt: TrainingSet,
    tested: TrainingSet,
    more: Codes,
    sizes: Sequence[int],
    unordered: Sequence[int],
    odds: bool,
) -> tuple[Values, Values]:
    """Predictions at ``tested`` and at ``more``, of trees that learn from ``learnt`` and are as many as fit ``tested`` best.

    ``sizes`` are the codes of each feature; those in ``unordered`` are split by the mean target of their codes.
    """
    codes, others = learnt.codes, tested.codes
    if unordered:
        codes, others, more = codes.copy(), others.copy(), more.copy()
        for j in unordered:
            rank = rank_by_score(learnt.codes[:, j], learnt.target, sizes[j]).astype(codes.dtype)
            for part in (codes, others, more):
                part[:, j] = rank[part[:, j]]
    # Odds are kept as such: a tree multiplies those of a leaf's rows by one factor, and no row needs an exponential.
    start = 1.0 if odds else float(np.sum(learnt.target * learnt.weights) / np.sum(learnt.weights))
    found, further = np.full(len(others), start), np.full(len(more), start)
    if codes.shape[1]:
        weights, kinds = np.unique(tested.weights, return_inverse=True)
        kernel = (odds, max(sizes), ROUNDS, PATIENCE, DEPTH, RATE, found, further)
        engine.boost(
            codes, learnt.target, learnt.weights, others, tested.target, weights, kinds, more, *kernel
        )
    return (np.log(found), np.log(further)) if odds else (found, further)
