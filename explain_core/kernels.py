"""Compiled arithmetic of the evaluators (numba): draws, copies, losses, smoothing; the same bits as in Python.

Every function here repeats, operation by operation, what the module named in its comment does on dictionaries. Without
numba Python runs them as they are, for trained ensembles; every other model is then explained on dictionaries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from explain_core import losses
from explain_core.compiling import allocating, compiled, inlined, inner
from explain_core.random import GAMMA, MIX_1, MIX_2
from explain_core.sums import total

_STEP, _MIX_1, _MIX_2 = np.uint64(GAMMA), np.uint64(MIX_1), np.uint64(MIX_2)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
EPSILON, CLIPPED = losses.EPSILON, losses.CLIPPED
LARGEST = losses.LARGEST
LIMIT = 1e70
"""An increment counts for at most so much: the squares of a block's variance are still numbers."""
_CROSS_ENTROPY, _ZERO_ONE, _BRIER, _HINGE, _SQUARED, _ABSOLUTE, _HUBER = range(7)
_COMPILED = {
    "cross_entropy": _CROSS_ENTROPY,
    "zero_one": _ZERO_ONE,
    "brier": _BRIER,
    "hinge": _HINGE,
    "squared": _SQUARED,
    "absolute": _ABSOLUTE,
    "huber": _HUBER,
}


def codes_of(chosen: Sequence[losses.Loss]) -> Any:
    """What ``loss`` calls these losses, or None where one of them is not compiled: Python then computes them all."""
    if not all(loss.name in _COMPILED and losses.NAMED[loss.name] is loss for loss in chosen):
        return None
    return np.array([_COMPILED[loss.name] for loss in chosen], np.int64)


@inner
def below(state: Any, n: int) -> Any:
    """``Generator.below`` for n < 2³²; ``state`` is an array of one uint64."""
    state[0] += _STEP
    z = state[0]
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    z = z ^ (z >> _31)
    size = np.uint64(n)
    return np.int64(((z >> _32) * size + (((z & _LOW) * size) >> _32)) >> _32)


@inner
def loss(code: int, y: float, p: Any) -> Any:
    """``explain_core.losses`` on the probabilities p of all classes, y the index of the true one or −1; or on numbers."""
    n = len(p)
    if code == _SQUARED:
        return (y - p[0]) * (y - p[0])
    if code == _ABSOLUTE:
        return abs(y - p[0])
    if code == _HUBER:
        r = abs(y - p[0])
        return 0.5 * r * r if r <= 1.0 else r - 0.5
    own = int(y)
    if code == _CROSS_ENTROPY:
        mass = 0.0
        for i in range(n):
            value = p[i]
            mass += 0.0 if value < 0.0 else (1.0 if value > 1.0 else value)
        mine = p[own] if own >= 0 else 0.0
        mine = 1.0 if mine > 1.0 else mine
        if mine <= EPSILON * mass:
            return CLIPPED
        return (math.log(mass) if mass != 1.0 else 0.0) - math.log(mine)
    if code == _ZERO_ONE:
        best = 0
        for i in range(1, n):
            if p[i] > p[best]:
                best = i
        return 0.0 if best == own else 1.0
    if code == _BRIER:
        result = 0.0 if own >= 0 else 1.0
        for i in range(n):
            difference = p[i] - (1.0 if i == own else 0.0)
            result += difference * difference
        return result
    rival = 0.0
    for i in range(n):
        if p[i] > rival and i != own:
            rival = p[i]
    margin = (p[own] if own >= 0 else 0.0) - rival
    return max(1.0 - margin, 0.0)


@inlined
def put(source: Any, target: Any) -> None:
    """``target[:] = source``, in a sixth of the time that numba takes to compile that."""
    for i in range(len(source)):
        target[i] = source[i]


@allocating
def draw_rows(state: Any, n_rows: int, m: int) -> Any:
    """The m rows that replacements come from."""
    drawn = np.empty(m, np.int64)
    for k in range(m):
        drawn[k] = below(state, n_rows)
    return drawn


@allocating
def draw_replaced(state: Any, x: Any, rows: Any, n_rows: int, starts: Any, columns: Any, m: int) -> Any:
    """x, and iPFI's copies, m for each player: x with the player's columns from each of the m drawn rows."""
    players, drawn = len(starts) - 1, draw_rows(state, n_rows, m)
    copies = np.empty((1 + players * m, len(x)))
    put(x, copies[0])
    for p in range(players):
        for k in range(m):
            copy = copies[1 + p * m + k]
            put(x, copy)
            for i in range(starts[p], starts[p + 1]):
                copy[columns[i]] = rows[drawn[k], columns[i]]
    return copies


@allocating
def draw_order(state: Any, n_rows: int, m: int, order: Any) -> Any:
    """The m rows of iSAGE, and the players' permutation into ``order``."""
    drawn = draw_rows(state, n_rows, m)
    for i in range(len(order)):
        order[i] = i
    for i in range(len(order) - 1, 0, -1):
        j = below(state, i + 1)
        order[i], order[j] = order[j], order[i]
    return drawn


@allocating
def draw_joining(
    state: Any,
    x: Any,
    rows: Any,
    n_rows: int,
    starts: Any,
    columns: Any,
    outside: Any,
    m: int,
    first: int,
    order: Any,
) -> Any:
    """iSAGE's copies, m for each coalition from that of ``first`` players (0 or 1) up to all but one."""
    drawn = draw_order(state, n_rows, m, order)
    players = len(order)
    copies = np.empty(((players - first) * m, len(x)))
    current = np.empty((m, len(x)))
    for k in range(m):
        put(rows[drawn[k]], current[k])
        for i in range(len(outside)):
            current[k, outside[i]] = x[outside[i]]
    for size in range(first, players):
        if size > 0:
            p = order[size - 1]
            for k in range(m):
                for i in range(starts[p], starts[p + 1]):
                    current[k, columns[i]] = x[columns[i]]
        for k in range(m):
            put(current[k], copies[(size - first) * m + k])
    return copies


@allocating
def replaced_delta(predictions: Any, base: Any, y: float, codes: Any, m: int, delta: Any) -> bool:
    """iPFI's Δ, losses × players; whether all is finite."""
    if not finite(base):
        return False
    own = np.empty(len(codes))
    for row in range(len(codes)):
        own[row] = loss(codes[row], y, base)
    players = len(predictions) // m
    for p in range(players):
        for k in range(p * m, (p + 1) * m):
            if not finite(predictions[k]):
                return False
        for row in range(len(codes)):
            value = 0.0
            for k in range(p * m, (p + 1) * m):
                value += loss(codes[row], y, predictions[k])
            delta[row, p] = value / m - own[row]
            if not math.isfinite(delta[row, p]):
                return False
    return True


@allocating
def joined_delta(
    predictions: Any, base: Any, before: Any, y: float, codes: Any, pairs: Any, m: int, order: Any, delta: Any
) -> bool:
    """iSAGE's Δ, losses × players; ``before`` are the losses of the empty coalition where the copies start after it."""
    if not finite(base):
        return False
    for k in range(len(predictions)):
        if not finite(predictions[k]):
            return False
    steps = len(predictions) // m
    first = steps - (len(order) - 1)
    last = np.empty(len(codes))
    for row in range(len(codes)):
        last[row] = before[row]
    for step in range(steps):
        for row in range(len(codes)):
            value = mean_loss(codes[row], y, predictions, step * m, m, pairs[row])
            if step >= first:
                delta[row, order[step - first]] = last[row] - value
            last[row] = value
    for row in range(len(codes)):
        delta[row, order[len(order) - 1]] = last[row] - loss(codes[row], y, base)
        for p in range(len(order)):
            if not math.isfinite(delta[row, p]):
                return False
    return True


@allocating
def mean_loss(code: int, y: float, predictions: Any, start: int, m: int, pairs: bool) -> Any:
    """``IncrementalSAGE._losses_of``: the loss of the mean of m predictions."""
    if m == 1:
        return loss(code, y, predictions[start])
    n = predictions.shape[1]
    mean = np.empty(n)
    for i in range(n):
        mean[i] = total(predictions[start : start + m, i], m) if code >= _SQUARED else 0.0
        if code < _SQUARED:
            for k in range(m):
                mean[i] += predictions[start + k, i]
        mean[i] /= m
    value = loss(code, y, mean)
    if pairs:
        single = np.empty(m)
        for k in range(m):
            single[k] = loss(code, y, predictions[start + k])
        value = (m * value - total(single, m) / m) / (m - 1)
    return value


@inner
def smooth(cells: Any, sums: Any, rates: Any, delta: Any) -> None:
    """``Smoother.update`` in place; ``cells`` is rows × losses × columns, ``sums`` rows × columns."""
    decay = rates[0]
    for j in range(cells.shape[2]):
        sums[0, j] += 1.0
        sums[1, j] = 1.0 + decay * sums[1, j]
        sums[2, j] += 1.0
        sums[3, j] = 1.0 + decay * sums[3, j]
        sums[4, j] = 1.0 + decay * decay * sums[4, j]
        sums[5, j] = 1.0 + decay * decay * decay * sums[5, j]
        sums[6, j] *= decay
        share, size = 1.0 / sums[1, j], sums[2, j]
        quarter = int(size) // 25 if int(size) % 25 == 0 and size < 100.0 else 0
        for i in range(cells.shape[1]):
            value = min(max(delta[i, j], -LIMIT), LIMIT)
            cells[0, i, j] += share * (value - cells[0, i, j])
            off, squares = value - cells[1, i, j], cells[2, i, j]
            step = off / size
            grown = off * step * (size - 1.0)
            cells[3, i, j] += grown * step * (size - 2.0) - 3.0 * step * squares
            cells[2, i, j] = squares + grown
            cells[1, i, j] += step
            if quarter > 0:
                cells[3 + quarter, i, j] = cells[1, i, j]


@compiled
def smoothed(cells: Any, sums: Any, rates: Any, delta: Any) -> None:
    """``smooth``, for Python."""
    smooth(cells, sums, rates, delta)


@compiled
def smoothed_apart(
    cells: Any, sums: Any, rates: Any, counts: Any, losses: Any, rows: Any, increments: Any, places: Any, begin: int, end: int, block: int
) -> int:  # fmt: skip
    """``smooth`` for several smoothers: each of ``losses`` (their ``rows``) and ``increments`` together, for that at its place; returns where to go on.

    That is behind ``end``, or behind the first with which the count of a smoother is a multiple of ``block``.
    """
    own = losses.shape[1]
    delta = np.empty((len(rows), own + increments.shape[2]))
    for t in range(begin, end):
        at = places[t]
        for i in range(len(rows)):
            for j in range(own):
                delta[i, j] = losses[t, j, rows[i]]
            put(increments[t, i], delta[i, own:])
        smooth(cells[at], sums[at], rates, delta)
        counts[at] += 1
        if counts[at] % block == 0:
            return t + 1
    return end


@allocating
def empty_losses(empty: Any, decay: float, base: Any, y: float, codes: Any) -> Any:
    """``EmptyModel.after`` of the prediction, weight and mean in a row, and its losses; where there is none neither has a meaning."""
    after, losses = np.empty_like(empty), np.empty(len(codes))
    if len(empty) == 0:
        return after, losses
    after[0] = 1.0 + decay * empty[0]
    step = 1.0 / after[0]
    rest = 1.0 - step
    mean = np.empty(len(base))
    for i in range(len(base)):
        known = empty[1 + i]
        after[1 + i] = (
            known + step * (base[i] - known) if codes[0] >= _SQUARED else rest * known + step * base[i]
        )
        mean[i] = after[1 + i]
    if codes[0] < _SQUARED:
        whole = total(mean, len(mean))
        if whole > 0.0:
            for i in range(len(mean)):
                mean[i] /= whole
    for row in range(len(codes)):
        losses[row] = loss(codes[row], y, mean)
    return after, losses


@compiled
def perform(numbers: Any, sizes: Any, y: float, seen: int, cells: Any, sums: Any, rates: Any) -> None:
    """``Performance.update`` in place.

    ``sizes`` are the numbers of classes of a prediction, of the labels before, and of the losses, then the losses' codes.
    ``numbers`` are the smoothing's decay, the prediction, room for its losses and those of the labels' frequencies, weight and mean of the predictions, the same of
    the labels, and three means for each loss; then what smooths losses and gains. ``y`` is the index of the label in the prediction or −1, ``seen`` that among the
    labels before; or y is a number.
    """
    n, known, n_losses, codes = sizes[0], sizes[1], sizes[2], sizes[3:]
    own, mean = 1 + n, 1 + n + 2 * n_losses
    labels = mean + 1 + n
    means, decay, base = labels + 1 + known, numbers[0], numbers[1:own]
    after, expected = empty_losses(numbers[mean:labels], decay, base, y, codes)
    step = 1.0 / after[0]
    before, frequencies, number = numbers[labels], np.empty(known), codes[0] >= _SQUARED
    delta = np.empty((n_losses, 2))
    for i in range(known):
        p = numbers[labels + 1 + i]
        frequencies[i] = p if number else (before * p + 0.5) / (before + 0.5 * known)
    for row in range(n_losses):
        numbers[own + row] = loss(codes[row], y, base)
        other = loss(codes[row], y if number else float(seen), frequencies)
        numbers[own + n_losses + row] = other
        delta[row, 0], delta[row, 1] = numbers[own + row], other - numbers[own + row]
        for column, value in enumerate((numbers[own + row], other, expected[row])):
            place = means + 3 * row + column
            numbers[place] += step * (value - numbers[place])
    smooth(cells, sums, rates, delta)
    put(after, numbers[mean:labels])
    numbers[labels] = 1.0 + decay * before
    step = 1.0 / numbers[labels]
    for i in range(known):
        p = numbers[labels + 1 + i]
        if number:
            numbers[labels + 1 + i] = p + step * (y - p)
        else:
            numbers[labels + 1 + i] = (1.0 - step) * p + step * (1.0 if i == seen else 0.0)


@inner
def update_smoothers(
    m: int, delta: Any, cells: Any, sums: Any, rates: Any,
    sage_m: int, sage_delta: Any, sage_cells: Any, sage_sums: Any, sage_rates: Any, empty: Any, after: Any,
) -> bool:  # fmt: skip
    """Take iPFI's and iSAGE's Δ in, those that were asked for."""
    if m > 0:
        smooth(cells, sums, rates, delta)
    if sage_m > 0:
        smooth(sage_cells, sage_sums, sage_rates, sage_delta)
        put(after, empty)
    return True


@inlined
def finite(prediction: Any) -> bool:
    """``models.base.check_prediction``, for a sum that stands for all."""
    value = 0.0
    for i in range(len(prediction)):
        value += prediction[i]
    return bool(abs(value) <= LARGEST)
