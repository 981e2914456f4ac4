"""``ARFClassifier`` in arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.engine import trees as engine
from explain_core.learners import layout as at
from explain_core.learners.arrays import Array
from explain_core.learners.mersenne import state_of
from explain_core.learners.tree import TreeLearner, repeatable

UNKNOWN = -2
"""A guess that nobody has made."""


class ForestLearner(TreeLearner):
    """``river.forest.ARFClassifier`` in arrays.

    Row 2m or 2m + 1 of the trees is that of member m, the other one that in its background.
    """

    kind = "adaptive_random_forest_classifier"

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether the model is one that this learner repeats."""
        from river import forest, metrics

        return (
            type(model) is forest.ARFClassifier
            and repeatable(model)
            and type(model.metric) is metrics.Accuracy
            and not model.metric.cm.n_samples
            and draws(model)
        )

    def _empty(self, model: Any) -> dict[str, Array]:
        from river import drift

        self.trees = 2 * model.n_models
        found = super()._empty(model)
        numbers, head = found["numbers"], found["head"]
        numbers[0, at.RATE] = math.exp(-model.lambda_value)
        numbers[0, at.WEIGHTED] = not model.disable_weighted_vote
        detectors = np.zeros((2, at.N_DETECTOR))
        for row, on, detector in (
            (0, at.WARNING_ON, model.warning_detector),
            (1, at.DRIFT_ON, model.drift_detector),
        ):
            if type(detector) is drift.ADWIN:
                numbers[0, on] = 1.0
                detectors[row] = adwin_numbers(detector)
        found["detectors"] = detectors
        members = np.full((model.n_models, 2), -1, np.int64)
        members[:, at.FOREGROUND] = range(0, self.trees, 2)
        ends = np.zeros((self.trees, at.N_END), np.int64)
        ends[:, [at.NEWEST, at.OLDEST]] = -1
        words, head[0, at.POSITION] = state_of(model._rng)
        found.update(
            guesses=np.full(model.n_models, UNKNOWN, np.int64),
            generator=words,
            members=members,
            accuracy=np.zeros((model.n_models, 2)),
            counters=np.zeros((model.n_models, 2), np.int64),
            windows=np.zeros((self.trees, at.N_WINDOW)),
            ends=ends,
            buckets=np.zeros((0, 2 * int(detectors[:, at.MOST_BUCKETS].max() + 1))),
            chains=np.zeros((0, at.N_CHAIN), np.int64),
        )
        return found

    def make_room(self, leaves: int, features: int, member: int = 0) -> None:
        if self.arrays["head"][0, at.N_FEATURES] == 0:
            self._draw_from(features)
        super().make_room(leaves, features)

    def _draw_from(self, features: int) -> None:
        """``BaseForest._set_max_features``."""
        asked = self.wrapped.max_features
        if asked is None:
            k = features
        elif asked == "sqrt":
            k = round(math.sqrt(features))
        elif asked == "log2":
            k = round(math.log2(features)) if features else 0
        else:
            k = asked if isinstance(asked, int) else int(asked * features)
        k = max(1, min(k + features if k < 0 else k, features))
        self.arrays["head"][0, at.N_FEATURES] = k
        self.arrays["leaves"] = np.zeros((0, at.N_LEAF + k), np.int64)

    def _fit_classes(self) -> None:
        super()._fit_classes()
        self._codes = np.zeros(self.arrays["stats"].shape[1], np.int64)

    @property
    def order(self) -> Sequence[Any] | None:
        return super().order if self.task == "regression" else None

    def _predicted(self) -> list[int]:
        if not self.labels:
            return []
        n = engine.entered(self.arrays.table, self._codes)
        found: list[int] = self._codes[:n].tolist()
        return found

    def predict_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64] | None:
        return None if self.order is None else super().predict_rows(rows)


def draws(model: Any) -> bool:
    """Whether a forest has learnt nothing, and its own parameters are among those that compiled code knows."""
    from river import drift

    return (
        len(model) == 0
        and type(model.n_models) is int
        and model.n_models > 0
        and type(model.lambda_value) in (int, float)
        and 0.0 < model.lambda_value < 700.0
        and (model.max_features in ("sqrt", "log2", None) or type(model.max_features) in (int, float))
        and all(
            type(detector) is drift.NoDrift or watches(detector)
            for detector in (model.drift_detector, model.warning_detector)
        )
    )


def watches(detector: Any) -> bool:
    """Whether a detector is an ADWIN that compiled code knows: with one bucket a row, rows are empty once two were merged, which river takes off again and again."""
    from river import drift

    return type(detector) is drift.ADWIN and detector.max_buckets > 1


def adwin_numbers(detector: Any) -> list[float]:
    """The parameters of a river ADWIN."""
    return [
        detector.delta,
        detector.clock,
        detector.max_buckets,
        detector.min_window_length,
        detector.grace_period,
    ]
