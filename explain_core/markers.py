"""Columns that are numeric but for a marker, such as "?" or "NA", which stands for a missing value, and columns of identifiers or running numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

MOST = 2
"""Distinct texts that a numeric column may contain and still count them as markers."""

MANY, NEW = 100, 0.9
"""Of so many texts of a column, the first, this share is new where they are identifiers."""

RISING = 500
"""From so many numbers of a column on, each larger than the one before, they are running numbers."""


SECONDS, LAST = 10**10, 253_402_300_800_000
"""Milliseconds since 1970: before the first one, in April 1970, times are rather seconds or fractions; the last one is the end of the year 9999."""


class Markers:
    """The values of one column: numbers, and texts that are not numbers.

    >>> column = Markers()
    >>> for cell in ("1", "2.5", "?", "7"):
    ...     column.add(cell)
    >>> column.found, column.share
    (['?'], 0.25)
    """

    def __init__(self) -> None:
        self._numbers = self._texts = 0
        self._different: dict[str, None] = {}
        self._rising, self._last = True, -math.inf

    def add(self, value: Any) -> None:
        """Take in a value, a number or a text."""
        if type(value) is not str or _is_number(value):
            self._numbers += 1
            number = float(value)
            self._rising, self._last = self._rising and number > self._last, number
            return
        self._texts += 1
        if self._texts <= MANY:
            self._different[value] = None

    @property
    def found(self) -> list[str]:
        """The markers of a column that is numeric but for them; none of any other."""
        some = 0 < self._texts <= self._numbers and len(self._different) <= MOST
        return list(self._different) if some else []

    @property
    def identifies(self) -> bool:
        """Whether hardly one of the first texts comes twice.

        >>> column = Markers()
        >>> for number in range(MANY):
        ...     column.add(f"customer {number}")
        >>> column.identifies
        True
        """
        return self._texts >= MANY and len(self._different) >= NEW * MANY

    @property
    def runs(self) -> bool:
        """Whether each number is larger than the one before, as running numbers and times are."""
        return self._rising and self._numbers >= RISING

    @property
    def share(self) -> float:
        """The share of values that are not numbers."""
        return self._texts / max(self._texts + self._numbers, 1)


def remarks(columns: Mapping[str, Markers], remedy: str) -> Iterator[str]:
    """A sentence for each column that is numeric but for markers."""
    for name, column in columns.items():
        if column.found:
            texts = " and ".join(map(repr, column.found))
            yield f"{name}: numbers, but for {texts} in {column.share:.0%}; if that stands for a missing value, {remedy}"


def identifiers(columns: Mapping[str, Markers], remedy: str) -> Iterator[str]:
    """A sentence for each column of identifiers or running numbers."""
    for name, column in columns.items():
        if column.identifies:
            yield (
                f"{name}: nearly each of its texts is another one. An identifier says nothing of the next record, and thousands of categories make "
                f"every record slow: {remedy}"
            )
        if column.runs:
            yield (
                f"{name}: each of its numbers is larger than the one before. A running number or a time tells when a record came, and none "
                f"comes again: {remedy}"
            )


def other_unit(newest: int) -> str | None:
    """A sentence where times are hardly the milliseconds since 1970 that they are taken for."""
    if newest < 0 or SECONDS <= newest < LAST:
        return None
    return f"times: the newest is {newest}, and times are milliseconds since 1970, or ISO 8601; in another unit all dates and seasons are wrong"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
