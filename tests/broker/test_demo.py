"""The first five minutes: what ``explain-sidecar demo`` says, without a terminal, and when it is interrupted."""

import re
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from explain_sidecar.demo.flights import ORIGINS
from tests.broker.harness import Process
from tests.brokers import wait_for


def demonstrated(what: str, *arguments: str, **environment: str) -> Process:
    """A demo that has come to say this."""
    command = ["-m", "explain_sidecar.cli", "demo", *arguments]
    demo = Process(command, {"PYTHONUNBUFFERED": "1", **environment})
    deadline = time.monotonic() + 200
    while what not in demo.log():
        assert demo.running() and time.monotonic() < deadline, demo.log()
        time.sleep(0.1)
    return demo


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


def ended(demo: Process, number: signal.Signals, status: int) -> str:
    """What a demo has said that a signal ended, and with it the broker, its temporary data and the sidecar."""
    started = {pid for pid in descendants(demo.pid) if is_alive(pid)}
    words = [Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in started]
    (data,) = {Path(word).parent for of_one in words for word in of_one if word.endswith("server.properties")}
    # A keeper of the broker and one of the sidecar, the broker, the supervisor, a worker for each airport; the compiler where it still runs.
    assert len(started) >= 4 + len(ORIGINS)
    demo.signal(number)
    assert demo.wait() == status, demo.log()
    assert wait_for(lambda: not any(map(is_alive, started)) and not data.exists())
    assert "Traceback" not in demo.log()
    return demo.log()


def test_the_demo_names_its_steps_serves_the_dashboard_and_ends_with_its_summary_and_all_that_it_started() -> (
    None
):
    demo = demonstrated("first explanation", "--limit", "30000")
    found = re.search(r"dashboard on (http://\S+)", demo.log())
    assert found, demo.log()
    with urllib.request.urlopen(found.group(1), timeout=10) as page:
        assert b"Explanation sidecar" in page.read()
    output = ended(demo, signal.SIGHUP, 130)
    steps = re.findall(r"^ +[\d.]+ s  (.*)$", output, re.MULTILINE)
    for step in (
        "Apache Kafka answers on",
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
    assert "\x1b" not in output


def test_the_broker_and_the_sidecar_end_with_a_demo_that_is_killed() -> None:
    ended(demonstrated("first explanation", "--follow", "--limit", "3000"), signal.SIGKILL, -signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_ends_in_words_while_it_waits_for_the_broker_that_is_named(number: signal.Signals) -> None:
    demo = demonstrated("flights of 2013", "--limit", "300", EXPLAIN_KAFKA__BOOTSTRAP_SERVERS="127.0.0.1:1")
    demo.signal(number)
    assert demo.wait() == 130, demo.log()
    assert "Apache Kafka answers" not in demo.log()
    assert demo.log().splitlines()[-1] == "interrupted" and "Traceback" not in demo.log()
