"""The season of a subject: what the values of an hour of the day, or of the week, are more than those of all hours. Compiled.

Of each slot (an hour) the mean of its values is kept, and of all slots the level: the mean of these means, each with the same weight, so that
an hour that is not over yet does not move it. A value is watched without what its slot is more than the level. What comes in an
hour is learnt when the slot comes again: until then it is compared with what was known before (as recursive residuals are, Brown, Durbin & Evans
1975), and taken back if there was a change meanwhile. What is learnt after a change is first moved back to the level before it, so that
a change of all hours changes no season.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explain_core.compiling import inlined, inner

HOUR = 3_600_000
"""Milliseconds of a slot."""
DAY, WEEK = 24, 168
"""Slots of a season."""
LENGTHS = {"none": (), "day": (DAY,), "week": (WEEK,), "auto": (DAY, WEEK)}
"""Slots of the seasons that a subject has, one after the other."""
KNOWN = 2
"""Periods until a season is known, and is used in place of the one before."""
NEVER = -(2**62)
"""The hour before the first record."""

COUNT, MEAN, SQUARES, NEW, MEAN_OF_NEW = range(5)
"""Of a slot and subject: records learnt, the mean of their values; the sum of squared deviations; records since the slot came last, and their mean."""
FIELDS = 5
IN_USE, SINCE, MEAN_SINCE, FIRST_SEASON = range(4)
"""Rows of ``seasons``: the season in use, −1 for none; records since it began or since the last change, and the mean of what is watched of them;
where the rows of the first season begin."""
ELAPSED, SEEN, LEVEL, OFFSET = range(4)
"""Rows of each season: hours that it knows; slots learnt; the mean of their means; what the mean of all records is more."""
ROWS = 4


def made(lengths: Any, subjects: int) -> tuple[Any, Any]:
    """``profile`` (slots × 5 × subjects) and ``seasons`` ((3 + 4 for each) × subjects) before the first record."""
    seasons = np.zeros((FIRST_SEASON + ROWS * len(lengths), subjects))
    seasons[IN_USE] = -1.0
    return np.zeros((sum(lengths), FIELDS, subjects)), seasons


@inlined
def waits(lengths: Any, seasons: Any, j: int) -> bool:
    """Whether a subject's first season is not known yet."""
    return bool(seasons[IN_USE, j] < 0.0)


@inner
def adopt(
    hours: Any, lengths: Any, warm: float, cells: Any, age: int, profile: Any, seasons: Any, begun: Any
) -> None:
    """Choose the season of each subject for the block of these ``hours``, the first of which is that of the record before.

    ``begun`` says whose season is another than before. A subject whose first season is not known yet does not age.
    """
    steps = 0.0
    for i in range(len(hours) - 1):
        if hours[i] != NEVER:
            # A record with a wrong time goes there and back.
            steps += min(max(hours[i + 1] - hours[i], -DAY), DAY)
    for j in range(seasons.shape[1]):
        begun[j] = False
        if cells[age, j] < 0.0:
            continue
        at, row = 0, FIRST_SEASON
        for k in range(len(lengths)):
            seasons[row + ELAPSED, j] += steps
            if k > seasons[IN_USE, j] and seasons[row + ELAPSED, j] >= KNOWN * lengths[k]:
                count, total = 0.0, 0.0
                for s in range(at, at + lengths[k]):
                    learn(profile[s], seasons, row, k, j)
                    count += profile[s, COUNT, j]
                    total += profile[s, COUNT, j] * profile[s, MEAN, j]
                seasons[row + OFFSET, j] = total / max(count, 1.0) - seasons[row + LEVEL, j]
                seasons[IN_USE, j] = float(k)
                seasons[SINCE, j] = seasons[MEAN_SINCE, j] = 0.0
                begun[j] = True
            at += lengths[k]
            row += ROWS
        cells[age, j] = (
            0.0 if waits(lengths, seasons, j) else min(cells[age, j], warm) if begun[j] else cells[age, j]
        )


@inner
def learn(slot: Any, seasons: Any, row: int, k: int, j: int) -> None:
    """Add to a slot of season k what came since it came last."""
    new = slot[NEW, j]
    if new == 0.0:
        return
    count, mean = slot[COUNT, j], slot[MEAN_OF_NEW, j]
    if k == seasons[IN_USE, j] and seasons[SINCE, j] > 0.0:
        mean -= seasons[MEAN_SINCE, j] - seasons[row + LEVEL, j] - seasons[row + OFFSET, j]
    more = mean - slot[MEAN, j]
    if count == 0.0:
        seasons[row + SEEN, j] += 1.0
        slot[MEAN, j] = mean
        seasons[row + LEVEL, j] += (mean - seasons[row + LEVEL, j]) / seasons[row + SEEN, j]
    else:
        step = more * new / (count + new)
        slot[MEAN, j] += step
        slot[SQUARES, j] += more * more * count * new / (count + new)
        seasons[row + LEVEL, j] += step / seasons[row + SEEN, j]
    slot[COUNT, j] = count + new
    slot[NEW, j] = slot[MEAN_OF_NEW, j] = 0.0


@inner
def remove(
    pending: Any, hours: Any, lengths: Any, cells: Any, rows: Any, profile: Any, visits: Any, seasons: Any, variance: Any
) -> None:  # fmt: skip
    """Take from the values of a block what their season adds, and keep them for it.

    ``visits`` has the hour in which each slot came last. ``variance`` is that of the sum of the block's records, by the variances of their
    slots. ``rows`` are those of ``cells``: age, centre, reach.
    """
    age, centre_row, reach_row = rows
    subjects = seasons.shape[1]
    for j in range(subjects):
        variance[j] = 0.0
    for i in range(len(pending)):
        hour = hours[i + 1]
        at, row = 0, FIRST_SEASON
        for k in range(len(lengths)):
            s = at + hour % lengths[k]
            if visits[s] != hour:
                visits[s] = hour
                for j in range(subjects):
                    learn(profile[s], seasons, row, k, j)
            at += lengths[k]
            row += ROWS
        for j in range(subjects):
            if cells[age, j] < 0.0:
                continue
            in_use, at, more = int(seasons[IN_USE, j]), 0, 0.0
            for k in range(len(lengths)):
                s = at + hour % lengths[k]
                count = profile[s, COUNT, j]
                if k == in_use and count > 0.0:
                    row, new = FIRST_SEASON + ROWS * k, profile[s, NEW, j]
                    more = profile[s, MEAN, j] - seasons[row + LEVEL, j] - seasons[row + OFFSET, j]
                    variance[j] += profile[s, SQUARES, j] / (count + new)
                at += lengths[k]
            x, centre, reach = pending[i, j], cells[centre_row, j], cells[reach_row, j]
            pending[i, j] = x - more
            if reach > 0.0:
                x = centre + more + min(max(x - more - centre, -reach), reach)
            seasons[SINCE, j] += 1.0
            seasons[MEAN_SINCE, j] += (x - more - seasons[MEAN_SINCE, j]) / seasons[SINCE, j]
            at = 0
            for k in range(len(lengths)):
                if k >= in_use:
                    s = at + hour % lengths[k]
                    error = x - profile[s, MEAN_OF_NEW, j]
                    profile[s, NEW, j] += 1.0
                    profile[s, MEAN_OF_NEW, j] += error / profile[s, NEW, j]
                    profile[s, SQUARES, j] += error * (x - profile[s, MEAN_OF_NEW, j])
                at += lengths[k]


@inner
def begin_anew(lengths: Any, profile: Any, visits: Any, seasons: Any, j: int, hour: int) -> None:
    """After a change from this hour on: forget what came since, which is of another level.

    The season in use then weighs as much as two periods, so that it follows where it changed too.
    """
    in_use, at = int(seasons[IN_USE, j]), 0
    if in_use < 0:
        return
    for k in range(in_use):
        at += lengths[k]
    row = FIRST_SEASON + ROWS * in_use
    share = min(KNOWN * lengths[in_use] / seasons[row + ELAPSED, j], 1.0)
    seasons[row + ELAPSED, j] *= share
    for s in range(at, at + lengths[in_use]):
        if visits[s] >= hour:
            count, new = profile[s, COUNT, j], profile[s, NEW, j]
            profile[s, SQUARES, j] *= count / max(count + new, 1.0)
            profile[s, NEW, j] = profile[s, MEAN_OF_NEW, j] = 0.0
        learn(profile[s], seasons, row, in_use, j)
        count = profile[s, COUNT, j]
        if count > 1.0:
            kept = max(count * share, 1.0)
            profile[s, SQUARES, j] *= kept / count
            profile[s, COUNT, j] = kept
    seasons[SINCE, j] = seasons[MEAN_SINCE, j] = 0.0


def problem(lengths: Any, profile: Any, seasons: Any) -> str | None:
    """What is wrong with a stored state of the right shapes and finite numbers; None for nothing."""
    if not np.isin(seasons[IN_USE], range(-1, len(lengths))).all():
        return "a season that is none"
    if (profile[:, [COUNT, SQUARES, NEW]] < 0.0).any() or (profile[:, NEW] % 1.0 != 0.0).any():
        return "a slot with fewer records than none"
    at, row = 0, FIRST_SEASON
    for length in lengths:
        seen = (profile[at : at + length, COUNT] > 0.0).sum(axis=0)
        if (seasons[row + SEEN] != seen).any():
            return "slots that were never seen"
        if ((seasons[IN_USE] == (row - FIRST_SEASON) // ROWS) & (seasons[row + ELAPSED] < 1.0)).any():
            return "a season that is not known"
        at += length
        row += ROWS
    return None
