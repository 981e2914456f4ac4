"""From the texts of JSON Schemas to checks of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import ge, gt, le, lt
from typing import Any

from explain_sidecar.formats import json_keywords as keywords
from explain_sidecar.formats.errors import SchemaProblem
from explain_sidecar.formats.json_nodes import Check, Node, Run, quoted
from explain_sidecar.formats.json_references import RECURSIVE, Place, References
from explain_sidecar.formats.patterns import Pattern


def compiled(schemas: Mapping[str, Any]) -> Node:
    """The schema under the empty name, with those that it refers to.

    Raises ``SchemaProblem``, and ``BadRecord`` where that takes too many steps."""
    return _Compiler(schemas).node


class _Compiler:
    """Turns the schemas that the main one leads to into nodes, each one once."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self.references = References(schemas)
        self.run = Run("taking it up")
        self._nodes: dict[int, Node] = {}
        self._left: list[tuple[Node, Place]] = []
        self._dynamic: dict[str, dict[str, Node]] = {}
        self.node = self.at(self.references.main)
        while self._left:
            node, place = self._left.pop()
            if isinstance(place.schema, dict):
                node.collects = any(name in place.schema for name in _UNEVALUATED)
                node.checks = tuple(self._checks(place))
            elif place.schema is False:
                node.checks = (keywords.never,)

    def at(self, place: Place) -> Node:
        """The node of a schema at a place; its checks come later."""
        if not isinstance(place.schema, dict | bool):
            raise SchemaProblem(f"{quoted(place.schema)} is where a schema must be")
        key = id(place.schema)
        if key not in self._nodes:
            self.run.spend(1)
            self._nodes[key] = Node(place.base)
            self._left.append((self._nodes[key], place))
        return self._nodes[key]

    def one(self, place: Place, keyword: str) -> Node:
        """The node of the schema under a keyword."""
        return self.at(self.references.place(place.schema[keyword], place))

    def perhaps(self, place: Place, keyword: str) -> Node | None:
        return self.one(place, keyword) if keyword in place.schema else None

    def many(self, place: Place, keyword: str) -> list[Node]:
        found = _of(list, keyword, place.schema.get(keyword, []))
        return [self.at(self.references.place(inner, place)) for inner in found]

    def named(self, place: Place, keyword: str) -> dict[str, Node]:
        found = _of(dict, keyword, place.schema.get(keyword, {}))
        return {name: self.at(self.references.place(inner, place)) for name, inner in found.items()}

    def dynamic(self, anchor: str) -> dict[str, Node]:
        """The nodes of the schemas with a dynamic anchor, by the addresses of their resources."""
        if anchor not in self._dynamic:
            places = reversed(self.references.dynamic[anchor])
            self._dynamic[anchor] = {place.base: self.at(place) for place in places}
        return self._dynamic[anchor]

    def pattern(self, text: Any) -> Pattern:
        found = Pattern(_of(str, "pattern", text))
        self.run.spend(found.size)
        return found

    def _checks(self, place: Place) -> Iterator[Check]:
        if place.draft <= 7 and "$ref" in place.schema:  # what is beside it means nothing there
            yield _reference(self, place, "$ref")
            return
        for group, first, last, build in _KEYWORDS:
            for keyword in group:
                if first <= place.draft <= last and keyword in place.schema:
                    self.run.spend(1)
                    yield build(self, place, keyword)
        for group, build in _GROUPS:
            if any(keyword in place.schema for keyword in group):
                yield build(self, place, group[0])
        for keyword, unevaluated in _UNEVALUATED.items():
            if place.draft > 7 and keyword in place.schema:
                yield unevaluated(self.one(place, keyword))


def _of(kind: type, keyword: str, value: Any) -> Any:
    if not isinstance(value, kind):
        raise SchemaProblem(f"{keyword} is {quoted(value)}, which it cannot be")
    return value


def _texts(keyword: str, value: Any) -> list[str]:
    texts: list[str] = [_of(str, keyword, text) for text in (value if isinstance(value, list) else [value])]
    return texts


def _number(place: Place, keyword: str, default: Any = None) -> Any:
    found = place.schema.get(keyword, default)
    if found is not default and not keywords.is_number(found):
        raise SchemaProblem(f"{keyword} is {quoted(found)}, and must be a number")
    return found


def _enum(compiler: _Compiler, place: Place, keyword: str) -> Check:
    return keywords.among(_of(list, keyword, place.schema[keyword]), compiler.run)


def _limit(compiler: _Compiler, place: Place, keyword: str) -> Check:
    bound, upper = _number(place, keyword), keyword.endswith("aximum")
    strict = keyword.startswith("excl") or (
        place.draft == 4 and place.schema.get(f"exclusiveM{keyword[1:]}") is True
    )
    holds, words = {
        (True, False): (le, "is more than the maximum of"),
        (True, True): (lt, "is not less than"),
        (False, False): (ge, "is less than the minimum of"),
        (False, True): (gt, "is not more than"),
    }[upper, strict]
    return keywords.bounded(keywords.is_number, lambda value: holds(value, bound), f"{words} {quoted(bound)}")


def _multiple(compiler: _Compiler, place: Place, keyword: str) -> Check:
    factor = _number(place, keyword)
    if factor <= 0:
        raise SchemaProblem(f"multipleOf is {quoted(factor)}, and must be more than 0")
    return keywords.bounded(
        keywords.is_number,
        lambda value: keywords.multiple_of(value, factor),
        f"is no multiple of {quoted(factor)}",
    )


_SIZES: dict[str, tuple[type, str]] = {
    "Length": (str, "characters"),
    "Items": (list, "items"),
    "Properties": (dict, "members"),
}


def _size(compiler: _Compiler, place: Place, keyword: str) -> Check:
    bound, least = _number(place, keyword), keyword.startswith("min")
    kind, unit = _SIZES[keyword[3:]]
    holds = ge if least else le
    return keywords.bounded(
        lambda value: isinstance(value, kind),
        lambda value: holds(len(value), bound),
        f"has {'fewer' if least else 'more'} than {quoted(bound)} {unit}",
    )


def _unique(compiler: _Compiler, place: Place, keyword: str) -> Check:
    return keywords.unique if place.schema[keyword] is True else keywords.each([])


def _items(compiler: _Compiler, place: Place, keyword: str) -> Check:
    if place.draft == 2020:
        return keywords.items(compiler.many(place, "prefixItems"), compiler.perhaps(place, "items"))
    if not isinstance(place.schema.get("items"), list):
        return keywords.items([], compiler.perhaps(place, "items"))
    return keywords.items(compiler.many(place, "items"), compiler.perhaps(place, "additionalItems"))


def _contains(compiler: _Compiler, place: Place, keyword: str) -> Check:
    counts = place.draft > 7
    least = _number(place, "minContains", 1) if counts else 1
    most = _number(place, "maxContains") if counts else None
    return keywords.contains(compiler.one(place, keyword), least, most, notes=place.draft == 2020)


def _properties(compiler: _Compiler, place: Place, keyword: str) -> Check:
    patterns = compiler.named(place, "patternProperties")
    by_pattern = [(compiler.pattern(text), node) for text, node in patterns.items()]
    rest = compiler.perhaps(place, "additionalProperties")
    return keywords.properties(compiler.named(place, "properties"), by_pattern, rest)


def _dependent(compiler: _Compiler, place: Place, keyword: str) -> Check:
    checks = []
    for name, wanted in _of(dict, keyword, place.schema[keyword]).items():
        if isinstance(wanted, list | str):
            checks.append(keywords.required(_texts(keyword, wanted), name))
        else:
            checks.append(keywords.dependent(name, compiler.at(compiler.references.place(wanted, place))))
    return keywords.each(checks)


def _if(compiler: _Compiler, place: Place, keyword: str) -> Check:
    branches = compiler.perhaps(place, "then"), compiler.perhaps(place, "else")
    return keywords.chosen(compiler.one(place, "if"), *branches)


def _reference(compiler: _Compiler, place: Place, keyword: str) -> Check:
    found = compiler.references.find(place.schema[keyword], place)
    schema = found.schema if isinstance(found.schema, dict) else {}
    anchor = place.schema[keyword].rpartition("#")[2]
    if keyword == "$dynamicRef" and schema.get("$dynamicAnchor") == anchor:
        return keywords.dynamic(compiler.at(found), compiler.dynamic(anchor), outermost=True)
    if keyword == "$recursiveRef" and schema.get("$recursiveAnchor") is True:
        return keywords.dynamic(compiler.at(found), compiler.dynamic(RECURSIVE), outermost=False)
    return compiler.at(found).apply


Build = Callable[[_Compiler, Place, str], Check]

_KEYWORDS: list[tuple[tuple[str, ...], int, int, Build]] = [
    (("type",), 4, 2020, lambda _, place, name: keywords.of_type(_texts(name, place.schema[name]), place.draft)),
    (("enum",), 4, 2020, _enum),
    (("const",), 6, 2020, lambda compiler, place, name: keywords.among([place.schema[name]], compiler.run)),
    (("minimum", "maximum"), 4, 2020, _limit),
    (("exclusiveMinimum", "exclusiveMaximum"), 6, 2020, _limit),
    (("multipleOf",), 4, 2020, _multiple),
    (("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), 4, 2020, _size),
    (("pattern",), 4, 2020, lambda compiler, place, name: keywords.pattern(compiler.pattern(place.schema[name]))),
    (("required",), 4, 2020, lambda _, place, name: keywords.required(_texts(name, place.schema[name]))),
    (("uniqueItems",), 4, 2020, _unique),
    (("dependencies",), 4, 7, _dependent),
    (("dependentRequired", "dependentSchemas"), 2019, 2020, _dependent),
    (("propertyNames",), 6, 2020, lambda compiler, place, name: keywords.property_names(compiler.one(place, name))),
    (("contains",), 6, 2020, _contains),
    (("$ref",), 4, 2020, _reference),
    (("$recursiveRef",), 2019, 2019, _reference),
    (("$dynamicRef",), 2020, 2020, _reference),
    (("allOf",), 4, 2020, lambda compiler, place, name: keywords.each([node.apply for node in compiler.many(place, name)])),
    (("anyOf",), 4, 2020, lambda compiler, place, name: keywords.some_of(compiler.many(place, name), None)),
    (("oneOf",), 4, 2020, lambda compiler, place, name: keywords.some_of(compiler.many(place, name), 1)),
    (("not",), 4, 2020, lambda compiler, place, name: keywords.negated(compiler.one(place, name))),
    (("if",), 7, 2020, _if),
]  # fmt: skip
"""The keywords with their first and last drafts, and what makes their checks, in the order in which they are asked."""

_GROUPS: list[tuple[tuple[str, ...], Build]] = [
    (("items", "prefixItems"), _items),
    (("properties", "patternProperties", "additionalProperties"), _properties),
]
"""Keywords that share a check, all drafts have them."""

_UNEVALUATED = {
    "unevaluatedItems": keywords.unevaluated_items,
    "unevaluatedProperties": keywords.unevaluated_properties,
}
"""They ask what the others have evaluated, and come last."""
