"""A second model on the same records, and by how much it differs from the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from explain_core.comparison import ComparisonState, PairedDifferences
from explain_core.confidence import Interval
from explain_core.explanation import Explanation
from explain_core.foreign import dumps
from explain_core.importance.blocks import Array
from explain_core.losses import Prediction
from explain_core.models import Model, Row
from explain_core.random import derive_seed
from explain_core.shift import ExplanationShift, ShiftState
from explain_core.state import Pack, State, Unpack, restore_part
from explain_core.stream.events import Learnt
from explain_core.stream.explained import ExplainedModel, ExplainedModelData
from explain_core.stream.options import Options


class ChallengerData(State, frozen=True):
    """The challenger and the differences in a snapshot."""

    explained: ExplainedModelData
    differences: ComparisonState
    shift: ShiftState | None = None


class ChallengerFailed(Exception):
    """The challenger failed on a record; the cause says how."""


class Challenger:
    """Explained from the rows and by the draws that explain ``own``, the model that it is compared with, on each ``comparing.every``-th record
    that is explained.

    ================  ==========================================================================================
    ``model``         what is compared
    ``own``           the model that it is compared with
    ``options``       those of ``own``
    ``seed``          of the draws
    ``static``        the model never learns
    ``stored``        without it others keep the model: several challengers are made of it
    ================  ==========================================================================================

    A record goes through ``align``, and through ``explain`` and ``learn`` after it went through those of the model.
    """

    def __init__(
        self, model: Model, own: ExplainedModel, options: Options, seed: int, *, static: bool, stored: bool
    ) -> None:
        comparing = options.comparing
        reduced = replace(
            options,
            served=False,  # what was served is the model's
            every=options.every * comparing.every,
            explainers=[replace(explainer, by=None) for explainer in options.explainers],
        )
        self.explained = ExplainedModel(
            model,
            reduced,
            seed,
            static=static,
            stored=stored,
            leader=own,
            periods=False,
        )
        self._differences = PairedDifferences(
            own.performance.losses,
            {name: (own.explainers[name], other) for name, other in self.explained.explainers.items()},
            comparing.confidence,
            comparing.limits,
        )
        self._own, self._comparing, self._seed = own, comparing, derive_seed(seed, "shift")
        self.shift = self._shift()
        """Which features it uses otherwise than the model, without any label; None where that is not asked for."""

    def _shift(self) -> ExplanationShift | None:
        if self._comparing.shift_every is None:
            return None
        own = self._own
        if not own.reservoirs:
            raise ValueError("comparing: shift_every is of the first explainer's rows, and there is none")
        return ExplanationShift(
            own.model,
            self.explained.model,
            task=own.model.task,
            confidence=self._comparing.confidence,
            n_samples=1,
            reservoir=next(iter(own.reservoirs.values())),
            seed=self._seed,
        )

    @property
    def most(self) -> int:
        """How many records a block may have at most."""
        most, every = self.explained.most, self._comparing.shift_every
        return most if every is None else min(most, every - self.explained.records % every)

    def note(self, x: Row, records: int) -> None:
        """A record came, with a label or without, of which there have been so many with it: ask for the features that both use otherwise, where it is due.

        Raises ``ChallengerFailed``.
        """
        every = self._comparing.shift_every
        if self.shift is None or every is None or records % every:
            return
        try:
            self.shift.update(x)
        except Exception as error:
            raise ChallengerFailed from error

    def observe(self, x: Row) -> None:
        """A record without a label came: let the estimators and the model know what is new in it, as the model's own do. Raises ``ChallengerFailed``."""
        try:
            self.explained.observe(x)
            if self.explained.in_blocks:
                self.explained.model.encoded(x)  # type: ignore[attr-defined]
        except Exception as error:
            raise ChallengerFailed from error

    def align(self) -> None:
        """Draw as the model does, where the next record is one to explain."""
        if self.explained.explains:
            self._differences.align()

    def explain(self, x: Row, y: Any) -> Prediction:
        """``ExplainedModel.explain``. Raises ``ChallengerFailed``."""
        try:
            return self.explained.explain(x, y)
        except Exception as error:
            raise ChallengerFailed from error

    def learn(
        self, x: Row, y: Any, weight: float, prediction: Prediction, own: Sequence[float]
    ) -> list[float]:
        """``ExplainedModel.learn``, and the differences to the model's own losses. Raises ``ChallengerFailed``."""
        try:
            explained = self.explained.explains
            losses = self.explained.learn(x, y, weight, prediction)
            self._differences.update(own, losses, explained)
        except Exception as error:
            raise ChallengerFailed from error
        self.note(x, self.explained.records)
        return losses

    def end_block(self, n: int, xs: Sequence[Row], own: Learnt) -> tuple[Array, Learnt]:
        """``ExplainedModel.end_block``, and the differences to what is known of the model's own; compiled code has drawn as the model's does."""
        explained = self.explained.blocks.explained(n, self.explained.records)
        predictions, other = self.explained.end_block(n, xs)
        assert own.losses is not None and other.losses is not None
        places = [own.explained.index(place) for place in explained]
        increments = {name: of - own.increments[name][places] for name, of in other.increments.items()}
        self._differences.update_many(own.losses[:, 0], other.losses[:, 0], increments if explained else {})
        self.note(xs[n - 1], self.explained.records)
        return predictions, other

    def intervals(self) -> dict[str, Interval]:
        """The mean difference of each loss."""
        return {loss.name: self._differences.loss(loss.name) for loss in self.explained.performance.losses}

    def importance_differences(self) -> dict[str, Explanation]:
        """The mean differences of the importances, by explainer."""
        return {name: self._differences.importance(name) for name in self.explained.explainers}

    def state(self, pack: Pack = dumps) -> ChallengerData:
        shift = None if self.shift is None else self.shift.state()
        return ChallengerData(self.explained.state(pack), self._differences.state(), shift)

    def restore(self, data: ChallengerData, unpack: Unpack) -> None:
        """Restore a stored state, after the model's. Raises ``StateError`` where it is not of these options."""
        self.explained.restore(data.explained, unpack)
        self._differences.restore(data.differences)
        self.shift = self._shift()  # of the models that were restored
        restore_part(self.shift, data.shift, "shift: with it, or without")
