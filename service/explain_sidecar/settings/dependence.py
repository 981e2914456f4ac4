"""The section of partial dependence: which way features move the predictions."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from explain_sidecar.settings.base import Part, Section, not_among, twice
from explain_sidecar.settings.records import RecordSettings
from explain_sidecar.settings.sources import Problem


class DependenceSettings(Section):
    """Curves of partial dependence (iPDP): the mean prediction as a function of a feature. Off as long as neither features nor top is set."""

    part = Part("dependence")

    features: list[str] = Field(default_factory=list, max_length=50)
    """Features whose curves are drawn: numbers."""
    top: int = Field(0, ge=0, le=20)
    """And those of so many features of largest importance, by the first explainer; one that was among them stays as long as it is among twice as many."""
    points: int = Field(10, ge=2, le=100)
    """Points of a curve, between the 5 % and the 95 % quantile of the feature."""
    every: int = Field(10, ge=1)
    """Each k-th record is asked about; records between are folded in blocks as before."""
    label: str | bool | int | None = None
    """The class whose probability is followed; by default of two classes the one whose name is last, such as true of false and true. Of more classes one must be named."""

    @property
    def enabled(self) -> bool:
        return bool(self.features or self.top)

    def problems(self) -> Iterator[Problem]:
        yield from twice("features", self.features)

    def contradictions(self, record: RecordSettings, task: str) -> Iterator[Problem]:
        """What does not fit the rest of the settings."""
        yield from not_among(record.features, ("partial_dependence", "features"), self.features)
        label = ("partial_dependence", "label")
        if self.enabled and task == "regression" and self.label is not None:
            yield label, f"{self.label!r} is a class, and model.task is regression; take it out"
        if self.enabled and task == "multiclass" and self.label is None:
            yield label, "is not set; name the class whose probability is followed"
