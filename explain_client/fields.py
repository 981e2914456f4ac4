"""What every message has in common: described fields, times, and how a message is read by the types of its fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin, get_type_hints

import orjson

from explain_client.errors import SchemaError


def described(
    description: str,
    example: Any,
    *,
    unit: str | None = None,
    default: Any = MISSING,
    absent: Any = MISSING,
    open_ended: bool = False,
    **constraints: Any,
) -> Any:
    """A field of a message, described for its schema.

    With a ``default``, or with what it means that it is ``absent``, earlier versions did not have it. ``open_ended`` is a choice to which later
    versions may add.
    """
    if unit is not None:
        constraints["json_schema_extra"] = {"x-unit": unit}
    metadata = {"description": description, "examples": [example], "absent": absent, "open_ended": open_ended}
    return field(default=default, metadata={**metadata, **constraints})


DIGEST = "^[0-9a-f]{32}$"
"""A chain's digest: 128 bits in hexadecimal."""

_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def utc(milliseconds: int) -> datetime:
    """The time so many milliseconds after 1970; outside the years 1 to 9999 the first or the last moment of these."""
    try:
        return _1970 + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return _FIRST if milliseconds < 0 else _LAST


def is_date(milliseconds: int) -> bool:
    """Whether a timestamp is within the years 1 to 9999; one in nanoseconds, say, is not."""
    return utc(milliseconds) not in (_FIRST, _LAST)


@dataclass(frozen=True, slots=True)
class Message:
    """What every message begins with; each says anew what its schema, offset and timestamp are, and ends with its ``digest``."""

    called: ClassVar[tuple[str, str]]
    """A message of this kind in words, and the setting that names its topic."""

    schema: str = described("Name and version of this schema.", "")
    app_id: str = described("The sidecar's app_id.", "explanation-sidecar")
    topic: str = described("Records topic.", "records")
    partition: int = described("Partition of the records topic, and of this message.", 0, ge=0)
    offset: int = described("Offset of a record.", 0, ge=0)
    timestamp: int = described("Event time of that record.", 0, unit="milliseconds")
    id: str | None = described("Id of that record, where `record.id` is set.", None)
    keys: str | None = described(
        "The one key that all records folded in this epoch have; null where they have several, or none that is a text of 1 to 200 characters.",
        "JFK",
        absent=None,
    )
    epoch: int = described("Starts at 0; a reset begins a new one, with a new model.", 0, ge=0)
    seq: int = described("Number of this message in its partition and epoch, from 0.", 0, ge=0)
    raw: bytes = field(default=b"", repr=False, compare=False, kw_only=True, metadata={"exclude": True})
    """The message's JSON as it was on the topic, without a schema registry's framing."""

    @property
    def time(self) -> datetime:
        """Event time of the record that the offset names, in UTC.

        A ``timestamp`` outside the years 1 to 9999, such as one in nanoseconds, gives ``datetime.min`` or ``datetime.max``.
        """
        return utc(self.timestamp)

    @classmethod
    def from_json(cls, value: bytes) -> Self:
        """Decode a message; fields that this version does not know are ignored.

        Raises ``SchemaError`` for another schema and for what is no such message.
        """
        kind: Any = cls
        what, topic = cls.called
        data, raw = _decoded(value, schema_of(kind), what, topic)
        try:
            message: Self = kind(*_values_of(kind)(data, what), raw=raw)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SchemaError(f"not {what}: {type(error).__name__}: {error}") from None
        return message


FRAME_BYTES = 5
"""What a schema registry's serialiser puts before a message: a zero, which no JSON begins with, and the schema's id."""


def unframed(value: bytes) -> bytes:
    """A message without a schema registry's framing, where it has one."""
    return value[FRAME_BYTES:] if isinstance(value, bytes) and value[:1] == b"\0" else value


@cache
def schema_of(kind: Any) -> str:
    """Name and version of a message's schema."""
    (schema,) = get_args(get_type_hints(kind)["schema"])
    return str(schema)


def _decoded(value: bytes, schema: str, what: str, topic: str) -> tuple[dict[str, Any], bytes]:
    """What a message of this schema says, and its JSON."""
    framed, value = value, unframed(value)
    try:
        data: dict[str, Any] = orjson.loads(value)
        found = data["schema"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        if value is not framed:
            raise SchemaError(
                f"{what} in another format than JSON, probably Avro: {framed!r:.60}; read it with an Avro deserialiser and your "
                "Schema Registry, or set the sidecar's registry.format to json"
            ) from None
        raise SchemaError(f"not {what}: {value!r:.60}; is this the {topic} topic?") from None
    if found != schema:
        raise SchemaError(
            f"schema {found!r}, and this explain-client reads {schema!r} here; install one of the sidecar's version"
        )
    return data, value


T = TypeVar("T")

Reader = Callable[[Any, str], Any]
"""Takes a value and the name of its field; raises ``TypeError``, ``ValueError`` or ``KeyError`` where it has another type."""


def read(kind: type[T], data: Any) -> T:
    """A dataclass from the JSON object that a message has for it, by the types of its fields; raises as a ``Reader`` does.

    A number that is null has to be declared so, as what uses it counts on one. Fields that the dataclass does not have are ignored.

    >>> @dataclass
    ... class Point:
    ...     x: int
    ...     y: float | None = None
    >>> read(Point, {"x": 1, "y": 2.5, "z": 3}), read(Point, {"x": 1})
    (Point(x=1, y=2.5), Point(x=1, y=None))
    >>> read(Point, {"x": "1"})
    Traceback (most recent call last):
    TypeError: x is '1', and has to be of type int
    """
    of: Any = kind
    found: T = _reader(of)(data, kind.__name__)
    return found


@cache
def _reader(kind: Any, pattern: str | None = None, open_ended: bool = False) -> Reader:
    """What reads values of a declared type."""
    origin, args = get_origin(kind), get_args(kind)
    if hasattr(kind, "__dataclass_fields__"):
        values = _values_of(kind)
        return lambda value, name: kind(*values(value, name))
    if kind is Any:
        return lambda value, name: value
    if kind is datetime:
        return lambda value, name: datetime.fromisoformat(_text(value, name))
    if NoneType in args:
        (some,) = (_reader(arg, pattern, open_ended) for arg in args if arg is not NoneType)
        return lambda value, name: None if value is None else some(value, name)
    if origin is Literal:
        return _text if open_ended else _choice(args)
    if origin is Mapping:
        of = _reader(args[1])
        return lambda value, name: {key: of(cell, key) for key, cell in _object(value, name).items()}
    if origin is not None:  # tuple[kind, ...] or Sequence[kind]
        element, several = _reader(args[0]), tuple if origin is tuple else list
        return lambda value, name: several([element(each, name) for each in _list(value, name)])
    return _matching(pattern) if pattern else _of_type(kind)


@cache
def _values_of(kind: Any) -> Callable[[Any, str], list[Any]]:
    """What reads an object into values for a dataclass's fields, in their order."""
    hints = get_type_hints(kind)
    known = []
    for each in fields(kind):
        about, hint = each.metadata, hints[each.name]
        if about.get("exclude"):
            continue
        pattern, absent = about.get("pattern"), about.get("absent", MISSING)
        of = _reader(hint, pattern, about.get("open_ended", False))
        if least := hint is int and "ge" in about:
            of = _at_least(about["ge"])
        # Most values need nothing but a look at their type, and most of the time goes into them.
        choices = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        plain = () if pattern or least else (kinds for choice in choices if (kinds := _PLAIN.get(choice)))
        types = frozenset(chain.from_iterable(plain))
        known.append(
            (about.get("alias", each.name), each.default if absent is MISSING else absent, types, of)
        )

    def values(data: Any, name: str) -> list[Any]:
        found, get = [], _object(data, name).get
        for key, absent, types, of in known:
            value = get(key, absent)
            if type(value) not in types:
                if value is MISSING:
                    raise KeyError(key)
                value = of(value, key)
            found.append(value)
        return found

    return values


def _of_type(kind: type) -> Reader:
    types = _PLAIN.get(kind, (kind,))
    wanted = "a number" if float in types else f"of type {kind.__name__}"

    def value_of(value: Any, name: str) -> Any:
        if type(value) not in types:
            raise TypeError(f"{name} is {value!r:.60}, and has to be {wanted}")
        return value

    return value_of


_PLAIN: dict[Any, tuple[type, ...]] = {
    int: (int,),
    str: (str,),
    bool: (bool,),
    float: (int, float),
    NoneType: (NoneType,),
}
"""The types that values of a declared type have in JSON."""

_text, _list, _object = _of_type(str), _of_type(list), _of_type(dict)


def _matching(pattern: str) -> Reader:
    matches = re.compile(pattern).match

    def value_of(value: Any, name: str) -> Any:
        if not matches(_text(value, name)):
            raise TypeError(f"{name} is {value!r:.60}, and has to match {pattern}")
        return value

    return value_of


def _at_least(least: int) -> Reader:
    def value_of(value: Any, name: str) -> Any:
        if type(value) is not int or value < least:
            raise TypeError(f"{name} is {value!r:.60}, and has to be of type int, at least {least}")
        return value

    return value_of


def _choice(among: tuple[str, ...]) -> Reader:
    def value_of(value: Any, name: str) -> Any:
        if _text(value, name) not in among:
            raise TypeError(f"{name} is {value!r:.60}, and has to be {' or '.join(among)}")
        return value

    return value_of
