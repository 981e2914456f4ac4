"""Metrics, health and the guard in front of them, over real HTTP but without a broker."""

import http.client
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.http.metrics import exposition
from explain_sidecar.http.server import bind, serving
from explain_sidecar.http.site import beside_workers
from explain_sidecar.http.workers import WorkerReports
from explain_sidecar.kafka.hidden import Hidden
from explain_sidecar.kafka.report import Report, decode, report_each_second
from explain_sidecar.settings import load_settings
from explain_sidecar.settings.operation import HttpSettings
from tests.reports import partition, report


@contextmanager
def reporting(workers: WorkerReports, number: int) -> Iterator[Any]:
    """What a worker does: write reports to its pipe until it ends."""
    ours, theirs = os.pipe()
    listener = workers.listen(number, ours)

    def tell(message: Report) -> None:
        before = workers._newest.get(number)
        pipe.write(orjson.dumps(message) + b"\n")
        while workers._newest.get(number) is before:
            time.sleep(0.001)

    with os.fdopen(theirs, "wb", 0) as pipe:
        yield tell
    listener.join()


def test_a_partition_never_has_two_owners_and_disappears_with_its_last() -> None:
    workers = WorkerReports(2)
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
    workers = WorkerReports(2)
    assert [waiting.phase for waiting in workers.waiting()] == ["starting", "starting"]
    with reporting(workers, 0) as first, reporting(workers, 1) as second:
        first(report(joined=False))
        second(
            report(replace(partition(3), phase="replaying", replay_left=7), alive_at=time.monotonic() - 500)
        )
        assert [tuple(waiting) for waiting in workers.waiting()] == [
            (0, None, "joining the group", 0),
            (1, 3, "replaying", 7),
        ]
        assert list(workers.stalled(300.0)) == [1] and not workers.stalled(3000.0)
        first(report())
        second(report(partition(3)))
        assert list(workers.waiting()) == [] and not workers.stalled(300.0)
    assert list(workers.waiting()) == [] and not workers.stalled(0.0)  # both have ended


def test_a_process_that_stands_still_owns_nothing_and_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = WorkerReports(1)
    with reporting(workers, 0) as first:
        first(report(partition(3)))
        assert list(workers.waiting()) == []
        first(report(replace(partition(3), phase="waiting", reason="a transaction is open")))
        assert [waiting.phase for waiting in workers.waiting()] == ["waiting: a transaction is open"]
        monkeypatch.setattr("explain_sidecar.http.workers.SILENT_SECONDS", 0.0)
        assert workers.partitions == {}
        assert [tuple(waiting) for waiting in workers.waiting()] == [(0, None, "no report", 0)]


def test_a_worker_that_starts_again_is_waited_for_and_counters_do_not_fall() -> None:
    workers = WorkerReports(1)
    with reporting(workers, 0) as first:
        first(replace(report(partition(3)), rebalances=7))
    workers.restarting(0)
    assert [waiting.phase for waiting in workers.waiting()] == ["starting"]
    assert not workers.stalled(300.0) and workers.partitions == {}
    with reporting(workers, 0) as second:
        second(replace(report(partition(3)), rebalances=1))
        assert list(workers.waiting()) == []
        text = exposition(workers.reports, workers.partitions, {}, restarts=workers.restarts).decode()
        assert "rebalances_total 8.0" in text and "worker_restarts_total 1.0" in text


def test_an_output_whose_readers_stand_still_is_named_and_not_ready() -> None:
    workers = WorkerReports(1)
    stuck = Hidden("explanations", 2, 341, 593, 1_700_000_000.0, "producer 2, epoch 2")
    with reporting(workers, 0) as first:
        first(replace(report(partition(2)), hidden=[stuck]))
        (waiting,) = workers.waiting()
        assert (waiting.worker, waiting.partition) == (0, 2)
        assert (
            waiting.phase == "readers of explanations stand still at offset 341 of 593: producer 2, epoch 2"
        )
        text = exposition(workers.reports, workers.partitions, {}).decode()
        assert 'readers_hidden_records{output="explanations",partition="2"} 252.0' in text


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

    with serving([Route(path, _hello) for path in paths], sock, http_settings) as server:
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


def test_the_server_does_not_import_what_models_and_their_explanation_need() -> None:
    heavy = ("river", "explain_core.engine.trees", "scipy", "pandas", "sklearn")
    code = f"import sys, explain_sidecar.http.site; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
