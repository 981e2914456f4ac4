"""``python -m tests.fuzz.states``: mutated states of partitions, of each family of learners; prints what became of them."""

import argparse
import random
from collections import Counter
from functools import partial

from tests.fuzz import entries
from tests.fuzz.outcomes import grown_since, resident, tell


def run(name: str, inputs: int, seed: int = 0) -> dict[str, int]:
    """How many states were refused, fold on, or stop at the next record in words.

    Raises ``AssertionError`` for anything else, and where memory grows.
    """
    rng, raw = random.Random(seed), entries.state_of(name)[1]
    assert entries.state(name, raw) == "folds on"
    before = resident()
    found = Counter(entries.state(name, entries.mutated(raw, rng)) for _ in range(inputs))
    return {"bytes": len(raw), **dict(sorted(found.items())), "grown by kB": grown_since(before)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="states in all")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    inputs = -(-arguments.inputs // len(entries.STATES))
    for name in entries.STATES:
        tell(name, inputs, "states", partial(run, name, inputs, arguments.seed))


if __name__ == "__main__":
    main()
