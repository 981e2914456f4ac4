"""Metrics, health and the guard in front of them, over real HTTP but without a broker."""

import http.client
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from explain_core.drift import dbshap
from service.errors import SettingsError, UserError
from service.http.app import make_app
from service.http.metrics import PREFIX, TOP, exposition
from service.http.server import bind, serving
from service.http.site import beside_workers
from service.http.workers import Workers
from service.join.entries import Counts
from service.kafka.report import Buckets, JoinReport, PartitionReport, Report, decode, report_each_second
from service.kafka.totals import COMMIT_SECONDS, STEP_SECONDS, Histogram
from service.settings import load_settings
from service.settings.operation import HttpSettings


def message(features: int) -> dict[str, Any]:
    cells = {f"feature{n}": {"value": n / 10, "std": 0.1, "low": 0.0, "high": 1.0} for n in range(features)}
    return {
        "importance": {name: {"cross_entropy": cells} for name in ("ipfi", "isage")},
        "estimators": {name: {"evaluator": "generic"} for name in ("ipfi", "isage")},
    }


def partition(number: int, since: float = 0.0, features: int = 0) -> PartitionReport:
    return PartitionReport(
        partition=number,
        since=since,
        phase="running",
        position=90,
        replay_left=0,
        metrics={
            "records_total": [([], 80)],
            "explanations_total": [([], 8)],
            "rejected_recently": [([], 70)],
            "alarms_total": [([], 2)],
            "skipped_records": [([], 3)],
            "evaluator_fallbacks_total": [([], 3)],
            "smoothed_loss": [
                (["cross_entropy", "model", ""], 0.4),
                (["cross_entropy", "empty", ""], 0.7),
                (["cross_entropy", "mean_prediction", ""], 0.75),
            ],
            "version_records_total": [([""], 80)],
            "predictions_checked_total": [([""], 80)],
            "predictions_skewed_total": [([""], 2)],
        },
        state_bytes=1000,
        snapshot_bytes=100,
        snapshot_at=1.7e9,
        explanation=message(features) if features else None,
        drift=None,
    )


def histogram(bounds: tuple[float, ...], *values: float) -> Buckets:
    made = Histogram(bounds)
    for value in values:
        made.observe(value)
    return Buckets(made.bounds, made.counts, made.seconds)


def report(*partitions: PartitionReport, **changes: Any) -> Report:
    made = Report(
        alive_at=time.monotonic(),
        joined=True,
        rebalances=1,
        transactions={"committed": 5, "aborted": 1},
        dead_letters={"not_json": 2},
        steps={"replaying": histogram(STEP_SECONDS), "running": histogram(STEP_SECONDS, 0.003, 0.0001, 9.0)},
        commits=histogram(COMMIT_SECONDS, 0.02),
        partitions=list(partitions),
    )
    return replace(made, **changes)


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
    assert merged["skipped_records", frozenset({("partition", "1")})] == 3
    states = {state: merged["partition_state", frozenset({("partition", "1"), ("state", state)})]
              for state in ("waiting", "restoring", "replaying", "running", "held")}  # fmt: skip
    assert states == {"waiting": 0, "restoring": 0, "replaying": 0, "running": 1, "held": 0}


def test_fifty_features_of_64_partitions_make_a_bounded_number_of_series() -> None:
    partitions = {number: partition(number, features=50) for number in range(64)}
    everything = [report(*partitions.values())]
    plain = samples(exposition(everything, partitions, dict.fromkeys(partitions, 100)))
    assert (
        len(plain)
        == 64 * (15 + 5 + 2) + 2 * (len(STEP_SECONDS) + 3) + len(COMMIT_SECONDS) + 3 + 1 + 2 + 1 + 2 + 1
    )
    opted = samples(exposition(everything, partitions, {}, importance=True))
    shown = [dict(labels) for name, labels in opted if name == "importance"]
    assert len(shown) == 64 * 2 * (TOP + 1)
    series = {"partition": "7", "estimator": "ipfi", "loss": "cross_entropy"}
    assert opted["importance", frozenset({**series, "feature": "feature49"}.items())] == 4.9
    assert opted["importance", frozenset({**series, "feature": "other"}.items())] == pytest.approx(
        sum(range(30)) / 10
    )


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
    assert found["drift_window", frozenset({("partition", "1")})] == 7
    parts = {
        dict(labels)["cause"]: value for (name, labels), value in found.items() if name == "drift_risk_change"
    }
    assert parts.pop("total") == pytest.approx(0.2)
    assert parts.keys() == {"concept", "inputs", "learning", "unevaluated"}
    assert sum(parts.values()) == pytest.approx(0.2)


def complete_exposition() -> bytes:
    """Every metric there is, of two partitions."""
    partitions = {number: partition(number, features=50) for number in range(2)}
    joins = [JoinReport(0, "running", 0, Counts().by_name())]
    return exposition([report(*partitions.values(), join=joins)], partitions, {0: 100}, importance=True)


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


@contextmanager
def reporting(workers: Workers, number: int) -> Iterator[Any]:
    """What a worker does: write reports to its pipe until it ends."""
    ours, theirs = os.pipe()
    workers.listen(number, ours)
    with os.fdopen(theirs, "wb", 0) as pipe:
        yield lambda message: (pipe.write(orjson.dumps(message) + b"\n"), time.sleep(0.1))


def test_a_partition_never_has_two_owners_and_disappears_with_its_last() -> None:
    workers = Workers(2)
    with reporting(workers, 0) as first, reporting(workers, 1) as second:
        first(report(partition(0, since=1.0), partition(1, since=1.0)))
        second(report(partition(1, since=2.0)))  # the first has not yet reported that it lost it
        assert {number: partition.since for number, partition in workers.partitions.items()} == {
            0: 1.0,
            1: 2.0,
        }
        first(report(partition(0, since=1.0)))
        second(report())
        assert list(workers.partitions) == [0]
        first(report())
        assert workers.partitions == {}
        assert b"partition=" not in exposition(workers.reports, workers.partitions, {})


def test_a_worker_is_stalled_by_the_silence_of_its_loop_and_ready_when_all_it_owns_runs() -> None:
    workers = Workers(2)
    assert [waiting.phase for waiting in workers.waiting()] == ["starting", "starting"]
    with reporting(workers, 0) as first, reporting(workers, 1) as second:
        first(report(joined=False))
        second(report(replace(partition(3), phase="replaying", replay_left=7), alive_at=time.monotonic() - 5))
        assert [tuple(waiting) for waiting in workers.waiting()] == [
            (0, None, "joining the group", 0),
            (1, 3, "replaying", 7),
        ]
        assert list(workers.stalled(3.0)) == [1] and not workers.stalled(30.0)
        first(report())
        second(report(partition(3)))
        assert list(workers.waiting()) == [] and not workers.stalled(3.0)
    time.sleep(0.1)
    assert list(workers.waiting()) == [] and not workers.stalled(0.0)  # both have ended


def test_a_report_that_cannot_be_made_does_not_end_the_reports(caplog: pytest.LogCaptureFixture) -> None:
    moved = threading.Event()
    ours, theirs = os.pipe()
    broken: list[Exception] = [ZeroDivisionError("nothing to report")]
    signs = iter(range(1_000))

    def made(alive_at: float) -> Report:
        if broken:
            raise broken[0]
        return report(partition(7), alive_at=alive_at)

    reporter = threading.Thread(target=report_each_second, args=(made, lambda: next(signs), moved, theirs))
    with os.fdopen(ours, "rb") as lines:
        reporter.start()

        def told() -> Report:
            moved.set()
            return decode(lines.readline())

        first, second = told(), told()
        assert first.partitions == second.partitions == [] and second.alive_at > first.alive_at
        assert caplog.text.count("no report to the supervisor can be made") == 1
        broken.clear()
        while not (good := told()).partitions:
            pass
        broken.append(RuntimeError("dictionary changed size during iteration"))
        while (last := told()).alive_at < good.alive_at + 5:
            assert last.partitions == good.partitions
    moved.set()
    reporter.join(5)
    assert not reporter.is_alive()  # the supervisor is gone
    os.close(theirs)


async def _hello(request: object) -> PlainTextResponse:
    return PlainTextResponse("hello")


@contextmanager
def served(**settings: Any) -> Iterator[Any]:
    http_settings = HttpSettings(port=0, **settings)
    sock = bind(http_settings)
    paths = ("/", "/metrics", "/healthz", "/readyz")
    port = sock.getsockname()[1]

    def get(path: str = "/", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", path, headers={"Host": f"127.0.0.1:{port}", **headers})
        return connection.getresponse()

    with serving(
        make_app(http_settings, [Route(path, _hello) for path in paths]), sock, http_settings
    ) as server:
        while not server.started:
            time.sleep(0.01)
        yield get


def test_only_our_own_names_and_ip_addresses_are_answered() -> None:
    with served(allowed_hosts=["sidecar.internal"]) as get:
        for host in (
            "127.0.0.1:1",
            "localhost",
            "[::1]:80",
            "10.2.3.4",
            "Sidecar.Internal:80",
            socket.gethostname(),
        ):
            assert get(Host=host).status == 200, host
        for host in (
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:80",
            "",
            "[::1",
            "a@127.0.0.1 b",
            "127.0.0.1/healthz?",
            "127.0.0.1#",
        ):
            assert get(Host=host).status in (400, 421), host


def test_every_answer_allows_nothing_foreign() -> None:
    with served() as get:
        for answer in (get(), get("/absent"), get(Host="evil.example")):
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'self';")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "server" not in answer.headers


def test_a_token_is_asked_for_where_it_is_set_but_not_from_probes() -> None:
    with served(token="s3cret") as get:
        assert get().status == get("/metrics").status == 401
        assert get("/metrics", Authorization="Bearer wrong").status == 401
        assert get("/metrics", Authorization="Bearer s3cret").status == 200
        assert get("/healthz").status == get("/readyz").status == 200
        assert get("/?token=wrong").status == 401
        signed_in = get("/?token=s3cret")
        assert (signed_in.status, signed_in.headers["Location"]) == (303, "/")
        cookie = signed_in.headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie
        assert get(Cookie=cookie.partition(";")[0]).status == 200
        assert get(Cookie="explain-sidecar-token=wrong").status == 401


@pytest.mark.parametrize("token", ["", " ", "a b", "€", "ü", "a\n"])
def test_a_token_that_no_request_can_carry_is_refused(token: str) -> None:
    with pytest.raises(SettingsError, match=r"http\.token .*printable ASCII"):
        load_settings(None, {"EXPLAIN_HTTP__TOKEN": token})
    with pytest.raises(ValueError, match="printable ASCII"):
        HttpSettings(token=token)


def test_a_browser_that_signs_in_stays_on_this_server() -> None:
    with served(token="s3cret") as get:
        assert get("//evil.example/x?token=s3cret").headers["Location"] == "/evil.example/x"


def test_a_taken_port_and_a_foreign_address_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            UserError, match=rf"http\.port: .*127\.0\.0\.1:{port}: Address already in use; set"
        ):
            bind(HttpSettings(port=port))
    with pytest.raises(UserError, match=r"192\.0\.2\.1:0: Cannot assign"):
        bind(HttpSettings(host="192.0.2.1", port=0))


def test_open_event_streams_end_in_order_when_the_workers_end_by_themselves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    environment = {"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1", "EXPLAIN_HTTP__PORT": "0"}
    caplog.set_level("INFO")
    with beside_workers(load_settings(environ=environment), 0):
        where = next(found for text in caplog.messages if (found := re.search(r"[\d.]+:\d+", text)))
        connection = http.client.HTTPConnection(where.group(), timeout=10)
        connection.request("GET", "/events")
        stream = connection.getresponse()
        assert stream.readline() == b"retry: 1000\n"
    stream.read()
    connection.close()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_worker_does_not_import_the_server() -> None:
    code = "import sys, service.worker; sys.exit(any(name in sys.modules for name in ('starlette', 'uvicorn', 'prometheus_client')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_server_does_not_import_what_models_and_their_explanation_need() -> None:
    heavy = ("river", "numba", "scipy", "pandas", "sklearn")
    code = f"import sys, service.http.site; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
