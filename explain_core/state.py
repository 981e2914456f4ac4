"""State as data: numbers, strings, lists and arrays, and nothing else.

Each class with a state declares it as a ``msgspec.Struct``, returns it from ``state()`` and restores it by ``restore()``.
Decoding builds nothing but these types, and takes memory in proportion to the bytes. ``restore`` checks what types cannot say
(lengths, ranges, indices) before anything is used.

Every later version reads what an earlier one stored: see ``State`` for what to do when a class changes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray

Value = str | int | float | bool
"""A feature's value, or a label."""

LARGEST_COUNT = 2**53 - 1
"""Integers up to here are exact as doubles and in JSON; none that counts records gets there."""

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]

Seed = Annotated[int, msgspec.Meta(ge=0)]
"""The state of a generator, 64 bits."""

Pack = Callable[[Any], bytes]
"""Stores an object of foreign code, which only that code understands."""

Unpack = Callable[[bytes], Any]


class StateError(ValueError):
    """A stored state that is not valid for this object."""


class NewerState(StateError):
    """A state that a later version of the software stored."""


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of what classes store, each under a name of its own.

    **To change what a class stores.** A new field with a default needs nothing more where the default is what was true before. For
    anything else (a field is taken away, gets another type or meaning) count ``VERSION`` up by one, and add to ``MIGRATIONS`` under the old
    number a function from the fields as they were, as plain data, to those of the next version. It sees the states inside as they were
    stored; they are migrated after it. No migration is ever taken away. ``make golden`` then adds snapshots of this version
    to those of earlier ones, which a test restores.

    >>> class Mean(State, frozen=True):
    ...     VERSION = 2
    ...     MIGRATIONS = {1: lambda old: {"sum": old["mean"] * old["n"], "n": old["n"]}}
    ...     sum: float
    ...     n: int
    >>> decoded(msgspec.msgpack.encode({"mean": 2.0, "n": 3}), Mean, {})
    Mean(sum=6.0, n=3)
    >>> versions_of(Mean)
    {'Mean': 2}
    """

    VERSION: ClassVar[int] = 1
    MIGRATIONS: ClassVar[Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}


@functools.cache
def types_of(kind: type[State]) -> dict[str, Any]:
    """The type of each field of a class of states."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


@functools.cache
def states_in(kind: Any) -> frozenset[type[State]]:
    """The classes of states that data of a type may hold, the type itself among them."""
    if isinstance(kind, type) and issubclass(kind, State):
        found = {kind}
        for inner in types_of(kind).values():
            found |= states_in(inner)
        return frozenset(found)
    inner = get_args(kind)[:1] if get_origin(kind) is Annotated else get_args(kind)
    return frozenset().union(*map(states_in, inner)) if get_origin(kind) is not Literal else frozenset()


def versions_of(kind: Any) -> dict[str, int]:
    """The version of each class of states in a type, by name, where it is not 1."""
    found = {state.__name__: state.VERSION for state in states_in(kind) if state.VERSION != 1}
    return dict(sorted(found.items()))


def decoded(raw: bytes | msgspec.Raw, kind: Any, versions: Mapping[str, int]) -> Any:
    """What was stored in MessagePack, as a type of now; ``versions`` is what ``versions_of`` gave when it was stored.

    Only what a class of an earlier version is in is decoded without its types, which may take many times the memory of its bytes.
    Raises ``NewerState`` where a later version stored it, and ``msgspec.MsgspecError`` or ``StateError`` where it is no such data.
    """
    now = versions_of(kind)
    for name, version in versions.items():
        check(version >= 1, f"{name}: version {version}, and versions begin with 1")
        if version > now.get(name, 1):
            raise NewerState(
                f"{name}: version {version}, and this software knows versions up to {now.get(name, 1)}"
            )
    if all(versions.get(name, 1) == version for name, version in now.items()):
        try:
            return _decoder(kind).decode(raw)
        except msgspec.ValidationError as error:
            if "unknown field" in str(error):  # a field with a default needs no version of its own
                raise NewerState(str(error)) from None
            raise
    try:
        return msgspec.convert(_migrated(kind, msgspec.msgpack.decode(raw), versions), kind)
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:  # of a migration
        raise StateError(f"no state of an earlier version: {type(error).__name__}: {error}") from None


@functools.cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


def _migrated(kind: Any, data: Any, versions: Mapping[str, int]) -> Any:
    """Plain data of a type with every state in it brought to the version of now."""
    if not states_in(kind):
        return data
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _migrated(inner[0], data, versions)
    if isinstance(data, dict) and isinstance(kind, type) and issubclass(kind, State):
        for version in range(versions.get(kind.__name__, 1), kind.VERSION):
            data = kind.MIGRATIONS[version](data)
        types = types_of(kind)
        return {name: _migrated(types.get(name, Any), value, versions) for name, value in data.items()}
    if isinstance(data, dict) and origin is dict:
        return {name: _migrated(inner[1], value, versions) for name, value in data.items()}
    if isinstance(data, list) and origin is list:
        return [_migrated(inner[0], value, versions) for value in data]
    if isinstance(data, list) and origin is tuple:
        return [_migrated(*pair, versions) for pair in zip(inner, data, strict=False)] + data[len(inner) :]
    for other in inner if origin in (Union, UnionType) else ():
        data = _migrated(other, data, versions) if states_in(other) else data
    return data


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """An array of numbers: type, shape, and its cells in C order, little-endian; integers in as few bytes as hold them all."""

    dtype: Literal["<f8", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4"]
    shape: Annotated[list[Annotated[int, msgspec.Meta(ge=0, le=2**31)]], msgspec.Meta(max_length=3)]
    data: bytes


BOUNDS = {"|i1": 2**7, "<i2": 2**15, "<i4": 2**31}
NARROWER = {"<i8": ("|i1", "<i2", "<i4"), "<i4": ("|i1", "<i2")}
"""The types in which integers of a type may be stored; they hold those from minus their bound to below it."""


def block(array: NDArray[Any]) -> Block:
    """The array as data.

    >>> block(np.array([3, 4])), array("counts", block(np.array([3, 4])), "<i8", (2,)).dtype
    (Block(dtype='|i1', shape=[2], data=b'\\x03\\x04'), dtype('int64'))
    """
    if array.size and array.dtype.str in NARROWER:
        most = max(int(array.max()), -1 - int(array.min()))
        fitting = (narrower for narrower in NARROWER[array.dtype.str] if most < BOUNDS[narrower])
        array = array.astype(next(fitting, array.dtype), copy=False)
    return Block(array.dtype.str, list(array.shape), array.tobytes())  # type: ignore[arg-type]


def array(name: str, block: Block, dtype: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """The block as an array of one's own. Raises ``StateError`` where type or shape differ; None stands for any length.

    >>> array("weights", block(np.zeros((2, 3))), "<f8", (2, None)).shape
    (2, 3)
    >>> array("weights", Block("<f8", [2, 3], b""), "<f8", (2, None))
    Traceback (most recent call last):
    explain_core.state.StateError: weights: 0 bytes for 2 × 3 cells of <f8
    """
    if block.dtype not in (dtype, *NARROWER.get(dtype, ())) or len(block.shape) != len(shape):
        raise StateError(
            f"{name}: {len(block.shape)} dimensions of {block.dtype} instead of {len(shape)} of {dtype}"
        )
    for wanted, found in zip(shape, block.shape, strict=True):
        if wanted is not None and wanted != found:
            raise StateError(f"{name}: of shape {block.shape} instead of {list(shape)}")
    if math.prod(block.shape) * int(block.dtype[-1]) != len(block.data):
        size = " × ".join(map(str, block.shape))
        raise StateError(f"{name}: {len(block.data)} bytes for {size} cells of {block.dtype}")
    return np.frombuffer(block.data, block.dtype).reshape(block.shape).astype(dtype)


def finite(name: str, values: NDArray[np.float64], *, or_nan: bool = False) -> None:
    """Raise ``StateError`` where a number is infinite or NaN."""
    good = ~np.isinf(values) if or_nan else np.isfinite(values)
    if not good.all():
        raise StateError(f"{name}: numbers that are not finite")


def within(name: str, values: NDArray[Any], low: int, high: int) -> None:
    """Raise ``StateError`` where an index is not in [low, high)."""
    if values.size and not (values.min() >= low and values.max() < high):
        raise StateError(f"{name}: an index outside of [{low}, {high})")


def check(condition: bool, text: str) -> None:
    """Raise ``StateError`` with the text unless the condition holds."""
    if not condition:
        raise StateError(text)


def restore_part(part: Any, stored: Any, text: str, *more: Any) -> None:
    """Let a part that there may be or not restore what was stored of it. Raises ``StateError`` with the text where there is but one of them."""
    check((part is None) == (stored is None), text)
    if part is not None:
        part.restore(stored, *more)


def check_row(name: str, row: Mapping[str, Any]) -> None:
    """Raise ``StateError`` where a record has a value that none has."""
    try:
        if all(map(math.isfinite, row.values())):
            return
    except (TypeError, OverflowError):  # a string, or a whole number beyond all doubles
        pass
    for feature, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise StateError(f"{name}: feature {feature!r} is {value}")
