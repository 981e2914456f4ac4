"""Texts of others on a terminal: names, keys and values of records, which may hold anything."""

from __future__ import annotations

from typing import Any


def plain(text: str, keep: str = "") -> str:
    r"""The text with every character that a terminal obeys, or does not show, as an escape sequence of Python's, but for those to ``keep``.

    >>> print(plain("a\x1b[2J\nb é 日本"), plain("\x9b2J\u202ex"))
    a\x1b[2J\nb é 日本 \x9b2J\u202ex
    """
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in text
    )


def plain_json(value: Any) -> Any:
    """What JSON was decoded to, with all its texts and names ``plain``."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(name): plain_json(content) for name, content in value.items()}
    if isinstance(value, list):
        return [plain_json(one) for one in value]
    return value
