import subprocess
import sys
import threading
from pathlib import Path

import pytest

from explain_sidecar import warm
from explain_sidecar.settings import Settings


def test_processes_share_the_parts_out_and_wait_for_each_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_compile, order = threading.Barrier(2), []

    def part(name: str) -> None:
        if name not in order:
            both_compile.wait(30)  # the one compiles this part while the other compiles the other part
            order.append(name)
        else:
            order.append(f"{name} is loaded")

    monkeypatch.setattr(warm, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(warm, "_parts", lambda _: [("a", lambda: part("a")), ("b", lambda: part("b"))])
    threads = [threading.Thread(target=warm.warm_up, args=(Settings(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {*order[:2]} == {"a", "b"} and sorted(order[2:]) == ["a is loaded", "b is loaded"]
    assert not both_compile.broken


def test_whoever_waits_for_a_part_waits_until_it_is_compiled_and_then_goes_on_with_the_others(
    tmp_path: Path,
) -> None:
    entered, leave, inside = threading.Event(), threading.Event(), threading.Barrier(3)
    order = []

    def first() -> None:
        with warm._turn(tmp_path, "model") as mine:
            assert mine
            order.append("first in")
            entered.set()
            leave.wait(30)
            order.append("first out")

    def other() -> None:
        with warm._turn(tmp_path, "model", wait=True):
            order.append("other in")
            inside.wait(30)  # all the others are within at the same time

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert entered.wait(30)
    with warm._turn(tmp_path, "model") as mine, warm._turn(tmp_path, "drift") as another:
        assert not mine and another
    threads += [threading.Thread(target=other) for _ in range(3)]
    for thread in threads[1:]:
        thread.start()
        thread.join(0.1)
    assert order == ["first in"]
    leave.set()
    for thread in threads:
        thread.join(30)
    assert order == ["first in", "first out", *["other in"] * 3] and not inside.broken


def test_a_folder_that_cannot_be_written_to_keeps_nobody_out() -> None:
    nowhere = Path("/dev/null/nowhere")
    with warm._turn(nowhere, "model") as first, warm._turn(nowhere, "model") as second:
        assert first and second


def test_whoever_has_no_home_directory_compiles_everything_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    compiled: list[str] = []
    monkeypatch.setattr(warm, "_parts", lambda _: [("a", lambda: compiled.append("a"))])
    warm.warm_up(Settings())
    assert compiled == ["a"]


FOLD = """
import gc, orjson
from numba.core.dispatcher import Dispatcher
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings
from explain_sidecar.warm import warm_up

def compiled():
    ours = (f for f in gc.get_objects() if isinstance(f, Dispatcher) and f.py_func.__module__.startswith("explain_core"))
    return {(f.py_func.__module__, f.__name__, str(signature)) for f in ours for signature in f.overloads}

tree = {"factory": "river.tree:HoeffdingAdaptiveTreeClassifier"}
by_segment = {"kind": "ipfi", "by": "c", "name": "segments"}
for settings in (
    Settings(),
    Settings(challenger=tree, alarms={"enabled": True}, explainers=[{"kind": "ipfi"}, {"kind": "isage"}, by_segment]),
    Settings(model={"task": "regression"}),
):
    warm_up(settings)
    warmed, state, sent = compiled(), PartitionState(settings, 0), 0
    for i in range(1_000):
        x = {"a": i * 7 % 11, "b": i * 13 % 17, "c": "xyz"[i % 3], "label": i % 11 > 5}
        sent += len(state.step(InputRecord(i, i, None, orjson.dumps(x))))
    assert warmed and sent, (len(warmed), sent)
    assert compiled() == warmed, compiled() - warmed
"""


def test_what_is_compiled_before_the_first_record_is_all_that_records_take() -> None:
    """Else the first explanation waits for a compiler, and an image on a read-only file system compiles at each start."""
    run = subprocess.run([sys.executable, "-c", FOLD], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
