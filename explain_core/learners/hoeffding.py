"""``HoeffdingTreeClassifier`` and ``HoeffdingTreeRegressor`` in compiled code, and the trees of a forest.

Kernels that learn take a class's code or a number as ``y``, and are compiled for each of the two.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.compiling import compiled, inlined, inner
from explain_core.learners import layout as at
from explain_core.learners.arrays import f8, held, i1, i8
from explain_core.learners.layout import short
from explain_core.learners.leaves import drop_leaf, learn_leaf, predict_leaf, weight_of
from explain_core.learners.regression_splits import divide_target
from explain_core.learners.splits import divide
from explain_core.learners.tree import TreeLearner, repeatable
from explain_core.learners.walks import (
    append_child,
    deactivate,
    descend,
    following,
    leaf_node,
    most_common,
    wake,
)


@inlined
def predict_tree(table: Any, root: int, x: Any, votes: Any, parts: Any, places: Any) -> Any:
    """The node of the record's leaf, −1 for no tree; its votes in the leaf's order of classes, and how many there are."""
    if root < 0:
        return -1, 0
    nodes = i8(table, at.NODES)
    node = descend(table, nodes, f8(table, at.SPLITS), root, x)
    n = predict_leaf(table, nodes[node, at.LEAF_OF], x, votes, parts, places)
    return node, n


@inner
def attempt(table: Any, head: Any, tree: int, node: int, y: Any) -> Any:
    """``_attempt_to_split``; whether the node is a branch now."""
    trees, numbers = i8(table, at.TREES), f8(table, at.NUMBERS)
    leaf = i8(table, at.NODES)[node, at.LEAF_OF]
    if isinstance(y, int):
        branch, n = divide(table, head, node, False)
    else:
        branch, n = divide_target(table, head, node, False)
    if branch == at.STAYS:
        return False
    if branch == at.NULL:
        deactivate(table, head, tree, leaf)
    else:
        drop_leaf(table, head, leaf)
        trees[tree, at.N_LEAVES] += n - 1
    if trees[tree, at.INACTIVE] > 0:
        if numbers[0, at.STOP] != 0.0:
            trees[tree, at.STOPPED] = 1
        else:
            wake(table, head, tree, trees[tree, at.ROOT])
    return branch >= 0


@inner
def learn_tree(
    table: Any, tree: int, x: Any, y: Any, w: float, whole: int, predicted: bool, votes: Any, parts: Any, places: Any
) -> None:  # fmt: skip
    """``HoeffdingTreeClassifier.learn_one``, or ``HoeffdingTreeRegressor.learn_one``."""
    head, trees, numbers = i8(table, at.HEAD), i8(table, at.TREES), f8(table, at.NUMBERS)
    nodes, splits = i8(table, at.NODES), f8(table, at.SPLITS)
    if isinstance(y, int):
        i1(table, at.SEEN)[tree, y] = 1
    if trees[tree, at.ROOT] < 0:
        trees[tree, at.ROOT] = leaf_node(table, head, 0)
        trees[tree, at.N_LEAVES] = 1
    node = trees[tree, at.ROOT]
    stuck = False
    while nodes[node, at.KIND] != at.LEAF:
        child = following(nodes, splits, node, x)
        if child < 0:
            # The leaf that it comes to then does not split.
            stuck = True
            if (
                nodes[node, at.KIND] == at.MULTIWAY
                and not math.isnan(x[nodes[node, at.COLUMN]])
                and trees[tree, at.N_LEAVES] < numbers[0, at.LEAF_LIMIT]
            ):
                child = leaf_node(table, head, nodes[node, at.DEPTH] + 1)
                append_child(nodes, splits, node, child, x[nodes[node, at.COLUMN]])
                trees[tree, at.N_LEAVES] += 1
            else:
                child = most_common(table, node)
        node = child
    leaf = nodes[node, at.LEAF_OF]
    learn_leaf(table, leaf, x, y, w, whole, predicted, votes, parts, places)
    leaves = i8(table, at.LEAVES)
    if (
        stuck
        or leaves[leaf, at.ACTIVE] == 0
        or trees[tree, at.STOPPED] == 1
        or trees[tree, at.N_LEAVES] >= numbers[0, at.LEAF_LIMIT]
    ):
        return
    if nodes[node, at.DEPTH] >= numbers[0, at.DEPTH_LIMIT]:
        deactivate(table, head, tree, leaf)
        return
    weights = f8(table, at.WEIGHTS)
    seen = weight_of(leaf, leaves[leaf, at.COUNT], f8(table, at.STATS), i8(table, at.CLASSES))
    if seen - weights[leaf, at.ATTEMPTED] >= numbers[0, at.GRACE] and not attempt(table, head, tree, node, y):
        weights[leaf, at.ATTEMPTED] = seen


@compiled
def learn(table: Any, x: Any, y: Any, w: float) -> Any:
    """Learn a record; where there may be no room for it, change nothing and return minus the number of leaves that learn."""
    head = i8(table, at.HEAD)
    if short(table, head, 1):
        return -1
    size = f8(table, at.STATS).shape[1]
    learn_tree(table, 0, x, y, w, 0, True, np.empty(size), np.empty(size), np.empty(size, np.int64))
    return 0


@inner
def probabilities(table: Any, x: Any, out: Any, votes: Any, parts: Any, places: Any) -> None:
    """The tree's probability of each class into ``out``, in the order of the codes, or its number."""
    out[:] = 0.0
    node, n = predict_tree(table, i8(table, at.TREES)[0, at.ROOT], x, votes, parts, places)
    if node >= 0:
        classes, leaf = i8(table, at.CLASSES), i8(table, at.NODES)[node, at.LEAF_OF]
        for i in range(n):
            out[classes[leaf, i]] = votes[i]


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


class HoeffdingTreeLearner(TreeLearner):
    """``river.tree.HoeffdingTreeClassifier`` in arrays.

    >>> from river import tree
    >>> learner = HoeffdingTreeLearner(tree.HoeffdingTreeClassifier(), "classification")
    >>> for i in range(10):
    ...     learner.learn({"a": float(i)}, "up" if i > 4 else "down")
    >>> round(learner.predict({"a": 9.0})["up"], 2)
    1.0
    """

    kind = "hoeffding_tree_classifier"
    _learn = staticmethod(learn)
    _predict = staticmethod(predict)

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether the model is one that this learner repeats."""
        from river.tree import HoeffdingTreeClassifier

        return type(model) is HoeffdingTreeClassifier and model._root is None and repeatable(model)
