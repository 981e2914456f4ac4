"""A model together with what is known about it: the estimators that explain it, and its performance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from explain_core import losses as known_losses
from explain_core.alarms.detector import Position
from explain_core.dependence import DependenceState
from explain_core.estimated import EstimatedState, LossEstimator
from explain_core.evaluation.choice import choose
from explain_core.evaluation.learned import LearnedEvaluator
from explain_core.explanation import Explanation
from explain_core.foreign import dumps
from explain_core.importance import estimator
from explain_core.importance.base import EstimatorState, IncrementalEstimator
from explain_core.importance.blocks import Array, Blocks
from explain_core.importance.group import grouped
from explain_core.importance.segments import Segments, SegmentsState
from explain_core.losses import Prediction, label_free
from explain_core.models import Model, Row
from explain_core.models.empty import Performance, PerformanceState
from explain_core.periods import Driven, Period, Periods, PeriodsState
from explain_core.random import derive_seed
from explain_core.reservoirs import ReservoirState, StoredReservoir, make_reservoir
from explain_core.state import Count, Pack, State, Unpack, check, restore_part
from explain_core.stream.events import Learnt
from explain_core.stream.followed import Followed
from explain_core.stream.models import ModelData, model_data, restored_model
from explain_core.stream.options import Explainer, Options
from explain_core.stream.served import Served, ServedData
from explain_core.stream.worth import Worth, WorthData

PERFORMANCE = ""
"""Source of the losses and gains in periods; no explainer has this name."""

Reservoirs = dict[tuple[str, int], StoredReservoir]
"""By kind and size."""


class ExplainedModelData(State, frozen=True):
    """An explained model in a snapshot; without the options, and without a model that never learns."""

    model: ModelData
    reservoirs: list[ReservoirState]
    explainers: dict[str, EstimatorState]
    performance: PerformanceState
    records: Count
    served: ServedData | None = None
    segments: dict[str, SegmentsState] = msgspec.field(default_factory=dict)
    periods: PeriodsState | None = None
    worse: WorthData | None = None
    unlabelled: Count = 0
    followed: DependenceState | None = None
    estimated: EstimatedState | None = None


class Ended(NamedTuple):
    """A period that has ended, with the number of its records."""

    period: Period
    records: int


class ExplainedModel:
    """A model, the estimators that ``options.explainers`` ask for, their reservoirs, and the model's performance.

    A record goes through ``explain`` and then ``learn``: explanations are those of the model that has not seen it.

    ================  ==========================================================================================
    ``model``         what is explained
    ``options``       what is kept of it
    ``seed``          of the draws
    ``static``        the model never learns, and is not part of the state
    ``stored``        without it others keep the model
    ``leader``        another explained model, which fills and stores the reservoirs
    ``periods``       whether means over ``options.periods`` are kept
    ``labels``        codes of the classes, a mapping that grows, for ``options.following``
    ================  ==========================================================================================

    Raises ``ValueError`` where the estimators do not suit the model.
    """

    def __init__(
        self,
        model: Model,
        options: Options,
        seed: int = 0,
        *,
        static: bool = False,
        stored: bool = True,
        leader: ExplainedModel | None = None,
        periods: bool = True,
        labels: Mapping[Any, int] = MappingProxyType({}),
    ) -> None:
        self.model, self.options = model, options
        self._static, self._stored = static, stored and not static
        self.evaluator = choose(model, options.evaluator)
        self.reservoirs: Reservoirs = {}
        """Those that it fills."""
        self._leader = leader
        rows = self.reservoirs if leader is None else leader.reservoirs
        self.explainers = {
            chosen.name or chosen.kind: self._estimator(chosen, rows, seed) for chosen in options.explainers
        }
        used = dict.fromkeys(
            loss for explainer in self.explainers.values() for loss in explainer.losses if not loss.label_free
        )
        alpha = options.explainers[0].alpha if options.explainers else Explainer().alpha
        self.performance = Performance(
            list(used) or [known_losses.get(known_losses.DEFAULT[model.task])], alpha, begins=not static
        )
        tolerance = options.tolerance if static else None
        self.served = Served(self.performance.losses, alpha, tolerance) if options.served else None
        self.estimated = (
            LossEstimator(self.performance.losses, alpha=min(alpha, 0.5))
            if options.estimates and leader is None
            else None
        )
        """Of the losses of records without a label."""
        self._group()
        names = [loss.name for loss in self.performance.losses]
        self.segments = {
            name: Segments(
                explainer, chosen.by, chosen.segments, [names.index(loss.name) for loss in explainer.losses]
            )
            for chosen, (name, explainer) in zip(options.explainers, self.explainers.items(), strict=True)
            if chosen.by is not None
        }
        self.periods = Periods(options.periods) if periods else None
        self.worth = Worth()
        self.followed: Followed | None = None
        """Which way features move the predictions, where that is asked for."""
        if options.following is not None and leader is None:
            if not self.explainers:
                raise ValueError("following: curves are of the first explainer's rows, and there is none")
            first = next(iter(self.explainers.values()))
            self.followed = Followed(model, options.following, first, alpha, labels)
        self.records = 0
        """That it has taken in."""
        self.unlabelled = 0
        """Records without a label that it has taken in besides."""
        self.named: dict[tuple[str, str], int | None] = {}
        """By explainer and loss, how many features the newest ``drivers`` named; None where it was too early."""

    def _group(self) -> None:
        self._estimator_groups = grouped(self.explainers.values())
        self.blocks: Blocks = Blocks(
            self.model,
            self._estimator_groups,
            list((self._leader or self).reservoirs.values()),
            self.performance,
            self.options.every,
            not self._static,
            None if self._leader is None else self._leader.blocks,
        )

    def _estimator(self, chosen: Explainer, reservoirs: Reservoirs, seed: int) -> IncrementalEstimator:
        """One reservoir of each kind and size is shared, and made at its first use."""
        options, kind, size = self.options, chosen.reservoir, chosen.rows
        if (kind, size) not in reservoirs:
            reservoirs[kind, size] = make_reservoir(kind, size, derive_seed(seed, "reservoir", kind, size))
        name = chosen.name or chosen.kind
        try:
            if chosen.by is not None and label_free(chosen.losses or ()):
                raise ValueError("by: segments are of losses, and there is none without labels; take it out")
            return estimator(chosen.kind)(
                self.model,
                task=self.model.task,
                losses=chosen.losses,
                alpha=chosen.alpha,
                n_samples=chosen.n_samples,
                features=options.features,
                groups=chosen.groups,
                reservoir=reservoirs[kind, size],
                warm_up=options.warm_up and min(options.warm_up, size),
                band=chosen.band,
                confidence=chosen.confidence,
                seed=derive_seed(seed, name),
                evaluator=self.evaluator,
                **chosen.params,
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"explainers: {name}: {error}") from None

    def explain(self, x: Row, y: Any) -> Prediction:
        """Predict a record, and explain the prediction of each ``options.every``-th."""
        prediction: Prediction | None = None
        if self.explains:
            for group in self._estimator_groups:
                prediction = group.explain_one(x, y, prediction)
        else:
            self.observe(x)
        return self.predict(x) if prediction is None else prediction

    def observe(self, x: Row) -> None:
        """Let the estimators know a record's features."""
        for group in self._estimator_groups:
            group.observe(x)

    def predict(self, x: Row) -> Prediction:
        """The model's prediction; nothing is learnt or counted."""
        return self.model.checked_prediction(x)

    def note(self, x: Row, prediction: Prediction) -> Learnt:
        """Take in a record without a label, and its prediction; returns what is known of it.

        Estimators know its features, and reservoirs may keep it. Those estimators that need no label explain each ``options.every``-th of such records.
        """
        explains = self.unlabelled % self.options.every == 0
        for group in self._estimator_groups:
            if explains and group.label_free:
                group.explain_one(x, None, prediction)
            else:
                group.observe(x)
        for reservoir in self.reservoirs.values():
            reservoir.add(x)
        self._add_up()
        excess = None
        if self.estimated is not None:
            estimate = self.estimated.estimate(x, prediction)
            excess = None if estimate is None else np.array([estimate]) - np.array([self.estimated.fitted])
        self.unlabelled += 1
        if self.followed is not None:
            self.followed.add(x, self.unlabelled)
        return self.learnt(explains, unlabelled=True)._replace(excess=excess)

    @property
    def explains(self) -> bool:
        """Whether it explains the record that comes next, or has only to note it."""
        return self.records % self.options.every == 0

    def learn(
        self, x: Row, y: Any, weight: float, prediction: Prediction, served: Prediction | None = None
    ) -> list[float]:
        """Learn the record of ``explain``, which returned ``prediction``; returns the losses of that prediction.

        ``served`` is the prediction that was served for it, where records carry one.
        """
        if not self._static:
            self.model.learn(x, y, weight)
        for reservoir in self.reservoirs.values():
            reservoir.add(x)
        losses = self.performance.update(y, prediction)
        if self.estimated is not None:
            self.estimated.learn(x, prediction, self.performance.newest[0].tolist())
        self._add_up()
        if self.segments and self.explains:
            for name, segments in self.segments.items():
                increments = self.explainers[name].increments
                if increments is not None:
                    segments.add(x, self.performance.newest, increments)
        self.records += 1
        if self.served is not None and served is not None:
            self.served.add(y, served, prediction)
        if self.followed is not None:
            self.followed.add(x, self.records)
        return losses

    def learnt(self, explained: bool, unlabelled: bool = False) -> Learnt:
        """What is known of the record of ``learn``, or of ``take_unlabelled``, which was explained or not."""
        increments = {
            name: explainer.increments[None]
            for name, explainer in self.explainers.items()
            if explained and explainer.increments is not None and (explainer.label_free or not unlabelled)
        }
        segments = {name: [segments.newest] for name, segments in self.segments.items() if name in increments}
        losses = self.performance.newest[None]
        return Learnt(None if unlabelled else losses, [0] if explained else [], increments, segments)

    @property
    def most(self) -> int:
        """How many records a block may have at most."""
        most = self.blocks.most(self.records)
        return most if self.followed is None else min(most, self.followed.room(self.records))

    @property
    def in_blocks(self) -> bool:
        """Whether compiled code may take records in by ``blocks``."""
        return isinstance(self.evaluator, LearnedEvaluator)

    def end_block(
        self,
        n: int,
        xs: Sequence[Row],
        truths: Sequence[Any] = (),
        served: Sequence[Prediction | None] = (),
    ) -> tuple[Array, Learnt]:
        """``explain`` and ``learn`` of n records that ``blocks`` has taken in; their predictions, and what is known of them."""
        predictions, losses = self.blocks.end(n, xs, self.records)
        self._add_up()
        explained = self.blocks.explained(n, self.records)
        self.records += n
        found = self.blocks.increments(explained)
        increments = {name: found[id(explainer)] for name, explainer in self.explainers.items()}
        values = {
            name: [
                segments.add(xs[place], losses[place], added)
                for place, added in zip(explained, increments[name], strict=True)
            ]
            for name, segments in self.segments.items()
        }
        if self.served is not None:
            for truth, given, own in zip(truths, served, self.blocks.told(predictions), strict=False):
                if given is not None:
                    self.served.add(truth, given, own)
        if self.followed is not None:
            self.followed.add(xs[n - 1], self.records)
        if self.estimated is not None:
            self.estimated.learn_many(xs, self.blocks.told(predictions), losses[:, 0])
        return predictions, Learnt(losses, explained, increments, values)

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

    @property
    def explanations(self) -> dict[str, Explanation]:
        """The importances, by explainer."""
        return {name: explainer.explanation for name, explainer in self.explainers.items()}

    def drivers(self, name: str, loss: str) -> Driven | None:
        """What drives the model by an explainer and a loss, which ``named`` then counts; None where it is too early, or the model is worse than no model."""
        explainer = self.explainers[name]
        if explainer.label_free:
            return None
        if self.worth.since is not None:
            self.named[name, loss] = 0
            return None
        features = [player.name for player in explainer.players]
        rows = ([known.name for known in of.losses].index(loss) for of in (explainer, self.performance))
        row, gain_row = rows
        found = (
            None if self.periods is None else self.periods.driven(name, features, row, PERFORMANCE, gain_row)
        )
        self.named[name, loss] = None if found is None else len(found.drivers)
        return found

    def ended(self, position: Position) -> list[Ended]:
        """The periods that end with the record at ``position``; they are closed by that."""
        if self.periods is None:
            return []
        closed = self.periods.close(self.records, *position)
        return [Ended(period, self.records - period.records) for period in closed]

    def state(self, pack: Pack = dumps) -> ExplainedModelData:
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
            worse=self.worth.since,
            unlabelled=self.unlabelled,
            followed=None if self.followed is None else self.followed.state(),
            estimated=None if self.estimated is None else self.estimated.state(),
        )

    def restore(self, data: ExplainedModelData, unpack: Unpack) -> None:
        """Restore a stored state, before the first record. Raises ``StateError`` where the state is not of these options; the
        object is then unusable.
        """
        check(list(data.explainers) == list(self.explainers), "explainers: others")
        check(len(data.reservoirs) == len(self.reservoirs), "reservoirs: more or fewer")
        self.model = restored_model(self.model, data.model, not self._stored, unpack)
        self.evaluator = choose(self.model, self.options.evaluator)
        for reservoir, kept in zip(self.reservoirs.values(), data.reservoirs, strict=True):
            reservoir.restore(kept)
        for name, explainer in self.explainers.items():
            explainer.model, explainer.evaluator = self.model, self.evaluator
            explainer.restore(data.explainers[name])
        self.performance.restore(data.performance)
        check(list(data.segments) == list(self.segments), "segments: of other explainers")
        for name, segments in self.segments.items():
            segments.restore(data.segments[name])
        self.records, self.unlabelled = data.records, data.unlabelled
        self.worth.since = data.worse
        shapes = {
            name: (len(explainer.losses), 0, len(explainer.players))
            for name, explainer in self.explainers.items()
        } | {PERFORMANCE: (len(self.performance.losses), 2, 2)}
        restore_part(self.periods, data.periods, "periods: with them, or without", shapes)
        restore_part(self.served, data.served, "served: with predictions, or without")
        restore_part(self.followed, data.followed, "followed: with curves, or without", self.model)
        restore_part(self.estimated, data.estimated, "estimated: with estimates, or without")
        self._group()
