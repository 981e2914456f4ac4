"""``HoeffdingAdaptiveTreeClassifier`` in arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explain_core.learners import layout as at
from explain_core.learners.arrays import Array
from explain_core.learners.forest import adwin_numbers, watches
from explain_core.learners.mersenne import state_of
from explain_core.learners.tree import POOLS, TreeLearner, repeatable


class AdaptiveTreeLearner(TreeLearner):
    """``river.tree.HoeffdingAdaptiveTreeClassifier`` in arrays.

    River's predictions have their classes in the order of a set; of other classes than numbers that order is here the one of appearance.
    """

    kind = "hoeffding_adaptive_tree_classifier"
    pools = {**POOLS, at.NODE_POOL: (*POOLS[at.NODE_POOL], "windows", "ends")}  # noqa: RUF012

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
    """Whether an adaptive tree has learnt nothing, and its own parameters are among those that compiled code knows."""
    return (
        model._root is None
        and not model.stop_mem_management
        and watches(model.drift_detector)
        and type(model.drift_window_threshold) in (int, float)
        and type(model.switch_significance) is float
        and 0.0 < model.switch_significance < 2.0
    )
