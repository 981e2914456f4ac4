"""``explain-sidecar run`` and ``join``: start the worker processes and end with them."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal

from explain_sidecar.join.topics import join_settings, prepare, sources
from explain_sidecar.kafka.topics import Topics
from explain_sidecar.settings import Settings

if TYPE_CHECKING:
    from explain_sidecar.http.site import Site

PINNED = {
    # Sets and dicts of strings in user code iterate in the same order in every process.
    "PYTHONHASHSEED": "0",
    # numpy's exp and log differ in the last bit between instruction sets, and the pods of a deployment may run on several.
    "NPY_DISABLE_CPU_FEATURES": "X86_V4",
    "NUMBA_CPU_NAME": "generic",
    # One core for each interpreter: parallel reductions would add in another order.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""Environment of every worker, so that a replay gives the same bytes on the same class of CPU."""


KILL_SECONDS = 28.0
"""After which a worker that was told to stop is killed: it ends by itself before, unless its process is stopped. Platforms grant 30 s."""

Stage = Literal["fold", "join"]


def run(
    settings: Settings,
    config: Path | None = None,
    workers: int = 1,
    until_caught_up: bool = False,
    stages: Sequence[Stage] = ("fold",),
) -> int:
    """Start ``workers`` processes for each stage, pass on SIGTERM and SIGINT, and return the exit status.

    A worker that fails ends the others too: the platform that runs the sidecar starts it again.
    """
    settings.servers  # noqa: B018  the messages about a missing address or key, before any process
    if "join" in stages:
        sources(settings)
        # The other stages read the join's output: its topic must exist before they start.
        stage = join_settings(settings)
        prepare(stage, Topics(stage))
    wanted = [(stage, slot) for stage in stages for slot in range(workers)]
    with _site(settings, len(wanted)) as site:
        return _supervise(site, config, wanted, until_caught_up)


def _supervise(
    site: Site | None, config: Path | None, wanted: Sequence[tuple[Stage, int]], until_caught_up: bool
) -> int:
    children = [
        _start(site, config, number, stage, slot, until_caught_up)
        for number, (stage, slot) in enumerate(wanted)
    ]
    kill_at = math.inf

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal kill_at
        kill_at = min(kill_at, time.monotonic() + KILL_SECONDS)
        if site:
            site.stopping()
        for child in children:
            child.send_signal(signal.SIGTERM)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        # Poll every process each time: ``any`` would stop at the first that is alive.
        while None in (codes := [child.poll() for child in children]):
            if kill_at == math.inf and any(code not in (None, 0) for code in codes):
                stop(signal.SIGTERM, None)
            if time.monotonic() > kill_at:
                for child in children:
                    child.kill()
            time.sleep(0.05)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    # A worker that is told to stop before it has set up its handlers, while it imports, ends by the signal itself.
    fine = (0, -signal.SIGTERM) if kill_at < math.inf else (0,)
    failed = [child.returncode for child in children if child.returncode not in fine]
    for (stage, slot), child in zip(wanted, children, strict=True):
        if child.returncode in failed and child.returncode < 0:
            how = "was ended by signal {}, as by a machine that is out of memory"
            if child.returncode == -signal.SIGALRM:
                how = "showed no sign of life and was ended; the traceback above says where it hung"
            sys.stderr.write(
                f"error: {'join ' * (stage == 'join')}worker {slot} {how.format(-child.returncode)}; "
                "the others were stopped, start the sidecar again: nothing is lost\n"
            )
    return (1 if failed[0] < 0 else failed[0]) if failed else 0


def worker_environment() -> dict[str, str]:
    return {**os.environ, **PINNED}


@contextmanager
def _site(settings: Settings, workers: int) -> Iterator[Site | None]:
    if not settings.http.enabled:
        yield None
        return
    from explain_sidecar.http.site import beside_workers

    with beside_workers(settings, workers) as site:
        yield site


def _start(
    site: Site | None, config: Path | None, number: int, stage: Stage, slot: int, until_caught_up: bool
) -> subprocess.Popen[bytes]:
    # -P: the working directory is the user's, and may hold a queue.py.
    command = [sys.executable, "-P", "-m", "explain_sidecar.worker", "--slot", str(slot), "--stage", stage]
    command += ["--config", str(config)] if config else []
    command += ["--until-caught-up"] if until_caught_up else []
    with site.pipe_of(number) if site else nullcontext() as pipe:
        return subprocess.Popen(
            [*command, "--reports", str(pipe)] if pipe is not None else command,
            env=worker_environment(),
            stdin=subprocess.PIPE,
            pass_fds=() if pipe is None else (pipe,),
            # Ctrl-C reaches the supervisor alone, which stops the workers in order.
            start_new_session=True,
        )
