"""``python -m tests.fuzz.states``: damaged states of partitions, of each family of learners and with each part; prints what became of them.

With ``--fence`` an access beyond an array of a learner or a trained model ends the process; `make fuzz-states` tries both sides. With ``--checked``
the engine has to be one that checks its bounds, as `make fuzz-checked` builds it; what it notices is a fault, also where nobody could raise it.
"""

import argparse
import faulthandler
import random
import sys
import time
import warnings
from collections import Counter

import numpy as np

from explain_core.engine import smoothing
from tests.fuzz.damage import mutated
from tests.fuzz.fence import fence
from tests.fuzz.outcomes import grown_since, resident
from tests.fuzz.partitions import SECTIONS, outcome, stored

MAX_SECONDS = 10
"""Of CPU that a state may take."""

HANG_SECONDS = 120
"""After which a state is taken for one whose kernel never returns: the process ends, and says where it was."""

ROUND = 500
"""States of a family, before the next one has its turn: a campaign that is cut short has tried all."""

GOOD = {"refused", "stopped in words", "folds on"}

_unraisable: list[str] = []
"""What compiled code noticed where it could raise nothing."""


def damaged(name: str, index: int, seed: int) -> bytes:
    """The bytes of the state with this index among those of a family: one in five is damaged in any of its bytes, the others in what they say."""
    rng = random.Random(f"{name}/{index}/{seed}")
    case = stored(name)[index % 2]
    return mutated(case.raw, rng) if rng.random() < 0.2 else case.damage.damaged(rng)


def tried(name: str, index: int, seed: int = 0) -> str:
    """What became of it; anything else than ``GOOD`` is a fault."""
    raw = damaged(name, index, seed)
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    started = time.process_time()
    try:
        found = outcome(raw, stored(name)[index % 2])
    except Exception as error:
        found = f"{type(error).__name__}: {error}"[:300]
    seconds = time.process_time() - started
    faulthandler.cancel_dump_traceback_later()
    if _unraisable:
        found = f"unraisable: {_unraisable[0]}"
        _unraisable.clear()
    return found if seconds < MAX_SECONDS else f"{found}, after {seconds:.0f} s of CPU"


def campaign(inputs: int, seed: int, first: int, families: list[str]) -> int:
    """Try so many states of each family, from the first on; returns how many were at fault."""
    for name in families:
        for case in stored(name):
            try:
                assert outcome(case.raw, case) == "folds on"
            except Exception as error:
                raise AssertionError(f"{name}: the state that is damaged: {error}") from error
    before, faults = resident(), 0
    totals: dict[str, Counter[str]] = {name: Counter() for name in families}
    for start in range(first, first + inputs, ROUND):
        for name in families:
            for index in range(start, min(start + ROUND, first + inputs)):
                found = tried(name, index, seed)
                totals[name][found if found in GOOD else "faults"] += 1
                if found not in GOOD:
                    faults += 1
                    _tell(f"{name}, state {index}: {found}")
        count = sum(map(Counter.total, totals.values()))
        _tell(f"{count:,} states, {faults} at fault, grown by {grown_since(before):,} kB")
    for name, outcomes in totals.items():
        _tell(f"{name}: " + ", ".join(f"{what} {n:,}" for what, n in sorted(outcomes.items())))
    return faults


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def checks() -> bool:
    """Whether the engine notices that there are no rows where it looks for some."""
    try:
        smoothing.means_of_sums(np.zeros((1, 1)), 0.0, np.empty((5, 1)))
    except IndexError:
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="states in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="of each family's states the first to try")
    parser.add_argument("--family", choices=SECTIONS, action="append", help="these families alone")
    parser.add_argument("--fence", choices=("after", "before"), help="on this side of each array")
    parser.add_argument("--checked", action="store_true", help="by an engine that checks its bounds")
    arguments = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")  # a damaged state's numbers overflow
    sys.unraisablehook = lambda about: _unraisable.append(f"{about.exc_value!r}, {about.object!r}")
    if arguments.checked and not checks():
        sys.exit("the engine does not check its bounds: make fuzz-checked builds one that does")
    if arguments.fence:
        fence(arguments.fence)
    families = arguments.family or list(SECTIONS)
    return (
        1 if campaign(-(-arguments.inputs // len(families)), arguments.seed, arguments.first, families) else 0
    )


if __name__ == "__main__":
    sys.exit(main())
