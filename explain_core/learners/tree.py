"""What learners made of trees share: their arrays, and how these grow with classes, columns and nodes."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.engine import stream
from explain_core.learners import layout as at
from explain_core.learners.arrays import Array, Arrays, grown
from explain_core.learners.base import Learner
from explain_core.learners.columns import Columns
from explain_core.learners.free import Pools, without_free
from explain_core.losses import Prediction, Task
from explain_core.models import Row
from explain_core.state import Block, array, check

LEAF_LIMIT_OF_TREES = 10_000
"""Leaves from which on a tree splits no more.

River weighs its objects against ``max_size``, which arrays cannot repeat: a model with a smaller ``max_size`` than river's default
is left to river.
"""

DEEPEST = 980
"""Depth from which on a leaf splits no more, that of river's under CPython's usual limit of recursion."""

MANNERS = {"mc": at.MAJORITY, "nb": at.BAYES, "nba": at.BETTER}
CRITERIA = {"info_gain": at.INFO_GAIN, "gini": at.GINI, "hellinger": at.HELLINGER}

POOLS: Pools = {
    at.NODE_POOL: ("free_nodes", "nodes", "splits", "errors", "alternates"),
    at.LEAF_POOL: ("free_leaves", "leaves", "weights", "stats", "classes", "models"),
    at.OBSERVER_POOL: ("free_observers", "observers"),
    at.CELL_POOL: ("free_cells", "cells", "links"),
    at.BUCKET_POOL: ("free_buckets", "buckets", "chains"),
}
"""The arrays that have a row for each of a pool; in the first are those that are free."""

MADE = {"order", "columns", "ranks", "guesses"}
"""The arrays that are no state: made anew of the columns and labels, and what a forest knows of the record at hand."""


def class_numbers(model: Any) -> dict[int, float]:
    """The parameters that only classification trees have."""
    from river.tree.splitter import GaussianSplitter

    return {
        at.SHARE: model.max_share_to_split,
        at.FRACTION: model.min_branch_fraction,
        at.N_SPLITS: (model.splitter or GaussianSplitter()).n_splits,
        at.MANNER: MANNERS[model.leaf_prediction],
        at.NB_THRESHOLD: model.nb_threshold,
        at.COMPARES: model.leaf_prediction == "nba",
        at.CRITERION: CRITERIA[model.split_criterion],
    }


def repeatable(model: Any) -> bool:
    """Whether the parameters of a classification tree, or of those of a forest, are among those that compiled code knows."""
    from river.tree.splitter import GaussianSplitter

    return (
        model.leaf_prediction in MANNERS
        and model.split_criterion in CRITERIA
        and (model.splitter is None or type(model.splitter) is GaussianSplitter)
        and not (model.remove_poor_attrs and model.leaf_prediction == "mc")
        and numbers_from_0(model.nb_threshold, model.max_share_to_split, model.min_branch_fraction)
        and tree_repeatable(model, 100.0)
    )


def tree_repeatable(model: Any, default_size: float) -> bool:
    """Whether the parameters that all trees have are among those that compiled code knows."""
    nominal = model.nominal_attributes
    return (
        (nominal is None or all(isinstance(name, str) for name in nominal))
        and model.max_size >= default_size
        and (model.max_depth is None or type(model.max_depth) is int)
        and numbers_from_0(model.grace_period, model.delta, model.tau)
        and 0.0 < model.delta <= 1.0
    )


def numbers_from_0(*values: Any) -> bool:
    """Whether all are numbers, and none is negative."""
    return all(type(value) in (int, float) and value >= 0 for value in values)


class TreeLearner(Learner):
    """A learner whose state is laid out as in ``layout``; a family gives its functions and what is its own of the arrays."""

    takes_on = frozenset({"delta", "disable_weighted_vote", "grace_period", "lambda_value", "tau"})
    parameters = ("numbers",)

    family = stream.TREES
    trees: int = 1
    """Rows for trees."""
    pools = POOLS
    own_numbers = staticmethod(class_numbers)
    """The parameters that not all trees have."""

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether the model is one that this learner repeats."""
        raise NotImplementedError

    def __init__(self, model: Any, task: Task, columns: Columns | None = None) -> None:
        super().__init__(model, task, columns or Columns(model.nominal_attributes or ()))
        self.arrays = Arrays(**self._empty(model))
        self._size = 0
        self._ranked: dict[str, tuple[list[Any], Array]] = {}
        self._order: list[Any] = []
        self._lay_out()

    def _empty(self, model: Any) -> dict[str, Array]:
        """The arrays before the first record, with no room for any."""
        head = np.zeros((1, at.N_HEAD), np.int64)
        head[0, at.N_TREES] = self.trees
        head[0, [at.POSITIVE, at.NEGATIVE]] = -1
        trees = np.zeros((self.trees, at.N_TREE), np.int64)
        trees[:, at.ROOT] = -1
        none = np.zeros((0, 0))
        found: dict[str, Array] = dict.fromkeys(at.SLOTS, none)
        found.update((names[0], np.zeros((0, 1), np.int64)) for names in POOLS.values())
        found.update(
            head=head,
            numbers=self._numbers(model),
            nodes=np.zeros((0, at.N_NODE), np.int64),
            splits=np.zeros((0, 2)),
            leaves=np.zeros((0, at.N_LEAF), np.int64),
            weights=np.zeros((0, 3)),
            stats=np.zeros((0, 2)),
            classes=np.zeros((0, 4), np.int64),
            observers=np.zeros((0, 4), np.int64),
            cells=np.zeros((0, 6)),
            links=np.zeros((0, 3), np.int64),
            trees=trees,
            seen=np.zeros((self.trees, 2), np.int8),
            order=np.zeros((1, 0), np.int64),
            columns=np.zeros((0, 4), np.int64),
            ranks=np.zeros((1, 0), np.int64),
        )
        return found

    def _numbers(self, model: Any) -> Array:
        """The parameters of the model."""
        numbers = np.zeros((1, at.N_NUMBERS))
        given = {
            at.GRACE: model.grace_period,
            at.DELTA: model.delta,
            at.TAU: model.tau,
            at.DEPTH_LIMIT: DEEPEST if model.max_depth is None else min(model.max_depth, DEEPEST),
            at.TWO: 2.0,
            at.HALF: 0.5,
            at.BINARY: model.binary_split,
            at.PREPRUNE: model.merit_preprune,
            at.STOP: model.stop_mem_management,
            at.LEAF_LIMIT: LEAF_LIMIT_OF_TREES,
        }
        for place, value in (given | self.own_numbers(model)).items():
            numbers[0, place] = value
        return numbers

    @property
    def order(self) -> Sequence[Any] | None:
        return super().order if self.task == "regression" else self._order

    def predict(self, x: Row) -> Prediction:
        self.encoded(x)
        out = self.predict_codes(self.columns.rows)[0].tolist()
        return {self.labels[code]: out[code] for code in self._predicted()}

    def _predicted(self) -> list[int]:
        """The codes of the classes in the order of a prediction."""
        found: list[int] = self.arrays["order"][0].tolist()
        return found

    def predict_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64] | None:
        return np.ascontiguousarray(self.predict_codes(rows)[:, self.arrays["order"][0]])

    def enter(self, label: Any) -> None:
        self._target(label)

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        if not weight > 0.0:
            raise ValueError(f"weight: {weight!r} is not above 0")
        row, target = self.encoded(x), self._target(y)
        stream.learn(stream.TREES, self.arrays.table, row, target, float(weight), False, self.make_room)

    def _target(self, y: Any) -> float:
        """What compiled code takes for it: the code of a class, or a number."""
        if y not in self.codes:
            self.code(y)
            self._fit_classes()
        return self.codes[y]

    @property
    def has_models(self) -> bool:
        """Whether the leaves have linear models, with a weight for each column."""
        return False

    @property
    def n_classes(self) -> int:
        """Classes in the arrays."""
        return len(self.labels)

    def _fit_classes(self) -> None:
        """Room for the classes, and their order in predictions."""
        arrays, n = self.arrays, len(self.labels)
        room = arrays["stats"].shape[1]
        if n > room:
            wide = room
            while wide < n:
                wide *= 2
            arrays["stats"] = _widened(arrays["stats"], wide)
            classes = arrays["classes"]
            arrays["classes"] = np.hstack(
                [_widened(classes[:, :room], wide), _widened(classes[:, room:], wide)]
            )
            arrays["seen"] = _widened(arrays["seen"], wide)
        self._order = self.ordered(self.labels)
        arrays["order"] = np.array([[self.codes[label] for label in self._order]], np.int64)
        head = arrays["head"]
        head[0, at.N_CLASSES] = n
        head[0, at.POSITIVE], head[0, at.NEGATIVE] = self.codes.get(1, -1), self.codes.get(0, -1)
        self._fit_needs()

    def ordered(self, labels: list[Any]) -> list[Any]:
        """The classes in the order of river's predictions; as they are where they cannot be compared."""
        try:
            return sorted(labels)
        except TypeError:
            return list(labels)

    def fit_columns(self) -> None:
        if self.columns.size != self._size:
            self._lay_out()

    def _lay_out(self) -> None:
        """Columns and the order of categories as they are now."""
        names, known = self.columns.names, self.columns.codes
        columns = np.zeros((len(names), 4), np.int64)
        columns[:, at.BY_NAME] = sorted(range(len(names)), key=names.__getitem__)
        ranks, start = [np.zeros(0, np.int64)], 0
        for column, name in enumerate(names):
            if name in known:
                ranks.append(self._by_rank(name, known[name]))
                columns[column, [at.NOMINAL, at.START, at.SIZE]] = 1, start, len(ranks[-1])
                start += len(ranks[-1])
        self.arrays["columns"] = columns
        self.arrays["ranks"] = np.concatenate(ranks).reshape(1, -1)
        self._size = self.columns.size
        self._fit_needs()

    def _by_rank(self, name: str, codes: Mapping[Any, int]) -> Array:
        """The codes of a feature's categories in their order; one more string than before is put in its place, for a sort takes long where there are many."""
        keys, found = self._ranked.get(name, ([], np.zeros(0, np.int64)))
        if len(codes) == len(keys) + 1 and name not in self.columns.nominal:
            new = next(reversed(codes))
            place = bisect(keys, new)
            keys.insert(place, new)
            found = np.insert(found, place, codes[new])
        elif len(codes) != len(keys):
            keys = TreeLearner.ordered(self, list(codes))
            found = np.array([codes[category] for category in keys], np.int64)
        self._ranked[name] = keys, found
        return found

    def _fit_needs(self) -> None:
        """How many rows a leaf may take to learn one record."""
        columns, head = self.arrays["columns"], self.arrays["head"]
        nominal = int(columns[:, at.NOMINAL].sum())
        head[0, at.NEED_NODES] = max(2, int(columns[:, at.SIZE].max(initial=0))) + 2
        head[0, at.NEED_OBSERVERS] = len(columns)
        head[0, at.NEED_CELLS] = len(columns) + nominal * (1 + len(self.labels))
        head[0, at.NEED_BUCKETS] = 2 if self.arrays["buckets"].shape[1] else 0

    def _stored(self) -> dict[str, Array]:
        arrays = {name: array for name, array in self.arrays.items().items() if name not in MADE}
        return without_free(arrays, self.pools)

    def _adopt(self, blocks: dict[str, Block]) -> None:
        from explain_core.learners.check import sound

        own = self.arrays.items()
        check(blocks.keys() == own.keys() - MADE, f"{self.kind}: arrays are missing, or there are others")
        arrays = {
            name: array(name, block, own[name].dtype.str, (None,) * own[name].ndim)
            for name, block in blocks.items()
        }
        check(
            all(np.array_equal(own[name], arrays[name]) for name in ("numbers", "detectors")),
            f"{self.kind}: the parameters are those of another model",
        )
        self.arrays, self._ranked = sound(self, arrays), {}
        if self.labels:
            self._fit_classes()
        self._lay_out()

    def make_room(self, leaves: int, features: int, member: int = 0) -> None:
        """Double the pools that have no room for so many leaves to learn a record."""
        arrays, head = self.arrays, self.arrays["head"][0]
        needs = {
            at.NODE_POOL: head[at.NEED_NODES],
            at.LEAF_POOL: head[at.NEED_NODES],
            at.OBSERVER_POOL: head[at.NEED_OBSERVERS],
            at.CELL_POOL: head[at.NEED_CELLS],
            at.BUCKET_POOL: head[at.NEED_BUCKETS],
        }
        for pool, names in self.pools.items():
            rows, need = len(arrays[names[0]]), int(needs[pool]) * leaves
            if rows - head[pool] + head[pool + 1] < need:
                for name in names:
                    if arrays[name].shape[1]:
                        arrays[name] = grown(arrays[name], max(2 * rows, int(head[pool]) + need))


def _widened(array: Array, columns: int) -> Array:
    out = np.zeros((len(array), columns), array.dtype)
    out[:, : array.shape[1]] = array
    return out
