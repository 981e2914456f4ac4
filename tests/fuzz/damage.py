"""Damage to stored states: to their bytes, and to what these say."""

import copy
import math
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

Path = tuple[Any, ...]
TYPES = {"|i1", "<i2", "<i4", "<i8", "<f8", "<u4", "<u8"}
"""Of the arrays in a state."""

DOUBLES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    5e-324,
    1e-300,
    1e72,
    -1e72,
    4e9,
    1e18,
    1e154,
    1e300,
    -1e300,
    math.nan,
    math.inf,
    -math.inf,
]
INTEGERS = [-1, -2, 0, 1, 2, 3, 4, 5, 127, -128, 32767, 2**31 - 1, -(2**31), 2**31, 2**53, 2**62, 2**63 - 1, -(2**63)]  # fmt: skip
TEXTS = ["", "a", "b", "colour", "label", "x" * 2_000, "\x00", "é", "None", "True", "0"]


def mutated(raw: bytes, rng: random.Random) -> bytes:
    """A few bytes are changed, added, doubled or gone."""
    body = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 5])):
        position = rng.randrange(len(body) + 1)
        match rng.randrange(5):
            case 0:
                body[position : position + rng.choice([1, 1, 8, 100])] = b""
            case 1:
                body[position:position] = rng.randbytes(rng.choice([1, 4, 9]))
            case 2:
                start = rng.randrange(len(body) + 1)
                body[position:position] = body[start : start + rng.choice([1, 8, 100])]
            case _ if position < len(body):
                body[position] = rng.choice(
                    [0, 255, body[position] ^ (1 << rng.randrange(8)), rng.randrange(256)]
                )
    return bytes(body)


class Damage:
    """A state as data, of which ``damaged`` gives copies with one to three of its values changed; mostly cells of arrays."""

    def __init__(self, raw: bytes) -> None:
        self._data = msgspec.msgpack.decode(raw)
        places = [(path, value) for path, value in _places(self._data) if path]
        self._blocks = [path for path, value in places if _is_block(value)]
        self._places = [path for path, _ in places]

    def damaged(self, rng: random.Random) -> bytes:
        data = copy.deepcopy(self._data)
        for _ in range(rng.choice([1, 1, 2, 3])):
            *path, last = rng.choice(self._blocks if rng.random() < 0.75 else self._places)
            inside = data
            try:
                for key in path:
                    inside = inside[key]
                value = inside[last]
                inside[last] = _block(value, rng) if _is_block(value) else _value(value, rng)
            except (KeyError, IndexError, TypeError):  # an earlier change took the place away
                continue
        return msgspec.msgpack.encode(data)


def _is_block(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) == 3 and isinstance(value[0], str) and value[0] in TYPES
        and isinstance(value[1], list) and isinstance(value[2], bytes)
    )  # fmt: skip


def _places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield path, value
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*path, key))
    elif isinstance(value, list) and not _is_block(value):
        for index, item in enumerate(value):
            yield from _places(item, (*path, index))


def _block(stored: list[Any], rng: random.Random) -> list[Any]:
    """The array with another shape, with rows exchanged or copied, or with some cells changed."""
    dtype, shape, data = stored
    try:
        array = np.frombuffer(data, dtype).reshape(shape).copy()
    except ValueError:  # it was damaged before
        return [dtype, shape, data[:-1]]
    if array.dtype.kind == "i":
        array = array.astype(np.int64)
    how, rows = rng.random(), len(array) if array.ndim else 0
    if array.size == 0 or how < 0.06:
        array = _reshaped(array, rng)
    elif how < 0.22 and array.ndim == 2 and rows > 1:
        i, j = rng.randrange(rows), rng.randrange(rows)
        array[[i, j]] = array[[j, i] if how < 0.16 else [j, j]]
    else:
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            at, other = (tuple(map(rng.randrange, array.shape)) for _ in range(2))
            array[at] = _cell(array, at, other, rng)
    return [array.dtype.str, list(array.shape), array.tobytes()]


def _reshaped(array: Any, rng: random.Random) -> Any:
    if not array.ndim:
        return array
    shape, axis = list(array.shape), rng.randrange(array.ndim)
    shape[axis] = max(0, shape[axis] + rng.choice([-1, 1, 1, 5]))
    made = np.zeros(shape, array.dtype)
    kept = tuple(slice(0, min(sizes)) for sizes in zip(shape, array.shape, strict=True))
    made[kept] = array[kept]
    return made


def _cell(array: Any, at: Path, other: Path, rng: random.Random) -> Any:
    how, rows, value = rng.random(), array.shape[0], array[at]
    if how < 0.15:
        return array[other]
    if array.dtype.kind == "u":
        return rng.choice([0, 1, 2**31, 2**32 - 1, rng.randrange(2**32)])
    if array.dtype.kind == "f":
        if how < 0.7:
            return rng.choice(DOUBLES)
        return float(value) * rng.choice([-1, 10, 0.1, 1e9]) if how < 0.9 else float(rng.randrange(60))
    if how < 0.5:
        return rng.choice([-1, -2, 0, 1, 2, 3, 4, 5])
    if how < 0.8:
        return rng.choice(
            [rng.randrange(max(2, rows)), np.clip(int(value) + rng.choice([-1, 1]), -(2**63), 2**63 - 1)]
        )
    return rng.choice([*INTEGERS, rows - 1, rows, rows + 1, 2 * rows, array.shape[-1]])


def _value(value: Any, rng: random.Random) -> Any:
    match value:
        case bool():
            return rng.choice([not value, 0, 1, "a", None])
        case int():
            near = [
                0,
                1,
                -1,
                value + 1,
                max(0, value - 1),
                value * 2,
                2**31,
                10**9,
                2**53,
                2**62,
                2**63 - 1,
                2**64 - 1,
            ]
            return min(rng.choice(near), 2**64 - 1)
        case float():
            return rng.choice([*DOUBLES, -value, value * 1e9])
        case str():
            return rng.choice([*TEXTS, value + "x", 1, 1.5, True])
        case bytes():
            return rng.choice(
                [value[:-1], value + b"\0", bytes(len(value)), b"\xff" * len(value), b"", value * 2]
            )
        case list():
            return _listed(list(value), rng)
        case dict():
            return _mapped(dict(value), rng)
    return rng.choice([0, 1.0, "a", [], {}])


def _listed(items: list[Any], rng: random.Random) -> list[Any]:
    match rng.randrange(6):
        case 0 if items:
            items.pop(rng.randrange(len(items)))
        case 1 if items:
            items.insert(rng.randrange(len(items) + 1), rng.choice(items))
        case 2:
            rng.shuffle(items)
        case 3:
            items *= rng.choice([0, 2, 50])
        case _:
            items.append(rng.choice([0, 1.0, "a", True, None]))
    return items


def _mapped(pairs: dict[Any, Any], rng: random.Random) -> dict[Any, Any]:
    names = list(pairs)
    match rng.randrange(5):
        case 0 if names:
            pairs.pop(rng.choice(names))
        case 1 if names:
            pairs[rng.choice([*TEXTS, f"q{rng.randrange(9)}"])] = pairs[rng.choice(names)]
        case 2 if names:
            one, other = rng.choice(names), rng.choice(names)
            pairs[one], pairs[other] = pairs[other], pairs[one]
        case 3:
            rng.shuffle(names)
            return {name: pairs[name] for name in names}
        case _:
            pairs[rng.choice(TEXTS)] = rng.choice([0, 1.0, "a", None])
    return pairs
