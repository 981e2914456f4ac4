"""Whatever comes in: no crash, no change of state, bounded memory. ``FUZZ_INPUTS=1000000`` gives the full run (`make fuzz`)."""

import functools
import json
import os
import random
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from service.errors import SettingsError, SnapshotError, UserError
from service.kafka.checkpoints import Pointer
from service.messages import Output
from service.partition import PartitionState
from service.pickles import dumps, loads
from service.records import InputRecord
from service.settings import Settings, load_settings
from service.snapshot import Manifest, Snapshot, check_signature, load, sign, take
from tests.folds import fold, new_state, values
from tests.folds import settings as fold_settings

INPUTS = int(os.environ.get("FUZZ_INPUTS", "20000"))
BATCH = 20
"""Inputs of one example; an example has a cost of its own."""

PART = 500
"""Examples that hypothesis makes at a time: it remembers each of them, so that it tries none twice."""

tried: Counter[str] = Counter()


def fuzz(share: float) -> Callable[[Any], Any]:
    """As many examples as make this share of the inputs, the same ones in every run."""

    def decorate(test: Any) -> Any:
        checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
        examples = max(1, round(share * INPUTS / BATCH))
        parts = -(-examples // PART)
        part = settings(
            max_examples=-(-examples // parts), database=None, suppress_health_check=checks
        )(test)  # fmt: skip

        @functools.wraps(test, updated=())
        def all_parts() -> None:
            for number in range(parts):
                seed(20_000 + number)(part)()

        del all_parts.__wrapped__  # type: ignore[attr-defined]
        return pytest.mark.timeout(7_200)(all_parts)

    return decorate


@pytest.fixture(scope="module", autouse=True)
def bounded_memory() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 400 * 1024, f"memory grew by {grown} kB"


# --- records -----------------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, -0.0, 1e308, -1e308, 5e-324, 2**63, -(2**63) - 1, 2**64, 1e101]),
)
CELLS = st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=20))
JSON = st.recursive(
    CELLS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6
)  # fmt: skip
NAMES = st.sampled_from(["a", "b", "c", "label", "weight", "when", "id", "", "a.b", "\x00", "é" * 2_000])
OBJECTS = st.dictionaries(NAMES, JSON, max_size=6)
GOOD = st.fixed_dictionaries(
    {"a": st.floats(-1e3, 1e3), "label": st.booleans()}, optional={"b": st.integers(-9, 9), "c": st.sampled_from("xyz")}
)  # fmt: skip


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode(
        "utf-8", "surrogatepass"
    )  # with NaN and Infinity, as careless producers do


def bent(pair: tuple[bytes, int]) -> bytes:
    """A value with some of its bytes lost, doubled or changed."""
    return mutated(pair[0], random.Random(pair[1]))


def mutated(raw: bytes, rng: random.Random) -> bytes:
    body = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 5])):
        position = rng.randrange(len(body) + 1)
        match rng.randrange(5):
            case 0:
                body[position : position + rng.choice([1, 1, 8, 100])] = b""
            case 1:
                body[position:position] = rng.randbytes(rng.choice([1, 4, 9]))
            case 2:
                start = rng.randrange(len(body) + 1)
                body[position:position] = body[start : start + rng.choice([1, 8, 100])]
            case _ if position < len(body):
                body[position] = rng.choice(
                    [0, 255, body[position] ^ (1 << rng.randrange(8)), rng.randrange(256)]
                )
    return bytes(body)


VALUES = st.one_of(
    GOOD.map(encoded),
    OBJECTS.map(encoded),
    JSON.map(encoded),
    st.tuples(GOOD.map(encoded), st.integers(0, 2**32)).map(bent),
    st.binary(max_size=40),
    st.none(),
)
RECORD = {"weight": "weight", "timestamp": "when", "id": "id"}
EXPLAINERS = [{"kind": "ipfi", "alpha": 0.1, "reservoir": {"size": 3}}]
KNOWN = {
    task: fold_settings(task, record=record, explainers=EXPLAINERS, emit={"every": 1})
    for task, record in (("binary", {}), ("multiclass", {"id": "id"}), ("regression", {"timestamp": "when"}))
}


def step(state: PartitionState, offset: int, value: bytes | None) -> list[Output]:
    return state.step(InputRecord(offset, 1_700_000_000_000 + offset, b"k", value))


def essence(output: Output) -> dict[str, Any]:
    """What neighbours may not change: all but the count of rejected records, and the digest over it."""
    assert output.value is not None
    message: dict[str, Any] = orjson.loads(output.value)
    return {name: value for name, value in message.items() if name not in ("rejected", "digest")}


@fuzz(0.5)
@given(st.sampled_from(sorted(KNOWN)), st.lists(VALUES, min_size=BATCH, max_size=BATCH))
def test_any_record_is_folded_or_dead_lettered_and_leaves_its_neighbours_as_they_were(
    task: str, stream: list[bytes | None]
) -> None:
    all_of_them, good_alone = PartitionState(KNOWN[task], 0), PartitionState(KNOWN[task], 0)
    for offset, value in enumerate(stream):
        folded, rejected = all_of_them.records, all_of_them.rejected
        before = all_of_them.fold_digest
        outputs = step(all_of_them, offset, value)
        tried["records"] += 1
        assert [output.destination for output in outputs] in (["explanations"], ["dead_letters"])
        if outputs[0].destination == "explanations":
            assert (all_of_them.records, all_of_them.rejected) == (folded + 1, rejected)
            assert [essence(output) for output in outputs] == [
                essence(output) for output in step(good_alone, offset, value)
            ]
        else:
            assert (all_of_them.records, all_of_them.rejected) == (folded, rejected + 1)
            assert (outputs[0].key, outputs[0].value) == (b"k", value)
            assert all_of_them.fold_digest == before
        assert all_of_them.next_offset == offset + 1
    assert all_of_them.fold_digest == good_alone.fold_digest
    assert (all_of_them.labels, all_of_them.kinds) == (good_alone.labels, good_alone.kinds)
    assert dumps(all_of_them.model) == dumps(good_alone.model)


# --- settings ----------------------------------------------------------------------------------------------------------


def paths(model: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if hasattr(inner, "model_fields"):
            yield from paths(inner, (*prefix, name))
        else:
            yield (*prefix, name)


VARIABLES = ["EXPLAIN_" + "__".join(path).upper() for path in paths(Settings)]
TEXTS = st.one_of(
    JSON.map(json.dumps),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
    st.sampled_from(
        [
            "",
            "0",
            "-1",
            "1e999",
            "nan",
            "[]",
            "{}",
            "true",
            "null",
            "[1",
            '{"a": {"b": [1]}}',
            "ipfi",
            "a.b,c",
        ]
    ),
)
ENVIRONMENTS = st.dictionaries(
    st.sampled_from(VARIABLES) | st.text("ABCE_X", max_size=12).map(lambda name: f"EXPLAIN_{name}"), TEXTS, max_size=3
)  # fmt: skip


@fuzz(0.15)
@given(st.lists(ENVIRONMENTS, min_size=BATCH, max_size=BATCH))
def test_any_settings_are_taken_or_refused_in_words(environments: list[dict[str, str]]) -> None:
    for environment in environments:
        tried["settings"] += 1
        try:
            found = load_settings(environ=environment)
        except SettingsError as error:
            assert any(
                name.removeprefix("EXPLAIN_").lower()[:3] in str(error).lower() for name in environment
            )
        else:
            assert isinstance(found, Settings)


# --- snapshots, manifests, pointers ------------------------------------------------------------------------------------


def stored_snapshot() -> Snapshot:
    known, state = fold_settings(), new_state()
    fold(state, values(60))
    return take(state, known.app_id, "records", "topic-id", {})


STORED = stored_snapshot()
RAW = dumps(
    (lambda state: (fold(state, values(60)), state)[1])(
        new_state(model={"factory": "river.tree:HoeffdingTreeClassifier"})
    )
)
POINTER = Pointer("id", 0, 1, 2, 3, "0" * 32, {"explanations": (1, "0" * 32)}).encode()


@fuzz(0.15)
@given(st.integers(0, 2**64))
def test_any_pickle_is_refused_or_is_objects_alone(number: int) -> None:
    rng = random.Random(number)
    for _ in range(BATCH):
        tried["pickles"] += 1
        try:
            loads(mutated(RAW, rng))
        except SnapshotError as error:
            assert len(str(error)) < 2_000


@fuzz(0.1)
@given(st.integers(0, 2**64))
def test_any_altered_snapshot_is_refused(number: int) -> None:
    rng = random.Random(number)
    for _ in range(BATCH):
        tried["snapshots"] += 1
        chunk = mutated(STORED.chunks[0], rng)
        if chunk == STORED.chunks[0]:
            continue
        with pytest.raises(SnapshotError):
            load(Snapshot(manifest=STORED.manifest, chunks=[chunk]))


@fuzz(0.1)
@given(st.integers(0, 2**64))
def test_any_manifest_is_refused_or_is_one_and_no_altered_one_is_signed(number: int) -> None:
    rng, whole, keys = (
        random.Random(number),
        STORED.manifest.encode(),
        [b"a key of sixteen", b"one that was before"],
    )
    signature = sign(whole, keys)
    for _ in range(BATCH):
        tried["manifests"] += 1
        value = mutated(whole, rng)
        if value != whole:
            with pytest.raises(SnapshotError):
                check_signature(value, signature, keys)
        try:
            manifest = Manifest.decode(value)
        except SnapshotError:
            continue
        try:
            load(Snapshot(manifest=manifest, chunks=STORED.chunks))
        except UserError:
            continue
        # What is left is what does not say what the chunks are.
        assert (manifest.sha256, manifest.raw_size) == (STORED.manifest.sha256, STORED.manifest.raw_size)


@fuzz(0.1)
@given(st.lists(st.one_of(TEXTS, st.integers(0, 2**32)), min_size=BATCH, max_size=BATCH))
def test_any_offset_metadata_is_a_pointer_or_is_not_ours(found: list[str | int]) -> None:
    for one in found:
        tried["pointers"] += 1
        text = (
            one
            if isinstance(one, str)
            else mutated(POINTER.encode(), random.Random(one)).decode("utf-8", "replace")
        )
        pointer = Pointer.decode(text)
        assert pointer is None or isinstance(pointer.next_offset, int)


def test_as_many_inputs_were_tried_as_were_asked_for() -> None:
    assert sum(tried.values()) >= 0.97 * INPUTS, tried
