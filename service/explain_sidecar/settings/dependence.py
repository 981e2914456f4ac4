"""The section of partial dependence: which way features move the predictions."""

from __future__ import annotations

from pydantic import Field, model_validator

from explain_sidecar.settings.base import Part, Section, duplicates
from explain_sidecar.settings.records import RecordSettings
from explain_sidecar.settings.sources import SettingPath, refuse


class DependenceSettings(Section):
    """Curves of partial dependence (iPDP): the mean prediction as a function of a feature. Off as long as neither features nor top is set."""

    part = Part("dependence")

    features: list[str] = Field(
        default_factory=list, max_length=50, description="Features whose curves are drawn: numbers."
    )
    top: int = Field(
        0,
        ge=0,
        le=20,
        description="And those of so many features of largest importance, by the first explainer; one that was among them stays as long as it is among twice as many.",
    )
    points: int = Field(
        10,
        ge=2,
        le=100,
        description="Points of a curve, between the 5 % and the 95 % quantile of the feature.",
    )
    every: int = Field(
        10,
        ge=1,
        description="Each k-th record is asked about; records between are folded in blocks as before.",
    )
    label: str | bool | int | None = Field(
        None,
        description="The class whose probability is followed; by default of two classes the one whose name is last, such as true of false and true. Of more classes one must be named.",
    )

    @property
    def enabled(self) -> bool:
        return bool(self.features or self.top)

    @model_validator(mode="after")
    def _whole(self) -> DependenceSettings:
        refuse((("features",), f"names {name!r} twice; take one out") for name in duplicates(self.features))
        return self

    def contradictions(self, record: RecordSettings, task: str) -> list[tuple[SettingPath, str]]:
        """What does not fit the rest of the settings."""
        problems: list[tuple[SettingPath, str]] = [
            (
                ("partial_dependence", "features"),
                f"{name!r} is not among record.features; add it there or take it out",
            )
            for name in self.features
            if record.features is not None and name not in record.features
        ]
        label = ("partial_dependence", "label")
        if self.enabled and task == "regression" and self.label is not None:
            problems.append((label, f"{self.label!r} is a class, and model.task is regression; take it out"))
        if self.enabled and task == "multiclass" and self.label is None:
            problems.append((label, "is not set; name the class whose probability is followed"))
        return problems
