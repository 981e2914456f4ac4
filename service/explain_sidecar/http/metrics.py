"""``/metrics``: what the workers report, in Prometheus' text format. No series outlives its partition's ownership."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from explain_core.drift.change import RiskChange
from explain_sidecar.fold.metrics import METRICS
from explain_sidecar.kafka.report import Buckets, PartitionReport, Report
from explain_sidecar.kafka.totals import Phase

PREFIX = "explain_sidecar_"
TOP = 20
"""Features with a series of their own; the importance of the rest is one sum."""

OTHER = "other"


class Workers(Collector):
    """The metrics of the workers of one machine at one moment.

    ``ends`` has the last stable offset of each partition whose lag is known; ``common`` are labels of every series.
    """

    def __init__(
        self,
        reports: Iterable[Report],
        partitions: Mapping[int, PartitionReport],
        ends: Mapping[int, int],
        importance: bool,
        restarts: int = 0,
        signed: bool = False,
        common: Mapping[str, str] | None = None,
    ) -> None:
        self._signed = signed
        self._common = dict(common or {})
        self._restarts = restarts
        self._reports = list(reports)
        self._partitions = list(partitions.values())
        self._ends = ends
        self._importance = importance

    def collect(self) -> Iterator[Metric]:
        for metric in self._families():
            for number, sample in enumerate(metric.samples):
                metric.samples[number] = sample._replace(labels={**self._common, **sample.labels})
            yield metric

    def _families(self) -> Iterator[Metric]:
        yield from self._per_worker()
        yield from self._per_partition()
        yield from self._from_messages()
        yield from self._per_join()
        yield _family(
            GaugeMetricFamily,
            "snapshots_signed",
            "Whether snapshots are signed by a key: 1, or 0.",
            (),
            [((), int(self._signed))],
        )
        build = {name: version(name) for name in ("river", "numpy", "confluent-kafka")}
        yield _family(
            GaugeMetricFamily,
            "build_info",
            "Versions in use; always 1.",
            ("version", "python", *(name.replace("-", "_") for name in build)),
            [((version("explanation-sidecar"), platform.python_version(), *build.values()), 1)],
        )

    def _per_worker(self) -> Iterator[Metric]:
        """Sums over the workers, those that have ended included."""
        reports = self._reports
        letters, outcomes = (
            _sums(report.dead_letters for report in reports),
            _sums(report.transactions for report in reports),
        )
        yield _family(
            CounterMetricFamily,
            "dead_letters_total",
            "Records that could not be used and were published as dead letters.",
            ("error_class",),
            [((kind,), count) for kind, count in sorted(letters.items())],
        )
        yield _family(
            CounterMetricFamily,
            "transactions_total",
            "Transactions by outcome; the outputs of an aborted one are sent again.",
            ("outcome",),
            [((outcome,), count) for outcome, count in sorted(outcomes.items())],
        )
        yield _family(
            CounterMetricFamily,
            "worker_restarts_total",
            "Workers that were killed or could not go on, and were started again.",
            (),
            [((), self._restarts)],
        )
        yield _family(
            CounterMetricFamily,
            "rebalances_total",
            "Rebalances: times that the group assigned partitions to a worker, an empty assignment included.",
            (),
            [((), sum(report.rebalances for report in reports))],
        )
        yield _family(
            CounterMetricFamily,
            "throttle_seconds_total",
            "Time that brokers made the workers' clients wait by their quotas.",
            (),
            [((), sum(report.throttled for report in reports))],
        )
        yield _family(
            GaugeMetricFamily,
            "topic_ids",
            "Whether the brokers give topics ids, by which one that was deleted and created again is noticed: 1, or 0.",
            (),
            [((), int(all(report.topic_ids for report in reports)))],
        )
        yield _family(
            GaugeMetricFamily,
            "readers_hidden_records",
            "Offsets of a topic of the sidecar's that an open transaction hides from readers of committed messages, after 25 s.",
            ("output", "partition"),
            [
                ((hidden.topic, str(hidden.partition)), hidden.end - hidden.offset)
                for report in reports
                for hidden in report.hidden
            ],
        )
        steps = HistogramMetricFamily(
            f"{PREFIX}step_seconds",
            "Time to fold one record: predict, explain, learn; in a partition that is replaying or running.",
            labels=("phase",),
        )
        for phase in ("replaying", "running"):
            _add(steps, (phase,), [report.steps[phase] for report in reports])
        yield steps
        commits = HistogramMetricFamily(
            f"{PREFIX}commit_seconds", "Time to send the input offsets and commit a transaction.", labels=()
        )
        _add(commits, (), [report.commits for report in reports])
        yield commits

    def _per_join(self) -> Iterator[Metric]:
        """The counts of the join; nothing without a join."""
        joins = [join for report in self._reports for join in report.join]
        families = (
            (CounterMetricFamily, "join_events_total", "Events that the join has read; those of every outcome and those pending.", ("events",)),
            (CounterMetricFamily, "join_outcomes_total", "Events by their outcome.", ("matched", "expired", "dropped")),
            (GaugeMetricFamily, "join_pending", "Events that wait for their label.", ("pending",)),
            (
                CounterMetricFamily,
                "join_labels_total",
                "Labels by what became of them.",
                ("used", "corrections", "repeated", "replaced", "retracted", "ignored", "unmatched", "bad_labels"),
            ),
            (CounterMetricFamily, "join_evicted_total", "Events and labels that expired before their time, as more than join.max_pending waited.", ("evicted",)),
        )  # fmt: skip
        for family, name, text, counted in families:
            by = ("partition",) if len(counted) == 1 else ("partition", "outcome")
            samples = [
                ((str(join.partition), count)[: len(by)], join.counts[count])
                for join in joins
                for count in counted
            ]
            yield _family(family, name, text, by, samples)
        yield _family(
            GaugeMetricFamily,
            "join_ahead_seconds",
            "Event time that a partition is ahead of the slowest one with a backlog, where their records meet; join.max_skew at the most.",
            ("partition",),
            [((str(join.partition),), join.ahead_seconds) for join in joins],
        )
        yield _family(
            GaugeMetricFamily,
            "join_restore_remaining_records",
            "Offsets of the changelog that are left to restore.",
            ("partition",),
            [((str(join.partition),), join.restore_left) for join in joins],
        )

    def _per_partition(self) -> Iterator[Metric]:
        partitions, ends = self._partitions, self._ends

        def gauge(name: str, text: str, values: Iterable[tuple[PartitionReport, float | None]]) -> Metric:
            samples = [
                ((str(partition.partition),), value) for partition, value in values if value is not None
            ]
            return _family(GaugeMetricFamily, name, text, ("partition",), samples)

        for metric in METRICS:
            yield _family(
                CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily,
                metric.name,
                metric.description,
                ("partition", *metric.labels),
                [
                    ((str(partition.partition), *values), value)
                    for partition in partitions
                    for values, value in partition.metrics.get(metric.name, ())
                ],
            )
        behind = [
            (partition, max(0, ends[partition.partition] - partition.position))
            for partition in partitions
            if partition.partition in ends and partition.position is not None
        ]
        yield gauge(
            "consumer_lag_records",
            "Records not yet processed: last stable offset of the records topic minus the position of the fold.",
            behind,
        )
        yield gauge(
            "consumer_lag_seconds",
            "Age of the newest processed record, by Kafka's time, where there are records after it; else 0.",
            [(partition, 0.0 if not lag else _age(partition.folded_at)) for partition, lag in behind],
        )
        yield gauge(
            "replay_remaining_records",
            "Offsets left to replay after a restore.",
            [(partition, partition.replay_left) for partition in partitions],
        )
        yield gauge(
            "snapshot_size_bytes",
            "Compressed size of the last snapshot.",
            [(partition, partition.snapshot_bytes) for partition in partitions],
        )
        yield gauge(
            "snapshot_last_success_timestamp_seconds",
            "When the last snapshot was committed, seconds since 1970.",
            [(partition, partition.snapshot_at or None) for partition in partitions],
        )
        yield gauge(
            "state_bytes",
            "Size of the state at the last snapshot, before compression.",
            [(partition, partition.state_bytes) for partition in partitions],
        )
        yield _family(
            GaugeMetricFamily,
            "partition_state",
            "1 for the state that a partition is in, 0 for the others.",
            ("partition", "state"),
            [
                ((str(partition.partition), phase), int(partition.phase == phase))
                for partition in partitions
                for phase in get_args(Phase)
            ],
        )

    def _from_messages(self) -> Iterator[Metric]:
        """What the newest message of each partition says."""
        newest = [
            (str(partition.partition), partition.explanation)
            for partition in self._partitions
            if partition.explanation
        ]
        evaluators = {
            (name, str(estimator.get("evaluator", "generic")))
            for _, message in newest
            for name, estimator in message["estimators"].items()
        }
        yield _family(
            GaugeMetricFamily,
            "evaluator_info",
            "How perturbed predictions are computed, by estimator; always 1.",
            ("estimator", "evaluator"),
            [(labels, 1) for labels in sorted(evaluators)],
        )
        yield from self._drift()
        if self._importance:
            yield _family(
                GaugeMetricFamily,
                "importance",
                f"Importance of the {TOP} features that have most, in units of the loss; `{OTHER}` is the sum of the rest.",
                ("partition", "estimator", "loss", "feature"),
                [
                    ((partition, estimator, loss, feature), value)
                    for partition, message in newest
                    for estimator, losses in message["importance"].items()
                    for loss, cells in losses.items()
                    for feature, value in _top(cells)
                ],
            )

    def _drift(self) -> Iterator[Metric]:
        """The newest drift window of each partition."""
        newest = [
            (str(partition.partition), partition.drift) for partition in self._partitions if partition.drift
        ]
        yield _family(
            CounterMetricFamily,
            "drift_windows_total",
            "Windows that have ended in the partition's epoch, up to the last whose change of risk was attributed.",
            ("partition",),
            [((partition,), message["target"]["number"]) for partition, message in newest],
        )
        yield _family(
            GaugeMetricFamily,
            "drift_risk_change",
            "Change of risk from the window before to the last one, in units of drift.loss, by its causes, whose sum it is.",
            ("partition", "cause"),
            [
                ((partition, cause), value)
                for partition, message in newest
                if message["change"] is not None
                for cause, value in _causes(RiskChange.from_dict(message["change"]))
            ],
        )


def exposition(
    reports: Iterable[Report],
    partitions: Mapping[int, PartitionReport],
    ends: Mapping[int, int],
    importance: bool = False,
    restarts: int = 0,
    signed: bool = False,
    common: Mapping[str, str] | None = None,
) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Workers(reports, partitions, ends, importance, restarts, signed, common))
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


def _sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for counted in counts:
        for name, count in counted.items():
            total[name] = total.get(name, 0) + count
    return total


def _family(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    text: str,
    labels: tuple[str, ...],
    samples: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    family: Any = kind(PREFIX + name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family  # type: ignore[no-any-return]


def _add(family: HistogramMetricFamily, labels: tuple[str, ...], parts: list[Buckets]) -> None:
    if not parts:
        return
    counts = [sum(column) for column in zip(*(part.counts for part in parts), strict=True)]
    below, buckets = 0, []
    for bound, count in zip((*map(str, parts[0].bounds), "+Inf"), counts, strict=True):
        below += count
        buckets.append((bound, below))
    family.add_metric(labels, buckets, sum(part.seconds for part in parts))
