"""Records as callers of the library give them, as values that a model learns from and a state holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Rational
from typing import Any

import numpy as np

from explain_core.losses import MAX_NUMBER, Prediction, fits_64_bits
from explain_core.models import Row

CLASSES = {int, str, bool, float}
"""What a known label of a classification is as it is."""

UNSEEN = ""
"""The code of the labels in what was served that no record has had yet."""


def scalar(value: Any) -> Any:
    """A value of numpy or pandas as Python's own; None where it is missing.

    >>> scalar(np.int64(3)), scalar(np.float64("nan")), scalar("a")
    (3, None, 'a')
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value.astype(f"{value.dtype.kind}8[us]")  # of nanoseconds numpy makes a number
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if type(value).__name__ == "Decimal" or (isinstance(value, Rational) and not isinstance(value, int)):
        value = float(value)
    return None if isinstance(value, float) and math.isnan(value) else value


def is_number(y: Any) -> bool:
    """Whether a label of a regression is a number already."""
    return (type(y) is float or type(y) is int) and -MAX_NUMBER <= y <= MAX_NUMBER


def is_time(time: Any) -> bool:
    """Whether an event time is one already, or None."""
    return time is None or (type(time) is int and -(2**63) <= time < 2**63)


def time(offset: int, time: Any) -> int:
    """The record's event time, its offset where there is none. Raises ``ValueError`` for what is no time.

    >>> time(7, None), time(7, np.int64(1_600_000_000_000))
    (7, 1600000000000)
    """
    found = int(time) if isinstance(time, np.integer) else time
    if not is_time(found):
        raise ValueError(
            f"record {offset}: the event time is {time!r:.40}; give milliseconds since 1970 as a whole number, "
            "of a datetime round(1000 * time.timestamp())"
        )
    return offset if found is None else found


def served(offset: int, served: Any, codes: Mapping[Any, int] | None) -> Prediction:
    """What was served for a record, of labels by their ``codes``; those that no record has had yet are one. Raises ``ValueError`` for what is no prediction.

    >>> served(7, {"up": 0.75, "down": np.float64(0.25)}, {"down": 0, "up": 1})
    {1: 0.75, 0: 0.25}
    """
    what = f"record {offset}: the served prediction"
    if codes is None:
        found = scalar(served)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise ValueError(f"{what} is {served!r:.40}; a regression needs a number")
        return float(_number(what, found))
    if not isinstance(served, Mapping):
        raise ValueError(f"{what} is {served!r:.40}; give a mapping from label to probability")
    coded: dict[Any, float] = {}
    for name, value in served.items():
        probability = scalar(value)
        if not isinstance(probability, int | float) or not 0.0 <= probability <= 1.0:
            raise ValueError(f"{what} of {name!r:.40} is {value!r:.40}; a probability is between 0 and 1")
        code = codes.get(scalar(name), UNSEEN)
        coded[code] = coded.get(code, 0.0) + probability
    return coded


def features(offset: int, x: Row) -> Row:
    """The record's features without those that are missing, the same object where nothing has to be done. Raises ``ValueError`` for what is none.

    >>> features(7, {"a": np.float32(0.5), "b": "x", "c": None})
    {'a': 0.5, 'b': 'x'}
    >>> features(7, {"a": math.inf})
    Traceback (most recent call last):
    ValueError: record 7: feature 'a' is inf; a number is between ±1e+30, and None where it is missing
    """
    if not isinstance(x, Mapping):
        raise ValueError(f"record {offset}: it is a {type(x).__name__}; pass a dict of its features by name")
    for name, value in x.items():
        kind = type(value)
        if type(name) is not str or not (
            (kind is float and -MAX_NUMBER <= value <= MAX_NUMBER)
            or (kind is str and value.isascii())
            or (kind is int and fits_64_bits(value))
            or kind is bool
        ):
            found = {_name(offset, name): _feature(offset, name, value) for name, value in x.items()}
            return known(found)
    return x


def known(x: Row) -> Row:
    """Those of a record's features that are not missing, the same object where none is."""
    for value in x.values():
        if value is None:
            return {name: value for name, value in x.items() if value is not None}
    return x


def _name(offset: int, name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"record {offset}: the name of a feature is {name!r:.40}; a name is a text")
    return _text(f"record {offset}: the name of a feature", name)


def _feature(offset: int, name: str, value: Any) -> Any:
    what, found = f"record {offset}: feature {name!r:.40}", scalar(value)
    if found is None or isinstance(found, bool):
        return found
    if isinstance(found, str):
        return _text(what, found)
    if not isinstance(found, int | float):
        raise ValueError(
            f"{what} is a {type(value).__name__}; a feature is a number, a boolean or a text: convert it, or leave it out"
        )
    return _number(what, found, ", and None where it is missing")


def _number(what: str, number: float, else_: str = "") -> float:
    if not -MAX_NUMBER <= number <= MAX_NUMBER:
        raise ValueError(f"{what} is {number!r:.40}; a number is between ±{MAX_NUMBER:g}{else_}")
    return int(number) if isinstance(number, int) and fits_64_bits(number) else float(number)


def _text(what: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{what} is {text!r:.40}, which is no valid Unicode; decode it by its encoding"
        ) from None
    return str(text)


def label(offset: int, y: Any, regression: bool) -> Any:
    """The record's label. Raises ``ValueError`` for what is none.

    >>> label(7, np.str_("up"), False), label(7, np.float64(1.5), True)
    ('up', 1.5)
    """
    what, found = f"record {offset}: the label", scalar(y)
    if found is None:
        raise ValueError(f"{what} is missing; update_unlabelled takes a record without one")
    if regression:
        if not isinstance(found, int | float):
            raise ValueError(f"{what} is {y!r:.40}; a regression needs a number")
        return float(_number(what, found))
    if isinstance(found, str):
        return _text(what, found)
    if not isinstance(found, int | float):
        raise ValueError(f"{what} is a {type(y).__name__}; a class is a text, a whole number or a boolean")
    if isinstance(found, int) and not fits_64_bits(found):
        raise ValueError(f"{what} is {found!r:.40}; a class that is a whole number has at most 64 bits")
    return found if isinstance(found, bool) or not isinstance(found, float) else _number(what, found)
