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
from collections.abc import Mapping, Sequence
from contextlib import suppress

import orjson

LENGTH_BYTES = 4


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
    """Starts workers, from one process that is started again if it has ended. ``arguments`` are its own."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._environment = environment
        self._parent: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._forks: list[Fork] = []

    def start(self, arguments: Sequence[str], reports: int | None) -> Fork:
        """A worker with these arguments. ``reports``: the end of a pipe that it writes to."""
        if self._parent is None or self._control is None or self._parent.poll() is not None:
            self._parent, self._control = self._begin()
        status, theirs = os.pipe()
        stdin, ours = os.pipe()
        fork = Fork(self._parent, status, ours)
        message = orjson.dumps(arguments)
        handed = [theirs, stdin, *([] if reports is None else [reports])]
        with suppress(BrokenPipeError):  # it has just ended, which the fork will say
            socket.send_fds(self._control, [len(message).to_bytes(LENGTH_BYTES) + message], handed)
        os.close(theirs)
        os.close(stdin)
        self._forks.append(fork)
        return fork

    def stop(self) -> None:
        """Send SIGTERM to every worker; where none has begun there is nothing to wait for."""
        for fork in self._forks:
            fork.send_signal(signal.SIGTERM)
        if self._parent is not None and all(fork.pid is None for fork in self._forks):
            self._parent.terminate()

    def kill(self) -> None:
        for fork in self._forks:
            fork.send_signal(signal.SIGKILL)

    def _begin(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            # -P: the working directory is the user's, and may hold a queue.py.
            command = [sys.executable, "-P", "-m", "explain_sidecar.forks", "--control", str(theirs.fileno())]
            parent = subprocess.Popen(
                [*command, *self._arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                # Ctrl-C reaches the supervisor alone, which stops the workers in order.
                start_new_session=True,
            )
        return parent, ours


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--fold", action="store_true", help="Import what every fold needs.")
    parser.add_argument("--river", action="store_true", help="Import what folds with models of river need.")
    arguments = parser.parse_args()
    control = socket.socket(fileno=arguments.control)
    import explain_sidecar.worker  # noqa: F401
    from explain_sidecar.collector import settle

    if arguments.fold:
        _prepare(arguments.river)
    settle()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    # It ends with the supervisor. A platform that tells every process to stop would else hide from it how the workers end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
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
            status, stdin, *reports = handed
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


def _prepare(rivers: bool) -> None:
    """Import what is ours, and river where it is asked for: it takes seconds. A user's model stays out: what it starts, as threads, would not outlive a fork."""
    import explain_core.learners.named
    import explain_sidecar.kafka.loop  # noqa: F401

    if rivers:
        import river.forest  # noqa: F401

        import explain_core.learners.linear_river  # noqa: F401


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
