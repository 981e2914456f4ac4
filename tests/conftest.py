"""Settings that hold for every test."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from explain_sidecar.pinned import PINNED
from tests.documentation import ROOT

# The oracle computes in this process what the workers compute in theirs: with the same instructions, which numpy chooses when it is imported.
assert "numpy" not in sys.modules or PINNED.items() <= os.environ.items(), "numpy was imported too early"
os.environ.update(PINNED)
# A shell starts what runs in its background deaf to Ctrl-C, nohup deaf to a hang-up, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The same examples in every run of CI; no deadline, for the machines are noisy.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

LONGEST = ("crash", "broker", "test_installation.py", "test_distribution.py", "experiments")
"""The longest files, and folders of them."""
WAITING = {"crash", "broker"}
"""Folders of tests that wait most of their time."""

SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text().split())
"""The tests that need no broker and take half a second of CPU or more, with all their parameters: `make check` leaves them out."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    from benchmarks.browser import launch

    with sync_playwright() as playwright:
        launched = launch(playwright)
        yield launched
        launched.close()


def pytest_configure() -> None:
    """Modules compiled of other sources than those that are here read and write beyond their arrays."""
    stamp, sources = ROOT / ".venv" / "engine", ROOT.glob("explain_core/engine/*.p[yx][xd]")
    if stamp.exists() and stamp.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        raise pytest.UsageError("explain_core/engine has changed since it was compiled: run make engine")


@pytest.hookimpl(tryfirst=True)  # before those with the marker are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no process is left with one of them at the end; those that wait among those that compute."""
    files = sorted(
        dict.fromkeys(item.path for item in items),
        key=lambda path: next((i for i, name in enumerate(LONGEST) if name in path.parts), len(LONGEST)),
    )
    waiting = [path for path in files if not WAITING.isdisjoint(path.parts)]
    computing = [path for path in files if WAITING.isdisjoint(path.parts)]
    places = {path: 0.5 * place / len(waiting) for place, path in enumerate(waiting)}
    places |= {path: place / len(computing) for place, path in enumerate(computing)}
    items.sort(key=lambda item: places[item.path])
    for item in items:
        if item.nodeid.partition("[")[0] in SLOW:
            item.add_marker("slow")
