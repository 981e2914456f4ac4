"""A tree that predicts a feature, and the records of its nodes, from which conditional removal draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any

from explain_core.learners import layout as at
from explain_core.learners.base import LearnerState
from explain_core.learners.choice import learner_of
from explain_core.losses import Task
from explain_core.models import Row
from explain_core.random import Generator
from explain_core.state import Count, Seed, State, Value, check
from explain_core.sums import total

Code = dict[str, float | str]
"""A record as the trees see it: numbers, and categories as the digits of their index in order of appearance."""

MAX_DEPTH = 100
"""Of a tree."""


class FeatureTreeState(State, frozen=True):
    """A tree, its generator, and what its nodes keep, a node before those below it: weights of branches, rows of leaves.

    Rows are indices of the records beside the trees.
    """

    model: LearnerState
    rng: Seed
    weights: list[list[float]]
    rows: list[list[Count]]


class FeatureTree:
    """A Hoeffding adaptive tree that predicts a feature, with the records that reached each of its nodes."""

    def __init__(
        self, name: str, nominal: bool, size: int, seed: int, encoded: Callable[[Row], Code]
    ) -> None:
        from river import tree

        self.name = name
        task: Task = "classification" if nominal else "regression"
        kind, leaf = (
            (tree.HoeffdingAdaptiveTreeClassifier, "mc")
            if nominal
            else (tree.HoeffdingAdaptiveTreeRegressor, "mean")
        )
        learner = learner_of(kind(leaf_prediction=leaf, max_depth=MAX_DEPTH, seed=seed), task)
        assert learner is not None
        self._model = learner
        self._size, self._keep = size, 1.0 - 1.0 / size
        self._encoded = encoded
        self._rng = Generator(seed)
        self._root = Node()

    def learn(self, x: Row, code: Code) -> None:
        """Add a record. A record without the feature teaches the tree nothing, but can be drawn: absence is a value."""
        if self.name in code:
            others = {name: value for name, value in code.items() if name != self.name}
            before = self._structure()
            self._model.learn(others, code[self.name])
            if self._structure() != before:  # it has grown, or a part of it was replaced
                self._root = self._current(self._root, self._root_index())
        node = self._root
        while node.children:
            i = node.branch(code, None, self._rng)
            node.weights = [self._keep * weight for weight in node.weights]
            node.weights[i] += 1.0
            node = node.children[i]
        if len(node.rows) < self._size:
            node.rows.append(x)
        else:
            node.rows[self._rng.below(self._size)] = x

    def rows(self, code: Code, known: Collection[str], rng: Generator) -> list[Row]:
        """The records of the leaf that a descent with the known features ends in, or of its nearest ancestor's."""
        path = [self._root]
        while path[-1].children:
            node = path[-1]
            path.append(node.children[node.branch(code, known, rng)])
        for node in reversed(path):
            if rows := node.all_rows():
                return rows
        return []

    def nodes(self) -> Iterator[Node]:
        """All nodes, each before those below it."""
        to_do = [self._root]
        while to_do:
            yield (node := to_do.pop())
            to_do += reversed(node.children)

    def state(self, places: dict[int, int]) -> FeatureTreeState:
        """``places`` are those of the records, by identity."""
        return FeatureTreeState(
            self._model.state(),
            self._rng.state,
            [node.weights for node in self.nodes() if node.children],
            [[places[id(row)] for row in node.rows] for node in self.nodes() if not node.children],
        )

    def restore(self, state: FeatureTreeState, records: list[dict[str, Value]]) -> None:
        self._model.restore(state.model)
        nodes = self._model.arrays["nodes"]
        check(bool((nodes[:, at.DEPTH] <= MAX_DEPTH).all()), f"conditional: {self.name!r}: too deep a tree")
        self._root = self._grown(self._root_index(), [])
        every = list(self.nodes())
        branches = [node for node in every if node.children]
        leaves = [node for node in every if not node.children]
        check(
            [len(node.children) for node in branches] == [len(weights) for weights in state.weights]
            and len(leaves) == len(state.rows),
            f"conditional: {self.name!r}: other nodes than the tree has",
        )
        for node, weights in zip(branches, state.weights, strict=True):
            check(
                all(0.0 <= weight < math.inf for weight in weights),
                f"conditional: {self.name!r}: a weight that is none",
            )
            node.weights = weights
        for node, rows in zip(leaves, state.rows, strict=True):
            check(
                len(rows) <= self._size and max(rows, default=-1) < len(records),
                f"conditional: {self.name!r}: too many rows of a leaf, or of no record",
            )
            node.rows = [records[row] for row in rows]
        self._rng = Generator(state.rng)

    def _structure(self) -> tuple[int, bytes, bytes]:
        """The root, and what its nodes ask for: not the same after a split or a replacement.

        A replacement may take as many nodes as it gives back.
        """
        arrays = self._model.arrays
        rows = int(arrays["head"][0, at.NODE_POOL])
        return self._root_index(), arrays["nodes"][:rows].tobytes(), arrays["splits"][:rows].tobytes()

    def _root_index(self) -> int:
        return int(self._model.arrays["trees"][0, at.ROOT])

    def _current(self, node: Node, index: int) -> Node:
        """The node as the tree has it at the index: itself, or a new one that the old records are routed to."""
        new, below = self._read(index)
        if node.split != new.split or list(node.keys) != list(islice(new.keys, len(node.keys))):
            return self._grown(index, node.all_rows())
        old = node.children
        node.children = [self._current(child, i) for child, i in zip(old, below, strict=False)]
        for i in below[len(old) :]:  # of new categories
            node.children.append(self._grown(i, []))
            node.weights.append(0.0)
        node.keys = new.keys
        return node

    def _grown(self, index: int, rows: list[Row]) -> Node:
        node, below = self._read(index)
        if not below:
            order = (
                self._rng.permutation(len(rows))[: self._size] if len(rows) > self._size else range(len(rows))
            )
            node.rows = [rows[i] for i in order]
            return node
        node.weights = [0.0] * len(below)
        parts: list[list[Row]] = [[] for _ in below]
        for row in rows:
            i = node.branch(self._encoded(row), None, self._rng)
            node.weights[i] += 1.0
            parts[i].append(row)
        node.children = [self._grown(child, part) for child, part in zip(below, parts, strict=True)]
        return node

    def _read(self, index: int) -> tuple[Node, list[int]]:
        """A node without content, and the indices of its children in the learner's arrays."""
        nodes, splits = self._model.arrays["nodes"], self._model.arrays["splits"]
        if index < 0 or nodes[index, at.KIND] == at.LEAF:
            return Node(), []
        kind, column, child = nodes[index, [at.KIND, at.COLUMN, at.LEFT]].tolist()
        name, point = self._model.columns.names[column], float(splits[index, at.THRESHOLD])
        below: list[int] = []
        while child >= 0:
            below.append(child)
            child = int(nodes[child, at.NEXT])
        if kind == at.THRESHOLDED:
            return Node((name, point)), below
        categories = list(self._model.columns.codes[name])
        if kind == at.EQUAL:
            check(0 <= point < len(categories), f"conditional: {name!r}: a category of no name")
            return Node((name, categories[int(point)])), below
        keys = {categories[int(splits[child, at.KEY])]: i for i, child in enumerate(below)}
        check(len(keys) == len(below), f"conditional: {name!r}: a category twice")
        return Node((name, None), keys), below


class Node:
    """The content of a node of a tree: weights of its children, or the records of a leaf.

    ``split`` is the feature of a branch, with what goes to the first of two children: values up to a threshold, or one category. The second part is
    None if ``keys`` has a child for each category.
    """

    __slots__ = ("children", "keys", "rows", "split", "weights")

    def __init__(
        self, split: tuple[str, float | str | None] | None = None, keys: dict[str, int] | None = None
    ) -> None:
        self.split = split
        self.keys = keys or {}
        self.children: list[Node] = []
        self.weights: list[float] = []
        self.rows: list[Row] = []

    def branch(self, code: Code, known: Collection[str] | None, rng: Generator) -> int:
        """The child for a record of which the ``known`` features (None: all) may be seen."""
        assert self.split is not None
        name, point = self.split
        if name in code and (known is None or name in known):
            value: Any = code[name]
            if isinstance(point, float):
                return 0 if value <= point else 1
            if point is not None:
                return 0 if value == point else 1
            if value in self.keys:
                return self.keys[value]
        left = rng.uniform() * total(self.weights)
        for i, weight in enumerate(self.weights):
            left -= weight
            if left < 0.0:
                return i
        return rng.below(len(self.weights))

    def all_rows(self) -> list[Row]:
        """The records of the leaves below."""
        if not self.children:
            return self.rows
        return [row for child in self.children for row in child.all_rows()]
