"""MLflow's model directories and registry: which file holds the model, and which columns its signature names.

Source: https://mlflow.org/docs/latest/ml/model/, "MLmodel file".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from explain_core.artefacts.artefact import ArtefactError, needs

MAX_DESCRIPTION = 1_000_000

_FILES = {
    "xgboost": "data",
    "lightgbm": "data",
    "catboost": "data",
    "onnx": "data",
    "sklearn": "pickled_model",
}
"""The flavours that are read, and the key of each that names its file."""


class Described(NamedTuple):
    """What a directory says of its model."""

    file: Path
    features: list[str] | None


def downloaded(uri: str) -> tuple[Path, str | None]:
    """The directory of a model in a registry, ``models:/name@alias`` or ``models:/name/version``, and its version there."""
    with needs("mlflow-skinny", "mlflow"):
        import mlflow
        from mlflow.artifacts import download_artifacts
    name = uri.removeprefix("models:/")
    client = mlflow.MlflowClient()
    try:
        version: str | None = None
        if "@" in name:
            version = str(client.get_model_version_by_alias(*name.split("@", 1)).version)
            uri = f"models:/{name.split('@', 1)[0]}/{version}"
        elif "/" in name:
            version = name.rsplit("/", 1)[1]
        return Path(download_artifacts(artifact_uri=uri)), version
    except Exception as error:  # of the registry, the network, or its credentials
        raise ArtefactError(f"model.uri: {uri}: {type(error).__name__}: {error}") from None


def describe(directory: Path) -> Described:
    """The file and the columns of a model directory. Raises ``ArtefactError`` where it is none, or of flavours that are not read."""
    with needs("pyyaml", "mlflow"):
        import yaml
    path = directory / "MLmodel"
    try:
        text = path.read_bytes()
        if len(text) > MAX_DESCRIPTION:
            raise ArtefactError(f"MLflow: {path} has {len(text)} bytes; at most {MAX_DESCRIPTION} are taken")
        described = yaml.safe_load(text)
        flavours = dict(described["flavors"])
        found = [name for name in _FILES if name in flavours]
        if not found:
            raise ArtefactError(
                f"MLflow: {directory} has the flavours {', '.join(map(str, flavours))}; those that are read are {', '.join(_FILES)}"
            )
        flavour = flavours[found[0]]
        file = directory / str(flavour[_FILES[found[0]]])
        features = _columns(described.get("signature"))
    except ArtefactError:
        raise
    except OSError as error:
        raise ArtefactError(
            f"model.uri: {error}; a directory is one of an MLflow model, with a file MLmodel"
        ) from None
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ArtefactError(f"MLflow: {path}: {type(error).__name__}: {error}; the file is damaged") from None
    if not file.resolve().is_relative_to(directory.resolve()):
        raise ArtefactError(f"MLflow: {path} names the file {file}, which is outside of the directory")
    if file.is_dir():  # some flavours keep a directory with the model in it
        raise ArtefactError(f"MLflow: {file} is a directory; save the model as one file")
    return Described(file, features)


def _columns(signature: Any) -> list[str] | None:
    """The names in a signature's inputs; None where it has none."""
    if not signature or not signature.get("inputs"):
        return None
    inputs = json.loads(signature["inputs"])
    names = [column.get("name") for column in inputs]
    return (
        [str(name) for name in names] if names and all(names) and "tensor-spec" not in str(inputs) else None
    )
