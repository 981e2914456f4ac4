"""A second model on the same records, and by how much it differs from the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explain_core.comparison import ComparisonState, PairedDifferences, better, sentence
from explain_core.confidence import Interval
from explain_core.losses import Prediction
from explain_core.models import FeatureKind, Model, Row
from explain_core.random import derive_seed
from explain_core.state import Pack, State, Unpack
from explain_sidecar.fold.explained_model import ExplainedModel, ExplainedModelData, importance_of
from explain_sidecar.fold.models import load_challenger
from explain_sidecar.settings import Settings


class ChallengerData(State, frozen=True):
    """The challenger and the differences in a snapshot."""

    explained: ExplainedModelData
    differences: ComparisonState


class ChallengerFailed(Exception):
    """The challenger failed on a record; the cause says how."""


class Challenger:
    """Explained from the rows and by the draws that explain ``own``, the model that it is compared with, on each ``challenger.every``-th record
    that is explained.

    ``shared`` is a challenger that several are made of, each for the records of a version; it is not part of their states.

    A record goes through ``align``, and through ``explain`` and ``learn`` after it went through those of the model. Raises ``UserError`` where the challenger cannot be made.
    """

    def __init__(
        self, settings: Settings, own: ExplainedModel, seed: int, shared: Model | None = None
    ) -> None:
        model_settings, chosen = settings.challenger_model, settings.challenger
        assert model_settings is not None
        model = shared or load_challenger(settings, derive_seed(seed, "challenger"))
        record = settings.record.model_copy(update={"prediction": None})  # what was served is the model's
        explain = settings.explain.model_copy(update={"every": settings.explain.every * chosen.every})
        explainers = [explainer.model_copy(update={"by": None}) for explainer in settings.explainers]
        reduced = settings.model_copy(update={"record": record, "explain": explain, "explainers": explainers})
        self.explained = ExplainedModel(
            reduced, model, model_settings.static, seed, own.reservoirs, stored=shared is None, periods=False
        )
        self._differences = PairedDifferences(
            own.performance.losses,
            {name: (own.explainers[name], other) for name, other in self.explained.explainers.items()},
            chosen.confidence,
            chosen.limits,
        )
        self._name = chosen.source

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
        return losses

    def content(self) -> dict[str, Any]:
        """What an explanation message says of the challenger."""
        about = self.explained.content()
        return {
            "name": self._name,
            "performance": about["performance"],
            "difference": {loss: _difference(loss, interval) for loss, interval in self.intervals().items()},
            "importance": about["importance"],
            "importance_difference": {
                name: importance_of(self._differences.importance(name)) for name in self.explained.explainers
            },
        }

    def intervals(self) -> dict[str, Interval]:
        """The mean difference of each loss."""
        return {loss.name: self._differences.loss(loss.name) for loss in self.explained.performance.losses}

    def state(self, pack: Pack) -> ChallengerData:
        return ChallengerData(self.explained.state(pack), self._differences.state())

    def restore(self, data: ChallengerData, unpack: Unpack) -> None:
        """Restore a stored state, after the model's. Raises ``StateError`` where it is not of these settings."""
        self.explained.restore(data.explained, unpack)
        self._differences.restore(data.differences)


def wanted_kinds(explained: ExplainedModel, challenger: Challenger | None) -> dict[str, FeatureKind]:
    """Of the features whose kind the model fixes, or else the challenger."""
    return {**(challenger.explained.model.kinds if challenger else {}), **explained.model.kinds}


def _difference(loss: str, interval: Interval) -> dict[str, Any]:
    return {
        "value": interval.value,
        "low": interval.low,
        "high": interval.high,
        "records": interval.n,
        "clipped": interval.clipped,
        "limit": interval.limit,
        "better": better(interval),
        "sentence": sentence(interval, loss),
    }
