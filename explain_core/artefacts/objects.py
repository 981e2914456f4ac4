"""Trained models in memory that are read as their files are: their trees become arrays, which compiled code predicts."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explain_core.artefacts.artefact import Artefact
from explain_core.artefacts.ensemble import TreeEnsemble
from explain_core.artefacts.load import load_artefact
from explain_core.losses import Task
from explain_core.models import Model

_PROBES = 50


def artefact_of(
    model: Any, like: Model, task: Task, features: Sequence[str] | None, classes: Sequence[Any] | None
) -> Artefact | None:
    """A trained XGBoost, LightGBM or scikit-learn object as ``load_artefact`` has it from its file.

    None where it is no ensemble of trees, or does not predict what ``like``, the model around the object, does.
    """
    try:
        data = _written(model)
    except Exception:  # of any library, of a model that it cannot write
        return None
    if data is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model")
        file.write_bytes(data)
        try:
            found = load_artefact(file, task, features, classes)
            return found if isinstance(found.model, TreeEnsemble) and _alike(found.model, like) else None
        except Exception:
            # Of any library, of a file that is not read, or of numbers where the model takes others.
            return None


def _written(model: Any) -> bytes | None:
    library = type(model).__module__.partition(".")[0]
    if library == "xgboost":
        booster = model.get_booster() if hasattr(model, "get_booster") else model
        return bytes(booster.save_raw("ubj"))
    if library == "lightgbm":
        text: str = getattr(model, "booster_", model).model_to_string()
        return text.encode()
    if library == "sklearn":
        import skops.io

        return bytes(skops.io.dumps(model))
    return None


def _alike(one: TreeEnsemble, other: Model) -> bool:
    """Whether two models predict the same for records with numbers of all sizes."""
    rng = np.random.default_rng(0)
    names = list(one.features or ())
    cells = rng.normal(size=(_PROBES, len(names))) * 10.0 ** rng.integers(-2, 4, (_PROBES, len(names)))
    rows = [dict(zip(names, row, strict=True)) for row in cells.tolist()]
    return all(_close(a, b) for a, b in zip(one.predict_many(rows), other.predict_many(rows), strict=True))


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and set(a) == set(b) and all(_close(a[label], b[label]) for label in a)
    return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6)
