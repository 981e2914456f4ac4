"""What the incremental estimators share: players, reservoir, smoothing and the contract of ``explain_one``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from explain_core import losses as known_losses
from explain_core.evaluation.choice import Name, choose
from explain_core.evaluation.generic import GenericEvaluator
from explain_core.evaluation.plan import Plan
from explain_core.explanation import Explanation
from explain_core.losses import Loss, Prediction, Task
from explain_core.models import Model, Row, check_prediction, wrap
from explain_core.players import Players
from explain_core.random import Generator, derive_seed
from explain_core.reservoirs import Kind, Reservoir, make_reservoir
from explain_core.smoothing import Array, Band, Smoother, half_width

AnyLoss = str | Loss | Callable[[Any, Any], float]


class IncrementalEstimator:
    """An importance that follows a stream, one record at a time.

    Parameters
    ----------
    model
        What is explained: anything ``explain_core.models.wrap`` takes. It is read, never taught.
    task
        "classification" or "regression".
    losses
        Names or callables, by default cross_entropy or squared; one result for each from the same predictions.
    alpha
        Smoothing parameter in (0, 1]; None is the static setting, a plain mean.
    n_samples
        Inner draws m from the reservoir per copy.
    features, groups
        See ``Players``.
    reservoir
        "geometric" or "uniform" of ``size`` rows, owned by the estimator, which stores each record after explaining
        it; or a reservoir object that is shared, and stays its owner's to add to. The band does not know the sampling
        error of a uniform reservoir's rows, which stay: give it many.
    warm_up
        Rows that must be stored before explaining starts, by default the reservoir's size.
    band, confidence
        The band of the explanation, see ``explain_core.smoothing.half_width``.
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

    def __init__(
        self,
        model: Any,
        *,
        task: Task = "classification",
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
        self.task = task
        self.losses = _losses(losses, task)
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
        self._band, self._confidence, self._width = band, confidence, half_width(band, confidence)
        self._rng = Generator(derive_seed(seed, self.name))
        self._alpha = alpha
        self._smoother = self._new_smoother(len(self.players))
        self.evaluator = choose(self.model, evaluator)
        self._planned: Plan | None = None

    def explain_one(self, x: Row, y: Any, prediction: Prediction | None = None) -> Self:
        """Explain the model's prediction for x against the truth y.

        ``prediction`` is the model's own for x where the caller has it already. Raises ``ValueError`` for predictions
        and losses that are not finite and for a feature that has the name of a group.
        """
        if self._owns_reservoir:
            x = dict(x)
        players = self.players.after(x)
        if self.ready:
            state = self._rng.state
            try:
                base = self.model.predict(x) if prediction is None else prediction
                check_prediction(base, self.task)
                delta = self._contributions(players, x, y, base)
                compiled = self._planned is not None and delta is self._planned.delta
                if not compiled and not np.isfinite(delta).all():
                    raise ValueError(
                        f"losses: a loss of {[loss.name for loss in self.losses]} is not finite for y = {y!r}"
                    )
            except BaseException:
                self._rng.state = state
                raise
            self._take(players)
            self._smoother.update(delta)
            self._explained(y, base, delta)
        else:
            self._take(players)
        if self._owns_reservoir:
            self.reservoir.add(x)
        return self

    def meet(self, x: Row) -> None:
        """Take notice of a record that is not explained."""
        self._take(self.players.after(x))
        self.evaluator.meet(x)

    @property
    def ready(self) -> bool:
        """Whether the reservoir holds enough rows to explain with."""
        return len(self.reservoir.rows) >= self.warm_up

    @property
    def explanation(self) -> Explanation:
        """The current values with their bands, one row per loss, one column per feature or group."""
        values, std = self._estimate()
        n = self._smoother.n
        return Explanation(
            estimator=self.name,
            features=tuple(player.name for player in self.players),
            losses=tuple(loss.name for loss in self.losses),
            values=values if n else np.full_like(values, np.nan),
            std=std,
            n=n,
            status="ready" if n else "warming",
            width=self._width,
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

    def _new_smoother(self, columns: int) -> Smoother:
        geometric = getattr(self.reservoir, "kind", None) == "geometric"
        memory = self.reservoir.size if geometric else None
        return Smoother((len(self.losses), columns), self._alpha, memory)

    def _plan(self, players: Players) -> Plan:
        """What the evaluator is asked for these players, the same object as long as they are."""
        plan = self._planned
        if plan is None or plan.players is not players:
            plan = self._planned = self._new_plan(players)
        return plan

    def _new_plan(self, players: Players) -> Plan:
        return Plan(players, self.losses, self.n_samples, self.reservoir, self._rng)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planned": None}

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

    def _explained(self, y: Any, base: Prediction, delta: Array) -> None:
        """Change the state besides the smoother that an explained record changes. Does not fail."""

    def _estimate(self) -> tuple[Array, Array]:
        """Values and their standard errors, losses × players."""
        return self._smoother.value.copy(), self._smoother.std

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


def _losses(losses: Sequence[AnyLoss] | AnyLoss | None, task: Task) -> tuple[Loss, ...]:
    if losses is None:
        losses = known_losses.DEFAULT[task]
    several = losses if isinstance(losses, Sequence) and not isinstance(losses, str) else [losses]
    found = tuple(known_losses.get(loss, task) for loss in several)
    names = [loss.name for loss in found]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"losses: {names} must be at least one, each with a name of its own")
    return found
