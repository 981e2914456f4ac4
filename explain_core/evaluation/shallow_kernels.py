"""iPFI and iSAGE of an ensemble of shallow trees in one compiled call, by sets of bits; see ``explain_core.artefacts.shallow_kernels``.

The leaves that are left of a copy are those that each of its columns leaves. So the record's columns are dealt with once, those that a copy
has from elsewhere for the copy, and the rest is what the columns before and those after have in common.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explain_core.artefacts.kernels import BASE, CLASSES, FIRSTS, HEAD, finish
from explain_core.artefacts.shallow_kernels import ALL, TOGETHER, common, fill, narrow, word_sums
from explain_core.compiling import compiled, inner
from explain_core.evaluation.learned_kernels import (
    COLUMNS,
    COUNTS,
    EMPTY,
    ORDER,
    OUTSIDE,
    PFI_DRAWS,
    SAGE_DRAWS,
    STARTS,
    explained,
    joining_copies,
    replaced_copies,
)
from explain_core.kernels import put
from explain_core.learners.arrays import f8, held, held_integers, i8


@inner
def own_words(plan: Any, table: Any, own_row: Any, words: Any, shared: Any) -> None:
    """What the record's values leave: by player, and of the columns that are no player's."""
    row, of_player = held(own_row), held_integers(words)
    starts, columns, outside = i8(plan, STARTS), i8(plan, COLUMNS), i8(plan, OUTSIDE)
    left = held_integers(shared)[0]
    fill(left, ALL)
    for i in range(outside.shape[1]):
        narrow(table, left, outside[0, i], row[0, outside[0, i]])
    for p in range(starts.shape[1] - 1):
        fill(of_player[p], ALL)
        for i in range(starts[0, p], starts[0, p + 1]):
            narrow(table, of_player[p], columns[0, i], row[0, columns[0, i]])


@inner
def replaced_words(plan: Any, table: Any, own_copies: Any, own: Any, running: Any, words: Any) -> None:
    """What is left of a record and of iPFI's copies of it; ``running`` begins with the columns that are no player's."""
    copies, of_player, left = held(own_copies), held_integers(own), held_integers(words)
    around, m = held_integers(running)[1], i8(plan, COUNTS)[0, PFI_DRAWS]
    starts, columns = i8(plan, STARTS), i8(plan, COLUMNS)
    players = starts.shape[1] - 1
    put(held_integers(running)[0], around)
    for p in range(players - 1, -1, -1):  # the players after this one
        for c in range(1 + p * m, 1 + (p + 1) * m):
            put(around, left[c])
        common(around, of_player[p])
    put(around, left[0])
    fill(around, ALL)
    for p in range(players if m > 0 else 0):  # those before it, and its own values
        for c in range(1 + p * m, 1 + (p + 1) * m):
            common(left[c], around)
            for i in range(starts[0, p], starts[0, p + 1]):
                narrow(table, left[c], columns[0, i], copies[c, columns[0, i]])
        common(around, of_player[p])


@inner
def joining_words(plan: Any, table: Any, own_copies: Any, own: Any, running: Any, words: Any) -> None:
    """What is left of iSAGE's copies: of the record's values of the players that have joined, and of the drawn row's of the others."""
    copies, of_player, left = held(own_copies), held_integers(own), held_integers(words)
    around, m = held_integers(running)[1], i8(plan, COUNTS)[0, SAGE_DRAWS]
    starts, columns, order = i8(plan, STARTS), i8(plan, COLUMNS), i8(plan, ORDER)
    players, since = order.shape[1], 1 if f8(plan, EMPTY).shape[1] > 0 else 0
    for k in range(m):
        put(held_integers(running)[0], around)
        for place in range(players - 1, since - 1, -1):
            p = order[0, place]
            for i in range(starts[0, p], starts[0, p + 1]):
                narrow(table, around, columns[0, i], copies[k, columns[0, i]])
            put(around, left[(place - since) * m + k])
    fill(around, ALL)
    for place in range(players):
        for c in range((place - since) * m, (place - since + 1) * m):
            if c >= 0:
                common(left[c], around)
        common(around, of_player[order[0, place]])


@compiled
def explain(plan: Any, table: Any, x: Any, y: float) -> Any:
    """iPFI and iSAGE of an ensemble; see ``explain_core.evaluation.learned_kernels.explained``."""
    copies, joining = replaced_copies(plan, x), joining_copies(plan, x)
    n, outputs, trees = i8(table, HEAD)[0, CLASSES], f8(table, BASE).shape[1], i8(table, FIRSTS).shape[1]
    first, second = np.empty((len(copies), n)), np.empty((len(joining), n))
    own, running = np.empty((i8(plan, STARTS).shape[1], trees), np.int64), np.empty((2, trees), np.int64)
    words = np.empty((max(len(copies), len(joining), TOGETHER), trees), np.int64)
    own_words(plan, table, copies, own, running)
    sums = np.empty((outputs, len(copies)))
    replaced_words(plan, table, copies, own, running, words)
    word_sums(table, words, sums)
    finish(table, sums, first)
    if len(joining) > 0:
        sums = np.empty((outputs, len(joining)))
        joining_words(plan, table, joining, own, running, words)
        word_sums(table, words, sums)
        finish(table, sums, second)
    return explained(plan, first, second, y)
