"""What processes share in a cache: filled once, whoever comes at the same time, is killed or fails in between."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from explain_sidecar.caches import cache_folder, filled
from explain_sidecar.errors import UserError

FILL = """
import os, sys, time
from pathlib import Path
from explain_sidecar.caches import filled

def fill(folder):
    print(os.getpid(), flush=True)
    for number in range(20):
        (folder / str(number)).mkdir(exist_ok=True)
        (folder / str(number) / "file").write_text("whole")
        time.sleep(float(sys.argv[2]))

folder = filled(Path(sys.argv[1]), fill)
assert sum(file.read_text() == "whole" for file in folder.glob("*/file")) == 20
"""


def start(folder: Path, pause: float = 0.01) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", FILL, folder, str(pause)], stdout=subprocess.PIPE, text=True
    )


def test_of_processes_that_find_a_cache_empty_one_fills_it_and_all_go_on_with_what_is_whole(
    tmp_path: Path,
) -> None:
    running = [start(tmp_path / "home" / "cache" / "jars") for _ in range(6)]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * 6
    assert sorted(bool(text) for text in printed) == [False] * 5 + [True]


def test_a_process_that_is_killed_while_it_fills_leaves_nothing_half_full_and_the_next_continues(
    tmp_path: Path,
) -> None:
    first = start(tmp_path / "jars", pause=3600)
    assert first.stdout is not None and first.stdout.readline()
    others = [start(tmp_path / "jars") for _ in range(3)]
    time.sleep(0.2)
    assert not (tmp_path / "jars").exists()
    first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    first.stdout.close()
    assert sum(bool(process.communicate()[0]) for process in others) == 1
    assert [process.returncode for process in others] == [0] * 3


def test_a_failure_is_said_and_what_is_there_already_is_what_the_next_call_gets(tmp_path: Path) -> None:
    def failing(with_error: Exception) -> Callable[[Path], None]:
        def fill(folder: Path) -> None:
            (folder / "half").touch()
            raise with_error

        return fill

    with pytest.raises(ValueError, match=r"no network"):
        filled(tmp_path / "jars", failing(ValueError("no network")))
    with pytest.raises(UserError, match=r"jars cannot be filled: .*No space left.*set XDG_CACHE_HOME"):
        filled(tmp_path / "jars", failing(OSError(28, "No space left on device")))
    found = filled(tmp_path / "jars", lambda folder: (folder / "other").touch())
    assert sorted(path.name for path in found.iterdir()) == ["half", "other"]


def test_a_folder_that_cannot_be_made_is_an_error_in_words() -> None:
    with pytest.raises(UserError, match=r"/dev/null/jars cannot be filled: .*; make room there, or set"):
        filled(Path("/dev/null/jars"), lambda folder: None)


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(UserError, match=r"no home directory.*set XDG_CACHE_HOME"):
        cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/explanation-sidecar")
