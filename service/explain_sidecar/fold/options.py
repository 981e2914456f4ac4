"""What the settings ask for, as the options of a ``StreamExplainer``."""

from __future__ import annotations

from explain_core.importance import estimator
from explain_core.models import Model
from explain_core.smoothing import alpha_of
from explain_core.stream import Alarming, Comparing, Explainer, Following, Options, Reasoning, Windowing
from explain_sidecar.errors import UserError
from explain_sidecar.settings import ExplainerSettings, Settings


def options_of(settings: Settings) -> Options:
    """Raises ``UserError`` where an explainer names a class that cannot be imported."""
    explain, record, alarms, drift = settings.explain, settings.record, settings.alarms, settings.drift
    dependence = settings.partial_dependence
    return Options(
        explainers=[_explainer(chosen) for chosen in settings.explainers],
        every=explain.every,
        warm_up=explain.warm_up,
        evaluator=explain.evaluator,
        features=record.features,
        periods=list(map(str, settings.emit.periods)),
        served=record.prediction is not None,
        tolerance=record.prediction_tolerance,
        alarms=Alarming(
            subjects=alarms.subjects,
            one_in=alarms.one_in,
            min_change=alarms.min_change,
            warm_up=alarms.warm_up,
            baseline=alarms.baseline,
            season=alarms.season,
        )
        if alarms.enabled
        else None,
        drift=Windowing(
            window=drift.window,
            period=int(1_000 * drift.period) if drift.period else 0,
            on_alarm=drift.on_alarm,
            loss=drift.loss,
            factorisation=drift.groups or drift.factorisation,
            max_cells=drift.max_cells,
            max_samples=drift.max_samples,
            ignore=drift.ignore,
            bootstrap=drift.bootstrap,
        )
        if drift.enabled
        else None,
        comparing=Comparing(
            every=settings.challenger.every,
            confidence=settings.challenger.confidence,
            limits=settings.challenger.limits,
            shift_every=settings.challenger.shift_every,
        ),
        following=Following(
            features=dependence.features,
            top=dependence.top,
            points=dependence.points,
            every=dependence.every,
            label=dependence.label,
        )
        if dependence.enabled
        else None,
        estimates=settings.explain.estimated_loss,
        reasoning=Reasoning(space=settings.predictions.space, most=settings.predictions.most)
        if settings.predictions.enabled
        else None,
    )


def _explainer(chosen: ExplainerSettings) -> Explainer:
    try:
        parameters = estimator(chosen.kind).parameters
    except Exception as error:
        raise UserError(f"explainers: kind: {error}; see docs/how-to/extend.md") from error
    default = Explainer()
    return Explainer(
        kind=chosen.kind,
        name=chosen.name or chosen.kind,
        losses=chosen.losses,
        alpha=alpha_of(chosen.window) if chosen.window is not None else chosen.alpha or default.alpha,
        n_samples=chosen.n_samples,
        groups=chosen.groups,
        by=chosen.by,
        segments=chosen.segments,
        rows=chosen.reservoir.size,
        reservoir=chosen.reservoir.kind,
        band=chosen.band,
        confidence=chosen.confidence,
        params={name: getattr(chosen, name) for name in parameters} | chosen.params,
    )


def check_weights(settings: Settings, model: Model, static: bool) -> None:
    """Raise ``UserError`` where records have weights, and a model that learns takes none."""
    if settings.record.weight is not None and not static and not model.takes_weight:
        raise UserError(
            f"record.weight: {model.title} takes no weights; choose another model, or take record.weight out"
        )


def refused(error: ValueError) -> UserError:
    """What does not suit the model, with the name of its setting."""
    text = str(error)
    if text.startswith("background"):
        return UserError(
            f"predictions: {text.removeprefix('background: ')}; make explainers.reservoir.size smaller"
        )
    sections = {"evaluator": "explain", "space": "predictions"}
    section = next((section for name, section in sections.items() if text.startswith(name)), None)
    return UserError(f"{section}.{text}" if section else text)
