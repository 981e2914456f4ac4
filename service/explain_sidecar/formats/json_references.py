"""Where the schemas of a JSON Schema are, and what its references lead to. Nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin

from explain_sidecar.formats.errors import SchemaProblem
from explain_sidecar.formats.json_nodes import MAX_LEVELS, quoted

MAX_ADDRESS = 1_000
"""Longest address of a schema, in characters; a schema within another repeats that of the outer one."""

DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
"""The drafts, by ``$schema`` without an empty fragment."""

DEFAULT_DRAFT = 7

ONE = ("additionalItems", "additionalProperties", "contains", "else", "if", "not", "propertyNames", "then",
       "unevaluatedItems", "unevaluatedProperties")  # fmt: skip
MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")
"""Keywords with a schema, with a list of them, and with an object of them. ``items`` may have one, or a list."""


RECURSIVE = "#"
"""Stands for the name of what ``$recursiveAnchor`` marks; no anchor has it."""


class Place(NamedTuple):
    """A schema, the address that its references begin at, and its draft."""

    schema: Any
    base: str
    draft: int


class References:
    """The schemas within some documents by name, that of the records under the empty name. Raises ``SchemaProblem``.

    ``dynamic``: those with a dynamic anchor, by its name; the outer ones first.
    """

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._resources: dict[str, Place] = {}
        self._anchors: dict[tuple[str, str], Place] = {}
        self._places: dict[int, Place] = {}
        self.dynamic: dict[str, list[Place]] = {}
        self.main = self._document("", documents[""], DEFAULT_DRAFT)
        for name, document in documents.items():
            if name:
                self._document(name, document, self.main.draft)

    def _document(self, name: str, document: Any, draft: int) -> Place:
        place = Place(document, name, draft)
        self._walk(place, MAX_LEVELS)
        self._resources[name] = self.place(document, place)
        return self._resources[name]

    def place(self, schema: Any, parent: Place) -> Place:
        """Where a schema within another one is."""
        return self._places.get(id(schema), Place(schema, parent.base, parent.draft))

    def find(self, reference: Any, place: Place) -> Place:
        """What a reference leads to. Raises ``SchemaProblem`` where that is nothing."""
        if not isinstance(reference, str):
            raise SchemaProblem(f"$ref is {quoted(reference)}, and must be a text")
        address, _, fragment = (
            (place.base, "#", reference[1:])
            if reference.startswith("#")
            else self._joined(place.base, reference).partition("#")
        )
        found = self._resources.get(address) or self._resources.get(reference.partition("#")[0])
        if found is None:
            raise SchemaProblem(f"it refers to {quoted(reference)}, which is not among its references")
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            anchored = self._anchors.get((found.base, fragment))
            if anchored is None:
                raise SchemaProblem(f"it refers to {quoted(reference)}, which does not exist")
            return anchored
        for part in fragment.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            inner = found.schema
            if isinstance(inner, dict) and part in inner:
                inner = inner[part]
            elif isinstance(inner, list) and part.isdecimal() and int(part) < len(inner):
                inner = inner[int(part)]
            else:
                raise SchemaProblem(f"it refers to {quoted(reference)}, which does not exist")
            found = self.place(inner, found)
        return found

    def _walk(self, parent: Place, levels: int) -> None:
        if levels < 0:
            raise SchemaProblem(f"it has more than {MAX_LEVELS} levels")
        schema = parent.schema
        if not isinstance(schema, dict):
            return
        place = self._places[id(schema)] = self._here(schema, parent)
        for keyword in ONE:
            self._inside(schema.get(keyword), place, levels)
        for keyword in (*MANY, "items"):
            inner = schema.get(keyword)
            for item in inner if isinstance(inner, list) else [inner] if keyword == "items" else ():
                self._inside(item, place, levels)
        for keyword in NAMED:
            inner = schema.get(keyword)
            for item in inner.values() if isinstance(inner, dict) else ():
                self._inside(item, place, levels)

    def _inside(self, schema: Any, place: Place, levels: int) -> None:
        if isinstance(schema, dict):
            self._walk(Place(schema, place.base, place.draft), levels - 1)

    def _here(self, schema: dict[str, Any], parent: Place) -> Place:
        """The place of a schema, which its own address and draft change; its anchors are noted."""
        base, draft = parent.base, parent.draft
        if "$schema" in schema:
            wanted = str(schema["$schema"])
            if "draft-03" in wanted:
                raise SchemaProblem(f"$schema {quoted(wanted)} is too old; write draft-07 or 2020-12")
            draft = DRAFTS.get(wanted.rstrip("#"), draft)
        name = schema.get("id" if draft == 4 else "$id")
        if isinstance(name, str) and (draft > 7 or "$ref" not in schema):
            address, _, fragment = self._joined(base, name).partition("#")
            if fragment:
                self._anchors[base if name.startswith("#") else address, fragment] = Place(
                    schema, base, draft
                )
            if not name.startswith("#"):
                base = address
                self._resources.setdefault(base, Place(schema, base, draft))
        for keyword in ("$anchor", "$dynamicAnchor") if draft > 7 else ():
            anchor = schema.get(keyword)
            if isinstance(anchor, str):
                self._anchors[base, anchor] = Place(schema, base, draft)
                if keyword == "$dynamicAnchor":
                    self.dynamic.setdefault(anchor, []).append(Place(schema, base, draft))
        if schema.get("$recursiveAnchor") is True:
            self.dynamic.setdefault(RECURSIVE, []).append(Place(schema, base, draft))
        return Place(schema, base, draft)

    def _joined(self, base: str, name: str) -> str:
        found = urljoin(base, name)
        if len(found) > MAX_ADDRESS:
            raise SchemaProblem(f"it has an address of more than {MAX_ADDRESS} characters")
        return found
