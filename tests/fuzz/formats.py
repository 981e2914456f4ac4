"""``python -m tests.fuzz.formats``: bad bytes in each format with a schema, among good records that they must not touch."""

import argparse
import random
from collections import Counter
from functools import partial

from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.formats.errors import Headers
from explain_sidecar.formats.framing import HEADER
from explain_sidecar.settings import Settings
from explain_sidecar.settings.records import Format
from tests.evolving import FORMATS, Registry, encoded, record
from tests.fuzz.outcomes import grown_since, resident, tell

EACH = 100
"""Bad values from one good record to the next."""

EXPLAINERS = [{"kind": "ipfi", "reservoir": {"size": 3}}]


def settings_of(format: Format) -> Settings:
    return Settings(
        record={"format": format},
        registry={"url": "http://127.0.0.1:1", "format": "none"},
        model={"factory": "tests.driver.model:Counting"},
        explainers=EXPLAINERS,
    )


def bad_value(format: Format, rng: random.Random) -> tuple[bytes, Headers]:
    """A value and its headers: mostly a good value with some of its bytes lost, doubled or changed, behind a good frame, or random bytes there.

    One in ten may be damaged in the frame too, or is random from its first byte; one in ten has its frame in a header.
    """
    kind = rng.randrange(10)
    size = 5 + (format == "protobuf")
    if kind == 0:
        return rng.randbytes(rng.randrange(60)), ()
    if kind < 3:
        path = b"\0" * (format == "protobuf")
        body = bytearray(
            b"\0" + rng.randrange(4).to_bytes(4, "big") + path + rng.randbytes(rng.randrange(60))
        )
    else:
        body = bytearray(encoded(format, rng.randrange(3), record(rng)))
        _damage(body, 0 if kind == 3 else size, rng)
    if kind == 4:
        head = bytearray(body[:size])
        if rng.random() < 0.5:
            _damage(head, 0, rng)
        return bytes(body[size:]), ((HEADER, bytes(head)),)
    return bytes(body), ()


def _damage(body: bytearray, first: int, rng: random.Random) -> None:
    """Change some bytes from the first on."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(min(first, len(body)), len(body) + 1)
        change = rng.randrange(4)
        if change == 0:
            del body[at : at + rng.choice([1, 1, 8])]
        elif change == 1:
            body[at:at] = rng.randbytes(rng.choice([1, 4, 9]))
        elif change == 2:
            body[at:at] = b"\xff" * rng.choice([1, 9, 40])
        elif at < len(body):
            body[at] ^= 1 << rng.randrange(8)


def run(format: Format, inputs: int, seed: int = 0) -> dict[str, int]:
    """Fold bad values among good ones; returns how many were records after all, and dead letters by their class.

    Raises ``AssertionError`` where one is neither, where good records give anything else than without them, or where memory grows.
    """
    rng, fetch = random.Random(seed), Registry(format).fetch
    known = settings_of(format)
    state, alone = PartitionState(known, 0), PartitionState(known, 0)
    before = resident()
    found = Counter({"folded after all": 0})
    for offset in range(inputs):
        good = offset % EACH == 0
        value, headers = (
            (encoded(format, rng.randrange(3), record(rng)), ()) if good else bad_value(format, rng)
        )
        given = InputRecord(offset, 1_700_000_000_000 + offset, b"k", value, headers)
        count, digest = state.records, state.fold_digest
        outputs = state.schemas.supply(state.step, given, fetch)
        if state.records == count:
            (letter,) = outputs
            assert letter.destination == "dead_letters" and letter.value == value and not good, value
            assert state.fold_digest == digest
            found[dict(letter.headers)["__explain.errors.class"].decode()] += 1
        else:
            alone.schemas.supply(alone.step, given, fetch)
            found["folded after all"] += not good
        assert state.next_offset == offset + 1
    assert state.fold_digest == alone.fold_digest
    return {**dict(sorted(found.items())), "grown by kB": grown_since(before)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="values for each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=FORMATS, action="append")
    arguments = parser.parse_args()
    for format in arguments.format or FORMATS:
        run_it = partial(run, format, arguments.inputs, arguments.seed)
        tell(format, arguments.inputs, "values", run_it)


if __name__ == "__main__":
    main()
