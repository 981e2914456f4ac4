"""``HoeffdingAdaptiveTreeClassifier`` and ``HoeffdingAdaptiveTreeRegressor`` in compiled code; see ``hoeffding``.

A branch may have an alternate, which is always a leaf: where it splits, its split takes the branch's place. The branch and what
is below still learn the record then, as in river, before they are given back.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from explain_core.compiling import compiled, inlined, inner
from explain_core.learners import adwin
from explain_core.learners import layout as at
from explain_core.learners.arrays import Array, f8, held, i8, u4
from explain_core.learners.forest import adwin_numbers, watches
from explain_core.learners.layout import short
from explain_core.learners.leaves import (
    first_highest,
    forget,
    is_regression,
    learn_leaf,
    predict_leaf,
    weight_of,
)
from explain_core.learners.mersenne import poisson, state_of
from explain_core.learners.regression_splits import divide_target, variance
from explain_core.learners.splits import SQRT_2, divide
from explain_core.learners.tree import POOLS, TreeLearner, repeatable
from explain_core.learners.walks import append_child, following, leaf_node, most_common, next_node, release
from explain_core.sums import total

ERROR_COUNT, ERROR, ERROR_SQUARES = range(3)
MADE, SWITCHED, PRUNED = range(3)
BY_ERFC = "erfc" in NormalDist.cdf.__code__.co_names
"""How this Python computes the normal distribution."""


@inlined
def scale_votes(table: Any, node: int, n: int, votes: Any) -> None:
    """Make the votes of a leaf's classes greater the less it errs."""
    error = f8(table, at.ERRORS)[node, ERROR]
    factor = total(votes, n) * error * error
    if factor != 0.0 and not math.isnan(factor):
        scale = 1.0 / factor
        for i in range(n):
            votes[i] *= scale


@inner
def vote(table: Any, node: int, x: Any, votes: Any, parts: Any, places: Any) -> Any:
    """``AdaLeafClassifier.prediction``, or ``AdaLeafRegressor.prediction``; how many votes there are."""
    n = predict_leaf(table, i8(table, at.NODES)[node, at.LEAF_OF], x, votes, parts, places)
    if not is_regression(table):
        scale_votes(table, node, n, votes)
    return n


@inner
def misses(table: Any, node: int, x: Any, y: Any, votes: Any, parts: Any, places: Any) -> Any:
    """1 where the leaf predicts another class, else 0; of a number the absolute error."""
    n = vote(table, node, x, votes, parts, places)
    if not isinstance(y, int):
        return abs(y - votes[0])
    leaf = i8(table, at.NODES)[node, at.LEAF_OF]
    return 0.0 if n > 0 and i8(table, at.CLASSES)[leaf, first_highest(votes, n)] == y else 1.0


@inner
def worse(table: Any, head: Any, node: int, wrong: float) -> Any:
    """Whether the node's error has changed, and not for the better."""
    errors = f8(table, at.ERRORS)
    before = errors[node, ERROR]
    change = adwin.update(table, head, node, 0, wrong)
    errors[node, ERROR_COUNT] += 1.0
    errors[node, ERROR] += (1.0 / errors[node, ERROR_COUNT]) * (wrong - errors[node, ERROR])
    if errors.shape[1] > ERROR_SQUARES:
        errors[node, ERROR_SQUARES] += (wrong - before) * (wrong - errors[node, ERROR])
    if change and before > errors[node, ERROR]:
        errors[node, :] = 0.0
        return False
    return change


@inner
def wake_all(table: Any, node: int) -> None:
    """``_enforce_size_limit`` of a tree within its limit: see ``walks.wake``; alternates belong to it, but for the root's."""
    nodes, leaves, alternates = i8(table, at.NODES), i8(table, at.LEAVES), i8(table, at.ALTERNATES)
    if nodes[node, at.KIND] == at.LEAF:
        if nodes[node, at.DEPTH] < f8(table, at.NUMBERS)[0, at.DEPTH_LIMIT]:
            leaves[nodes[node, at.LEAF_OF], at.ACTIVE] = 1
        return
    child = nodes[node, at.LEFT]
    while child >= 0:
        wake_all(table, child)
        if nodes[child, at.KIND] != at.LEAF and alternates[child, 0] >= 0:
            wake_all(table, alternates[child, 0])
        child = nodes[child, at.NEXT]


@inner
def replace(table: Any, parent: int, occupant: int, node: int) -> None:
    """Put a node in the place of another one below the parent, or at the root."""
    nodes, splits = i8(table, at.NODES), f8(table, at.SPLITS)
    if parent < 0:
        i8(table, at.TREES)[0, at.ROOT] = node
        return
    nodes[node, at.NEXT] = nodes[occupant, at.NEXT]
    splits[node, at.KEY] = splits[occupant, at.KEY]
    nodes[occupant, at.NEXT] = -1
    if nodes[parent, at.RIGHT] == occupant:
        nodes[parent, at.RIGHT] = node
    if nodes[parent, at.LEFT] == occupant:
        nodes[parent, at.LEFT] = node
        return
    before = nodes[parent, at.LEFT]
    while nodes[before, at.NEXT] != occupant:
        before = nodes[before, at.NEXT]
    nodes[before, at.NEXT] = node


@inner
def learn_node(
    table: Any, head: Any, node: int, parent: int, occupant: int, x: Any, y: Any, w: float, votes: Any, parts: Any,
    places: Any,
) -> Any:  # fmt: skip
    """The ``learn_one`` of a leaf at the occupant's place: 0, 1 for leaves awoken, 2 for a split put there."""
    numbers, leaves, weights = f8(table, at.NUMBERS), i8(table, at.LEAVES), f8(table, at.WEIGHTS)
    nodes = i8(table, at.NODES)
    if numbers[0, at.BOOTSTRAP] != 0.0:
        k = poisson(numbers[0, at.RATE], u4(table, at.GENERATOR), head)
        if k > 0:
            w *= k
    worse(table, head, node, misses(table, node, x, y, votes, parts, places))
    leaf = nodes[node, at.LEAF_OF]
    learn_leaf(table, leaf, x, y, w, 0, False, votes, parts, places)
    seen = weight_of(leaf, leaves[leaf, at.COUNT], f8(table, at.STATS), i8(table, at.CLASSES))
    if seen - weights[leaf, at.ATTEMPTED] < numbers[0, at.GRACE]:
        return 0
    if nodes[node, at.DEPTH] >= numbers[0, at.DEPTH_LIMIT]:
        forget(table, head, leaf)
        leaves[leaf, at.ACTIVE] = 0
        return 0
    used = head[0, at.LEAF_POOL] - head[0, at.LEAF_POOL + 1]
    if leaves[leaf, at.ACTIVE] == 0 or used >= numbers[0, at.LEAF_LIMIT]:
        return 0
    weights[leaf, at.ATTEMPTED] = seen
    if isinstance(y, int):
        branch, _ = divide(table, head, node, True)
    else:
        branch, _ = divide_target(table, head, node, True)
    if branch == at.STAYS:
        return 0
    if branch == at.NULL:
        forget(table, head, leaf)
        leaves[leaf, at.ACTIVE] = 0
    else:
        replace(table, parent, occupant, branch)
    wake_all(table, i8(table, at.TREES)[0, at.ROOT])
    return 1 if branch == at.NULL else 2


@inner
def prune(table: Any, head: Any, branch: int) -> None:
    """``kill_tree_children``: give the alternates below back."""
    nodes, alternates = i8(table, at.NODES), i8(table, at.ALTERNATES)
    child = nodes[branch, at.LEFT]
    while child >= 0:
        if nodes[child, at.KIND] != at.LEAF:
            if alternates[child, 0] >= 0:
                release(table, head, alternates[child, 0])
                alternates[child, 0] = -1
                i8(table, at.COUNTERS)[0, PRUNED] += 1
            prune(table, head, child)
        child = nodes[child, at.NEXT]


@inner
def compare(table: Any, node: int, alternate: int, y: Any) -> Any:
    """1 where the alternate is better, −1 where it is worse, 0 where nothing can be said yet; ``y`` tells classes from numbers."""
    errors, numbers = f8(table, at.ERRORS), f8(table, at.NUMBERS)
    n, other = errors[node, ERROR_COUNT], errors[alternate, ERROR_COUNT]
    if other <= numbers[0, at.DRIFT_WINDOW] or n <= numbers[0, at.DRIFT_WINDOW]:
        return 0
    mine, its = errors[node, ERROR], errors[alternate, ERROR]
    if isinstance(y, int):
        bound = math.sqrt(
            2.0 * mine * (1.0 - mine) * math.log(2.0 / numbers[0, at.SWITCH]) * (1.0 / other + 1.0 / n)
        )
        if bound < mine - its:
            return 1
        return -1 if bound < its - mine else 0
    # A z-test of the mean absolute errors.
    its_spread = variance(other, errors[alternate, ERROR_SQUARES]) / other
    spread = math.sqrt(its_spread + variance(n, errors[node, ERROR_SQUARES]) / n)
    z = abs((its - mine) / spread)
    p = 2.0 * (0.5 * math.erfc(z / SQRT_2) if BY_ERFC else 0.5 * (1.0 + math.erf(-z / SQRT_2)))
    if not p <= numbers[0, at.SWITCH]:
        return 0
    return 1 if its < mine else -1


@compiled
def learn(table: Any, x: Any, y: Any, w: float) -> Any:
    """``HoeffdingAdaptiveTreeClassifier.learn_one``, or ``HoeffdingAdaptiveTreeRegressor.learn_one``; see ``hoeffding.learn``."""
    head, trees, counters = i8(table, at.HEAD), i8(table, at.TREES), i8(table, at.COUNTERS)
    nodes, splits, alternates = i8(table, at.NODES), f8(table, at.SPLITS), i8(table, at.ALTERNATES)
    length, node = 1, trees[0, at.ROOT]
    while node >= 0 and nodes[node, at.KIND] != at.LEAF:
        node, _ = next_node(table, nodes, splits, node, x[nodes[node, at.COLUMN]])
        length += 1
    if short(table, head, 2 * length + 1):
        return -2 * length - 1
    end, size = node, f8(table, at.STATS).shape[1]
    votes, parts, places = np.empty(size), np.empty(size), np.empty(size, np.int64)
    if trees[0, at.ROOT] < 0:
        trees[0, at.ROOT] = leaf_node(table, head, 0)
    orphans, n_orphans = np.empty(2 * length + 2, np.int64), 0
    node, parent, changed, wrong = trees[0, at.ROOT], -1, 2, 0.0
    while nodes[node, at.KIND] != at.LEAF:
        if changed != 0:  # leaves may be awake again, and predict otherwise
            wrong = misses(table, end, x, y, votes, parts, places)
            changed = 0
        alternate = alternates[node, 0]
        # A classification tree begins its alternate anew; a regression tree goes on with the one it has.
        if worse(table, head, node, wrong) and (isinstance(y, int) or alternate < 0):
            f8(table, at.ERRORS)[node, :] = 0.0
            if alternate >= 0:
                release(table, head, alternate)
            alternate = leaf_node(table, head, nodes[node, at.DEPTH])
            alternates[node, 0] = alternate
            counters[0, MADE] += 1
        elif alternate >= 0:
            better = compare(table, node, alternate, y)
            if better > 0:
                prune(table, head, node)
                alternates[node, 0] = -1
                replace(table, parent, node, alternate)
                orphans[n_orphans] = node
                n_orphans += 1
                counters[0, SWITCHED] += 1
                if parent >= 0:  # at the root river's alternate learns still
                    alternate = -1
            elif better < 0:
                release(table, head, alternate)
                alternates[node, 0] = -1
                alternate = -1
                counters[0, PRUNED] += 1
        if alternate >= 0:
            occupant = trees[0, at.ROOT] if parent < 0 else node
            changed = learn_node(table, head, alternate, parent, occupant, x, y, w, votes, parts, places)
            if changed == 2:
                orphans[n_orphans] = occupant
                n_orphans += 1
        child = following(nodes, splits, node, x)
        if child < 0:
            used = head[0, at.LEAF_POOL] - head[0, at.LEAF_POOL + 1]
            if (
                nodes[node, at.KIND] == at.MULTIWAY
                and not math.isnan(x[nodes[node, at.COLUMN]])
                and used < f8(table, at.NUMBERS)[0, at.LEAF_LIMIT]
            ):
                child = leaf_node(table, head, nodes[node, at.DEPTH] + 1)
                append_child(nodes, splits, node, child, x[nodes[node, at.COLUMN]])
            else:
                child = most_common(table, node)
        parent, node = node, child
    if learn_node(table, head, node, parent, node, x, y, w, votes, parts, places) == 2:
        orphans[n_orphans] = node
        n_orphans += 1
    for i in range(n_orphans):
        release(table, head, orphans[i])
    return 0


@inner
def add(table: Any, node: int, x: Any, out: Any, votes: Any, parts: Any, places: Any) -> None:
    """Add a leaf's votes, by code."""
    classes, leaf = i8(table, at.CLASSES), i8(table, at.NODES)[node, at.LEAF_OF]
    for i in range(vote(table, node, x, votes, parts, places)):
        out[classes[leaf, i]] += votes[i]


@inlined
def share(table: Any, reached: int, parts: Any, out: Any) -> None:
    """The prediction that the votes of the leaves that a walk reached add up to."""
    if is_regression(table):
        out[0] /= reached
        return
    order = i8(table, at.ORDER)
    n = order.shape[1]
    for i in range(n):
        parts[i] = out[order[0, i]]
    whole = total(parts, n)
    if whole != 0.0 and not math.isnan(whole):
        scale = 1.0 / whole
        for i in range(n):
            out[order[0, i]] *= scale


@inner
def probabilities(table: Any, x: Any, out: Any, votes: Any, parts: Any, places: Any) -> None:
    """``predict_proba_one`` into ``out``, in the order of the codes; or ``predict_one``, the mean of the leaves'."""
    nodes, splits, alternates = i8(table, at.NODES), f8(table, at.SPLITS), i8(table, at.ALTERNATES)
    out[:] = 0.0
    node, times, reached = i8(table, at.TREES)[0, at.ROOT], 1, 1
    if node < 0:
        return
    while nodes[node, at.KIND] != at.LEAF:
        if alternates[node, 0] >= 0:
            for _ in range(times):
                add(table, alternates[node, 0], x, out, votes, parts, places)
                reached += 1
        node, times = next_node(table, nodes, splits, node, x[nodes[node, at.COLUMN]])
    add(table, node, x, out, votes, parts, places)
    share(table, reached, votes, out)


@compiled
def predict(table: Any, rows: Any, out: Any) -> None:
    """``predict_proba_one`` of encoded rows, rows × classes in river's order."""
    order, size = i8(table, at.ORDER), f8(table, at.STATS).shape[1]
    by_code, votes, parts, places = np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64)
    own, found = held(rows), held(out)
    for row in range(len(own)):
        probabilities(table, own[row], by_code, votes, parts, places)
        for i in range(found.shape[1]):
            found[row, i] = by_code[order[0, i]]


class AdaptiveTreeLearner(TreeLearner):
    """``river.tree.HoeffdingAdaptiveTreeClassifier`` in arrays.

    River's predictions have their classes in the order of a set; of other classes than numbers that order is here the one of appearance.
    """

    kind = "hoeffding_adaptive_tree_classifier"
    pools = {**POOLS, at.NODE_POOL: (*POOLS[at.NODE_POOL], "windows", "ends")}  # noqa: RUF012
    _learn = staticmethod(learn)
    _predict = staticmethod(predict)

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether the model is one that this learner repeats."""
        from river import tree

        return type(model) is tree.HoeffdingAdaptiveTreeClassifier and repeatable(model) and adapts(model)

    def _empty(self, model: Any) -> dict[str, Array]:
        found = super()._empty(model)
        numbers, head = found["numbers"], found["head"]
        numbers[0, at.RATE] = math.exp(-1)
        numbers[0, at.BOOTSTRAP] = model.bootstrap_sampling
        numbers[0, at.DRIFT_WINDOW] = model.drift_window_threshold
        numbers[0, at.SWITCH] = model.switch_significance
        numbers[0, at.COMPARES] = 1.0
        detector = np.array([adwin_numbers(model.drift_detector)], float)
        words, head[0, at.POSITION] = state_of(model._rng)
        found.update(
            generator=words,
            counters=np.zeros((1, 3), np.int64),
            detectors=detector,
            errors=np.zeros((0, 2)),
            alternates=np.zeros((0, 1), np.int64),
            windows=np.zeros((0, at.N_WINDOW)),
            ends=np.zeros((0, at.N_END), np.int64),
            buckets=np.zeros((0, 2 * int(detector[0, at.MOST_BUCKETS] + 1))),
            chains=np.zeros((0, at.N_CHAIN), np.int64),
        )
        return found

    def ordered(self, labels: list[Any]) -> list[Any]:
        if not all(isinstance(label, int | float) for label in labels):
            return list(labels)
        met: set[Any] = set()
        for label in labels:
            met.add(label)
        return list(met)


def adapts(model: Any) -> bool:
    """Whether an adaptive tree has learnt nothing, and its own parameters are among those that the kernels know."""
    return (
        model._root is None
        and not model.stop_mem_management
        and watches(model.drift_detector)
        and type(model.drift_window_threshold) in (int, float)
        and type(model.switch_significance) is float
        and 0.0 < model.switch_significance < 2.0
    )
