"""The way of a record through a tree, in compiled code."""

from __future__ import annotations

import math
from typing import Any

from explain_core.compiling import inlined, inner
from explain_core.learners import adwin
from explain_core.learners import layout as at
from explain_core.learners.arrays import f8, i8
from explain_core.learners.layout import give, take
from explain_core.learners.leaves import drop_leaf, forget, new_leaf, weight_of
from explain_core.sums import COMPENSATED


@inner
def new_node(table: Any, head: Any, leaf: int, depth: int) -> Any:
    """A node that is a leaf."""
    nodes, splits, alternates = i8(table, at.NODES), f8(table, at.SPLITS), i8(table, at.ALTERNATES)
    node = take(table, head, at.NODE_POOL)
    if len(alternates) > 0:
        alternates[node, 0] = -1
        adwin.reset(table, head, node)
    nodes[node, :] = 0
    splits[node, :] = 0.0
    nodes[node, at.LEFT] = -1
    nodes[node, at.RIGHT] = -1
    nodes[node, at.NEXT] = -1
    nodes[node, at.LEAF_OF] = leaf
    nodes[node, at.DEPTH] = depth
    return node


@inner
def leaf_node(table: Any, head: Any, depth: int) -> Any:
    """A node with an empty leaf."""
    return new_node(table, head, new_leaf(table, head), depth)


@inner
def append_child(nodes: Any, splits: Any, branch: int, child: int, key: float) -> None:
    """Make a node the branch's last child."""
    splits[child, at.KEY] = key
    if nodes[branch, at.LEFT] < 0:
        nodes[branch, at.LEFT] = child
    else:
        nodes[nodes[branch, at.RIGHT], at.NEXT] = child
    nodes[branch, at.RIGHT] = child


@inlined
def toward(nodes: Any, splits: Any, branch: int, value: float) -> Any:
    """The child to which a value of the branch's feature goes; −1 where river has none: the feature is missing, or the category new."""
    if math.isnan(value):
        return -1
    kind = nodes[branch, at.KIND]
    if kind == at.THRESHOLDED:
        return nodes[branch, at.LEFT] if value <= splits[branch, at.THRESHOLD] else nodes[branch, at.RIGHT]
    if kind == at.EQUAL:
        return nodes[branch, at.LEFT] if value == splits[branch, at.THRESHOLD] else nodes[branch, at.RIGHT]
    child = nodes[branch, at.LEFT]
    while child >= 0 and splits[child, at.KEY] != value:
        child = nodes[child, at.NEXT]
    return child


@inlined
def following(nodes: Any, splits: Any, branch: int, x: Any) -> Any:
    """``branch.next(x)``; −1 where river has no child for the record."""
    return toward(nodes, splits, branch, x[nodes[branch, at.COLUMN]])


@inner
def total_weight(node: int, nodes: Any, leaves: Any, stats: Any, classes: Any) -> Any:
    """``total_weight``, and whether it is an int."""
    if nodes[node, at.KIND] == at.LEAF:
        leaf, whole = nodes[node, at.LEAF_OF], True
        for i in range(leaves[leaf, at.COUNT]):
            whole = whole and classes[leaf, stats.shape[1] + i] == 1
        return weight_of(leaf, leaves[leaf, at.COUNT], stats, classes), whole
    result, lost, all_whole = 0.0, 0.0, True
    child = nodes[node, at.LEFT]
    while child >= 0:
        value, whole = total_weight(child, nodes, leaves, stats, classes)
        t = result + value
        if COMPENSATED and not whole:
            lost += (result - t) + value if abs(result) >= abs(value) else (value - t) + result
        result = t
        all_whole = all_whole and whole
        child = nodes[child, at.NEXT]
    if COMPENSATED and lost != 0.0 and math.isfinite(lost):
        result += lost
    return result, all_whole


@inner
def most_common(table: Any, branch: int) -> Any:
    """``most_common_path``: the first child of the greatest weight."""
    nodes, leaves, stats, classes = (
        i8(table, at.NODES),
        i8(table, at.LEAVES),
        f8(table, at.STATS),
        i8(table, at.CLASSES),
    )
    best, child, weight = -1, nodes[branch, at.LEFT], 0.0
    while child >= 0:
        value, _ = total_weight(child, nodes, leaves, stats, classes)
        if best < 0 or value > weight:
            best, weight = child, value
        child = nodes[child, at.NEXT]
    return best


@inlined
def next_node(table: Any, nodes: Any, splits: Any, branch: int, value: float) -> Any:
    """The node after a branch, and how often river's walk comes by it."""
    child = toward(nodes, splits, branch, value)
    if child >= 0:
        return child, 1
    return most_common(table, branch), 2


@inlined
def descend(table: Any, nodes: Any, splits: Any, node: int, x: Any) -> Any:
    """The node that is the record's leaf, for a prediction."""
    while nodes[node, at.KIND] != at.LEAF:
        node, _ = next_node(table, nodes, splits, node, x[nodes[node, at.COLUMN]])
    return node


@inner
def release(table: Any, head: Any, root: int) -> None:
    """Give a tree's nodes and leaves back."""
    if root < 0:
        return
    nodes, splits, alternates = i8(table, at.NODES), f8(table, at.SPLITS), i8(table, at.ALTERNATES)
    # The nodes still to be given back are a chain through NEXT.
    nodes[root, at.NEXT] = -1
    node = root
    while node >= 0:
        after = nodes[node, at.NEXT]
        if nodes[node, at.KIND] == at.LEAF:
            drop_leaf(table, head, nodes[node, at.LEAF_OF])
        else:
            nodes[nodes[node, at.RIGHT], at.NEXT] = after
            after = nodes[node, at.LEFT]
        if len(alternates) > 0:
            adwin.reset(table, head, node)
            f8(table, at.ERRORS)[node, :] = 0.0
            if alternates[node, 0] >= 0:
                nodes[alternates[node, 0], at.NEXT] = after
                after = alternates[node, 0]
            alternates[node, 0] = 0
        splits[node, :] = 0.0
        give(table, head, at.NODE_POOL, nodes, node)
        node = after


@inner
def wake(table: Any, head: Any, tree: int, root: int) -> None:
    """``_enforce_size_limit`` of a tree within its limit: every leaf that may still split becomes active, with no memory."""
    nodes, leaves, trees = i8(table, at.NODES), i8(table, at.LEAVES), i8(table, at.TREES)
    if nodes[root, at.KIND] == at.LEAF:
        leaf = nodes[root, at.LEAF_OF]
        if leaves[leaf, at.ACTIVE] == 0 and nodes[root, at.DEPTH] < f8(table, at.NUMBERS)[0, at.DEPTH_LIMIT]:
            leaves[leaf, at.ACTIVE] = 1
            trees[tree, at.INACTIVE] -= 1
        return
    child = nodes[root, at.LEFT]
    while child >= 0:
        wake(table, head, tree, child)
        child = nodes[child, at.NEXT]


@inner
def deactivate(table: Any, head: Any, tree: int, leaf: int) -> None:
    """A leaf's ``deactivate``."""
    forget(table, head, leaf)
    i8(table, at.LEAVES)[leaf, at.ACTIVE] = 0
    i8(table, at.TREES)[tree, at.INACTIVE] += 1


@inner
def sprout(table: Any, branch: int, observer: int, kind: int, point: float, n: int, categories: Any) -> None:
    """Make a node a branch with n empty leaves."""
    head, nodes, splits = i8(table, at.HEAD), i8(table, at.NODES), f8(table, at.SPLITS)
    nodes[branch, at.KIND] = kind
    nodes[branch, at.COLUMN] = i8(table, at.OBSERVERS)[observer, at.FEATURE]
    nodes[branch, at.LEFT] = -1
    nodes[branch, at.LEAF_OF] = -1
    splits[branch, at.THRESHOLD] = point
    for i in range(n):
        child = leaf_node(table, head, nodes[branch, at.DEPTH] + 1)
        append_child(nodes, splits, branch, child, float(categories[i]) if kind == at.MULTIWAY else 0.0)
