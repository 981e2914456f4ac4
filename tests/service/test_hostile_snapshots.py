"""Who can write to the checkpoints topic does not run code with us: a corpus of hostile pickles, each refused before any effect."""

import pickle
import struct
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import river.drift
import river.stats
import river.tree
import zstandard

import explain_core.models
from explain_sidecar.errors import SnapshotError
from explain_sidecar.fold import messages, partition
from explain_sidecar.pickles.codec import dumps, loads
from explain_sidecar.snapshots.snapshot import MAX_RAW_BYTES, Snapshot, load, take
from tests.folds import fold, new_state, settings, values

MARK, TUPLE, REDUCE, BUILD, NEWOBJ, DICT = b"(", b"t", b"R", b"b", b"\x81", b"}"
MEMOIZE, POP = b"\x94", b"0"


def text(value: str) -> bytes:
    raw = value.encode()
    return b"\x8c" + bytes([len(raw)]) + raw


def number(value: int) -> bytes:
    return pickle.dumps(value, 5)[2:-1].removeprefix(b"\x95" + bytes(8))


def name(module: str, qualified: str) -> bytes:
    return text(module) + text(qualified) + b"\x93"


def tuple_of(*parts: bytes) -> bytes:
    return MARK + b"".join(parts) + TUPLE


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + tuple_of(*arguments) + REDUCE


def mapping(*pairs: tuple[bytes, bytes]) -> bytes:
    return DICT + MARK + b"".join(key + value for key, value in pairs) + b"u"


def new(kind: bytes, *arguments: bytes) -> bytes:
    return kind + tuple_of(*arguments) + NEWOBJ


def build(made: bytes, state: bytes) -> bytes:
    return made + state + BUILD


def whole(body: bytes) -> bytes:
    return b"\x80\x05" + body + b"."


COMMAND = text("touch /tmp/explain-sidecar-was-here")
GETATTR = name("builtins", "getattr")
TREE = name("river.tree.hoeffding_tree_classifier", "HoeffdingTreeClassifier")
VAR = name("river.stats.var", "Var")
LEAF = name("river.tree.nodes.htc_nodes", "LeafMajorityClass")
GAUSSIAN = name("explain_sidecar.pickles.slim", "gaussian_of")
SPLITTER = name("river.tree.splitter.gaussian_splitter", "GaussianSplitter")
LIST, STR = name("builtins", "list"), name("builtins", "str")
FLOAT_DTYPE = call(name("numpy", "dtype"), text("f8"), b"\x89", b"\x88")
OBJECT_DTYPE = call(name("numpy", "dtype"), text("O"), b"\x89", b"\x88")
VOID_DTYPE = call(name("numpy", "dtype"), text("V8"), b"\x89", b"\x88")
EMPTY_ARRAY = call(
    name("numpy._core.multiarray", "_reconstruct"),
    name("numpy", "ndarray"), tuple_of(number(0)), b"C\x01b",
)  # fmt: skip
DOWNLOAD = build(
    new(name("river.bandit.datasets.news", "NewsArticles")),
    mapping((text("url"), text("http://127.0.0.1:9/evil.zip")), (text("unpack"), b"\x88")),
)


def shared(levels: int, pair: bytes) -> bytes:
    """A value that has 2 ** levels parts when it is walked, in a few bytes for each level."""
    body = text("x") + MEMOIZE + POP
    for index in range(levels):
        reference = b"h" + bytes([index])
        body += reference + reference + pair + MEMOIZE + POP
    return body + b"h" + bytes([levels])


FUNCTIONS = [
    ("os", "system"), ("posix", "system"), ("nt", "system"), ("os", "popen"), ("os", "execv"), ("os", "spawnlp"), ("os", "remove"),
    ("subprocess", "Popen"), ("subprocess", "getoutput"), ("builtins", "eval"), ("builtins", "exec"),
    ("builtins", "compile"), ("builtins", "open"), ("builtins", "__import__"), ("builtins", "print"), ("io", "open"),
    ("importlib", "import_module"), ("runpy", "run_path"), ("pty", "spawn"), ("shutil", "rmtree"), ("webbrowser", "open"),
    ("urllib.request", "urlopen"), ("socket", "create_connection"), ("ctypes", "CDLL"), ("marshal", "loads"), ("pickle", "loads"),
    ("timeit", "timeit"), ("cProfile", "run"), ("pdb", "run"), ("code", "interact"), ("operator", "attrgetter"),
    ("operator", "methodcaller"), ("types", "FunctionType"), ("types", "CodeType"), ("functools", "reduce"), ("builtins", "map"),
    ("builtins", "setattr"), ("builtins", "type"), ("builtins", "globals"), ("logging.config", "dictConfig"), ("multiprocessing.util", "_exithandler"),
    ("numpy", "load"), ("numpy", "fromfile"), ("numpy", "memmap"), ("numpy.testing._private.utils", "runstring"), ("numpy.f2py", "compile"),
    ("numpy.ctypeslib", "load_library"), ("numpy.lib._npyio_impl", "loadtxt"), ("river.stream.iter_csv", "iter_csv"),
    ("river.datasets.base", "RemoteDataset"), ("river.drift.datasets.base", "ChangePointFileDataset"), ("river.api", "importlib"),
    ("river.utils.pandas", "importlib.util.find_spec"), ("river.base.base", "inspect.sys.exit"),
    ("explain_core.models", "wrap"), ("explain_core.models", "np.load"), ("explain_sidecar.fold.models", "_make"), ("explain_sidecar.fold.models", "load_model"),
    ("explain_sidecar.pickles.codec", "loads"), ("explain_sidecar.broker.embedded", "Broker"), ("explain_sidecar.crash_points", "armed"), ("explain_sidecar.commands.run", "run"),
]  # fmt: skip
"""What must not even be mentioned."""

CORPUS: dict[str, bytes] = {
    **{f"call {module}.{function}": whole(call(name(module, function), COMMAND)) for module, function in FUNCTIONS},
    # Other ways to a name than the one that our pickles take.
    "text protocol": b"cos\nsystem\n(S'touch /tmp/explain-sidecar-was-here'\ntR.",
    "INST": b"(S'touch /tmp/explain-sidecar-was-here'\nios\nsystem\n.",
    "OBJ": whole(MARK + name("collections", "OrderedDict") + b"o"),
    "NEWOBJ_EX": whole(TREE + b")" + DICT + b"\x92"),
    "an extension code": whole(b"\x82\x01"),
    "a persistent id": whole(text("os.system") + b"Q"),
    "a persistent id in text": whole(b"Pos.system\n"),
    "an out-of-band buffer": whole(b"\x97"),
    "renamed by the fixes for Python 2": b"\x80\x02c__builtin__\neval\n(X\x03\x00\x00\x001+1tR.",
    "a name from the memo": whole(text("os") + MEMOIZE + b"0" + text("system") + MEMOIZE + b"0" + b"h\x00h\x01\x93" + tuple_of(COMMAND) + REDUCE),
    "a name made of bytes": whole(b"C\x02os" + text("system") + b"\x93"),
    "a relative module": whole(name("river..os", "system")),
    "dunder methods by name": whole(call(GETATTR, VAR, text("__init__"))),
    "subclasses by name": whole(call(GETATTR, VAR, text("__subclasses__"))),
    "mro of a class outside river": whole(call(GETATTR, STR, text("mro"))),
    "an attribute that is no method": whole(call(GETATTR, VAR, text("__globals__"))),
    # Calls of what may be mentioned.
    "a method that was looked up": whole(call(call(GETATTR, new(VAR), text("get")))),
    "a method without its object": whole(call(name("river.stats.var", "Var.update"), new(VAR), number(1))),
    "a partial of a class, called": whole(call(call(name("functools", "partial"), VAR))),
    "a constructor of river": whole(call(TREE)),
    "a constructor that takes memory": whole(call(name("river.preprocessing.feature_hasher", "FeatureHasher"), number(2**40))),
    "a download": whole(call(call(GETATTR, DOWNLOAD, text("download")))),
    "deepcopy": whole(call(name("copy", "deepcopy"), new(VAR))),
    "a generator named by any class": whole(call(name("numpy.random._pickle", "__bit_generator_ctor"), TREE)),
    "str of anything": whole(call(STR, new(VAR))),
    "a call of a number": whole(number(1) + b")" + REDUCE),
    "arguments that are no tuple": whole(name("collections", "OrderedDict") + b"]" + REDUCE),
    "a new function": whole(new(name("builtins", "getattr"))),
    "a new string": whole(new(STR, new(VAR))),
    # State of what is no state.
    "a method of a class replaced": whole(build(TREE, tuple_of(b"N", mapping((text("learn_one"), STR))))),
    "a class's attributes": whole(build(VAR, mapping((text("update"), STR)))),
    "the code of a function": whole(build(GETATTR, tuple_of(b"N", mapping((text("__code__"), b"N"))))),
    "the defaults of a function": whole(build(name("river.stats.var", "Var.update"), tuple_of(b"N", mapping((text("__defaults__"), b")"))))),
    "the class of an object": whole(build(new(VAR), tuple_of(b"N", mapping((text("__class__"), TREE))))),
    "a __setstate__ of its own": whole(build(build(new(TREE), mapping((text("__setstate__"), STR))), text("x"))),
    "a __reduce_ex__ of its own": whole(build(new(TREE), mapping((text("__reduce_ex__"), STR)))),
    "an extend of its own": whole(build(new(TREE), mapping((text("extend"), VAR))) + MARK + number(1) + b"e"),
    "an append of its own": whole(build(new(TREE), mapping((text("append"), VAR))) + number(1) + b"a"),
    "an add of its own": whole(build(new(TREE), mapping((text("add"), VAR))) + MARK + number(1) + b"\x90"),
    "an item of what is no mapping": whole(new(TREE) + text("a") + number(1) + b"s"),
    "attributes under names that are no strings": whole(build(new(TREE), mapping((number(1), number(1))))),
    "a tree with an attribute of a forest": whole(build(new(TREE), mapping((text("n_models"), number(1))))),
    "a node of another class": whole(build(new(LEAF), mapping((text("__class__"), TREE)))),
    "a node's attribute that has no name": whole(build(new(LEAF), mapping((number(1), number(1))))),
    "a node whose state has no names": whole(build(new(LEAF), tuple_of(text("a"), text("b")))),
    "a node of an argument of its own": whole(call(LEAF, b"N", number(1))),
    "a distribution that lacks a value": whole(call(GAUSSIAN, number(10), number(1))),
    "a distribution of texts": whole(call(GAUSSIAN, text("a"), text("b"), text("c"))),
    # Memory that numpy or river would take on trust.
    "floats that are pointers": whole(build(FLOAT_DTYPE, tuple_of(number(3), text("<"), b"N", b"N", b"N", number(-1), number(-1), number(63)))),
    "pointers that are bytes": whole(build(OBJECT_DTYPE, tuple_of(number(3), text("|"), b"N", b"N", b"N", number(-1), number(-1), number(0)))),
    "a field of pointers": whole(build(VOID_DTYPE, tuple_of(number(3), text("|"), b"N", tuple_of(text("a")), mapping((text("a"), tuple_of(OBJECT_DTYPE, number(0)))), number(8), number(1), number(0)))),
    "a field beyond the end": whole(build(VOID_DTYPE, tuple_of(number(3), text("|"), b"N", tuple_of(text("a")), mapping((text("a"), tuple_of(FLOAT_DTYPE, number(4096)))), number(8), number(1), number(0)))),
    "a dtype of a terabyte": whole(build(VOID_DTYPE, tuple_of(number(3), text("|"), tuple_of(FLOAT_DTYPE, tuple_of(number(2**37))), b"N", b"N", number(2**40), number(1), number(0)))),
    "an array of a terabyte": whole(call(name("numpy._core.multiarray", "_reconstruct"), name("numpy", "ndarray"), tuple_of(number(2**40)), b"C\x01b")),
    "an array of a shape without its bytes": whole(build(EMPTY_ARRAY, tuple_of(number(1), tuple_of(number(2**40)), FLOAT_DTYPE, b"\x89", b"C\x01x"))),
    "a scalar of pointers": whole(call(name("numpy._core.multiarray", "scalar"), OBJECT_DTYPE, b"C\x08" + bytes(8))),
    "a window of a terabyte": whole(new(name("river._river_rust.stats", "RsRollingQuantile"), b"G" + struct.pack(">d", 0.5), number(2**40))),
    "a panic of compiled code": whole(build(new(name("river._river_rust.stats", "RsQuantile"), b"G" + struct.pack(">d", 0.5)), b"C\x02\xff\xff")),
    # Few bytes that would take much.
    "a list of a range": whole(call(LIST, call(name("builtins", "range"), number(0), number(10**12), number(1)))),
    "a deque of a range": whole(call(name("collections", "deque"), call(name("builtins", "range"), number(0), number(10**12), number(1)))),
    "a search tree of a range": whole(call(name("explain_sidecar.pickles.slim", "search_tree_of"), *[call(name("builtins", "range"), number(0), number(10**12), number(1))] * 4, b"\x89")),
    "a bytearray of a terabyte": whole(call(name("builtins", "bytearray"), number(2**40))),
    "bytes that are not there": whole(b"\x8e" + struct.pack("<Q", 2**45) + b"x"),
    "a buffer of gigabytes that is not there": whole(b"\x96" + struct.pack("<Q", 2**33) + b"x"),
    "bytes of gigabytes that are not there": whole(b"\x8e" + struct.pack("<Q", 2**33) + b"x"),
    "a text of gigabytes that is not there": whole(b"\x8d" + struct.pack("<Q", 2**33) + b"x"),
    "a whole number of gigabytes that is not there": whole(b"\x8b" + struct.pack("<i", 2**31 - 1) + b"x"),
    "an attribute that takes for ever to name": whole(build(new(TREE), mapping((tuple_of(*[shared(9, b"\x86")]), b"N")))),
    "a buffer that is not there": whole(b"\x96" + struct.pack("<Q", 2**45) + b"x"),
    "a string that is not there": whole(b"\x8d" + struct.pack("<Q", 2**62) + b"x"),
    "a memo of a billion": whole(b"Nr\xff\xff\xff\x3f"),
    "a memo by name": whole(b"Np4000000000\n"),
    "a key that takes for ever to hash": whole(DICT + shared(60, b"\x86") + b"Ns"),
    "a member that takes for ever to hash": whole(MARK + shared(60, b"\x86") + b"\x91"),
    "the text of what doubles itself": whole(call(STR, shared(60, b"\x86"))),
    "a splitter's class that takes for ever to hash": whole(build(new(SPLITTER), mapping((text("_min_per_class"), DICT + shared(60, b"\x86") + b"Ns")))),
    "a stack that is empty": whole(b"0" * 10),
    "a mark that is missing": whole(b"e"),
    "a memo that is empty": whole(b"h\x07"),
    "no end": b"\x80\x05N",
    "a protocol to come": b"\x80\x06N.",
}  # fmt: skip

DANGEROUS = (
    "os.",
    "subprocess.",
    "socket.",
    "ctypes.",
    "shutil.",
    "urllib.",
    "webbrowser.",
    "pty.",
    "code.",
    "exec",
)
_events: list[str] = []
_watching = [False]


def _hook(event: str, arguments: Any) -> None:
    if _watching[0] and event.startswith(DANGEROUS) and event not in ("os.listdir", "os.scandir"):
        _events.append(f"{event} {arguments}")


sys.addaudithook(_hook)

WATCHED = (
    river.tree.HoeffdingTreeClassifier,
    river.stats.Var,
    river.drift.ADWIN,
    explain_core.models.Model,
    partition.PartitionState,
    messages.Chain,
)


@contextmanager
def no_effect() -> Iterator[None]:
    """Fails where an effect is seen: a dangerous call, a module from elsewhere, a class that changed, or much memory."""
    classes = {kind: dict(vars(kind)) for kind in WATCHED}
    modules = set(sys.modules)
    _events.clear()
    tracemalloc.start()
    _watching[0] = True
    try:
        yield
    finally:
        _watching[0] = False
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert _events == []
    assert {kind: dict(vars(kind)) for kind in WATCHED} == classes
    foreign = {
        module
        for module in set(sys.modules) - modules
        if module.partition(".")[0] not in ("river", "explain_core")
    }
    assert not foreign & {
        "os",
        "subprocess",
        "socket",
        "ctypes",
        "pty",
        "webbrowser",
        "code",
        "runpy",
        "pdb",
        "cProfile",
    }
    assert peak < 50_000_000


def test_the_corpus_is_large() -> None:
    assert len(CORPUS) >= 100


@pytest.mark.parametrize("hostile", CORPUS.values(), ids=CORPUS.keys())
def test_a_hostile_pickle_is_refused_before_any_effect(hostile: bytes) -> None:
    with no_effect(), pytest.raises(SnapshotError) as refused:
        loads(hostile)
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize("function", FUNCTIONS, ids=[f"{module}.{name}" for module, name in FUNCTIONS])
def test_nor_may_a_state_hold_it_for_later(function: tuple[str, str]) -> None:
    """A name that is only kept would be called by the model."""
    kept = build(new(name("river.compose.func", "FuncTransformer")), mapping((text("func"), name(*function))))
    with no_effect(), pytest.raises(SnapshotError, match=r"not on the allow-list|cannot be read"):
        loads(whole(kept))


@pytest.fixture(scope="module")
def stored() -> Snapshot:
    known, state = settings(), new_state()
    fold(state, values(100))
    return take(state, known.app_id, "records", "topic-id", {})


def repacked(stored: Snapshot, raw: bytes, raw_size: int | None = None, **frame: Any) -> Snapshot:
    """A snapshot whose manifest is right about other contents, as its writer would make it."""
    import hashlib

    packed = zstandard.ZstdCompressor(**frame).compress(raw)
    manifest = stored.manifest.model_copy(
        update={
            "chunk_sizes": [len(packed)],
            "raw_size": len(raw) if raw_size is None else raw_size,
            "sha256": hashlib.sha256(packed).hexdigest(),
        }
    )
    return Snapshot(manifest=manifest, chunks=[packed])


BOMBS = {
    "zeros that were a few kilobytes": (bytes(2**27), None),
    "a size that is not that of the contents": (bytes(2**20), 2**10),
    "a size above every limit": (bytes(10), MAX_RAW_BYTES + 1),
    "a hundred thousand lists in one another": (b"\x80\x05" + b"]" * 10**5 + b"a" * (10**5 - 1) + b".", None),
    "an object that is no state": (dumps({"a": 1}), None),
    "the wrong pickle": (whole(call(name("os", "system"), COMMAND)), None),
}


@pytest.mark.parametrize(("raw", "size"), BOMBS.values(), ids=BOMBS.keys())
def test_a_snapshot_that_is_a_bomb_is_refused(stored: Snapshot, raw: bytes, size: int | None) -> None:
    with pytest.raises(SnapshotError):
        load(repacked(stored, raw, size), settings())


def test_the_assembler_of_this_test_makes_pickles_that_load() -> None:
    """So that what is refused above is refused for what it does."""
    made = loads(whole(build(new(VAR), mapping((text("ddof"), number(7))))))
    assert type(made) is river.stats.Var and made.ddof == 7
    assert loads(whole(EMPTY_ARRAY)).shape == (0,)
    assert loads(whole(FLOAT_DTYPE)) == np.dtype("f8")
    doubled = loads(whole(shared(60, b"\x86")))
    assert doubled[0] is doubled[1] and doubled[0][1] is doubled[1][0]


def test_what_models_are_made_of_still_loads() -> None:
    table = np.zeros(3, dtype=np.dtype([("a", "f8"), ("b", "i1")], align=True))
    for value in (
        np.arange(6.0).reshape(2, 3).T, table, np.array([1, "a", None], dtype=object), np.float64(2.5),
        np.zeros(2, ">f4"), {(1, ("a", 2)): frozenset({1})}, 2**200, bytearray(b"x"), slice(1, 2),
    ):  # fmt: skip
        again = loads(dumps(value))
        assert type(again) is type(value)
        assert repr(again) == repr(value)


def test_time_is_in_proportion_to_bytes(stored: Snapshot) -> None:
    """Each bomb of time above would take longer than the universe is old; here they have taken no time at all."""
    started = time.process_time()
    for label in ("a key that takes for ever to hash", "a member that takes for ever to hash"):
        with pytest.raises(SnapshotError, match="more than 1000 parts"):
            loads(CORPUS[label])
    assert time.process_time() - started < 60
