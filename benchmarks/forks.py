"""Processes forked from one that has imported the sidecar: they start in milliseconds rather than seconds of CPU."""

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from explain_sidecar import crash_points

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["benchmarks.preloaded"])

AT_START = ("LD_", "PYTHON")
"""How variables begin that a process reads but once, when it starts: with another value it cannot be a fork."""


class Fork:
    """``python -m MODULE ARGUMENTS`` as a fork, with the interface of ``subprocess.Popen`` as far as it is needed.

    Its stdin stays open for as long as this object and this process live.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], environment: dict[str, str], stdout: Path, stderr: Path
    ) -> None:
        stdin, self._stdin = _context.Pipe(duplex=False)
        self._process = _context.Process(
            target=_become,
            args=(module, list(arguments), environment, os.getcwd(), stdin, stdout, stderr),  # noqa: PTH109
            daemon=True,
        )
        self._process.start()
        stdin.close()
        self.args = [module, *arguments]

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit status, negative for a signal's; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises ``subprocess.TimeoutExpired``."""
        self._process.join(timeout)
        status = self.poll()
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return status

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()


def forkable(environment: dict[str, str]) -> bool:
    """Whether a fork with this environment does what a process does that is started with it."""
    return all(
        os.environ.get(name) == value for name, value in environment.items() if name.startswith(AT_START)
    )


def _become(
    module: str,
    arguments: Sequence[str],
    environment: dict[str, str],
    folder: str,
    stdin: Connection,
    stdout: Path,
    stderr: Path,
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    os.dup2(stdin.fileno(), 0)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  multiprocessing has put another in its place
    for number, path in ((1, stdout), (2, stderr)):
        with path.open("ab") as file:
            os.dup2(file.fileno(), number)
    if point := environment.get(crash_points.VARIABLE):
        unarmed, armed = crash_points.reach, crash_points.armed(point)
        for imported in list(sys.modules.values()):
            if getattr(imported, "reach", None) is unarmed:
                imported.reach = armed  # type: ignore[attr-defined]
    sys.argv = [module, *arguments]
    sys.modules.pop(module, None)  # it runs as __main__
    runpy.run_module(module, run_name="__main__", alter_sys=True)
