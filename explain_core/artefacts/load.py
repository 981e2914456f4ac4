"""A model from the address of its file, by what is in it."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explain_core.artefacts.artefact import MAX_BYTES, Artefact, ArtefactError, needs
from explain_core.artefacts.ensemble import TreeEnsemble
from explain_core.losses import Task
from explain_core.models import Model, OnnxModel, PredictionError
from explain_core.models.onnx import runtime

log = logging.getLogger(__name__)

_PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
_OTHERS = {
    b"\x1f\x8b": "a gzip file, as joblib writes pickles",
    b"x\x9c": "a zlib stream, as joblib writes pickles",
    b"x\x01": "a zlib stream, as joblib writes pickles",
    b"BZh": "a bzip2 file, as joblib writes pickles",
    b"\xfd7zXZ": "an xz file, as joblib writes pickles",
    b"binf": "XGBoost's old binary format; save the model as JSON or UBJSON",
    b"\x89HDF": "an HDF5 file, as Keras writes it",
    b"<?xml": "XML, as PMML is",
}
_KNOWN = "XGBoost (JSON, UBJSON), LightGBM (text), scikit-learn (skops), ONNX, CatBoost (cbm), and MLflow directories of these"


def load_artefact(
    uri: str | Path,
    task: Task | None = None,
    features: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
) -> Artefact:
    """The static model in a file or an MLflow directory, or of a registry (``models:/name@alias``), recognised by content.

    ``features`` names the columns of a model whose file does not. ``classes`` are the labels of the probabilities in their order where
    the library numbers them, as XGBoost and LightGBM do. ``task`` is checked. Nothing that is in a file is run: pickles are refused.
    Raises ``ArtefactError``.
    """
    text, version = str(uri), None
    if text.startswith("models:/"):
        from explain_core.artefacts.mlflow import downloaded

        path, version = downloaded(text)
    elif "://" in text and not text.startswith("file://"):
        scheme = text.partition("://")[0]  # what follows may hold a password
        raise ArtefactError(
            f"model.uri: {scheme}://… is not read; give a path, or models:/name@alias of an MLflow registry"
        )
    else:
        path = Path(text.removeprefix("file://"))
    hashes = []
    if _is_folder(path):
        from explain_core.artefacts.mlflow import describe

        described = describe(path)
        hashes.append(_bytes(path / "MLmodel"))
        path = described.file
        own = described.features
        if features is None:
            features = own
        elif own is not None and list(features) != own:
            raise ArtefactError(
                f"features: the signature names {', '.join(own)}, in this order; pass these or none"
            )
    if classes is not None and len(set(classes)) != len(classes):
        raise ArtefactError("classes: one of the labels is there twice; each class has its own")
    data = _bytes(path)
    sha256 = hashlib.sha256()
    for part in (*hashes, data):
        sha256.update(part)
    if data.startswith((b"CBM1", b"\x08")):
        from explain_core.artefacts.trial import try_out

        try_out(data, str(path), task, features, classes)
    kind, model, wrote, categories = read(data, str(path), task, features, classes)
    if task is not None and model.task != task:
        raise ArtefactError(f"model.task: {task}, and {path} is a model for {model.task}")
    if classes is not None and model.task == "regression":
        raise ArtefactError(f"classes: {path} is a model for regression, which has none; take them out")
    if not isinstance(model, TreeEnsemble):
        _try(model, str(path))
    labels = None
    if model.task == "classification":
        own = _labels(model, classes)
        labels = _asked(own, classes, str(path))
        if labels != own:
            model = model.relabelled(dict(zip(own, labels, strict=True)))
    return Artefact(
        model, kind, list(model.features or ()), labels, sha256.hexdigest(), version or wrote, categories
    )


def load_model(
    uri: str | Path,
    task: Task | None = None,
    features: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
) -> Model:
    """The model of ``load_artefact``."""
    return load_artefact(uri, task, features, classes).model


def _try(model: Model, path: str) -> None:
    """Refuse a model whose predictions are none, by those of two records of zeros; one that fails for these has to show it later."""
    try:
        model.checked_predictions([dict.fromkeys(model.features or (), 0.0)] * 2)
    except PredictionError as error:
        raise ArtefactError(f"{path}: {error}") from None
    except Exception as error:  # of any library, for values that it was not trained on
        log.debug("%s: zeros: %s", path, error)


def _labels(model: Model, classes: Sequence[Any] | None) -> list[Any]:
    """The model's own classes in the order of the probabilities; a model that has no list of them is asked for a prediction."""
    known = getattr(model, "classes", None)
    if known is None:
        known = getattr(model.wrapped, "classes_", None)
    if known is not None:
        return np.asarray(known).tolist() if isinstance(known, np.ndarray) else list(known)
    reason = "it has no probabilities"
    try:
        found = model.predict(dict.fromkeys(model.features or (), 0.0))
        if isinstance(found, Mapping) and len(found) > 1:
            return list(found)
        if isinstance(found, Mapping) and classes is not None:
            return list(classes) if set(found) <= set(classes) else list(range(len(classes)))
    except Exception as error:  # of any library
        reason = str(error)
    raise ArtefactError(
        f"classes: the model does not name its classes ({reason}); pass classes=[…] in the order of the probabilities (model.classes)"
    )


def _asked(own: list[Any], classes: Sequence[Any] | None, path: str) -> list[Any]:
    """The labels of the probabilities: a model's own, or those that are asked for where it numbers its own from 0."""
    numbered = own == list(range(len(own)))
    if classes is None or list(classes) == own or (set(classes) == set(own) and not numbered):
        return own
    if numbered and len(classes) == len(own) and set(classes) != set(own):
        return list(classes)
    raise ArtefactError(
        f"classes: {path} has {', '.join(map(repr, own[:10]))}, in this order, and not {', '.join(map(repr, classes[:10]))}; pass these or none"
    )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # such as that of a name too long; reading it says so
        return False


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ArtefactError(f"model.uri: {path} has {size} bytes; at most {MAX_BYTES} are taken")
        return path.read_bytes()
    except OSError as error:
        raise ArtefactError(f"model.uri: {path}: {error.strerror}") from None
    except ValueError as error:  # a name that holds a zero byte
        raise ArtefactError(f"model.uri: {str(path)!r}: {error}") from None


def read(
    data: bytes, path: str, task: Task | None, features: Sequence[str] | None, classes: Sequence[Any] | None
) -> tuple[str, Model, str | None, dict[str, list[Any]]]:
    """The kind, the model, the version of what wrote it, and the categories by feature. Raises ``ArtefactError``."""
    if data[:2] in _PICKLES:
        raise ArtefactError(
            f"model.uri: {path} is a pickle, and loading one runs whatever it says; save the model in its library's own format, "
            "scikit-learn's by skops.io.dump or as ONNX"
        )
    for magic, what in _OTHERS.items():
        if data.startswith(magic):
            raise ArtefactError(f"model.uri: {path} is {what}; those that are read are {_KNOWN}")
    if data.startswith((b"tree\n", b"{")):
        from explain_core.artefacts import lightgbm, xgboost

        ensemble, wrote = (lightgbm if data[:1] == b"t" else xgboost).read(data, features)
        if classes is not None and ensemble.n_classes and len(set(classes)) != ensemble.n_classes:
            raise ArtefactError(
                f"classes: {len(set(classes))} labels for the {ensemble.n_classes} classes of {path}"
            )
        labels = None if ensemble.task == "regression" else classes
        return ensemble.kind, TreeEnsemble(ensemble, labels), wrote, dict(ensemble.categories)
    if data.startswith(b"PK"):
        from explain_core.artefacts import sklearn

        return "sklearn", sklearn.read(data, task, features), None, {}
    if data.startswith(b"CBM1"):
        from explain_core.artefacts import catboost

        return "catboost", catboost.read(data, features), None, {}
    if data[:1] == b"\x08":
        model = _onnx(data, path, task, features, classes)
        from explain_core.artefacts.onnx_trees import ensemble_of

        return "onnx", ensemble_of(data, model) or model, None, {}
    raise ArtefactError(f"model.uri: {path} is of no known format; those that are read are {_KNOWN}")


def _check_order(model: OnnxModel) -> None:
    """Refuse classes in another order than that of the labels which the graph returns beside their probabilities."""
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(500, len(model.features))) * 10.0 ** rng.integers(-1, 5, (500, 1))
    try:
        labels, *others, matrix = model.outputs(
            [dict(zip(model.features, row, strict=True)) for row in cells.tolist()]
        )
    except Exception:  # no labels; or of the runtime, for values that the model was not trained on
        return
    if others or np.ndim(matrix) != 2 or np.shape(matrix)[1] < 2 or np.asarray(labels).dtype.kind == "f":
        return
    classes = model.classes or list(range(np.shape(matrix)[1]))
    ranked = np.sort(matrix, axis=1)
    clear = (
        ranked[:, -1] - ranked[:, -2] > 0.1
    )  # elsewhere some models return another label than the most probable
    found = Counter(
        zip(np.ravel(labels)[clear].tolist(), np.argmax(matrix, axis=1)[clear].tolist(), strict=True)
    )
    for (label, column), n in found.items():
        right = column if isinstance(label, int) and label not in classes else classes[column]
        if label != right and all(n >= other for (name, _), other in found.items() if name == label):
            raise PredictionError(
                f"classes: the model's label is {label!r} where the probability in column {column} is the largest, which is that of "
                f"{right!r} by these classes; pass classes=[…] in the order of the probabilities"
            )


def _onnx(
    data: bytes, path: str, task: Task | None, features: Sequence[str] | None, classes: Sequence[Any] | None
) -> OnnxModel:
    with needs("onnxruntime", "onnx"):
        runtime()
    try:
        model = OnnxModel(data, task or "classification", features)
        outputs = model._session.get_outputs()
        matrix = outputs[-1].type in ("tensor(float)", "tensor(double)")
        if task is None and classes is None and matrix and len(outputs) == 1:
            return OnnxModel(data, "regression", features)
        if matrix and model.task == "classification":
            model.classes = None if classes is None else list(classes)
            _check_order(model)
        return model
    except Exception as error:  # onnxruntime raises types of its own for damaged graphs
        first = str(error).split("\n", 1)[0]
        raise ArtefactError(f"ONNX: {path}: {first}") from None
