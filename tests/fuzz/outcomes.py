"""What became of many bad inputs: memory that stays bounded, and a line for each kind of them."""

import resource
import sys
import time
from collections.abc import Callable, Mapping

MAX_GROWTH = 200_000
"""Kilobytes of resident memory that the inputs of one run may take at most."""


def resident() -> int:
    """The most that the process has held so far, in kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def grown_since(before: int) -> int:
    """Kilobytes. Raises ``AssertionError`` where they are too many."""
    growth = resident() - before
    assert growth < MAX_GROWTH, f"{growth} kB"
    return growth


def tell(name: str, inputs: int, what: str, run: Callable[[], Mapping[str, int]]) -> None:
    """Run, and print how many inputs of this name had which outcome."""
    started = time.thread_time()
    outcomes = ", ".join(f"{outcome} {count:,}" for outcome, count in run().items())
    seconds = time.thread_time() - started
    sys.stdout.write(f"{name}: {inputs:,} {what}, {outcomes}, {seconds:.0f} s of CPU\n")
    sys.stdout.flush()
