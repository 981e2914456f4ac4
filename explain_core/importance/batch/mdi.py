"""Mean decrease in impurity of Hoeffding trees (Cassidy & Deviney 2014; Gomes et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explain_core.explanation import Explanation


def mean_decrease_impurity(tree: Any, features: Sequence[str] | None = None) -> Explanation:
    """How much the splits of a river Hoeffding tree (plain or adaptive, classifier or regressor) purify its leaves.

    Per feature, Σ over the nodes that split on it of ::

        w(node)/w(root) · [I(node) − Σ_children w(child)/w(node) · I(child)]

    with the Gini impurity I, or the variance of the target in a regression. A node's statistics are the sum of its
    leaves' (the statistics that adaptive trees keep in their branches are of another age than those below them), so no
    term is negative. Alternate subtrees do not count. ``features`` adds names with importance 0 for what the tree does
    not use, and gives their order. The loss is named ``gini`` or ``variance``; n is the weight in the leaves; there is
    no standard error.

    Raises ``ValueError`` for a model that is not a Hoeffding tree and for a split on a feature that is not in
    ``features``.

    >>> from river import tree
    >>> model = tree.HoeffdingTreeClassifier(grace_period=50)
    >>> for i in range(500):
    ...     model.learn_one({"a": i % 7, "b": i % 5}, i % 7 > 3)
    >>> mean_decrease_impurity(model, ["a", "b"]).values.round(1).tolist()
    [[0.5, 0.0]]
    """
    steps = getattr(tree, "steps", None)
    if isinstance(steps, dict) and steps:
        return mean_decrease_impurity(list(steps.values())[-1], features)
    from river.tree.hoeffding_tree import HoeffdingTree

    if not isinstance(tree, HoeffdingTree):
        raise ValueError(f"tree: {type(tree).__name__} is not a Hoeffding tree of river; pass one")
    totals: dict[Any, float] = {} if features is None else dict.fromkeys(features, 0.0)
    root = tree._root
    node = _collect(root, totals) if root is not None else _Node({})
    if features is not None and len(totals) > len(features):
        raise ValueError(
            f"features: the tree also splits on {list(totals)[len(features)]!r}; name it as well"
        )
    values = np.array([list(totals.values())]) / (node.weight or 1.0)
    return Explanation(
        estimator="mdi",
        features=tuple(map(str, totals)),
        losses=("variance" if node.regression else "gini",),
        values=values,
        std=np.full_like(values, np.nan),
        n=round(node.weight),
        status="ready" if node.weight else "warming",
    )


class _Node:
    """Weight and impurity of the target distribution in a node: of class weights, or of river's running variance."""

    def __init__(self, stats: Any) -> None:
        self.stats = stats
        self.regression = not isinstance(stats, dict)
        self.weight: float = stats.mean.n if self.regression else sum(stats.values())

    def __add__(self, other: _Node) -> _Node:
        if self.regression:
            return _Node(self.stats + other.stats)
        labels = {**self.stats, **other.stats}
        return _Node({label: self.stats.get(label, 0.0) + other.stats.get(label, 0.0) for label in labels})

    @property
    def mass(self) -> float:
        """Weight times impurity."""
        if self.weight == 0.0:
            return 0.0
        if self.regression:
            squares: float = self.stats.get() * (self.weight - self.stats.ddof)
            return squares
        return float(self.weight - sum(w * w for w in self.stats.values()) / self.weight)


def _collect(node: Any, totals: dict[Any, float]) -> _Node:
    """The distribution below a node; adds the decrease of every split to its feature's total."""
    children = getattr(node, "children", None)
    if not children:
        return _Node(node.stats)
    below = [_collect(child, totals) for child in children]
    whole = below[0]
    for child in below[1:]:
        whole = whole + child
    totals[node.feature] = totals.get(node.feature, 0.0) + whole.mass - sum(child.mass for child in below)
    return whole
