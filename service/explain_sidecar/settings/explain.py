"""The sections on explanations: the estimators, and when to explain and to publish."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from explain_core import losses as known_losses
from explain_core.importance import ESTIMATORS
from explain_sidecar.settings.base import MESSAGES, Part, Section, twice
from explain_sidecar.settings.sources import Problem


def _estimator(kind: str) -> str:
    if kind not in ESTIMATORS and not re.fullmatch(r"[\w.]+:\w+", kind):
        raise ValueError(
            f"{kind!r} is not one of {', '.join(ESTIMATORS)}; name one of these, or a class of yours as module:Class"
        )
    return kind


def _loss(name: str) -> str:
    known_losses.get(name)
    return name


LossName = Annotated[str, AfterValidator(_loss)]


def _measure(name: str) -> str:
    known_losses.get(name, None, None, True)
    return name


MeasureName = Annotated[str, AfterValidator(_measure)]
"""Of a loss, or of a measure without labels."""


class ReservoirSettings(Section):
    """The rows that perturbed copies take their values from."""

    part = Part("reservoirs")

    kind: Literal["geometric", "uniform"] = "geometric"
    """geometric follows drift; uniform represents the whole past."""
    size: int = Field(100, ge=1, le=100_000)
    """Rows."""


class ExplainerSettings(Section):
    """One estimator of feature importance."""

    part = Part("explainers")

    kind: Annotated[str, AfterValidator(_estimator)]
    """Incremental permutation importance (ipfi), incremental SAGE (isage), or an IncrementalEstimator of yours as module:Class."""
    params: dict[str, Any] = Field(default_factory=dict)
    """What the estimator's class is called with besides, if it is yours."""
    name: str | None = Field(None, min_length=1)
    """Name in the messages; by default its kind."""
    alpha: float | None = Field(None, ge=1e-12, le=1)
    """Smoothing parameter; by default 0.001."""
    window: float | None = Field(None, ge=1, le=1e12)
    """Instead of alpha: as smooth as a window of this many records."""
    n_samples: int | None = Field(None, ge=1, le=10_000)
    """Draws per copy; by default 5 (ipfi), 10 or two in product form (isage)."""
    losses: Annotated[list[MeasureName] | None, Part("losses")] = Field(
        None,
        min_length=1,
        description=f"Any of {', '.join(known_losses.NAMED)} that fit the task, or a loss of yours as module:name; by default cross_entropy, in a regression squared. prediction, alone, explains what moves the predictions, and needs no label.",
    )
    groups: dict[str, list[str]] = Field(default_factory=dict)
    """Features that are perturbed together, by name of the group."""
    by: Annotated[str | None, Part("segments")] = Field(None, min_length=1)
    """A feature: performance and importance are also kept apart for its values. Values then stand in the messages."""
    segments: Annotated[int, Part("segments")] = Field(20, ge=1, le=1_000)
    """Values of `by` that are kept apart, the first ones that come; all others, and records without a value, are one segment."""
    reservoir: ReservoirSettings = Field(default_factory=ReservoirSettings)
    band: Annotated[Literal["normal", "chebyshev"], MESSAGES] = "normal"
    """Confidence band."""
    confidence: Annotated[float, MESSAGES] = Field(0.95, gt=0, le=0.999999)
    """Confidence level of the band."""
    empty: Literal["ema", "reservoir"] = "reservoir"
    """isage: how the prediction without any feature is estimated."""
    removal: Literal["marginal", "conditional"] = "marginal"
    """isage: whether removing a feature takes the others into account (conditional) or not (marginal). conditional keeps a tree per feature and costs tens of times as much."""

    def problems(self) -> Iterator[Problem]:
        losses = self.losses or []
        if self.alpha is not None and self.window is not None:
            yield (
                "alpha",
                f"{self.alpha:g} and window {self.window:g} are both given and say the same; keep one",
            )
        for name in ("empty", "removal"):
            if self.kind != "isage" and getattr(self, name) != type(self).model_fields[name].default:
                yield name, "is a setting of isage alone; take it out"
        if self.params and self.kind in ESTIMATORS:
            yield "params", f"are for a class of yours, and {self.kind} is none; take them out"
        yield from twice("losses", losses)
        if self.by is not None and self.label_free:
            yield "by", "is for segments with their losses, and there is none without labels; take it out"
        if len(losses) > 1 and "prediction" in losses:
            yield (
                "losses",
                "names prediction beside others, which need labels; give it an explainer of its own",
            )
        yield from group_problems(self.groups)

    @property
    def label_free(self) -> bool:
        """Whether it explains predictions, and needs no label."""
        return known_losses.label_free(self.losses or ())


def group_problems(groups: dict[str, list[str]]) -> Iterator[Problem]:
    for name, features in groups.items():
        if not features:
            yield ("groups", name), "is empty; name at least one feature"
    features = [feature for group in groups.values() for feature in group]
    for position, feature in enumerate(features):
        if feature in features[:position]:
            yield "groups", f"name {feature!r} twice; groups must be disjoint"


class ExplainSettings(Section):
    """When to explain."""

    part = Part("explainers")

    every: int = Field(1, ge=1)
    """Explain each k-th record; the model learns from all."""
    estimated_loss: Annotated[bool, Part("estimated")] = False
    """Estimate the losses of records without a label, and by how much such estimates were wrong once labels come; needs record.unlabelled: predict."""
    warm_up: Annotated[int | None, MESSAGES] = Field(None, ge=1)
    """Rows in the reservoir before explaining starts; by default its size."""
    evaluator: Annotated[Literal["auto", "generic", "batch", "arrays"], MESSAGES] = "auto"
    """How the model is evaluated on perturbed copies; auto takes the fastest that knows the model."""


class RowsSettings(Section):
    """Means as flat rows, for SQL."""

    part = MESSAGES

    enabled: bool = False
    """Publish, with each period of emit.periods that ends, a message for each mean of it: of each feature's importance, of the loss, and of the gain over no model. With each explanation, the same of its segments and of the challenger, smoothed."""


LEAST_MESSAGE = 50_000
"""What ``emit.max_bytes`` is at least."""


class EmitSettings(Section):
    """When to publish."""

    part = MESSAGES

    every: int = Field(100, ge=1)
    """Records per explanation message."""
    periods: Annotated[
        list[Literal["hour", "day", "week", "alarm", "all"] | Annotated[int, Field(ge=100)]], Part("periods")
    ] = Field([1_000, "day", "week", "alarm", "all"], max_length=8)
    """Periods whose means are published: hour, day or week of event time (UTC) or a number of records, as each ends, with a message; alarm, the records since the last alarm, and all, those so far, with each message that ends another one."""
    max_bytes: int = Field(1_048_588, ge=LEAST_MESSAGE, le=50_000_000)
    """Largest message, bytes; a dead letter may have 16,384 more. A record whose new features' names would lead to a larger message becomes a dead letter."""
