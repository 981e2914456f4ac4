"""The metrics of a partition: each is declared only here; every worker reports and every ``/metrics`` serves what is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:  # the supervisor, which serves the metrics, has no model and nothing that explains one
    from explain_core.confidence import Interval
    from explain_core.models.empty import Performance
    from explain_core.stream.served import Served
    from explain_sidecar.fold.partition import PartitionState

Samples = list[tuple[list[str], float]]
"""Values, each with those of the metric's own labels."""

S = TypeVar("S")


@dataclass(frozen=True)
class Metric(Generic[S]):
    """A figure of an S, such as the committed state of a partition.

    ``name`` follows ``explain_sidecar_``; a counter's ends with ``_total``. ``of`` must be cheap; with ``labels`` it gives ``Samples``.
    """

    name: str
    description: str
    of: Callable[[S], float | Samples]
    labels: tuple[str, ...] = ()

    def samples(self, of: S) -> Samples:
        value = self.of(of)
        return value if isinstance(value, list) else [([], value)]


class Metrics(list[Metric[S]]):
    """Those of an S in the order of their declaration."""

    def with_labels(self, *labels: str) -> Callable[[Callable[[S], float | Samples]], None]:
        """Declare a metric by the function that computes it: its name is the function's, its description the docstring."""

        def declare(of: Callable[[S], float | Samples]) -> None:
            self.append(Metric(of.__name__, of.__doc__ or "", of, labels))

        return declare


METRICS: Metrics[PartitionState] = Metrics()
"""Called after each commit."""

declared, by_version = METRICS.with_labels(), METRICS.with_labels("version")


def measure(state: PartitionState) -> dict[str, Samples]:
    """The samples of each metric, by its name."""
    return {metric.name: metric.samples(state) for metric in METRICS}


@declared
def records_total(state: PartitionState) -> float:
    """Records folded in the partition's epoch and committed; a move or restart does not reset it."""
    return state.records


@declared
def explanations_total(state: PartitionState) -> float:
    """Explanations published in the partition's epoch; a move or restart does not reset it."""
    return state.chains["explanations"].seq


@declared
def alarms_total(state: PartitionState) -> float:
    """Alarms published in the partition's epoch; a move or restart does not reset it."""
    return state.chains["alarms"].seq if "alarms" in state.chains else 0


@declared
def evaluator_fallbacks_total(state: PartitionState) -> float:
    """Records of an estimator that its compiled evaluator left to Python, since the worker took the partition."""
    return sum(explained.evaluator.fallbacks for explained in state.models.values())


@declared
def rejected_recently(state: PartitionState) -> float:
    """Of the last 1,000 records of the partition those that could not be folded."""
    return state.rejections.recent


@declared
def skipped_records_total(state: PartitionState) -> float:
    """Records of this epoch that record.where does not mean, and deletes."""
    return state.skipped


@declared
def unlabelled_records_total(state: PartitionState) -> float:
    """Records of this epoch without a label that were predicted, where record.unlabelled is predict."""
    return state.stream.unlabelled


Performances = Iterable[tuple[str, "Performance"]]
"""By version."""


def _of_model(state: PartitionState) -> Performances:
    return ((version, explained.performance) for version, explained in state.models.items())


def _of_served(state: PartitionState) -> Performances:
    found = ((version, explained.served) for version, explained in state.models.items())
    return ((version, served.performance) for version, served in found if served is not None)


def _of_challenger(state: PartitionState) -> Performances:
    return ((version, one.explained.performance) for version, one in state.challengers.items())


def _loss(
    name: str, whose: str, performances: Callable[[PartitionState], Performances], place: int = 0
) -> Metric[PartitionState]:
    """``place``: of the model, the empty model and the mean prediction, as ``Performance.of`` gives them."""
    return Metric(
        name,
        f"Smoothed prequential loss of {whose}.",
        lambda state: [
            ([loss.name, version], value)
            for version, performance in performances(state)
            for loss in performance.losses
            if (value := performance.of(loss.name)[place]) is not None
        ],
        ("loss", "version"),
    )


METRICS += [
    _loss("smoothed_loss", "the model", _of_model),
    _loss("smoothed_loss_empty", "the model that knows but the labels' frequencies", _of_model, 1),
    _loss("smoothed_loss_mean_prediction", "the mean prediction", _of_model, 2),
    _loss("smoothed_loss_served", "the served predictions", _of_served),
    _loss("smoothed_loss_challenger", "the challenger", _of_challenger),
]


@METRICS.with_labels("estimator", "loss", "version")
def drivers(state: PartitionState) -> Samples:
    """Features that drive the model by the newest explanation, which names them; 0 where the model may be worth nothing, or none stands out."""
    return [
        ([explainer, loss, version], count)
        for version, explained in state.models.items()
        for (explainer, loss), count in explained.named.items()
        if count is not None
    ]


@by_version
def model_worse(state: PartitionState) -> Samples:
    """Whether the newest explanation found the model worse than no model, so that its importances say nothing: 1 or 0."""
    models = state.models.items()
    return [([version], float(explained.worth.since is not None)) for version, explained in models]


@METRICS.with_labels("member")
def model_weight(state: PartitionState) -> Samples:
    """What each member of a mixture counts for in the model's next prediction; none is no model."""
    from explain_sidecar.fold.contents import weights

    found = map(weights, state.models.values())
    return [([member], weight) for weights in found for member, weight in weights.items()]


def _difference(name: str, what: str, of: Callable[[Interval], float | None]) -> Metric[PartitionState]:
    return Metric(
        f"challenger_loss_difference{name}",
        f"{what} the challenger's loss minus the model's.",
        lambda state: [
            ([loss, version], value)
            for version, challenger in state.challengers.items()
            for loss, interval in challenger.intervals().items()
            if (value := of(interval)) is not None
        ],
        ("loss", "version"),
    )


_END = "end of the interval, which holds however often you look, of"
METRICS += [
    _difference("", "Mean of", lambda interval: interval.value),
    _difference("_low", f"Low {_END}", lambda interval: interval.low),
    _difference("_high", f"High {_END}", lambda interval: interval.high),
]


def _served(state: PartitionState) -> list[tuple[str, Served]]:
    return [
        (version, explained.served)
        for version, explained in state.models.items()
        if explained.served is not None and explained.served.tolerance is not None
    ]


@by_version
def predictions_checked_total(state: PartitionState) -> Samples:
    """Served predictions that were compared with those of the model that does not learn; a version that was closed begins anew."""
    return [([version], served.checked) for version, served in _served(state)]


@by_version
def predictions_skewed_total(state: PartitionState) -> Samples:
    """Those of them that differed by more than record.prediction_tolerance."""
    return [([version], served.differing) for version, served in _served(state)]


@by_version
def version_records_total(state: PartitionState) -> Samples:
    """Records that each open version of the model served; a version that was closed begins anew."""
    return [([version], explained.records) for version, explained in state.models.items()]


def _floors(state: PartitionState, *kinds: str) -> Samples:
    return [
        ([subject.kind, subject.loss or "", version], floor)
        for version, alarms in state.watches.items()
        for subject, floor in alarms.floors().items()
        if subject.kind in kinds
    ]


@METRICS.with_labels("subject", "loss", "version")
def alarm_floor(state: PartitionState) -> Samples:
    """Smallest lasting change of a loss, or of the gain over no model, that an alarm could notice now."""
    return _floors(state, "loss", "gain")


@by_version
def alarm_rejected_floor(state: PartitionState) -> Samples:
    """Smallest lasting change of the share of rejected records that an alarm could notice now."""
    return [([version], floor) for (_, _, version), floor in _floors(state, "rejected")]
