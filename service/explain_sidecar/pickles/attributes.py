"""What an object out of a snapshot may be given: the attributes that the code of its class sets, and data in them.

A value that can be called is a gadget where code expects another one, and an attribute with the name of a method takes its
place. So an unpickler holds classes, functions, methods and partials as ``Named``, which does nothing, and this module
says where one may come out again.
"""

from __future__ import annotations

import copy
import dis
import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Number
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
from river.optim.base import Initializer
from river.utils.math import minkowski_distance

from explain_sidecar.errors import SnapshotError


@dataclass(frozen=True, slots=True, repr=False)
class Named:
    """A class, function, method or partial that a snapshot names. Where code expects the thing itself, this is nothing."""

    found: Any
    makes_values: bool = False  # what a mapping may call for a key that it lacks

    def __repr__(self) -> str:
        return name_of(self.found)


PLAIN: frozenset[type] = frozenset({bool, complex, float, int, object, str, Number})
"""Classes that are data too: the types of values that a selector of river lets pass."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "deepcopy": copy.deepcopy,
    "ones": np.ones,
    "array": np.array,
    "minkowski_distance": minkowski_distance,
}
"""What a partial may stand for besides a class, by the name that is stored in its place."""

METHODS = {
    ("river.ensemble.bagging.LeveragingBaggingClassifier", "_bagging_fct"): {
        "_leveraging_bag",
        "_leveraging_bag_half",
        "_leveraging_bag_me",
        "_leveraging_bag_wt",
        "_leveraging_subag",
    },
    ("river.drift.dummy.DummyDriftDetector", "_trigger"): {"_fixed_trigger", "_random_trigger"},
    ("river.drift.page_hinkley.PageHinkley", "_test_drift"): {"_test_both", "_test_down", "_test_up"},
    ("river.linear_model.pa.BasePA", "calc_tau"): {"_calc_tau_0", "_calc_tau_1", "_calc_tau_2"},
    ("river.compose.target_transform.TargetTransformRegressor", "func"): {"_scale"},
    ("river.compose.target_transform.TargetTransformRegressor", "inverse_func"): {"_unscale"},
}
"""Attributes that hold a method of the object itself, and which."""

NAMED = {
    ("river.ensemble.streaming_random_patches.BaseSRPEnsemble", "_base_learner_class"): {
        "river.ensemble.streaming_random_patches.BaseSRPClassifier",
        "river.ensemble.streaming_random_patches.BaseSRPRegressor",
    },
    ("river.forest.online_extra_trees.ExtraTrees", "_detect"): {
        "river.forest.online_extra_trees.ExtraTrees._detection_mode_all",
        "river.forest.online_extra_trees.ExtraTrees._detection_mode_drop",
        "river.forest.online_extra_trees.ExtraTrees._detection_mode_off",
    },
    ("river.tree.splitter.nominal_splitter_reg.NominalSplitterReg", "_update_estimator"): {
        "river.tree.splitter.nominal_splitter_reg.NominalSplitterReg._update_estimator_multivariate",
        "river.tree.splitter.nominal_splitter_reg.NominalSplitterReg._update_estimator_univariate",
    },
    ("river.neighbors.base.BaseNN", "dist_func"): {
        "river._river_rust.vectordict.euclidean_distance_dict",
        "river._river_rust.vectordict.euclidean_distance_tuple",
    },
    ("river.neighbors.base.FunctionWrapper", "distance_function"): {
        "river._river_rust.vectordict.euclidean_distance_dict",
        "river.utils.math.minkowski_distance",
    },
}
"""Attributes that hold a function or a class, and which."""

FACTORIES = frozenset({"river.naive_bayes.gaussian.GaussianNB._make_gaussian"})
"""Functions that make what a mapping lacks."""

FACTORY_METHODS = frozenset(
    {
        ("river.feature_extraction.kernel_approx.RBFSampler", "_random_weights"),
        ("river.preprocessing.random_projection.GaussianRandomProjector", "_rand_gauss"),
        ("river.preprocessing.random_projection.SparseRandomProjector", "_rand_weights_for_feature"),
    }
)
"""Methods that do so."""

FUNCTION_NAMES = FACTORIES.union(*(names for names in NAMED.values()))
"""All functions (and some classes) that a snapshot may name."""


def reduce_partial(partial: functools.partial[Any]) -> Any:
    name = next((name for name, function in FUNCTIONS.items() if function is partial.func), None)
    return partial_of, (name or partial.func, partial.args, partial.keywords)


def reduce_method(method: MethodType) -> Any:
    return method_of, (method.__self__, method.__name__)


def name_of(found: Any) -> str:
    return f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', type(found).__qualname__)}"


def is_factory(made: Any) -> bool:
    """Whether a mapping may call it for what it lacks: a class, a partial, a function of the list, an initializer of weights."""
    if isinstance(made, Named):
        return made.makes_values
    return is_plain(made) or isinstance(made, Initializer)


def is_plain(made: Any) -> bool:
    return isinstance(made, type) and made in PLAIN


def bare(value: Any) -> Any:
    return value.found if isinstance(value, Named) else value


def partial_of(function: Any, arguments: Any, keywords: Any) -> Named:
    """A partial out of its parts. Raises ``SnapshotError`` for others than river's objects hold."""
    known = type(function) is str and function in FUNCTIONS
    if not (type(arguments) is tuple and type(keywords) is dict and (known or is_factory(function))):
        fits = False
    elif known and function == "deepcopy":
        fits = len(arguments) == 1 and not keywords and not isinstance(arguments[0], Named | type)
    else:
        fits = all(map(_is_parameter, [*arguments, *keywords.values()]))
    if not fits:
        raise SnapshotError(
            f"snapshot: no object of ours holds a partial of {name_of(bare(function))} with such arguments"[
                :300
            ]
        )
    made = FUNCTIONS[function] if known else bare(function)
    keywords = {key: bare(value) for key, value in keywords.items()}
    return Named(functools.partial(made, *map(bare, arguments), **keywords), True)


MAX_PARAMETER = 1_000_000
"""Largest number that a partial passes on: it may be a size, and is taken again for each feature."""


def _is_parameter(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) <= MAX_PARAMETER
    if type(value) in (tuple, list):
        numbers = all(isinstance(part, int | float) for part in value) and len(value) < 10
        return numbers and abs(math.prod(value)) <= MAX_PARAMETER
    return isinstance(value, float | str) or is_factory(value)


def method_of(instance: Any, name: str) -> Named:
    """A method of an object, as its class has it."""
    kind = bare(instance) if isinstance(instance, Named) else type(instance)
    if not isinstance(kind, type):
        raise SnapshotError("snapshot: a method of what is no object")
    function = getattr(kind, name, None)
    owners = {(name_of(base), name) for base in kind.__mro__}
    listed, factory = bool(owners & _LISTED), bool(owners & FACTORY_METHODS)
    if not listed or not isinstance(function, FunctionType | MethodType):
        raise SnapshotError(f"snapshot: the method {kind.__qualname__}.{name} is not on the allow-list"[:300])
    method = function if isinstance(function, MethodType) else MethodType(function, instance)
    return Named(method, makes_values=factory)


_LISTED = FACTORY_METHODS.union((owner, name) for (owner, _), names in METHODS.items() for name in names)


def set_attributes(made: Any, given: Mapping[Any, Any], trusted: bool) -> dict[str, Any]:
    """The attributes, once all of them are what the code of the object's class sets and data; else ``SnapshotError``.

    ``trusted``: the class is the user's own, whose code the settings trust: it may set any attribute but those of the class.
    """
    kind: Any = type(made)
    known = attributes_of(kind)
    found = {}
    for name, value in given.items():
        if (
            type(name) is not str
            or name.startswith("__")
            or not (trusted or name in known or takes_any(kind))
        ):
            raise SnapshotError(
                f"snapshot: it sets an attribute of a {kind.__qualname__} that its class does not have"
            )
        if is_shadow(kind, name):
            raise SnapshotError(
                f"snapshot: it sets {name!r} of a {kind.__qualname__} over what the class has under that name"
            )
        if isinstance(value, Named):
            value = _held(made, name, value.found, trusted)
        found[sys.intern(name)] = value
    return found


def _held(made: Any, name: str, value: Any, trusted: bool) -> Any:
    if trusted and not isinstance(value, MethodType):
        return value
    for base in type(made).__mro__:
        place = name_of(base), name
        function = value.func if isinstance(value, functools.partial) else value
        own = isinstance(value, MethodType) and (value.__self__ is made or value.__self__ is type(made))
        if own and value.__name__ in METHODS.get(place, ()):
            return value
        if not isinstance(value, MethodType) and name_of(function) in NAMED.get(place, ()):
            return value
    raise SnapshotError(
        f"snapshot: the attribute {name!r} of a {type(made).__qualname__} holds {name_of(value)}, which can be called; no object of ours does"
    )


@functools.lru_cache(10_000)
def is_shadow(kind: Any, name: str) -> bool:
    """Whether an attribute of the object would stand before a method, property or class of its class."""
    over = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    return callable(over) or isinstance(
        over, property | classmethod | staticmethod | functools.cached_property
    )


@functools.cache
def attributes_of(kind: Any) -> frozenset[str]:
    """The attributes that the classes of an object declare, or that their code sets."""
    return frozenset[str]().union(*map(_of_one, kind.__mro__))


@functools.cache
def takes_any(kind: Any) -> bool:
    """Whether a class, such as river's nodes, makes an attribute of any keyword that its constructor is given."""
    codes = [vars(base)["__init__"].__code__ for base in kind.__mro__ if _in_python(base)]
    return any(code.co_flags & inspect.CO_VARKEYWORDS and "__dict__" in code.co_names for code in codes)


def _in_python(kind: type) -> bool:
    return isinstance(vars(kind).get("__init__"), FunctionType)


@functools.cache
def _of_one(kind: Any) -> frozenset[str]:
    attributes = vars(kind)
    slots = attributes.get("__slots__", ())
    declared = {slots} if isinstance(slots, str) else set(slots)
    declared |= attributes.get("__annotations__", {}).keys()
    for attribute in attributes.values():
        for part in ("", "__func__", "fget", "fset", "func", "__wrapped__"):
            code = getattr(getattr(attribute, part, None) if part else attribute, "__code__", None)
            if isinstance(code, CodeType):
                declared.update(_stored(code))
    return frozenset(declared)


_STORE, _EXTENDED = dis.opmap["STORE_ATTR"], dis.opmap["EXTENDED_ARG"]


def _stored(code: CodeType) -> Iterator[str]:
    """Names of the attributes that a function sets, of whatever object, and the functions within it."""
    instructions, high = code.co_code, 0
    for at in range(0, len(instructions), 2):
        operation, low = instructions[at], instructions[at + 1] | high
        if operation == _STORE:
            yield code.co_names[low]
        high = low << 8 if operation == _EXTENDED else 0
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _stored(constant)
