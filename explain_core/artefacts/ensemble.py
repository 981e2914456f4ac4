"""Ensembles of trees as arrays: what the readers of artefacts make, checked, and the model that walks them."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.artefacts import layout, shallow
from explain_core.artefacts.artefact import ArtefactError
from explain_core.engine import stream
from explain_core.learners.arrays import Arrays
from explain_core.learners.base import NUMBER
from explain_core.learners.columns import NAN, Columns
from explain_core.losses import Prediction, Task
from explain_core.models import Model, Row

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Tree:
    """One tree: arrays with an entry for each node, the root first.

    A node with ``left`` below 0 is a leaf and has its ``values``, nodes × numbers of a leaf, which are added to the outputs from
    ``output`` on. ``sets`` are bits of the categories that go left, in words of 32; such a node's threshold is the index of its set.
    """

    feature: Integers
    threshold: Floats
    flags: Integers
    left: Integers
    right: Integers
    values: Floats
    output: int = 0
    sets: Sequence[NDArray[np.uint32]] = ()


@dataclass(frozen=True)
class Ensemble:
    """Trees, and what becomes of the sums over their leaves; ``link`` is one of ``layout.LINKS``."""

    kind: str
    task: Task
    trees: Sequence[Tree]
    base: Sequence[float]
    link: str
    features: Sequence[str]
    n_classes: int = 0
    """Numbers of a prediction where they are probabilities."""
    number: float = 1.0
    single: bool = False
    """Whether the library adds 32-bit floats."""
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """In the order of their codes, for the features whose artefact names them."""


class FixedColumns(Columns):
    """Columns of a model that has its features and categories for good: a category that it does not know is a missing value."""

    def __init__(self, features: Sequence[str], categories: Mapping[str, Sequence[Any]]) -> None:
        super().__init__(categories)
        self._fixed: Collection[str] = frozenset(categories)
        self.add(features)
        for name, known in categories.items():
            self.codes[name] = {category: code for code, category in enumerate(known)}
        self._numeric = {name for name in features if name not in categories}
        self._lay_out()

    def code(self, name: str, category: Any) -> float:
        return self.codes[name].get(category, NAN) if name in self._fixed else super().code(name, category)


class TreeEnsemble(Model):
    """A trained ensemble of trees that compiled code predicts and explains; it never learns.

    Predictions are those of the library that trained it up to 10⁻⁶ relative: the sums over trees have the library's order and width,
    the link function's last bits may differ. Columns that the model does not know are ignored.
    """

    features: Sequence[str]

    def __init__(self, ensemble: Ensemble, classes: Sequence[Any] | None = None) -> None:
        super().__init__(ensemble, ensemble.task)
        n = max(ensemble.n_classes, 1)
        self.features = list(ensemble.features)
        nominal = ensemble.categories
        texts = {name: all(isinstance(one, str) for one in known) for name, known in nominal.items()}
        self.kinds = {
            name: "string" if texts.get(name) else "number"
            for name in self.features
            if name not in nominal or texts[name] or not any(isinstance(one, str) for one in nominal[name])
        }
        self.classes: list[Any]
        """The labels in the order of a prediction's numbers; a number alone has none, and stands as the label 0."""
        self.codes: dict[Any, int]
        self.arrays = Arrays(**_arrays(ensemble))
        self.shallow = shallow.fits(ensemble)
        """Whether sets of bits stand for walks through the trees."""
        self.family = stream.SHALLOW if self.shallow else stream.ENSEMBLE
        self._label(range(n) if classes is None else classes)

    def relabelled(self, labels: dict[Any, Any]) -> TreeEnsemble:
        found, own = copy.copy(self), self.classes
        if self.task == "classification":
            own = [labels.setdefault(label, len(labels)) for label in own]
        found._label(own)
        return found

    def _label(self, classes: Sequence[Any]) -> None:
        self.classes = list(classes)
        self.codes = {label: code for code, label in enumerate(self.classes)}
        self.columns = FixedColumns(self.features, self.wrapped.categories)
        self._out = np.empty((1, len(self.classes)))

    def encoded(self, x: Row) -> Floats:
        """The record as a row of ``columns``; good until the next one."""
        return self.columns.row(x)

    @property
    def order(self) -> Sequence[Any]:
        """The classes in the order of a prediction, None alone for a number."""
        return NUMBER if self.task == "regression" else self.classes

    def matrix(self, records: Sequence[Row]) -> Floats:
        """Records × ``features``."""
        width = len(self.features)
        found = np.empty((len(records), width))
        for i, x in enumerate(records):
            found[i] = self.encoded(x)[:width]
        return found

    def predict_codes(self, rows: Floats) -> Floats:
        """Predictions of rows of ``columns``, rows × ``classes``."""
        out = np.empty((len(rows), len(self.classes)))
        stream.predict(self.family, self.arrays.table, rows, out)
        return out

    def predict(self, x: Row) -> Prediction:
        self.encoded(x)
        stream.predict(self.family, self.arrays.table, self.columns.rows, self._out)
        return self._prediction(self._out[0].tolist())

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        return [self._prediction(line) for line in self.predict_codes(self.matrix(rows)).tolist()]

    def _prediction(self, line: list[float]) -> Prediction:
        return line[0] if self.task == "regression" else dict(zip(self.classes, line, strict=True))


def below_single(limit: NDArray[np.float32]) -> Floats:
    """The largest doubles that, rounded to 32 bits, are below the limits: x ≤ these as doubles is x < limit as 32-bit floats.

    >>> t = below_single(np.array([0.5], np.float32))
    >>> bool(np.float32(t[0]) < 0.5), bool(np.float32(np.nextafter(t[0], 1)) < 0.5)
    (True, False)
    """
    before = np.nextafter(limit, np.float32(-np.inf))
    middle = (before.astype(np.float64) + limit.astype(np.float64)) / 2
    # The middle itself is rounded to the neighbour whose last bit is 0.
    even = before.view(np.int32) % 2 == 0
    return np.where(even, middle, np.nextafter(middle, -np.inf))


def up_to_single(limit: Floats) -> Floats:
    """The largest doubles that, rounded to 32 bits, are not above the limits."""
    nearest = limit.astype(np.float32)
    below = np.where(nearest.astype(np.float64) > limit, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    return below_single(np.nextafter(below, np.float32(np.inf)))


def bits(codes: Any) -> NDArray[np.uint32]:
    """A set of categories' codes as words of 32 bits.

    >>> bits([0, 33]).tolist()
    [1, 2]
    """
    codes = np.asarray(codes, np.int64)
    words = np.zeros(int(codes.max(initial=-1)) // 32 + 1, np.uint32)
    np.bitwise_or.at(words, codes // 32, np.uint32(1) << (codes % 32).astype(np.uint32))
    return words


def _arrays(ensemble: Ensemble) -> dict[str, NDArray[Any]]:
    """The arrays that compiled code walks. Raises ``ArtefactError`` where a walk would leave them or never end."""
    if not ensemble.trees:
        raise ArtefactError(f"{ensemble.kind}: the model has no tree; train it before it is saved")
    width = {tree.values.shape[1] for tree in ensemble.trees}
    outputs = len(ensemble.base)
    for number, tree in enumerate(ensemble.trees):
        problem = _problem(tree, len(ensemble.features), outputs)
        if problem:
            raise ArtefactError(f"{ensemble.kind}: tree {number}: {problem}; the file is damaged")
    if len(width) != 1 or not all(map(np.isfinite, (*ensemble.base, ensemble.number))):
        raise ArtefactError(
            f"{ensemble.kind}: leaves of several widths, or a constant that is not finite; the file is damaged"
        )
    return _own_arrays(ensemble) | (
        shallow.arrays(ensemble) if shallow.fits(ensemble) else _nodes(ensemble.trees)
    )


def _own_arrays(ensemble: Ensemble) -> dict[str, NDArray[Any]]:
    """The arrays of a checked ensemble but for those of its nodes."""
    link, interval = layout.LINKS.index(ensemble.link), shallow.interval(len(ensemble.trees))
    head = [link, ensemble.single, max(ensemble.n_classes, 1), interval]
    sets = [part for tree in ensemble.trees for part in tree.sets]
    ends = np.cumsum([0, *map(len, sets)])
    return {name: np.zeros((0, 2)) for name in layout.SLOTS} | {
        "head": np.array(head, np.int64),
        "base": np.array(ensemble.base, np.float64),
        "numbers": np.array([ensemble.number]),
        "sets": np.stack([ends[:-1], np.diff(ends)], axis=1).astype(np.int32),
        "words": np.concatenate([*sets, np.zeros(1, np.uint32)]),
    }


def walked(ensemble: Ensemble) -> Arrays:
    """The arrays of a checked ensemble for walks through its trees, whichever those are that predict it."""
    return Arrays(**_own_arrays(ensemble) | _nodes(ensemble.trees))


def _nodes(trees: Sequence[Tree]) -> dict[str, NDArray[Any]]:
    """The arrays of trees that are walked."""
    parts: list[Floats] = []
    leaves: list[Floats] = []
    roots = np.zeros((len(trees), 2), np.int32)
    n_nodes = n_leaves = n_sets = 0
    for number, tree in enumerate(trees):
        order, child = _by_level(tree)
        leaf, categorical = (tree.left < 0)[order], (tree.flags & layout.CATEGORICAL != 0)[order]
        nodes = np.zeros((len(order), 2))
        nodes[:, 0] = np.where(categorical, tree.threshold[order] + n_sets, tree.threshold[order])
        integers = nodes.view(np.int32)
        column = (tree.feature << layout.FLAG_BITS | tree.flags)[order]
        integers[:, layout.COLUMN] = np.where(leaf, -1, column)
        integers[:, layout.CHILD] = np.where(leaf, n_leaves + np.cumsum(leaf) - 1, child + n_nodes)
        parts.append(nodes)
        leaves.append(tree.values[order][leaf])
        roots[number] = n_nodes, tree.output
        n_nodes, n_leaves = n_nodes + len(order), n_leaves + int(leaf.sum())
        n_sets += len(tree.sets)
    return {"nodes": np.concatenate(parts), "trees": roots, "leaves": np.concatenate(leaves)}


def _by_level(tree: Tree) -> tuple[Integers, Integers]:
    """The nodes from the root on, level by level, the children of a node side by side; and the place of each one's left child."""
    levels, level, n = [], np.zeros(1, np.int64), 1
    children = []
    while len(level):
        inside = tree.left[level] >= 0
        levels.append(level)
        children.append(n + 2 * (np.cumsum(inside) - 1))
        n += 2 * int(inside.sum())
        level = np.stack([tree.left[level[inside]], tree.right[level[inside]]], axis=1).ravel()
    return np.concatenate(levels), np.concatenate(children)


def astray(left: Integers, right: Integers, feature: Integers, n_features: int) -> str | None:
    """What is wrong with a tree whose nodes lead out of it, or ask for no column of the model; ``left`` is below 0 at a leaf."""
    inside = left >= 0
    children = np.concatenate([left[inside], right[inside]])
    if len(children) and (
        children.min() < 1 or children.max() >= len(left) or np.bincount(children).max() > 1
    ):
        return "a node has no parent of its own"
    if inside.any() and not 0 <= feature[inside].min() <= feature[inside].max() < n_features:
        return f"a node asks for a column beyond the {n_features} of the model"
    return None


def _problem(tree: Tree, n_features: int, outputs: int) -> str | None:
    """What is wrong with a tree."""
    n = len(tree.left)
    if n == 0 or any(
        len(part) != n for part in (tree.feature, tree.threshold, tree.flags, tree.right, tree.values)
    ):
        return "its arrays differ in length"
    inside = tree.left >= 0
    problem = astray(tree.left, tree.right, tree.feature, n_features)
    if problem:
        return problem
    categorical = inside & (tree.flags & layout.CATEGORICAL != 0)
    if np.isnan(tree.threshold[inside]).any() or not np.isfinite(tree.values[~inside]).all():
        return "a threshold is no number, or a leaf not finite"
    if categorical.any() and not 0 <= tree.threshold[categorical].min() <= tree.threshold[
        categorical
    ].max() < len(tree.sets):
        return "a node asks for a set of categories that is not there"
    if not 0 <= tree.output <= outputs - tree.values.shape[1]:
        return "it adds to an output that is not there"
    return None
