"""A model from the address of its file, by what is in it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from explain_core.artefacts.artefact import MAX_BYTES, Artefact, ArtefactError, needs
from explain_core.losses import Task
from explain_core.models import Model, OnnxModel
from explain_core.models.onnx import runtime

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
        raise ArtefactError(f"model.uri: {text}; give a path, or models:/name@alias of an MLflow registry")
    else:
        path = Path(text.removeprefix("file://"))
    hashes = []
    if path.is_dir():
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
    data = _bytes(path)
    sha256 = hashlib.sha256()
    for part in (*hashes, data):
        sha256.update(part)
    kind, model, wrote, categories = _read(data, str(path), task, features, classes)
    if task is not None and model.task != task:
        raise ArtefactError(f"model.task: {task}, and {path} is a model for {model.task}")
    labels = _labels(model) if model.task == "classification" else None
    if classes is not None and model.task == "regression":
        raise ArtefactError(f"classes: {path} is a model for regression, which has none; take them out")
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


def _labels(model: Model) -> list[Any]:
    """The classes in the order of the probabilities; a model that has no list of them is asked for a prediction."""
    known = getattr(model, "classes", None)
    if known is not None:
        return list(known)
    try:
        found = model.predict(dict.fromkeys(model.features or (), 0.0))
    except Exception as error:  # of any library
        raise ArtefactError(
            f"classes: the model does not name its classes ({error}); pass classes=[…] in the order of the probabilities (model.classes)"
        ) from None
    return list(found) if isinstance(found, dict) else []


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ArtefactError(f"model.uri: {path} has {size} bytes; at most {MAX_BYTES} are taken")
        return path.read_bytes()
    except OSError as error:
        raise ArtefactError(f"model.uri: {path}: {error.strerror}") from None


def _read(
    data: bytes, path: str, task: Task | None, features: Sequence[str] | None, classes: Sequence[Any] | None
) -> tuple[str, Model, str | None, dict[str, list[Any]]]:
    """The kind, the model, the version of what wrote it, and the categories by feature."""
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
        from explain_core.artefacts.ensemble import TreeEnsemble

        ensemble, wrote = (lightgbm if data[:1] == b"t" else xgboost).read(data, features)
        if classes is not None and ensemble.n_classes and len(set(classes)) != ensemble.n_classes:
            raise ArtefactError(
                f"classes: {len(set(classes))} labels for the {ensemble.n_classes} classes of {path}"
            )
        labels = None if ensemble.task == "regression" else classes
        return ensemble.kind, TreeEnsemble(ensemble, labels), wrote, dict(ensemble.categories)
    if data.startswith(b"PK"):
        from explain_core.artefacts import sklearn

        return "sklearn", sklearn.model_of(sklearn.load(data), task, features, classes), None, {}
    if data.startswith(b"CBM1"):
        from explain_core.artefacts import catboost

        return "catboost", *catboost.read(data, task, features, classes)
    if data[:1] == b"\x08":
        return "onnx", _onnx(data, path, task, features, classes), None, {}
    raise ArtefactError(f"model.uri: {path} is of no known format; those that are read are {_KNOWN}")


def _onnx(
    data: bytes, path: str, task: Task | None, features: Sequence[str] | None, classes: Sequence[Any] | None
) -> Model:
    with needs("onnxruntime", "onnx"):
        runtime()
    try:
        if task is not None:
            return OnnxModel(data, task, features, classes)
        model = OnnxModel(data, "classification", features, classes)
        numbers = len(model._session.get_outputs()) == 1 and "map" not in model._session.get_outputs()[0].type
        return OnnxModel(data, "regression", features) if numbers and classes is None else model
    except Exception as error:  # onnxruntime raises types of its own for damaged graphs
        first = str(error).split("\n", 1)[0]
        raise ArtefactError(f"ONNX: {path}: {first}") from None
