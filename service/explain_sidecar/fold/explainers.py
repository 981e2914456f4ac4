"""The estimators that the settings ask for."""

from __future__ import annotations

from explain_core.evaluation.choice import choose
from explain_core.evaluation.generic import GenericEvaluator
from explain_core.importance import estimator
from explain_core.importance.base import IncrementalEstimator
from explain_core.models import Model
from explain_core.random import derive_seed
from explain_core.reservoirs import GeometricReservoir, UniformReservoir, make_reservoir
from explain_core.smoothing import alpha_of
from explain_sidecar.errors import UserError
from explain_sidecar.settings import ExplainerSettings, Settings

DEFAULT_ALPHA = 0.001

Reservoirs = dict[tuple[str, int], GeometricReservoir | UniformReservoir]
"""By kind and size."""


def make_evaluator(settings: Settings, model: Model) -> GenericEvaluator:
    """The evaluator that ``explain.evaluator`` names. Raises ``UserError`` where it does not know the model."""
    try:
        return choose(model, settings.explain.evaluator)
    except ValueError as error:
        raise UserError(f"explain.{error}") from None


def make_explainer(
    settings: Settings,
    chosen: ExplainerSettings,
    model: Model,
    evaluator: GenericEvaluator,
    reservoirs: Reservoirs,
    seed: int,
) -> IncrementalEstimator:
    """The estimator that a section ``explainers`` asks for; one reservoir of each kind and size is shared, and made at its first use.

    Raises ``UserError`` where it cannot be made.
    """
    kind, size = chosen.reservoir.kind, chosen.reservoir.size
    if (kind, size) not in reservoirs:
        reservoirs[kind, size] = make_reservoir(kind, size, derive_seed(seed, "reservoir", kind, size))
    try:
        make = estimator(chosen.kind)
    except Exception as error:
        raise UserError(f"explainers: kind: {error}; see docs/how-to/extend.md") from error
    try:
        return make(
            model,
            task=model.task,
            losses=chosen.losses,
            alpha=alpha_from(chosen),
            n_samples=chosen.n_samples,
            features=settings.record.features,
            groups=chosen.groups,
            reservoir=reservoirs[kind, size],
            warm_up=settings.explain.warm_up and min(settings.explain.warm_up, size),
            band=chosen.band,
            confidence=chosen.confidence,
            seed=derive_seed(seed, chosen.name or chosen.kind),
            evaluator=evaluator,
            **{name: getattr(chosen, name) for name in make.parameters},
            **chosen.params,
        )
    except (TypeError, ValueError) as error:
        raise UserError(f"explainers: {chosen.name or chosen.kind}: {error}") from None


def alpha_from(explainer: ExplainerSettings | None) -> float:
    """The smoothing parameter of an explainer, from its ``alpha`` or ``window``; by default ``DEFAULT_ALPHA``."""
    if explainer is None:
        return DEFAULT_ALPHA
    if explainer.window is not None:
        return alpha_of(explainer.window)
    return DEFAULT_ALPHA if explainer.alpha is None else explainer.alpha
