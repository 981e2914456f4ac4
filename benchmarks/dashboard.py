"""``python -m benchmarks.dashboard``: what the dashboard costs at 50 features × 64 partitions, on a broker and in Chromium.

Prints the server's memory and its time for a message and for an update, and for each view the browser's time from the
click to the first picture and from an event to the picture that shows it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

import numpy as np
import orjson
from playwright.sync_api import Browser, sync_playwright

from benchmarks.browser import launch
from explain_client.chain import chained, genesis
from explain_core.drift import dbshap
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.http.dashboard import Dashboard
from explain_sidecar.http.feed import Feed
from explain_sidecar.http.history import MAX_POINTS
from explain_sidecar.http.server import address, bind, serving
from explain_sidecar.http.views import VIEWS, Page, ViewSelection
from explain_sidecar.kafka.clients import plain_producer
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import load_settings
from explain_sidecar.settings.operation import HttpSettings

VISITS, UPDATES = 3, 6

MARKS = 10
"""One less than this has each partition alarms, and windows."""

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


HEAD = {"app_id": "benchmark", "topic": "records", "id": None, "keys": None, "epoch": 0}


class Writer:
    """The messages of one sidecar, each partition a chain."""

    def __init__(self, partitions: int, features: int) -> None:
        self._rng = np.random.default_rng(0)
        self._features = features
        self._seq = [0] * partitions
        self._digests = {
            (name, number): genesis("benchmark", "records", number, 0, name)
            for name in ("explanations", "alarms", "drift")
            for number in range(partitions)
        }
        rows = [
            ({f"feature_{n}": int(self._rng.integers(3)) for n in range(features)}, i % 2) for i in range(200)
        ]
        self._change = dbshap(rows[:100], rows[100:], hypothesis=lambda _: {0: 0.5, 1: 0.5}).to_dict()

    def next(self, partition: int) -> bytes:
        seq = self._seq[partition]
        self._seq[partition] += 1
        return self._chained("explanations", partition, HEAD | {
            "schema": "explanation/1", "partition": partition, "offset": 100 * seq,
            "timestamp": moment(seq), "seq": seq, "records": 100 * (seq + 1),
            "explained": 100 * (seq + 1), "rejected": 0, "status": "ready",
            "performance": {"cross_entropy": {"model": 0.4 + 0.1 * self._rng.random(), "empty": 0.6}},
            "importance": {name: {"cross_entropy": self._cells()} for name in ("ipfi", "isage")},
            "estimators": {name: {"alpha": 0.001, "size": 100} for name in ("ipfi", "isage")}, "notices": [],
        })  # fmt: skip

    def _cells(self) -> dict[str, Any]:
        values = np.sort(self._rng.random(self._features))[::-1] / 10
        halves = self._rng.uniform(0.01, 0.03, self._features)
        return {
            f"feature_{n}": {"value": v, "std": half / 2, "low": v - half, "high": v + half, "settled": True}
            for n, (v, half) in enumerate(zip(values.tolist(), halves.tolist(), strict=True))
        }

    def alarm(self, partition: int, seq: int, at: int) -> bytes:
        """An alarm on a feature at so many explanations after the first."""
        side = {"value": 0.01, "low": 0.005, "high": 0.015, "records": 1_000}
        onset = {"offset": 100 * at, "timestamp": moment(at)}
        return self._chained("alarms", partition, HEAD | {
            "schema": "alarm/1", "partition": partition, "offset": 100 * at, "timestamp": moment(at), "seq": seq,
            "subject": "importance", "feature": f"feature_{seq}", "estimator": "ipfi", "loss": "cross_entropy",
            "direction": "up", "before": side, "after": side, "onset": onset, "earliest": onset, "latest": onset,
            "evidence": 1.2, "clipped": 0.0, "cause": seq + 1, "one_in": 1_000_000, "min_change": 0.05, "model": None,
            "sentence": f"feature_{seq} matters more. False alarms: at most one in 1,000,000 records.",
        })  # fmt: skip

    def change(self, partition: int, seq: int, at: int) -> bytes:
        """Why the risk changed in the window that ended at so many explanations after the first."""
        window = {"number": seq, "records": 1_000, "late": 0, "first_offset": 100 * at - 1_000, "last_offset": 100 * at,
                  "first_timestamp": moment(at - 10), "last_timestamp": moment(at)}  # fmt: skip
        return self._chained("drift", partition, HEAD | {
            "schema": "drift/1", "partition": partition, "offset": 100 * at, "timestamp": moment(at), "seq": seq,
            "baseline": window, "target": window, "sentence": "the risk changed", "change": self._change,
        })  # fmt: skip

    def _chained(self, name: str, partition: int, message: dict[str, Any]) -> bytes:
        body = orjson.dumps(message)[:-1]
        digest = chained(self._digests[name, partition], body)
        self._digests[name, partition] = digest
        return body + b',"digest":"' + digest.hex().encode() + b'"}'


def moment(seq: int) -> int:
    return 1_700_000_000_000 + 60_000 * seq


@contextmanager
def followed(writer: Writer, partitions: int, messages: int) -> Iterator[Dashboard]:
    """A dashboard that has read so many messages of each partition from a broker."""
    with Broker() as broker:
        environment = {
            "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "EXPLAIN_APP_ID": "benchmark",
            "EXPLAIN_HTTP__PORT": "0",
            "EXPLAIN_ALARMS__ENABLED": "true",
            "EXPLAIN_DRIFT__ENABLED": "true",
        }
        settings = load_settings(environ=environment)
        topic = settings.topics.explanations
        topics = Topics(settings)
        outputs = (topic, settings.topics.alarms, settings.topics.drift)
        topics.create_topics([(name, partitions, {}) for name in outputs])
        topics.until_described(*outputs)
        empty, _, _ = served(environment, 0)
        producer = plain_producer(settings)
        for _ in range(messages):
            for partition in range(partitions):
                producer.produce(topic, writer.next(partition), partition=partition)
            producer.poll(0)
        for seq, at in enumerate(range(messages // MARKS, messages, messages // MARKS)):
            for partition in range(partitions):
                for name, make in (
                    (settings.topics.alarms, writer.alarm),
                    (settings.topics.drift, writer.change),
                ):
                    producer.produce(name, make(partition, seq, at), partition=partition)
        producer.flush(60)
        marks = len(range(messages // MARKS, messages, messages // MARKS))
        full, own, seconds = served(environment, partitions * (messages + 2 * marks))
        print(f"{partitions} partitions × {messages} messages read in {seconds:.1f} s: the server has {full:.1f} MB, "
              f"of which {full - own:.1f} MB are files such as libraries; {full - empty:.1f} MB more than without messages")  # fmt: skip
        site = Dashboard(settings)
        with site.feed.following():
            while not all_read(site.feed, partitions, messages):
                time.sleep(0.05)
            yield site


def served(environment: dict[str, str], messages: int) -> tuple[float, float, float]:
    """Megabytes of resident memory, in all and without files, of ``explain-sidecar dashboard`` once it has read so many messages, and the seconds until then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "explain_sidecar.cli", "dashboard"],
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
        status = dict(re.findall(r"(\w+):\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text()))
        return int(status["VmRSS"]) / 1024, int(status["RssAnon"]) / 1024, seconds
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
        newest = [partition.shown and partition.shown.newest for partition in feed.partitions.values()]
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
            page = Page(site.feed, ViewSelection(view=view))
            sizes, times = [len(orjson.dumps(page.next()))], []
            for _ in range(9):
                begun = time.perf_counter()
                sizes.append(len(orjson.dumps(page.next())))
                times.append(time.perf_counter() - begun)
            print(f"server, {view}: {1e3 * median(times):.1f} ms an update; {sizes[0]:,} bytes at first, then {sizes[-1]:,}")  # fmt: skip
        http = HttpSettings(port=0)
        sock = bind(http)
        with serving(site.routes, sock, http), sync_playwright() as playwright:
            browser = launch(playwright)
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
