"""The workers of a campaign: started, watched, and started again when they end by themselves, as a platform would."""

import json
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import psutil

from explain_sidecar.crash_points import VARIABLE
from explain_sidecar.errors import AGAIN
from tests.broker.harness import Process

STOP_SECONDS = 60
HUNG = -signal.SIGALRM


class Event(NamedTuple):
    """A partition's step in the life of a worker, at a time in seconds since 1970."""

    at: float
    partition: int
    what: str


class Fleet:
    """Worker processes by slot, or with ``supervised`` such of ``explain-sidecar run``, each with two workers. Stages take turns with the slots.

    ``failures`` are what none may do; ``ended`` counts how they ended by themselves.
    """

    def __init__(
        self, environment: dict[str, str], supervised: bool = False, stages: Sequence[str] = ("fold",)
    ) -> None:
        self.stages = stages
        self.live: dict[int, Process] = {}
        self.failures: list[str] = []
        self.ended: Counter[str] = Counter()
        self.points: Counter[str] = Counter()
        self.environment = environment
        self._supervised = supervised
        self._past: list[Process] = []
        self._stage_of: dict[Process, str] = {}
        self._paused: set[int] = set()

    def start(self, slot: int, point: str | None = None) -> Process:
        armed = {} if point is None else {VARIABLE: point}
        if self._supervised:
            arguments = ["explain_sidecar.cli", "run", "--workers", "2"]
            armed |= {"EXPLAIN_INSTANCE_ID": f"test-{slot}", "EXPLAIN_WORKERS__RESTARTS": "1000"}
        else:
            number = slot // len(self.stages)
            arguments = ["tests.crash.worker", "--slot", str(number), "--stage", self.stage(slot)]
        process = Process(["-m", *arguments], {**self.environment, **armed})
        self.live[slot], self._stage_of[process] = process, self.stage(slot)
        return process

    def stage(self, slot: int) -> str:
        return self.stages[slot % len(self.stages)]

    def peers(self, slot: int) -> list[int]:
        """The slots of those that live and do the same, itself among them."""
        return [other for other in sorted(self.live) if self.stage(other) == self.stage(slot)]

    def kill(self, slot: int) -> Process:
        """SIGKILL."""
        process = self.live.pop(slot)
        process.kill()
        self._bury(process)
        return process

    def shoot(self, slot: int, rng: random.Random) -> int:
        """SIGKILL for a process of a supervisor, which starts it again: a worker, or the one that forks them; returns its process id."""
        process = self.live[slot]
        deadline = time.monotonic() + STOP_SECONDS
        while process.running() and time.monotonic() < deadline:
            if below := psutil.Process(process.pid).children(recursive=True):
                victim = rng.choice(below)
                victim.kill()
                return victim.pid
            time.sleep(0.05)
        self.failures.append(f"a supervisor had no process to kill:\n{process.log()[-3_000:]}")
        return 0

    def stop(self, slot: int) -> None:
        """SIGTERM; a worker that can reach Kafka must then end well."""
        process = self.live.pop(slot)
        process.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while process.running() and time.monotonic() < deadline:
            time.sleep(0.05)
        if process.running():
            process.signal(signal.SIGUSR1)
            time.sleep(1)
            process.kill()
            self.failures.append(f"a worker did not stop within {STOP_SECONDS} s:\n{process.log()[-3_000:]}")
        status = process.wait()
        self._bury(process)
        if status == -signal.SIGKILL:
            return
        if status not in (0, -signal.SIGTERM):  # the signal itself ends a worker that is still being imported
            self._note(process, status)

    def freeze(self, slot: int) -> None:
        self.live[slot].signal(signal.SIGSTOP)
        self._paused.add(slot)

    def thaw(self, slot: int) -> None:
        self._paused.discard(slot)
        if slot in self.live and self.live[slot].running():
            self.live[slot].signal(signal.SIGCONT)

    def tend(self) -> None:
        """Start those again that ended by themselves."""
        for slot, process in list(self.live.items()):
            if not process.running():
                status = process.wait()
                self._bury(process)
                if status != -signal.SIGKILL:
                    self._note(process, status)
                self.start(slot)

    def wait(self, seconds: float) -> None:
        """Let time pass, and tend."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.tend()
            time.sleep(0.05)

    def events(self, process: Process | None = None, stage: str | None = None) -> list[Event]:
        """What the log of a worker, or of all of a stage, says about partitions, in order of time."""
        known = [*self._past, *self.live.values()]
        processes = (
            [process]
            if process
            else [running for running in known if stage in (None, self._stage_of[running])]
        )
        found = []
        for running in processes:
            for line in running.log().splitlines():
                if line.startswith("{") and '"partition"' in line:
                    entry = json.loads(line)
                    what = entry["message"].split()[0]
                    if what in ("assigned", "restored", "running", "released"):
                        moment = datetime.fromisoformat(entry["time"]).timestamp()
                        found.append(Event(moment, entry["partition"], what))
        return sorted(found)

    def owned(self, process: Process) -> set[int]:
        """Partitions that a worker has running."""
        running: set[int] = set()
        for event in self.events(process):
            (running.add if event.what == "running" else running.discard)(event.partition)
        return running

    def inspect(self) -> None:
        """Look through the logs: workers outlive their supervisor, so that only the end shows what is in them."""
        for process in self._past:
            log = process.log()
            self.points.update(re.findall(r"crash point (\S+) reached", log))
            if "Traceback" in log or '"exception"' in log:
                self.failures.append(f"a worker's log has a traceback:\n{log[-3_000:]}")

    def keep(self, folder: Path) -> None:
        """Write all logs to a folder, in the order in which their processes ended."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, process in enumerate([*self._past, *self.live.values()]):
            (folder / f"{number:03}-{process.pid}.log").write_text(process.log())

    def close(self) -> None:
        for slot in list(self.live):
            self.thaw(slot)
            self.kill(slot)

    def _bury(self, process: Process) -> None:
        self._past.append(process)

    def _note(self, process: Process, status: int) -> None:
        errors = re.findall(r"^error: (.{0,90})", process.log(), re.MULTILINE)
        if status == HUNG:  # a client call that never returns: the watchdog's part
            self.ended["hung in a client call"] += 1
        elif status not in (1, AGAIN) or not errors:
            self.failures.append(f"a worker ended with status {status}:\n{process.log()[-2_000:]}")
        else:
            self.ended[re.sub(r"\d+", "N", errors[-1])] += 1
