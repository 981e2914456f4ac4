"""CPython's ``random.Random`` as words: compiled code draws on as Python would."""

from __future__ import annotations

import random

import numpy as np

from explain_core.learners.arrays import Array

SIZE = 624


def state_of(generator: random.Random) -> tuple[Array, int]:
    """The words of a generator, and its position in them."""
    words = generator.getstate()[1]
    return np.array(words[:SIZE], np.uint32), words[SIZE]
