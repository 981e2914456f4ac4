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
MOST = 2.0
"""Log-odds that a tree adds to a row, at the most: those of a hundred trees are still odds that a float can hold."""


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
        _boost(codes, learnt.target, learnt.weights, others, tested.target, weights, kinds, more, *kernel)
    return (np.log(found), np.log(further)) if odds else (found, further)


@inner
def _deviance(state: Any, target: Any, weights: Any, kinds: Any, product: Any, odds: bool) -> Any:
    """``kinds`` are the positions of the rows' weights in ``weights``; ``product`` is as long, all ones."""
    if not odds:
        total = 0.0
        for i in range(len(state)):
            total += weights[kinds[i]] * (target[i] - state[i]) ** 2
        return total
    # The logarithm of a product is the sum of logarithms, and rows of one weight need one.
    total = 0.0
    for i in range(len(state)):
        o, kind = state[i], kinds[i]
        product[kind] *= 1.0 + (1.0 / o if target[i] > 0.5 else o)
        if product[kind] > 1e200:
            total += weights[kind] * np.log(product[kind])
            product[kind] = 1.0
    for kind in range(len(weights)):
        total += weights[kind] * np.log(product[kind])
        product[kind] = 1.0
    return total


@inner
def _add(codes: Any, depth: int, feature: Any, threshold: Any, value: Any, odds: bool, state: Any) -> None:
    """Add the tree's prediction to that of each row, or multiply the odds by it."""
    for i in range(len(codes)):
        node = 0
        for _ in range(depth):
            node = 2 * node + 1 + (1 if codes[i, feature[node]] > threshold[node] else 0)
        leaf = node - len(feature)
        if odds:
            state[i] *= value[leaf]
        else:
            state[i] += value[leaf]


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
            left, right = left_h + SHRINKAGE, h - left_h + SHRINKAGE
            gain = left_g * left_g * right + right_g * right_g * left
            if gain > best * left * right:
                best = gain / (left * right)
                feature[node] = j
                threshold[node] = code


@inner
def _sum(codes: Any, terms: Any, order: Any, starts: Any, nodes: int, cells: Any) -> None:
    """From the sums of the parents those of a level's nodes. Of two siblings the smaller is summed; the other is what is left."""
    if nodes == 1:
        _sum_rows(codes, terms, order[: starts[1]], cells[0])
        return
    for parent in range(nodes // 2 - 1, -1, -1):
        first, middle, last = starts[2 * parent], starts[2 * parent + 1], starts[2 * parent + 2]
        small = middle - first < last - middle
        left, right, whole = cells[2 * parent], cells[2 * parent + 1], cells[parent]
        _sum_rows(codes, terms, order[first:middle] if small else order[middle:last], right)
        for j in range(cells.shape[1]):
            for code in range(cells.shape[2]):
                for term in range(3):
                    own = right[j, code, term]
                    other = whole[j, code, term] - own
                    left[j, code, term] = own if small else other
                    right[j, code, term] = other if small else own


@inner
def _sum_rows(codes: Any, terms: Any, rows: Any, sums: Any) -> None:
    for j in range(sums.shape[0]):
        for code in range(sums.shape[1]):
            for term in range(3):
                sums[j, code, term] = 0.0
    for row in rows:
        g, h, n = terms[row, 0], terms[row, 1], terms[row, 2]
        for j in range(sums.shape[0]):
            cell = sums[j, codes[row, j]]
            cell[0] += g
            cell[1] += h
            cell[2] += n


@inner
def _part(codes: Any, order: Any, rows: Any, starts: Any, nodes: int, feature: Any, threshold: Any) -> None:
    """Write the rows of each node to ``rows``, those of its left child first."""
    for node in range(nodes - 1, -1, -1):
        first, last = starts[node], starts[node + 1]
        split, most = feature[nodes - 1 + node], threshold[nodes - 1 + node]
        left, right = first, last - 1
        for i in range(first, last):
            row = order[i]
            rows[left] = row
            rows[right] = row
            goes = 1 if codes[row, split] > most else 0
            left += 1 - goes
            right -= goes
        starts[2 * node + 1], starts[2 * node + 2] = left, last


@compiled
def _boost(
    codes: Any,
    target: Any,
    weights: Any,
    others: Any,
    others_target: Any,
    others_weights: Any,
    others_kinds: Any,
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
    """Raise the predictions ``found`` of ``others`` and ``further`` of ``more``, which start from a constant."""
    n, k = codes.shape
    leaves = 2**depth
    state = np.full(n, found[0])
    trial, trial_further = np.empty(len(found)), np.empty(len(further))
    put(found, trial)
    put(further, trial_further)
    # What a row adds to the sums of its cells: gradient, curvature, itself.
    terms = np.ones((n, 3))
    cells = np.empty((2 ** (depth - 1), k, width, 3))
    order, rows = np.arange(n), np.empty(n, dtype=np.int64)
    feature = np.empty(leaves - 1, dtype=np.int64)
    threshold = np.empty(leaves - 1, dtype=np.int64)
    value = np.empty(leaves)
    starts, product = np.empty(leaves + 1, dtype=np.int64), np.ones(len(others_weights))
    best, since = _deviance(trial, others_target, others_weights, others_kinds, product, odds), 0
    # In nats; of least squares by the variance that there is at first.
    gain = GAIN if odds else 2.0 * GAIN * best / len(others)
    for _ in range(rounds):
        for i in range(n):
            if odds:
                p = 1.0 - 1.0 / (1.0 + state[i])
                terms[i, 0] = weights[i] * (target[i] - p)
                terms[i, 1] = weights[i] * p * (1.0 - p)
            else:
                terms[i, 0] = weights[i] * (target[i] - state[i])
                terms[i, 1] = weights[i]
        starts[0], starts[1] = 0, n
        for level in range(depth):
            nodes = 2**level
            for node in range(nodes - 1, 2 * nodes - 1):
                feature[node], threshold[node] = 0, width  # not split: all rows go to the left
            _sum(codes, terms, order, starts, nodes, cells)
            for node in range(nodes):
                _split(cells[node], nodes - 1 + node, feature, threshold)
            _part(codes, order, rows, starts, nodes, feature, threshold)
            order, rows = rows, order
        for leaf in range(leaves):
            g = h = 0.0
            for i in range(starts[leaf], starts[leaf + 1]):
                g += terms[order[i], 0]
                h += terms[order[i], 1]
            value[leaf] = rate * g / (h + SHRINKAGE)
            if odds:
                value[leaf] = np.exp(min(max(value[leaf], -MOST), MOST))
            for i in range(starts[leaf], starts[leaf + 1]):
                if odds:
                    state[order[i]] *= value[leaf]
                else:
                    state[order[i]] += value[leaf]
        _add(others, depth, feature, threshold, value, odds, trial)
        _add(more, depth, feature, threshold, value, odds, trial_further)
        deviance = _deviance(trial, others_target, others_weights, others_kinds, product, odds)
        if deviance < best - gain:
            best, since = deviance, 0
            put(trial, found)
            put(trial_further, further)
        else:
            since += 1
            if since == patience:
                break
