"""What the incremental estimators share: players, reservoir, smoothing and the contract of ``explain_one``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from explain_core import losses as known_losses
from explain_core.bands import Band, Spread, ends, half_width
from explain_core.evaluation.choice import Name, choose
from explain_core.evaluation.generic import GenericEvaluator
from explain_core.evaluation.plan import Perturbed, PlanEntry
from explain_core.explanation import Explanation
from explain_core.importance.group import EstimatorGroup
from explain_core.losses import AnyTask, Loss, Prediction, Task
from explain_core.models import Model, Row, wrap
from explain_core.models.empty import EmptyModel, EmptyState
from explain_core.players import Players
from explain_core.random import Generator, derive_seed
from explain_core.removal.conditional import ConditionalState
from explain_core.reservoirs import Kind, Reservoir, StoredReservoir, make_reservoir
from explain_core.smoothing import Array, Smoother, SmootherState
from explain_core.state import Count, Seed, State, StateError, check


class EstimatorState(State, frozen=True):
    """Features seen, generator and smoothed values; what is None belongs to other estimators."""

    features: list[str]
    rng: Seed
    explained: Count
    values: SmootherState
    switched: SmootherState | None = None
    own: SmootherState | None = None
    empty: EmptyState | None = None
    trees: ConditionalState | None = None
    """Of conditional removal."""


AnyLoss = str | Loss | Callable[[Any, Any], float]


class IncrementalEstimator:
    """An importance that follows a stream, one record at a time.

    Parameters
    ----------
    model
        What is explained: anything ``explain_core.models.wrap`` takes. It is read, never taught. Many of river's models
        are explained ten times as fast where the learner that ``explain_core.learners.choice.learner_of`` makes of them
        is the model.
    task
        "classification" or "regression"; "binary" and "multiclass", as in the sidecar's settings, are classification too.
    losses
        Names or callables, by default cross_entropy or squared; one result for each from the same predictions. "prediction", alone, explains what moves
        the prediction instead of the loss, and needs no label, see ``explain_core.losses.moved``.
    alpha
        Smoothing parameter in (0, 1]; None is the static setting, a plain mean.
    n_samples
        Inner draws m from the reservoir per copy.
    features, groups
        See ``Players``.
    reservoir
        "geometric" or "uniform" of ``size`` rows, owned by the estimator, which stores each record after explaining
        it; or a reservoir object that is shared, and stays its owner's to add to. The rows of a uniform reservoir stay, and
        the band is wider by their sampling error, at most: give it many.
    warm_up
        Rows that must be stored before explaining starts, by default the reservoir's size.
    band, confidence
        The band of the explanation, see ``explain_core.bands``.
    seed
        Of this estimator's own generator.
    evaluator
        How the perturbed copies are predicted: "auto", the name of an evaluator, or an evaluator of the same ``Model``
        that estimators share, see ``explain_core.evaluation.choice.choose``. The draws do not depend on it.

    Raises ``ValueError`` for arguments that do not fit. An ``explain_one`` that raises has not changed the state.

    What differs is in ``IncrementalPFI`` and ``IncrementalSAGE``; this is the contract that both keep:

    >>> from explain_core.importance.ipfi import IncrementalPFI
    >>> estimator = IncrementalPFI(lambda x: 2.0 * x["a"], task="regression", alpha=0.1, size=10)
    >>> for i in range(50):
    ...     estimator = estimator.explain_one({"a": float(i % 7), "b": 1.0}, 2.0 * (i % 7))
    >>> estimator.explanation.status, sorted(estimator.explanation.importance())
    ('ready', ['a', 'b'])
    """

    name = ""
    parameters: tuple[str, ...] = ()
    """Its own parameters among the settings of an explainer."""
    copies: Literal["replaced", "joining"] | None = None
    """The perturbed copies that compiled code makes for it; None where only Python explains."""
    _pairs: Sequence[bool] = ()
    """Which of its losses are estimated from pairs."""
    in_blocks = True
    """Whether compiled code does all that an explained record asks for."""

    def __init__(
        self,
        model: Any,
        *,
        task: AnyTask = "classification",
        losses: Sequence[AnyLoss] | AnyLoss | None = None,
        alpha: float | None = 0.001,
        n_samples: int | None = None,
        features: Sequence[str] | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        reservoir: Reservoir | Kind = "geometric",
        size: int = 100,
        warm_up: int | None = None,
        band: Band = "normal",
        confidence: float = 0.95,
        seed: int = 0,
        evaluator: Name | GenericEvaluator = "auto",
    ) -> None:
        self.model: Model = wrap(model, task)
        self.task = self.model.task
        self.losses = checked_losses(losses, self.task)
        self.label_free = self.losses[0].label_free
        """Whether it explains predictions, and asks for no label."""
        self.n_samples = self._checked_samples(n_samples)
        self.players = Players(features, groups)
        self._owns_reservoir = isinstance(reservoir, str)
        self.reservoir: Reservoir = (
            make_reservoir(reservoir, size, derive_seed(seed, "reservoir"))
            if isinstance(reservoir, str)
            else reservoir
        )
        if warm_up is not None and not 1 <= warm_up <= self.reservoir.size:
            raise ValueError(
                f"warm_up: {warm_up} is not between 1 and the reservoir's size {self.reservoir.size}"
            )
        self.warm_up = self.reservoir.size if warm_up is None else warm_up
        half_width(band, confidence)  # refuses what is none
        self._band, self._confidence = band, confidence
        self._rng = Generator(derive_seed(seed, self.name))
        self._alpha = alpha
        self._n = 0  # records explained
        self.increments: Array | None = None
        """Δ of the record explained last, losses × players, before any smoothing: the next one overwrites it."""
        self._smoother = self._new_smoother(len(self.players))
        self.closed: Array | None = None
        """Sums of the block that ended last, see ``Smoother.end_block``; who adds them up takes them away."""
        self.evaluator = choose(self.model, evaluator)

    def explain_one(self, x: Row, y: Any, prediction: Prediction | None = None) -> Self:
        """Explain the model's prediction for x against the truth y.

        ``prediction`` is the model's own for x where the caller has it already; without labels y is not looked at. Raises ``ValueError`` for predictions
        and losses that are not finite and for a feature that has the name of a group.
        """
        self._alone.explain_one(x, y, prediction)
        return self

    def observe(self, x: Row) -> None:
        """Take in the features of a record that is not explained."""
        self._alone.observe(x)

    @cached_property
    def _alone(self) -> EstimatorGroup:
        return EstimatorGroup([self])

    def state(self) -> EstimatorState:
        """What a snapshot holds, but for model and shared reservoir."""
        return EstimatorState(self.players.seen(), self._rng.state, self._n, self._smoother.state())

    def restore(self, state: EstimatorState) -> None:
        """Take a stored state on, before the first record. Raises ``StateError`` where it is none of such an estimator."""
        check(len(set(state.features)) == len(state.features), f"{self.name}: a feature twice")
        try:
            players = self.players.after(dict.fromkeys(state.features))
        except ValueError as error:
            raise StateError(f"{self.name}: {error}") from None
        check(
            players.seen() == state.features, f"{self.name}: other features than {', '.join(players.seen())}"
        )
        self._smoother.restore(state.values, len(players), state.explained)
        self.players, self._rng, self._n = players, Generator(state.rng), state.explained

    @property
    def ready(self) -> bool:
        """Whether the reservoir holds enough rows to explain with."""
        return len(self.reservoir.rows) >= self.warm_up

    @property
    def explanation(self) -> Explanation:
        """The current values with their bands, one row per loss, one column per feature or group."""
        values, spread = self._estimate()
        return self._explanation(self._smoother, values, spread, self._n)

    def _explanation(
        self, smoother: Smoother, values: Array, spread: Spread, n: int, first: int = 0
    ) -> Explanation:
        """An explanation of this estimator's kind from the columns of ``smoother`` that begin at ``first``."""
        columns = slice(first, None)
        std = self._with_rows(spread.std, smoother)
        shown = spread.with_std(np.where(smoother.old_enough, std, np.nan))
        low, high = ends(values, shown, self._confidence, self._band)
        return Explanation(
            estimator=self.name,
            features=tuple(player.name for player in self.players)[: values.shape[1] - first],
            losses=tuple(loss.name for loss in self.losses),
            values=np.where(smoother.sums[0] > 0.0, values, np.nan)[:, columns],
            std=std[:, columns],
            n=n,
            status="ready" if n else "warming",
            low=low[:, columns],
            high=high[:, columns],
            steady=smoother.steady[:, columns],
            metadata=self._metadata(),
        )

    @property
    def raw(self) -> Array:
        """The smoothed Δ without bias correction, losses × features: what the papers' theorems speak of."""
        return self._smoother.raw

    def _metadata(self) -> dict[str, Any]:
        return {
            "alpha": self._alpha,
            "n_samples": self.n_samples,
            "reservoir": getattr(self.reservoir, "kind", "custom"),
            "size": self.reservoir.size,
            "band": self._band,
            "confidence": self._confidence,
            "evaluator": self.evaluator.name,
        }

    def _adopt(self, first: IncrementalEstimator) -> None:
        """Take over what does as one's own would before the first record: wrapper and evaluator of the same model, and an equal reservoir."""
        mine, its = self.reservoir, first.reservoir
        if not isinstance(mine, StoredReservoir) or mine.rows or mine is its:
            return
        if self.model.wrapped is first.model.wrapped and type(self.evaluator) is type(first.evaluator):
            self.model, self.evaluator = first.model, first.evaluator
        same = type(mine) is type(its) and mine.size == its.size and mine.state() == its.state()
        if self._owns_reservoir and first._owns_reservoir and same:
            self.reservoir = its

    def _difference(self, other: IncrementalEstimator) -> str:
        """The first of the arguments in which the two differ; empty where they can explain a record in one evaluation."""
        called = {"players": "features or groups", "_compilable": "removal"}
        names = ("model", "reservoir", "evaluator", "warm_up", "losses", *called)
        differing = (name for name in names if getattr(self, name) != getattr(other, name))
        return next((called.get(name, name) for name in differing), "")

    def _new_smoother(self, columns: int) -> Smoother:
        return Smoother((len(self.losses), columns), self._alpha)

    def _with_rows(self, std: Array, smoother: Smoother) -> Array:
        """The standard error, with what the rows of a uniform reservoir, which stay, raise it by at most.

        They are L of all that there might be: the mean over them of E[Δ | row] varies by the L-th part of its variance V, and over a
        plain mean's whole time by half of that, as Vitter's reservoirs after s and t records share min(s, t)/max(s, t) of their rows.
        A row is drawn from what records are, and is taken to tell at most as much as a record with its label does. Of the variance of Δ, a mean over m
        draws, V/m is then due to rows and V or more to records: V is at most m/(m + 1) of it.
        """
        if getattr(self.reservoir, "kind", None) != "uniform":
            return std
        most = self.n_samples / (self.n_samples + 1.0) * (0.5 if self._alpha is None else 1.0)
        with np.errstate(divide="ignore"):
            result: Array = std * np.sqrt(1.0 + most / self.reservoir.size / smoother.shares)
        return result

    def _end_block(self) -> None:
        """The end of a block of explained records."""
        self.closed = self._smoother.end_block()

    @property
    def _compilable(self) -> bool:
        """Whether compiled code may explain; else only Python does."""
        return self.copies is not None

    def _plan_entry(self) -> PlanEntry:
        """What compiled code needs to know."""
        return PlanEntry(self._source, self.n_samples, self._smoother, self._pairs, settle=self._settle)

    @property
    def _empty_model(self) -> EmptyModel | None:
        """The model of the empty coalition, None where copies stand for it."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_alone"} | {
            "increments": None
        }

    def _source(self) -> Generator:
        """What draws the rows of the next record."""
        return self._rng

    def _draw_row(self) -> Row:
        rows = self.reservoir.rows
        return rows[self._rng.below(len(rows))]

    def _take(self, players: Players) -> None:
        if players is not self.players:
            self.players = players
            self._smoother.grow(len(players))

    def _contributions(self, players: Players, x: Row, y: Any, base: Prediction) -> Array:
        """Δ of this record, losses × players. Changes no state but the generator's."""
        raise NotImplementedError

    def _settle(self, losses: Sequence[int], found: Perturbed, delta: Array) -> None:
        """Fill the rows of Δ of the losses at these places."""
        raise NotImplementedError

    def _check(self, x: Row) -> None:
        """Raise ``ValueError`` for a record that cannot be taken in."""

    def _explained(self, y: Any, base: Prediction, entry: PlanEntry | None, delta: Array) -> None:
        """Change the state besides the smoother that an explained record changes; ``entry`` is that of compiled code. Does not fail."""

    def _learn(self, x: Row) -> None:
        """Take in an observed record. Does not fail."""

    def _estimate(self) -> tuple[Array, Spread]:
        """Values and how they err, losses × players."""
        return self._smoother.value, self._smoother.spread

    def _checked_samples(self, n_samples: int | None) -> int:
        raise NotImplementedError


def at_least_one(n_samples: int) -> int:
    """The number of inner draws itself. Raises ``ValueError`` where it is below 1.

    >>> at_least_one(0)
    Traceback (most recent call last):
    ValueError: n_samples: 0 draws are none; use at least 1
    """
    if n_samples < 1:
        raise ValueError(f"n_samples: {n_samples} draws are none; use at least 1")
    return n_samples


def checked_losses(losses: Sequence[AnyLoss] | AnyLoss | None, task: Task) -> tuple[Loss, ...]:
    if losses is None:
        losses = known_losses.DEFAULT[task]
    several = losses if isinstance(losses, Sequence) and not isinstance(losses, str) else [losses]
    found = tuple(known_losses.get(loss, task, None, True) for loss in several)
    names = [loss.name for loss in found]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"losses: {names} must be at least one, each with a name of its own")
    if len({loss.label_free for loss in found}) > 1:
        free = ", ".join(loss.name for loss in found if loss.label_free)
        raise ValueError(
            f"losses: {names}: {free} needs no label and the others do; give it an estimator of its own"
        )
    return found
