"""River's trees as flat arrays, kept up to date while they learn."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
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
from explain_core.evaluation.leaves import FULL, NOMINAL, READ, follow, known_objects, read
from explain_core.evaluation.objects import NOWHERE
from explain_core.evaluation.river_trees import TOKENS, labels_of, manner_of, tokens_of
from explain_core.evaluation.table import Array, Table
from explain_core.evaluation.votes import ADAPTIVE, Voting
from explain_core.models import Row

_NO_LEAF = np.zeros((), kernels.LEAF)

MAX_CLASSES = 50
"""More classes are not compiled: moments take room for each class, leaf and feature."""


class Forest:
    """The image of one or more trees.

    A record changes the leaves that it reaches, and sometimes the structure along its path. ``sync`` reads these leaves
    again, in compiled code where it can, and proves that nothing else has learnt: the weight that a tree gained must be that
    of the leaves. Else, and where a leaf has tried to split or a token says that more has changed, the structure is read anew.
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
            current = len(trees) == len(self._trees) and len(self._table.names) == self.width
            if not current or not self._followed(trees):
                self._build(trees)
        except _Full:
            self._build(trees)
        if self._model.weights is not None:
            self._heads["weight"] = self._model.weights()
        return bool(self.labels) and len(self.labels) <= MAX_CLASSES

    def locate(self, x: Row, row: Array) -> None:
        """Remember where a record is that the trees learn next."""
        if x is not self._last:
            kernels.locate(
                row, self._nodes, self._children, self._leaves, self._features, self._heads, self._at
            )
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
        nodes = 64 + sum(tree.n_nodes or 1 for tree in trees)
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
                self._heads[t]["classes"] = len(codes)
        self._last = None

    def _allocate(self, nodes: int, trees: int) -> None:
        width, size, leaves = len(self._table.names), max(len(self.labels), 1), nodes // 2 + trees
        self.width, self._size = width, size
        self._nodes = np.zeros(nodes, kernels.NODE)
        self._children = np.full(8 * nodes, -1, np.int32)
        self._leaves = np.zeros(leaves, kernels.LEAF)
        self._stats = np.zeros((leaves, size))
        self._classes = np.zeros((leaves, size), np.int32)
        self._features = np.zeros((leaves, max(width, 1)), np.int32)
        self._moments = np.zeros((0 if size > MAX_CLASSES else leaves, size, max(width, 1), 4))
        self._tables = np.zeros(1024)
        self._heads = np.zeros(trees, kernels.TREE)
        self._heads["weight"] = 1.0
        self._orders = np.zeros((trees, size), np.int32)
        self._at = np.full((trees, kernels.PATH), -1, np.int64)
        self._gained = np.zeros((trees + 1, size), np.bool_)
        self._results = np.zeros(trees, np.int64)
        self._n_children = self._n_tables = 0
        self._objects: list[Any] = []
        self._parts: list[Any] = []  # leaf and tree, kept alive for compiled code
        self._free_nodes: list[int] = []
        self._free_leaves: list[int] = []
        self._places: dict[tuple[int, int, int], tuple[int, int]] = {}  # start and room of a table
        self._trees = [None] * trees
        self._subspaces: dict[int, Sequence[str] | None] = {}
        self._tokens = np.zeros((trees, len(TOKENS) + 1))
        self._renew()

    def _renew(self) -> None:
        self.arrays = (
            self._nodes, self._children, self._leaves, self._stats, self._classes, self._features, self._moments,
            self._tables, self._heads, self._orders, self._at,
        )  # fmt: skip
        known = known_objects(self.codes, self._table.index)
        leaves = (self._leaves, self._stats, self._classes, self._features, self._moments)
        self._reading = (*leaves, self._gained[-1], known)
        self._following = (*leaves, self._gained, known, self._heads, self._tokens, self._at, self._results)

    def _plant(self, t: int, tree: Any) -> None:
        """Read a tree anew."""
        model = self._model
        if model.subspaces is not None:
            self._subspaces = dict(zip(map(id, model.trees()), model.subspaces(), strict=True))
        if self._trees[t] is not None and self._heads[t]["root"] >= 0:
            self._release(int(self._heads[t]["root"]))
        self._at[t] = -1
        root = -1 if tree._root is None else self._grow(tree._root, tree)
        self._heads[t]["root"], self._heads[t]["adaptive"] = root, self._adaptive
        self._trees[t] = tree
        everyday = not (self._regression or self._eager)
        self._heads[t]["address"] = id(tree) if everyday else NOWHERE
        self._heads[t]["period"] = tree.memory_estimate_period
        self._seen(t, tree._train_weight_seen_by_model, tokens_of(tree))

    def _seen(self, t: int, weight: float, tokens: list[float]) -> None:
        self._heads[t]["learnt"] = weight
        self._tokens[t, : len(tokens)] = tokens

    def _grow(self, node: Any, tree: Any) -> int:
        """Read a node and all below it; its index."""
        index = self._place(self._objects, self._free_nodes, "_nodes")
        self._objects[index] = node
        if isinstance(node, Leaf):
            self._nodes[index] = (kernels.END, 0, self._leaf(node, tree), 0, -1, 0.0)
        else:
            self._branch(index, node, tree)
        return index

    def _place(self, items: list[Any], free: list[int], *arrays: str) -> int:
        """An index that is free in a list and in the arrays beside it."""
        if free:
            return free.pop()
        if len(items) == len(getattr(self, arrays[0])):
            for name in arrays:
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
            self._renew()
        items.append(None)
        return len(items) - 1

    def _release(self, index: int) -> None:
        """Give back the places of a node and of all below it, its own last."""
        kind, _, left, right, alternate, _ = self._nodes[index].item()
        below, leaf = [left, right], alternate
        if kind == kernels.END:
            below, leaf = [], left
        elif kind == kernels.MULTIWAY:
            below = self._children[left : left + right].tolist()
        for child in below:
            if child >= 0:
                self._release(child)
        if leaf >= 0:
            self._parts[leaf], self._leaves[leaf] = None, _NO_LEAF
            self._free_leaves.append(leaf)
        self._objects[index] = None
        self._free_nodes.append(index)

    def _branch(self, index: int, node: Any, tree: Any) -> None:
        """Write a branch and all below it; of a kind that is left to river, only that no way on is known."""
        column = self._table.column(node.feature)
        if column >= self.width:
            raise _Full
        table, name = self._table, node.feature
        alternate = getattr(node, "_alternate_tree", None)
        known = alternate is None or isinstance(alternate, Leaf)
        if known and isinstance(node, NumericBinaryBranch):
            kind, threshold = kernels.THRESHOLD, float(node.threshold)
        elif known and isinstance(node, NominalBinaryBranch) and isinstance(node.value, str):
            kind, threshold = kernels.EQUAL, float(table.code(name, node.value))
        elif (
            known
            and isinstance(node, NominalMultiwayBranch)
            and all(isinstance(value, str) for value in node._mapping)
        ):
            kind, threshold = kernels.MULTIWAY, 0.0
        else:
            self._nodes[index] = (kernels.MULTIWAY, column, 0, 0, -1, 0.0)
            return
        below = [self._grow(child, tree) for child in node.children]
        beside = -1 if alternate is None else self._leaf(alternate, tree)
        if kind != kernels.MULTIWAY:
            self._nodes[index] = (kind, column, *below, beside, threshold)
            return
        codes = {table.code(name, value): side for value, side in node._mapping.items()}
        start, size = self._n_children, len(table.codes[name])
        self._n_children += size
        if self._n_children > len(self._children):
            raise _Full
        self._children[start : start + size] = -1
        for code, side in codes.items():
            self._children[start + code] = below[side]
        self._nodes[index] = (kind, column, start, size, beside, 0.0)

    def _leaf(self, leaf: Any, tree: Any) -> int:
        index = self._place(
            self._parts, self._free_leaves, "_leaves", "_stats", "_classes", "_features", "_moments"
        )
        self._parts[index] = leaf, tree
        if not self._regression:
            threshold = getattr(tree, "nb_threshold", 0)
            traits = manner_of(leaf, tree), self._adaptive, threshold
            self._leaves[index] = (kernels.NOTHING, 0, 0, 0.0, *traits, 0.0, id(leaf), NOWHERE, 0.0)
        self._read(index)
        return index

    def _followed(self, trees: Sequence[Any]) -> bool:
        """Bring the trees up to date; False where the classes have changed."""
        if self._regression:
            return all(self._follow(t, tree) for t, tree in enumerate(trees))
        for t, same in enumerate(map(operator.is_, trees, self._trees)):
            if not same and not self._follow(t, trees[t]):
                return False
        if not follow(*self._following):
            for t, result in enumerate(self._results.tolist()):
                if result == NOMINAL:
                    self._read_tables(int(self._at[t, 0]), self._gained[t])
                elif result != READ and not self._follow(t, trees[t]):
                    return False
        return True

    def _follow(self, t: int, tree: Any) -> bool:
        """Bring one tree up to date; False where the classes have changed."""
        if tree is not self._trees[t]:
            if not self._regression and not self._same_classes(t, tree):
                return False
            self._plant(t, tree)
            return True
        weight = tree._train_weight_seen_by_model
        learnt, period = float(self._heads[t]["learnt"]), tree.memory_estimate_period
        gain = weight - learnt
        if not gain:
            return True
        if not self._regression and len(tree.classes) != self._heads[t]["classes"]:
            return False
        tokens, path = tokens_of(tree), self._at[t].tolist()
        path = path[: path.index(-1)]
        before = self._tokens[t, : len(tokens)].tolist()
        tried = any(map(self._tried, path))
        if self._last is None or not path or weight // period != learnt // period:
            known = False  # the last: it has weighed itself, and any leaf may sleep or wake
        elif self._adaptive:
            # The last token counts the records that the root has learnt.
            once = tokens[:-1] == before[:-1] and tokens[-1] - before[-1] == 1.0
            known = once and not tried and all(map(self._read, path))
        else:
            gained = self._read(path[0])
            known = gained == gain or abs(gained - gain) <= 1e-9 * weight
            if known and (tried or tokens != before or self._eager):
                # An attempt to split wakes leaves anywhere, and under a limit of its size puts others to sleep.
                asleep = bool(tokens[1] or before[1])
                known = not (tried and asleep) and self._graft(t, tree, self._last, asleep)
        if not known:
            self._plant(t, tree)
        self._seen(t, weight, tokens)
        return True

    def _same_classes(self, t: int, tree: Any) -> bool:
        known = [self.labels[code] for code in self._orders[t, : self._heads[t]["classes"]].tolist()]
        return known == list(tree.classes)

    def _tried(self, index: int) -> bool:
        """Whether a leaf has tried to split since it was read: where it has one child now, no token tells."""
        return bool(self._parts[index][0].last_split_attempt_at != self._leaves[index]["attempt"])

    def _graft(self, t: int, tree: Any, x: Row, asleep: bool) -> bool:
        """Read anew what is new along the path of x; False where that is not known to be all that is new."""
        index, node = int(self._heads[t]["root"]), tree._root
        while self._objects[index] is node:
            kind, _, left, right, _, _ = self._nodes[index].item()
            if kind == kernels.END:
                return isinstance(node, Leaf)
            if kind not in (kernels.THRESHOLD, kernels.EQUAL) or node.feature not in x:
                return False
            branch = node.branch_no(x)
            node, index = node.children[branch], right if branch else left
        if asleep:
            return False
        self._release(index)
        self._at[t] = -1
        self._grow(node, tree)  # where the other was
        return True

    def _read(self, index: int) -> float:
        """Read a leaf; the weight that it has gained since it was read."""
        leaf, tree = self._parts[index]
        if self._regression:
            return self._read_number(index, leaf, tree)
        before = float(self._leaves[index]["weight"])
        result = read(index, math.nan, 0.0, *self._reading)
        if result == FULL:
            for name in leaf.splitters or ():
                self._table.column(name)
            raise _Full
        if result == NOMINAL:
            self._read_tables(index, self._gained[-1])
        return float(self._leaves[index]["weight"]) - before

    def _read_tables(self, index: int, changed: Array) -> None:
        """Read what naive Bayes knows of categories, of the classes of a leaf that have changed."""
        leaf, _ = self._parts[index]
        for place, splitter in enumerate(leaf.splitters.values()):
            if type(splitter) is GaussianSplitter:
                continue
            if type(splitter) is not NominalSplitterClassif:
                self._leaves[index]["kind"] = kernels.UNKNOWN
                return
            name = self._table.names[self._features[index, place]]
            for k, label in enumerate(leaf.stats):
                if not changed[k]:
                    continue
                weights, code = splitter._att_dist_per_class.get(label, {}), self.codes[label]
                if not all(type(value) is str for value in weights):
                    self._leaves[index]["kind"] = kernels.UNKNOWN
                    return
                for value in weights:
                    self._table.code(name, value)
                codes = self._table.codes.get(name, {})
                where = self._write_table(index, code, place, weights, codes)
                self._moments[index, code, place, :3] = kernels.NOMINAL, where, len(codes)

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
        head = self._leaves[index]
        head["attempt"] = leaf.last_split_attempt_at
        before, head["weight"] = float(head["weight"]), weight
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
