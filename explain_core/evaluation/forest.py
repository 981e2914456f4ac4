"""River's trees as flat arrays, kept up to date while they learn."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from river import linear_model
from river.optim.losses import RegressionLoss
from river.tree import ExtremelyFastDecisionTreeClassifier
from river.tree.base import Leaf
from river.tree.nodes.branch import NominalBinaryBranch, NominalMultiwayBranch, NumericBinaryBranch
from river.tree.nodes.htr_nodes import LeafAdaptive, LeafModel
from river.tree.splitter import GaussianSplitter
from river.tree.splitter.nominal_splitter_classif import NominalSplitterClassif

from explain_core.evaluation import tree_kernels as kernels
from explain_core.evaluation.river_trees import MAJORITY, labels_of, manner_of, mode_of, tokens_of
from explain_core.evaluation.table import Array, Table
from explain_core.evaluation.votes import ADAPTIVE, Voting
from explain_core.models import Row

MAX_CLASSES = 50
"""More classes are not compiled: moments take room for each class, leaf and feature."""


class Forest:
    """The image of one or more trees.

    A record changes the leaves that it reaches, and sometimes the structure along its path. ``sync`` reads these leaves
    again and proves that nothing else has learnt: the weight that a tree gained must be that of the leaves. Else, and
    where a token of its structure says that more has changed, the tree is read anew.
    """

    def __init__(self, model: Voting, table: Table) -> None:
        self._model, self._table = model, table
        self._regression = model.regression
        self._trees: list[Any] = []
        self._last: Row | None = None
        self.labels: list[Any] = []
        """Classes in the order of a prediction."""
        self.codes: dict[Any, int] = {}
        self.width = 0
        """Columns."""
        self.linear = False
        """Whether leaves may hold linear models."""
        self._at = np.empty((0, kernels.PATH), np.int64)
        self.arrays: tuple[Any, ...] = ()
        """nodes, children, leaves, stats, classes, features, moments, tables, trees, orders; where the last record is"""

    def sync(self) -> bool:
        """Bring the image up to date; False where the trees have none."""
        trees = self._model.trees()
        if not trees:
            return False
        try:
            self._reached = self._at[:, 0].tolist()  # the last leaf of each tree
            current = len(trees) == len(self._trees) and len(self._table.names) == self.width
            if not current or not all(self._follow(t, tree) for t, tree in enumerate(trees)):
                self._build(trees)
        except _Full:
            self._build(trees)
        if self._model.weights is not None:
            self._heads["weight"] = self._model.weights()
        return bool(self.labels) and len(self.labels) <= MAX_CLASSES

    def locate(self, x: Row, row: Array) -> None:
        """Remember where a record is that the trees learn next."""
        if x is not self._last:
            kernels.locate(row, self._nodes, self._children, self._heads, self._at)
            self.located(x)

    def located(self, x: Row) -> None:
        """Take notice that a kernel writes, or has written, where a record is that the trees learn next."""
        self._last = x

    def _build(self, trees: Sequence[Any]) -> None:
        """Read all trees anew."""
        self.labels = [None] if self._regression else labels_of(trees)
        self.codes = {label: code for code, label in enumerate(self.labels)}
        kind = type(trees[0])  # one kind of tree, or copies of it
        self._adaptive, self._eager = kind in ADAPTIVE, kind is ExtremelyFastDecisionTreeClassifier
        nodes = 64 + 2 * sum(tree.n_nodes or 1 for tree in trees)
        while True:
            self._allocate(nodes, len(trees))
            try:
                for t, tree in enumerate(trees):
                    self._plant(t, tree)
            except _Full:  # the trees know features that the table does not
                nodes *= 2
                continue
            break
        if not self._regression:
            for t, tree in enumerate(trees):
                codes = [self.codes[label] for label in tree.classes]
                self._orders[t, : len(codes)] = codes
                self._heads[t]["classes"] = self._n_classes[t] = len(codes)
        self._last = None

    def _allocate(self, nodes: int, trees: int) -> None:
        width, size = len(self._table.names), max(len(self.labels), 1)
        self.width, self._size = width, size
        self._nodes = np.zeros(nodes, kernels.NODE)
        self._children = np.full(4 * nodes, -1, np.int32)
        self._leaves = np.zeros(nodes, kernels.LEAF)
        self._stats = np.zeros((nodes, size))
        self._classes = np.zeros((nodes, size), np.int32)
        self._features = np.zeros((nodes, max(width, 1)), np.int32)
        if size > MAX_CLASSES:
            nodes = 0
        self._moments = np.zeros((nodes, size, max(width, 1), 3))
        self._tables = np.zeros(1024)
        self._heads = np.zeros(trees, kernels.TREE)
        self._heads["weight"] = 1.0
        self._orders = np.zeros((trees, size), np.int32)
        self._packers = [struct.Struct(f"{n}d").pack_into for n in range(size + 1)]
        self._at = np.full((trees, kernels.PATH), -1, np.int64)
        self._bytes = memoryview(self._moments.data).cast("B") if nodes else memoryview(bytearray())
        self._stats_bytes = memoryview(self._stats.data).cast("B")
        self._errors = self._leaves["error"]
        self._n_children = self._n_tables = 0
        self._objects: list[Any] = []
        self._parts: list[tuple[Any, Any, int]] = []  # leaf, tree, manner
        self._states: list[tuple[int, int, int]] = []  # kind, classes, features
        # Splitters as they were when naive Bayes was read, and by class where their moments come from: mean and variance.
        self._sources: list[tuple[Any, dict[int, list[tuple[Any, Any]]]]] = []
        self._known: list[tuple[list[float], float]] = []  # weights of the classes, and their sum
        self._n_classes = [0] * trees
        self._places: dict[tuple[int, int, int], tuple[int, int]] = {}  # start and room of a table
        self._trees = [None] * trees
        self._subspaces: dict[int, Sequence[str] | None] = {}
        self._weights = [0.0] * trees
        self._tokens: list[tuple[Any, ...]] = [()] * trees
        self._renew()

    def _renew(self) -> None:
        self.arrays = (
            self._nodes, self._children, self._leaves, self._stats, self._classes, self._features, self._moments,
            self._tables, self._heads, self._orders, self._at,
        )  # fmt: skip

    def _plant(self, t: int, tree: Any) -> None:
        """Read a tree anew."""
        model = self._model
        if model.subspaces is not None:
            self._subspaces = dict(zip(map(id, model.trees()), model.subspaces(), strict=True))
        root = -1 if tree._root is None else self._grow(tree._root, tree)
        self._heads[t]["root"], self._heads[t]["adaptive"] = root, self._adaptive
        self._trees[t], self._weights[t], self._tokens[t] = (
            tree,
            tree._train_weight_seen_by_model,
            tokens_of(tree),
        )

    def _grow(self, node: Any, tree: Any) -> int:
        """Append a node and all below it; its index."""
        index = len(self._objects)
        if index == len(self._nodes):
            raise _Full
        self._objects.append(node)
        alternate = getattr(node, "_alternate_tree", None)
        if isinstance(node, Leaf) or not self._splits(index, node, tree):
            self._nodes[index] = (kernels.END, 0, self._leaf(node, tree), 0, -1, 0.0)
        else:
            self._nodes[index]["alternate"] = -1 if alternate is None else self._leaf(alternate, tree)
        return index

    def _splits(self, index: int, node: Any, tree: Any) -> bool:
        """Write a branch and all below it; False for a kind of split that is left to river."""
        column = self._table.column(node.feature)
        if column >= self.width:
            raise _Full
        table, name = self._table, node.feature
        if isinstance(node, NumericBinaryBranch):
            kind, threshold = kernels.THRESHOLD, float(node.threshold)
        elif isinstance(node, NominalBinaryBranch):
            if not isinstance(node.value, str):
                return False
            kind, threshold = kernels.EQUAL, float(table.code(name, node.value))
        elif isinstance(node, NominalMultiwayBranch) and all(
            isinstance(value, str) for value in node._mapping
        ):
            kind, threshold = kernels.MULTIWAY, 0.0
        else:
            return False
        below = [self._grow(child, tree) for child in node.children]
        if kind != kernels.MULTIWAY:
            self._nodes[index] = (kind, column, below[0], below[1], -1, threshold)
            return True
        codes = {table.code(name, value): side for value, side in node._mapping.items()}
        start, size = self._n_children, len(table.codes[name])
        self._n_children += size
        if self._n_children > len(self._children):
            raise _Full
        self._children[start : start + size] = -1
        for code, side in codes.items():
            self._children[start + code] = below[side]
        self._nodes[index] = (kind, column, start, size, -1, 0.0)
        return True

    def _leaf(self, leaf: Any, tree: Any) -> int:
        index = len(self._parts)
        if index == len(self._leaves):
            raise _Full
        self._parts.append((leaf, tree, manner_of(leaf, tree)))
        self._states.append((kernels.NOTHING, 0, 0))
        self._sources.append((None, {}))
        self._known.append(([], 0.0))
        if isinstance(leaf, Leaf):
            self._read(index)
        else:
            self._leaves[index]["kind"] = kernels.UNKNOWN
        return index

    def _follow(self, t: int, tree: Any) -> bool:
        """Bring one tree up to date; False where the classes have changed."""
        if tree is not self._trees[t]:
            if not self._regression and not self._same_classes(t, tree):
                return False
            self._plant(t, tree)
            return True
        weight = tree._train_weight_seen_by_model
        gain = weight - self._weights[t]
        if not gain:
            return True
        if not self._regression and len(tree.classes) != self._n_classes[t]:
            return False
        tokens, before, reached = tokens_of(tree), self._tokens[t], self._reached[t]
        if self._last is None or reached < 0:
            known = False
        elif self._adaptive:
            # The last token counts the records that the root has learnt.
            known = tokens[:-1] == before[:-1] and tokens[-1] - before[-1] == 1.0 and self._read_path(t)
        else:
            gained = self._read(reached)
            known = gained == gain or abs(gained - gain) <= 1e-9 * weight
            if known and (tokens != before or tokens[1] or self._eager):
                known = self._changed(t, tree, reached, self._last, tokens, before)
        if not known:
            self._plant(t, tree)
        self._weights[t], self._tokens[t] = weight, tokens
        return True

    def _same_classes(self, t: int, tree: Any) -> bool:
        known = [self.labels[code] for code in self._orders[t, : self._n_classes[t]].tolist()]
        return known == list(tree.classes)

    def _read_path(self, t: int) -> bool:
        """Read the leaves of the last record again; False where one has learnt nothing."""
        at = self._at[t].tolist()
        return all(self._read(leaf) for leaf in at[: at.index(-1)])

    def _changed(
        self, t: int, tree: Any, reached: int, x: Row, tokens: tuple[Any, ...], before: tuple[Any, ...]
    ) -> bool:
        """Read anew what the last record x has changed besides the leaf; False where that may be anywhere."""
        idle = bool(tokens[1] or before[1])
        leaf = self._parts[reached][0]
        if idle and leaf.last_split_attempt_at == leaf.total_weight:
            return False  # an attempt to split wakes leaves anywhere, and under a limit of its size puts others to sleep
        return (tokens == before and not self._eager) or self._graft(t, tree, x, idle)

    def _graft(self, t: int, tree: Any, x: Row, idle: bool) -> bool:
        """Read anew what is new along the path of x; False where that is not known to be all that is new."""
        index, node, side = int(self._heads[t]["root"]), tree._root, ""
        parent = -1
        while self._objects[index] is node:
            if isinstance(node, Leaf):
                return True
            if self._nodes[index]["kind"] not in (kernels.THRESHOLD, kernels.EQUAL) or node.feature not in x:
                return False
            branch = node.branch_no(x)
            parent, side = index, "right" if branch else "left"
            node, index = node.children[branch], int(self._nodes[index][side])
        if idle:
            return False
        fresh = self._grow(node, tree)
        if parent < 0:
            self._heads[t]["root"] = fresh
        else:
            self._nodes[parent][side] = fresh
        return True

    def _read(self, index: int) -> float:
        """Read a leaf; the weight that it has gained since it was read."""
        leaf, tree, manner = self._parts[index]
        if self._regression:
            return self._read_number(index, leaf, tree)
        before, gained = self._known[index]
        values = list(leaf.stats.values())
        weight = sum(values)
        # What a leaf of the majority says is its weights alone.
        if manner != MAJORITY or not values or len(values) != len(before):
            self._read_kind(index, values, weight)
        if self._adaptive:
            self._errors[index] = leaf._mean_error.get()
        self._packers[len(values)](self._stats_bytes, 8 * self._size * index, *values)
        self._known[index] = (values, weight)
        return float(weight - gained)

    def _read_kind(self, index: int, values: list[float], weight: float) -> None:
        """Read how a leaf predicts, and what naive Bayes needs."""
        leaf, tree, manner = self._parts[index]
        stats, before = leaf.stats, self._known[index][0]
        mode = mode_of(leaf, tree, manner, weight)
        kind, _, features = self._states[index]
        splitters = leaf.splitters if mode == kernels.BAYES else None
        changed: Iterable[Any] = ()
        if len(values) != len(before) or (
            splitters is not None
            and (
                splitters is not self._sources[index][0]  # the leaf has slept in between
                or len(splitters) != features
                or tree.remove_poor_attrs
            )
        ):
            self._sources[index] = (splitters, {})
            classes = [self.codes[label] for label in stats]
            self._classes[index, : len(classes)] = classes
            changed = stats
            if splitters is not None:
                columns = [self._table.column(name) for name in splitters]
                if len(self._table.names) != self.width:
                    raise _Full
                self._features[index, : len(columns)] = columns
        elif splitters is not None:
            changed = (
                stats
                if kind != kernels.BAYES
                else [label for label, a, b in zip(stats, values, before, strict=True) if a != b]
            )
        if splitters is not None:
            for label in changed:
                if not self._write_moments(index, self.codes[label], label, splitters):
                    mode = kernels.UNKNOWN
        # The moments of another kind of leaf are old: they are read when it turns to naive Bayes again.
        state = (mode, len(values), len(splitters) if splitters is not None else 0)
        if state != self._states[index]:
            self._states[index] = state
            self._leaves[index] = (*state, 0.0)

    def _write_moments(self, index: int, code: int, label: Any, splitters: dict[Any, Any]) -> bool:
        if not len(self._bytes):
            return False
        offset = (index * self._size + code) * self._moments.shape[2] * 24
        known = self._sources[index][1]
        if code in known:  # river never replaces them
            flat = [number for mean, var in known[code] for number in (mean.n, mean._mean, var._S)]
            struct.pack_into(f"{len(flat)}d", self._bytes, offset, *flat)
            return True
        flat, sources = [], []
        for place, splitter in enumerate(splitters.values()):
            if type(splitter) is GaussianSplitter:
                gaussian = splitter._att_dist_per_class.get(label)
                if gaussian is None:
                    flat += (0.0, 0.0, 0.0)
                else:
                    mean, var = gaussian._var.mean, gaussian._var
                    flat += (mean.n, mean._mean, var._S)
                    sources.append((mean, var))
            elif type(splitter) is NominalSplitterClassif:
                name = self._table.names[self._features[index, place]]
                weights = splitter._att_dist_per_class.get(label, {})
                if not all(type(value) is str for value in weights):
                    return False
                for value in weights:
                    self._table.code(name, value)
                codes = self._table.codes.get(name, {})
                flat += (kernels.NOMINAL, self._write_table(index, code, place, weights, codes), len(codes))
            else:
                return False
        if len(sources) == len(splitters):
            known[code] = sources
        struct.pack_into(f"{len(flat)}d", self._bytes, offset, *flat)
        return True

    def _write_table(
        self, index: int, code: int, place: int, weights: dict[str, float], known: dict[str, int]
    ) -> int:
        """``NominalSplitterClassif.cond_proba`` as logarithms, by category; where they start."""
        where, room = self._places.get((index, code, place), (0, -1))
        if len(known) > room:
            where, room = self._n_tables, 2 * len(known) + 8
            self._places[index, code, place] = (where, room)
            self._n_tables += room
            while self._n_tables > len(self._tables):
                self._tables = np.concatenate([self._tables, np.zeros_like(self._tables)])
                self._renew()
        whole = sum(weights.values())
        shares = [weights.get(value, 0.0) / whole if whole else 0.0 for value in known]
        self._tables[where : where + len(known)] = [math.log(p) if p > 0.0 else 0.0 for p in shares]
        return where

    def _read_number(self, index: int, leaf: Any, tree: Any) -> float:
        weight = float(leaf.stats.mean.n)
        _, before = self._known[index]
        self._known[index] = ([], weight)
        head = self._leaves[index]
        self.linear = self.linear or isinstance(leaf, LeafModel)
        linear = isinstance(leaf, LeafModel) and not (
            isinstance(leaf, LeafAdaptive) and leaf._fmse_mean < leaf._fmse_model
        )
        head["kind"] = kernels.LINEAR if linear else kernels.MEAN
        if not linear:
            self._stats[index, 0] = leaf.stats.mean.get()
            return weight - before
        model = leaf._leaf_model
        if (
            type(model) is not linear_model.LinearRegression
            or type(model.loss).mean_func is not RegressionLoss.mean_func
        ):
            head["kind"] = kernels.UNKNOWN
            return weight - before
        coefficients = model.weights
        for name in coefficients:
            self._table.column(name)
        if len(self._table.names) != self.width:
            raise _Full
        names = [name for name in self._subspaces.get(id(tree)) or self._table.names if name in coefficients]
        self._features[index, : len(names)] = [self._table.index[name] for name in names]
        self._moments[index, 0, : len(names), 0] = [coefficients[name] for name in names]
        self._stats[index, 0] = model.intercept
        head["features"] = len(names)
        return weight - before


class _Full(Exception):
    """An array is too small."""
