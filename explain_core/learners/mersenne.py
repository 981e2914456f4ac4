"""CPython's ``random.Random`` in compiled code: the Mersenne twister, ``random``, ``sample``, and river's Poisson draws."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from explain_core.compiling import allocating, inlined, inner
from explain_core.learners.arrays import Array
from explain_core.learners.layout import POSITION

_UPPER, _LOWER, _TWIST = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(0x9908B0DF)
_MASK_1, _MASK_2 = np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
_1, _5, _6, _7, _11 = np.uint32(1), np.uint32(5), np.uint32(6), np.uint32(7), np.uint32(11)
_15, _18 = np.uint32(15), np.uint32(18)
SIZE = 624


def state_of(generator: random.Random) -> tuple[Array, int]:
    """The words of a generator, and its position in them."""
    words = generator.getstate()[1]
    return np.array(words[:SIZE], np.uint32), words[SIZE]


@inlined
def word(words: Any, head: Any) -> Any:
    """The next 32 bits."""
    position = head[0, POSITION]
    if position >= SIZE:
        for i in range(SIZE):
            y = (words[0, i] & _UPPER) | (words[0, (i + 1) % SIZE] & _LOWER)
            value = words[0, (i + 397) % SIZE] ^ (y >> _1)
            if y & _1:
                value = value ^ _TWIST
            words[0, i] = value
        position = 0
    y = words[0, position]
    head[0, POSITION] = position + 1
    y = y ^ (y >> _11)
    y = y ^ ((y << _7) & _MASK_1)
    y = y ^ ((y << _15) & _MASK_2)
    y = y ^ (y >> _18)
    return np.uint32(y)


@inlined
def uniform(words: Any, head: Any) -> Any:
    """``random()``."""
    a, b = word(words, head) >> _5, word(words, head) >> _6
    return (np.float64(a) * 67108864.0 + np.float64(b)) * (1.0 / 9007199254740992.0)


@inner
def poisson(limit: float, words: Any, head: Any) -> Any:
    """``river.utils.random.poisson``; ``limit`` is exp(−rate)."""
    k, p = 0, 1.0
    while p > limit:
        k += 1
        p *= uniform(words, head)
    return k - 1


@inner
def below(n: int, words: Any, head: Any) -> Any:
    """``randrange(n)``."""
    bits, rest = 0, n
    while rest > 0:
        bits += 1
        rest >>= 1
    value = np.int64(word(words, head) >> np.uint32(32 - bits))
    while value >= n:
        value = np.int64(word(words, head) >> np.uint32(32 - bits))
    return value


@allocating
def sample(n: int, k: int, copied: int, out: Any, words: Any, head: Any) -> None:
    """``sample(range(n), k)`` into ``out``; a population of no more than ``copied`` is copied."""
    if n <= copied:
        pool = np.arange(n)
        for i in range(k):
            j = below(n - i, words, head)
            out[i] = pool[j]
            pool[j] = pool[n - i - 1]
        return
    for i in range(k):
        again, j = True, 0
        while again:
            j = below(n, words, head)
            again = False
            for other in range(i):
                again = again or out[other] == j
        out[i] = j
