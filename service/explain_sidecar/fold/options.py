"""What the settings ask for, as the options of a ``StreamExplainer``."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from explain_core.importance import estimator
from explain_core.models import Model
from explain_core.smoothing import alpha_of
from explain_core.stream import Alarming, Comparing, Explainer, Following, Options, Reasoning, Windowing
from explain_sidecar.errors import UserError
from explain_sidecar.settings import Settings
from explain_sidecar.settings.base import Section
from explain_sidecar.settings.explain import ExplainerSettings

T = TypeVar("T")


def options_of(settings: Settings) -> Options:
    """Raises ``UserError`` where an explainer names a class that cannot be imported."""
    record, alarms, drift = settings.record, settings.alarms, settings.drift
    followed, told = settings.partial_dependence, settings.predictions
    windows = {
        "period": int(1_000 * drift.period) if drift.period else 0,
        "factorisation": drift.groups or drift.factorisation,
    }
    return _options(
        Options,
        settings.explain,
        explainers=[_explainer(chosen) for chosen in settings.explainers],
        features=record.features,
        periods=list(map(str, settings.emit.periods)),
        served=record.prediction is not None,
        tolerance=record.prediction_tolerance,
        alarms=_options(Alarming, alarms) if alarms.enabled else None,
        drift=_options(Windowing, drift, **windows) if drift.enabled else None,
        comparing=_options(Comparing, settings.challenger),
        following=_options(Following, followed) if followed.enabled else None,
        estimates=settings.explain.estimated_loss,
        reasoning=_options(Reasoning, told) if told.enabled else None,
    )


def _options(kind: type[T], section: Section, **others: Any) -> T:
    """Options that are the settings of a section by the same names, but for others."""
    names = {option.name for option in fields(kind)} & type(section).model_fields.keys()  # type: ignore[arg-type]
    return kind(**{name: getattr(section, name) for name in names} | others)


def _explainer(chosen: ExplainerSettings) -> Explainer:
    try:
        parameters = estimator(chosen.kind).parameters
    except Exception as error:
        raise UserError(f"explainers: kind: {error}; see docs/how-to/extend.md") from error
    alpha = alpha_of(chosen.window) if chosen.window is not None else chosen.alpha or Explainer().alpha
    return _options(
        Explainer,
        chosen,
        name=chosen.name or chosen.kind,
        alpha=alpha,
        rows=chosen.reservoir.size,
        reservoir=chosen.reservoir.kind,
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
