"""ADWIN in compiled code, as river's: Bifet and Gavaldà (2007), "Learning from time-changing data with adaptive windowing".

A detector's window is a chain of rows of buckets, from the newest to the oldest. Each bucket of a row holds twice the records of
one in the row before, as their sum and their variance times their number.
"""

from __future__ import annotations

import math
from typing import Any

from explain_core.compiling import inlined, inner
from explain_core.learners import layout as at
from explain_core.learners.arrays import f8, i8
from explain_core.learners.layout import give, take


@inner
def reset(table: Any, head: Any, window: int) -> None:
    """Empty a detector's window; that of a row that is zero but for its pool is empty."""
    ends, chains, buckets = i8(table, at.ENDS), i8(table, at.CHAINS), f8(table, at.BUCKETS)
    row = ends[window, at.NEWEST] if f8(table, at.WINDOWS)[window, at.WIDTH] > 0.0 else -1
    while row >= 0:
        after = chains[row, at.OLDER]
        buckets[row, :] = 0.0
        give(table, head, at.BUCKET_POOL, chains, row)
        row = after
    f8(table, at.WINDOWS)[window, :] = 0.0
    ends[window, :] = 0
    ends[window, at.NEWEST] = -1
    ends[window, at.OLDEST] = -1


@inlined
def append_row(table: Any, head: Any, ends: Any, chains: Any, window: int) -> Any:
    """A row without buckets at the old end."""
    row = take(table, head, at.BUCKET_POOL)
    last = ends[window, at.OLDEST]
    chains[row, at.BUCKET_COUNT] = 0
    chains[row, at.NEWER] = last
    chains[row, at.OLDER] = -1
    if last < 0:
        ends[window, at.NEWEST] = row
    else:
        chains[last, at.OLDER] = row
    ends[window, at.OLDEST] = row
    return row


@inlined
def shift(buckets: Any, chains: Any, row: int, n: int) -> None:
    """Take the first n buckets off a row."""
    half = buckets.shape[1] // 2
    count = chains[row, at.BUCKET_COUNT]
    for i in range(count):
        buckets[row, i] = buckets[row, i + n] if i + n < count else 0.0
        buckets[row, half + i] = buckets[row, half + i + n] if i + n < count else 0.0
    chains[row, at.BUCKET_COUNT] = count - n


@inlined
def compress(table: Any, head: Any, ends: Any, chains: Any, buckets: Any, window: int, most: int) -> None:
    """Merge the two oldest buckets of each row that has too many."""
    half = buckets.shape[1] // 2
    row, n = ends[window, at.NEWEST], 1.0
    while chains[row, at.BUCKET_COUNT] == most + 1:
        first, second = buckets[row, 0], buckets[row, 1]
        apart = first / n - second / n
        variance = buckets[row, half] + buckets[row, half + 1] + n * 0.5 * apart * apart
        following = chains[row, at.OLDER]
        if following < 0:
            following = append_row(table, head, ends, chains, window)
        i = chains[following, at.BUCKET_COUNT]
        buckets[following, i] = first + second
        buckets[following, half + i] = variance
        chains[following, at.BUCKET_COUNT] = i + 1
        shift(buckets, chains, row, 2)
        if i + 1 <= most:
            break
        row = following
        n *= 2.0


@inlined
def cut(
    strictness: float, shortest: float, variance: float, u0: float, n0: float, u1: float, n1: float
) -> Any:
    """Whether the means of the two parts of the window differ too much."""
    if n1 < shortest or n0 < shortest:
        return False
    recip = 1.0 / (n0 - shortest + 1.0) + 1.0 / (n1 - shortest + 1.0)
    bound = math.sqrt(2.0 * recip * variance * strictness)
    bound += 2.0 / 3.0 * strictness * recip
    return abs(u0 / n0 - u1 / n1) > bound


@inlined
def differs(
    windows: Any, parameters: Any, ends: Any, chains: Any, buckets: Any, window: int, kind: int
) -> Any:
    """Whether the window can be cut in two whose means differ too much."""
    n0, n1, u0, u1 = 0.0, windows[window, at.WIDTH], 0.0, windows[window, at.TOTAL]
    variance = windows[window, at.VARIANCE] / n1
    strictness = math.log(2.0 * math.log(n1) / parameters[kind, at.SIGNIFICANCE])
    row, size = ends[window, at.NEWEST], 1.0
    while chains[row, at.OLDER] >= 0:
        row = chains[row, at.OLDER]
        size *= 2.0
    while row >= 0:
        for i in range(chains[row, at.BUCKET_COUNT]):
            n0 += size
            n1 -= size
            u0 += buckets[row, i]
            u1 -= buckets[row, i]
            if chains[row, at.NEWER] < 0 and i == chains[row, at.BUCKET_COUNT] - 1:
                return False
            if cut(strictness, parameters[kind, at.SHORTEST], variance, u0, n0, u1, n1):
                return True
        row = chains[row, at.NEWER]
        size *= 0.5
    return False


@inner
def drop_oldest(
    table: Any, head: Any, windows: Any, ends: Any, chains: Any, buckets: Any, window: int
) -> None:
    """Take the oldest bucket off the window."""
    row, n, of = ends[window, at.OLDEST], 1.0, ends[window, at.NEWEST]
    while of != row:
        of = chains[of, at.OLDER]
        n *= 2.0
    u, variance = buckets[row, 0], buckets[row, buckets.shape[1] // 2]
    windows[window, at.WIDTH] -= n
    windows[window, at.TOTAL] -= u
    width = windows[window, at.WIDTH]
    apart = u / n - windows[window, at.TOTAL] / width
    windows[window, at.VARIANCE] -= variance + n * width * apart * apart / (n + width)
    shift(buckets, chains, row, 1)
    if chains[row, at.BUCKET_COUNT] == 0:
        newer = chains[row, at.NEWER]
        buckets[row, :] = 0.0
        give(table, head, at.BUCKET_POOL, chains, row)
        ends[window, at.OLDEST] = newer
        if newer >= 0:
            chains[newer, at.OLDER] = -1
        else:
            ends[window, at.NEWEST] = -1


@inner
def update(table: Any, head: Any, window: int, kind: int, value: float) -> Any:
    """``ADWIN.update``: whether a drift is detected."""
    windows, ends, chains = f8(table, at.WINDOWS), i8(table, at.ENDS), i8(table, at.CHAINS)
    buckets, parameters = f8(table, at.BUCKETS), f8(table, at.DETECTORS)
    if ends[window, at.DRIFTED] == 1:
        reset(table, head, window)
    row = ends[window, at.NEWEST]
    if row < 0:
        row = append_row(table, head, ends, chains, window)
    buckets[row, chains[row, at.BUCKET_COUNT]] = value
    chains[row, at.BUCKET_COUNT] += 1
    windows[window, at.WIDTH] += 1.0
    width = windows[window, at.WIDTH]
    if width > 1.0:
        apart = value - windows[window, at.TOTAL] / (width - 1.0)
        windows[window, at.VARIANCE] += (width - 1.0) * apart * apart / width
    windows[window, at.TOTAL] += value
    compress(table, head, ends, chains, buckets, window, int(parameters[kind, at.MOST_BUCKETS]))
    ends[window, at.TICK] += 1
    if (
        ends[window, at.TICK] % int(parameters[kind, at.CLOCK]) != 0
        or windows[window, at.WIDTH] <= parameters[kind, at.PATIENCE]
    ):
        return False
    while differs(windows, parameters, ends, chains, buckets, window, kind):
        ends[window, at.DRIFTED] = 1
        drop_oldest(table, head, windows, ends, chains, buckets, window)
    return ends[window, at.DRIFTED] == 1
