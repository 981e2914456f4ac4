"""The free rows of pools: they are zero, so that only their numbers are stored."""

from __future__ import annotations

import numpy as np

from explain_core.engine.states import apart, scattered
from explain_core.learners.arrays import Array, grown
from explain_core.state import check

Pools = dict[int, tuple[str, ...]]
"""The arrays that have a row for each of a pool; in the first are those that are free."""

MOST_BYTES = 2**29
"""Of a learner's arrays with their free rows, of which a snapshot of few bytes could name many."""


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
