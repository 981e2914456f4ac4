"""``python -m benchmarks.dashboard``: what the dashboard costs at 50 features × 64 partitions, in Chromium.

Prints the server's memory and time for a page, and the browser's time to the first picture and for an update.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import time
from pathlib import Path
from statistics import median

import numpy as np
import orjson
from playwright.sync_api import sync_playwright

from service.http.app import make_app
from service.http.dashboard import Dashboard
from service.http.feed import Feed
from service.http.server import address, bind, serving
from service.http.views import VIEWS, Page, Selection
from service.sections import HttpSettings
from service.settings import load_settings


def message(rng: np.random.Generator, partition: int, seq: int, features: int) -> bytes:
    values = np.sort(rng.random(features))[::-1] / 10
    cells = {
        f"feature_{n}": {"value": v, "std": 0.01, "low": v - 0.02, "high": v + 0.02}
        for n, v in enumerate(values.tolist())
    }
    body = {
        "schema": "explanation/1", "app_id": "benchmark", "topic": "records", "partition": partition, "offset": 100 * seq,
        "timestamp": 1_700_000_000_000 + 1_000 * seq, "id": None, "epoch": 0, "seq": seq, "records": 100 * (seq + 1),
        "explained": 100 * (seq + 1), "rejected": 0, "status": "ready",
        "performance": {"cross_entropy": {"model": 0.4, "empty": 0.6}},
        "importance": {name: {"cross_entropy": cells} for name in ("ipfi", "isage")},
        "estimators": {name: {"alpha": 0.001, "size": 100} for name in ("ipfi", "isage")}, "notices": [],
    }  # fmt: skip
    return orjson.dumps(body)[:-1] + b',"digest":"' + b"0" * 32 + b'"}'


def resident() -> float:
    """Megabytes of memory that this process has."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def main(partitions: int, features: int, messages: int) -> None:
    rng = np.random.default_rng(0)
    settings = load_settings(environ={"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"})
    site = Dashboard(settings)
    feed: Feed = site.feed
    before, started = resident(), time.perf_counter()
    for seq in range(messages):
        for partition in range(partitions):
            feed.explanation(partition, message(rng, partition, seq, features))
    spent = time.perf_counter() - started
    print(f"{partitions} partitions × {features} features × {messages} messages: {resident() - before:.1f} MB more, "
          f"{1e6 * spent / messages / partitions:.0f} µs a message, made and taken in")  # fmt: skip
    for view in VIEWS:
        page = Page(feed, Selection(view=view))
        size = len(orjson.dumps(page.next()))
        times = []
        for _ in range(9):
            begun = time.perf_counter()
            size_after = len(orjson.dumps(page.next()))
            times.append(time.perf_counter() - begun)
        print(
            f"server, {view}: {1e3 * median(times):.1f} ms an update; {size:,} bytes at first, then {size_after:,}"
        )
    http = HttpSettings(port=0)
    sock = bind(http)
    with serving(make_app(http, site.routes), sock), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for view in VIEWS:
            tab = browser.new_page()
            begun = time.perf_counter()
            tab.goto(f"{address(sock)}#view={view}")
            tab.wait_for_selector("body[data-updates]")
            painted = time.perf_counter() - begun
            updates = []
            for step in range(6):
                seq = messages + step
                with feed.lock:
                    for partition in range(partitions):
                        feed.explanation(partition, message(rng, partition, seq, features))
                    feed.version += 1
                tab.wait_for_selector(f"body[data-updates='{step + 2}']")
                updates.append(float(tab.evaluate("document.body.dataset.milliseconds")))
            print(
                f"browser, {view}: {painted:.2f} s to the first picture, {median(updates):.1f} ms an update"
            )
            messages += 6
            tab.close()
        browser.close()
        site.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--messages", type=int, default=500)
    arguments = parser.parse_args()
    main(arguments.partitions, arguments.features, arguments.messages)
