"""What models are made of as few numbers: the forms in which pickles hold river's normal distributions and its search trees.

A reducer says what of an object is stored, and the function beside it makes the object again.
"""

from __future__ import annotations

import functools
import random
from copyreg import dispatch_table
from types import MethodType
from typing import Any

from river.proba import Gaussian
from river.stats import Mean, Var
from river.tree.splitter.ebst_splitter import EBSTNode

from explain_sidecar.pickles.attributes import reduce_method, reduce_partial

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
    EBSTNode: _reduce_ebst,
    Gaussian: _reduce_gaussian,
    functools.partial: reduce_partial,
    MethodType: reduce_method,
}
