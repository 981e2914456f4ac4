"""Models that only their own code can store: their state as a pickle, which is a program.

So read a pickle only where you know who wrote it. Pickles hold river's
normal distributions and its search trees as few numbers: a reducer says what of an object is stored, and the function beside it makes the
object again.
"""

from __future__ import annotations

import gc
import io
import pickle
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from copyreg import dispatch_table
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from explain_core.state import StateError

if TYPE_CHECKING:  # to import them takes seconds, and whoever has such an object has imported them
    from river.proba import Gaussian
    from river.stats import Mean, Var
    from river.tree.splitter.ebst_splitter import EBSTNode

MAX_DEPTH = 20_000
"""Recursion limit while pickling: linked nodes of deep trees take some five levels each."""

_UNUSED = random.Random(0)
"""In place of the generator of its own that each ``Gaussian`` of river has: trees never draw from it."""


def dumps(state: Any) -> bytes:
    """A pickle. Raises ``StateError`` for what cannot be pickled."""
    buffer = io.BytesIO()
    try:
        with _deep(), _uncollected():
            pickler = pickle.Pickler(buffer, 5)
            pickler.dispatch_table = _reducers()
            pickler.dump(state)
    except Exception as error:
        raise StateError(
            f"the state cannot be stored: {type(error).__name__}: {error}; a model that is kept must be picklable"
        ) from error
    return buffer.getvalue()


def loads(raw: bytes) -> Any:
    """What ``dumps`` stored. It runs code: only for bytes of this process, or of one that is trusted. Raises ``StateError``."""
    try:
        with _uncollected():
            return pickle.loads(raw)  # noqa: S301
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of river's compiled parts is no Exception
        raise StateError(f"it cannot be read: {type(error).__name__}: {error}") from None


@contextmanager
def _deep() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, MAX_DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection: thousands of objects come into being, of which none is garbage, and each pass visits the whole heap."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@cache
def _of_a_gaussian() -> tuple[type[Gaussian], type[Var], type[Mean]]:
    """The types that it consists of; a forest has tens of thousands."""
    from river.proba import Gaussian
    from river.stats import Mean, Var

    return Gaussian, Var, Mean


def _moments(gaussian: Gaussian) -> tuple[float, float, float] | None:
    """Weight, mean and sum of squares, where there is no more to it."""
    Gaussian, Var, Mean = _of_a_gaussian()
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
    Gaussian, Var, Mean = _of_a_gaussian()
    gaussian, var, moments = Gaussian.__new__(Gaussian), Var.__new__(Var), Mean.__new__(Mean)
    gaussian.seed, gaussian._rng, gaussian._var = None, _UNUSED, var
    var.ddof, var.mean, var._S = 1, moments, squares
    moments.n, moments._mean = n, mean
    return gaussian


def _reduce_ebst(root: EBSTNode) -> Any:
    """A binary search tree as flat lists: linked nodes of a sorted stream are deeper than any recursion limit."""
    from river.tree.splitter.ebst_splitter import EBSTNode

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
    from river.tree.splitter.ebst_splitter import EBSTNode

    nodes = [EBSTNode.__new__(EBSTNode) for _ in values]
    update = (
        EBSTNode._update_estimator_multivariate if multivariate else EBSTNode._update_estimator_univariate
    )
    for index, node in enumerate(nodes):
        node.att_val, node.estimator, node._update_estimator = values[index], estimators[index], update
        node._left = nodes[left[index]] if left[index] else None
        node._right = nodes[right[index]] if right[index] else None
    return nodes[0]


_REDUCERS = {
    "river.proba:Gaussian": _reduce_gaussian,
    "river.tree.splitter.ebst_splitter:EBSTNode": _reduce_ebst,
}


def _reducers() -> Any:
    """Of all types, and of those of river whose modules are there."""
    there = {place: reducer for place, reducer in _REDUCERS.items() if place.partition(":")[0] in sys.modules}
    return {**dispatch_table, **{resolve_name(place): reducer for place, reducer in there.items()}}


def refuse(raw: bytes) -> Any:
    """``loads`` of bytes that may be anybody's. Raises ``StateError``."""
    raise StateError(f"it holds {len(raw)} bytes of a model that only its own code can read")
