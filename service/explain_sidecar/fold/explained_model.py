"""A model together with what is known about it: the estimators that explain it, and its performance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from explain_core import losses as known_losses
from explain_core.alarms.detector import Position
from explain_core.explanation import Explanation
from explain_core.importance.base import EstimatorState
from explain_core.importance.blocks import Array, Blocks
from explain_core.importance.group import grouped
from explain_core.importance.segments import Report, Segments, SegmentsState
from explain_core.learners.mixture import MixtureLearner
from explain_core.losses import Prediction
from explain_core.models import Model, Row, check_prediction
from explain_core.models.empty import Performance, PerformanceState
from explain_core.periods import Period, Periods, PeriodsState, Sums
from explain_core.reservoirs import ReservoirState
from explain_core.state import Count, Pack, State, Unpack, check
from explain_sidecar.errors import UserError
from explain_sidecar.fold.explainers import Reservoirs, alpha_from, make_evaluator, make_explainer
from explain_sidecar.fold.models import ModelData, model_data, restored_model
from explain_sidecar.fold.served import Served, ServedData
from explain_sidecar.fold.worth import Worth, WorthData
from explain_sidecar.settings import Settings

PERFORMANCE = ""
"""Source of the losses and gains in periods; no explainer has this name."""


class ExplainedModelData(State, frozen=True):
    """An explained model in a snapshot; without the settings, and without a model that never learns."""

    model: ModelData
    reservoirs: list[ReservoirState]
    explainers: dict[str, EstimatorState]
    performance: PerformanceState
    records: Count
    served: ServedData | None = None
    segments: dict[str, SegmentsState] = msgspec.field(default_factory=dict)
    periods: PeriodsState | None = None
    worse: WorthData | None = None


class ExplainedModel:
    """A model, the estimators that ``explainers`` asks for, their reservoirs, and the model's performance.

    A record goes through ``explain`` and then ``learn``: explanations are those of the model that has not seen it. ``static``: the model
    never learns, and is not part of the state; without ``stored`` others keep it. ``reservoirs`` are those of another explained model, which fills and stores them. Raises ``UserError`` where the estimators do not suit the model, or it takes no weights.
    """

    def __init__(
        self,
        settings: Settings,
        model: Model,
        static: bool,
        seed: int,
        reservoirs: Reservoirs | None = None,
        stored: bool = True,
        periods: bool = True,
    ) -> None:
        if settings.record.weight is not None and not static and not model.takes_weight:
            raise UserError(
                f"record.weight: {type(model.wrapped).__name__} takes no weights; choose another model, or take record.weight out"
            )
        self._settings = settings
        self._static, self._stored = static, stored and not static
        self.model = model
        self.evaluator = make_evaluator(settings, model)
        self.reservoirs: Reservoirs = {}
        """Those that it fills."""
        rows = self.reservoirs if reservoirs is None else reservoirs
        self.explainers = {
            chosen.name or chosen.kind: make_explainer(settings, chosen, model, self.evaluator, rows, seed)
            for chosen in settings.explainers
        }
        used = dict.fromkeys(loss for explainer in self.explainers.values() for loss in explainer.losses)
        first = settings.explainers[0] if settings.explainers else None
        self.performance = Performance(
            list(used) or [known_losses.get(known_losses.DEFAULT[model.task])], alpha_from(first)
        )
        tolerance = settings.record.prediction_tolerance if static else None
        self.served = (
            Served(self.performance.losses, alpha_from(first), tolerance)
            if settings.record.prediction is not None
            else None
        )
        self._group()
        names = [loss.name for loss in self.performance.losses]
        self.segments = {
            name: Segments(
                explainer, chosen.by, chosen.segments, [names.index(loss.name) for loss in explainer.losses]
            )
            for chosen, (name, explainer) in zip(settings.explainers, self.explainers.items(), strict=True)
            if chosen.by is not None
        }
        self._every = settings.explain.every
        self.periods = Periods(list(map(str, settings.emit.periods))) if periods else None
        self.worth = Worth()
        self.records = 0
        """That it has taken in."""
        self.named: dict[tuple[str, str], int | None] = {}
        """By explainer and loss, how many features the newest message named as drivers; None where it was too early."""

    def _group(self) -> None:
        self._estimator_groups = grouped(self.explainers.values())
        self.blocks = Blocks(
            self.model,
            self._estimator_groups,
            list(self.reservoirs.values()),
            self.performance,
            self._settings.explain.every,
            not self._static,
        )

    def explain(self, x: Row, y: Any) -> Prediction:
        """Predict a record, and explain the prediction of each ``explain.every``-th."""
        self.model.hold(x)
        prediction: Prediction | None = None
        if self.explains:
            for group in self._estimator_groups:
                prediction = group.explain_one(x, y, prediction)
        else:
            for group in self._estimator_groups:
                group.observe(x)
        if prediction is None:
            prediction = self.model.predict(x)
            check_prediction(prediction, self.model.task)
        return prediction

    @property
    def explains(self) -> bool:
        """Whether it explains the record that comes next, or has only to note it."""
        return self.records % self._every == 0

    def learn(
        self, x: Row, y: Any, weight: float, prediction: Prediction, served: Prediction | None = None
    ) -> list[float]:
        """Learn the record of ``explain``, which returned ``prediction``; returns the losses of that prediction.

        ``served`` is the prediction that was served for it, where the settings name one.
        """
        if not self._static:
            self.model.learn(x, y, weight)
        for reservoir in self.reservoirs.values():
            reservoir.add(x)
        losses = self.performance.update(y, prediction)
        self._add_up()
        if self.segments and self.explains:
            for segments in self.segments.values():
                segments.add(x, self.performance.newest)
        self.records += 1
        if self.served is not None and served is not None:
            self.served.add(y, served, prediction)
        return losses

    def learn_block(self, rows: Array, ys: Array, weights: Array, xs: Sequence[Row]) -> tuple[Array, Array]:
        """``explain`` and ``learn`` of the records of a block, see ``Blocks.take``; their predictions and losses."""
        predictions, losses = self.blocks.take(rows, ys, weights, xs, self.records)
        self._add_up()
        self.records += len(losses)
        return predictions, losses

    def _add_up(self) -> None:
        """Add the blocks that ended to the periods."""
        if self.periods is not None:
            for name, explainer in self.explainers.items():
                if explainer.closed is not None:
                    self.periods.add(name, explainer.closed)
                    explainer.closed = None
            if self.performance.closed is not None:
                self.periods.add(PERFORMANCE, self.performance.closed)
                self.performance.closed = None

    def judge(self, position: Position) -> str | None:
        """Whether the model is worse than no model after the record at ``position``: a notice where that has changed."""
        return self.worth.judge(self.performance, self.records, position)

    def content(self, position: Position | None = None) -> dict[str, Any]:
        """What an explanation message says about the model: explained, warming, model, performance, skew, importance, estimators, segments,
        drivers, and the periods that end with the record at ``position``.

        The floors are for alarms to fill in. Of the segments it is the turn of one of each explainer, which is noted.
        """
        bands = (of.tolist() for of in self.performance.bands())
        served = self.served if self.records else None
        explanations = {name: explainer.explanation for name, explainer in self.explainers.items()}
        return {
            "explained": min((explanation.n for explanation in explanations.values()), default=0),
            "warming": any(explanation.status == "warming" for explanation in explanations.values()),
            "model": {
                "weights": self.model.weights if isinstance(self.model, MixtureLearner) else {},
                "worse_since": self.worth.about(),
            },
            "performance": {
                loss.name: {
                    **dict(
                        zip(
                            ("model", "empty", "mean_prediction"), self.performance.of(loss.name), strict=True
                        )
                    ),
                    "floor": None,
                    "gain_floor": None,
                    "served": None if served is None else served.performance.of(loss.name)[0],
                    "low": low,
                    "high": high,
                    "gain": gain,
                    "gain_low": gain_low,
                    "gain_high": gain_high,
                    "clipped": None if loss.clipped is None else clipped,
                }
                for loss, clipped, (_, gain), (low, gain_low), (high, gain_high) in zip(
                    self.performance.losses, self.performance.clipped, *bands, strict=True
                )
            },
            "skew": None if served is None else served.skew(),
            "importance": {name: importance_of(explanation) for name, explanation in explanations.items()},
            "estimators": {name: explanation.metadata for name, explanation in explanations.items()},
            "segments": {
                name: _segment(segments.feature, report)
                for name, segments in self.segments.items()
                if (report := segments.due()) is not None
            },
            "drivers": {
                name: {loss.name: self._driven(name, loss.name) for loss in explainer.losses}
                for name, explainer in self.explainers.items()
            },
            "periods": []
            if position is None or self.periods is None
            else self._closed(self.periods, position),
        }

    def _driven(self, name: str, loss: str) -> dict[str, Any] | None:
        if self.worth.since is not None:
            self.named[name, loss] = 0
            return None
        explainer = self.explainers[name]
        features = [player.name for player in explainer.players]
        rows = ([known.name for known in of.losses].index(loss) for of in (explainer, self.performance))
        row, gain_row = rows
        found = (
            None if self.periods is None else self.periods.driven(name, features, row, PERFORMANCE, gain_row)
        )
        self.named[name, loss] = None if found is None else len(found.drivers)
        return found and {**found._asdict(), "drivers": [driver._asdict() for driver in found.drivers]}

    def _closed(self, periods: Periods, position: Position) -> list[dict[str, Any]]:
        """The periods that end with the record, as their message has them."""
        return [
            {
                "name": period.name,
                "records": self.records - period.records,
                "first_offset": period.offset + 1,
                "last_offset": position.offset,
                "from": period.timestamp,
                "until": position.timestamp,
                "performance": {
                    loss.name: dict(zip(("loss", "gain"), cells, strict=True))
                    for loss, cells in zip(self.performance.losses, _means(period, PERFORMANCE), strict=False)
                },
                "importance": {
                    name: {
                        loss.name: dict(
                            zip((player.name for player in explainer.players), cells, strict=False)
                        )
                        for loss, cells in zip(explainer.losses, _means(period, name), strict=False)
                    }
                    for name, explainer in self.explainers.items()
                },
            }
            for period in periods.close(self.records, *position)
        ]

    def state(self, pack: Pack) -> ExplainedModelData:
        """The state as data; ``pack`` stores what only foreign code understands."""
        return ExplainedModelData(
            model=model_data(self.model, not self._stored, pack),
            reservoirs=[reservoir.state() for reservoir in self.reservoirs.values()],
            explainers={name: explainer.state() for name, explainer in self.explainers.items()},
            performance=self.performance.state(),
            records=self.records,
            served=None if self.served is None else self.served.state(),
            segments={name: segments.state() for name, segments in self.segments.items()},
            periods=None if self.periods is None else self.periods.state(),
            worse=self.worth.state(),
        )

    def restore(self, data: ExplainedModelData, unpack: Unpack) -> None:
        """Restore a stored state, before the first record. Raises ``StateError`` where the state is not of these settings; the
        object is then unusable.
        """
        check(list(data.explainers) == list(self.explainers), "explainers: others")
        check((data.served is None) == (self.served is None), "served: with predictions, or without")
        check(len(data.reservoirs) == len(self.reservoirs), "reservoirs: more or fewer")
        self.model = restored_model(self.model, data.model, not self._stored, unpack)
        self.evaluator = make_evaluator(self._settings, self.model)
        for reservoir, kept in zip(self.reservoirs.values(), data.reservoirs, strict=True):
            reservoir.restore(kept)
        for name, explainer in self.explainers.items():
            explainer.model, explainer.evaluator = self.model, self.evaluator
            explainer.restore(data.explainers[name])
        self.performance.restore(data.performance)
        check(list(data.segments) == list(self.segments), "segments: of other explainers")
        for name, segments in self.segments.items():
            segments.restore(data.segments[name])
        self.records = data.records
        self.worth.restore(data.worse)
        check((data.periods is None) == (self.periods is None), "periods: with them, or without")
        if self.periods is not None and data.periods is not None:
            shapes = {
                name: (len(explainer.losses), len(explainer.players))
                for name, explainer in self.explainers.items()
            }
            self.periods.restore(data.periods, {**shapes, PERFORMANCE: (len(self.performance.losses), 2)})
        if self.served is not None and data.served is not None:
            self.served.restore(data.served)
        self._group()


def _segment(feature: str, report: Report) -> dict[str, Any]:
    """A segment as its message has it."""
    losses = zip(report.importance.losses, report.losses.tolist(), strict=True)
    return {
        "feature": feature,
        "value": report.value,
        "records": report.records,
        "performance": {loss: {"model": own, "empty": empty, "floor": None} for loss, (own, empty) in losses},
        "importance": importance_of(report.importance),
    }


def _means(period: Period, source: str) -> list[list[dict[str, float | None]]]:
    """By loss and column: the mean with its band, and the sums that it is made from."""
    if source not in period.sums:
        return []
    sums = Sums(period.sums[source])
    low, high = sums.band()
    columns = (sums.array[0], sums.value, low, high, *sums.array[1:])
    names = ("n", "value", "low", "high", "sum", "var", "third", "var2")
    return [
        [dict(zip(names, cells, strict=True)) for cells in zip(*(of.tolist() for of in row), strict=True)]
        for row in zip(*columns, strict=True)
    ]


def importance_of(explanation: Explanation) -> dict[str, dict[str, dict[str, float | bool | None]]]:
    """By loss and feature; NaN becomes null in JSON."""
    return {
        loss: {
            feature: {**cells._asdict(), "floor": None}
            for feature, cells in explanation.importance(loss).items()
        }
        for loss in explanation.losses
    }
