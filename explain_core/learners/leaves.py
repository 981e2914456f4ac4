"""Leaves in compiled code: what they predict and learn, as in river's ``htc_nodes`` and splitters; see also ``regression_leaves``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import allocating, inlined, inner
from explain_core.learners import layout as at
from explain_core.learners.arrays import f8, i8, u4
from explain_core.learners.layout import give, take
from explain_core.learners.mersenne import sample
from explain_core.learners.naive_bayes import factors, normalise, priors
from explain_core.learners.regression_leaves import learn_target, observe_number, predict_target
from explain_core.sums import COMPENSATED, total


@inner
def new_leaf(table: Any, head: Any) -> Any:
    """An empty, active leaf."""
    leaf, leaves = take(table, head, at.LEAF_POOL), i8(table, at.LEAVES)
    leaves[leaf, :] = 0
    leaves[leaf, at.ACTIVE] = 1
    leaves[leaf, at.FIRST] = -1
    leaves[leaf, at.LAST] = -1
    f8(table, at.WEIGHTS)[leaf, :] = 0.0
    f8(table, at.STATS)[leaf, :] = 0.0
    i8(table, at.CLASSES)[leaf, :] = 0
    return leaf


@inner
def forget(table: Any, head: Any, leaf: int) -> None:
    """Give a leaf's observers back."""
    leaves, observers = i8(table, at.LEAVES), i8(table, at.OBSERVERS)
    cells, links = f8(table, at.CELLS), i8(table, at.LINKS)
    observer = leaves[leaf, at.FIRST]
    while observer >= 0:
        cell = observers[observer, at.HEAD_CELL]
        while cell >= 0:
            value = links[cell, at.VALUES]
            if value >= 0:  # it comes first, what follows it later
                links[cell, at.VALUES] = links[value, at.NEXT_CELL]
                links[value, at.NEXT_CELL] = cell
                cell = value
                continue
            after = links[cell, at.NEXT_CELL]
            cells[cell, :] = 0.0
            give(table, head, at.CELL_POOL, links, cell)
            cell = after
        following = observers[observer, at.NEXT_OBSERVER]
        give(table, head, at.OBSERVER_POOL, observers, observer)
        observer = following
    leaves[leaf, at.FIRST] = -1
    leaves[leaf, at.LAST] = -1
    leaves[leaf, at.NOMINALS] = 0


@inner
def drop_leaf(table: Any, head: Any, leaf: int) -> None:
    """Give a leaf back."""
    forget(table, head, leaf)
    f8(table, at.WEIGHTS)[leaf, :] = 0.0
    f8(table, at.STATS)[leaf, :] = 0.0
    i8(table, at.CLASSES)[leaf, :] = 0
    models = f8(table, at.MODELS)
    for i in range(models.shape[1]):  # it has no rows where the tree has no models
        models[leaf, i] = 0.0
    give(table, head, at.LEAF_POOL, i8(table, at.LEAVES), leaf)


@inlined
def weight_of(leaf: int, n: int, stats: Any, classes: Any) -> Any:
    """``sum(stats.values())``: an int among floats is added without compensation."""
    if not COMPENSATED:
        return total(stats[leaf], n)
    flags = stats.shape[1]
    result, lost = 0.0, 0.0
    for i in range(n):
        value = stats[leaf, i]
        t = result + value
        if classes[leaf, flags + i] == 0:
            lost += (result - t) + value if abs(result) >= abs(value) else (value - t) + result
        result = t
    return result + lost if lost != 0.0 and math.isfinite(lost) else result


@inlined
def majority(leaf: int, n: int, stats: Any, classes: Any, votes: Any) -> None:
    """``normalize_values_in_dict(stats)``, in the leaf's order of classes."""
    weight = weight_of(leaf, n, stats, classes)
    scale = 1.0 / weight if weight != 0.0 and not math.isnan(weight) else 1.0
    for i in range(n):
        votes[i] = stats[leaf, i] * scale


@inlined
def bayes(table: Any, leaf: int, x: Any, votes: Any, parts: Any, places: Any) -> Any:
    """``do_naive_bayes_prediction`` into ``votes``, in the leaf's order of classes; how many there are."""
    leaves, stats, classes = i8(table, at.LEAVES), f8(table, at.STATS), i8(table, at.CLASSES)
    observers, cells, links = i8(table, at.OBSERVERS), f8(table, at.CELLS), i8(table, at.LINKS)
    two = f8(table, at.NUMBERS)[0, at.TWO]
    n = leaves[leaf, at.COUNT]
    whole = weight_of(leaf, n, stats, classes)
    if n == 0 or whole == 0.0:
        return 0
    priors(leaf, n, whole, stats, classes, places, votes)
    observer = leaves[leaf, at.FIRST]
    while observer >= 0:
        value = x[observers[observer, at.FEATURE]]
        factors(observers, cells, links, observer, value, two, places, parts, n)
        for i in range(n):
            if parts[i] > -math.inf:
                votes[i] += parts[i]
        observer = observers[observer, at.NEXT_OBSERVER]
    normalise(votes, n, parts)
    return n


@inlined
def first_highest(votes: Any, n: int) -> Any:
    """``max(votes, key=votes.get)``."""
    best = 0
    for i in range(1, n):
        if votes[i] > votes[best]:
            best = i
    return best


@inlined
def uses_bayes(table: Any, leaf: int) -> Any:
    """Whether the leaf predicts by naive Bayes."""
    leaves, weights, numbers = i8(table, at.LEAVES), f8(table, at.WEIGHTS), f8(table, at.NUMBERS)
    manner = numbers[0, at.MANNER]
    if leaves[leaf, at.ACTIVE] == 0 or manner == at.MAJORITY:
        return False
    if manner == at.BETTER:
        return weights[leaf, at.NB_RIGHT] >= weights[leaf, at.MC_RIGHT]
    weight = weight_of(leaf, leaves[leaf, at.COUNT], f8(table, at.STATS), i8(table, at.CLASSES))
    return weight >= numbers[0, at.NB_THRESHOLD]


@inlined
def is_regression(table: Any) -> Any:
    """Whether the trees predict numbers."""
    return f8(table, at.NUMBERS)[0, at.MANNER] >= at.TARGET_MEAN


@inlined
def predict_leaf(table: Any, leaf: int, x: Any, votes: Any, parts: Any, places: Any) -> Any:
    """The leaf's ``prediction`` into ``votes``, in its order of classes, or one number; how many there are."""
    if is_regression(table):
        votes[0] = predict_target(table, leaf, x)
        return 1
    if uses_bayes(table, leaf):
        return bayes(table, leaf, x, votes, parts, places)
    n = i8(table, at.LEAVES)[leaf, at.COUNT]
    majority(leaf, n, f8(table, at.STATS), i8(table, at.CLASSES), votes)
    return n


@inner
def new_cell(table: Any, head: Any, cells: Any, links: Any, of: int) -> Any:
    """An empty cell of a class."""
    cell = take(table, head, at.CELL_POOL)
    cells[cell, :] = 0.0
    links[cell, at.CLASS] = of
    links[cell, at.NEXT_CELL] = -1
    links[cell, at.VALUES] = -1
    return cell


@inlined
def cell_of(table: Any, head: Any, cells: Any, links: Any, observers: Any, observer: int, of: int) -> Any:
    """The observer's cell of a class, a new one at the end where there is none, and whether it is new."""
    cell, last = observers[observer, at.HEAD_CELL], -1
    while cell >= 0 and links[cell, at.CLASS] != of:
        last = cell
        cell = links[cell, at.NEXT_CELL]
    if cell >= 0:
        return cell, False
    cell = new_cell(table, head, cells, links, of)
    if last < 0:
        observers[observer, at.HEAD_CELL] = cell
    else:
        links[last, at.NEXT_CELL] = cell
    return cell, True


@inner
def note(table: Any, head: Any, leaf: int, x: Any) -> None:
    """Enter the leaf's classes into its nominal observers, as river's naive Bayes does by asking a ``defaultdict``."""
    leaves, observers, cells, links = (
        i8(table, at.LEAVES),
        i8(table, at.OBSERVERS),
        f8(table, at.CELLS),
        i8(table, at.LINKS),
    )
    if leaves[leaf, at.NOMINALS] == 0:
        return
    stats, classes = f8(table, at.STATS), i8(table, at.CLASSES)
    if weight_of(leaf, leaves[leaf, at.COUNT], stats, classes) == 0.0:
        return
    for i in range(leaves[leaf, at.COUNT]):
        if stats[leaf, i] <= 0.0:
            continue
        observer = leaves[leaf, at.FIRST]
        while observer >= 0:
            if observers[observer, at.CATEGORICAL] == 1 and not math.isnan(
                x[observers[observer, at.FEATURE]]
            ):
                cell_of(table, head, cells, links, observers, observer, classes[leaf, i])
            observer = observers[observer, at.NEXT_OBSERVER]


@inlined
def observe(table: Any, head: Any, observer: int, value: float, y: int, w: float) -> None:
    """The observer's ``update``."""
    observers, cells, links = i8(table, at.OBSERVERS), f8(table, at.CELLS), i8(table, at.LINKS)
    cell, new = cell_of(table, head, cells, links, observers, observer, y)
    if observers[observer, at.CATEGORICAL] == 1:
        before, last = links[cell, at.VALUES], -1
        while before >= 0 and cells[before, at.CATEGORY] != value:
            last = before
            before = links[before, at.NEXT_CELL]
        if before < 0:
            before = new_cell(table, head, cells, links, y)
            cells[before, at.CATEGORY] = value
            if last < 0:
                links[cell, at.VALUES] = before
            else:
                links[last, at.NEXT_CELL] = before
        cells[before, at.WEIGHT] += w
        return
    if new or value < cells[cell, at.LOWEST]:
        cells[cell, at.LOWEST] = value
    if new or value > cells[cell, at.HIGHEST]:
        cells[cell, at.HIGHEST] = value
    old = cells[cell, at.MEAN]
    n = cells[cell, at.WEIGHT] + w
    mean = old + (w / n) * (value - old)
    squares = cells[cell, at.SQUARES] + w * (value - old) * (value - mean)
    cells[cell, at.WEIGHT] = n
    cells[cell, at.MEAN] = mean
    cells[cell, at.SQUARES] = squares
    if n > 1.0 and squares / (n - 1.0) > 0.0:
        cells[cell, at.HALF_LOG] = 0.5 * math.log(squares / (n - 1.0))


@allocating
def draw_features(table: Any, head: Any, leaf: int, x: Any) -> None:
    """``BaseRandomLeaf._sample_features`` of the record's features, into the leaf."""
    leaves, columns = i8(table, at.LEAVES), i8(table, at.COLUMNS)
    present, n = np.empty(len(columns), np.int64), 0
    for i in range(len(columns)):
        column = columns[i, at.BY_NAME]
        if not math.isnan(x[column]):
            present[n] = column
            n += 1
    k = head[0, at.N_FEATURES]
    if n < k:
        for i in range(n):
            leaves[leaf, at.N_LEAF + i] = present[i]
        leaves[leaf, at.SAMPLED] = n
        return
    chosen = np.empty(k, np.int64)
    copied = 21
    if k > 5:
        size = 1
        while size < 3 * k:  # 4 to the power of ⌈log₄ 3k⌉
            size *= 4
        copied += size
    sample(n, k, copied, chosen, u4(table, at.GENERATOR), head)
    for i in range(k):
        leaves[leaf, at.N_LEAF + i] = present[chosen[i]]
    leaves[leaf, at.SAMPLED] = k


@inlined
def update_observers(table: Any, head: Any, leaf: int, x: Any, y: Any, w: float) -> None:
    """``HTLeaf.update_splitters`` with all features of the record, or with those that the leaf samples."""
    leaves, observers, columns = i8(table, at.LEAVES), i8(table, at.OBSERVERS), i8(table, at.COLUMNS)
    drawn = head[0, at.N_FEATURES] > 0
    if drawn and leaves[leaf, at.SAMPLED] == 0:
        draw_features(table, head, leaf, x)
    expected = leaves[leaf, at.FIRST]
    for i in range(leaves[leaf, at.SAMPLED] if drawn else len(columns)):
        column = leaves[leaf, at.N_LEAF + i] if drawn else i
        value = x[column]
        if math.isnan(value):
            continue
        observer = expected
        if observer < 0 or observers[observer, at.FEATURE] != column:
            observer = leaves[leaf, at.FIRST]
            while observer >= 0 and observers[observer, at.FEATURE] != column:
                observer = observers[observer, at.NEXT_OBSERVER]
        if observer < 0:
            observer = take(table, head, at.OBSERVER_POOL)
            observers[observer, at.FEATURE] = column
            observers[observer, at.CATEGORICAL] = columns[column, at.NOMINAL]
            observers[observer, at.HEAD_CELL] = -1
            observers[observer, at.NEXT_OBSERVER] = -1
            if leaves[leaf, at.LAST] < 0:
                leaves[leaf, at.FIRST] = observer
            else:
                observers[leaves[leaf, at.LAST], at.NEXT_OBSERVER] = observer
            leaves[leaf, at.LAST] = observer
            leaves[leaf, at.NOMINALS] += columns[column, at.NOMINAL]
        expected = observers[observer, at.NEXT_OBSERVER]
        if isinstance(y, int):
            observe(table, head, observer, value, y, w)
        else:
            observe_number(table, head, observer, value, y, w)


@inlined
def learn_class(
    table: Any, leaf: int, x: Any, y: int, w: float, whole: int, predicted: bool, votes: Any, parts: Any, places: Any
) -> None:  # fmt: skip
    """The ``learn_one`` of a classification tree's leaf but for its observers; see ``learn_leaf``."""
    head, numbers = i8(table, at.HEAD), f8(table, at.NUMBERS)
    leaves, weights, stats, classes = (
        i8(table, at.LEAVES),
        f8(table, at.WEIGHTS),
        f8(table, at.STATS),
        i8(table, at.CLASSES),
    )
    active = leaves[leaf, at.ACTIVE] == 1
    n = leaves[leaf, at.COUNT]
    if active and numbers[0, at.COMPARES] != 0.0:
        if n == 0:
            weights[leaf, at.MC_RIGHT] += w
        else:
            majority(leaf, n, stats, classes, votes)
            if classes[leaf, first_highest(votes, n)] == y:
                weights[leaf, at.MC_RIGHT] += w
        voted = bayes(table, leaf, x, votes, parts, places)
        if voted > 0 and classes[leaf, first_highest(votes, voted)] == y:
            weights[leaf, at.NB_RIGHT] += w
        note(table, head, leaf, x)
    elif predicted and uses_bayes(table, leaf):
        note(table, head, leaf, x)
    place = 0
    while place < n and classes[leaf, place] != y:
        place += 1
    if place == n:
        classes[leaf, n] = y
        classes[leaf, stats.shape[1] + n] = whole
        leaves[leaf, at.COUNT] += 1
    stats[leaf, place] += w


@inner
def learn_leaf(
    table: Any, leaf: int, x: Any, y: Any, w: float, whole: int, predicted: bool, votes: Any, parts: Any, places: Any
) -> None:  # fmt: skip
    """The leaf's ``learn_one`` of a class's code or, in a regression, a number.

    ``whole`` is 1 for a weight that is an int, ``predicted`` whether the record was predicted before.
    """
    if isinstance(y, int):
        learn_class(table, leaf, x, y, w, whole, predicted, votes, parts, places)
    else:
        learn_target(table, leaf, x, y, w)
    if i8(table, at.LEAVES)[leaf, at.ACTIVE] == 1:
        update_observers(table, i8(table, at.HEAD), leaf, x, y, w)
