"""The sections on changes: drift attribution and alarms."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from explain_client.alarm_words import ABOUT, SubjectKind
from explain_core.alarms import BASELINE, BLOCK, WARM_UP
from explain_core.factorisations import FACTORISATIONS, FactorisationName
from explain_sidecar.settings.base import Part, Section, duplicates
from explain_sidecar.settings.explain import LossName, group_problems
from explain_sidecar.settings.sources import refuse


class DriftSettings(Section):
    """Attribution of the change of risk between consecutive windows."""

    part = Part("drift")

    enabled: bool = Field(False, description="Publish why the risk changed from each window to the next.")
    window: int = Field(5_000, ge=10, le=1_000_000, description="Largest number of records in a window.")
    period: float | None = Field(
        None,
        ge=0.001,
        description="Windows also end when the event time passes a multiple of this many seconds.",
    )
    on_alarm: bool = Field(
        False,
        description="Instead of windows: publish why what an alarm is about changed, from the up to window records before its onset and those since, once these are a quarter of a window.",
    )
    loss: LossName | None = Field(
        None, description="Loss whose change is attributed; by default zero_one, in a regression squared."
    )
    factorisation: FactorisationName = Field(
        "joint", description=" ".join(f"{name}: {known.words}" for name, known in FACTORISATIONS.items())
    )
    groups: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Split by these groups of features; features in no group stand alone.",
    )
    ignore: list[str] = Field(
        default_factory=list,
        description="Features that are no part of the inputs, such as a weekday, which tells windows apart whatever changes; the model still sees them.",
    )
    bootstrap: int = Field(20, ge=2, description="Resamples for the intervals of single features.")
    max_cells: int = Field(100_000, ge=1, description="Largest number of cells for the exact computation.")
    max_samples: int = Field(
        5_000,
        ge=100,
        description="Largest number of predictions per attribution; of longer windows a random part is evaluated.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> DriftSettings:
        problems = group_problems(self.groups)
        problems += [
            (("ignore",), f"{name!r} is there twice; take one out") for name in duplicates(self.ignore)
        ]
        problems += [
            (("groups", group), f"{name!r} is in drift.ignore too; take it out of one of them")
            for group, names in self.groups.items()
            for name in names
            if name in self.ignore
        ]
        if self.on_alarm and not self.enabled:
            problems.append((("on_alarm",), "is true and drift.enabled is false; set that too"))
        if self.on_alarm and self.period is not None:
            problems.append(
                (("period",), "ends windows, and with drift.on_alarm there are none; take one of them out")
            )
        refuse(problems)
        return self


Watched = Literal[SubjectKind, "segments", "segment_importance"]


class AlarmSettings(Section):
    """Alarms where a loss or an importance changed, with a stated rate of false ones."""

    part = Part("alarms")

    enabled: bool = Field(
        False, description="Publish when a mean changed: of the losses, of the increments of each importance."
    )
    one_in: int = Field(
        1_000_000,
        ge=1_000,
        description="Records between false alarms, at least, over all subjects of a partition together.",
    )
    min_change: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Changes up to this share of the loss without a model are none; of missing values and rejected records, up to this share of the records.",
    )
    subjects: list[Watched] = Field(
        ["loss", "gain", "importance"],
        min_length=1,
        description=f"What is watched: {', '.join(f'{name} ({what})' for name, what in ABOUT.items())}; segments (the loss in each segment of explainers.by), segment_importance (each importance in each segment).",
    )
    warm_up: int = Field(
        WARM_UP,
        ge=BLOCK,
        le=1_000_000,
        description="Records, of a subject, from which only the spread of its values is taken; anew after each of its alarms.",
    )
    baseline: int = Field(
        BASELINE,
        ge=BLOCK,
        le=1_000_000,
        description="Records after that before which no change can begin.",
    )
    season: Literal["none", "day", "week", "auto"] = Field(
        "none",
        description="What comes again with the hour of the event time (UTC) is no change: each hour of the day, or of the week, is compared with the same hour before. A subject is watched once two days, or two weeks, are known. auto: by the day after two days, by the week after two weeks.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> AlarmSettings:
        refuse((("subjects",), f"{name!r} is there twice") for name in duplicates(self.subjects))
        return self
