"""The metrics of a partition: each is declared only here; every worker reports and every ``/metrics`` serves what is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the supervisor, which serves the metrics, has no model and nothing that explains one
    from explain_core.confidence import Interval
    from explain_core.models.empty import Performance
    from explain_core.stream.served import Served
    from explain_sidecar.fold.partition import PartitionState

Samples = list[tuple[list[str], float]]
"""Values, each with those of the metric's own labels."""


@dataclass(frozen=True)
class PartitionMetric:
    """A figure of the committed state of a partition.

    ``name`` follows ``explain_sidecar_``; a counter's ends with ``_total``. ``of`` is called after each commit and must be cheap; with
    ``labels`` besides the partition it gives ``Samples``.
    """

    name: str
    kind: Literal["counter", "gauge"]
    description: str
    of: Callable[[PartitionState], float | Samples]
    labels: tuple[str, ...] = ()


def measure(state: PartitionState) -> dict[str, Samples]:
    """The samples of each metric, by its name."""
    found = ((metric.name, metric.of(state)) for metric in METRICS)
    return {name: value if isinstance(value, list) else [([], value)] for name, value in found}


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
) -> PartitionMetric:
    """``place``: of the model, the empty model and the mean prediction, as ``Performance.of`` gives them."""
    return PartitionMetric(
        name,
        "gauge",
        f"Smoothed prequential loss of {whose}.",
        lambda state: [
            ([loss.name, version], value)
            for version, performance in performances(state)
            for loss in performance.losses
            if (value := performance.of(loss.name)[place]) is not None
        ],
        labels=("loss", "version"),
    )


def _weights(state: PartitionState) -> Samples:
    from explain_sidecar.fold.contents import weights

    found = map(weights, state.models.values())
    return [([member], weight) for weights in found for member, weight in weights.items()]


def _difference(name: str, what: str, of: Callable[[Interval], float | None]) -> PartitionMetric:
    return PartitionMetric(
        f"challenger_loss_difference{name}",
        "gauge",
        f"{what} the challenger's loss minus the model's.",
        lambda state: [
            ([loss, version], value)
            for version, challenger in state.challengers.items()
            for loss, interval in challenger.intervals().items()
            if (value := of(interval)) is not None
        ],
        labels=("loss", "version"),
    )


def _served(state: PartitionState) -> list[tuple[str, Served]]:
    return [
        (version, explained.served)
        for version, explained in state.models.items()
        if explained.served is not None and explained.served.tolerance is not None
    ]


def _floors(state: PartitionState, *kinds: str) -> Samples:
    return [
        ([subject.kind, subject.loss or "", version], floor)
        for version, alarms in state.watches.items()
        for subject, floor in alarms.floors().items()
        if subject.kind in kinds
    ]


METRICS = [
    PartitionMetric(
        "records_total",
        "counter",
        "Records folded in the partition's epoch and committed; a move or restart does not reset it.",
        lambda state: state.records,
    ),
    PartitionMetric(
        "explanations_total",
        "counter",
        "Explanations published in the partition's epoch; a move or restart does not reset it.",
        lambda state: state.chains["explanations"].seq,
    ),
    PartitionMetric(
        "alarms_total",
        "counter",
        "Alarms published in the partition's epoch; a move or restart does not reset it.",
        lambda state: state.chains["alarms"].seq if "alarms" in state.chains else 0,
    ),
    PartitionMetric(
        "evaluator_fallbacks_total",
        "counter",
        "Records of an estimator that its compiled evaluator left to Python, since the worker took the partition.",
        lambda state: sum(explained.evaluator.fallbacks for explained in state.models.values()),
    ),
    PartitionMetric(
        "rejected_recently",
        "gauge",
        "Of the last 1,000 records of the partition those that could not be folded.",
        lambda state: state.rejections.recent,
    ),
    PartitionMetric(
        "skipped_records_total",
        "counter",
        "Records of this epoch that record.where does not mean, and deletes.",
        lambda state: state.skipped,
    ),
    PartitionMetric(
        "unlabelled_records_total",
        "counter",
        "Records of this epoch without a label that were predicted, where record.unlabelled is predict.",
        lambda state: state.stream.unlabelled,
    ),
    _loss("smoothed_loss", "the model", _of_model),
    _loss("smoothed_loss_empty", "the model that knows but the labels' frequencies", _of_model, 1),
    _loss("smoothed_loss_mean_prediction", "the mean prediction", _of_model, 2),
    _loss("smoothed_loss_served", "the served predictions", _of_served),
    _loss("smoothed_loss_challenger", "the challenger", _of_challenger),
    PartitionMetric(
        "drivers",
        "gauge",
        "Features that drive the model by the newest explanation, which names them; 0 where the model is worth nothing for certain, or none stands out.",
        lambda state: [
            ([explainer, loss, version], count)
            for version, explained in state.models.items()
            for (explainer, loss), count in explained.named.items()
            if count is not None
        ],
        labels=("estimator", "loss", "version"),
    ),
    PartitionMetric(
        "model_worse",
        "gauge",
        "Whether the newest explanation found the model worse than no model, so that its importances say nothing: 1 or 0.",
        lambda state: [
            ([version], float(explained.worth.since is not None))
            for version, explained in state.models.items()
        ],
        labels=("version",),
    ),
    PartitionMetric(
        "model_weight",
        "gauge",
        "What each member of a mixture counts for in the model's next prediction; none is no model.",
        _weights,
        labels=("member",),
    ),
    _difference("", "Mean of", lambda interval: interval.value),
    _difference(
        "_low",
        "Low end of the interval, which holds however often you look, of",
        lambda interval: interval.low,
    ),
    _difference(
        "_high",
        "High end of the interval, which holds however often you look, of",
        lambda interval: interval.high,
    ),
    PartitionMetric(
        "predictions_checked_total",
        "counter",
        "Served predictions that were compared with those of the model that does not learn; a version that was closed begins anew.",
        lambda state: [([version], served.checked) for version, served in _served(state)],
        labels=("version",),
    ),
    PartitionMetric(
        "predictions_skewed_total",
        "counter",
        "Those of them that differed by more than record.prediction_tolerance.",
        lambda state: [([version], served.differing) for version, served in _served(state)],
        labels=("version",),
    ),
    PartitionMetric(
        "version_records_total",
        "counter",
        "Records that each open version of the model served; a version that was closed begins anew.",
        lambda state: [([version], explained.records) for version, explained in state.models.items()],
        labels=("version",),
    ),
    PartitionMetric(
        "alarm_floor",
        "gauge",
        "Smallest lasting change of a loss, or of the gain over no model, that an alarm could notice now.",
        lambda state: _floors(state, "loss", "gain"),
        labels=("subject", "loss", "version"),
    ),
    PartitionMetric(
        "alarm_rejected_floor",
        "gauge",
        "Smallest lasting change of the share of rejected records that an alarm could notice now.",
        lambda state: [([version], floor) for (_, _, version), floor in _floors(state, "rejected")],
        labels=("version",),
    ),
]
