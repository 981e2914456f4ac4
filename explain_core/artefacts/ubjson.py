"""Universal Binary JSON, as XGBoost writes it.

Source: https://ubjson.org, Draft 12.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explain_core.artefacts.artefact import ArtefactError

_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}

MAX_DEPTH = 64


def loads(data: bytes) -> Any:
    """The value that the bytes stand for: lists, dicts, numbers, strings. Raises ``ArtefactError`` where they are none.

    >>> loads(b"{U\\x01a[$U#U\\x02\\x07\\x08}")
    {'a': [7, 8]}
    """
    reader = _Reader(data)
    try:
        value = reader.value(reader.take(1), 0)
    except UnicodeDecodeError:
        raise ArtefactError("UBJSON: a string that is not UTF-8; the file is damaged") from None
    if reader.position != len(data):
        raise ArtefactError(f"UBJSON: {len(data) - reader.position} bytes after the end; the file is damaged")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, n: int) -> bytes:
        end = self.position + n
        if n < 0 or end > len(self._data):
            raise ArtefactError(f"UBJSON: ends within a value at byte {self.position}; the file is truncated")
        found = self._data[self.position : end]
        self.position = end
        return found

    def value(self, marker: bytes, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ArtefactError(f"UBJSON: nested deeper than {MAX_DEPTH}; no model is")
        if marker in _NUMBERS:
            return self._numbers(marker, 1)[0]
        if marker == b"S":
            return self._string()
        if marker == b"[":
            return self._array(depth)
        if marker == b"{":
            return self._object(depth)
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        raise ArtefactError(
            f"UBJSON: unknown marker {marker!r} at byte {self.position - 1}; the file is damaged"
        )

    def _numbers(self, marker: bytes, n: int) -> list[Any]:
        kind = np.dtype(_NUMBERS[marker])
        return list(np.frombuffer(self.take(n * kind.itemsize), kind).tolist())

    def _length(self) -> int:
        marker = self.take(1)
        if marker not in (b"i", b"U", b"I", b"l", b"L"):
            raise ArtefactError(f"UBJSON: a length of type {marker!r}; the file is damaged")
        return int(self._numbers(marker, 1)[0])

    def _string(self) -> str:
        return self.take(self._length()).decode()

    def _array(self, depth: int) -> list[Any]:
        marker = self.take(1)
        if marker == b"$":
            kind = self.take(1)
            if self.take(1) != b"#" or kind not in _NUMBERS:
                raise ArtefactError(f"UBJSON: an array of {kind!r}; the file is damaged")
            return self._numbers(kind, self._length())
        if marker == b"#":
            n = self._length()
            if n > len(self._data):
                raise ArtefactError("UBJSON: an array longer than the file; the file is damaged")
            return [self.value(self.take(1), depth + 1) for _ in range(n)]
        found = []
        while marker != b"]":
            found.append(self.value(marker, depth + 1))
            marker = self.take(1)
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (marker := self.take(1)) != b"}":
            self.position -= len(marker)
            name = self._string()
            found[name] = self.value(self.take(1), depth + 1)
        return found
