"""The dashboard in a real browser, on a real broker."""

import json
import re
import socket
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser

from tests.broker.harness import Factory, Pipeline, Process
from tests.browser import HOSTILE, Visit


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
            else json.dumps(
                {HOSTILE: (i * 7 % 11) - 5, "b": i % 3, "id": f"r{i}", "label": int(i * 7 % 11 > 5)}
            ).encode(),
        )
        for i in range(start, start + count)
    )


def test_the_page_says_that_there_is_nothing_shows_what_the_topics_say_follows_them_and_survives_a_restart_of_its_server(
    pipeline: Factory, browser: Browser
) -> None:
    line = pipeline(2, EXPLAIN_PREDICTIONS__ENABLED="true", EXPLAIN_RECORD__ID="id")
    server = Dashboard(line)
    empty = browser.new_page()
    empty.goto(server.address)
    empty.wait_for_selector("#problem:not([hidden])")
    assert empty.locator("#sentence").inner_text().startswith("No explanation yet")
    assert "there is no topic" in empty.locator("#problem").inner_text()
    feed(line, 400)
    line.run_to_end()
    empty.wait_for_selector("#multiples td")
    empty.close()
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
    with urlopen(f"{server.address}api/predictions?id=r75", timeout=30) as answer:
        (one,) = json.load(answer)["predictions"]
    assert (one["id"], one["partition"], one["offset"]) == ("r75", 1, 37) and one["sentence"]

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


def test_a_taken_port_is_one_message(memory: Factory) -> None:
    line = memory(1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for command in ("dashboard", "run"):
            done = line.cli(command, status=1, EXPLAIN_HTTP__PORT=str(port), EXPLAIN_HTTP__ENABLED="true")
            assert (
                f"error: http.port: cannot serve on 127.0.0.1:{port}: Address already in use" in done.stderr
            )
