"""The sections on changes: drift attribution and alarms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from explain_client.alarm_words import ABOUT, SubjectKind
from explain_core.alarms import BASELINE, BLOCK, WARM_UP
from explain_core.factorisations import FACTORISATIONS, FactorisationName
from explain_sidecar.settings.base import Part, Section, twice
from explain_sidecar.settings.explain import LossName, group_problems
from explain_sidecar.settings.sources import Problem


class DriftSettings(Section):
    """Attribution of the change of risk between consecutive windows."""

    part = Part("drift")

    enabled: bool = False
    """Publish why the risk changed from each window to the next."""
    window: int = Field(5_000, ge=10, le=1_000_000)
    """Largest number of records in a window."""
    period: float | None = Field(None, ge=0.001)
    """Windows also end when the event time passes a multiple of this many seconds."""
    on_alarm: bool = False
    """Instead of windows: publish why what an alarm is about changed, from the up to window records before its onset and those since, once these are a quarter of a window."""
    loss: LossName | None = None
    """Loss whose change is attributed; by default zero_one, in a regression squared."""
    factorisation: FactorisationName = Field(
        "joint", description=" ".join(f"{name}: {known.words}" for name, known in FACTORISATIONS.items())
    )
    groups: dict[str, list[str]] = Field(default_factory=dict)
    """Split by these groups of features; features in no group stand alone."""
    ignore: list[str] = Field(default_factory=list)
    """Features that are no part of the inputs, such as a weekday, which tells windows apart whatever changes; the model still sees them."""
    bootstrap: int = Field(20, ge=2, le=10_000)
    """Resamples for the intervals of single features."""
    max_cells: int = Field(100_000, ge=1)
    """Largest number of cells for the exact computation."""
    max_samples: int = Field(5_000, ge=100)
    """Largest number of predictions per attribution; of longer windows a random part is evaluated."""

    def problems(self) -> Iterator[Problem]:
        yield from group_problems(self.groups)
        yield from twice("ignore", self.ignore)
        for group, names in self.groups.items():
            for name in names:
                if name in self.ignore:
                    yield ("groups", group), f"{name!r} is in drift.ignore too; take it out of one of them"
        if self.on_alarm and not self.enabled:
            yield "on_alarm", "is true and drift.enabled is false; set that too"
        if self.on_alarm and self.period is not None:
            yield "period", "ends windows, and with drift.on_alarm there are none; take one of them out"


Watched = Literal[SubjectKind, "segments", "segment_importance"]


class AlarmSettings(Section):
    """Alarms where a loss or an importance changed, with a stated rate of false ones."""

    part = Part("alarms")

    enabled: bool = False
    """Publish when a mean changed: of the losses, of the increments of each importance."""
    one_in: int = Field(1_000_000, ge=1_000)
    """Records between false alarms, at least, over all subjects of a partition together."""
    min_change: float = Field(0.05, ge=0, le=1)
    """Changes up to this share of the loss without a model are none; of missing values and rejected records, up to this share of the records."""
    subjects: list[Watched] = Field(
        ["loss", "gain", "importance"],
        min_length=1,
        description=f"What is watched: {', '.join(f'{name} ({what})' for name, what in ABOUT.items())}; segments (the loss in each segment of explainers.by), segment_importance (each importance in each segment).",
    )
    warm_up: int = Field(WARM_UP, ge=BLOCK, le=1_000_000)
    """Records, of a subject, from which only the spread of its values is taken; anew after each of its alarms."""
    baseline: int = Field(BASELINE, ge=BLOCK, le=1_000_000)
    """Records after that before which no change can begin."""
    season: Literal["none", "day", "week", "auto"] = "none"
    """What comes again with the hour of the event time (UTC) is no change: each hour of the day, or of the week, is compared with the same hour before. A subject is watched once two days, or two weeks, are known. auto: by the day after two days, by the week after two weeks."""

    def problems(self) -> Iterator[Problem]:
        yield from twice("subjects", self.subjects)
