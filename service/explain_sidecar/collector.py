"""Python's collector of cyclic garbage, as a process needs it that keeps many records and makes few cycles."""

import gc

THRESHOLD = 50_000
"""New objects until the next collection; Python's own 700 are those of a dozen records, none of them in a cycle."""


def settle() -> None:
    """Collect, let what is left rest for good, and collect seldom from now on.

    Else each collection of all objects visits the imported modules too: a window of 10,000 records pays for it with a tenth of a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(THRESHOLD)
