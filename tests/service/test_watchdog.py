"""A worker that hangs is ended, so that its partitions go to a worker that lives."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from explain_sidecar import worker
from explain_sidecar.commands import supervisor
from explain_sidecar.errors import UserError
from explain_sidecar.forks import Fork, Forks
from explain_sidecar.kafka import operators
from explain_sidecar.settings import Settings

HANGS = """
import re, signal, sys
from explain_sidecar import worker
worker.HANG_SECONDS = 1.0
life = worker.Life()
signal.signal(signal.SIGTERM, lambda number, frame: life.stop())
life()
re.match("(a|a)*b", "a" * 100)  # it does not end, and no other thread runs meanwhile
"""

DEAF = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"


@pytest.fixture
def life() -> Iterator[worker.Life]:
    yield worker.Life()
    signal.setitimer(signal.ITIMER_REAL, 0)


def left() -> float:
    """Seconds until the process would be ended."""
    return signal.getitimer(signal.ITIMER_REAL)[0]


def test_a_loop_that_hangs_and_holds_the_lock_of_the_interpreter_is_ended_and_says_where_it_was() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGS], stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == -signal.SIGALRM
    assert 'File "<string>", line 8 in <module>' in ended.stderr


def test_a_fault_in_compiled_code_says_where_the_loop_was() -> None:
    code = "import ctypes\nfrom explain_sidecar import worker\nworker.Life()\nctypes.string_at(0)"
    ended = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == -signal.SIGSEGV
    assert 'File "<string>", line 4 in <module>' in ended.stderr


def test_each_sign_of_life_gives_a_loop_the_whole_time_again(life: worker.Life) -> None:
    life()
    assert 0 < left() <= worker.HANG_SECONDS <= 60
    signal.setitimer(signal.ITIMER_REAL, 3_600)
    life()
    assert 0 < left() <= worker.HANG_SECONDS


def test_a_loop_that_is_told_to_stop_is_ended_within_the_time_a_platform_grants(life: worker.Life) -> None:
    life()
    life.stop()
    assert 0 < left() <= worker.STOP_SECONDS < supervisor.KILL_SECONDS < 30
    life()
    assert 0 < left() <= worker.STOP_SECONDS


def test_a_loop_that_lives_but_gets_no_answer_stops_with_a_message(
    life: worker.Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(worker.time, "monotonic", lambda: now[0])
    life()
    life.stop()
    now[0] += worker.STOP_SECONDS + 1
    with pytest.raises(UserError, match="stopped without a last commit"):
        life()
    life()  # it may leave in order

    now[0] += worker.LEAVE_SECONDS + 1
    with pytest.raises(UserError, match="stopped without a last commit"):
        life()  # and does not wait for ever for a broker that is gone


class Child:
    """A process in place of a worker's; it seems to run when it is looked at first, even where it has ended."""

    def __init__(self, code: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.pid, self.send_signal, self._looked = self._process.pid, self._process.send_signal, False
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self._process.wait()

    def poll(self) -> int | None:
        looked, self._looked = self._looked, True
        return self._process.poll() if looked else None


class Children(Forks):
    def __init__(self, codes: list[str]) -> None:
        self._forks, self._codes = [], codes

    def start(self, arguments: Sequence[str], reports: int | None) -> Fork:
        self._forks.append(cast(Fork, Child(self._codes[int(arguments[1])])))
        return self._forks[-1]


def supervised(*codes: str, restarts: int = 0) -> int:
    """The status of a supervisor whose workers run this code."""
    settings = Settings(workers={"restarts": restarts})
    return supervisor.Supervisor(
        settings, None, None, [("fold", slot) for slot in range(len(codes))], False, Children(list(codes))
    ).run()


def test_a_worker_that_does_not_stop_is_killed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervisor, "KILL_SECONDS", 0.1)
    assert supervised(DEAF, "raise SystemExit(3)") == 1  # which stops the other
    assert "worker 0 was ended by signal 9" in capsys.readouterr().err


def test_a_worker_that_is_killed_too_often_ends_the_run_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    released: list[int] = []
    monkeypatch.setattr(operators, "release", lambda settings, slot: released.append(slot))
    assert supervised("import os; os.kill(os.getpid(), 9)", restarts=1) == 1
    assert (
        "error: worker 0 was ended by signal 9, as by a machine that is out of memory, 2 times within 10 minutes, "
        "and workers.restarts is 1; the others were stopped, start the sidecar again: nothing is lost\n"
    ) in capsys.readouterr().err
    assert released == [0]


def test_a_worker_that_hung_is_said_to_have_hung(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert supervised(HANGS) == 1
    assert "worker 0 showed no sign of life and was ended" in capsys.readouterr().err


def test_the_process_that_forks_ends_quietly_where_the_supervisor_is_killed_before_it_hears_of_a_worker() -> (
    None
):
    program = (
        "import os, select; from explain_sidecar.forks import Forks; forks = Forks(); forks.start(['--slot', '0', '--stage', 'join'], None); "
        "select.select([forks._control], [], []); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == -9 and "Traceback" not in done.stderr
