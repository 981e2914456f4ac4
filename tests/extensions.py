"""What a user adds from outside: an estimator, a loss, a family of learners, a metric of a partition."""

from __future__ import annotations

from typing import Any

import numpy as np
from river import dummy

from explain_core.importance.base import IncrementalEstimator
from explain_core.learners.arrays import Arrays
from explain_core.learners.base import Learner
from explain_core.losses import Loss, Prediction
from explain_core.models import Row
from explain_core.players import Players
from explain_core.smoothing import Array
from explain_core.state import Block, array
from explain_sidecar.fold.metrics import Metric

overconfident = Loss("overconfident", "probabilities", lambda y, p: max(0.0, max(p.values()) - p.get(y, 0.0)))

classes_seen = Metric("classes_seen", "Classes seen.", lambda state: len(state.labels))


class Absent(IncrementalEstimator):
    """How much worse the model gets when a record lacks a feature, ``times`` over."""

    name = "absent"

    def __init__(self, model: Any, *, times: float = 1.0, **settings: Any) -> None:
        super().__init__(model, **settings)
        self.times = times

    def _checked_samples(self, n_samples: int | None) -> int:
        return 1

    def _contributions(self, players: Players, x: Row, y: Any, base: Prediction) -> Array:
        without = [
            {name: value for name, value in x.items() if name not in player.features} for player in players
        ]
        predictions = self.evaluator.predict_many(without)
        return self.times * np.array(
            [[loss(y, prediction) - loss(y, base) for prediction in predictions] for loss in self.losses]
        )


class Shares(Learner):
    """Predicts how frequent each label was, from arrays that no compiled code knows."""

    kind = "shares"

    def __init__(self, model: Any, task: Any) -> None:
        super().__init__(model, task)
        self.arrays = Arrays(counts=np.zeros(0))

    def encoded(self, x: Row) -> Array:
        return self.columns.row(x)

    def predict(self, x: Row) -> Prediction:
        self.encoded(x)
        counts = self.arrays["counts"]
        return dict(zip(self.labels, (counts / (counts.sum() or 1.0)).tolist(), strict=True))

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        counts = np.zeros(max(self.code(y) + 1, len(self.labels)))
        counts[: len(self.arrays["counts"])] = self.arrays["counts"]
        counts[self.codes[y]] += weight
        self.arrays["counts"] = counts

    def _stored(self) -> dict[str, Array]:
        return {"counts": self.arrays["counts"]}

    def _adopt(self, blocks: dict[str, Block]) -> None:
        self.arrays["counts"] = array(self.kind, blocks["counts"], "<f8", (len(self.labels),))


def family(model: Any, task: Any) -> Any:
    """A learner for a model that none is built in for."""
    return Shares(model, task) if isinstance(model, dummy.PriorClassifier) else None
