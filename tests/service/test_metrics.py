"""The metrics that the supervisor serves, from the reports of its workers."""

import random
import re
import time
from collections import Counter
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from explain_core.drift import dbshap
from explain_sidecar.http.metrics import PREFIX, TOP, exposition
from explain_sidecar.kafka.totals import COMMIT_SECONDS, STEP_SECONDS
from tests.reports import complete_exposition, partition, report


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = [sample for family in text_string_to_metric_families(text.decode()) for sample in family.samples]
    keys = [(sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())) for sample in found]
    assert [key for key, count in Counter(keys).items() if count > 1] == []
    return {key: sample.value for key, sample in zip(keys, found, strict=True)}


def test_the_numbers_of_all_workers_are_one_exposition() -> None:
    first, second = report(partition(0)), report(partition(1), dead_letters={"not_json": 1, "null_value": 4})
    merged = samples(exposition([first, second], {0: partition(0), 1: partition(1)}, {0: 100}))
    assert merged["dead_letters_total", frozenset({("error_class", "not_json")})] == 3
    assert merged["dead_letters_total", frozenset({("error_class", "null_value")})] == 4
    assert merged["transactions_total", frozenset({("outcome", "committed")})] == 10
    running = {"phase": "running"}
    below = [
        merged["step_seconds_bucket", frozenset({**running, "le": le}.items())]
        for le in ("0.0001", "0.00025", "0.005", "1.0", "+Inf")
    ]
    assert below == [2, 2, 4, 4, 6]
    assert merged["step_seconds_sum", frozenset(running.items())] == pytest.approx(18.0062)
    assert merged["consumer_lag_records", frozenset({("partition", "0")})] == 10
    assert ("consumer_lag_records", frozenset({("partition", "1")})) not in merged
    assert merged["evaluator_fallbacks_total", frozenset({("partition", "1")})] == 3
    assert merged["rejected_recently", frozenset({("partition", "1")})] == 70
    assert merged["skipped_records_total", frozenset({("partition", "1")})] == 3
    states = {state: merged["partition_state", frozenset({("partition", "1"), ("state", state)})]
              for state in ("waiting", "restoring", "replaying", "running", "held")}  # fmt: skip
    assert states == {"waiting": 0, "restoring": 0, "replaying": 0, "running": 1, "held": 0}


def test_one_worker_whose_brokers_give_topics_no_ids_is_enough_to_say_so() -> None:
    for without, shown in (({}, 1), ({"topic_ids": False}, 0)):
        found = samples(exposition([report(), report(**without)], {}, {}))
        assert found["topic_ids", frozenset()] == shown


def test_fifty_features_of_64_partitions_make_a_bounded_number_of_series() -> None:
    partitions = {number: partition(number, features=50) for number in range(64)}
    everything = [report(*partitions.values())]
    plain = samples(exposition(everything, partitions, dict.fromkeys(partitions, 100)))
    assert (
        len(plain)
        == 64 * (17 + 5 + 2) + 2 * (len(STEP_SECONDS) + 3) + len(COMMIT_SECONDS) + 3 + 1 + 2 + 1 + 2 + 3 + 2
    )
    opted = samples(exposition(everything, partitions, {}, importance=True))
    shown = [dict(labels) for name, labels in opted if name == "importance"]
    assert len(shown) == 64 * 2 * (TOP + 1)
    series = {"partition": "7", "estimator": "ipfi", "loss": "cross_entropy"}
    assert opted["importance", frozenset({**series, "feature": "feature49"}.items())] == 4.9
    assert opted["importance", frozenset({**series, "feature": "other"}.items())] == pytest.approx(
        sum(range(30)) / 10
    )


def test_every_series_says_which_sidecar_it_is_of() -> None:
    common = {"app_id": "churn", "topic": "labelled"}
    everything = samples(exposition([report(partition(0))], {0: partition(0)}, {0: 100}, common=common))
    assert all(common.items() <= dict(labels).items() for _, labels in everything)


def test_the_lag_in_seconds_is_the_age_of_the_newest_record_where_others_wait() -> None:
    now = time.time()
    states = {
        0: replace(partition(0), folded_at=round((now - 60) * 1000)),
        1: replace(partition(1), folded_at=round((now - 60) * 1000)),
        2: replace(partition(2), folded_at=None),
        3: replace(partition(3), folded_at=round((now + 3600) * 1000)),  # another machine's clock
    }
    found = samples(exposition([report(*states.values())], states, {0: 100, 1: 90, 2: 100, 3: 100}))
    seconds = {
        dict(labels)["partition"]: v for (name, labels), v in found.items() if name == "consumer_lag_seconds"
    }
    assert seconds.pop("0") == pytest.approx(60, abs=30)
    assert seconds == {"1": 0.0, "3": 0.0}


def test_a_feature_that_is_named_other_does_not_double_a_series() -> None:
    state = partition(0, features=3)
    assert state.explanation is not None
    for losses in state.explanation["importance"].values():
        losses["cross_entropy"]["other"] = {"value": 9.0, "std": None, "low": None, "high": None}
    found = samples(exposition([report(state)], {0: state}, {}, importance=True))
    assert [value for (name, labels), value in found.items() if ("feature", "other") in labels] == [9.0, 9.0]


def test_the_change_of_the_last_window_is_the_sum_of_its_causes() -> None:
    rng = random.Random(0)
    windows = [[({"x": rng.gauss(mean, 1)}, int(rng.random() < 0.5)) for _ in range(200)] for mean in (0, 1)]
    change = dbshap(
        *windows,
        hypothesis=lambda x: {int(x["x"] > 0): 1.0},
        prequential=([0.4] * 200, [0.6] * 200),
        bootstrap=0,
    )
    drift = {"target": {"number": 7}, "change": change.to_dict()}
    partitions = {
        0: replace(partition(0), drift=drift),
        1: replace(partition(1), drift={**drift, "change": None}),
    }
    found = samples(exposition([], partitions, {}))
    assert found["drift_windows_total", frozenset({("partition", "1")})] == 7
    parts = {
        dict(labels)["cause"]: value for (name, labels), value in found.items() if name == "drift_risk_change"
    }
    assert parts.keys() == {"concept", "inputs", "learning", "unevaluated"}
    assert sum(parts.values()) == pytest.approx(0.2)


def lint(text: bytes) -> list[str]:
    """What breaks Prometheus' rules for metrics; promtool checks the same text in tests/deploy."""
    families = list(text_string_to_metric_families(text.decode()))
    series = Counter(
        (sample.name, *sorted(sample.labels.items())) for family in families for sample in family.samples
    )
    found = [f"{name} twice" for (name, *_), count in series.items() if count > 1]
    for family in families:
        found += [
            f"{family.name} has no {what}"
            for what, value in (("help", family.documentation), ("type", family.type != "unknown"))
            if not value
        ]
        names = {sample.name for sample in family.samples}
        if family.type == "counter" and names != {f"{family.name}_total"}:
            found.append(f"counter {family.name} does not end in _total")
        if family.type == "gauge" and re.search("_(total|count|sum|bucket)$", family.name):
            found.append(f"gauge {family.name} ends as a counter does")
        if not re.fullmatch("[a-z][a-z0-9_]*", family.name) or re.search(
            "_(ms|milliseconds|minutes|kb|mb|percent)(_|$)", family.name
        ):
            found.append(f"{family.name} is not in lower case and base units")
    return list(dict.fromkeys(found))


def test_the_metrics_keep_the_rules_of_prometheus() -> None:
    text = complete_exposition()
    assert lint(text) == []
    assert lint(text + b"x{} 1\nx{} 2\n") == ["x twice", "x has no help", "x has no type"]
    assert lint(b"# HELP lag_ms Lag.\n# TYPE lag_ms gauge\nlag_ms 1\n") == [
        "lag_ms is not in lower case and base units"
    ]
