"""The metrics of a partition: each is declared only here; every worker reports and every ``/metrics`` serves what is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the supervisor, which serves the metrics, has no model and nothing that explains one
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


def _smoothed_losses(state: PartitionState) -> Samples:
    return list(_each_loss(state))


def _each_loss(state: PartitionState) -> Iterator[tuple[list[str], float]]:
    for version, explained in state.models.items():
        for loss in explained.performance.losses:
            values = explained.performance.of(loss.name)
            for predictor, value in zip(("model", "empty", "mean_prediction"), values, strict=True):
                if value is not None:
                    yield [loss.name, predictor, version], value
            if explained.served is not None:
                yield [loss.name, "served", version], explained.served.performance.of(loss.name)[0]
    for version, challenger in state.challengers.items():
        performance = challenger.explained.performance
        for loss in performance.losses:
            yield [loss.name, "challenger", version], performance.of(loss.name)[0]


def _weights(state: PartitionState) -> Samples:
    from explain_sidecar.fold.contents import weights

    found = map(weights, state.models.values())
    return [([member], weight) for weights in found for member, weight in weights.items()]


def _differences(state: PartitionState) -> Samples:
    return [
        ([loss, of, version], value)
        for version, challenger in state.challengers.items()
        for loss, interval in challenger.intervals().items()
        for of, value in (("mean", interval.value), ("low", interval.low), ("high", interval.high))
        if value is not None
    ]


def _served(state: PartitionState) -> list[tuple[str, Served]]:
    return [
        (version, explained.served)
        for version, explained in state.models.items()
        if explained.served is not None and explained.served.tolerance is not None
    ]


def _alarm_floors(state: PartitionState) -> Samples:
    return [
        ([subject.kind, subject.loss or "", version], floor)
        for version, alarms in state.watches.items()
        for subject, floor in alarms.floors().items()
        if subject.kind in ("loss", "gain", "rejected")
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
        "skipped_records",
        "gauge",
        "Records of this epoch that record.where does not mean, and deletes.",
        lambda state: state.skipped,
    ),
    PartitionMetric(
        "smoothed_loss",
        "gauge",
        "Smoothed prequential loss of the model, and of two that know no feature: the labels' frequencies (empty) and the mean prediction; and of a challenger.",
        _smoothed_losses,
        labels=("loss", "model", "version"),
    ),
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
    PartitionMetric(
        "challenger_loss_difference",
        "gauge",
        "Mean of the challenger's loss minus the model's, and the ends (low, high) of its interval, which holds however often you look.",
        _differences,
        labels=("loss", "of", "version"),
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
        "Smallest lasting change of a loss, of the gain over no model, or of the share of rejected records that an alarm could notice now.",
        _alarm_floors,
        labels=("subject", "loss", "version"),
    ),
]
