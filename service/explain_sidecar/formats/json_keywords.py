"""What each keyword of a JSON Schema asks of a value: one function for each, which makes its check."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isfinite, isinf
from typing import Any

from explain_sidecar.formats.errors import SchemaProblem
from explain_sidecar.formats.json_nodes import Check, Node, Problem, Run, Seen, canonical, merge, quoted
from explain_sidecar.formats.patterns import Pattern

# --- any value -------------------------------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": is_number,
    "integer": lambda value: is_number(value) and (isinstance(value, int) or value.is_integer()),
}


def of_type(names: list[str], draft: int) -> Check:
    types = dict(TYPES)
    if draft == 4:
        types["integer"] = lambda value: is_number(value) and isinstance(value, int)
    unknown = [name for name in names if name not in types]
    if unknown:
        raise SchemaProblem(f"type {quoted(unknown[0])} does not exist")
    accepts, shown = [types[name] for name in names], " or ".join(names)

    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        for accept in accepts:
            if accept(value):
                return None
        return Problem(f"{quoted(value)} is no {shown}")

    return check


def among(values: list[Any], run: Run) -> Check:
    allowed = {canonical(value, run) for value in values}
    shown = quoted(values[0]) if len(values) == 1 else f"one of the schema's {len(values)} values"

    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        return None if canonical(value, run) in allowed else Problem(f"{quoted(value)} is not {shown}")

    return check


def bounded(fits: Callable[[Any], bool], holds: Callable[[Any], bool], complaint: str) -> Check:
    """``holds`` is asked of a value that ``fits``, others are valid."""

    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        if fits(value) and not holds(value):
            return Problem(f"{quoted(value)} {complaint}")
        return None

    return check


def multiple_of(value: float, factor: float) -> bool:
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    quotient = value / factor
    if isinf(quotient) and isfinite(value):
        return (Fraction(value) / Fraction(factor)).denominator == 1
    return quotient.is_integer()


# --- texts -----------------------------------------------------------------------------------------------------------


def pattern(wanted: Pattern) -> Check:
    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        if not isinstance(value, str):
            return None
        run.spend(wanted.steps(value))
        return None if wanted.matches(value) else Problem(f"{quoted(value)} does not match {wanted.shown}")

    return check


# --- arrays ----------------------------------------------------------------------------------------------------------


def items(first: list[Node], rest: Node | None) -> Check:
    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        if not isinstance(value, list):
            return None
        if seen is not None:
            run.spend(len(value))
            seen.update(range(len(value) if rest is not None else min(len(value), len(first))))
        for index, item in enumerate(value):
            node = first[index] if index < len(first) else rest
            if node is None:
                break
            problem = node.apply(item, run)
            if problem is not None:
                return problem.at(index)
        return None

    return check


def unique(value: Any, run: Run, seen: Seen) -> Problem | None:
    if not isinstance(value, list):
        return None
    found = set()
    for index, item in enumerate(value):
        text = canonical(item, run)
        if text in found:
            return Problem(f"{quoted(item)} comes twice").at(index)
        found.add(text)
    return None


def contains(node: Node, least: float, most: float | None, notes: bool) -> Check:
    """``notes``: whether the items that are found count as evaluated."""

    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        if not isinstance(value, list):
            return None
        found = 0
        for index, item in enumerate(value):
            if node.apply(item, run) is None:
                found += 1
                if seen is not None and notes:
                    seen.add(index)
        if found < least:
            return Problem(f"{found} items are as `contains` asks, and at least {least} must be")
        if most is not None and found > most:
            return Problem(f"{found} items are as `contains` asks, and at most {most} may be")
        return None

    return check


def unevaluated_items(node: Node) -> Check:
    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        if not isinstance(value, list) or seen is None:
            return None
        run.spend(len(value))
        for index, item in enumerate(value):
            if index not in seen:
                problem = node.apply(item, run)
                if problem is not None:
                    return problem.at(index)
                seen.add(index)
        return None

    return check


# --- objects ---------------------------------------------------------------------------------------------------------


def properties(named: dict[str, Node], by_pattern: list[tuple[Pattern, Node]], rest: Node | None) -> Check:
    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        if not isinstance(value, dict):
            return None
        few = not by_pattern and rest is None and len(named) < len(value)
        for name in named if few else value:
            run.spend(1)
            if few and name not in value:
                continue
            node = named.get(name)
            nodes = [] if node is None else [node]
            for wanted, matched in by_pattern:
                run.spend(wanted.steps(name))
                if wanted.matches(name):
                    nodes.append(matched)
            if not nodes and rest is not None:
                nodes = [rest]
            for node in nodes:
                problem = node.apply(value[name], run)
                if problem is not None:
                    return problem.at(name)
            if nodes and seen is not None:
                seen.add(name)
        return None

    return check


def property_names(node: Node) -> Check:
    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        for name in value if isinstance(value, dict) else ():
            problem = node.apply(name, run)
            if problem is not None:
                return problem.at(name)
        return None

    return check


def required(names: list[str], because: str | None = None) -> Check:
    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        if not isinstance(value, dict) or (because is not None and because not in value):
            return None
        run.spend(len(names))
        for name in names:
            if name not in value:
                return Problem(f"{quoted(name)} is missing")
        return None

    return check


def dependent(name: str, node: Node) -> Check:
    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        return node.apply(value, run, seen) if isinstance(value, dict) and name in value else None

    return check


def unevaluated_properties(node: Node) -> Check:
    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        if not isinstance(value, dict) or seen is None:
            return None
        run.spend(len(value))
        for name, inner in value.items():
            if name not in seen:
                problem = node.apply(inner, run)
                if problem is not None:
                    return problem.at(name)
                seen.add(name)
        return None

    return check


# --- schemas of the same value ---------------------------------------------------------------------------------------


def each(checks: list[Check]) -> Check:
    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        run.spend(len(checks))
        for inner in checks:
            problem = inner(value, run, seen)
            if problem is not None:
                return problem
        return None

    return check


def some_of(nodes: list[Node], most: int | None) -> Check:
    """At least one of the schemas, and at most so many."""

    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        valid = 0
        for node in nodes:
            noted: Seen = None if seen is None else set()
            if node.apply(value, run, noted) is None:
                valid += 1
                merge(run, noted, seen)
                if (seen is None and most is None) or (most is not None and valid > most):
                    break
        if not valid:
            return Problem(
                f"{quoted(value)} is valid under none of the {len(nodes)} schemas that it may have"
            )
        if most is not None and valid > most:
            return Problem(f"{quoted(value)} is valid under several of the schemas of which it may have one")
        return None

    return check


def negated(node: Node) -> Check:
    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        if node.apply(value, run, None if seen is None else set()) is None:
            return Problem(f"{quoted(value)} is valid under the schema of `not`")
        return None

    return check


def chosen(condition: Node, then: Node | None, otherwise: Node | None) -> Check:
    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        noted: Seen = None if seen is None else set()
        branch = otherwise
        if condition.apply(value, run, noted) is None:
            merge(run, noted, seen)
            branch = then
        return None if branch is None else branch.apply(value, run, seen)

    return check


def dynamic(static: Node, others: dict[str, Node], outermost: bool) -> Check:
    """A reference to the schema that the outermost resource has for it, or the last one on the way out that has one (``others``, by base)."""

    def check(value: Any, run: Run, seen: Seen) -> Problem | None:
        run.spend(len(run.scope))
        found = static
        for base in run.scope if outermost else reversed(run.scope):
            if base in others:
                found = others[base]
                if outermost:
                    break
            elif not outermost:
                break
        return found.apply(value, run, seen)

    return check


def never(value: Any, run: Run, seen: Seen) -> Problem | None:
    return Problem(f"{quoted(value)} is not allowed here")
