"""The first five minutes: what ``explain-sidecar demo`` says, without a terminal, and when it is interrupted."""

import os
import re
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from explain_sidecar.broker.embedded import Broker
from explain_sidecar.demo.flights import ORIGINS
from tests.broker.harness import Factory, Process


def test_the_demo_names_its_steps_serves_the_dashboard_and_ends_with_its_summary_on_ctrl_c(
    broker: Broker, pipeline: Factory
) -> None:
    line = pipeline(1)
    demo = Process(
        ["-m", "explain_sidecar.cli", "demo", "--limit", "30000"],
        {"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers, "PYTHONUNBUFFERED": "1"},
    )
    line.wait_for(lambda: "first explanation" in demo.log() or not demo.running(), 120)
    found = re.search(r"dashboard on (http://\S+)", demo.log())
    assert found, demo.log()
    with urllib.request.urlopen(found.group(1), timeout=10) as page:
        assert b"Explanation sidecar" in page.read()
    demo.signal(signal.SIGINT)
    assert demo.wait() == 130, demo.log()
    output = demo.log()
    steps = re.findall(r"^ +[\d.]+ s  (.*)$", output, re.MULTILINE)
    for step in (
        "30,000 flights of 2013",
        "fed to topic flights",
        "sidecar started",
        "dashboard on",
        "first explanation",
    ):
        assert any(printed.startswith(step) for printed in steps), (step, output)
    assert re.match(r"[\d,]+ flights folded, [\d,]+ explanations$", steps[-1])
    assert "of the year, in which it is better than no model by" in output or "drives" in output
    assert re.findall(r"^  explain-sidecar (\w+)", output, re.MULTILINE) == ["check", "run", "tail"]
    assert "\x1b" not in output and "Traceback" not in output


def descendants(pid: int) -> set[int]:
    """The processes that this one started, and theirs (Linux)."""
    try:
        found = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except FileNotFoundError:
        return set()
    return found.union(*map(descendants, found))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 130), (signal.SIGHUP, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_the_broker_and_the_sidecar_end_with_the_demo(number: signal.Signals, status: int) -> None:
    demo = Process(
        ["-m", "explain_sidecar.cli", "demo", "--follow", "--limit", "3000"], {"PYTHONUNBUFFERED": "1"}
    )
    deadline = time.monotonic() + 200
    while "first explanation" not in demo.log():
        assert demo.running() and time.monotonic() < deadline, demo.log()
        time.sleep(0.1)
    started = {pid for pid in descendants(demo.pid) if is_alive(pid)}
    # A keeper of the broker and one of the sidecar, the broker, the supervisor, a worker for each airport; the compiler where it still runs.
    assert len(started) >= 4 + len(ORIGINS)
    os.kill(demo.pid, number)
    assert demo.wait() == status, demo.log()
    deadline = time.monotonic() + 60
    while left := [pid for pid in started if is_alive(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
    assert "Traceback" not in demo.log()
