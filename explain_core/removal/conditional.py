"""Removal by the conditional distribution of what is removed given what is left (iSAGE Alg. 3 and 4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

from explain_core.models import Row
from explain_core.players import Player
from explain_core.random import Generator, derive_seed
from explain_core.removal.trees import Code, FeatureTree, FeatureTreeState
from explain_core.state import State, StateError, Value, check, check_row

_ABSENT: Any = object()


class ConditionalState(State, frozen=True):
    """Categories in order of appearance, records, and the tree of each feature."""

    categories: dict[str, list[Value]]
    records: list[dict[str, Value]]
    trees: dict[str, FeatureTreeState]


class Conditional:
    """Draws values for the features outside a coalition, given those in it.

    Each feature has a Hoeffding adaptive tree that predicts it from the others, and each leaf keeps a geometric
    reservoir of ``size`` records. A draw descends the tree with the coalition S only. At a split on a feature outside S,
    or absent from the record, it takes a child at random by weight: the number of records that went there, decayed by
    1 − 1/L a record. The value is that of a record drawn from the leaf; if the leaf has none, from its nearest ancestor
    with any record; if the tree has none, from the fallback rows.

    The features outside S are drawn independently of each other: at S = ∅ the draw is one from the product of the
    marginals, not from their joint distribution. Every record costs a learning step of one tree per feature, every draw a
    descent.

    >>> trees = Conditional(size=50, seed=1)
    >>> for i in range(1_000):
    ...     trees.learn({"a": i % 2, "b": 1 - i % 2, "c": i % 7})
    >>> x = {"a": 1, "c": 3}
    >>> trees.draw("b", trees.encoded(x), known={"a"}, rng=Generator(2))["b"]
    0
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self._seed = seed
        self._trees: dict[str, FeatureTree] = {}
        self._codes: dict[str, dict[Any, int]] = {}

    def check(self, x: Row) -> None:
        """Raise ``ValueError`` where a feature is a number and was a category before, the other way round, or neither."""
        for name, value in x.items():
            if not isinstance(value, Hashable):
                raise ValueError(
                    f"x: feature {name!r} is {value!r}, neither a number nor a category; make it one of them"
                )
            if name in self._trees and not _missing(value) and _is_number(value) == (name in self._codes):
                kinds = ("a category", "a number") if _is_number(value) else ("a number", "a category")
                raise ValueError(
                    f"x: feature {name!r} is {kinds[1]} ({value!r}) and was {kinds[0]} before; give it one kind"
                )

    def learn(self, x: Row) -> None:
        """Add a record. The mapping is kept, not copied: it must not change afterwards."""
        for name, value in x.items():
            if name not in self._trees and not _missing(value):
                if not _is_number(value):
                    self._codes[name] = {}
                self._trees[name] = self._tree(name)
        code = self.encoded(x, new=True)
        for tree in self._trees.values():
            tree.learn(x, code)

    def _tree(self, name: str) -> FeatureTree:
        seed = derive_seed(self._seed, len(self._trees))
        return FeatureTree(name, name in self._codes, self.size, seed, self.encoded)

    def draw(self, name: str, code: Code, known: Collection[str], rng: Generator) -> Row | None:
        """A record to take the value of a feature from; None where there is none yet."""
        tree = self._trees.get(name)
        rows = tree.rows(code, known, rng) if tree else ()
        return rows[rng.below(len(rows))] if rows else None

    def encoded(self, x: Row, new: bool = False) -> Code:
        """The record as the trees see it; ``new`` gives an index to categories that were never seen."""
        code: Code = {}
        for name, value in x.items():
            codes = self._codes.get(name)
            if _missing(value):
                continue
            if codes is None:
                code[name] = value
            elif new or value in codes:
                code[name] = str(codes.setdefault(value, len(codes)))
        return code

    def state(self) -> ConditionalState:
        records = {
            id(row): dict(row) for tree in self._trees.values() for node in tree.nodes() for row in node.rows
        }
        places = {identity: place for place, identity in enumerate(records)}
        return ConditionalState(
            {name: list(codes) for name, codes in self._codes.items()},
            list(records.values()),
            {name: tree.state(places) for name, tree in self._trees.items()},
        )

    def restore(self, state: ConditionalState) -> None:
        """Restore a stored state, before the first record. Raises ``StateError`` where it is not of such trees."""
        check(state.categories.keys() <= state.trees.keys(), "conditional: categories of no feature")
        self._codes = {
            name: {category: code for code, category in enumerate(found)}
            for name, found in state.categories.items()
        }
        for name, found in state.categories.items():
            check(len(self._codes[name]) == len(found), f"conditional: feature {name!r} has a category twice")
        for name in state.trees:
            self._trees[name] = self._tree(name)
        for row in state.records:
            check_row("conditional", row)
            try:
                self.check(row)
            except ValueError as error:
                raise StateError(f"conditional: {error}") from None
        for name, tree in state.trees.items():
            columns = tree.model.columns
            check(
                columns.categories.keys() <= self._codes.keys()
                and self._codes.keys().isdisjoint(columns.numeric),
                f"conditional: {name!r}: features of another kind",
            )
            self._trees[name].restore(tree, state.records)


class ConditionalJoining:
    """Copies of a record with the features of a growing coalition; the others are drawn anew at every step."""

    def __init__(
        self,
        trees: Conditional,
        x: Row,
        features: Iterable[str],
        m: int,
        draw_row: Callable[[], Row],
        rng: Generator,
    ) -> None:
        self._trees, self._m = trees, m
        self._draw_row, self._rng = draw_row, rng
        self._code = trees.encoded(x)
        self._outside = dict.fromkeys(features)
        self._known = {name: value for name, value in x.items() if name not in self._outside}

    def join(self, x: Row, player: Player) -> None:
        """Let the player's features have the values of x in every copy."""
        for name in player.features:
            self._outside.pop(name, None)
            if name in x:
                self._known[name] = x[name]

    def copies(self) -> list[Row]:
        """m copies: what is known of x, and a draw for every other feature."""
        copies: list[Row] = []
        for _ in range(self._m):
            copy = dict(self._known)
            for name in self._outside:
                row = self._trees.draw(name, self._code, self._known, self._rng)
                value = (self._draw_row() if row is None else row).get(name, _ABSENT)
                if value is not _ABSENT:
                    copy[name] = value
            copies.append(copy)
        return copies


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))
