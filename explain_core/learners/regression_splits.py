"""Where a leaf of a regression tree would split, in compiled code: the reduction of variance, and river's split suggestions.

A running variance is three numbers: weight, mean and sum of squares.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import allocating, inner
from explain_core.learners import layout as at
from explain_core.learners.arrays import f8, i8
from explain_core.learners.layout import give
from explain_core.learners.regression_leaves import endow_target
from explain_core.learners.walks import new_node, sprout

DOWN, BETWEEN, AFTER = range(3)
"""Of a cell on the way through a search tree: it is reached, its left side is done, its right side is done."""


@inner
def plus(n: float, mean: float, squares: float, n2: float, mean2: float, squares2: float, two: float) -> Any:
    """``Var.__iadd__``."""
    whole = n + n2
    squares = squares + squares2 + math.pow(mean - mean2, two) * n * n2 / whole
    return whole, (n * mean + n2 * mean2) / whole, squares


@inner
def minus(n: float, mean: float, squares: float, n2: float, mean2: float, squares2: float, two: float) -> Any:
    """``Var.__isub__``."""
    rest, centre = n - n2, 0.0
    if rest > 0.0:
        centre = (n * mean - n2 * mean2) / rest
    else:
        rest = 0.0
    squares = squares - squares2 - math.pow(centre - mean2, two) * rest * n2 / (rest + n2)
    return rest, centre, squares


@inner
def variance(n: float, squares: float) -> float:
    """``Var.get``."""
    return squares / (n - 1.0) if n > 1.0 else 0.0


@inner
def copy(values: Any, out: Any) -> None:
    """Write the values into another array; to assign them takes longer to compile."""
    for i in range(len(values)):
        out[i] = values[i]


@inner
def target_of(table: Any, leaf: int) -> Any:
    """The running variance of a leaf's targets."""
    weights = f8(table, at.WEIGHTS)
    return f8(table, at.STATS)[leaf, 0], weights[leaf, at.TARGET], weights[leaf, at.TARGET_SQUARES]


@inner
def split_in_two(table: Any, leaf: int, n: float, mean: float, squares: float, parts: Any) -> float:
    """The ``merit_of_split`` into these targets and the leaf's others, both written into ``parts``."""
    numbers = f8(table, at.NUMBERS)
    whole, whole_mean, whole_squares = target_of(table, leaf)
    rest, rest_mean, rest_squares = minus(
        whole, whole_mean, whole_squares, n, mean, squares, numbers[0, at.TWO]
    )
    parts[0], parts[1], parts[2] = n, mean, squares
    parts[3], parts[4], parts[5] = rest, rest_mean, rest_squares
    if n < numbers[0, at.LEAST] or rest < numbers[0, at.LEAST]:
        return 0.0
    result = variance(whole, whole_squares)
    result -= n / whole * variance(n, squares)
    result -= rest / whole * variance(rest, rest_squares)
    return float(result)


@inner
def leftmost(links: Any, cell: int) -> Any:
    """The lowest cell of a search tree."""
    while links[cell, at.BELOW] >= 0:
        cell = links[cell, at.BELOW]
    return cell


@allocating
def suggest_threshold(table: Any, leaf: int, observer: int, parts: Any) -> Any:
    """``EBSTSplitter.best_evaluated_split_suggestion``: merit, kind (a leaf for none) and threshold; its targets in ``parts``."""
    cells, links, two = f8(table, at.CELLS), i8(table, at.LINKS), f8(table, at.NUMBERS)[0, at.TWO]
    best, kind, point = -math.inf, at.LEAF, 0.0
    found = np.empty(6)
    cell = i8(table, at.OBSERVERS)[observer, at.HEAD_CELL]
    if cell < 0:
        return best, kind, point
    cell = leftmost(links, cell)
    n, mean, squares = 0.0, 0.0, 0.0  # what lies to the left of the cells now gone through
    while cell >= 0:
        own, own_mean, own_squares = cells[cell, at.WEIGHT], cells[cell, at.MEAN], cells[cell, at.SQUARES]
        left, left_mean, left_squares = plus(own, own_mean, own_squares, n, mean, squares, two)
        value = split_in_two(table, leaf, left, left_mean, left_squares, found)
        if value > best:
            best, kind, point = value, at.THRESHOLDED, cells[cell, at.POINT]
            copy(found, parts)
        if links[cell, at.ABOVE] >= 0:
            n, mean, squares = plus(n, mean, squares, own, own_mean, own_squares, two)
            cell = leftmost(links, links[cell, at.ABOVE])
            continue
        before = cell
        cell = links[cell, at.PARENT]
        while cell >= 0 and links[cell, at.ABOVE] == before:
            own, own_mean, own_squares = cells[cell, at.WEIGHT], cells[cell, at.MEAN], cells[cell, at.SQUARES]
            n, mean, squares = minus(n, mean, squares, own, own_mean, own_squares, two)
            before = cell
            cell = links[cell, at.PARENT]
    return best, kind, point


@allocating
def suggest_slot(table: Any, leaf: int, observer: int, parts: Any) -> Any:
    """``QOSplitter.best_evaluated_split_suggestion``: see ``suggest_threshold``.

    River's left side is that of all slots in the end, whichever split is best.
    """
    cells, links, two = f8(table, at.CELLS), i8(table, at.LINKS), f8(table, at.NUMBERS)[0, at.TWO]
    best, kind, point, place = -math.inf, at.LEAF, 0.0, 0.0
    found = np.empty(6)
    n, mean, squares, first = 0.0, 0.0, 0.0, True
    cell = leftmost(links, i8(table, at.OBSERVERS)[observer, at.HEAD_CELL])
    while cell >= 0:
        n, mean, squares = plus(
            n, mean, squares, cells[cell, at.WEIGHT], cells[cell, at.MEAN], cells[cell, at.SQUARES], two
        )
        if not first:
            value = split_in_two(table, leaf, n, mean, squares, found)
            if value > best:
                best, kind, point = value, at.THRESHOLDED, (place + cells[cell, at.PLACE]) / 2.0
                copy(found, parts)
        first, place = False, cells[cell, at.PLACE]
        if links[cell, at.ABOVE] >= 0:
            cell = leftmost(links, links[cell, at.ABOVE])
            continue
        before = cell
        cell = links[cell, at.PARENT]
        while cell >= 0 and links[cell, at.ABOVE] == before:
            before = cell
            cell = links[cell, at.PARENT]
    parts[0], parts[1], parts[2] = n, mean, squares
    return best, kind, point


@allocating
def in_order(table: Any, observer: int, order: Any) -> Any:
    """The cells of a nominal feature in the order of its categories, and how many there are."""
    columns, ranks = i8(table, at.COLUMNS), i8(table, at.RANKS)
    observers, cells, links = i8(table, at.OBSERVERS), f8(table, at.CELLS), i8(table, at.LINKS)
    column = observers[observer, at.FEATURE]
    places = np.full(columns[column, at.SIZE], -1)
    cell = observers[observer, at.HEAD_CELL]
    while cell >= 0:
        places[int(cells[cell, at.POINT])] = cell
        cell = links[cell, at.ABOVE]
    n = 0
    for i in range(columns[column, at.SIZE]):
        cell = places[ranks[0, columns[column, at.START] + i]]
        if cell >= 0:
            order[n] = cell
            n += 1
    return n


@allocating
def suggest_target_category(table: Any, leaf: int, observer: int, order: Any, parts: Any) -> Any:
    """``NominalSplitterReg.best_evaluated_split_suggestion``: see ``suggest_threshold``; the cells by category in ``order``."""
    cells, numbers = f8(table, at.CELLS), f8(table, at.NUMBERS)
    n = in_order(table, observer, order)
    best, kind, chosen = -math.inf, at.LEAF, 0.0
    whole, _, squares = target_of(table, leaf)
    if numbers[0, at.BINARY] == 0.0 and n > 2:
        kind, best = at.MULTIWAY, variance(whole, squares)
        for i in range(n):
            weight = cells[order[i], at.WEIGHT]
            best -= weight / whole * variance(weight, cells[order[i], at.SQUARES])
        for i in range(n):
            if cells[order[i], at.WEIGHT] < numbers[0, at.LEAST]:
                best = 0.0
    found = np.empty(6)
    for i in range(n):
        cell = order[i]
        value = split_in_two(
            table, leaf, cells[cell, at.WEIGHT], cells[cell, at.MEAN], cells[cell, at.SQUARES], found
        )
        if value > best:
            best, kind, chosen = value, at.EQUAL, cells[cell, at.POINT]
            copy(found, parts)
    return best, kind, chosen


@allocating
def drop_bad(table: Any, head: Any, leaf: int, observer: int, vr: float, limit: float) -> None:
    """``EBSTSplitter.remove_bad_splits``: of cells below which all are bad, those whose merit by ``vr`` is below the limit."""
    observers, cells, links = i8(table, at.OBSERVERS), f8(table, at.CELLS), i8(table, at.LINKS)
    two, parts = f8(table, at.NUMBERS)[0, at.TWO], np.empty(6)
    n, mean, squares = 0.0, 0.0, 0.0
    cell, stage, bad = observers[observer, at.HEAD_CELL], DOWN, False
    while cell >= 0:
        if stage == DOWN:
            if links[cell, at.BELOW] >= 0:
                cell = links[cell, at.BELOW]
                continue
            bad, stage = True, BETWEEN
        own, own_mean, own_squares = cells[cell, at.WEIGHT], cells[cell, at.MEAN], cells[cell, at.SQUARES]
        if stage == BETWEEN and bad and links[cell, at.ABOVE] >= 0:
            n, mean, squares = plus(n, mean, squares, own, own_mean, own_squares, two)
            cell, stage = links[cell, at.ABOVE], DOWN
            continue
        if stage == AFTER:
            n, mean, squares = minus(n, mean, squares, own, own_mean, own_squares, two)
        parent = links[cell, at.PARENT]
        stage = BETWEEN if parent >= 0 and links[parent, at.BELOW] == cell else AFTER
        if bad:
            left, left_mean, left_squares = plus(own, own_mean, own_squares, n, mean, squares, two)
            bad = split_in_two(table, leaf, left, left_mean, left_squares, parts) / vr < limit
            if bad:
                if parent < 0:
                    observers[observer, at.HEAD_CELL] = -1
                elif stage == BETWEEN:
                    links[parent, at.BELOW] = -1
                else:
                    links[parent, at.ABOVE] = -1
                cells[cell, :] = 0.0
                give(table, head, at.CELL_POOL, links, cell)
        cell = parent


@allocating
def decide_target(table: Any, head: Any, leaf: int, order: Any, parts: Any) -> Any:
    """``_attempt_to_split``: see ``splits.decide``; a split's targets in ``parts``. Where there is none, bad points are dropped."""
    numbers, leaves, observers = f8(table, at.NUMBERS), i8(table, at.LEAVES), i8(table, at.OBSERVERS)
    best, second, chosen, chosen_kind, point = -math.inf, -math.inf, -1, at.LEAF, 0.0
    suggestions = 1 if numbers[0, at.PREPRUNE] != 0.0 else 0
    found, slots = np.empty(6), numbers[0, at.RADIUS] > 0.0
    observer = leaves[leaf, at.FIRST]
    while observer >= 0:
        if observers[observer, at.CATEGORICAL] == 1:
            value, kind, where = suggest_target_category(table, leaf, observer, order, found)
        elif slots:
            value, kind, where = suggest_slot(table, leaf, observer, found)
        else:
            value, kind, where = suggest_threshold(table, leaf, observer, found)
        if suggestions == 0 or value >= best:  # a stable sort: of equals the last
            second = best
            best, point, chosen_kind, chosen = value, where, kind, observer if kind != at.LEAF else -1
            copy(found, parts)
        else:
            second = max(value, second)
        suggestions += 1
        observer = observers[observer, at.NEXT_OBSERVER]
    if suggestions < 2:
        return suggestions > 0, chosen, chosen_kind, point
    bound = math.sqrt(math.log(1.0 / numbers[0, at.DELTA]) / (2.0 * f8(table, at.STATS)[leaf, 0]))
    if best > 0.0 and (second / best < 1.0 - bound or bound < numbers[0, at.TAU]):
        return True, chosen, chosen_kind, point
    if best > 0.0 and second > 0.0 and not slots:
        limit = second / best - 2.0 * bound
        observer = leaves[leaf, at.FIRST]
        while observer >= 0:
            if observers[observer, at.CATEGORICAL] == 0:
                drop_bad(table, head, leaf, observer, best, limit)
            observer = observers[observer, at.NEXT_OBSERVER]
    return False, -1, at.LEAF, 0.0


@allocating
def divide_target(table: Any, head: Any, node: int, fresh: bool) -> Any:
    """See ``splits.divide``: of a regression tree."""
    leaf, cells = i8(table, at.NODES)[node, at.LEAF_OF], f8(table, at.CELLS)
    widest = 2
    for i in range(i8(table, at.COLUMNS).shape[0]):
        widest = max(widest, i8(table, at.COLUMNS)[i, at.SIZE])
    order, parts, categories = np.empty(widest, np.int64), np.empty(6), np.zeros(widest)
    split, observer, kind, point = decide_target(table, head, leaf, order, parts)
    if not split:
        return at.STAYS, 0
    if observer < 0:
        return at.NULL, 0
    n = 2
    if kind == at.MULTIWAY:
        n = in_order(table, observer, order)
        for i in range(n):
            categories[i] = cells[order[i], at.POINT]
    branch = new_node(table, head, -1, i8(table, at.NODES)[node, at.DEPTH]) if fresh else node
    sprout(table, branch, observer, kind, point, n, categories)
    nodes = i8(table, at.NODES)
    child = nodes[branch, at.LEFT]
    for i in range(n):
        of = nodes[child, at.LEAF_OF]
        if kind == at.MULTIWAY:
            cell = order[i]
            endow_target(
                table, of, cells[cell, at.WEIGHT], cells[cell, at.MEAN], cells[cell, at.SQUARES], leaf
            )
        else:
            endow_target(table, of, parts[3 * i], parts[3 * i + 1], parts[3 * i + 2], leaf)
        child = nodes[child, at.NEXT]
    return branch, n
