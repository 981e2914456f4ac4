"""The season of a subject: what the values of an hour of the day, or of the week, are more than those of all hours.

Of each slot (an hour) the mean of its values is kept, and of all slots the level: the mean of these means, each with the same weight, so that
an hour that is not over yet does not move it. A value is watched without what its slot is more than the level. What comes in an
hour is learnt when the slot comes again: until then it is compared with what was known before (as recursive residuals are, Brown, Durbin & Evans
1975), and taken back if there was a change meanwhile. What is learnt after a change is first moved back to the level before it, so that
a change of all hours changes no season.
"""

from __future__ import annotations

from typing import Any

import numpy as np

HOUR = 3_600_000
"""Milliseconds of a slot."""
DAY, WEEK = 24, 168
"""Slots of a season."""
LENGTHS = {"none": (), "day": (DAY,), "week": (WEEK,), "auto": (DAY, WEEK)}
"""Slots of the seasons that a subject has, one after the other."""
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
