"""Metrics and health of a running sidecar, asked over HTTP, on a real broker."""

import json
import os
import re
import signal
import time
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from explain_sidecar.fold.partition import PartitionState
from tests.broker.harness import Factory, Pipeline, Process, group_of, mixed_records, workers_of

HTTP = {"EXPLAIN_HTTP__ENABLED": "true", "EXPLAIN_HTTP__PORT": "0"}


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


Samples = dict[str, dict[tuple[str, ...], float]]


def by_partition(samples: Samples, name: str) -> dict[int, float]:
    return {int(labels[0]): value for labels, value in samples.get(name, {}).items()}


class Sidecar(Process):
    """``explain-sidecar run`` with its HTTP address."""

    def __init__(self, line: Pipeline, *arguments: str, **environment: str) -> None:
        super().__init__(
            ["-m", "explain_sidecar.cli", "run", *arguments], {**line.environment, **environment}
        )
        self._common = (line.settings.app_id, line.settings.topics.records)
        line.wait_for(lambda: "on http://" in self.log() or not self.running())
        found = re.search(r"http://\S+", self.log())
        assert found, self.log()
        self.address = found.group()

    def ready(self) -> bool:
        return get(self.address + "readyz")[0] == 200

    def samples(self) -> Samples:
        """Values by metric's name and the labels' values, in the order of the labels' names."""
        found: Samples = {}
        for family in text_string_to_metric_families(get(self.address + "metrics")[1]):
            for sample in family.samples:
                of_name = found.setdefault(sample.name.removeprefix("explain_sidecar_"), {})
                assert (sample.labels.pop("app_id"), sample.labels.pop("topic")) == self._common
                of_name[tuple(label for _, label in sorted(sample.labels.items()))] = sample.value
        return found

    def by_partition(self, name: str) -> dict[int, float]:
        return by_partition(self.samples(), name)


def test_metrics_say_what_the_topics_hold_and_follow_a_partition_and_health_fails_while_a_worker_hangs(
    pipeline: Factory,
) -> None:
    """And ten open streams do not hold up a stop."""
    line = pipeline(4, **HTTP, EXPLAIN_RECORD__DELETES="dead_letter", EXPLAIN_HTTP__STALL_SECONDS="5")
    first = Sidecar(line, "--workers", "2")
    # Records that a worker folds before the other one joins may be folded by that one too, and their steps are counted twice.
    line.wait_for(lambda: first.ready() and len(group_of(line).members) == 2)
    line.feed(mixed_records(4, 800, bad_every=20))

    found: Samples = {}

    def complete() -> bool:
        nonlocal found
        found = first.samples()
        counted = sum(sum(found.get(name, {}).values()) for name in ("records_total", "dead_letters_total"))
        # A worker that has not reported for some seconds is not shown.
        return counted == 800 and len(found["records_total"]) == 4 and first.ready()

    # Counted with the commit, after the lag is gone.
    line.wait_for(complete)
    assert by_partition(found, "consumer_lag_records") == dict.fromkeys(range(4), 0.0)
    published = line.published()
    bad = {p: len(messages) for p, messages in published["dead_letters"].items()}
    assert by_partition(found, "records_total") == {p: 200.0 - bad[p] for p in range(4)}
    assert by_partition(found, "explanations_total") == {
        p: float(len(published["explanations"][p])) for p in range(4)
    }
    classes = [
        dict(headers)["__explain.errors.class"]
        for log in published["dead_letters"].values()
        for _, _, headers in log
    ]
    assert found["dead_letters_total"] == {
        (error_class.decode(),): float(classes.count(error_class))
        for error_class in set(classes)
        if error_class
    }
    for p in range(4):
        state = PartitionState(line.settings, p)
        for record in line.inputs[p]:
            state.step(record)
        for which, value in zip(
            ("", "_empty", "_mean_prediction"),
            state.explained.performance.of("cross_entropy"),
            strict=True,
        ):
            assert found[f"smoothed_loss{which}"]["cross_entropy", str(p), ""] == value
        assert found["partition_state"][str(p), "running"] == 1
    assert found["step_seconds_count"]["running",] == 800
    assert found["transactions_total"]["committed",] >= 1  # how many depends on how fast it folds

    second = Sidecar(line, EXPLAIN_INSTANCE_ID="second")
    theirs: dict[int, float] = {}

    def shared() -> bool:
        nonlocal theirs
        ready = second.ready()  # asked first: what it has restored is in the metrics then
        theirs = second.by_partition("records_total")
        ours = first.by_partition("records_total")
        assert not ours.keys() & theirs.keys(), "two owners"
        return bool(theirs) and ours.keys() | theirs.keys() == set(range(4)) and ready

    line.wait_for(shared)
    assert theirs == {p: 200.0 - bad[p] for p in theirs}  # what the state has folded, wherever it is
    assert second.stop() == 0
    line.wait_for(lambda: len(first.by_partition("records_total")) == 4)

    hanging = workers_of(first)[0].pid
    os.kill(hanging, signal.SIGSTOP)
    line.wait_for(lambda: get(first.address + "healthz")[0] == 503)
    assert json.loads(get(first.address + "healthz")[1])["stalled"][0]["worker"] == 0
    os.kill(hanging, signal.SIGCONT)
    line.wait_for(lambda: get(first.address + "healthz")[0] == 200)
    streams = [urllib.request.urlopen(first.address + "events", timeout=60) for _ in range(10)]
    assert all(stream.readline() == b"retry: 1000\n" for stream in streams)
    assert first.stop() == 0, first.log()
    assert all(stream.read() is not None for stream in streams)  # each of them has ended


def test_health_holds_while_kafka_is_away(pipeline: Factory) -> None:
    line = pipeline(2, **HTTP, EXPLAIN_HTTP__STALL_SECONDS="13", EXPLAIN_COMMIT__MAX_RECORDS="20")
    line.feed(mixed_records(2, 5_000))
    sidecar = Sidecar(line)
    line.wait_for(lambda: sum(sidecar.by_partition("records_total").values()) > 0)
    os.kill(line.broker.pid, signal.SIGSTOP)  # in the middle of its work
    try:
        until = time.monotonic() + 16
        while time.monotonic() < until:
            status, body = get(sidecar.address + "healthz")
            assert status == 200, body
            time.sleep(1)
        assert not sidecar.by_partition("consumer_lag_records")  # rather than numbers of long ago
        assert sidecar.by_partition("records_total")
    finally:
        os.kill(line.broker.pid, signal.SIGCONT)
        sidecar.kill()
