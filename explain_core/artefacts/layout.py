"""How an ensemble of trees lies in arrays, and what becomes of the sums over its trees."""

SLOTS = (
    "head", "leaves", "base", "numbers", "sets", "words", "nodes", "trees",
    "spans", "limits", "owners", "stays", "marks", "firsts", "runs", "narrow",
)  # fmt: skip
"""Slots of the table. ``nodes`` have 16 bytes each: it is half of a walk's time to fetch them.

They and ``trees`` are for walks; the slots after them for ``explain_core.artefacts.shallow``. An ensemble has those of one kind alone.
"""

COLUMN, CHILD = 2, 3
"""Of a node as four 32-bit integers, after the threshold, which is a double: the feature and flags, and the left child, which the right one follows.

A leaf has −1 for the first and its row of ``leaves`` for the second. ``x ≤ threshold`` goes left.
"""

FLAG_BITS = 4
"""Below the feature in ``COLUMN``."""

DEFAULT_LEFT, CATEGORICAL, NAN_IS_ZERO, ZERO_IS_MISSING = 1, 2, 4, 8
"""Flags: where a missing value goes; whether the threshold is the row of ``sets`` whose categories go left; what is missing."""

LINKS = (
    "identity",
    "sigmoid",
    "softmax",
    "each_sigmoid",
    "exp",
    "mean",
    "share",
    "step",
    "square",
    "log1p_exp",
    "complement",
)
"""From sums over trees to predictions. ``mean`` is divided by the one number, ``share`` then by the sum over classes; the number of
a sigmoid is its steepness; ``complement`` is the probability of the second of two classes."""
