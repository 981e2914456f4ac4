"""The stored arrays of a tree learner: without the free rows of pools, which are zero, so that only their numbers are stored; and whether arrays from a snapshot
are those of one: every shape, index and chain, before compiled code follows one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from explain_core.engine.states import Check, apart, scattered
from explain_core.learners import layout as at
from explain_core.learners.arrays import Array, Arrays, grown
from explain_core.state import LARGEST_COUNT, StateError, check, within

if TYPE_CHECKING:
    from explain_core.learners.tree import TreeLearner

Pools = dict[int, tuple[str, ...]]
"""The arrays that have a row for each of a pool; in the first are those that are free."""

MOST_BYTES = 2**29
"""Of a learner's arrays with their free rows, of which a snapshot of few bytes could name many."""

_BY_CLASS = {"stats": 1, "classes": 2, "seen": 1}
"""The arrays that are as many times as wide as there is room for classes."""
_UNBOUNDED = {
    "numbers",
    "cells",
    "splits",
    "weights",
    "models",
    "norms",
    "errors",
    "accuracy",
    "windows",
    "buckets",
}
"""The arrays of doubles that overflow where records are very large."""
DERIVED = at.N_CLASSES, at.N_TREES, at.POSITIVE, at.NEGATIVE, *range(at.NEED_NODES, at.POOLS)
"""Columns of ``head`` that follow from the model, the labels and the columns."""


def sound(learner: TreeLearner, arrays: dict[str, Array]) -> Arrays:
    """The stored arrays as a table, for a learner that has learnt nothing, with the labels and columns of the state.

    Raises ``StateError`` where they are not a state of it.
    """

    def no(what: str) -> StateError:
        return StateError(f"{learner.kind}: {what}")

    own, columns = learner.arrays, learner.columns
    pooled = set().union(*learner.pools.values())
    classes, least = learner.n_classes, own["stats"].shape[1]
    room = arrays["stats"].shape[1]
    if room < max(classes, least) or room > 2 * max(classes, least):
        raise no(f"stats: room for {room} classes, and there are {classes}")
    for name, array in arrays.items():
        mine = own[name]
        width = room * _BY_CLASS[name] if name in _BY_CLASS else mine.shape[-1]
        if name == "leaves":
            width = at.N_LEAF + (
                int(arrays["head"][0, at.N_FEATURES]) if arrays["head"].shape == own["head"].shape else 0
            )
        if name == "models" and learner.has_models:
            width = len(columns.names)
        if array.shape[-1] != width or (name not in pooled and len(array) != len(mine)):
            raise no(f"{name}: its shape is {array.shape}")
        if array.dtype == np.float64 and name not in _UNBOUNDED and not np.isfinite(array).all():
            raise no(f"{name}: a number is not finite")
        if width == 0:  # rows without cells: compiled code takes those that are there for rows with some
            arrays[name] = mine
    arrays["head"][0, DERIVED] = own["head"][0, DERIVED]
    head, names = arrays["head"][0], columns.names
    if not 0 <= head[at.N_FEATURES] <= max(1, len(names)) or not 0 <= head[at.POSITION] <= 624:
        raise no("head: a number is out of range")
    forest, drawn = len(arrays["members"]) > 0, head[at.N_FEATURES] > 0
    if (drawn and not forest) or (forest and len(arrays["nodes"]) > 0 and not drawn):
        raise no("head: features drawn, and no forest")
    for name, few in (("seen", arrays["seen"]), ("classes", arrays["classes"][:, room:])):
        if few.size and not (few.min() >= 0 and few.max() <= 1):
            raise no(f"{name}: a number is neither 0 nor 1")
    within("counters", arrays["counters"], 0, LARGEST_COUNT + 1)
    words = arrays["generator"]
    if words.size and not words[0] >> 31 and not words[1:].any():  # it would give zeros without end
        raise no("generator: it has no state")
    masks = put_free(arrays, learner.pools)
    found = Arrays(**{**own.items(), **arrays})
    sizes = np.array([len(columns.codes.get(name, "")) for name in names], np.int64)
    nominal = np.array([name in columns.codes for name in names], np.int64)
    fault = Check(found.table, classes, sizes, nominal, masks).fault()
    if fault == 0 and not all(mask.all() for mask in masks):
        fault = 3
    if fault:
        raise no(f"its {('', 'trees', 'leaves', 'rows', 'detectors', 'members')[fault]} do not hold together")
    return found


def without_free(arrays: dict[str, Array], pools: Pools) -> dict[str, Array]:
    """The arrays without rows that are free, or have never been taken.

    Raises ``StateError`` for arrays so large that they would not be restored.
    """
    size = sum(array.nbytes for array in arrays.values())
    check(size <= MOST_BYTES, f"the model's arrays have {size} bytes, and may have {MOST_BYTES}")
    head, found = arrays["head"], dict(arrays)
    for pool, (free, *others) in pools.items():
        found[free] = arrays[free][: head[0, pool + 1]]
        _, used = apart(found[free], head[0, pool])
        for name in others:
            if arrays[name].shape[1]:
                found[name] = arrays[name].take(used, axis=0)
    return found


def put_free(arrays: dict[str, Array], pools: Pools) -> list[Array]:
    """Put the free rows among the others; 1 for each row of a pool that is free, else 0. Raises ``StateError`` where they do not fit."""
    head, masks, room = arrays["head"], [], MOST_BYTES
    for pool, (free, *others) in pools.items():
        rows, names = arrays[free], [name for name in others if arrays[name].shape[1]]
        size = len(rows) + max((len(arrays[name]) for name in names), default=0)
        check(
            head[0, pool : pool + 2].tolist() == [size, len(rows)]
            and all(len(rows) + len(arrays[name]) == size for name in names),
            f"{others[0]}: not as many rows as the head says",
        )
        room -= 8 * size * (1 + sum(arrays[name].shape[1] for name in names))
        check(room >= 0, f"the model's arrays have more than {MOST_BYTES} bytes")
        mask, used = apart(rows, size)
        check(len(used) == size - len(rows), f"{free}: a row twice, or none of the pool")
        masks.append(mask)
        arrays[free] = grown(rows, size)
        if len(rows):
            for name in names:
                full = scattered(arrays[name].view(np.int64), used, size)
                arrays[name] = full.view(arrays[name].dtype)
    return masks
