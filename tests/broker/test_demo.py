"""The first five minutes: what ``explain-sidecar demo`` says, without a terminal, and when it is interrupted."""

import re
import signal
import urllib.request

from service.kafka.broker import Broker
from tests.broker.harness import Factory, Process


def test_the_demo_names_its_steps_serves_the_dashboard_and_ends_with_its_summary_on_ctrl_c(
    broker: Broker, pipeline: Factory
) -> None:
    line = pipeline(1)
    demo = Process(
        ["-m", "service.cli", "demo", "--limit", "30000"],
        {"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers, "PYTHONUNBUFFERED": "1"},
    )
    line.wait_for(lambda: "first explanation" in demo.log() or not demo.running(), 120)
    found = re.search(r"dashboard on (http://\S+)", demo.log())
    assert found, demo.log()
    with urllib.request.urlopen(found.group(1), timeout=10) as page:
        assert b"Explanation sidecar" in page.read()
    demo.signal(signal.SIGINT)
    assert demo.wait() == 130, demo.log()
    said = demo.log()
    steps = re.findall(r"^ +[\d.]+ s  (.*)$", said, re.MULTILINE)
    for step in (
        "30,000 flights of 2013",
        "fed to topic flights",
        "sidecar started",
        "dashboard on",
        "first explanation",
    ):
        assert any(one.startswith(step) for one in steps), (step, said)
    assert re.match(r"[\d,]+ flights folded, [\d,]+ explanations$", steps[-1])
    assert "what drives the model: " in said
    assert re.findall(r"^  explain-sidecar (\w+)", said, re.MULTILINE) == ["check", "run", "tail"]
    assert "\x1b" not in said and "Traceback" not in said
