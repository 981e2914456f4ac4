"""Objects as slim pickles, and back through an allow-list: no name outside it is imported, let alone called."""

from __future__ import annotations

import functools
import importlib
import inspect
import io
import pickle
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from copyreg import dispatch_table
from typing import Any

from river.proba import Gaussian
from river.stats import Var
from river.tree.splitter.ebst_splitter import EBSTNode

from service.errors import SnapshotError

MAX_DEPTH = 20_000
"""Recursion limit while pickling: linked nodes of deep trees take some five levels each."""


def dumps(state: Any) -> bytes:
    """A slim pickle. Raises ``SnapshotError`` for what cannot be pickled."""
    buffer = io.BytesIO()
    try:
        with _deep():
            pickler = pickle.Pickler(buffer, 5)
            pickler.dispatch_table = _REDUCERS
            pickler.dump(state)
    except Exception as error:
        raise SnapshotError(
            f"snapshot: the state cannot be stored: {type(error).__name__}: {error}; a model that is kept must be picklable"
        ) from error
    return buffer.getvalue()


def loads(raw: bytes, modules: Collection[str] = ()) -> Any:
    """Unpickle with the allow-list. Raises ``SnapshotError`` for a name outside it or bytes that are no pickle."""
    try:
        with _deep():
            return _Unpickler(io.BytesIO(raw), frozenset(modules)).load()
    except SnapshotError:
        raise
    except Exception as error:
        raise SnapshotError(f"snapshot: it cannot be read: {type(error).__name__}: {error}") from error


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, modules: frozenset[str]) -> None:
        super().__init__(file)
        self._modules = modules

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _method
        if (module, name) in _NAMES:
            return super().find_class(module, name)
        package = module.partition(".")[0]
        trusted = package in _PACKAGES and not module.startswith(_EXCLUDED)
        if trusted or module in self._modules:
            found = functools.reduce(getattr, name.split("."), importlib.import_module(module))
            if isinstance(found, type) and found.__module__ == module:
                return found
            # A static method, or a method without its object; ``__init__`` and its like stay out.
            if (
                trusted
                and inspect.isfunction(found)
                and (found.__module__, found.__qualname__) == (module, name)
            ):
                owner, _, method = name.rpartition(".")
                if owner and not method.startswith("__"):
                    return found
        raise SnapshotError(
            f"snapshot: {module}.{name} is not on the allow-list; if it is a class of your model, "
            "name its module in model.modules"
        )


_PACKAGES = frozenset({"river", "explain_core"})
_EXCLUDED = (
    "river.datasets",
    "river.bandit.datasets",
    "river.bandit.envs",
    "river.stream",
    "river.evaluate",
    "river.checks",
    "river.utils.param_grid",
    "river.api",
)
_NAMES = frozenset(
    {
        ("builtins", "bool"),
        ("builtins", "bytearray"),
        ("builtins", "complex"),
        ("builtins", "dict"),
        ("builtins", "float"),
        ("builtins", "frozenset"),
        ("builtins", "int"),
        ("builtins", "list"),
        ("builtins", "object"),
        ("builtins", "range"),
        ("builtins", "set"),
        ("builtins", "slice"),
        ("builtins", "str"),
        ("builtins", "tuple"),
        ("collections", "Counter"),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("collections", "deque"),
        ("copy", "deepcopy"),
        ("copyreg", "_reconstructor"),
        ("datetime", "date"),
        ("explain_core.losses", "get"),
        ("datetime", "datetime"),
        ("datetime", "timedelta"),
        ("functools", "partial"),
        ("numbers", "Number"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.random._mt19937", "MT19937"),
        ("numpy.random._pickle", "__bit_generator_ctor"),
        ("numpy.random._pickle", "__randomstate_ctor"),
        ("random", "Random"),
        ("river._river_rust.vectordict", "euclidean_distance_tuple"),
        ("service.messages", "Chain"),
        ("service.partition", "PartitionState"),
        ("service.pickles", "_ebst"),
        ("service.pickles", "_gaussian"),
        ("service.windows", "Window"),
        ("service.windows", "Windows"),
        ("statistics", "NormalDist"),
    }
)


def _method(instance: Any, name: str) -> Any:
    """What a bound method's pickle calls in place of ``getattr``: methods of river's objects, nothing else."""
    owner = instance if isinstance(instance, type) else type(instance)
    if (
        owner.__module__.partition(".")[0] != "river"
        or name.startswith("__")
        or not callable(getattr(owner, name, None))
    ):
        raise SnapshotError(f"snapshot: the method {owner.__qualname__}.{name} is not on the allow-list")
    return getattr(instance, name)


def _reduce_gaussian(gaussian: Gaussian) -> Any:
    """Leaves out a ``Gaussian``'s private Mersenne Twister, which trees never use: over 90 % of a tree's pickle."""
    return (_gaussian, (gaussian._var,)) if gaussian.seed is None else gaussian.__reduce_ex__(5)


def _gaussian(var: Var) -> Gaussian:
    gaussian = Gaussian(seed=0)  # type: ignore[no-untyped-call]
    gaussian.seed, gaussian._var = None, var
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
    return _ebst, (
        [node.att_val for node in nodes],
        [node.estimator for node in nodes],
        left,
        right,
        multivariate,
    )


def _ebst(
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


_REDUCERS: Any = {**dispatch_table, Gaussian: _reduce_gaussian, EBSTNode: _reduce_ebst}


@contextmanager
def _deep() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, MAX_DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
