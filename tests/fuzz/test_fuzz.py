"""Whatever comes in: no crash, no change of state, bounded memory. ``FUZZ_INPUTS=1000000`` gives the full run (`make fuzz`)."""

import functools
import json
import os
import random
import resource
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from explain_sidecar.settings.records import Format
from tests.evolving import FORMATS
from tests.fuzz import entries, formats
from tests.fuzz.damage import mutated
from tests.fuzz.partitions import SECTIONS

INPUTS = int(os.environ.get("FUZZ_INPUTS", "2500"))
BATCH = 20
"""Inputs of one example; an example has a cost of its own."""

PART = 500
"""Examples that hypothesis makes at a time: it remembers each of them, so that it tries none twice."""


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
    entries.warm()
    entries.tried.clear()
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


VALUES = st.one_of(
    GOOD.map(encoded),
    OBJECTS.map(encoded),
    JSON.map(encoded),
    st.tuples(GOOD.map(encoded), st.integers(0, 2**32)).map(bent),
    st.binary(max_size=40),
    st.none(),
    # Names that together take more than the largest explanation, after some records of them.
    st.lists(st.integers(100, 999), min_size=1, max_size=30).map(
        lambda numbers: encoded({"label": numbers[0] % 2 == 0, **{f"{n}" * 300: n for n in numbers}})
    ),
)
ODD_NAMES = st.lists(st.binary(max_size=4) | st.sampled_from([b"traceparent", b"own"]), max_size=2)
HEADERS = st.one_of(st.just([]), st.just([]), ODD_NAMES)


@fuzz(0.5)
@given(
    st.sampled_from(sorted(entries.KNOWN)),
    st.lists(st.tuples(VALUES, HEADERS), min_size=BATCH, max_size=BATCH),
)
def test_any_record_is_folded_or_dead_lettered_and_leaves_its_neighbours_as_they_were(
    task: str, stream: list[tuple[bytes | None, list[bytes]]]
) -> None:
    entries.records(task, stream)


# --- settings ----------------------------------------------------------------------------------------------------------


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
    st.sampled_from(entries.VARIABLES) | st.text("ABCE_X", max_size=12).map(lambda name: f"EXPLAIN_{name}"), TEXTS, max_size=3
)  # fmt: skip


@fuzz(0.15)
@given(st.lists(ENVIRONMENTS, min_size=BATCH, max_size=BATCH))
def test_any_settings_are_taken_or_refused_in_words(environments: list[dict[str, str]]) -> None:
    for environment in environments:
        entries.environment(environment)


# --- snapshots, manifests, pointers ------------------------------------------------------------------------------------


@fuzz(
    0.3
)  # half of that: a state takes ten times as long as any other input, and has a campaign of its own, tests.fuzz.states
@given(st.sampled_from(list(SECTIONS)), st.integers(0, 2**64))
def test_any_state_is_refused_in_words_or_folds_on_and_is_stored_and_restored(name: str, number: int) -> None:
    for index in range(number, number + BATCH // 2):
        entries.state(name, index)


@fuzz(0.1)
@given(st.integers(0, 2**64))
def test_any_altered_snapshot_is_refused(number: int) -> None:
    rng = random.Random(number)
    for _ in range(BATCH):
        entries.chunk(mutated(entries.chunk_of_it(), rng))


@fuzz(0.1)
@given(st.integers(0, 2**64))
def test_any_manifest_is_refused_or_is_one_and_no_altered_one_is_signed(number: int) -> None:
    rng = random.Random(number)
    for _ in range(BATCH):
        entries.manifest(mutated(entries.manifest_of_it(), rng))


@fuzz(0.1)
@given(st.lists(st.one_of(TEXTS, st.integers(0, 2**32)), min_size=BATCH, max_size=BATCH))
def test_any_offset_metadata_is_a_pointer_or_is_not_ours(found: list[str | int]) -> None:
    for text in found:
        if isinstance(text, int):
            text = mutated(entries.POINTER.encode(), random.Random(text)).decode("utf-8", "replace")
        entries.metadata(text)


def test_as_many_inputs_were_tried_as_were_asked_for() -> None:
    assert sum(entries.tried.values()) >= 0.97 * INPUTS, entries.tried


@pytest.mark.parametrize("format", FORMATS)
def test_formats(format: Format) -> None:
    found = formats.run(format, 3_000)
    known = {"avro": "not_avro", "protobuf": "not_protobuf", "json_schema": "not_json"}[format]
    assert found[known] > 1_000  # the full run: python -m tests.fuzz.formats
    assert found["folded after all"] > 100 and found["bad_frame"] > 100 and found["unknown_schema"] > 100
