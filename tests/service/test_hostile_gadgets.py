"""Hostile snapshots out of allowed names alone: each gadget is refused in words, before any effect."""

import functools
import struct
from pathlib import Path

import pytest
import river.cluster
import river.compose
import river.ensemble
import river.linear_model
import river.naive_bayes
import river.neighbors
import river.preprocessing
import river.stats

from explain_sidecar.errors import SnapshotError
from explain_sidecar.pickles.attributes import attributes_of
from explain_sidecar.pickles.codec import dumps, loads
from tests.service.test_hostile_snapshots import (
    BUILD,
    DICT,
    EMPTY_ARRAY,
    FLOAT_DTYPE,
    MARK,
    OBJECT_DTYPE,
    TREE,
    VAR,
    build,
    call,
    mapping,
    name,
    new,
    no_effect,
    number,
    text,
    tuple_of,
    whole,
)

NONE, TRUE, FALSE = b"N", b"\x88", b"\x89"
GETATTR, PARTIAL, DEEPCOPY = (
    name("builtins", "getattr"),
    name("functools", "partial"),
    name("copy", "deepcopy"),
)
DICT_CLASS = name("builtins", "dict")
ROLLING = name("river.utils.rolling", "Rolling")
PARTIAL_OF, METHOD_OF = (
    name("explain_sidecar.pickles.attributes", "partial_of"),
    name("explain_sidecar.pickles.attributes", "method_of"),
)
DEFAULTDICT = name("collections", "defaultdict")
DIST = name("river.cluster.textclust", "TextClust.Distances.dist")
MAKE = name("river.naive_bayes.gaussian", "GaussianNB._make_gaussian")
PA = name("river.linear_model.pa", "PAClassifier")
SCALER = name("river.preprocessing.scale_target", "TargetStandardScaler")
SWINN = name("river.neighbors.ann.swinn", "SWINN")
FUNC = name("river.compose.func", "FuncTransformer")
RANDOM = name("random", "Random")
LEAF = name("river.tree.nodes.htc_nodes", "LeafMajorityClass")


def long(value: int) -> bytes:
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def attribute(kind: bytes, named: str, value: bytes) -> bytes:
    return build(new(kind), mapping((text(named), value)))


def rolling(held: bytes, method: str) -> bytes:
    """Rolling looks ``method`` up in what it holds."""
    return build(new(ROLLING), mapping((text("obj"), held), (text("type"), text(method))))


def partial(function: bytes, *arguments: bytes, **attributes: bytes) -> bytes:
    """functools.partial, whose state replaces what it was made of."""
    state = mapping(*((text(key), value) for key, value in attributes.items())) if attributes else DICT
    return build(call(PARTIAL, DICT_CLASS), tuple_of(function, tuple_of(*arguments), DICT, state))


def evaluated(function: bytes, *arguments: bytes) -> bytes:
    """What deepcopy would take for an object that says itself how it is made."""
    reduced = mapping((text("a"), tuple_of(function, tuple_of(*arguments))))
    red = partial(DIST, rolling(DICT_CLASS, "get"), reduced, text("a"))
    return partial(DICT_CLASS, __reduce_ex__=red)


def chain(command: str) -> bytes:
    """The whole chain: from dict.get through a method's globals to exec."""
    itemget = partial(DIST, rolling(DICT_CLASS, "get"))
    held = evaluated(itemget, mapping((text("a"), rolling(DIST, "x"))), text("a"), NONE)
    params = evaluated(name("river.base.base", "Base._get_params"), held)
    builtins = evaluated(itemget, params, text("__builtins__"), NONE)
    execute = evaluated(itemget, builtins, text("exec"), NONE)
    return partial(DEEPCOPY, evaluated(DIST, execute, text(command), DICT, DICT))


COMMAND = "import os; os.system('touch /tmp/explain-sidecar-was-here')"
TRIGGER = chain(COMMAND)
ZEROS = tuple_of(*[number(0)] * 624, number(624))


def numbers(*values: bytes) -> bytes:
    return tuple_of(*values)


GADGETS: dict[str, bytes] = {
    "the whole chain": whole(TRIGGER),
    "the whole chain in a state": whole(build(new(name("explain_sidecar.fold.partition", "PartitionState")), mapping((text("explainers"), attribute(ROLLING, "values", TRIGGER))))),
    "the whole chain as what a mapping lacks": whole(call(DEFAULTDICT, TRIGGER)),
    # What runs other things.
    "getattr of a river object": whole(call(GETATTR, new(VAR), text("update"))),
    "getattr of a class": whole(call(GETATTR, VAR, text("update"))),
    "a partial": whole(call(PARTIAL, VAR)),
    "a partial with a state": whole(partial(VAR)),
    "a partial with attributes": whole(partial(DICT_CLASS, __reduce_ex__=number(1))),
    "deepcopy by its name": whole(DEEPCOPY),
    "deepcopy as an attribute": whole(attribute(FUNC, "func", DEEPCOPY)),
    "a partial of deepcopy of a class": whole(call(PARTIAL_OF, text("deepcopy"), tuple_of(VAR), DICT)),
    "a partial of deepcopy of nothing": whole(call(PARTIAL_OF, text("deepcopy"), b")", DICT)),
    "a partial by another name": whole(call(PARTIAL_OF, text("exec"), tuple_of(text(COMMAND)), DICT)),
    "a partial of a river object": whole(call(PARTIAL_OF, new(VAR), b")", DICT)),
    "a partial of dict.get": whole(call(PARTIAL_OF, rolling(DICT_CLASS, "get"), b")", DICT)),
    "a partial with an object in it": whole(call(DEFAULTDICT, call(PARTIAL_OF, DICT_CLASS, tuple_of(new(VAR)), DICT))),
    "a partial without arguments": whole(call(PARTIAL_OF, VAR, NONE, DICT)),
    "a partial that is data": whole(call(PARTIAL_OF, VAR, b")", DICT)),
    "a partial in an attribute": whole(attribute(ROLLING, "obj", call(PARTIAL_OF, VAR, b")", DICT))),
    "a partial in a list": whole(b"]" + call(PARTIAL_OF, VAR, b")", DICT) + b"a"),
    "a partial of a partial, called": whole(call(call(PARTIAL_OF, VAR, b")", DICT))),
    "a method of any river object": whole(call(METHOD_OF, new(VAR), text("update"))),
    "a dunder method": whole(call(METHOD_OF, new(PA), text("__init__"))),
    "a method that is called": whole(call(call(METHOD_OF, new(PA), text("_calc_tau_0")), NONE, number(1))),
    "a method of another object": whole(attribute(PA, "calc_tau", call(METHOD_OF, new(PA), text("_calc_tau_1")))),
    "a method in another attribute": whole(new(PA) + b"\x94" + mapping((text("loss"), call(METHOD_OF, b"h\x00", text("_calc_tau_1")))) + BUILD),
    "a method as what a mapping lacks": whole(call(DEFAULTDICT, call(METHOD_OF, new(SCALER), text("_scale")))),
    "a method of a dict": whole(call(METHOD_OF, DICT, text("get"))),
    # Functions and classes as data.
    "a function of river": whole(attribute(FUNC, "func", DIST)),
    "a method of river without its object": whole(attribute(FUNC, "func", name("river.stats.var", "Var.update"))),
    "a static method of river": whole(DIST),
    "a private method of river": whole(name("river.base.base", "Base._get_params")),
    "a function of the list in another place": whole(attribute(FUNC, "func", MAKE)),
    "a function of the list in a list": whole(b"]" + MAKE + b"a"),
    "a function of the list alone": whole(MAKE),
    "a class in an attribute": whole(rolling(DICT_CLASS, "get")),
    "a class of river in an attribute": whole(rolling(VAR, "update")),
    "a class in a list": whole(b"]" + VAR + b"a"),
    "a class in a tuple": whole(attribute(ROLLING, "obj", tuple_of(VAR))),
    "a class in a tuple of tuples": whole(tuple_of(tuple_of(DICT_CLASS))),
    "a class in a mapping": whole(mapping((text("a"), DICT_CLASS))),
    "a class as a key": whole(DICT + VAR + number(1) + b"s"),
    "a class in a set": whole(b"\x8f" + MARK + DICT_CLASS + b"\x90"),
    "a class in a frozen set": whole(MARK + DICT_CLASS + b"\x91"),
    "a class in a deque": whole(call(name("collections", "deque")) + VAR + b"a"),
    "a class in a default mapping": whole(call(DEFAULTDICT, DICT_CLASS) + text("a") + VAR + b"s"),
    "a class in a node": whole(attribute(LEAF, "stats", VAR)),
    "a class where a mapping takes none": whole(call(name("collections", "Counter"), VAR)),
    "a class as an object's argument": whole(new(VAR, DICT_CLASS)),
    "the class of learners of another class": whole(attribute(name("river.ensemble.streaming_random_patches", "SRPClassifier"), "_base_learner_class", VAR)),
    "a distance of another name": whole(attribute(SWINN, "dist_func", MAKE)),
    # Attributes that no class has, or that stand before a method of it.
    "values of a Rolling": whole(attribute(ROLLING, "values", number(1))),
    "an attribute that the class does not have": whole(attribute(VAR, "explode", number(1))),
    "a method's name": whole(attribute(VAR, "update", number(1))),
    "an inherited method's name": whole(attribute(TREE, "_get_params", number(1))),
    "a property's name": whole(attribute(TREE, "n_nodes", number(1))),
    "a static method's name": whole(attribute(name("river.neighbors.ann.swinn", "SWINN"), "_refine", number(1))),
    "__reduce_ex__": whole(attribute(VAR, "__reduce_ex__", number(1))),
    "__deepcopy__": whole(attribute(VAR, "__deepcopy__", number(1))),
    "__class__": whole(attribute(VAR, "__class__", TREE)),
    "a node's method": whole(attribute(LEAF, "learn_one", number(1))),
    "a node's property": whole(attribute(LEAF, "total_weight", number(1))),
    "a model's method": whole(attribute(name("explain_core.models", "Model"), "predict", number(1))),
    "a state's method": whole(attribute(name("explain_sidecar.fold.partition", "PartitionState"), "step", number(1))),
    "an attribute by way of __setstate__": whole(attribute(name("river.preprocessing.scale", "StandardScaler"), "learn_one", number(1))),
    "a slot that is none": whole(build(new(VAR), tuple_of(NONE, mapping((text("mean"), number(1)))))),
    "a state that is a list": whole(new(VAR) + b"]" + BUILD),
    "attributes that are a list": whole(build(new(VAR), tuple_of(b"]", NONE))),
    # Sizes.
    "a generator of millions of numbers": whole(build(call(RANDOM), tuple_of(number(3), tuple_of(*[number(1)] * 626), NONE))),
    "a generator of few numbers": whole(build(call(RANDOM), tuple_of(number(3), tuple_of(number(1)), NONE))),
    "a generator of the second version": whole(build(call(RANDOM), tuple_of(number(2), ZEROS, NONE))),
    "a generator of numbers beyond 32 bits": whole(build(call(RANDOM), tuple_of(number(3), tuple_of(long(2**32), *[number(0)] * 623, number(624)), NONE))),
    "a generator of negative numbers": whole(build(call(RANDOM), tuple_of(number(3), tuple_of(number(-1), *[number(0)] * 623, number(624)), NONE))),
    "a generator beyond its end": whole(build(call(RANDOM), tuple_of(number(3), tuple_of(*[number(0)] * 624, number(625)), NONE))),
    "a generator with a text": whole(build(call(RANDOM), tuple_of(number(3), ZEROS, text("x")))),
    "a range": whole(call(name("builtins", "range"), number(0), number(10**6), number(1))),
    "a VectorDict of no mapping": whole(call(name("river._river_rust.vectordict", "VectorDict"), b"]", NONE, NONE, FALSE)),
    "a VectorDict with a mask": whole(call(name("river._river_rust.vectordict", "VectorDict"), DICT, NONE, b"]", FALSE)),
    "a VectorDict with a factory": whole(call(name("river._river_rust.vectordict", "VectorDict"), DICT, DICT_CLASS, NONE, FALSE)),
    "a deque of a list": whole(call(name("collections", "deque"), b"]")),
    "a deque of a text length": whole(call(name("collections", "deque"), b")", text("x"))),
    "a dtype of two gigabytes": whole(call(name("numpy", "dtype"), text("V2000000000"), FALSE, TRUE)),
    "a dtype of a hundred million floats": whole(call(name("numpy", "dtype"), text("(100000000,)f8"), FALSE, TRUE)),
    "a dtype of nothing": whole(call(name("numpy", "dtype"), text("V0"), FALSE, TRUE)),
    "a dtype of two fields": whole(call(name("numpy", "dtype"), text("f8,f8"), FALSE, TRUE)),
    "an array of pointers that are not there": whole(build(EMPTY_ARRAY, tuple_of(number(1), tuple_of(number(10**9)), OBJECT_DTYPE, FALSE, b"]"))),
    "an array of a negative shape": whole(build(EMPTY_ARRAY, tuple_of(number(1), tuple_of(number(-1), number(-1)), FLOAT_DTYPE, FALSE, b"C\x08" + bytes(8)))),
    "a partial of a large window": whole(call(DEFAULTDICT, call(PARTIAL_OF, name("river.stats.quantile", "RollingQuantile"), tuple_of(b"G" + struct.pack(">d", 0.5), number(10**9)), DICT))),
    "a partial of a large array": whole(call(DEFAULTDICT, call(PARTIAL_OF, text("ones"), tuple_of(tuple_of(number(10**6), number(10**6))), DICT))),
    "a partial of a long power": whole(call(DEFAULTDICT, call(PARTIAL_OF, text("ones"), tuple_of(long(2**400)), DICT))),
}  # fmt: skip


def test_the_corpus_of_gadgets_is_large() -> None:
    assert len(GADGETS) >= 40 and len(set(GADGETS.values())) == len(GADGETS)


@pytest.mark.parametrize("hostile", GADGETS.values(), ids=GADGETS.keys())
def test_a_gadget_out_of_allowed_names_is_refused_before_any_effect(hostile: bytes) -> None:
    with no_effect(), pytest.raises(SnapshotError, match=r"^snapshot: ") as refused:
        loads(hostile)
    assert len(str(refused.value)) < 1_000
    assert not Path("/tmp/explain-sidecar-was-here").exists()


def test_windows_take_no_more_memory_than_their_values() -> None:
    window = new(
        name("river._river_rust.stats", "RsRollingQuantile"), b"G" + struct.pack(">d", 0.5), number(10**7)
    )
    with no_effect():
        made = loads(whole(tuple_of(*[window] * 300)))
    assert {instance.__getnewargs__() for instance in made} == {(0.5, 1)}


def test_what_models_hold_that_can_be_called_is_made_again() -> None:
    pa = loads(dumps(river.linear_model.PAClassifier(mode=2)))
    assert pa.calc_tau.__self__ is pa and pa.calc_tau.__name__ == "_calc_tau_2"
    scaler = river.preprocessing.StandardScaler(window_size=7)
    scaler.learn_one({"a": 1.0})
    again = loads(dumps(scaler))
    again.learn_one({"a": 3.0, "b": 2.0})
    scaler.learn_one({"a": 3.0, "b": 2.0})
    assert again.transform_one({"a": 2.0, "b": 1.0}) == scaler.transform_one({"a": 2.0, "b": 1.0})
    quantile = river.stats.RollingQuantile(0.5, 3)
    for value in range(9):
        quantile.update(value)
    copy = loads(dumps(quantile))
    for value in (1, 5):
        quantile.update(value)
        copy.update(value)
    assert copy.get() == quantile.get() == 5


class Holder:
    """A user's class that holds a class, a partial and a built-in type."""

    def __init__(self) -> None:
        self.kind, self.made = Holder, functools.partial(dict)
        self.types = (int, str)


def test_a_class_of_the_user_may_hold_classes() -> None:
    again = loads(dumps(Holder()), [__name__])
    assert again.kind is Holder and again.made() == {} and again.types == (int, str)
    with pytest.raises(SnapshotError, match="not on the allow-list"):
        loads(dumps(Holder()))


def test_the_attributes_of_a_class_are_those_that_its_code_sets() -> None:
    known = attributes_of(river.stats.Var)
    assert {"ddof", "mean", "_S"} <= known
    assert not known & {"update", "__class__", "os", "n"}
