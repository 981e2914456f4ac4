"""Gradient-boosted trees on bin codes (Friedman 2001), stopped by rows that they do not learn from; compiled.

A fit is least squares for a number, the log-odds of a row being one of the second kind for 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from explain_core.compiling import compiled, inner
from explain_core.drift.arrays import Codes, Values
from explain_core.drift.tree import rank_by_score
from explain_core.kernels import put

ROUNDS = 100
"""Trees at the most."""
PATIENCE = 4
"""Trees without a better fit to the other rows, after which no more are grown."""
GAIN = 2.0
"""Log-likelihood, in nats, by which the fit to the other rows must get better for more trees to be kept."""
DEPTH = 3
RATE = 0.25
LEAST = 20.0
"""Rows on both sides of a split, at the least."""
SHRINKAGE = 2.0
"""Weight by which the value of a leaf is shrunk to 0."""


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
    start = 0.0 if odds else float(np.sum(learnt.target * learnt.weights) / np.sum(learnt.weights))
    found, further = np.full(len(others), start), np.full(len(more), start)
    if codes.shape[1]:
        kernel = (odds, max(sizes), ROUNDS, PATIENCE, DEPTH, RATE, found, further)
        _boost(codes, learnt.target, learnt.weights, others, tested.target, tested.weights, more, *kernel)
    return found, further


@inner
def _deviance(score: Any, target: Any, weights: Any, odds: bool) -> Any:
    total = 0.0
    for i in range(len(score)):
        if odds:
            s = score[i]
            total += weights[i] * (np.log1p(np.exp(-abs(s))) + max(s, 0.0) - target[i] * s)
        else:
            total += weights[i] * (target[i] - score[i]) ** 2
    return total


@inner
def _add(codes: Any, depth: int, feature: Any, threshold: Any, value: Any, score: Any) -> None:
    """Add the tree's prediction to the score of each row."""
    for i in range(len(codes)):
        at = 0
        for level in range(depth):
            node = 2**level - 1 + at
            at = 2 * at + (1 if codes[i, feature[node]] > threshold[node] else 0)
        score[i] += value[at]


@inner
def _split(sums: Any, node: int, feature: Any, threshold: Any) -> None:
    """The best threshold from the gradients, curvatures and counts, features × codes × 3, of the rows in a node."""
    k, width, _ = sums.shape
    g = h = n = 0.0
    for code in range(width):
        g += sums[0, code, 0]
        h += sums[0, code, 1]
        n += sums[0, code, 2]
    best = g * g / (h + SHRINKAGE) + 1e-9
    for j in range(k):
        left_g = left_h = left_n = 0.0
        for code in range(width - 1):
            left_g += sums[j, code, 0]
            left_h += sums[j, code, 1]
            left_n += sums[j, code, 2]
            if left_n < LEAST:
                continue
            if n - left_n < LEAST:
                break
            right_g = g - left_g
            gain = left_g * left_g / (left_h + SHRINKAGE) + right_g * right_g / (h - left_h + SHRINKAGE)
            if gain > best:
                best = gain
                feature[node] = j
                threshold[node] = code


@compiled
def _boost(
    codes: Any,
    target: Any,
    weights: Any,
    others: Any,
    others_target: Any,
    others_weights: Any,
    more: Any,
    odds: bool,
    width: int,
    rounds: int,
    patience: int,
    depth: int,
    rate: float,
    found: Any,
    further: Any,
) -> None:
    """Raise the scores ``found`` of ``others`` and ``further`` of ``more``, which start from a constant."""
    n, k = codes.shape
    leaves = 2**depth
    score = np.full(n, found[0])
    trial, trial_further = np.empty(len(found)), np.empty(len(further))
    put(found, trial)
    put(further, trial_further)
    gradient, curvature = np.empty(n), np.empty(n)
    at = np.empty(n, dtype=np.int64)
    feature = np.empty(leaves - 1, dtype=np.int64)
    threshold = np.empty(leaves - 1, dtype=np.int64)
    value = np.empty(leaves)
    best, since = _deviance(trial, others_target, others_weights, odds), 0
    # In nats; of least squares by the variance that there is at first.
    gain = GAIN if odds else 2.0 * GAIN * best / len(others)
    for _ in range(rounds):
        for i in range(n):
            if odds:
                p = 1.0 / (1.0 + np.exp(-score[i]))
                gradient[i] = weights[i] * (target[i] - p)
                curvature[i] = weights[i] * p * (1.0 - p)
            else:
                gradient[i] = weights[i] * (target[i] - score[i])
                curvature[i] = weights[i]
            at[i] = 0
        for node in range(len(feature)):
            feature[node], threshold[node] = 0, width  # not split: all rows go to the left
        for level in range(depth):
            first = 2**level - 1
            sums = np.zeros((first + 1, k, width, 3))
            for i in range(n):
                here, g, h = sums[at[i]], gradient[i], curvature[i]
                for j in range(k):
                    cell = here[j, codes[i, j]]
                    cell[0] += g
                    cell[1] += h
                    cell[2] += 1.0
            for node in range(first + 1):
                _split(sums[node], first + node, feature, threshold)
            for i in range(n):
                node = first + at[i]
                at[i] = 2 * at[i] + (1 if codes[i, feature[node]] > threshold[node] else 0)
        leaf_g, leaf_h = np.zeros(leaves), np.zeros(leaves)
        for i in range(n):
            leaf_g[at[i]] += gradient[i]
            leaf_h[at[i]] += curvature[i]
        for leaf in range(leaves):
            value[leaf] = rate * leaf_g[leaf] / (leaf_h[leaf] + SHRINKAGE)
        for i in range(n):
            score[i] += value[at[i]]
        _add(others, depth, feature, threshold, value, trial)
        _add(more, depth, feature, threshold, value, trial_further)
        deviance = _deviance(trial, others_target, others_weights, odds)
        if deviance < best - gain:
            best, since = deviance, 0
            put(trial, found)
            put(trial_further, further)
        else:
            since += 1
            if since == patience:
                break
