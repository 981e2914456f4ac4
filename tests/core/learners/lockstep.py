"""A learner beside river, record by record, with no tolerance; or beside what river has once said.

River decides how long it takes. So it takes part in the first ``share`` of a stream alone, and not at all where slow tests are left out; all predictions
of the learner are held against the digest of those that river gave. ``LOCKSTEP_RECORD=1 python -m pytest tests/core/learners`` writes the digests
anew, with river all the time.
"""

import hashlib
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from explain_core.learners.base import Learner, LearnerState
from explain_core.losses import Task
from explain_core.models import Model, wrap

RECORDS = int(os.environ.get("LOCKSTEP_RECORDS", "1000"))
"""Of each case; ``LOCKSTEP_RECORDS=50000`` is the whole proof."""

DIGESTS = Path(__file__).with_name("digests.json")
"""Of the predictions for each case, if ``RECORDS`` is what it is by default."""


def records(kind: str, parameters: Mapping[str, Any]) -> int:
    """Of a case: half of them for a forest of ten trees or more, for river's speed decides how long it takes."""
    return RECORDS // (2 if kind == "forest" and parameters.get("n_models", 10) > 9 else 1)


Labelled = tuple[dict[str, Any], Any, float]
"""Features, label, weight."""


def mixed(
    n: int,
    seed: int,
    *,
    task: str = "binary",
    numeric: bool = True,
    nominal: bool = True,
    missing: float = 0.1,
    late: bool = True,
    weighted: bool = False,
) -> Iterator[Labelled]:
    """Numbers of all sizes, integers and booleans; features of one, two and many categories; missing values, late columns and categories."""
    rng = random.Random(seed)
    for i in range(n):
        x: dict[str, Any] = {}
        if numeric:
            x |= {f"n{k}": rng.gauss(k, 10.0 ** (k - 2)) for k in range(5)}
            x |= {"count": rng.randrange(100), "flag": rng.random() < 0.3}
            if late and i > n // 2:
                x["late number"] = rng.random()
        if nominal:
            x |= {"one": "only", "two": rng.choice("ab"), "many": f"c{int(rng.expovariate(0.1))}"}
            if late and i > n // 3:
                x["late string"] = rng.choice("uv")
        rng.random()
        for name in [name for name in x if rng.random() < missing]:
            del x[name]
        signal = (
            x.get("n1", 0.0) + 3.0 * (x.get("two") == "a") + 2.0 * (x.get("count", 0) > 50) * (i < 2 * n // 3)
        )
        y: Any
        if task == "binary":
            y = int(signal + rng.gauss(0.0, 1.0) > 2.0)
        elif task == "multiclass":
            y = min(int(abs(signal)), 2 + 3 * (late and i > n // 2))
        else:
            y = 100.0 * signal + rng.gauss(0.0, 5.0)
        yield x, y, rng.choice([1.0, 1.0, 2.5, 0.3]) if weighted else 1.0


def in_order(learner: Learner, x: dict[str, Any]) -> dict[str, Any]:
    """The record as the learner reads it: its features in the order of the columns, new ones last."""
    known = [name for name in learner.columns.names if name in x]
    return {name: x[name] for name in [*known, *x]}


def step(learner: Learner, river: Model | None, record: Labelled, at: int = 0) -> Any:
    """Predict with both, compare bits and order of labels, and teach both; returns the prediction."""
    x, y, weight = record
    found = learner.predict(x)
    if river is not None:
        expected = river.predict(in_order(learner, x))
        assert found == expected, f"record {at}: {found} instead of {expected}"
        if isinstance(expected, dict):
            assert list(found) == list(expected), f"record {at}: the labels come in another order"
        river.learn(in_order(learner, x), y, weight)
    learner.learn(x, y, weight)
    return found


def stored(learner: Learner, fresh: Learner) -> Learner:
    """``fresh``, an unlearnt learner of the same model, with the state of the learner after a way through bytes."""
    raw = msgspec.msgpack.encode(learner.state())
    fresh.restore(msgspec.msgpack.decode(raw, type=LearnerState))
    assert msgspec.msgpack.encode(fresh.state()) == raw
    return fresh


def run(
    make: Callable[[], Any],
    learner_of: Callable[[Any, Task], Learner | None],
    task: Task,
    stream: Iterable[Labelled],
    share: float = 1.0,
) -> tuple[Learner, Any, str]:
    """The learner and river after a ``share`` of the stream, in which each prediction was river's, and the digest of all the learner's predictions.

    The learner is stored and restored every ``RECORDS`` // 7 records, and after that share.
    """

    def fresh() -> Learner:
        learner = learner_of(make(), task)
        assert learner is not None, "river itself would learn"
        return learner

    stream = list(stream)
    together = int(share * len(stream))
    river = wrap(make(), task) if together else None
    learner = both = fresh()
    digest = hashlib.blake2b(digest_size=16)
    for at, record in enumerate(stream):
        if at % (RECORDS // 7) == 0 or at == together:
            learner = stored(learner, fresh())
        digest.update(repr(step(learner, river if at < together else None, record, at)).encode())
        if at == together - 1:
            both = learner
    return both, river, digest.hexdigest()
