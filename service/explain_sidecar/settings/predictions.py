"""The section of single predictions and their reasons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from explain_sidecar.settings.base import MESSAGES, Part, Section
from explain_sidecar.settings.records import where_problems
from explain_sidecar.settings.sources import Problem


class PredictionSettings(Section):
    """Single predictions with their reasons: a message of the predictions topic for each record."""

    part = MESSAGES

    enabled: bool = False
    """Publish the model's prediction for each record, before it learns from it, with the features that made it: Shapley values against the rows of the first explainer's reservoir."""
    every: int = Field(1, ge=1)
    """Of so many records one, chosen by its offset: those chosen are spread evenly. With 1 all."""
    where: dict[str, list[str | bool | int | float]] = Field(default_factory=dict)
    """Only of records with one of these values, named as in record.where."""
    top: int = Field(5, ge=0, le=100)
    """Reasons in a message, the largest first."""
    label: str | bool | int | None = None
    """The class whose probability is explained; by default the most probable one."""
    space: Literal["prediction", "margin"] = "prediction"
    """margin explains the sums before the link function, such as log-odds; trained trees and linear models have them."""
    most: int = Field(4_096, ge=1, le=10_000_000)
    """Predictions for one record where only the model can be asked: if all coalitions of its features take more, reasons are sampled and have a standard error."""

    remember: Annotated[int, Part("waiting")] = Field(0, ge=0, le=100_000)
    """Most predictions of records without a label that are kept until a record with the same record.id brings it: the message about that one says what they lost. Beyond it the oldest is forgotten."""

    def problems(self) -> Iterator[Problem]:
        yield from where_problems(self.where)
