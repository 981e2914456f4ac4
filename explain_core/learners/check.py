"""Whether arrays from a snapshot are those of a tree learner: every shape, index and chain, before a kernel follows one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from explain_core.compiling import compiled, inner
from explain_core.learners import layout as at
from explain_core.learners.arrays import Array, Arrays, f8, i8
from explain_core.learners.free import put_free
from explain_core.state import LARGEST_COUNT, StateError, within

if TYPE_CHECKING:
    from explain_core.learners.tree import TreeLearner

_BY_CLASS = {"stats": 1, "classes": 2, "seen": 1}
"""The arrays that are as many times as wide as there is room for classes."""
_UNBOUNDED = {"numbers", "cells", "weights", "models", "norms", "errors", "accuracy", "windows", "buckets"}
"""The arrays of doubles that overflow where records are very large."""
DERIVED = at.N_CLASSES, at.N_TREES, at.POSITIVE, at.NEGATIVE, *range(at.NEED_NODES, at.POOLS)
"""Columns of ``head`` that follow from the model, the labels and the columns."""

CLASSES, DRAWN, OBSERVED, OF_OBSERVER, CATEGORIES, KEYS, N_MARKS = range(7)
"""What is met once only: classes, drawn features and observers of a leaf, classes of an observer, categories of a chain, keys of a branch."""


def sound(learner: TreeLearner, arrays: dict[str, Array]) -> Arrays:
    """The stored arrays as a table, for a learner that has learnt nothing, with the labels and columns of the state.

    Raises ``StateError`` where they are not a state of it.
    """

    def no(what: str) -> StateError:
        return StateError(f"{learner.kind}: {what}")

    own, columns = learner.arrays, learner.columns
    pooled = set().union(*learner.pools.values())
    classes, least = learner.n_classes, own["stats"].shape[1]
    room = arrays["stats"].shape[1]
    if room < max(classes, least) or room > 2 * max(classes, least):
        raise no(f"stats: room for {room} classes, and there are {classes}")
    for name, array in arrays.items():
        mine = own[name]
        width = room * _BY_CLASS[name] if name in _BY_CLASS else mine.shape[-1]
        if name == "leaves":
            width = at.N_LEAF + (
                int(arrays["head"][0, at.N_FEATURES]) if arrays["head"].shape == own["head"].shape else 0
            )
        if name == "models" and learner.has_models:
            width = len(columns.names)
        if array.shape[-1] != width or (name not in pooled and len(array) != len(mine)):
            raise no(f"{name}: its shape is {array.shape}")
        if array.dtype == np.float64 and name not in _UNBOUNDED and not np.isfinite(array).all():
            raise no(f"{name}: a number is not finite")
        if width == 0:  # rows without cells: a kernel takes those that are there for rows with some
            arrays[name] = mine
    arrays["head"][0, DERIVED] = own["head"][0, DERIVED]
    head, names = arrays["head"][0], columns.names
    if not 0 <= head[at.N_FEATURES] <= max(1, len(names)) or not 0 <= head[at.POSITION] <= 624:
        raise no("head: a number is out of range")
    forest, drawn = len(arrays["members"]) > 0, head[at.N_FEATURES] > 0
    if (drawn and not forest) or (forest and len(arrays["nodes"]) > 0 and not drawn):
        raise no("head: features drawn, and no forest")
    for name, few in (("seen", arrays["seen"]), ("classes", arrays["classes"][:, room:])):
        if few.size and not (few.min() >= 0 and few.max() <= 1):
            raise no(f"{name}: a number is neither 0 nor 1")
    within("counters", arrays["counters"], 0, LARGEST_COUNT + 1)
    words = arrays["generator"]
    if words.size and not words[0] >> 31 and not words[1:].any():  # it would give zeros without end
        raise no("generator: it has no state")
    masks = put_free(arrays, learner.pools)
    found = Arrays(**{**own.items(), **arrays})
    sizes = np.array([len(columns.codes.get(name, "")) for name in names], np.int64)
    nominal = np.array([name in columns.codes for name in names], np.int64)
    numbers = own["numbers"][0, at.MANNER] >= at.TARGET_MEAN
    marks = np.zeros((N_MARKS, max(classes, len(names), sizes.max(initial=0))), np.int64)
    fault = follow(found.table, classes, sizes, nominal, numbers, marks, *masks)
    if fault == 0 and not all(mask.all() for mask in masks):
        fault = 3
    if fault:
        raise no(f"its {('', 'trees', 'leaves', 'rows', 'detectors', 'members')[fault]} do not hold together")
    return found


@inner
def inside(value: int, n: int) -> Any:
    return 0 <= value < n


@inner
def first(marks: Any, kind: int, value: int, mark: int) -> Any:
    """Whether a value of that kind is met for the first time under this mark."""
    if marks[kind, value] == mark:
        return False
    marks[kind, value] = mark
    return True


@inner
def check_targets(
    table: Any, observer: int, size: int, nominal: bool, taken: Any, to_do: Any, marks: Any
) -> Any:
    """Whether the cells of a regression tree's observer are a search tree, or a chain, and met for the first time."""
    links, cells = i8(table, at.LINKS), f8(table, at.CELLS)
    root = i8(table, at.OBSERVERS)[observer, at.HEAD_CELL]
    if root == -1:
        return True
    if not inside(root, len(links)) or links[root, at.PARENT] != -1:
        return False
    to_do[0], n = root, 1
    while n > 0:
        n -= 1
        cell = to_do[n]
        if taken[cell] == 1:
            return False
        taken[cell] = 1
        point = cells[cell, at.POINT]
        if nominal:
            if not inside(point, size) or point != np.floor(point) or links[cell, at.BELOW] != -1:
                return False
            if not first(marks, CATEGORIES, int(point), observer + 1):
                return False
        for child in (links[cell, at.BELOW], links[cell, at.ABOVE]):
            if child != -1:
                if not inside(child, len(links)) or links[child, at.PARENT] != cell:
                    return False
                to_do[n] = child
                n += 1
    return True


@inner
def check_leaf(
    table: Any, leaf: int, n_classes: int, sizes: Any, nominal: Any, numbers: bool, visited: Any, observed: Any, taken: Any, below: Any,
    marks: Any,
) -> Any:  # fmt: skip
    """Whether a leaf and its chains are sound, and met for the first time."""
    head, leaves, classes = i8(table, at.HEAD), i8(table, at.LEAVES), i8(table, at.CLASSES)
    observers, links, cells = i8(table, at.OBSERVERS), i8(table, at.LINKS), f8(table, at.CELLS)
    if not inside(leaf, len(leaves)) or visited[leaf] == 1:
        return False
    visited[leaf] = 1
    n, drawn, mark = leaves[leaf, at.COUNT], leaves[leaf, at.SAMPLED], leaf + 1
    if not inside(n, n_classes + 1) or not inside(drawn, head[0, at.N_FEATURES] + 1):
        return False
    if not inside(leaves[leaf, at.ACTIVE], 2):
        return False
    for i in range(n):
        if not inside(classes[leaf, i], n_classes) or not first(marks, CLASSES, classes[leaf, i], mark):
            return False
    for i in range(drawn):
        column = leaves[leaf, at.N_LEAF + i]
        if not inside(column, len(sizes)) or not first(marks, DRAWN, column, mark):
            return False
    observer, last, categorical = leaves[leaf, at.FIRST], -1, 0
    while observer != -1:
        if not inside(observer, len(observers)) or observed[observer] == 1:
            return False
        observed[observer] = 1
        column = observers[observer, at.FEATURE]
        if not inside(column, len(sizes)) or observers[observer, at.CATEGORICAL] != nominal[column]:
            return False
        if not first(marks, OBSERVED, column, mark):
            return False
        categorical += nominal[column]
        cell = observers[observer, at.HEAD_CELL]
        if numbers:
            if not check_targets(table, observer, sizes[column], nominal[column] == 1, taken, below, marks):
                return False
            cell = -1
        while cell != -1:
            if not inside(cell, len(links)) or taken[cell] == 1:
                return False
            taken[cell] = 1
            of, value = links[cell, at.CLASS], links[cell, at.VALUES]
            if not inside(of, n_classes) or marks[CLASSES, of] != mark:
                return False
            if not first(marks, OF_OBSERVER, of, observer + 1) or (value != -1 and nominal[column] == 0):
                return False
            while value != -1:
                if not inside(value, len(links)) or taken[value] == 1 or links[value, at.VALUES] != -1:
                    return False
                taken[value] = 1
                category = cells[value, at.CATEGORY]
                if not inside(category, sizes[column]) or category != np.floor(category):
                    return False
                if not first(marks, CATEGORIES, int(category), cell + 1):
                    return False
                value = links[value, at.NEXT_CELL]
            cell = links[cell, at.NEXT_CELL]
        last = observer
        observer = observers[observer, at.NEXT_OBSERVER]
    return leaves[leaf, at.LAST] == last and leaves[leaf, at.NOMINALS] == categorical


@inner
def check_window(table: Any, window: int, kind: int, rows: Any) -> Any:
    """Whether the window of a detector of that kind is sound, and its rows are met for the first time: as wide as their buckets."""
    ends, chains = i8(table, at.ENDS), i8(table, at.CHAINS)
    most = int(f8(table, at.DETECTORS)[kind, at.MOST_BUCKETS])
    row, before, width, size = ends[window, at.NEWEST], -1, 0.0, 1.0
    while row != -1:
        if not inside(row, len(chains)) or rows[row] == 1 or chains[row, at.NEWER] != before:
            return False
        rows[row] = 1
        if not 1 <= chains[row, at.BUCKET_COUNT] <= most:
            return False
        width += size * chains[row, at.BUCKET_COUNT]
        size *= 2.0
        before = row
        row = chains[row, at.OLDER]
    if ends[window, at.OLDEST] != before or f8(table, at.WINDOWS)[window, at.WIDTH] != width:
        return False
    ticks = ends[window, at.TICK]
    return width <= LARGEST_COUNT and inside(ticks, LARGEST_COUNT) and inside(ends[window, at.DRIFTED], 2)


@compiled
def follow(
    table: Any, n_classes: int, sizes: Any, nominal: Any, numbers: bool, marks: Any, visited: Any, leaf_visited: Any, observed: Any,
    taken: Any, rows: Any,
) -> Any:  # fmt: skip
    """Which part of a learner is not sound, 0 for none: 1 trees, 2 leaves, 4 detectors, 5 members.

    ``numbers`` is whether it predicts them; ``marks`` are zeros, as many of each kind as there are values of it. The last five are 1 for the rows of each pool that are free, and afterwards for those that
    were met: no row may be neither.
    """
    nodes, splits = i8(table, at.NODES), f8(table, at.SPLITS)
    trees, members, alternates = i8(table, at.TREES), i8(table, at.MEMBERS), i8(table, at.ALTERNATES)
    ends, below, adaptive = i8(table, at.ENDS), np.empty(2 * len(taken) + 2, np.int64), len(alternates) > 0
    to_do, depths = np.empty(len(nodes) + 1, np.int64), np.empty(len(nodes) + 1, np.int64)
    used = np.zeros(len(trees), np.int64)
    for member in range(len(members)):
        for tree in members[member]:
            if tree != -1:
                if tree // 2 != member or not inside(tree, len(trees)) or used[tree] == 1:
                    return 5
                used[tree] = 1
        if members[member, at.FOREGROUND] < 0:
            return 5
    for tree in range(len(trees)):
        root, leaves, asleep = trees[tree, at.ROOT], 0, 0
        if root != -1 and (not inside(root, len(nodes)) or nodes[root, at.NEXT] != -1):
            return 1
        to_do[0], depths[0], n = root, 0, 1 if root != -1 else 0
        while n > 0:
            n -= 1
            node, depth = to_do[n], depths[n]
            if (
                not inside(node, len(nodes))
                or visited[node] == 1
                or nodes[node, at.DEPTH] != depth
                or depth > 1000
            ):
                return 1
            visited[node] = 1
            if adaptive and not check_window(table, node, 0, rows):
                return 4
            kind = nodes[node, at.KIND]
            if kind == at.LEAF:
                leaf = nodes[node, at.LEAF_OF]
                if adaptive and alternates[node, 0] != -1:
                    return 1
                if not check_leaf(
                    table,
                    leaf,
                    n_classes,
                    sizes,
                    nominal,
                    numbers,
                    leaf_visited,
                    observed,
                    taken,
                    below,
                    marks,
                ):
                    return 2
                leaves += 1
                asleep += 1 - i8(table, at.LEAVES)[leaf, at.ACTIVE]
                continue
            column = nodes[node, at.COLUMN]
            if not inside(kind, 4) or not inside(column, len(sizes)):
                return 1
            if (kind == at.THRESHOLDED) == (nominal[column] == 1):
                return 1
            point = splits[node, at.THRESHOLD]
            if kind == at.EQUAL and (not inside(point, sizes[column]) or point != np.floor(point)):
                return 1
            if adaptive and alternates[node, 0] != -1:
                other = alternates[node, 0]
                if not inside(other, len(nodes)) or nodes[other, at.KIND] != at.LEAF or n >= len(nodes):
                    return 1
                if nodes[other, at.NEXT] != -1:
                    return 1
                to_do[n], depths[n] = other, depth
                n += 1
            child, last, count = nodes[node, at.LEFT], -1, 0
            while child != -1:
                if not inside(child, len(nodes)) or n >= len(nodes) or count > len(nodes):
                    return 1
                key = splits[child, at.KEY]
                if kind == at.MULTIWAY:
                    if not inside(key, sizes[column]) or key != np.floor(key):
                        return 1
                    if not first(marks, KEYS, int(key), node + 1):
                        return 1
                to_do[n], depths[n] = child, depth + 1
                n += 1
                count += 1
                last = child
                child = nodes[child, at.NEXT]
            if last != nodes[node, at.RIGHT] or count == 0 or (kind != at.MULTIWAY and count != 2):
                return 1
        if adaptive:  # which counts none
            leaves, asleep = 0, 0
        if trees[tree, at.N_LEAVES] != leaves or trees[tree, at.INACTIVE] != asleep:
            return 1
        if not inside(trees[tree, at.STOPPED], 2):
            return 1
    if not adaptive:
        for window in range(len(ends)):
            if not check_window(table, window, window % 2, rows):
                return 4
    return 0
