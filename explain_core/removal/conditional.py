"""Removal by the conditional distribution of what is removed given what is left (iSAGE Alg. 3 and 4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

from river import tree
from river.tree.base import Branch

from explain_core.models import Row
from explain_core.players import Player
from explain_core.random import Generator, derive_seed

Code = dict[str, float]
"""A record as the trees see it: numbers, and categories as their index in order of appearance."""

Seen = tuple[Row, Code]

_ABSENT: Any = object()


class Conditional:
    """Draws values for the features outside a coalition, given those in it.

    Each feature has a Hoeffding adaptive tree that predicts it from the others, and each leaf keeps a geometric
    reservoir of ``size`` records. The tree is descended with the coalition S alone: at a split on a feature outside S,
    or absent from the record, a child is drawn by its weight, the number of records that went there, decayed by
    1 − 1/L a record. The value is that of a record drawn from the leaf; from its nearest ancestor with any record
    where the leaf has none; from the fallback rows where the tree has none.

    The features outside S are drawn independently of each other: at S = ∅ the draw is one from the product of the
    marginals, not from their joint distribution. Every record costs a learning step of one tree per feature, which for
    nine features is tens of times what a model of one such tree costs itself; every draw costs a descent.

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
        self._nominal: list[str] = []  # the same list in every tree

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
        """Take a record in. The mapping is kept, not copied: it must not change afterwards."""
        for name, value in x.items():
            if name not in self._trees and not _missing(value):
                if not _is_number(value):
                    self._codes[name] = {}
                    self._nominal.append(name)
                seed = derive_seed(self._seed, len(self._trees))
                self._trees[name] = FeatureTree(name, name in self._codes, self.size, seed, self._nominal)
        code = self.encoded(x, new=True)
        for one in self._trees.values():
            one.learn((x, code))

    def draw(self, name: str, code: Code, known: Collection[str], rng: Generator) -> Row | None:
        """A record to take the value of a feature from; None where there is none yet."""
        one = self._trees.get(name)
        rows = one.rows(code, known, rng) if one else ()
        return rows[rng.below(len(rows))][0] if rows else None

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
                code[name] = codes.setdefault(value, len(codes))
        return code


class ConditionalJoining:
    """Copies of a record that know the features of a growing coalition and draw the others anew at every step."""

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


class FeatureTree:
    """A Hoeffding adaptive tree that predicts a feature, and beside each of its nodes what went there."""

    def __init__(self, name: str, nominal: bool, size: int, seed: int, nominal_attributes: list[str]) -> None:
        self.name = name
        kind, leaf = (
            (tree.HoeffdingAdaptiveTreeClassifier, "mc")
            if nominal
            else (tree.HoeffdingAdaptiveTreeRegressor, "mean")
        )
        self._model: Any = kind(leaf_prediction=leaf, nominal_attributes=nominal_attributes, seed=seed)
        self._size, self._keep = size, 1.0 - 1.0 / size
        self._rng = Generator(seed)
        self._root = Node(None)

    def learn(self, seen: Seen) -> None:
        """Take a record in. One without the feature teaches the tree nothing, but can be drawn: absence is a value."""
        code = seen[1]
        if self.name in code:
            others = {name: value for name, value in code.items() if name != self.name}
            self._model.learn_one(others, code[self.name])
            self._descend(lambda node: _branch_taken(node.river, others))
        node = self._descend(lambda node: self._count(node, code))
        if len(node.rows) < self._size:
            node.rows.append(seen)
        else:
            node.rows[self._rng.below(self._size)] = seen

    def rows(self, code: Code, known: Collection[str], rng: Generator) -> list[Seen]:
        """The records of the leaf that a descent with the known features ends in, or of its nearest ancestor's."""
        path = [self._root]
        while path[-1].children:
            node = path[-1]
            path.append(node.children[node.branch(code, known, rng)])
        for node in reversed(path):
            if rows := node.all_rows():
                return rows
        return []

    def _descend(self, choose: Callable[[Node], int]) -> Node:
        """The leaf at the end of a path, whose nodes are brought up to date with river's."""
        node = self._root = self._current(self._root, self._model._root)
        while node.children:
            for child in node.river.children[len(node.children) :]:  # of new categories
                node.children.append(self._grown(child, []))
                node.weights.append(0.0)
            i = choose(node)
            node.children[i] = self._current(node.children[i], node.river.children[i])
            node = node.children[i]
        return node

    def _count(self, node: Node, code: Code) -> int:
        i = node.branch(code, None, self._rng)
        node.weights = [self._keep * weight for weight in node.weights]
        node.weights[i] += 1.0
        return i

    def _current(self, node: Node, river: Any) -> Node:
        """The node for river's: itself, or a new one that the old records are routed to."""
        return node if node.river is river else self._grown(river, node.all_rows())

    def _grown(self, river: Any, rows: list[Seen]) -> Node:
        node = Node(river)
        if not isinstance(river, Branch):
            order = (
                self._rng.permutation(len(rows))[: self._size] if len(rows) > self._size else range(len(rows))
            )
            node.rows = [rows[i] for i in order]
            return node
        node.weights = [0.0] * len(river.children)
        parts: list[list[Seen]] = [[] for _ in river.children]
        for seen in rows:
            i = node.branch(seen[1], None, self._rng)
            node.weights[i] += 1.0
            parts[i].append(seen)
        node.children = [self._grown(child, part) for child, part in zip(river.children, parts, strict=True)]
        return node


class Node:
    """What went to a node of a tree: weights of its children, or the records of a leaf."""

    __slots__ = ("children", "river", "rows", "weights")

    def __init__(self, river: Any) -> None:
        self.river = river
        self.children: list[Node] = []
        self.weights: list[float] = []
        self.rows: list[Seen] = []

    def branch(self, code: Code, known: Collection[str] | None, rng: Generator) -> int:
        """The child for a record of which the ``known`` features (None: all) may be seen."""
        river = self.river
        if river.feature in code and (known is None or river.feature in known):
            try:
                i: int = river.branch_no(code)
            except KeyError:  # a category that the split has no child for
                i = len(self.weights)
            if i < len(self.weights):
                return i
        left = rng.uniform() * sum(self.weights)
        for i, weight in enumerate(self.weights):
            left -= weight
            if left < 0.0:
                return i
        return rng.below(len(self.weights))

    def all_rows(self) -> list[Seen]:
        """The records of the leaves below."""
        if not self.children:
            return self.rows
        return [seen for child in self.children for seen in child.all_rows()]


def _branch_taken(river: Any, code: Code) -> int:
    """The child that river itself sends a record to, where its tree may have grown."""
    try:
        i: int = river.branch_no(code)
    except KeyError:
        i = river.most_common_path()[0]
    return i


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))
