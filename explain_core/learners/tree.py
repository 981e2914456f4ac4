"""River's trees and forests in arrays, and how these grow with classes, columns and nodes."""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from explain_core.engine import stream
from explain_core.engine import trees as engine
from explain_core.learners import layout as at
from explain_core.learners.arrays import Array, Arrays, enlarged, grown
from explain_core.learners.base import NUMBER, Learner, LearnerState
from explain_core.learners.check import Pools, sound, without_free
from explain_core.learners.columns import Columns
from explain_core.learners.defaults import Default
from explain_core.learners.tree_forms import ADAPTIVE, FOREST, TreePlan, plan_of
from explain_core.losses import Task
from explain_core.models import Row
from explain_core.state import Block, array, block, check

UNKNOWN = -2
"""A guess that nobody has made."""

POOLS: Pools = {
    at.NODE_POOL: ("free_nodes", "nodes", "splits", "errors", "alternates"),
    at.LEAF_POOL: ("free_leaves", "leaves", "weights", "stats", "classes", "models"),
    at.OBSERVER_POOL: ("free_observers", "observers"),
    at.CELL_POOL: ("free_cells", "cells", "links"),
    at.BUCKET_POOL: ("free_buckets", "buckets", "chains"),
}
"""The arrays that have a row for each of a pool; in the first are those that are free."""

ADAPTIVE_POOLS: Pools = {**POOLS, at.NODE_POOL: (*POOLS[at.NODE_POOL], "windows", "ends")}

CHANGEABLE = {at.GRACE, at.DELTA, at.TAU, at.RATE, at.WEIGHTED}
"""The parameters that may change while a tree or forest learns; a forest may get more trees, too."""

OF_MEMBERS = ("trees", "seen", "windows", "ends", "members", "accuracy", "counters", "norms")
"""The arrays of a forest that have rows for each member."""

MADE = {"order", "columns", "ranks", "guesses"}
"""The arrays that are no state: made anew of the columns and labels, and what a forest knows of the record at hand."""


class TreeLearner(Learner):
    """A tree or forest of river, its state laid out as in ``layout``.

    Of an adaptive tree river's predictions have their classes in the order of a set; of other classes than numbers that order is here the one of
    appearance. In the arrays of a regression there is one class, whose weight is that of the targets. Row 2m or 2m + 1 of a forest's trees
    is that of member m, the other one that in its background.

    >>> from river import tree
    >>> learner = tree_learner(tree.HoeffdingTreeRegressor(leaf_prediction="mean"), "regression")
    >>> for i in range(10):
    ...     learner.learn({"a": float(i)}, 2.0 * i)
    >>> learner.kind, learner.predict({"a": 3.0})
    ('hoeffding_tree_regressor', 9.0)
    """

    family = stream.TREES

    def __init__(self, model: Any, task: Task, plan: TreePlan, columns: Columns | None = None) -> None:
        super().__init__(model, task, columns or Columns(plan.nominal))
        form, self._max_features = plan.form, plan.max_features
        self.kind = form.kind
        self._regression, self._structure = form.regression, form.structure
        self.pools = ADAPTIVE_POOLS if form.structure == ADAPTIVE else POOLS
        self.arrays = Arrays(**_empty(plan))
        self._size = 0
        self._ranked: dict[str, tuple[list[Any], Array]] = {}
        self._order: list[Any] = []
        self._lay_out()

    @property
    def order(self) -> Sequence[Any] | None:
        if self._regression:
            return NUMBER
        return None if self._structure == FOREST else self._order

    def encoded(self, x: Row) -> NDArray[np.float64]:
        row = super().encoded(x)
        if self.has_models and self.columns.codes:
            for name, value in x.items():
                if name in self.columns.codes and value is not None and value == value:
                    raise ValueError(
                        f"model: feature {name!r} is a string, and the linear regressions in the leaves take numbers; "
                        "encode it, leave it out, or set leaf_prediction to mean"
                    )
        return row

    def _predicted(self) -> list[int]:
        found = self.arrays["order"][0]
        if self._structure == FOREST:
            found = np.zeros(self.arrays["stats"].shape[1], np.int64)
            found = found[: engine.entered(self.arrays.table, found) if self.labels else 0]
        codes: list[int] = found.tolist()
        return codes

    def predict_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64] | None:
        if self.order is None or (self.has_models and self.columns.codes):
            return None
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
        if self._regression:
            return float(y)
        if y not in self.codes:
            self.code(y)
            self._fit_classes()
        return self.codes[y]

    @property
    def has_models(self) -> bool:
        """Whether the leaves have linear models, with a weight for each column."""
        return self._regression and bool(self.arrays["numbers"][0, at.MANNER] != at.TARGET_MEAN)

    @property
    def n_classes(self) -> int:
        """Classes in the arrays."""
        return 1 if self._regression else len(self.labels)

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
        self._order = _sorted(self.labels)
        if self._structure == ADAPTIVE:
            numbers = all(isinstance(label, int | float) for label in self.labels)
            self._order = _as_in_a_set(self.labels) if numbers else list(self.labels)
        arrays["order"] = np.array([[self.codes[label] for label in self._order]], np.int64)
        head = arrays["head"]
        head[0, at.N_CLASSES] = n
        head[0, at.POSITIVE], head[0, at.NEGATIVE] = self.codes.get(1, -1), self.codes.get(0, -1)
        self._fit_needs()

    def fit_columns(self) -> None:
        if self.columns.size != self._size:
            self._lay_out()

    def _lay_out(self) -> None:
        """Columns and the order of categories as they are now."""
        names, known, arrays = self.columns.names, self.columns.codes, self.arrays
        if self._regression:
            arrays["order"] = np.zeros((1, 1), np.int64)
            arrays["head"][0, at.N_CLASSES] = 1
        if self.has_models:
            models = np.zeros((len(arrays["leaves"]), len(names)))
            models[:, : arrays["models"].shape[1]] = arrays["models"] if arrays["models"].size else 0.0
            arrays["models"] = models
        columns = np.zeros((len(names), 4), np.int64)
        columns[:, at.BY_NAME] = sorted(range(len(names)), key=names.__getitem__)
        ranks, start = [np.zeros(0, np.int64)], 0
        for column, name in enumerate(names):
            if name in known:
                ranks.append(self._by_rank(name, known[name]))
                columns[column, [at.NOMINAL, at.START, at.SIZE]] = 1, start, len(ranks[-1])
                start += len(ranks[-1])
        arrays["columns"] = columns
        arrays["ranks"] = np.concatenate(ranks).reshape(1, -1)
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
            keys = _sorted(list(codes))
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
        own = self.arrays.items()
        check(not (self._regression and self.labels), f"{self.kind}: classes in a regression")
        check(blocks.keys() == own.keys() - MADE, f"{self.kind}: arrays are missing, or there are others")
        arrays = {
            name: array(name, cells, own[name].dtype.str, (None,) * own[name].ndim)
            for name, cells in blocks.items()
        }
        check(
            all(np.array_equal(own[name], arrays[name]) for name in ("numbers", "detectors")),
            f"{self.kind}: the parameters are those of another model",
        )
        self.arrays, self._ranked = sound(self, arrays), {}
        if self.labels:
            self._fit_classes()
        self._lay_out()

    def follows(self, before: Learner) -> bool:
        if not isinstance(before, TreeLearner) or before.kind != self.kind:
            return False
        mine, theirs = self.arrays.items(), before.arrays.items()
        members = len(theirs["members"])
        changed = set(np.flatnonzero(mine["numbers"][0] != theirs["numbers"][0]).tolist())
        return (
            changed <= CHANGEABLE
            and members <= len(mine["members"])
            and self._max_features == before._max_features
            and self.columns.nominal == before.columns.nominal
            and all(np.array_equal(mine[name], theirs[name]) for name in ("detectors", "generator"))
            and mine["head"][0, at.POSITION] == theirs["head"][0, at.POSITION]
        )

    def taken_on(self, state: LearnerState) -> LearnerState:
        """Further trees of a forest know nothing, and begin with the next record."""
        state, own = self.migrated(state), self.arrays.items()
        arrays = {**state.arrays, "numbers": block(own["numbers"])}
        for name in OF_MEMBERS if self._structure == FOREST else ():
            if name in own and name in arrays:
                known = array(name, arrays[name], own[name].dtype.str, (None, None))
                further = _widened(own[name][len(known) :], known.shape[1])
                arrays[name] = block(np.concatenate([known, further]))
        return replace(state, arrays=arrays)

    def make_room(self, leaves: int, features: int, member: int = 0) -> None:
        """Double the pools that have no room for so many leaves to learn a record."""
        arrays, head = self.arrays, self.arrays["head"][0]
        if self._structure == FOREST and head[at.N_FEATURES] == 0:
            head[at.N_FEATURES] = k = drawn_of(self._max_features, features)
            arrays["leaves"] = np.zeros((0, at.N_LEAF + k), np.int64)
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


def _empty(plan: TreePlan) -> dict[str, Array]:
    """The arrays before the first record, with no room for any."""
    form, members = plan.form, plan.members
    trees = 2 * members or 1
    head, numbers = np.zeros((1, at.N_HEAD), np.int64), np.zeros((1, at.N_NUMBERS))
    head[0, at.N_TREES] = trees
    head[0, [at.POSITIVE, at.NEGATIVE]] = -1
    for place, value in plan.numbers.items():
        numbers[0, place] = value
    roots = np.zeros((trees, at.N_TREE), np.int64)
    roots[:, at.ROOT] = -1
    classes = 1 if form.regression else 2
    found: dict[str, Array] = dict.fromkeys(at.SLOTS, np.zeros((0, 0)))
    found.update((names[0], np.zeros((0, 1), np.int64)) for names in POOLS.values())
    found.update(
        head=head,
        numbers=numbers,
        nodes=np.zeros((0, at.N_NODE), np.int64),
        splits=np.zeros((0, 2)),
        leaves=np.zeros((0, at.N_LEAF), np.int64),
        weights=np.zeros((0, 6 if form.regression else 3)),
        stats=np.zeros((0, classes)),
        classes=np.zeros((0, 2 * classes), np.int64),
        observers=np.zeros((0, 4), np.int64),
        cells=np.zeros((0, 6 if not form.regression else 5 if numbers[0, at.RADIUS] > 0.0 else 4)),
        links=np.zeros((0, 3), np.int64),
        trees=roots,
        seen=np.zeros((trees, classes), np.int8),
        order=np.zeros((1, 0), np.int64),
        columns=np.zeros((0, 4), np.int64),
        ranks=np.zeros((1, 0), np.int64),
    )
    if plan.generator is None:
        return found
    detectors = np.array(plan.detectors, float)
    words, head[0, at.POSITION] = _words_of(plan.generator)
    watched = trees if form.structure == FOREST else 0
    ends = np.zeros((watched, at.N_END), np.int64)
    ends[:, [at.NEWEST, at.OLDEST]] = -1
    found.update(
        generator=words,
        detectors=detectors,
        windows=np.zeros((watched, at.N_WINDOW)),
        ends=ends,
        buckets=np.zeros((0, 2 * int(detectors[:, at.MOST_BUCKETS].max() + 1))),
        chains=np.zeros((0, at.N_CHAIN), np.int64),
    )
    if form.structure == ADAPTIVE:
        found.update(
            counters=np.zeros((1, 3), np.int64),
            errors=np.zeros(
                (0, 3 if form.regression else 2)
            ),  # in a regression a running variance of absolute errors
            alternates=np.zeros((0, 1), np.int64),
        )
        return found
    pairs = np.full((members, 2), -1, np.int64)
    pairs[:, at.FOREGROUND] = range(0, trees, 2)
    found.update(
        guesses=np.full(members, UNKNOWN, np.int64),
        members=pairs,
        accuracy=np.zeros((members, 2)),
        counters=np.zeros((members, 2), np.int64),
    )
    if form.regression:
        found["norms"] = np.zeros((members, 3))
    return found


def drawn_of(asked: Any, features: int) -> int:
    """``BaseForest._set_max_features``: how many features a leaf draws from so many."""
    if asked is None:
        k = features
    elif asked == "sqrt":
        k = round(math.sqrt(features))
    elif asked == "log2":
        k = round(math.log2(features)) if features else 0
    else:
        k = asked if isinstance(asked, int) else int(asked * features)
    return max(1, min(k + features if k < 0 else k, features))


def tree_learner(model: Any, task: Task, columns: Columns | None = None) -> TreeLearner | None:
    """The learner of a river tree or forest that has learnt nothing, or of a default; None where its type or parameters are not known.

    >>> from river import tree
    >>> tree_learner(tree.HoeffdingTreeClassifier(max_size=1.0), "classification") is None
    True
    """
    plan = model.plan if isinstance(model, Default) else plan_of(model, task)
    if not isinstance(plan, TreePlan) or plan.form.regression != (task == "regression"):
        return None
    return TreeLearner(model, task, plan, columns)


def _sorted(labels: list[Any]) -> list[Any]:
    """In their order; as they are where they cannot be compared."""
    try:
        return sorted(labels)
    except TypeError:
        return list(labels)


def _as_in_a_set(labels: list[Any]) -> list[Any]:
    met: set[Any] = set()
    for label in labels:
        met.add(label)
    return list(met)


def _widened(array: Array, columns: int) -> Array:
    return enlarged(array, (len(array), columns))


def _words_of(generator: random.Random) -> tuple[Array, int]:
    """The words of CPython's Mersenne Twister, from which compiled code draws on as Python would, and its position in them."""
    *words, position = generator.getstate()[1]
    return np.array(words, np.uint32), position
