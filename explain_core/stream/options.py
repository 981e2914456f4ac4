"""What a ``StreamExplainer`` is made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

from explain_core.alarms import BASELINE, WARM_UP, seasons
from explain_core.factorisations import Factorisation, groups_of
from explain_core.periods import ALARM, ALL, CALENDAR
from explain_core.reasons.result import Space

SUBJECTS = (
    "loss",
    "gain",
    "estimated_loss",
    "importance",
    "missing",
    "rejected",
    "segments",
    "segment_importance",
)
"""What alarms can watch."""


def _whole(options: Any, least: int, *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name}: {value!r:.40} is not a whole number from {least} on")


def _known(name: str, value: Any, known: Collection[str]) -> None:
    if value not in known:
        raise ValueError(f"{name}: {value!r:.40} is not one of {', '.join(known)}")


def _several(name: str, values: Any) -> None:
    if isinstance(values, str):
        raise ValueError(f"{name}: {values!r:.40} is one string; pass a list of names")


@dataclass(frozen=True, kw_only=True)
class Explainer:
    """One estimator of feature importance.

    ====================  ======================================================================================
    ``kind``              ``ipfi``, ``isage``, or an ``IncrementalEstimator`` as ``module:Class``
    ``name``              by default the kind
    ``losses``            names of losses; by default cross_entropy, in a regression squared
    ``alpha``             smoothing parameter, in (0, 1]; ``alpha_of(records)`` has that of a window
    ``n_samples``         draws per copy; by default 5 (iPFI), 10 or two in product form (iSAGE)
    ``groups``            features that are perturbed together, by name of the group
    ``by``, ``segments``  a feature for whose first so many values performance and importance are also kept apart
    ``rows``, ``reservoir``  size and kind of the reservoir; one of each kind and size is shared
    ``band``, ``confidence``  of the bands
    ``params``            further arguments of the estimator's class
    ====================  ======================================================================================
    """

    kind: str = "ipfi"
    name: str = ""
    losses: Sequence[str] | None = None
    alpha: float = 0.001
    n_samples: int | None = None
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by: str | None = None
    segments: int = 20
    rows: int = 100
    reservoir: Literal["geometric", "uniform"] = "geometric"
    band: Literal["normal", "chebyshev"] = "normal"
    confidence: float = 0.95
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _several("losses", self.losses)


@dataclass(frozen=True, kw_only=True)
class Alarming:
    """What alarms watch, and how: see ``explain_core.alarms.detector.ChangeDetector``.

    ====================  ======================================================================================
    ``subjects``          of loss, gain, estimated_loss (with ``Options.estimates``), importance, ``explain_core.stream.alarms.OF_RECORDS``, segments, segment_importance
    ``one_in``            records between false alarms, at least, over all subjects together
    ``min_change``        changes up to this share of the loss without a model are none
    ``warm_up``           records of a subject of which only the spread is taken
    ``baseline``          records after that before which no change can begin
    ``season``            none, day, week or auto: what comes again with the hour of the event time is no change
    ====================  ======================================================================================
    """

    subjects: Sequence[str] = ("loss", "gain", "importance")
    one_in: int = 1_000_000
    min_change: float = 0.05
    warm_up: int = WARM_UP
    baseline: int = BASELINE
    season: Literal["none", "day", "week", "auto"] = "none"

    def __post_init__(self) -> None:
        _several("subjects", self.subjects)
        for subject in self.subjects:
            _known("subjects", subject, SUBJECTS)
        _whole(self, 1, "one_in", "warm_up", "baseline")
        _known("season", self.season, seasons.LENGTHS)


@dataclass(frozen=True, kw_only=True)
class Windowing:
    """Windows of records, and how the change of risk between two of them is attributed: see ``explain_core.drift.dbshap``.

    ====================  ======================================================================================
    ``window``            largest number of records in a window
    ``period``            windows also end when the event time passes a multiple of so many milliseconds; 0: they do not
    ``on_alarm``          instead of windows: the records before an alarm's onset beside those since
    ``loss``              by default zero_one, in a regression squared
    ``factorisation``     joint, per_feature or groups of features: what the part of the inputs is divided into
    ``max_cells``         cells that are enumerated, at the most; where there are more, cells are sampled
    ``max_samples``       predictions on rows, and on samples, at the most
    ``ignore``            features that are no part of the inputs
    ``bootstrap``         resamples of the rows for the intervals of single features
    ====================  ======================================================================================
    """

    window: int = 5_000
    period: int = 0
    on_alarm: bool = False
    loss: str | None = None
    factorisation: Factorisation = "joint"
    max_cells: int = 100_000
    max_samples: int = 5_000
    ignore: Sequence[str] = ()
    bootstrap: int = 20

    def __post_init__(self) -> None:
        groups_of(self.factorisation, ())
        _several("ignore", self.ignore)
        _whole(self, 2, "window")
        _whole(self, 1, "max_cells", "max_samples")
        _whole(self, 0, "period", "bootstrap")


@dataclass(frozen=True, kw_only=True)
class Comparing:
    """How a challenger is compared with the model: see ``explain_core.comparison``.

    ====================  ======================================================================================
    ``every``             it is explained on each so-manyth of the records that the model is explained on
    ``confidence``        of the intervals of the losses' differences, at all times together
    ``limits``            by loss: a record's difference counts up to ± this
    ``shift_every``       on each so-manyth record ``explain_core.ExplanationShift`` asks which features both use otherwise; None: it does not
    ====================  ======================================================================================
    """

    every: int = 4
    confidence: float = 0.95
    limits: Mapping[str, float] = field(default_factory=dict)
    shift_every: int | None = None

    def __post_init__(self) -> None:
        _whole(self, 1, "every", *[] if self.shift_every is None else ["shift_every"])


@dataclass(frozen=True, kw_only=True)
class Reasoning:
    """How single predictions are explained: see ``explain_core.PredictionExplainer``.

    ====================  ======================================================================================
    ``space``             prediction, or margin: the sums before the link function
    ``most``              predictions for one record where only the model can be asked
    ====================  ======================================================================================
    """

    space: Space = "prediction"
    most: int = 4_096


@dataclass(frozen=True, kw_only=True)
class Following:
    """Which way features move the predictions: see ``explain_core.IncrementalPDP``, which follows the rows of the first explainer's reservoir.

    ====================  ======================================================================================
    ``features``          whose curves are drawn
    ``top``               and of the first explainer's so many most important features, and of those that were among them, as long as they are among twice as many
    ``points``            of a curve
    ``every``             each so-manyth record is asked about
    ``label``             the class whose probability is followed, by default of two classes the one whose name is last; there is none in a regression
    ====================  ======================================================================================
    """

    features: Sequence[str] = ()
    top: int = 0
    points: int = 10
    every: int = 10
    label: Any = None

    def __post_init__(self) -> None:
        _several("features", self.features)
        _whole(self, 0, "top")
        _whole(self, 1, "every")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is kept of a model and its records.

    ====================  ======================================================================================
    ``explainers``        the estimators of importance
    ``every``             each so-manyth record is explained; the model learns from all
    ``warm_up``           rows in the reservoir before explaining starts; by default its size
    ``evaluator``         auto, generic, batch or arrays
    ``features``          those that are explained; by default all
    ``periods``           hour, day, week, alarm, all, or numbers of records
    ``served``            whether records carry the prediction that was served
    ``tolerance``         from which difference on such a prediction counts as another one than the model's, if that does not learn
    ``alarms``            None: nothing is watched
    ``drift``             None: there are no windows
    ``comparing``         how a challenger is compared
    ``following``         which curves of partial dependence there are; None: none
    ``estimates``         the losses of records without a label are estimated: see ``explain_core.LossEstimator``
    ``reasoning``         how ``StreamExplainer.predict`` explains, against the first explainer's reservoir; None: it does not
    ====================  ======================================================================================
    """

    explainers: Sequence[Explainer] = (Explainer(kind="ipfi"), Explainer(kind="isage"))
    every: int = 1
    warm_up: int | None = None
    evaluator: Literal["auto", "generic", "batch", "arrays"] = "auto"
    features: Sequence[str] | None = None
    periods: Sequence[str] = ("1000", "day", "week", "alarm", "all")
    served: bool = False
    tolerance: float = 0.001
    alarms: Alarming | None = None
    drift: Windowing | None = None
    comparing: Comparing = Comparing()
    following: Following | None = None
    estimates: bool = False
    reasoning: Reasoning | None = None

    def __post_init__(self) -> None:
        _whole(self, 1, "every")
        _several("periods", self.periods)
        for period in self.periods:
            if not (isinstance(period, str) and period.isdecimal() and int(period)):
                _known("periods", period, (*CALENDAR, ALARM, ALL, "a number of records such as '1000'"))
        names: set[str] = set()
        for explainer in self.explainers:
            if not isinstance(explainer, Explainer):
                raise ValueError(f"explainers: {explainer!r:.40} is no Explainer; pass Explainer(kind=…)")
            name = explainer.name or explainer.kind
            if name in names:
                raise ValueError(f"explainers: there is more than one {name}; give each a name of its own")
            names.add(name)
