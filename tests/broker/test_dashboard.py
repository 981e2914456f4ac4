"""The dashboard in a real browser, on a real broker."""

import http.client
import json
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, sync_playwright

from benchmarks.browser import launch
from explain_sidecar.http.views import VIEWS
from tests.broker.harness import Factory, Pipeline, Process
from tests.browser import HOSTILE, Visit


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = launch(playwright)
        yield launched
        launched.close()


class Dashboard(Process):
    """``explain-sidecar dashboard`` with its address."""

    def __init__(self, line: Pipeline, port: int = 0) -> None:
        super().__init__(
            ["-m", "explain_sidecar.cli", "dashboard"], {**line.environment, "EXPLAIN_HTTP__PORT": str(port)}
        )
        line.wait_for(lambda: "dashboard on http://" in self.log() or not self.running())
        found = re.search(r"http://\S+", self.log())
        assert found, self.log()
        self.address = found.group()


def feed(line: Pipeline, count: int, start: int = 0) -> None:
    """Records whose label is the sign of the hostile feature; every 40th is bad."""
    line.feed(
        (
            i % line.partitions,
            b"{"
            if i % 40 == 39
            else json.dumps({HOSTILE: (i * 7 % 11) - 5, "b": i % 3, "label": int(i * 7 % 11 > 5)}).encode(),
        )
        for i in range(start, start + count)
    )


def feed_to(line: Pipeline, output: str, value: bytes) -> None:
    """Somebody else's message on an output topic."""
    producer = Producer({"bootstrap.servers": line.broker.bootstrap_servers})
    producer.produce(line.topics[output], value, partition=0)
    assert producer.flush(30) == 0


def test_the_page_shows_what_the_topic_says_follows_it_and_survives_a_restart_of_its_server(
    pipeline: Factory, browser: Browser
) -> None:
    line = pipeline(2)
    feed(line, 400)
    line.run_to_end()
    server = Dashboard(line)
    visit = Visit(browser, server.address, "view=importance")
    page = visit.page

    def same() -> bool:
        """Whether the page has the values, whose bands are not settled, of partition 0's newest message, as far as it shows digits."""
        rows = page.locator("#features tbody tr").all()
        texts = {row.locator("th").inner_text(): row.locator("td.number").inner_text() for row in rows}
        last = [explanation for explanation in line.explanations() if explanation["partition"] == 0][-1][
            "importance"
        ]["ipfi"]["cross_entropy"]
        found = {name: float(text.replace("−", "-")) for name, text in texts.items() if text != "–"}
        return found == {name: pytest.approx(cell["value"], abs=5.1e-4) for name, cell in last.items()}

    line.wait_for(same)
    first = page.locator("#features").inner_text()
    assert page.locator("#sentence").inner_text().startswith("It is too early to say what drives the model")
    page.wait_for_selector("#importance-chart canvas")
    assert page.title() != "owned" and page.locator("img").count() == 0

    feed(line, 200, start=400)
    line.run_to_end()
    line.wait_for(same)
    second = page.locator("#features").inner_text()
    assert second != first
    assert server.stop() == 0
    assert visit.complaints == []
    page.wait_for_selector("#problem:not([hidden])")
    feed(line, 200, start=600)
    line.run_to_end()
    server = Dashboard(line, port=urlsplit(server.address).port or 0)
    line.wait_for(same)
    assert page.locator("#features").inner_text() not in (first, second)
    page.wait_for_selector("#problem", state="hidden")
    origin = server.address.rstrip("/")
    assert [url for url in visit.requests if not url.startswith(origin)] == []
    visit.page.close()
    assert server.stop() == 0, server.log()


def test_before_there_is_anything_to_show_the_page_says_so_and_then_begins(
    pipeline: Factory, browser: Browser
) -> None:
    line = pipeline(1)
    server = Dashboard(line)
    page = browser.new_page()
    page.goto(server.address)
    page.wait_for_selector("#problem:not([hidden])")
    assert page.locator("#sentence").inner_text().startswith("No explanation yet")
    assert "there is no topic" in page.locator("#problem").inner_text()
    feed(line, 100)
    line.run_to_end()
    page.wait_for_selector("#multiples td")
    page.close()
    assert server.stop() == 0


def test_foreign_messages_and_times_that_are_no_dates_are_said_and_the_page_goes_on(
    pipeline: Factory, browser: Browser
) -> None:
    line = pipeline(1, EXPLAIN_RECORD__TIMESTAMP="ts")

    def feed_times(count: int, first: int) -> None:
        line.feed(
            (0, json.dumps({"a": i % 7, "label": int(i % 7 > 3), "ts": first + i}).encode())
            for i in range(count)
        )
        line.run_to_end()

    feed_times(200, 1_700_000_000_000)
    server = Dashboard(line)
    visit = Visit(browser, server.address, "view=integrity")
    page = visit.page
    chain = page.locator("#chains td").first
    line.wait_for(lambda: chain.inner_text() == "20")
    good = {name: value for name, value in line.explanations()[-1].items() if name != "app_id"}
    for foreign in ({"seq": "x"}, {"epoch": None}, {"timestamp": "now"}, {"estimators": {"a": 1}}):
        feed_to(line, "explanations", json.dumps(good | foreign).encode())
    feed_to(line, "explanations", b"\xff\x00")
    line.wait_for(lambda: page.locator("#foreign td").nth(1).inner_text() == "5")
    assert "5 messages of the output topics cannot be read" in page.locator("#problem").inner_text()
    feed_times(200, 1_700_000_000_000_000_000)  # nanoseconds
    line.wait_for(lambda: chain.inner_text() == "40")
    assert page.locator("#chains td").nth(1).inner_text() == "whole"
    for view in VIEWS:
        page.click(f"#views a[data-view={view}]")
        page.wait_for_selector(f"#{view}:not([hidden]) h2")
        line.wait_for(lambda: "is no date" in page.locator("#state").inner_text())
    updates = page.evaluate("Number(document.body.dataset.updates)")
    feed_times(50, 1_700_000_000_000)
    line.wait_for(lambda: page.evaluate("Number(document.body.dataset.updates)") > updates)
    line.wait_for(lambda: "is no date" not in page.locator("#state").inner_text())
    visit.end()
    assert server.stop() == 0, server.log()
    assert "Traceback" not in server.log()


def test_predictions_of_the_topic_are_looked_up_by_their_id(pipeline: Factory) -> None:
    line = pipeline(2, EXPLAIN_PREDICTIONS__ENABLED="true", EXPLAIN_RECORD__ID="id")
    line.feed(
        (i % 2, json.dumps({"b": i % 3, "id": f"r{i}", "label": i % 3 > 1}).encode()) for i in range(100)
    )
    line.run_to_end()
    server = Dashboard(line)

    def found() -> dict[str, Any]:
        try:
            with urlopen(f"{server.address}api/predictions?id=r75", timeout=30) as answer:
                return dict(json.load(answer))
        except HTTPError as refused:
            assert refused.code == 404
            return {}

    line.wait_for(lambda: bool(found()))
    (one,) = found()["predictions"]
    assert (one["id"], one["partition"], one["offset"]) == ("r75", 1, 37) and one["sentence"]
    assert server.stop() == 0, server.log()


def test_ten_open_streams_do_not_hold_up_a_stop_of_run(pipeline: Factory) -> None:
    line = pipeline(1, EXPLAIN_HTTP__ENABLED="true", EXPLAIN_HTTP__PORT="0")
    feed(line, 60)
    sidecar = Process(["-m", "explain_sidecar.cli", "run"], line.environment)
    line.wait_for(lambda: "the dashboard on http://" in sidecar.log())
    where = urlsplit(re.search(r"http://\S+", sidecar.log()).group())  # type: ignore[union-attr]
    streams = [http.client.HTTPConnection(where.hostname or "", where.port, timeout=60) for _ in range(10)]
    answers = []
    for stream in streams:
        stream.request("GET", "/events")
        answers.append(stream.getresponse())
    assert all(answer.readline() == b"retry: 1000\n" for answer in answers)
    line.wait_for(lambda: "running from" in sidecar.log())
    assert sidecar.stop() == 0, sidecar.log()
    assert all(answer.read() is not None for answer in answers)  # each of them has ended


def test_a_taken_port_is_one_message(pipeline: Factory) -> None:
    line = pipeline(1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for command in ("dashboard", "run"):
            done = line.cli(command, status=1, EXPLAIN_HTTP__PORT=str(port), EXPLAIN_HTTP__ENABLED="true")
            assert (
                f"error: http.port: cannot serve on 127.0.0.1:{port}: Address already in use" in done.stderr
            )
