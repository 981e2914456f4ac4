"""Partitions whose stored states are damaged: each family of learners, and each part that a state may have."""

import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from explain_sidecar.errors import UserError
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.snapshot import decode, encode
from tests.folds import SMALL, record, settings, values
from tests.fuzz.damage import Damage
from tests.versions import records as versioned_records
from tests.versions import versioned, write

Sections = dict[str, Any]
IPFI, ISAGE = SMALL
DRIFT = {"enabled": True, "window": 20, "bootstrap": 2}
RATES = {"enabled": True, "one_in": 1_000}
SPLITS = {"grace_period": 10, "delta": 0.5, "tau": 0.5}


def of_trees(task: str, factory: str, **params: Any) -> Sections:
    return {"task": task, "explainers": [IPFI], "model": {"factory": factory, "params": {**SPLITS, **params}}}


def isage(name: str, **how: Any) -> Sections:
    return {"kind": "isage", "name": name, "n_samples": 1, "reservoir": {"size": 5}, **how}


UNIFORM = isage("u", reservoir={"size": 5, "kind": "uniform"})
BY = [
    {"kind": "ipfi", "name": name, "by": name, "segments": 3, "reservoir": {"size": 20}}
    for name in ("colour", "b")
]
TREE = "river.tree:HoeffdingTreeClassifier"
ADAPTIVE = "river.tree:HoeffdingAdaptiveTreeClassifier"

SECTIONS: dict[str, Sections] = {
    "default": {"explainers": [*SMALL, UNIFORM], "drift": DRIFT, "challenger": {"factory": TREE, "every": 1, "limits": {"cross_entropy": 5}}},
    "default, several classes": {"task": "multiclass", "explainers": [*SMALL, UNIFORM, isage("c", removal="conditional")], "drift": DRIFT},
    "default, numbers": {"task": "regression", "explainers": [*SMALL, UNIFORM], "drift": {**DRIFT, "factorisation": "per_feature"}},
    "alarms": {"alarms": {**RATES, "subjects": ["loss", "gain", "importance", "missing", "rejected"]}, "drift": {**DRIFT, "on_alarm": True}},
    "segments": {"explainers": BY, "alarms": {**RATES, "subjects": ["segments", "segment_importance", "loss"]}},
    "HoeffdingTreeClassifier": of_trees("multiclass", TREE),
    "HoeffdingTreeClassifier, nominal": of_trees("binary", TREE, binary_split=True, nominal_attributes=["b", "flag"]),
    "HoeffdingTreeClassifier, naive Bayes": of_trees("multiclass", TREE, leaf_prediction="nb", grace_period=1_000),
    "HoeffdingAdaptiveTreeClassifier": of_trees("binary", ADAPTIVE),
    "ARFClassifier": of_trees("multiclass", "river.forest:ARFClassifier", n_models=2),
    "HoeffdingTreeRegressor": of_trees("regression", "river.tree:HoeffdingTreeRegressor", leaf_prediction="mean"),
    "HoeffdingTreeRegressor, models": of_trees("regression", "river.tree:HoeffdingTreeRegressor", leaf_prediction="adaptive"),
    "HoeffdingAdaptiveTreeRegressor": of_trees("regression", "river.tree:HoeffdingAdaptiveTreeRegressor", leaf_prediction="mean"),
    "ARFRegressor": of_trees("regression", "river.forest:ARFRegressor", n_models=2, leaf_prediction="mean"),
    "trained model": {"record": {"features": ["a", "b", "c"]}, "alarms": {**RATES, "subjects": ["loss"]}, "drift": DRIFT},
    "versions": {"models": {"max_open": 2}, "alarms": {**RATES, "subjects": ["loss", "importance"]}, "drift": DRIFT, "challenger": {"factory": TREE, "every": 1, "limits": {"cross_entropy": 5}}},
    "curves, and predictions that wait": {"explainers": SMALL, "partial_dependence": {"features": ["a"], "top": 2, "every": 3}, "predictions": {"enabled": True, "every": 1, "remember": 5}, "record": {"unlabelled": "predict", "id": "id"}},
    "estimated losses": {"explain": {"estimated_loss": True, "every": 50}, "record": {"unlabelled": "predict"}, "model": {"name": "linear"}, "challenger": {"name": "linear", "shift_every": 3}, "alarms": {**RATES, "subjects": ["loss", "estimated_loss"]}},
}  # fmt: skip


class Damaged(NamedTuple):
    """Settings, a state of theirs as it is stored, what damages it, and the records that a damaged one has to fold."""

    settings: Settings
    raw: bytes
    damage: Damage
    further: list[InputRecord]


@cache
def stored(name: str) -> list[Damaged]:
    """An early and a later state of one of ``SECTIONS``."""
    return list(_states(name))


def _states(name: str) -> Iterator[Damaged]:
    sections = SECTIONS[name]
    task, numeric = sections.get("task", "binary"), name.endswith("models")
    known = settings(**sections)
    given, odd = values(100, task, numeric=numeric), _odd(values(20, task, seed=2, numeric=numeric), numeric)
    odd += values(15, task, seed=3, numeric=numeric)
    if name in ("versions", "trained model"):
        folder = Path(tempfile.mkdtemp(prefix="fuzz-models-"))
        pattern = write(folder, "v1", "v2", "v3")
        if name == "versions":
            known = versioned(pattern, **sections)
        else:
            known = settings(**sections, model={"uri": pattern.replace("{version}", "v1")})
        order = [f"v{1 + i // 7 % 3}" for i in range(120)]
        given, odd = versioned_records(order[:100]), versioned_records(order[100:], seed=2)
    if "predictions" in sections:
        given, odd = labelled_later(given), labelled_later(odd)
    if name == "estimated losses":
        given, odd = some_unlabelled(values(1_100)), some_unlabelled(odd)
    state = PartitionState(known, 3)
    for n in (25, len(given)):
        fold(
            state,
            [record(offset, value) for offset, value in enumerate(given[:n])][state.next_offset :],
            known,
        )
        raw = encode(state)
        yield Damaged(known, raw, Damage(raw), [record(n + i, value) for i, value in enumerate(odd)])


def labelled_later(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each second of these records without its label, which the next one, of the same id, brings; the last of 25 or 100 waits."""
    return [{**x, "id": str(i // 2), "label": x["label"] if i % 2 else None} for i, x in enumerate(given, 1)]


def some_unlabelled(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """These records, each 20th without a label."""
    return [x if i % 20 else {"a": 1.0, "flag": True} for i, x in enumerate(given)]


def _odd(given: list[dict[str, Any]], numeric: bool) -> list[dict[str, Any]]:
    """These records with new categories, a new feature, missing ones, and numbers near the limit."""
    for i, value in enumerate(given):
        if i % 9 == 3 and not numeric:
            value["colour"] = f"new{i}"
        if i % 11 == 5:
            value["late"] = 1.5
        if i % 7 == 2:
            value.pop("a", None)
        if i % 13 == 6:
            value["a"] = 1e300
    return given


def fold(state: PartitionState, given: list[InputRecord], known: Settings) -> None:
    """Fold records as a worker does, in blocks, at whatever offset the state says that it stands."""
    source = VersionSource(known, lambda: 0.0)
    while given:
        first = state.next_offset
        block = [structs.replace(one, offset=max(one.offset, first + i)) for i, one in enumerate(given)]
        folded, _ = state.fold(block)
        if not folded:
            state.supplied(block[0], lambda key: None, source.find)
        given = given[len(folded) or 1 :]


def restored(raw: bytes, known: Settings) -> PartitionState:
    return decode(raw, known, 3, 0, partial(pytest.fail, "foreign code was read"))


def outcome(raw: bytes, case: Damaged) -> str:
    """What becomes of a state: it is refused, stops in words at a record, or folds on and is stored as one that is restored again.

    Raises ``AssertionError`` where it is said in too many words, and whatever else comes of it.
    """
    found = "refused"
    try:
        state = restored(raw, case.settings)
        found = "stopped in words"
        fold(state, case.further, case.settings)
        found = "stored in words"
        again = encode(state)
        found = "restored in words"
        restored(again, case.settings)
    except UserError as error:
        assert len(str(error)) < 5_000
        assert found in ("refused", "stopped in words"), f"{found}: {error}"
        return found
    return "folds on"
