"""Where a leaf of a classification tree would split, in compiled code: river's criteria and split suggestions.

The class distributions of a split's branches lie one after the other in ``values`` (weights) and ``codes`` (classes):
branch i has ``lengths[i]`` of them from ``starts[i]`` on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import allocating, inner
from explain_core.learners import layout as at
from explain_core.learners.arrays import f8, i8
from explain_core.learners.leaves import weight_of
from explain_core.learners.walks import new_node, sprout
from explain_core.sums import total

SQRT_2 = math.sqrt(2.0)


@inner
def entropy(values: Any, start: int, n: int) -> float:
    """``InfoGainSplitCriterion._compute_entropy_dict``."""
    result, whole = 0.0, 0.0
    for i in range(start, start + n):
        value = values[i]
        if value > 0.0:
            result -= value * math.log2(value)
            whole += value
    return (result + whole * math.log2(whole)) / whole if whole > 0.0 else 0.0


@inner
def class_weight(values: Any, codes: Any, start: int, n: int, of: int) -> float:
    """A branch's weight of a class, −1 where it has none."""
    for i in range(start, start + n):
        if codes[i] == of:
            return float(values[i])
    return -1.0


@inner
def hellinger(numbers: Any, head: Any, values: Any, codes: Any, starts: Any, lengths: Any) -> float:
    """``HellingerDistanceCriterion.compute_hellinger``: of the classes 0 and 1, and the first two branches."""
    positive, negative, two = head[0, at.POSITIVE], head[0, at.NEGATIVE], numbers[0, at.TWO]
    left_positive = class_weight(values, codes, starts[0], lengths[0], positive)
    left_negative = class_weight(values, codes, starts[0], lengths[0], negative)
    right_positive = class_weight(values, codes, starts[1], lengths[1], positive)
    right_negative = class_weight(values, codes, starts[1], lengths[1], negative)
    if left_positive < 0.0 or left_negative < 0.0 or right_positive < 0.0 or right_negative < 0.0:
        return 0.0
    negatives, positives = left_negative + right_negative, left_positive + right_positive
    left = math.sqrt(left_negative / negatives) - math.sqrt(left_positive / positives)
    right = math.sqrt(right_negative / negatives) - math.sqrt(right_positive / positives)
    return math.sqrt(math.pow(left, two) + math.pow(right, two))


@inner
def merit(
    numbers: Any,
    head: Any,
    before: float,
    values: Any,
    codes: Any,
    starts: Any,
    lengths: Any,
    n: int,
    sums: Any,
) -> float:
    """``merit_of_split`` into n branches; ``before`` is the leaf's entropy."""
    whole = 0.0
    for i in range(n):
        sums[i] = total(values[starts[i] :], lengths[i])
        whole += sums[i]
    large = 0
    if whole > 0.0:
        for i in range(n):
            large += 1 if sums[i] / whole > numbers[0, at.FRACTION] else 0
    if large < 2:
        return -math.inf
    criterion, result = numbers[0, at.CRITERION], 0.0
    if criterion == at.HELLINGER:
        return float(hellinger(numbers, head, values, codes, starts, lengths))
    if criterion == at.INFO_GAIN:
        for i in range(n):
            result += sums[i] * entropy(values, starts[i], lengths[i])
        return float(before - result / whole)
    for i in range(n):
        impurity = 1.0
        if sums[i] != 0.0:
            for j in range(starts[i], starts[i] + lengths[i]):
                share = values[j] / sums[i]
                impurity -= share * share
        result += (sums[i] / whole) * impurity
    return 1.0 - result


@inner
def spreads(first: int, half: float, cells: Any, links: Any, out: Any) -> None:
    """The standard deviation of each cell, in the chain's order."""
    i, cell = 0, first
    while cell >= 0:
        n = cells[cell, at.WEIGHT]
        out[i] = math.pow(cells[cell, at.SQUARES] / (n - 1.0) if n > 1.0 else 0.0, half)
        cell = links[cell, at.NEXT_CELL]
        i += 1


@inner
def below_and_above(
    first: int, point: float, sigmas: Any, cells: Any, links: Any, values: Any, codes: Any, starts: Any, lengths: Any
) -> None:  # fmt: skip
    """``GaussianSplitter._class_dists_from_binary_split``."""
    size = len(values) // 2
    left, right, cell, i = 0, 0, first, 0
    while cell >= 0:
        n, sigma = cells[cell, at.WEIGHT], sigmas[i]
        i += 1
        if point < cells[cell, at.LOWEST]:
            values[size + right], codes[size + right] = n, links[cell, at.CLASS]
            right += 1
        elif point >= cells[cell, at.HIGHEST]:
            values[left], codes[left] = n, links[cell, at.CLASS]
            left += 1
        else:
            share = 0.0
            if sigma != 0.0:
                share = 0.5 * (1.0 + math.erf(((point - cells[cell, at.MEAN]) / sigma) / SQRT_2))
            values[left], codes[left] = share * n, links[cell, at.CLASS]
            values[size + right], codes[size + right] = n - values[left], links[cell, at.CLASS]
            left += 1
            right += 1
        cell = links[cell, at.NEXT_CELL]
    starts[0], lengths[0], starts[1], lengths[1] = 0, left, size, right


@inner
def equal_and_not(
    first: int, category: float, cells: Any, links: Any, values: Any, codes: Any, starts: Any, lengths: Any
) -> None:
    """``NominalSplitterClassif._class_dist_from_binary_split``."""
    size = len(values) // 2
    left, right, cell = 0, 0, first
    while cell >= 0:
        other, others = 0.0, False
        value = links[cell, at.VALUES]
        while value >= 0:
            if cells[value, at.CATEGORY] == category:
                values[left], codes[left] = cells[value, at.WEIGHT], links[cell, at.CLASS]
                left += 1
            else:
                other += cells[value, at.WEIGHT]
                others = True
            value = links[value, at.NEXT_CELL]
        if others:
            values[size + right], codes[size + right] = other, links[cell, at.CLASS]
            right += 1
        cell = links[cell, at.NEXT_CELL]
    starts[0], lengths[0], starts[1], lengths[1] = 0, left, size, right


@allocating
def by_category(
    first: int, ranks: Any, start: int, size: int, order: Any, n_classes: int, cells: Any, links: Any, categories: Any,
    values: Any, codes: Any, starts: Any, lengths: Any,
) -> Any:  # fmt: skip
    """``NominalSplitterClassif._class_dist_from_multiway_split``: the number of branches, and the category of each."""
    weights = np.full((size, n_classes), -1.0)
    cell = first
    while cell >= 0:
        value = links[cell, at.VALUES]
        while value >= 0:
            weights[int(cells[value, at.CATEGORY]), links[cell, at.CLASS]] = cells[value, at.WEIGHT]
            value = links[value, at.NEXT_CELL]
        cell = links[cell, at.NEXT_CELL]
    n, end = 0, 0
    for rank in range(size):
        category = ranks[0, start + rank]
        starts[n], lengths[n], categories[n] = end, 0, category
        for i in range(n_classes):
            weight = weights[category, order[0, i]]
            if weight >= 0.0:
                values[end], codes[end] = weight, order[0, i]
                end += 1
        lengths[n] = end - starts[n]
        if lengths[n] > 0:
            n += 1
    return n


@allocating
def distribute(
    table: Any, observer: int, kind: int, point: float, categories: Any, values: Any, codes: Any, starts: Any, lengths: Any
) -> Any:  # fmt: skip
    """The distributions of a split of that kind; how many branches it has."""
    head, cells, links = i8(table, at.HEAD), f8(table, at.CELLS), i8(table, at.LINKS)
    observers, columns = i8(table, at.OBSERVERS), i8(table, at.COLUMNS)
    first, column = observers[observer, at.HEAD_CELL], observers[observer, at.FEATURE]
    if kind == at.MULTIWAY:
        return by_category(
            first, i8(table, at.RANKS), columns[column, at.START], columns[column, at.SIZE], i8(table, at.ORDER),
            head[0, at.N_CLASSES], cells, links, categories, values, codes, starts, lengths,
        )  # fmt: skip
    if kind == at.EQUAL:
        equal_and_not(first, point, cells, links, values, codes, starts, lengths)
    else:
        sigmas = np.empty(head[0, at.N_CLASSES])
        spreads(first, f8(table, at.NUMBERS)[0, at.HALF], cells, links, sigmas)
        below_and_above(first, point, sigmas, cells, links, values, codes, starts, lengths)
    return 2


@allocating
def suggest_point(
    table: Any, observer: int, before: float, values: Any, codes: Any, starts: Any, lengths: Any, sums: Any
) -> Any:
    """``GaussianSplitter.best_evaluated_split_suggestion``: merit, kind (a leaf for none) and threshold."""
    cells, links, numbers = f8(table, at.CELLS), i8(table, at.LINKS), f8(table, at.NUMBERS)
    head = i8(table, at.HEAD)
    first = i8(table, at.OBSERVERS)[observer, at.HEAD_CELL]
    lowest, highest, cell = math.inf, -math.inf, first
    while cell >= 0:
        lowest = min(lowest, cells[cell, at.LOWEST])
        highest = max(highest, cells[cell, at.HIGHEST])
        cell = links[cell, at.NEXT_CELL]
    best, kind, threshold = -math.inf, at.LEAF, 0.0
    if lowest < math.inf:
        sigmas = np.empty(head[0, at.N_CLASSES])
        spreads(first, numbers[0, at.HALF], cells, links, sigmas)
        points = int(numbers[0, at.N_SPLITS])
        width = (highest - lowest) / (points + 1.0)
        for i in range(points):
            point = lowest + width * (i + 1)
            if not lowest < point < highest:
                continue
            below_and_above(first, point, sigmas, cells, links, values, codes, starts, lengths)
            value = merit(numbers, head, before, values, codes, starts, lengths, 2, sums)
            if value > best:
                best, kind, threshold = value, at.THRESHOLDED, point
    return best, kind, threshold


@inner
def suggest_category(
    table: Any, observer: int, before: float, categories: Any, values: Any, codes: Any, starts: Any, lengths: Any, sums: Any
) -> Any:  # fmt: skip
    """``NominalSplitterClassif.best_evaluated_split_suggestion``: merit, kind (a leaf for none) and category.

    Of binary splits of equal merit river takes the first in a set's order; here it is the smallest category.
    """
    head, numbers = i8(table, at.HEAD), f8(table, at.NUMBERS)
    best, kind, chosen = -math.inf, at.LEAF, 0.0
    n = distribute(table, observer, at.MULTIWAY, 0.0, categories, values, codes, starts, lengths)
    if numbers[0, at.BINARY] == 0.0:
        kind = at.MULTIWAY
        best = merit(numbers, head, before, values, codes, starts, lengths, n, sums)
    for i in range(n):
        category = float(categories[i])
        distribute(table, observer, at.EQUAL, category, categories, values, codes, starts, lengths)
        value = merit(numbers, head, before, values, codes, starts, lengths, 2, sums)
        if value > best:
            best, kind, chosen = value, at.EQUAL, category
    return best, kind, chosen


@inner
def widest(table: Any, leaf: int) -> Any:
    """The most categories that a nominal feature of the leaf may have, at least two."""
    leaves, observers, columns = i8(table, at.LEAVES), i8(table, at.OBSERVERS), i8(table, at.COLUMNS)
    result, observer = 2, leaves[leaf, at.FIRST]
    while observer >= 0:
        if observers[observer, at.CATEGORICAL] == 1:
            result = max(result, columns[observers[observer, at.FEATURE], at.SIZE])
        observer = observers[observer, at.NEXT_OBSERVER]
    return result


@inner
def decide(
    table: Any, leaf: int, categories: Any, values: Any, codes: Any, starts: Any, lengths: Any, sums: Any
) -> Any:
    """``_attempt_to_split``: whether to split, and at what: observer (−1 for the null split), kind, threshold or category."""
    numbers, leaves, stats, classes = (
        f8(table, at.NUMBERS),
        i8(table, at.LEAVES),
        f8(table, at.STATS),
        i8(table, at.CLASSES),
    )
    n, met = leaves[leaf, at.COUNT], 0
    for i in range(n):
        met += 1 if stats[leaf, i] != 0.0 else 0
    if met < 2:
        return False, -1, at.LEAF, 0.0
    weight = weight_of(leaf, n, stats, classes)
    highest = stats[leaf, 0]
    for i in range(1, n):
        highest = max(stats[leaf, i], highest)
    if highest != 0.0 and highest / weight > numbers[0, at.SHARE]:
        return True, -1, at.LEAF, 0.0
    before = entropy(stats[leaf], 0, n)
    pruned = numbers[0, at.PREPRUNE] != 0.0
    best, second, chosen, chosen_kind, point = -math.inf, -math.inf, -1, at.LEAF, 0.0
    suggestions = 1 if pruned else 0
    observers = i8(table, at.OBSERVERS)
    observer = leaves[leaf, at.FIRST]
    while observer >= 0:
        if observers[observer, at.CATEGORICAL] == 1:
            value, kind, where = suggest_category(
                table, observer, before, categories, values, codes, starts, lengths, sums
            )
        else:
            value, kind, where = suggest_point(table, observer, before, values, codes, starts, lengths, sums)
        if suggestions == 0 or value >= best:  # a stable sort: of equals the last
            second = best
            best, point, chosen_kind, chosen = value, where, kind, observer if kind != at.LEAF else -1
        else:
            second = max(value, second)
        suggestions += 1
        observer = observers[observer, at.NEXT_OBSERVER]
    if suggestions < 2:
        return suggestions > 0, chosen, chosen_kind, point
    span = 1.0 if numbers[0, at.CRITERION] == at.GINI else math.log2(float(max(n, 2)))
    bound = math.sqrt((span * span * math.log(1.0 / numbers[0, at.DELTA])) / (2.0 * weight))
    return best - second > bound or bound < numbers[0, at.TAU], chosen, chosen_kind, point


@allocating
def divide(table: Any, head: Any, node: int, fresh: bool) -> Any:
    """Split a leaf's node where that is due, or a fresh one in its place: the branch and its number of leaves, or ``STAYS`` or ``NULL``."""
    nodes, leaves, weights = i8(table, at.NODES), i8(table, at.LEAVES), f8(table, at.WEIGHTS)
    stats, classes = f8(table, at.STATS), i8(table, at.CLASSES)
    size, width = stats.shape[1], widest(table, nodes[node, at.LEAF_OF])
    values, codes = np.empty(width * size), np.empty(width * size, np.int64)
    starts, lengths = np.empty(width, np.int64), np.empty(width, np.int64)
    categories, sums = np.empty(width, np.int64), np.empty(width)
    split, observer, kind, point = decide(
        table, nodes[node, at.LEAF_OF], categories, values, codes, starts, lengths, sums
    )
    if not split:
        return at.STAYS, 0
    if observer < 0:
        return at.NULL, 0
    n = distribute(table, observer, kind, point, categories, values, codes, starts, lengths)
    branch = new_node(table, head, -1, nodes[node, at.DEPTH]) if fresh else node
    sprout(table, branch, observer, kind, point, n, categories)
    child = nodes[branch, at.LEFT]
    for i in range(n):
        leaf = nodes[child, at.LEAF_OF]
        for j in range(lengths[i]):
            stats[leaf, j] = values[starts[i] + j]
            classes[leaf, j] = codes[starts[i] + j]
        leaves[leaf, at.COUNT] = lengths[i]
        weights[leaf, at.ATTEMPTED] = weight_of(leaf, lengths[i], stats, classes)
        child = nodes[child, at.NEXT]
    return branch, n
