"""Partitions and their input, for tests of the fold: no broker."""

import itertools
import json

import msgspec

from explain_core.foreign import dumps, loads
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.snapshot import decode, encode
from tests.streams import mixed_stream

SMALL = [
    {"kind": "ipfi", "alpha": 0.05, "reservoir": {"size": 20}},
    {"kind": "isage", "alpha": 0.05, "n_samples": 2, "reservoir": {"size": 20}},
]
FIRST_TIMESTAMP = 1_700_000_000_000
TASKS = ("binary", "multiclass", "regression")
GOOD = {"time": 10, "a": 0.5, "b": 1, "colour": "red", "label": True}
NAMED = {"weight": "weight", "timestamp": "time", "id": "id"}


def settings(task="binary", model=None, **sections):
    """Of the linear model where a test names none: it learns from few records, and what it makes of them can be foreseen."""
    named = {"name": "linear"} if not {"name", "factory", "uri"} & (model or {}).keys() else {}
    defaults = {"explainers": SMALL, "emit": {"every": 10}, "model": {"task": task, **named, **(model or {})}}
    return Settings(**{**defaults, **sections})


def new_state(**sections):
    return PartitionState(settings(**sections), 3)


def record(offset, value):
    """What Kafka would deliver; ``value`` is bytes, None, or an object to encode."""
    if value is not None and not isinstance(value, bytes):
        value = json.dumps(value).encode()
    return InputRecord(offset, FIRST_TIMESTAMP + offset, b"key", value, (("trace", b"1"),))


def values(n, task="binary", seed=1, numeric=False):
    """n labelled records: numbers, categories (unless ``numeric``), booleans, missing features, one that comes halfway."""
    label = (lambda y: y == "up") if task == "binary" else (lambda y: y)
    kind = "regression" if task == "regression" else "classification"
    return [
        {**{name: cell for name, cell in x.items() if not (numeric and name == "colour")}, "label": label(y)}
        for x, y in mixed_stream(n, seed, kind)
    ]


def fold(state, objects):
    """The outputs of folding these values, from the state's next offset on."""
    steps = (state.step(record(offset, value)) for offset, value in enumerate(objects, state.next_offset))
    return list(itertools.chain.from_iterable(steps))


def restored(raw, known):
    """The state in ``encode``'s bytes, as a worker with these settings has it."""
    return decode(raw, known, 3, 0, loads)


def fold_with_restores(known, objects, cuts):
    """The outputs of folding these values with ``new_state(**known)``, stored and restored at each of the cuts."""
    state, found, start = new_state(**known), [], 0
    for cut in cuts:
        found += fold(state, objects[start:cut])
        raw = encode(state)
        state = restored(raw, settings(**known))
        assert encode(state) == raw
        start = cut
    return found


def messages(outputs, destination="explanations"):
    return [json.loads(output.value) for output in outputs if output.destination == destination]


def without_position(state):
    """Everything in the state but what a dead letter may move: offset, count and its own chain."""
    data = state.state(dumps)
    chains = {name: chain for name, chain in data.chains.items() if name != "dead_letters"}
    return msgspec.structs.replace(data, next_offset=0, rejected=0, recently=b"", chains=chains)


def size(output):
    """Bytes of a message without Kafka's frame."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in output.headers)
    return len(output.key or b"") + len(output.value or b"") + headers


def grouped(**sections):
    """A state whose explainers have a group, and 50 records for it with a weight, a time and an id."""
    explainers = [{**explainer, "groups": {"look": ["colour", "flag"]}} for explainer in SMALL]
    given = [{**value, "weight": 1.5, "time": 10, "id": "x"} for value in values(50)]
    state = new_state(explainers=explainers, record={**NAMED, **sections.pop("record", {})}, **sections)
    return state, given
