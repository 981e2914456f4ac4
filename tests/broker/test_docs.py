"""The tutorial and the pages that go on from it, typed in from top to bottom, on a real broker."""

import csv
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir
from itertools import islice
from pathlib import Path

import pytest
from river.datasets import Phishing

from benchmarks.forks import Fork
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.cli import NAME
from tests.documentation import ROOT, Block, blocks

PAGES = [
    "docs/how-to/late-labels.md",
    "docs/tutorial.md",
    "docs/how-to/pipeline.md",
    "docs/how-to/consume.md",
    "docs/how-to/drift.md",
]
ELSEWHERE = {
    "make": "the demo is run by test_demo.py",
    "pip": "this environment has what is to be installed",
    f"{NAME} kafka run": "test_embedded_broker.py; the broker of this test stands for it",
    f"{NAME} dbshap": "tests/service/test_docs.py runs what needs no broker",
}
ENDLESS = {"run": "running from", "tail": "", "dashboard": "http://"}
"""Commands that go on until they are stopped, and what they have said once they work."""


class Reader:
    """Somebody who follows the pages: a folder, an environment, and terminals of their own for what does not end."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._servers = broker.bootstrap_servers
        self._folder = folder
        tools = folder / "bin"
        tools.mkdir()
        for name, module in ((NAME, "-m explain_sidecar.cli"), ("python", "")):
            (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            (tools / name).chmod(0o755)
        (folder / "explain_client").symlink_to(ROOT / "explain_client")
        clean = {name: value for name, value in os.environ.items() if not name.startswith("EXPLAIN_")}
        self.environment = {
            **clean,
            "PATH": f"{tools}:{clean['PATH']}",
            "PYTHONPATH": str(ROOT),
            "BROWSER": "true",  # what `--open` opens
            "EXPLAIN_HTTP__PORT": "0",
            "EXPLAIN_INSTANCE_ID": "reader",
        }
        self._terminals: list[tuple[str, Fork | subprocess.Popen[bytes], Path]] = []
        self.ran: list[str] = []

    def read(self, page: str) -> Iterator[str]:
        """Do what a page says, block by block; yields the output of what ends."""
        heading = ""
        for block in blocks(page):
            if block.heading != heading:
                self.stop()
                heading = block.heading
            yield from self._do(block)
        self.stop()

    def _do(self, block: Block) -> Iterator[str]:
        text = block.text.replace("127.0.0.1:9092", self._servers)
        if block.name:
            (self._folder / block.name).write_text(text)
        elif block.language == "python":
            (self._folder / "block.py").write_text(text)
            yield self.run(f"python block.py  # {block.page}")
        elif block.language == "sh":
            for line in block.commands():
                line = line.replace("127.0.0.1:9092", self._servers)
                if not any(line.startswith(word) for word in ELSEWHERE):
                    yield from self._type(line)

    def _type(self, line: str) -> Iterator[str]:
        words = shlex.split(line, comments=True)
        command = next((word for word in words if word in ENDLESS), None) if words[0] == NAME else None
        if words[0] == "export":
            output = self.run(f"{line}; env -0")
            self.environment = dict(
                variable.split("=", 1) for variable in output.split("\0") if "=" in variable
            )
        elif command and "--until-caught-up" not in words:
            self._start(line, command)
        else:
            yield self.run(line)

    def run(self, line: str) -> str:
        process, log = self._began(line)
        try:
            assert process.wait(120) == 0, f"{line}\n{log.read_text()}"
        finally:
            process.kill()
        assert "Traceback" not in log.read_text()
        return log.read_text()

    def _began(self, line: str, brief: bool = False) -> "tuple[Fork | subprocess.Popen[bytes], Path]":
        """What a shell does with the line; a command alone is a fork, but for a ``brief`` one, as a fork that has just begun is deaf to Ctrl-C."""
        self.ran.append(line)
        log, words = self._folder / f"terminal-{len(self.ran)}", shlex.split(line, comments=True)
        if words[0] == NAME and not brief and not set("|<>$&;") & set(line):
            log.touch()
            environment = {name: value for name, value in self.environment.items() if name != "PYTHONPATH"}
            with chdir(self._folder):
                return Fork("explain_sidecar.cli", words[1:], environment, log, log), log
        with log.open("wb") as file:
            shell = ["bash", "-ec", line]
            return subprocess.Popen(
                shell, cwd=self._folder, env=self.environment, stdout=file, stderr=file
            ), log

    def _start(self, line: str, command: str) -> None:
        process, log = self._began(line, brief=not ENDLESS[command])
        self._terminals.append((line, process, log))
        deadline = time.monotonic() + 60
        while ENDLESS[command] not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, f"{line}\n{log.read_text()}"
            time.sleep(0.05)

    def stop(self) -> None:
        """Ctrl-C in every terminal, the newest first."""
        while self._terminals:
            line, process, log = self._terminals.pop()
            os.kill(process.pid, signal.SIGINT)
            try:
                # The signal itself ends an interpreter that has not begun with our modules yet, with a traceback of its own.
                assert process.wait(60) in (0, 130, -signal.SIGINT), f"{line}\n{log.read_text()}"
            finally:
                process.kill()
            assert "Traceback" not in log.read_text() or "/explain_sidecar/" not in log.read_text(), (
                log.read_text()
            )


@pytest.fixture
def reader(broker: Broker, tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(broker, tmp_path)
    yield reader
    reader.stop()


def test_who_follows_the_readme_and_the_pages_gets_what_they_say(reader: Reader, tmp_path: Path) -> None:
    rows = [{**x, "class": int(y)} for x, y in islice(Phishing(), 400)]
    with (tmp_path / "elec2.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    names = ("records", "explanations", "drift", "checkpoints", "dead_letters")
    own = {f"EXPLAIN_TOPICS__{name.upper()}": f"readme-{name}" for name in names}
    before, reader.environment = reader.environment, {**reader.environment, **own, "EXPLAIN_APP_ID": "readme"}
    for _ in reader.read("README.md"):
        pass
    assert [line.split()[1] for line in reader.ran if line.startswith(NAME)] == ["produce", "run", "tail"]
    reader.run(f"{NAME} run --until-caught-up")
    assert "age_of_domain" in reader.run(f"{NAME} tail --from-beginning --until-caught-up")
    assert reader.run(f"{NAME} dead-letters show --json") == ""  # each of them has a label
    reader.environment, shown = before, len(reader.ran)
    output = {page: "\n".join(reader.read(page)) for page in PAGES}
    assert len(reader.ran) - shown > 20
    assert re.search("matched.*position", output["docs/how-to/late-labels.md"], re.DOTALL)
    assert "age_of_domain" in output["docs/tutorial.md"]  # a feature that `check` found
    assert re.search(r"\b\d+ records", output["docs/tutorial.md"])  # of a partition, by `tail`
    assert "average over partition models" in output["docs/how-to/consume.md"]
    assert re.search(
        r"error rate (rose by|fell by|did not change noticeably)", output["docs/how-to/drift.md"]
    )
