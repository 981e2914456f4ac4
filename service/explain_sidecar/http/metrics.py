"""``/metrics``: what the workers report, in Prometheus' text format. No series outlives its partition's ownership."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from explain_core.drift.change import RiskChange
from explain_sidecar.fold.metrics import METRICS, Metrics, Samples
from explain_sidecar.fold.metrics import Metric as Declared
from explain_sidecar.kafka.report import PartitionReport, Report
from explain_sidecar.kafka.totals import Histogram, Phase

PREFIX = "explain_sidecar_"
TOP = 20
"""Features with a series of their own; the importance of the rest is one sum."""

OTHER = "other"


@dataclass(frozen=True, eq=False)
class Workers(Collector):
    """The workers of one machine at one moment, and their metrics.

    ``ends`` has the last stable offset of each partition whose lag is known; ``common`` are labels of every series.
    """

    reports: Sequence[Report]
    owned: Mapping[int, PartitionReport]
    ends: Mapping[int, int]
    importance: bool = False
    restarts: int = 0
    signed: bool = False
    common: Mapping[str, str] = field(default_factory=dict)

    def collect(self) -> Iterator[Metric]:
        for metric in self._families():
            for number, sample in enumerate(metric.samples):
                metric.samples[number] = sample._replace(labels={**self.common, **sample.labels})
            yield metric

    def _families(self) -> Iterator[Metric]:
        for served in SERVED:
            if self.importance or served.name != "importance":
                yield _family(served, served.labels, served.samples(self))
        for metric in METRICS:
            samples = [
                ([str(number), *values], value)
                for number, partition in self.owned.items()
                for values, value in partition.metrics.get(metric.name, ())
            ]
            yield _family(metric, ("partition", *metric.labels), samples)
        steps = HistogramMetricFamily(
            f"{PREFIX}step_seconds",
            "Time to fold one record: predict, explain, learn; in a partition that is replaying or running.",
            labels=("phase",),
        )
        for phase in ("replaying", "running"):
            _add(steps, (phase,), [report.steps[phase] for report in self.reports])
        yield steps
        commits = HistogramMetricFamily(
            f"{PREFIX}commit_seconds", "Time to send the input offsets and commit a transaction.", labels=()
        )
        _add(commits, (), [report.commits for report in self.reports])
        yield commits

    def by_partition(self, of: Callable[[PartitionReport], float | None]) -> Samples:
        """What is known of each partition."""
        values = ((number, of(partition)) for number, partition in self.owned.items())
        return [([str(number)], value) for number, value in values if value is not None]

    def lag(self, partition: PartitionReport) -> int | None:
        if partition.partition not in self.ends or partition.position is None:
            return None
        return max(0, self.ends[partition.partition] - partition.position)

    @property
    def explanations(self) -> list[tuple[str, dict[str, Any]]]:
        """The newest of each partition, by its number."""
        found = self.owned.items()
        return [(str(number), one.explanation) for number, one in found if one.explanation]

    @property
    def drifts(self) -> list[tuple[str, dict[str, Any]]]:
        """The newest drift message of each partition."""
        return [(str(number), one.drift) for number, one in self.owned.items() if one.drift]

    def joins(self, *outcomes: str) -> Samples:
        """The counts of each partition of the join, by their names where there are several."""
        return [
            ([str(join.partition), outcome][: 1 + (len(outcomes) > 1)], join.counts[outcome])
            for report in self.reports
            for join in report.join
            for outcome in outcomes
        ]


SERVED: Metrics[Workers] = Metrics()
"""Those of workers are sums over all of them, those that have ended included."""

declared, by_partition = SERVED.with_labels(), SERVED.with_labels("partition")


@SERVED.with_labels("error_class")
def dead_letters_total(workers: Workers) -> Samples:
    """Records that could not be used and were published as dead letters."""
    return _sums(report.dead_letters for report in workers.reports)


@SERVED.with_labels("outcome")
def transactions_total(workers: Workers) -> Samples:
    """Transactions by outcome; the outputs of an aborted one are sent again."""
    return _sums(report.transactions for report in workers.reports)


@declared
def worker_restarts_total(workers: Workers) -> float:
    """Workers that were killed or could not go on, and were started again."""
    return workers.restarts


@declared
def rebalances_total(workers: Workers) -> float:
    """Rebalances: times that the group assigned partitions to a worker, an empty assignment included."""
    return sum(report.rebalances for report in workers.reports)


@declared
def throttle_seconds_total(workers: Workers) -> float:
    """Time that brokers made the workers' clients wait by their quotas."""
    return sum(report.throttled for report in workers.reports)


@declared
def topic_ids(workers: Workers) -> float:
    """Whether the brokers give topics ids, by which one that was deleted and created again is noticed: 1, or 0."""
    return all(report.topic_ids for report in workers.reports)


@SERVED.with_labels("output", "partition")
def readers_hidden_records(workers: Workers) -> Samples:
    """Offsets of a topic of the sidecar's that an open transaction hides from readers of committed messages, after 25 s."""
    return [
        ([hidden.topic, str(hidden.partition)], hidden.end - hidden.offset)
        for report in workers.reports
        for hidden in report.hidden
    ]


@by_partition
def consumer_lag_records(workers: Workers) -> Samples:
    """Records not yet processed: last stable offset of the records topic minus the position of the fold."""
    return workers.by_partition(workers.lag)


@by_partition
def consumer_lag_seconds(workers: Workers) -> Samples:
    """Age of the newest processed record, by Kafka's time, where there are records after it; else 0."""
    return workers.by_partition(
        lambda one: _age(one.folded_at) if (lag := workers.lag(one)) else None if lag is None else 0.0
    )


@by_partition
def replay_remaining_records(workers: Workers) -> Samples:
    """Offsets left to replay after a restore."""
    return workers.by_partition(lambda one: one.replay_left)


@by_partition
def snapshot_size_bytes(workers: Workers) -> Samples:
    """Compressed size of the last snapshot."""
    return workers.by_partition(lambda one: one.snapshot_bytes)


@by_partition
def snapshot_last_success_timestamp_seconds(workers: Workers) -> Samples:
    """When the last snapshot was committed, seconds since 1970."""
    return workers.by_partition(lambda one: one.snapshot_at or None)


@by_partition
def state_bytes(workers: Workers) -> Samples:
    """Size of the state at the last snapshot, before compression."""
    return workers.by_partition(lambda one: one.state_bytes)


@SERVED.with_labels("partition", "state")
def partition_state(workers: Workers) -> Samples:
    """1 for the state that a partition is in, 0 for the others."""
    return [
        ([str(number), phase], int(partition.phase == phase))
        for number, partition in workers.owned.items()
        for phase in get_args(Phase)
    ]


@SERVED.with_labels("estimator", "evaluator")
def evaluator_info(workers: Workers) -> Samples:
    """How perturbed predictions are computed, by estimator; always 1."""
    evaluators = {
        (name, str(estimator.get("evaluator", "generic")))
        for _, message in workers.explanations
        for name, estimator in message["estimators"].items()
    }
    return [([*labels], 1) for labels in sorted(evaluators)]


@SERVED.with_labels("partition", "estimator", "loss", "feature")
def importance(workers: Workers) -> Samples:
    """Importance of the 20 features that have most, in units of the loss; `other` is the sum of the rest."""
    return [
        ([partition, estimator, loss, feature], value)
        for partition, message in workers.explanations
        for estimator, losses in message["importance"].items()
        for loss, cells in losses.items()
        for feature, value in _top(cells)
    ]


@by_partition
def drift_windows_total(workers: Workers) -> Samples:
    """Windows that have ended in the partition's epoch, up to the last whose change of risk was attributed."""
    return [([partition], message["target"]["number"]) for partition, message in workers.drifts]


@SERVED.with_labels("partition", "cause")
def drift_risk_change(workers: Workers) -> Samples:
    """Change of risk from the window before to the last one, in units of drift.loss, by its causes, whose sum it is."""
    return [
        ([partition, cause], value)
        for partition, message in workers.drifts
        if message["change"] is not None
        for cause, value in _causes(RiskChange.from_dict(message["change"]))
    ]


@by_partition
def join_events_total(workers: Workers) -> Samples:
    """Events that the join has read; those of every outcome and those pending."""
    return workers.joins("events")


@SERVED.with_labels("partition", "outcome")
def join_outcomes_total(workers: Workers) -> Samples:
    """Events by their outcome."""
    return workers.joins("matched", "expired", "dropped")


@by_partition
def join_pending(workers: Workers) -> Samples:
    """Events that wait for their label."""
    return workers.joins("pending")


@SERVED.with_labels("partition", "outcome")
def join_labels_total(workers: Workers) -> Samples:
    """Labels by what became of them."""
    used = ("used", "corrections", "repeated", "replaced", "retracted")
    return workers.joins(*used, "ignored", "unmatched", "bad_labels")


@by_partition
def join_evicted_total(workers: Workers) -> Samples:
    """Events and labels that expired before their time, as more than join.max_pending waited."""
    return workers.joins("evicted")


@by_partition
def join_ahead_seconds(workers: Workers) -> Samples:
    """Event time that a partition is ahead of the slowest one with a backlog, where their records meet; join.max_skew at the most."""
    return [([str(join.partition)], join.ahead_seconds) for report in workers.reports for join in report.join]


@by_partition
def join_restore_remaining_records(workers: Workers) -> Samples:
    """Offsets of the changelog that are left to restore."""
    return [([str(join.partition)], join.restore_left) for report in workers.reports for join in report.join]


@declared
def snapshots_signed(workers: Workers) -> float:
    """Whether snapshots are signed by a key: 1, or 0."""
    return workers.signed


@SERVED.with_labels("version", "python", "river", "numpy", "confluent_kafka")
def build_info(workers: Workers) -> Samples:
    """Versions in use; always 1."""
    used = (version(name) for name in ("river", "numpy", "confluent-kafka"))
    return [([version("explanation-sidecar"), platform.python_version(), *used], 1)]


def exposition(*workers: Any, **others: Any) -> bytes:
    """The text of the metrics of ``Workers``, of which these are the arguments."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Workers(*workers, **others))
    return generate_latest(registry)


def _age(moment: int | None) -> float | None:
    """Seconds since a time in ms since 1970."""
    return None if moment is None else max(0.0, time.time() - moment / 1000)


def _causes(change: RiskChange) -> Iterator[tuple[str, float]]:
    """The parts of a change, which add up to it."""
    joint = change.joint
    yield "concept", joint.concept.value
    if joint.hypothesis:
        yield "hypothesis", joint.hypothesis.value
    yield "inputs", sum(cause.value for cause in joint.inputs)
    if change.learning is not None:
        yield "learning", change.learning.value
    yield "unevaluated", change.unevaluated


def _top(cells: Mapping[str, Mapping[str, float | None]]) -> Iterator[tuple[str, float]]:
    known = sorted(
        ((cell["value"], name) for name, cell in cells.items() if cell["value"] is not None), reverse=True
    )
    rest = known[TOP:]
    for value, name in known[:TOP]:
        if name == OTHER:
            rest.append((value, name))
        else:
            yield name, value
    if rest:
        yield OTHER, sum(value for value, _ in rest)


def _sums(counts: Iterable[Mapping[str, int]]) -> Samples:
    total: Counter[str] = Counter()
    for counted in counts:
        total.update(counted)
    return [([name], count) for name, count in sorted(total.items())]


def _family(metric: Declared[Any], labels: Sequence[str], samples: Samples) -> Metric:
    kind = CounterMetricFamily if metric.name.endswith("_total") else GaugeMetricFamily
    family = kind(PREFIX + metric.name, metric.description, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _add(family: HistogramMetricFamily, labels: tuple[str, ...], parts: list[Histogram]) -> None:
    if not parts:
        return
    counts = [sum(column) for column in zip(*(part.counts for part in parts), strict=True)]
    below, buckets = 0, []
    for bound, count in zip((*map(str, parts[0].bounds), "+Inf"), counts, strict=True):
        below += count
        buckets.append((bound, below))
    family.add_metric(labels, buckets, sum(part.seconds for part in parts))
