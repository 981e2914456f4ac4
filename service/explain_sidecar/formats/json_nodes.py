"""The validation of a value by a JSON Schema, in steps that are counted.

A keyword becomes a check: a function of a value that returns what is wrong with it, or None. All that a check does is counted, so
that neither a schema nor a value can make it long: where time goes, ``Run.spend`` is called first.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from explain_sidecar.formats.errors import BadRecord

MAX_STEPS = 2_000_000
"""Most steps to validate a value, or to take up a schema; two seconds at the most."""

MAX_LEVELS = 150
"""Most schemas within which a value is validated at once. Python calls itself at each, and nothing else bounds how often."""

MAX_QUOTED = 60
"""Longest part of a value in a message, in characters."""

Seen = set[Any] | None
"""Where the names or positions that keywords have evaluated are noted; None where none asks for them."""


class Problem:
    """What is wrong with a value, and where in it: the names and positions that lead there, the last one first."""

    __slots__ = ("message", "path")

    def __init__(self, message: str) -> None:
        self.message = message
        self.path: list[str | int] = []

    def at(self, part: str | int) -> Problem:
        self.path.append(part)
        return self

    def __str__(self) -> str:
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in reversed(self.path))
        return f"${''.join(parts)}: {self.message}"


class Run:
    """What is left of the steps and levels that something may take, and the resources that lead to the present schema."""

    __slots__ = ("_what", "left", "levels", "scope")

    def __init__(self, what: str = "validating the value") -> None:
        self._what = what
        self.left = MAX_STEPS
        self.levels = MAX_LEVELS
        self.scope: list[str] = []

    def spend(self, steps: int) -> None:
        """Raises ``BadRecord`` where there are not so many left."""
        self.left -= steps
        if self.left < 0:
            raise self.too_costly(f"takes more than {MAX_STEPS:,} steps")

    def too_costly(self, why: str) -> BadRecord:
        remedy = "make its JSON Schema simpler, or read it with format json, which validates nothing"
        return BadRecord("too_costly", f"{self._what} {why}; {remedy}")


Check = Callable[[Any, Run, Seen], Problem | None]


class Node:
    """A schema, ready to validate by. ``base``: the address of its resource."""

    __slots__ = ("base", "checks", "collects")

    def __init__(self, base: str) -> None:
        self.base = base
        self.checks: tuple[Check, ...] = ()
        self.collects = False

    def apply(self, value: Any, run: Run, seen: Seen = None) -> Problem | None:
        """What is wrong with a value, the first of it. ``seen`` is filled where it is given and nothing is wrong."""
        run.spend(1 + len(self.checks))
        run.levels -= 1
        if run.levels < 0:
            raise run.too_costly(f"needs more than {MAX_LEVELS} schemas within each other")
        entered = not run.scope or run.scope[-1] != self.base
        if entered:
            run.scope.append(self.base)
        noted: Seen = set() if self.collects else seen
        for check in self.checks:
            problem = check(value, run, noted)
            if problem is not None:
                break
        else:
            problem = None
        if entered:
            run.scope.pop()
        run.levels += 1
        if noted is not seen and seen is not None and problem is None:
            merge(run, noted, seen)
        return problem


def merge(run: Run, noted: Seen, seen: Seen) -> None:
    if noted and seen is not None:
        run.spend(len(noted))
        seen |= noted


def quoted(value: Any) -> str:
    """A value in a message: numbers and short texts as they are."""
    if isinstance(value, dict):
        return "the object"
    if isinstance(value, list):
        return "the array"
    text = json.dumps(value[:MAX_QUOTED] if isinstance(value, str) else value, ensure_ascii=False)
    return f"{text[:-1]}…{text[-1]}" if isinstance(value, str) and len(value) > MAX_QUOTED else text


def canonical(value: Any, run: Run) -> str:
    """A text that equal values have in common: 1 and 1.0 are equal, 1 and true are not."""
    parts: list[str] = []
    _canonical(value, run, parts.append, MAX_LEVELS)
    return "".join(parts)


def _canonical(value: Any, run: Run, add: Callable[[str], None], levels: int) -> None:
    if levels < 0:
        raise run.too_costly(f"compares what has more than {MAX_LEVELS} levels")
    run.spend(1)
    if isinstance(value, str):
        run.spend(len(value) // 100)
        add(json.dumps(value))
    elif isinstance(value, dict):
        run.spend(len(value))
        for name in sorted(value):
            run.spend(len(name) // 100)
            add("{" + json.dumps(name) + ":")
            _canonical(value[name], run, add, levels - 1)
        add("}")
    elif isinstance(value, list):
        for item in value:
            add("[")
            _canonical(item, run, add, levels - 1)
        add("]")
    else:
        whole = isinstance(value, float) and value.is_integer()
        add(json.dumps(int(value) if whole else value))
