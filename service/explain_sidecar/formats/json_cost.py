"""What it may cost to hold values against a JSON Schema, known before there is one: neither can make a validation long.

The validator's time grows with the number of schemas that it holds one part of a value against, of which a few references can make
millions, and with the size of the automata of its patterns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urldefrag, urljoin

import jsonschema_rs
import orjson

from explain_sidecar.formats.errors import SchemaProblem

MAX_LEVELS = 64
"""Most schemas within each other, through references too. All may come onto the stack for each level of a value, of which there are up to 255."""

MAX_STEPS = 1_000_000
"""Largest schema, in parts and in KiB of what its references lead to."""

MAX_PATTERN = 2**21
"""Largest automaton of a pattern, in bytes."""

_IN = frozenset(
    [
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "oneOf",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
_NAMED = frozenset(["dependencies", "dependentSchemas", "patternProperties", "properties"])
_APART = ("items", "prefixItems", "properties")
"""No two of their schemas meet the same part of a value."""

_VALUES = ("const", "dependentRequired", "enum", "required")
_REFERENCES = {"$ref": "", "$dynamicRef": "$dynamicAnchor", "$recursiveRef": "$recursiveAnchor"}
"""Keywords that refer to a schema, with those that mark the schemas to which they may refer instead."""

Bases = tuple[str, ...]
"""The addresses that references may begin at; which one it is depends on drafts within drafts, and none is left out."""

Cost = tuple[int, int]
"""How many schemas one part of a value is held against, or what takes as long; and how many schemas are within each other."""

_OPEN = (1, 1)


class SchemaCost:
    """The cost of the schema at ``base``, one of ``resources`` by their addresses, which are those of ``registry``. Raises ``SchemaProblem``.

    ``units``: for each byte of a value some 40 ns each at the most, if a schema that leads to itself meets each part of a value once;
    ``recursive``: whether there is one.
    """

    def __init__(self, base: str, resources: Mapping[str, Any], registry: jsonschema_rs.Registry) -> None:
        self.recursive = False
        self._registry = registry
        self._steps = 0
        self._known: dict[tuple[str, str], Cost] = {}
        self._patterns: dict[str, Cost] = {}
        self._marked: dict[tuple[str, str], list[tuple[Any, Bases]]] = {}
        for address, schema in resources.items():
            self._mark(schema, (address,))
        self.units = self._at((base, "#"), resources[base], (base,), 0)[0]
        self._spend(self.units)

    def _mark(self, schema: Any, bases: Bases) -> None:
        left = [(schema, bases)]
        while left:
            part, bases = left.pop()
            if isinstance(part, dict):
                self._spend(1)
                bases = _bases(part, bases)
                for anchor in ("$dynamicAnchor", "$recursiveAnchor"):
                    if anchor in part:
                        name = part[anchor] if isinstance(part[anchor], str) else ""
                        self._marked.setdefault((anchor, name), []).append((part, bases))
                left += ((inner, bases) for inner in part.values())
            elif isinstance(part, list):
                left += ((inner, bases) for inner in part)

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise SchemaProblem(f"it takes more than {MAX_STEPS:,} steps to take up; make it simpler")

    def _of(self, part: Any, bases: Bases, levels: int) -> Cost:
        """The cost of a schema with so many around it."""
        self._spend(1)
        if not isinstance(part, dict):
            return 1, 1
        if levels >= MAX_LEVELS:
            raise SchemaProblem(f"it has more than {MAX_LEVELS} schemas within each other; make it simpler")
        found = list(self._within(part, _bases(part, bases), levels + 1))
        return 1 + sum(units for units, _ in found), 1 + max((within for _, within in found), default=0)

    def _within(self, part: dict[str, Any], bases: Bases, levels: int) -> Iterator[Cost]:
        for keyword, inner in part.items():
            if keyword in _VALUES:
                yield len(orjson.dumps(inner)) // 100, 0
            elif keyword == "pattern" and isinstance(inner, str):
                yield self._pattern(inner)
            elif keyword in _REFERENCES and isinstance(inner, str):
                yield from self._referred(keyword, inner, bases, levels)
            elif keyword in _IN or (keyword in _NAMED and isinstance(inner, dict)):
                schemas = (
                    inner if isinstance(inner, list) else inner.values() if keyword in _NAMED else [inner]
                )
                costs = [self._of(schema, bases, levels) for schema in schemas] or [(0, 0)]
                units = (max if keyword in _APART else sum)(units for units, _ in costs)
                yield units + len(costs) // 10, max(within for _, within in costs)
                if keyword == "patternProperties":
                    yield from map(self._pattern, inner)

    def _referred(self, keyword: str, reference: str, bases: Bases, levels: int) -> Iterator[Cost]:
        exists = False
        for base in bases:
            if (base, reference) not in self._known:
                try:
                    found = self._registry.resolver(base).lookup(reference)
                except jsonschema_rs.ReferencingError:
                    continue
                self._spend(len(orjson.dumps(found.contents)) // 1024)
                yield self._at((base, reference), found.contents, (found.resolver.base_uri,), levels)
            else:
                yield self._at((base, reference), None, (), levels)
            exists = True
        if not exists:
            raise SchemaProblem(f"it refers to {reference[:100]!r}, which does not exist")
        mark = _REFERENCES[keyword], reference.rpartition("#")[2]
        for number, (schema, others) in enumerate(self._marked.get(mark, ())):
            yield self._at((f"{mark[0]} {number}", mark[1]), schema, others, levels)

    def _at(self, key: tuple[str, str], schema: Any, bases: Bases, levels: int) -> Cost:
        known = self._known.get(key)
        if known is None:
            self._known[key] = _OPEN
            self._known[key] = known = self._of(schema, bases, levels)
        elif known is _OPEN:
            self.recursive = True
        elif levels + known[1] > MAX_LEVELS:
            raise SchemaProblem(f"it has more than {MAX_LEVELS} schemas within each other; make it simpler")
        return known

    def _pattern(self, text: str) -> Cost:
        """A pattern takes time by the size of its automaton for each character; the validator says no more than whether one is larger."""
        size = 2**12
        while text not in self._patterns:
            options = jsonschema_rs.RegexOptions(size_limit=size)
            try:
                jsonschema_rs.Draft7Validator({"pattern": text}, pattern_options=options)
                self._patterns[text] = (size // 100, 0)
                self._spend(size // 64)
            except jsonschema_rs.ValidationError:
                size *= 2
                if size > MAX_PATTERN:
                    raise SchemaProblem(
                        f"the pattern {text[:60]} cannot be matched in linear time: it has look-around or back-references, repeats too much, "
                        "or is none; write it in another way, or read the records with format json, which validates nothing"
                    ) from None
        return self._patterns[text]


def _bases(part: dict[str, Any], bases: Bases) -> Bases:
    for keyword in ("$id", "id"):
        if isinstance(part.get(keyword), str):
            bases = tuple(
                dict.fromkeys((*bases, *(urldefrag(urljoin(base, part[keyword]))[0] for base in bases)))
            )
    if len(bases) > MAX_LEVELS:
        raise SchemaProblem("it has too many ids within each other; take some out")
    return bases
