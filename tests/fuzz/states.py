"""``python -m tests.fuzz.states``: mutated states of partitions, of each family of learners; prints what became of them."""

import argparse
import random
import resource
import sys
import time
from collections import Counter

from tests.fuzz import entries

MAX_GROWTH = 200 * 1024
"""Kilobytes of resident memory by which all of them together may grow."""


def run(name: str, inputs: int, seed: int = 0) -> dict[str, int]:
    """How many states were refused, fold on, or stop at the next record in words.

    Raises ``AssertionError`` for anything else, and where memory grows.
    """
    rng, raw = random.Random(seed), entries.state_of(name)[1]
    assert entries.state(name, raw) == "folds on"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = Counter(entries.state(name, entries.mutated(raw, rng)) for _ in range(inputs))
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert growth < MAX_GROWTH, f"{growth} kB"
    return {"bytes": len(raw), **dict(sorted(found.items())), "grown by kB": growth}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="states in all")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in entries.STATES:
        started, inputs = time.thread_time(), -(-arguments.inputs // len(entries.STATES))
        found = run(name, inputs, arguments.seed)
        outcomes = ", ".join(f"{outcome} {count:,}" for outcome, count in found.items())
        seconds = time.thread_time() - started
        sys.stdout.write(f"{name}: {inputs:,} states, {outcomes}, {seconds:.0f} s of CPU\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
