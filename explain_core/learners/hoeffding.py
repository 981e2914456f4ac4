"""``HoeffdingTreeClassifier`` in arrays."""

from __future__ import annotations

from typing import Any

from explain_core.learners.tree import TreeLearner, repeatable


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

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether the model is one that this learner repeats."""
        from river.tree import HoeffdingTreeClassifier

        return type(model) is HoeffdingTreeClassifier and model._root is None and repeatable(model)
