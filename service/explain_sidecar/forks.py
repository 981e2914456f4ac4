"""``python -m explain_sidecar.forks``: a process that has imported what every worker needs, and forks them.

A fork begins to work in a tenth of the time, and shares the memory of what was imported. Over a socket this process is told what to import and which
workers to fork, and answers with a line for each that began and for each that ended.
"""

from __future__ import annotations

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
    """A worker as the supervisor sees it; it lives no longer than the process that has forked it. ``pid``: None until it is forked."""

    def __init__(self, forks: Forks) -> None:
        self.pid: int | None = None
        self.returncode: int | None = None
        self._forks = forks
        self._signal: signal.Signals | None = None

    def poll(self) -> int | None:
        """The exit status, negative for a signal's; None while it runs or is to run."""
        self._forks.listen()
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Sent once the process is there, if it has not ended."""
        if self.pid is None:
            self._signal = number
        elif self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def told(self, value: int) -> None:
        """Its process id comes first, and then its exit status."""
        if self.pid is not None:
            self.returncode = value
            return
        self.pid = value
        if self._signal is not None:
            self.send_signal(self._signal)

    def orphaned(self, status: int) -> None:
        """The process that forks has ended with this status, so that nobody hears of this one's end."""
        self.send_signal(signal.SIGKILL)
        if self.returncode is None:
            self.returncode = status if self.pid is None else -signal.SIGKILL


class Forks:
    """Starts workers, from one process that is started again if it has ended. It imports ``modules`` from now on, while this one goes on."""

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._modules = [*EVERY, *modules]
        self._environment = worker_environment()
        self._forks: list[Fork] = []
        self._said = b""
        self._begin()

    def start(self, arguments: Sequence[str], reports: int | None) -> Fork:
        """A worker with these arguments. ``reports``: the end of a pipe that it writes to."""
        if self._parent.poll() is not None:
            self._orphan()
            self._begin()
        message = _message(len(self._forks), arguments)
        self._forks.append(Fork(self))
        with suppress(ConnectionError):  # it has just ended, which the fork will say
            socket.send_fds(self._control, [message], [] if reports is None else [reports])
        return self._forks[-1]

    def listen(self) -> None:
        """Take in what became of the workers."""
        while select.select([self._control], [], [], 0)[0]:
            try:
                said = self._control.recv(1_024)
            except ConnectionResetError:  # it has ended before it took in what it was told
                said = b""
            if not said:
                self._orphan()
                return
            lines = (self._said + said).split(b"\n")
            self._said = lines.pop()
            for line in lines:
                number, value = map(int, line.split())
                self._forks[number].told(value)

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
        with suppress(ConnectionError):
            self._control.sendall(_message(None, modules))

    def _begin(self) -> None:
        self._control, theirs = socket.socketpair()
        self._said = b""
        with theirs:
            # -P: the working directory is the user's, and may hold a queue.py.
            self._parent = subprocess.Popen(
                [sys.executable, "-P", "-m", "explain_sidecar.forks", str(theirs.fileno())],
                env=self._environment,
                # The workers have it too. It closes with this process, however that ends.
                stdin=subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                # Ctrl-C reaches the supervisor alone, which stops the workers in order.
                start_new_session=True,
            )
        self._control.sendall(_message(None, self._modules))

    def _orphan(self) -> None:
        """The process that forks has ended, and all its workers with it."""
        status = self._parent.wait()
        for fork in self._forks:
            fork.orphaned(status)


def _message(number: int | None, words: Sequence[str]) -> bytes:
    """The number of a worker and its arguments, or None and names of modules."""
    message = orjson.dumps([number, *words])
    return len(message).to_bytes(LENGTH_BYTES) + message


def main() -> None:
    from explain_sidecar.collector import settle

    control = socket.socket(fileno=int(sys.argv[1]))
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    workers: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 1_024)
            _reap(control, workers)
        if control.fileno() in ready:
            try:
                header, reports, _, _ = socket.recv_fds(control, LENGTH_BYTES, 1)
            except ConnectionResetError:  # an answer was not read
                return
            if not header:  # the supervisor is gone, and the workers know it by themselves
                return
            number, *words = orjson.loads(control.recv(int.from_bytes(header), socket.MSG_WAITALL))
            if number is None:
                for module in words:
                    import_module(module)
                settle()
                continue
            # It ends with the supervisor. A platform that tells every process to stop would else hide from it how the workers end.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                for each in (signal.SIGCHLD, signal.SIGTERM):
                    signal.signal(each, signal.SIG_DFL)
                os.close(woken)
                os.close(wake)
                control.close()
                _become([*words, *(f"--reports={end}" for end in reports)])
            workers[pid] = number
            _tell(control, number, pid)
            for end in reports:
                os.close(end)


def _reap(control: socket.socket, workers: dict[int, int]) -> None:
    while workers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        _tell(control, workers.pop(pid), os.waitstatus_to_exitcode(status))


def _tell(control: socket.socket, number: int, value: int) -> None:
    """The supervisor, if it is still there."""
    with suppress(ConnectionError):
        control.sendall(b"%d %d\n" % (number, value))


def _become(arguments: list[str]) -> None:
    """``python -m explain_sidecar.worker``, without what came before."""
    from explain_sidecar import worker

    code = 1
    try:
        os.setsid()
        sys.argv = ["explain_sidecar.worker", *arguments]
        code = worker.main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        worker.end(code)


if __name__ == "__main__":
    main()
