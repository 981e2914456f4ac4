"""Which learner repeats a river tree or forest."""

from __future__ import annotations

from typing import Any

from explain_core.learners.adaptive import AdaptiveTreeLearner
from explain_core.learners.adaptive_regression import AdaptiveRegressionLearner
from explain_core.learners.columns import Columns
from explain_core.learners.forest import ForestLearner
from explain_core.learners.forest_regression import ForestRegressionLearner
from explain_core.learners.hoeffding import HoeffdingTreeLearner
from explain_core.learners.regression import HoeffdingRegressionLearner
from explain_core.learners.tree import TreeLearner
from explain_core.losses import Task

LEARNERS: dict[Task, tuple[type[TreeLearner], ...]] = {
    "classification": (HoeffdingTreeLearner, AdaptiveTreeLearner, ForestLearner),
    "regression": (HoeffdingRegressionLearner, AdaptiveRegressionLearner, ForestRegressionLearner),
}


def tree_learner(model: Any, task: Task, columns: Columns | None = None) -> TreeLearner | None:
    """The learner of a river tree or forest that has learnt nothing; None where its type or parameters are not known.

    >>> from river import tree
    >>> learner = tree_learner(tree.HoeffdingTreeClassifier(), "classification")
    >>> learner.kind
    'hoeffding_tree_classifier'
    >>> tree_learner(tree.HoeffdingTreeClassifier(max_size=1.0), "classification") is None
    True
    """
    return next((kind(model, task, columns) for kind in LEARNERS[task] if kind.takes(model)), None)
