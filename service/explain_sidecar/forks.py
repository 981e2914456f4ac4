"""``python -m explain_sidecar.forks``: a process that has imported what every worker needs, and forks them.

A fork begins to work in a tenth of the time, and shares the memory of what was imported.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import orjson

from explain_sidecar.pinned import worker_environment

LENGTH_BYTES = 4

EVERY = ("explain_sidecar.worker",)
FOLD = ("explain_core.learners.named", "explain_sidecar.kafka.loop")
RIVER = ("river.forest", "explain_core.learners.linear_river")
"""What every worker needs, what every fold, and what folds with models of river. A user's model stays out: what it starts, as threads, would not
outlive a fork."""


class Fork:
    """A worker as the supervisor sees it; it lives no longer than this object's process does. ``pid``: None until it is forked."""

    def __init__(self, parent: subprocess.Popen[bytes], status: int, stdin: int) -> None:
        self.pid: int | None = None
        self.returncode: int | None = None
        self._parent = parent
        self._status = status
        self._stdin = stdin
        self._said = b""
        self._signal: signal.Signals | None = None

    def poll(self) -> int | None:
        """The exit status, negative for a signal's; None while it runs or is to run."""
        while self.returncode is None and select.select([self._status], [], [], 0)[0]:
            said = os.read(self._status, 1_024)
            self._said += said
            lines = self._said.split(b"\n")
            if self.pid is None and len(lines) > 1:
                self.pid = int(lines[0])
                if self._signal is not None:
                    self.send_signal(self._signal)
            if len(lines) > 2:
                self._ended(int(lines[1]))
            elif not said:
                self._orphaned()
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Sent once the process is there, if it has not ended."""
        if self.pid is None:
            self._signal = number
        elif self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _orphaned(self) -> None:
        """The process that forks is gone, so that nobody hears of this one's end."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._ended(-signal.SIGKILL)
        else:
            self._ended(self._parent.wait())

    def _ended(self, status: int) -> None:
        self.returncode = status
        os.close(self._status)
        os.close(self._stdin)


class Forks:
    """Starts workers, from one process that is started again if it has ended. It imports ``modules`` from now on, while this one goes on."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._modules = [*EVERY, *modules]
        self._environment = worker_environment()
        self._parent, self._control = self._begin()
        self._forks: list[Fork] = []

    def start(self, arguments: Sequence[str], reports: int | None) -> Fork:
        """A worker with these arguments. ``reports``: the end of a pipe that it writes to."""
        if self._parent.poll() is not None:
            self._parent, self._control = self._begin()
        status, theirs = os.pipe()
        stdin, ours = os.pipe()
        fork = Fork(self._parent, status, ours)
        handed = [theirs, stdin, *([] if reports is None else [reports])]
        with suppress(BrokenPipeError):  # it has just ended, which the fork will say
            socket.send_fds(self._control, [_message(arguments)], handed)
        os.close(theirs)
        os.close(stdin)
        self._forks.append(fork)
        return fork

    def stop(self) -> None:
        """Send SIGTERM to every worker; where none has begun there is nothing to wait for."""
        for fork in self._forks:
            fork.send_signal(signal.SIGTERM)
        if all(fork.pid is None for fork in self._forks):
            self._parent.terminate()

    def kill(self) -> None:
        for fork in self._forks:
            fork.send_signal(signal.SIGKILL)

    def prepare(self, modules: Sequence[str]) -> None:
        """Import these too, before the next worker begins."""
        self._modules += modules
        with suppress(BrokenPipeError):
            self._control.sendall(_message(modules))

    def _begin(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            # -P: the working directory is the user's, and may hold a queue.py.
            command = [sys.executable, "-P", "-m", "explain_sidecar.forks", "--control", str(theirs.fileno())]
            parent = subprocess.Popen(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                # Ctrl-C reaches the supervisor alone, which stops the workers in order.
                start_new_session=True,
            )
        ours.sendall(_message(self._modules))
        return parent, ours


def _message(words: Sequence[str]) -> bytes:
    """With file descriptors the arguments of a worker, else names of modules."""
    message = orjson.dumps(words)
    return len(message).to_bytes(LENGTH_BYTES) + message


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int, required=True)
    arguments = parser.parse_args()
    control = socket.socket(fileno=arguments.control)
    from explain_sidecar.collector import settle

    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    statuses: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([arguments.control, woken], [], [])
        if woken in ready:
            os.read(woken, 1_024)
            _reap(statuses)
        if arguments.control in ready:
            header, handed, _, _ = socket.recv_fds(control, LENGTH_BYTES, 3)
            if not header:  # the supervisor is gone, and the workers know it by themselves
                return
            wanted = orjson.loads(control.recv(int.from_bytes(header), socket.MSG_WAITALL))
            if not handed:
                for module in wanted:
                    import_module(module)
                settle()
                continue
            status, stdin, *reports = handed
            # It ends with the supervisor. A platform that tells every process to stop would else hide from it how the workers end.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGTERM):
                    signal.signal(number, signal.SIG_DFL)
                for other in (status, woken, wake, *statuses.values()):
                    os.close(other)
                control.close()
                _become(wanted, stdin, reports)
            _tell(status, pid)
            statuses[pid] = status
            for other in (stdin, *reports):
                os.close(other)


def _reap(statuses: dict[int, int]) -> None:
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        _tell(statuses[pid], os.waitstatus_to_exitcode(status))
        os.close(statuses.pop(pid))


def _tell(status: int, number: int) -> None:
    """The supervisor, if it is still there."""
    with suppress(BrokenPipeError):
        os.write(status, b"%d\n" % number)


def _become(arguments: list[str], stdin: int, reports: list[int]) -> None:
    """``python -m explain_sidecar.worker``, without what came before."""
    from explain_sidecar import worker

    code = 1
    try:
        os.setsid()
        os.dup2(stdin, 0)
        os.close(stdin)
        sys.argv = [
            "explain_sidecar.worker",
            *arguments,
            *(["--reports", str(reports[0])] if reports else []),
        ]
        code = worker.main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        worker.end(code)


if __name__ == "__main__":
    main()
