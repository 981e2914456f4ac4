"""Fields that dead letters do not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import orjson
from msgspec import structs

from explain_sidecar.formats.errors import BadRecord

if TYPE_CHECKING:
    from explain_sidecar.fold.records import InputRecord

MASK = "***"
Masked = Literal["fields", "value"]
QUOTED = 4
"""Characters of a value in an error message by which it is recognised there."""
WITHOUT_DATA = frozenset(
    {"bad_header", "bad_schema", "missing_label", "missing_prediction", "missing_version", "names_too_long", "no_features", "no_root", "not_json", "not_object",
     "too_costly", "too_large", "too_many_features"}
)  # fmt: skip
"""Classes of errors whose messages have nothing of a record: names of settings, kinds, sizes and positions."""
WITH_NAMES = frozenset({"feature_type", "group_name", "nested_feature", "string_too_long"})
"""Those that name a feature, and have no value."""


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
        return structs.replace(record, value=None), _left_out(error, "it is no JSON object"), "value"
    held = [value for name in names for value in _mask(data, tuple(name.split(".")))]
    if not held:
        return record, error, None
    if _quotes(error, names, held):
        error = _unsaid(error, "what is wrong is not said, as it is about a field in record.masked")
    try:
        return structs.replace(record, value=orjson.dumps(data)), error, "fields"
    except orjson.JSONEncodeError:  # it reads deeper nesting than it writes
        return structs.replace(record, value=None), _left_out(error, "it is nested too deeply"), "value"


def _left_out(error: BadRecord, why: str) -> BadRecord:
    """The error of a record whose value is left out, with what was wrong if that cannot quote it."""
    left_out = f"the value is left out, as record.masked is set and {why}"
    if error.error_class in WITHOUT_DATA:
        return BadRecord(error.error_class, f"{error}; {left_out}")
    return _unsaid(error, left_out)


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


def _quotes(error: BadRecord, names: Sequence[str], held: Sequence[Any]) -> bool:
    """Whether an error may have what a field holds: it names the outermost field that it is in, or has the beginning of a value or of a name within."""
    message, kind = str(error), error.error_class
    if kind in WITHOUT_DATA:
        return False
    values = kind not in WITH_NAMES
    if values and any(name.split(".")[0] in message for name in names):
        return True
    rest = list(held)
    while rest:
        value = rest.pop()
        if isinstance(value, list):
            rest += value
        elif isinstance(value, dict):
            if any(name[:QUOTED] in message for name in value if name):
                return True
            rest += value.values()
        elif values and (text := str(value)) and text[:QUOTED] in message:
            return True
    return False
