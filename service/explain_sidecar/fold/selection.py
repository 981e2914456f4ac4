"""Which records of a topic are selected, and where their fields are: ``record.where``, ``record.root``, ``record.deletes``."""

from __future__ import annotations

from typing import Any

from explain_sidecar.formats.errors import BadRecord, Headers
from explain_sidecar.formats.json_schema import json_type
from explain_sidecar.formats.paths import ABSENT, find, path_of, roots
from explain_sidecar.settings.predictions import PredictionSettings
from explain_sidecar.settings.records import HEADER, SCHEMA, RecordSettings


class Selection:
    """Decides which records are selected. ``reserved``: fields with a role here, which are no features by default."""

    def __init__(self, settings: RecordSettings) -> None:
        self._headers: list[tuple[str, frozenset[str]]] = []
        self._fields: list[tuple[tuple[str, ...], frozenset[Any]]] = []
        self._types: frozenset[str] | None = None
        self._root = None if settings.root is None else path_of(settings.root)
        self._dead_letters = settings.deletes == "dead_letter"
        for name, values in settings.where.items():
            if name.startswith(HEADER):
                self._headers.append((name.removeprefix(HEADER), frozenset(map(_text, values))))
            elif name.startswith(SCHEMA):
                self._types = frozenset(map(_text, values))
            else:
                self._fields.append((path_of(name), frozenset(map(_comparable, values))))
        names = (name for path, _ in self._fields for name in roots(path))
        self.reserved = tuple(names) if self._root is None else ()

    def has_headers(self, headers: Headers) -> bool:
        """Whether a record's headers select it; the rest of a record that they exclude need not be readable."""
        for name, wanted in self._headers:
            found = (
                value.decode(errors="replace") for key, value in headers if key == name and value is not None
            )
            if wanted.isdisjoint(found):
                return False
        return True

    def object_of(self, data: dict[str, Any], schema: str | None) -> dict[str, Any] | None:
        """The object with the fields; None where the record is to be skipped. Raises ``BadRecord``."""
        if self._types is not None and schema not in self._types:
            return None
        for path, wanted in self._fields:
            if _comparable(find(data, path)) not in wanted:
                return None
        if self._root is None:
            return data
        found = find(data, self._root)
        if found is None:
            self.delete("the object at record.root is null")
            return None
        if found is ABSENT:
            raise BadRecord("no_root", f"there is no {'.'.join(self._root)}, which record.root names")
        if type(found) is not dict:
            raise BadRecord(
                "not_object",
                f"the value at record.root is a JSON {json_type(found)}; fields are in an object",
            )
        return found

    def delete(self, why: str) -> None:
        """Raise ``BadRecord`` where a deletion becomes a dead letter instead of being skipped."""
        if self._dead_letters:
            raise BadRecord("null_value", f"{why}; a labelled record is an object")


class Choice:
    """Chooses the records whose predictions are published; none where they are off.

    By its offset, of ``every`` consecutive records about one: multiples of the golden ratio are spread evenly, whatever offsets records have (Knuth,
    TAOCP 3, 6.4).
    """

    def __init__(self, settings: PredictionSettings) -> None:
        self._every = settings.every if settings.enabled else 0
        self._where = Selection(RecordSettings(where=settings.where)) if settings.where else None

    @property
    def all(self) -> bool:
        """Whether each offset is chosen."""
        return self._every == 1

    def has_offset(self, offset: int) -> bool:
        return self._every > 0 and offset * _GOLDEN % 2**64 * self._every < 2**64

    def has(self, offset: int, headers: Headers, data: dict[str, Any], schema: str | None) -> bool:
        """Whether a record is chosen; ``data`` is its whole value, ``schema`` the full name of its type."""
        where = self._where
        return self.has_offset(offset) and (
            where is None or (where.has_headers(headers) and where.object_of(data, schema) is not None)
        )


_GOLDEN = 0x9E3779B97F4A7C15
"""2⁶⁴ divided by the golden ratio."""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _comparable(value: Any) -> Any:
    """A key that is equal for equal values of JSON: true is not 1, and 1 is 1.0. Lists and objects equal no value of the settings."""
    return (type(value) is bool, value) if isinstance(value, str | bool | int | float) else ABSENT
