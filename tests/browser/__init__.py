"""Visits to the dashboard in a real browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from explain_sidecar.fold.records import InputRecord
from explain_sidecar.http.dashboard import Dashboard
from explain_sidecar.http.server import address, bind, serving
from explain_sidecar.settings import Settings
from explain_sidecar.settings.operation import HttpSettings

AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
START = 1_700_000_000_000
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"


@contextmanager
def served(settings: Settings) -> Iterator[tuple[Dashboard, str]]:
    """A dashboard that has read nothing yet, and its address."""
    made, http = Dashboard(settings), HttpSettings(port=0)
    made.feed.problem = None  # as when it is connected
    sock = bind(http)
    with serving(made.routes, sock, http):
        yield made, address(sock)
        made.stop()


def take(site: Dashboard, partition: int, messages: list[Any]) -> None:
    feed = site.feed
    with feed.lock:
        for output in messages:
            if output.destination == "dead_letters":
                feed.letter(partition, InputRecord(0, START, output.key, output.value, output.headers))
            else:
                named = {
                    "explanations": feed.explanation,
                    "drift": feed.change,
                    "alarms": feed.alarm,
                    "predictions": feed.prediction,
                }
                named[output.destination](partition, output.value)
        feed.version += 1


class Visit:
    """A page of the dashboard that has been opened, and everything in it that should not have been."""

    def __init__(self, browser: Browser, where: str, fragment: str = "", **context: Any) -> None:
        self.page: Page = browser.new_page(**context)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on(
            "console",
            lambda entry: self.complaints.append(entry.text) if entry.type in ("error", "warning") else None,
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"{where}#{fragment}")
        self.page.wait_for_selector("body[data-updates]:not([data-waiting])")

    def end(self) -> None:
        """Nothing was complained about, and no text of a topic became an element."""
        assert self.complaints == []
        assert "owned" not in self.page.title() and self.page.locator("img, main b").count() == 0
        self.page.close()
