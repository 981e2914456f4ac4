"""What models are made of as few numbers: the forms in which pickles hold river's statistics and the nodes of its trees.

A reducer says what of an object is stored, and the function beside it makes the object again.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from copyreg import dispatch_table
from types import MethodType
from typing import Any

from river import forest as forest
from river.proba import Gaussian
from river.stats import Mean, Var
from river.tree.base import Branch, Leaf
from river.tree.splitter import GaussianSplitter
from river.tree.splitter.ebst_splitter import EBSTNode

from service.attributes import reduce_method, reduce_partial, set_attributes

_UNUSED = random.Random(0)
"""In place of the generator of its own that each ``Gaussian`` of river has: trees never draw from it."""


def _moments(gaussian: Gaussian) -> tuple[float, float, float] | None:
    """Weight, mean and sum of squares, where there is no more to it."""
    var = gaussian._var
    if (
        type(gaussian) is Gaussian
        and gaussian.seed is None
        and type(var) is Var
        and type(var.mean) is Mean
        and var.ddof == 1
    ):
        return var.mean.n, var.mean._mean, var._S
    return None


def _reduce_gaussian(gaussian: Gaussian) -> Any:
    """Three numbers in place of three objects and a private Mersenne Twister, which is over 90 % of a tree's pickle."""
    moments = _moments(gaussian)
    return gaussian.__reduce_ex__(5) if moments is None else (gaussian_of, moments)


def gaussian_of(n: float, mean: float, squares: float) -> Gaussian:
    gaussian, var, moments = Gaussian.__new__(Gaussian), Var.__new__(Var), Mean.__new__(Mean)
    gaussian.seed, gaussian._rng, gaussian._var = None, _UNUSED, var
    var.ddof, var.mean, var._S = 1, moments, squares
    moments.n, moments._mean = n, mean
    return gaussian


_SPLITTER = list(vars(GaussianSplitter()))


def _reduce_splitter(splitter: GaussianSplitter) -> Any:
    """What a leaf knows of one feature: for each class six values in a row, in place of entries of three dictionaries."""
    low, high, gaussians = splitter._min_per_class, splitter._max_per_class, splitter._att_dist_per_class
    moments = [_moments(gaussian) for gaussian in gaussians.values()]
    same_classes = list(low) == list(high) == list(gaussians)
    if list(vars(splitter)) != _SPLITTER or not same_classes or None in moments:
        return splitter.__reduce_ex__(5)
    flat: list[Any] = [splitter.n_splits]
    for kind, found in zip(gaussians, moments, strict=True):
        flat += (kind, low[kind], high[kind], *found)  # type: ignore[misc]
    return splitter_of, tuple(flat)


def splitter_of(n_splits: int, *flat: Any) -> GaussianSplitter:
    splitter = GaussianSplitter.__new__(GaussianSplitter)
    low, high, gaussians = {}, {}, {}
    for at in range(0, len(flat), 6):
        kind = flat[at]
        low[kind], high[kind] = flat[at + 1], flat[at + 2]
        gaussians[kind] = gaussian_of(flat[at + 3], flat[at + 4], flat[at + 5])
    splitter._min_per_class, splitter._max_per_class, splitter._att_dist_per_class = low, high, gaussians
    splitter.n_splits = n_splits
    return splitter


def _nodes(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _nodes(below)


# Importing the forests defines all of them. Nodes of Mondrian trees are elsewhere: each knows its parent, and must be stored before it.
NODES = frozenset(
    kind
    for base in (Branch, Leaf)
    for kind in _nodes(base)
    if kind.__module__.startswith("river.tree.nodes.")
)
_ATTRIBUTES: dict[tuple[str, ...], tuple[str, ...]] = {}
"""Names of a node's attributes to the tuple that stands for all equal ones, so that a pickle holds them once."""


def _reduce_node(node: Any) -> Any:
    """A node of a tree as its values alone: what they are called is the same for all nodes of a kind."""
    names = tuple(vars(node))
    return node_of, (type(node), _ATTRIBUTES.setdefault(names, names), *vars(node).values())


def node_of(kind: Any, names: tuple[str, ...], *values: Any) -> Any:
    node = kind.__new__(kind)
    vars(node).update(set_attributes(node, dict(zip(names, values, strict=True)), False))
    return node


def _reduce_ebst(root: EBSTNode) -> Any:
    """A binary search tree as flat lists: linked nodes of a sorted stream are deeper than any recursion limit."""
    nodes, multivariate = [root], root._update_estimator is EBSTNode._update_estimator_multivariate
    left: list[int] = []
    right: list[int] = []
    for node in nodes:
        for child, indices in ((node._left, left), (node._right, right)):
            indices.append(0 if child is None else len(nodes))
            if child is not None:
                nodes.append(child)
    return search_tree_of, (
        [node.att_val for node in nodes],
        [node.estimator for node in nodes],
        left,
        right,
        multivariate,
    )


def search_tree_of(
    values: list[Any], estimators: list[Any], left: list[int], right: list[int], multivariate: bool
) -> EBSTNode:
    nodes = [EBSTNode.__new__(EBSTNode) for _ in values]
    update = (
        EBSTNode._update_estimator_multivariate if multivariate else EBSTNode._update_estimator_univariate
    )
    for index, node in enumerate(nodes):
        node.att_val, node.estimator, node._update_estimator = values[index], estimators[index], update
        node._left = nodes[left[index]] if left[index] else None
        node._right = nodes[right[index]] if right[index] else None
    return nodes[0]


REDUCERS: Any = {
    **dispatch_table,
    **dict.fromkeys(NODES, _reduce_node),
    EBSTNode: _reduce_ebst,
    Gaussian: _reduce_gaussian,
    GaussianSplitter: _reduce_splitter,
    functools.partial: reduce_partial,
    MethodType: reduce_method,
}
