"""What river's trees and leaves say of themselves: how they predict, and what changes when they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from river.tree.nodes.htc_nodes import LeafNaiveBayes, LeafNaiveBayesAdaptive

from explain_core.evaluation import tree_kernels as kernels
from explain_core.evaluation.votes import ADAPTIVE

MAJORITY, BAYES, BETTER = range(3)
"""A leaf's manner: the majority, naive Bayes, the better of the two so far."""


def labels_of(trees: Sequence[Any]) -> list[Any]:
    """The classes in the order of a prediction."""
    order: dict[Any, None] = {}
    for tree in trees:
        order.update(dict.fromkeys(tree.classes if type(tree) in ADAPTIVE else sorted(tree.classes)))
    return list(order)


TOKENS = (
    "_n_active_leaves",
    "_n_inactive_leaves",
    "_n_alternate_trees",
    "_n_pruned_alternate_trees",
    "_n_switch_alternate_trees",
)
"""Attributes that change with a tree's structure; the last three are those of an adaptive one."""


def tokens_of(tree: Any) -> list[float]:
    """Its tokens, and the number of records that the root of an adaptive tree has learnt."""
    if type(tree) not in ADAPTIVE:
        return [getattr(tree, name) for name in TOKENS[:2]]
    root = tree._root
    seen = (
        0
        if root is None
        else root._mean_error.n
        if hasattr(root, "_mean_error")
        else root._error_tracker.mean.n
    )
    return [*(getattr(tree, name) for name in TOKENS), seen]


def manner_of(leaf: Any, tree: Any) -> int:
    """Which leaf model may predict besides the majority."""
    if type(tree) in ADAPTIVE:
        return {"mc": MAJORITY, "nb": BAYES}.get(
            tree.leaf_prediction, BETTER if isinstance(leaf, LeafNaiveBayesAdaptive) else MAJORITY
        )
    if isinstance(leaf, LeafNaiveBayesAdaptive):
        return BETTER
    return BAYES if isinstance(leaf, LeafNaiveBayes) else MAJORITY


def mode_of(leaf: Any, tree: Any, manner: int, weight: float) -> int:
    """How a leaf predicts, as its ``prediction`` decides."""
    if not leaf.stats:
        return kernels.UNKNOWN if type(tree) in ADAPTIVE else kernels.NOTHING
    if (
        manner == MAJORITY
        or leaf.splitters is None
        or not (
            weight >= tree.nb_threshold
            if manner == BAYES
            else leaf._nb_correct_weight >= leaf._mc_correct_weight
        )
    ):
        return kernels.MAJORITY
    return kernels.BAYES if weight else kernels.NOTHING
