"""Fields that dead letters do not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import orjson

from explain_sidecar.formats.errors import BadRecord

if TYPE_CHECKING:
    from explain_sidecar.fold.records import InputRecord

MASK = "***"
Masked = Literal["fields", "value"]
QUOTED = 4
"""Characters of a value in an error message by which it is recognised there."""


def masked(
    record: InputRecord, error: BadRecord, names: Sequence[str]
) -> tuple[InputRecord, BadRecord, Masked | None]:
    """The record and its error without what the fields of these names hold, and what was masked.

    A value that is no JSON object or list, in which no field can be found, is left out. A null stays, so that the letter says that it was one.
    """
    if not names or record.value is None:
        return record, error, None
    try:
        data = orjson.loads(record.value)
    except orjson.JSONDecodeError:
        data = None
    if not isinstance(data, dict | list):
        hidden = _unsaid(error, "the value is left out, as record.masked is set and it is no JSON object")
        return record._replace(value=None), hidden, "value"
    held = [value for name in names for value in _mask(data, tuple(name.split(".")))]
    if not held:
        return record, error, None
    if _quotes(str(error), names, held):
        error = _unsaid(error, "what is wrong is not said, as it is about a field in record.masked")
    try:
        return record._replace(value=orjson.dumps(data)), error, "fields"
    except orjson.JSONEncodeError:  # it reads deeper nesting than it writes
        hidden = _unsaid(error, "the value is left out, as record.masked is set and it is nested too deeply")
        return record._replace(value=None), hidden, "value"


def _unsaid(error: BadRecord, why: str) -> BadRecord:
    return BadRecord(error.error_class, f"{why}; topic, partition and offset say where the record is")


def _mask(data: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """What a field path holds, which is replaced: in each object of a list, and where names have the dots in them."""
    rest = [(data, path)]
    while rest:
        inside, path = rest.pop()
        if isinstance(inside, list):
            rest += [(item, path) for item in inside]
        elif isinstance(inside, dict):
            for n in range(1, len(path) + 1):
                name = ".".join(path[:n])
                value = inside.get(name)
                if value is not None and n == len(path):
                    inside[name] = MASK
                    yield value
                elif value is not None:
                    rest.append((value, path[n:]))


def _quotes(message: str, names: Sequence[str], held: Sequence[Any]) -> bool:
    """Whether a message may have what a field holds: it names the outermost field that it is in, or has the beginning of a value."""
    if any(name.split(".")[0] in message for name in names):
        return True
    rest = list(held)
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest += value
        elif isinstance(value, dict):
            rest += [*value.keys(), *value.values()]
        elif (text := str(value)) and text[:QUOTED] in message:
            return True
    return False
