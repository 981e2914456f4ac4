"""Models whose predictions tell them apart, as files of XGBoost, and records that name the version that served them."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from explain_core.alarms.detector import Position
from explain_core.artefacts.load import load_artefact
from explain_core.random import derive_seed
from explain_core.stream.explained import ExplainedModel
from explain_core.stream.slot import Slot
from explain_sidecar.fold.contents import explanation
from explain_sidecar.fold.models import forget_artefacts
from explain_sidecar.fold.options import options_of
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.version_source import VersionSource
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.snapshot import encode
from tests.folds import record, restored

COLUMNS = ("a", "b", "c")

EXPLAINERS = [
    {"kind": "ipfi", "alpha": 0.05, "reservoir": {"size": 5}},
    {"kind": "isage", "alpha": 0.05, "n_samples": 1, "reservoir": {"size": 5}},
]


def feature_of(version: str) -> str:
    """The only feature that a version looks at."""
    return COLUMNS[sum(version.encode()) % len(COLUMNS)]


def content(version: str, columns: Sequence[str] = COLUMNS, feature: str = "") -> bytes:
    """A stump on one feature, whose two logits no other version has."""
    logit = 0.1 + sum(version.encode()) / 100
    tree = {
        "left_children": [1, -1, -1],
        "right_children": [2, -1, -1],
        "split_indices": [columns.index(feature or feature_of(version)), 0, 0],
        "split_conditions": [0.5, -logit, 1.5 * logit],
        "default_left": [1, 0, 0],
        "tree_param": {"size_leaf_vector": "1"},
    }
    learner = {
        "gradient_booster": {"name": "gbtree", "model": {"trees": [tree], "tree_info": [0]}},
        "learner_model_param": {"base_score": "0.5", "num_feature": str(len(columns))},
        "objective": {"name": "binary:logistic"},
        "feature_names": list(columns),
        "feature_types": ["float"] * len(columns),
    }
    return json.dumps({"learner": learner, "version": [2, 1, 0]}).encode()


def write(folder: Path, *versions: str, **how: Any) -> str:
    """The models of these versions in a folder; returns the pattern of their paths."""
    for version in versions:
        (folder / f"{version}.json").write_bytes(content(version, **how))
    return str(folder / "{version}.json")


def records(versions: Sequence[str | None], seed: int = 0) -> list[dict[str, Any]]:
    """A labelled record that each of these versions served."""
    rng = random.Random(seed)
    made = []
    for version in versions:
        x = {name: round(rng.random(), 3) for name in COLUMNS}
        made.append({**x, "label": int(rng.random() < x["a"]), "served_by": version})
    return made


def accepted(value: bytes | None) -> dict[str, Any] | None:
    """A record of ``records`` as it was fed; None of one that was made bad."""
    try:
        x: dict[str, Any] = json.loads(value or b"")
    except json.JSONDecodeError:
        return None
    bad = x["served_by"] in (None, NOBODY) or x["label"] is None or not 0 <= x.get("p", 0) <= 1
    return None if bad else x


NOBODY = "nobody"
"""A version that there never is."""


def predicted(version: str, x: dict[str, Any]) -> float:
    """The probability of the second class, by what ``content`` says."""
    logit = 0.1 + sum(version.encode()) / 100
    return 1 / (1 + math.exp(logit if x[feature_of(version)] < 0.5 else -1.5 * logit))


def figures_of(message: dict[str, Any]) -> dict[str, Any]:
    """What an explanation says about its version, but for what alarms add to it."""
    losses = ("model", "empty", "mean_prediction", "served")
    return {
        "version": message["version"]["name"] if isinstance(message["version"], dict) else message["version"],
        "explained": message["explained"],
        "performance": {
            loss: [figures[name] for name in losses] for loss, figures in message["performance"].items()
        },
        "importance": {
            estimator: {
                feature: (cell["value"], cell["std"]) for feature, cell in by_loss["cross_entropy"].items()
            }
            for estimator, by_loss in message["importance"].items()
        },
    }


def misattributed(
    settings: Settings, partition: int, values: Iterable[bytes | None], explanations: Iterable[bytes | None]
) -> list[str]:
    """The explanations of a partition that are not what the model of their version says of its own records, in words."""
    alone = SeparateVersions(settings, partition)
    expected = [
        (offset, told)
        for offset, x in enumerate(map(accepted, values))
        if x is not None and (told := alone.take(x)) is not None
    ]
    published = [(message["offset"], figures_of(message)) for message in map(json.loads, explanations)]  # type: ignore[arg-type]
    return [
        f"explanations {partition}: {b} instead of {a}"
        for a, b in itertools.zip_longest(expected, published)
        if a != b
    ]


class SeparateVersions:
    """The versions of a partition as if each were alone: the model of its file, on the records that it served, in order.

    ``take`` returns what a message about the record's version has to say, where one is due.
    """

    def __init__(self, settings: Settings, partition: int) -> None:
        self._settings = settings
        identity = (settings.app_id, settings.topics.records, partition, 0)
        self._seed = derive_seed(settings.seed, *identity)
        self._open: dict[str, ExplainedModel] = {}
        self._seen: dict[str, int] = {}
        self._records = 0

    def take(self, record: dict[str, Any]) -> dict[str, Any] | None:
        versions, name = self._settings.models, record["served_by"]
        if name not in self._open:
            if len(self._open) == versions.max_open:
                del self._open[min(self._open, key=lambda version: self._seen[version])]
            assert versions.pattern is not None
            artefact = load_artefact(versions.pattern.replace("{version}", name), "classification")
            model = artefact.model.relabelled({})
            self._open[name] = ExplainedModel(
                model, options_of(self._settings), derive_seed(self._seed, "version", name), static=True
            )
        model = self._open[name]
        x, y = {column: record[column] for column in COLUMNS}, record["label"]
        served = {0: 1.0 - record["p"], 1: record["p"]} if "p" in record else None
        model.learn(x, y, 1.0, model.explain(x, y), served)
        self._records += 1
        self._seen[name] = self._records
        first = min(self._open, key=lambda version: self._seen[version])
        if self._records - self._seen[first] >= versions.close_after:
            del self._open[first]
        if model.records % self._settings.emit.every:
            return None
        content = explanation(Slot(model), Position(0, 0), self._settings)
        return figures_of(orjson.loads(orjson.dumps({"version": name, **content})))


def versioned(pattern, models=None, record=None, **sections):
    return Settings(
        **{
            "record": {"model_version": "served_by", **(record or {})},
            "models": {"pattern": pattern, **(models or {})},
            "explainers": EXPLAINERS,
            "emit": {"every": 5},
            **sections,
        }
    )


class VersionedPartition:
    """A partition with its source of models; ``fold`` returns what it publishes."""

    def __init__(self, known, state=None):
        self.settings = known
        self.state = state or PartitionState(known, 3)
        self.now = 0.0
        self.source = VersionSource(known, lambda: self.now)

    def fold(self, objects):
        return [output for value in objects for output in self.send(record(self.state.next_offset, value))]

    def send(self, given):
        return self.state.supplied(given, lambda key: None, self.source.find)

    def restart(self):
        forget_artefacts()
        return VersionedPartition(self.settings, restored(encode(self.state), self.settings))


def error_classes(outputs):
    return [
        dict(output.headers)["__explain.errors.class"].decode()
        for output in outputs
        if output.destination == "dead_letters"
    ]
