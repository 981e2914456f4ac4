"""``python -m docs.screenshots``: the pictures of the dashboard in docs/images, from the demo's flights in a real Chromium."""

from __future__ import annotations

import tempfile
from pathlib import Path

import orjson
from playwright.sync_api import Browser, sync_playwright

from benchmarks.browser import launch
from explain_sidecar.demo import EVERY, settings_of
from explain_sidecar.demo.flights import ORIGINS, flights
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.http.dashboard import Dashboard
from explain_sidecar.http.server import address, bind, serving
from explain_sidecar.settings import Settings
from explain_sidecar.settings.operation import HttpSettings

IMAGES = Path(__file__).parent / "images"
PICTURES = {
    "dashboard": ("view=overview", "light", 1100, 1010),
    "dashboard-changes": ("view=changes&partition=1", "light", 1200, 1520),
    "dashboard-importance": ("view=importance&partition=1", "light", 1200, 2240),
    "dashboard-phone": ("view=overview", "dark", 400, 900),
}
"""By the name of the file: what is shown, how it is coloured, and the size of the window."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of("127.0.0.1:1", Path(folder) / "demo.yaml")
    site, http = read_dashboard(settings), HttpSettings(port=0)
    sock = bind(http)
    with serving(site.routes, sock, http), sync_playwright() as playwright:
        browser = launch(playwright)
        for name, (shown, scheme, width, height) in PICTURES.items():
            take(browser, f"{address(sock)}#{shown}", scheme, (width, height), IMAGES / f"{name}.png")
        browser.close()
        site.stop()


def read_dashboard(settings: Settings) -> Dashboard:
    """A dashboard that has read what the sidecar publishes of the flights; there is no broker."""
    site = Dashboard(settings)
    site.feed.problem = None
    states = [PartitionState(settings, number) for number in range(len(ORIGINS))]
    offsets = [0] * len(ORIGINS)
    for record in flights(EVERY):
        number = ORIGINS.index(record["origin"])
        key, value = record["origin"].encode(), orjson.dumps(record)
        for output in states[number].step(InputRecord(offsets[number], 0, key, value)):
            take_in = {
                "explanations": site.feed.explanation,
                "drift": site.feed.change,
                "alarms": site.feed.alarm,
            }
            take_in[output.destination](number, output.value or b"")
        offsets[number] += 1
    for partition in site.feed.partitions.values():
        partition.lag = 0
    return site


def take(browser: Browser, where: str, scheme: str, size: tuple[int, int], file: Path) -> None:
    page = browser.new_page(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page.goto(where)
    page.wait_for_selector("body[data-updates]:not([data-waiting])")
    page.wait_for_timeout(500)  # until what moves has come to rest
    page.screenshot(path=file)
    page.close()


if __name__ == "__main__":
    main()
