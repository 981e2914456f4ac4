"""The section of single predictions and their reasons."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from explain_sidecar.settings.base import MESSAGES, Part, Section
from explain_sidecar.settings.records import where_problems
from explain_sidecar.settings.sources import refuse


class PredictionSettings(Section):
    """Single predictions with their reasons: a message of the predictions topic for each record."""

    part = MESSAGES

    enabled: bool = Field(
        False,
        description="Publish the model's prediction for each record, before it learns from it, with the features that made it: Shapley values against the rows of the first explainer's reservoir.",
    )
    every: int = Field(
        1,
        ge=1,
        description="Of so many records one, chosen by its offset: those chosen are spread evenly. With 1 all.",
    )
    where: dict[str, list[str | bool | int | float]] = Field(
        default_factory=dict,
        description="Only of records with one of these values, named as in record.where.",
    )
    top: int = Field(5, ge=0, le=100, description="Reasons in a message, the largest first.")
    label: str | bool | int | None = Field(
        None, description="The class whose probability is explained; by default the most probable one."
    )
    space: Literal["prediction", "margin"] = Field(
        "prediction",
        description="margin explains the sums before the link function, such as log-odds; trained trees and linear models have them.",
    )
    most: int = Field(
        4_096,
        ge=1,
        le=10_000_000,
        description="Predictions for one record where only the model can be asked: if all coalitions of its features take more, reasons are sampled and have a standard error.",
    )

    remember: Annotated[int, Part("waiting")] = Field(
        0,
        ge=0,
        le=100_000,
        description="Most predictions of records without a label that are kept until a record with the same record.id brings it: the message about that one says what they lost. Beyond it the oldest is forgotten.",
    )

    @model_validator(mode="after")
    def _whole(self) -> PredictionSettings:
        refuse(where_problems(self.where))
        return self
