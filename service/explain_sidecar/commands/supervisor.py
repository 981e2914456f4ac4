"""The worker processes of ``run`` and ``join``: started, started again when they were killed, and stopped together."""

from __future__ import annotations

import logging
import math
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal

from explain_sidecar.errors import AGAIN
from explain_sidecar.forks import RIVER, Fork, Forks
from explain_sidecar.join.topics import join_settings
from explain_sidecar.settings import Settings

if TYPE_CHECKING:
    from explain_sidecar.http.site import Site

Stage = Literal["fold", "join"]

WINDOW_SECONDS = 600.0
"""How long the end of a worker counts against it."""

STEADY_SECONDS = 10.0
"""A worker that lived for so long is started again at once."""

LONGEST_PAUSE = 30.0
LOOK_SECONDS = 0.05

KILL_SECONDS = 28.0
"""After which a worker that was told to stop is killed: it ends by itself before, unless its process is stopped. Platforms grant 30 s."""

log = logging.getLogger(__name__)


@dataclass
class WorkerProcess:
    """A slot and its process, if it has one. ``ends``: when one ended within the window; ``due``: when the next one is to start.

    ``brief``: how many lived for seconds only, one after the other.
    """

    number: int
    stage: Stage
    slot: int
    process: Fork | None = None
    started: float = 0.0
    brief: int = 0
    ends: list[float] = field(default_factory=list)
    often: str = ""
    due: float | None = None
    releasing: threading.Thread | None = None

    def __str__(self) -> str:
        return f"{'join ' * (self.stage == 'join')}worker {self.slot}"

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal's; None while it runs or is to start again."""
        if self.process is None:
            return None if self.due is not None else 0
        return self.process.poll()


class Supervisor:
    """Starts workers, and starts one again that was killed, or that asks for it.

    That is at once, or after a pause that doubles where it lives for seconds only. One that ends more than ``workers.restarts`` times within ten minutes ends
    the others too, and so does one that fails with a message: the operator is needed.
    """

    def __init__(
        self,
        settings: Settings,
        site: Site | None,
        config: Path | None,
        wanted: Sequence[tuple[Stage, int]],
        until_caught_up: bool,
        forks: Forks,
    ) -> None:
        self._settings, self._forks = settings, forks
        self._site = site
        file = ["--config", str(config)] if config else []
        self._arguments = [*file, *(["--until-caught-up"] * until_caught_up)]
        folds = any(stage == "fold" for stage, _ in wanted)
        if folds and (settings.model.factory or settings.challenger.factory):
            forks.prepare(RIVER)
        self._asked, self._kill_at = False, math.inf
        self._workers = [WorkerProcess(number, *place) for number, place in enumerate(wanted)]
        for worker in self._workers:
            self._start(worker)

    def run(self) -> int:
        """Wait for the end of all workers, stopping them on SIGTERM and SIGINT; returns the exit status."""

        def stop(number: int, frame: FrameType | None) -> None:
            self._asked = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            # Look at every worker each time: ``any`` would stop at the first that is alive.
            while None in [self._look(worker) for worker in self._workers]:
                if self._asked:
                    self._stop()
                if time.monotonic() > self._kill_at:
                    self._forks.kill()
                time.sleep(LOOK_SECONDS)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        # A worker that is told to stop before it has set up its handlers, while it imports, ends by the signal itself.
        fine = (0, -signal.SIGTERM) if self._stopping else (0,)
        failed = [
            (worker, status) for worker in self._workers if (status := worker.status) not in fine and status
        ]
        for worker, status in failed:
            if status < 0 or status == AGAIN:
                sys.stderr.write(
                    f"error: {worker} {_how(status)}{worker.often}; the others were stopped, start the sidecar again: nothing is lost\n"
                )
        return (1 if failed[0][1] < 0 or failed[0][1] == AGAIN else failed[0][1]) if failed else 0

    @property
    def _stopping(self) -> bool:
        return self._kill_at < math.inf

    def _stop(self) -> None:
        if self._stopping:
            return
        self._kill_at = time.monotonic() + KILL_SECONDS
        if self._site:
            self._site.stopping()
        for worker in self._workers:
            worker.due = None
        self._forks.stop()

    def _look(self, worker: WorkerProcess) -> int | None:
        """The exit status of a worker that is not started again."""
        now, status = time.monotonic(), worker.status
        if worker.due is not None:
            if now >= worker.due and not (worker.releasing and worker.releasing.is_alive()):
                self._start(worker)
        elif status and not self._stopping:
            if status < 0 or status == AGAIN:
                self._again(worker, status, now)
            else:
                self._stop()
        return status and worker.status  # one that has ended meanwhile is looked at again

    def _again(self, worker: WorkerProcess, status: int, now: float) -> None:
        worker.ends = [moment for moment in worker.ends if now - moment < WINDOW_SECONDS] + [now]
        ends, allowed = len(worker.ends), self._settings.workers.restarts
        if ends > allowed:
            if allowed:
                worker.often = f", {ends} times within {WINDOW_SECONDS / 60:g} minutes, and workers.restarts is {allowed}"
            self._stop()
            return
        worker.brief = worker.brief + 1 if now - worker.started < STEADY_SECONDS else 0
        pause = min(LONGEST_PAUSE, 2.0 ** (worker.brief - 1)) if worker.brief else 0.0
        log.warning(
            "%s %s; it is started again %s (%d of %d times within %g minutes), and nothing is lost",
            worker,
            _how(status),
            f"in {pause:g} s" if pause else "at once",
            ends,
            allowed,
            WINDOW_SECONDS / 60,
        )
        if self._site:
            self._site.workers.restarting(worker.number)
        worker.process, worker.due = None, now + pause
        worker.releasing = threading.Thread(target=self._release, args=(worker,), daemon=True)
        worker.releasing.start()

    def _release(self, worker: WorkerProcess) -> None:
        from explain_sidecar.kafka.operators import release

        try:
            release(join_settings(self._settings) if worker.stage == "join" else self._settings, worker.slot)
        except Exception:  # it is a matter of seconds; the worker starts again whatever comes of it
            log.exception("%s: what it held could not be freed, and is after 10 s", worker)

    def _start(self, worker: WorkerProcess) -> None:
        arguments = ["--slot", str(worker.slot), "--stage", worker.stage, *self._arguments]
        worker.due, worker.started = None, time.monotonic()
        with self._site.pipe_of(worker.number) if self._site else nullcontext() as pipe:
            worker.process = self._forks.start(arguments, pipe)


def _how(status: int) -> str:
    if status == -signal.SIGALRM:
        return "showed no sign of life and was ended; the traceback above says where it hung"
    return (
        f"was ended by signal {-status}, as by a machine that is out of memory"
        if status < 0
        else "could not go on, as it says above"
    )
