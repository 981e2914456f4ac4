"""``python -m benchmarks.dashboard``: what the dashboard costs at 50 features × 64 partitions, on a broker and in Chromium.

Prints the server's memory and its time for a message and for an update, and for each view the browser's time from the
click to the first picture and from an event to the picture that shows it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.request import urlopen

import numpy as np
import orjson
from playwright.sync_api import Browser, sync_playwright

from explain_client.chain import chained, genesis
from service.broker.embedded import Broker
from service.http.app import make_app
from service.http.dashboard import Dashboard
from service.http.feed import Feed
from service.http.history import MAX_POINTS
from service.http.server import address, bind, serving
from service.http.views import VIEWS, Page, Selection
from service.kafka.clients import plain_producer
from service.kafka.topics import Topics
from service.settings import load_settings
from service.settings.operation import HttpSettings

VISITS, UPDATES = 3, 6

# When the picture of an update is there: the frame after the one in which its elements were changed.
WATCH = """
window.pictures = [];
addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
  const begun = performance.now() - Number(document.body.dataset.milliseconds ?? 0);
  requestAnimationFrame(() => setTimeout(() => {
    document.body.dataset.pictures = window.pictures.push([begun, performance.now()]);
  }));
}).observe(document.body, { attributeFilter: ["data-milliseconds"] }));
"""


class Writer:
    """The explanations of one sidecar, each partition a chain."""

    def __init__(self, partitions: int, features: int) -> None:
        self._rng = np.random.default_rng(0)
        self._features = features
        self._seq = [0] * partitions
        self._digests = [genesis("benchmark", "records", number, 0, "explanations") for number in range(partitions)]  # fmt: skip

    def next(self, partition: int) -> bytes:
        values = np.sort(self._rng.random(self._features))[::-1] / 10
        cells = {
            f"feature_{n}": {"value": v, "std": 0.01, "low": v - 0.02, "high": v + 0.02}
            for n, v in enumerate(values.tolist())
        }
        seq = self._seq[partition]
        body = orjson.dumps({
            "schema": "explanation/1", "app_id": "benchmark", "topic": "records", "partition": partition, "offset": 100 * seq,
            "timestamp": 1_700_000_000_000 + 1_000 * seq, "id": None, "epoch": 0, "seq": seq, "records": 100 * (seq + 1),
            "explained": 100 * (seq + 1), "rejected": 0, "status": "ready",
            "performance": {"cross_entropy": {"model": 0.4, "empty": 0.6}},
            "importance": {name: {"cross_entropy": cells} for name in ("ipfi", "isage")},
            "estimators": {name: {"alpha": 0.001, "size": 100} for name in ("ipfi", "isage")}, "notices": [],
        })[:-1]  # fmt: skip
        self._seq[partition] += 1
        self._digests[partition] = chained(self._digests[partition], body)
        return body + b',"digest":"' + self._digests[partition].hex().encode() + b'"}'


@contextmanager
def followed(writer: Writer, partitions: int, messages: int) -> Iterator[Dashboard]:
    """A dashboard that has read so many messages of each partition from a broker."""
    with Broker() as broker:
        environment = {
            "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "EXPLAIN_APP_ID": "benchmark",
            "EXPLAIN_HTTP__PORT": "0",
        }
        settings = load_settings(environ=environment)
        topic = settings.topics.explanations
        topics = Topics(settings)
        topics.create_topics([(topic, partitions, {})])
        topics.until_described(topic)
        empty, _ = served(environment, 0)
        producer = plain_producer(settings)
        for _ in range(messages):
            for partition in range(partitions):
                producer.produce(topic, writer.next(partition), partition=partition)
            producer.poll(0)
        producer.flush(60)
        full, seconds = served(environment, partitions * messages)
        print(f"{partitions} partitions × {messages} messages read in {seconds:.1f} s: the server has {full:.1f} MB, "
              f"{full - empty:.1f} MB more than without messages")  # fmt: skip
        site = Dashboard(settings)
        with site.following():
            while not all_read(site.feed, partitions, messages):
                time.sleep(0.05)
            yield site


def served(environment: dict[str, str], messages: int) -> tuple[float, float]:
    """Megabytes of memory of ``explain-sidecar dashboard`` once it has read so many messages, and the seconds until then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "dashboard"],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        where, started = process.stdout.readline().split()[-1], time.monotonic()
        while verified(where) < messages:
            time.sleep(0.1)
        seconds = time.monotonic() - started
        time.sleep(3)
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        assert found is not None
        return int(found.group(1)) / 1024, seconds
    finally:
        process.terminate()
        process.wait(30)


def verified(where: str) -> int:
    """How many messages the dashboard at this address has read."""
    with urlopen(f"{where}events?view=integrity", timeout=60) as answer:
        data = next(line for line in answer if line.startswith(b"data: "))
    return sum(chain["verified"] for chain in orjson.loads(data[6:]).get("chains", ()))


def all_read(feed: Feed, partitions: int, messages: int) -> bool:
    with feed.lock:
        newest = [partition.newest for partition in feed.partitions.values()]
    return len(newest) == partitions and all(
        explanation is not None and explanation.seq == messages - 1 for explanation in newest
    )


def look(browser: Browser, where: str, view: str, feed: Feed, writer: Writer) -> tuple[float, list[float]]:
    """Seconds to the first picture of a view, and milliseconds of the updates after it."""
    tab = browser.new_page()
    tab.add_init_script(WATCH)
    tab.goto(f"{where}#view={view}")
    tab.wait_for_selector("body[data-pictures='1']")
    first = float(tab.evaluate("window.pictures[0][1]")) / 1e3
    for step in range(UPDATES):
        with feed.lock:
            for partition in feed.partitions:
                feed.explanation(partition, writer.next(partition))
            feed.version += 1
        tab.wait_for_selector(f"body[data-pictures='{step + 2}']")
    spans = tab.evaluate("window.pictures.slice(1).map(([begun, ended]) => ended - begun)")
    tab.close()
    return first, spans


def main(partitions: int, features: int, messages: int) -> None:
    writer = Writer(partitions, features)
    with followed(writer, partitions, messages) as site:
        for view in VIEWS:
            page = Page(site.feed, Selection(view=view))
            sizes, times = [len(orjson.dumps(page.next()))], []
            for _ in range(9):
                begun = time.perf_counter()
                sizes.append(len(orjson.dumps(page.next())))
                times.append(time.perf_counter() - begun)
            print(f"server, {view}: {1e3 * median(times):.1f} ms an update; {sizes[0]:,} bytes at first, then {sizes[-1]:,}")  # fmt: skip
        http = HttpSettings(port=0)
        sock = bind(http)
        with serving(make_app(http, site.routes), sock), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])  # fmt: skip
            for view in VIEWS:
                # Each tab is one of its own, with nothing in its cache.
                visits = [look(browser, address(sock), view, site.feed, writer) for _ in range(VISITS)]
                firsts, updates = (
                    [first for first, _ in visits],
                    [span for _, spans in visits for span in spans],
                )
                print(f"browser, {view}: {median(firsts):.2f} s to the first picture ({max(firsts):.2f} at the most), "
                      f"{median(updates):.0f} ms an update ({max(updates):.0f} at the most)")  # fmt: skip
            browser.close()
            site.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--messages", type=int, default=MAX_POINTS - 1, help="of each partition")
    arguments = parser.parse_args()
    main(arguments.partitions, arguments.features, arguments.messages)
