"""Leaves of regression trees in compiled code: what they predict and learn, as in river's ``htr_nodes`` and splitters.

A leaf's target is a running variance (Welford): its weight in ``stats``, its mean and sum of squares in ``weights``. An observer of
a number keeps river's extended binary search tree: each cell knows the targets of its own point and of what came by to its left.
That of a nominal feature is a chain of cells, one a category.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import compiled, inner
from explain_core.learners import layout as at
from explain_core.learners.arrays import f8, i8
from explain_core.learners.layout import take
from explain_core.learners.linear_kernels import slope

SPLITTER = 134217729.0
"""2²⁷ + 1, by which a double falls into two halves (Dekker)."""


@inner
def updated(n: float, mean: float, squares: float, y: float, w: float) -> Any:
    """``Var.update``: weight, mean and sum of squares."""
    n += w
    after = mean + (w / n) * (y - mean)
    return n, after, squares + w * (y - mean) * (y - after)


@inner
def update_cell(cells: Any, cell: int, y: float, w: float) -> None:
    """``Var.update`` of a cell."""
    n, mean, squares = updated(cells[cell, at.WEIGHT], cells[cell, at.MEAN], cells[cell, at.SQUARES], y, w)
    cells[cell, at.WEIGHT] = n
    cells[cell, at.MEAN] = mean
    cells[cell, at.SQUARES] = squares


@compiled
def rounded(x: float, scale: float) -> Any:
    """``round(x, digits)`` for scale = 10 ** digits: the double next to the decimal next to x, of two the even one."""
    p = x * scale
    if not abs(p) < 9007199254740992.0:  # doubles lie further apart than the decimals
        return x
    t = x * SPLITTER
    xh = t - (t - x)
    xl = x - xh
    t = scale * SPLITTER
    sh = t - (t - scale)
    sl = scale - sh
    error = ((xh * sh - p) + xh * sl + xl * sh) + xl * sl  # x · scale is p + error
    whole = np.rint(p)
    if p - whole == 0.5 and error > 0.0:
        whole += 1.0
    elif p - whole == -0.5 and error < 0.0:
        whole -= 1.0
    return whole / scale


@inner
def observe_number(table: Any, head: Any, observer: int, value: float, y: float, w: float) -> None:
    """The ``update`` of ``EBSTSplitter``, ``TEBSTSplitter``, ``QOSplitter`` or ``NominalSplitterReg``."""
    observers, cells, links = i8(table, at.OBSERVERS), f8(table, at.CELLS), i8(table, at.LINKS)
    numbers = f8(table, at.NUMBERS)
    ordered = observers[observer, at.CATEGORICAL] == 0
    radius = numbers[0, at.RADIUS] if ordered else 0.0
    point = value
    if radius > 0.0:
        point = math.floor(value / radius)
    elif ordered and numbers[0, at.SCALE] > 0.0:
        point = rounded(value, numbers[0, at.SCALE])
    cell, before, below = observers[observer, at.HEAD_CELL], -1, False
    while cell >= 0 and cells[cell, at.POINT] != point:
        before = cell
        below = ordered and point < cells[cell, at.POINT]
        if below and radius == 0.0:
            update_cell(cells, cell, y, w)
        cell = links[cell, at.BELOW] if below else links[cell, at.ABOVE]
    if cell < 0:
        cell = take(table, head, at.CELL_POOL)
        cells[cell, :] = 0.0
        cells[cell, at.POINT] = point
        links[cell, at.PARENT] = before
        links[cell, at.BELOW] = -1
        links[cell, at.ABOVE] = -1
        if before < 0:
            observers[observer, at.HEAD_CELL] = cell
        elif below:
            links[before, at.BELOW] = cell
        else:
            links[before, at.ABOVE] = cell
    update_cell(cells, cell, y, w)
    if radius > 0.0:
        cells[cell, at.PLACE] += (w / cells[cell, at.WEIGHT]) * (value - cells[cell, at.PLACE])


@inner
def linear(table: Any, leaf: int, x: Any) -> Any:
    """What the leaf's linear regression predicts."""
    models, value = f8(table, at.MODELS), 0.0
    for i in range(len(x)):
        if not math.isnan(x[i]):
            value += x[i] * models[leaf, i]
    return value + f8(table, at.WEIGHTS)[leaf, at.INTERCEPT]


@inner
def asks_all(table: Any, leaf: int) -> Any:
    """Whether the leaf's prediction depends on all features, by its linear regression."""
    weights, manner = f8(table, at.WEIGHTS), f8(table, at.NUMBERS)[0, at.MANNER]
    if manner == at.TARGET_ADAPTIVE:
        return not weights[leaf, at.MEAN_ERROR] < weights[leaf, at.MODEL_ERROR]
    return manner == at.TARGET_MODEL


@inner
def predict_target(table: Any, leaf: int, x: Any) -> Any:
    """The leaf's ``prediction``."""
    return linear(table, leaf, x) if asks_all(table, leaf) else f8(table, at.WEIGHTS)[leaf, at.TARGET]


@inner
def learn_target(table: Any, leaf: int, x: Any, y: float, w: float) -> None:
    """The leaf's ``learn_one`` but for its observers."""
    numbers, leaves = f8(table, at.NUMBERS), i8(table, at.LEAVES)
    weights, stats = f8(table, at.WEIGHTS), f8(table, at.STATS)
    if numbers[0, at.MANNER] != at.TARGET_MEAN:
        models, guess = f8(table, at.MODELS), linear(table, leaf, x)
        if numbers[0, at.MANNER] == at.TARGET_ADAPTIVE:
            decay, two = numbers[0, at.DECAY], numbers[0, at.TWO]
            weights[leaf, at.MEAN_ERROR] = decay * weights[leaf, at.MEAN_ERROR] + math.pow(
                y - weights[leaf, at.TARGET], two
            )
            weights[leaf, at.MODEL_ERROR] = decay * weights[leaf, at.MODEL_ERROR] + math.pow(y - guess, two)
        gradient = slope(int(numbers[0, at.LEAF_LOSS]), y, guess, numbers[0]) * w
        gradient = max(min(gradient, numbers[0, at.LEAF_CLIP]), -numbers[0, at.LEAF_CLIP])
        weights[leaf, at.INTERCEPT] -= numbers[0, at.LEAF_INTERCEPT_RATE] * gradient
        rate, l2 = numbers[0, at.LEAF_RATE], numbers[0, at.LEAF_L2]
        for i in range(len(x)):
            if not math.isnan(x[i]):
                step = x[i] * gradient
                if l2 != 0.0:
                    step += l2 * models[leaf, i]
                models[leaf, i] -= rate * step
    n, mean, squares = updated(
        stats[leaf, 0], weights[leaf, at.TARGET], weights[leaf, at.TARGET_SQUARES], y, w
    )
    stats[leaf, 0] = n
    weights[leaf, at.TARGET] = mean
    weights[leaf, at.TARGET_SQUARES] = squares
    leaves[leaf, at.COUNT] = 1


@inner
def endow_target(table: Any, child: int, n: float, mean: float, squares: float, parent: int) -> None:
    """Give a new leaf its share of the target, and the linear regression of the leaf that split."""
    weights, models = f8(table, at.WEIGHTS), f8(table, at.MODELS)
    i8(table, at.LEAVES)[child, at.COUNT] = 1
    f8(table, at.STATS)[child, 0] = n
    weights[child, at.ATTEMPTED] = n
    weights[child, at.TARGET] = mean
    weights[child, at.TARGET_SQUARES] = squares
    weights[child, at.INTERCEPT] = weights[parent, at.INTERCEPT]
    weights[child, at.MEAN_ERROR] = weights[parent, at.MEAN_ERROR]
    weights[child, at.MODEL_ERROR] = weights[parent, at.MODEL_ERROR]
    if f8(table, at.NUMBERS)[0, at.MANNER] != at.TARGET_MEAN:
        for i in range(models.shape[1]):
            models[child, i] = models[parent, i]
