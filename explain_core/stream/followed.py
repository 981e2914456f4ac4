"""Which way features move the predictions of a model on a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explain_core.dependence import Curve, DependenceState, IncrementalPDP
from explain_core.importance.base import IncrementalEstimator
from explain_core.models import Model, Row
from explain_core.state import check
from explain_core.stream.options import Following


class Followed:
    """Curves of partial dependence, as ``Following`` asks for them.

    ``estimator`` is the first explainer, whose rows and importances count, and ``alpha`` its own; ``labels`` are the codes of the classes, a mapping that grows. A curve is as
    smooth as the estimator's importances, in records of the stream.
    """

    def __init__(
        self,
        model: Model,
        options: Following,
        estimator: IncrementalEstimator,
        alpha: float,
        labels: Mapping[Any, int],
    ) -> None:
        self._options, self._estimator, self._labels = options, estimator, labels
        self.pdp = IncrementalPDP(
            model,
            options.features,
            task=model.task,
            label=None if model.task == "regression" else "unknown yet",
            points=options.points,
            alpha=1.0 - (1.0 - alpha) ** options.every,
            reservoir=estimator.reservoir,
        )

    def room(self, records: int) -> int:
        """How many records may be taken in at once after so many."""
        return self._options.every - records % self._options.every

    def add(self, x: Row, records: int) -> None:
        """Take in a record, of which there have been so many with it."""
        if records % self._options.every:
            return
        if self.pdp.model.task == "classification":
            code = self.code
            if code is None:
                return
            self.pdp.label = code
        if self._options.top:
            self.pdp.follow(self._features())
        self.pdp.explain_one(x)

    @property
    def code(self) -> int | None:
        """Of the class that is followed; None where it is not known yet, and in a regression."""
        label, known = self._options.label, list(self._labels)[:2]
        if label is not None:
            return self._labels.get(label)
        return None if len(known) < 2 else self._labels[max(known, key=str)]

    def _features(self) -> list[str]:
        options, known = self._options, {*self.pdp.begun}
        ranked = [name for name, _ in self._estimator.explanation.top(2 * options.top)]
        chosen = [name for place, name in enumerate(ranked) if place < options.top or name in known]
        return list(dict.fromkeys([*options.features, *chosen]))

    @property
    def curves(self) -> list[Curve]:
        """Those of two records and more."""
        return [curve for curve in self.pdp.curves if curve.records > 1]

    def state(self) -> DependenceState:
        return self.pdp.state()

    def restore(self, state: DependenceState, model: Model) -> None:
        """Raises ``StateError`` where it is none of these options."""
        options, self.pdp.model = self._options, model
        others = [name for name in state.curves if name not in options.features]
        check(len(others) <= 2 * options.top, "partial dependence: more features than are followed")
        self.pdp.follow([*options.features, *others])
        self.pdp.restore(state)
