"""scikit-learn's models as skops writes them: loaded by an allow-list of types, without pickle; trees become arrays.

Source: https://skops.readthedocs.io/en/stable/persistence.html
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from explain_core.artefacts import layout
from explain_core.artefacts.artefact import MAX_BYTES, ArtefactError, named, needs
from explain_core.artefacts.ensemble import Ensemble, Tree, TreeEnsemble, astray, up_to_single
from explain_core.losses import Task
from explain_core.models import Model, wrap

MAX_FILES = 100_000

TRUSTED = ["sklearn.tree._tree.Tree", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"]
"""Types besides those that skops trusts: trees, which are data, and are checked before anything follows their nodes."""


def read(data: bytes, task: Task | None, features: Sequence[str] | None) -> Model:
    """The model in the bytes of a skops file: trees as arrays, others unchanged.

    Raises ``ArtefactError`` for types that skops does not trust, for files made to exhaust memory, and for damaged ones.
    """
    with needs("skops", "sklearn"):
        import skops.io
    try:
        _check_archive(data)
        unknown = set(skops.io.get_untrusted_types(data=data)) - set(TRUSTED)
        if unknown:
            raise ArtefactError(
                f"skops: the file holds {', '.join(sorted(unknown)[:5])}, which may run code of its own when it is loaded; "
                "trees and the types that skops trusts by default are loaded: convert the model to ONNX, or leave these parts out"
            )
        return _model_of(skops.io.loads(data, trusted=TRUSTED), task, features)
    except ArtefactError:
        raise
    except Exception as error:  # of any part of a damaged file
        raise ArtefactError(
            f"skops: {type(error).__name__}: {str(error)[:500]}; the file is damaged, or of another version of scikit-learn"
        ) from None


def _check_archive(data: bytes) -> None:
    """Refuse an archive that would exceed the memory limit, before it is unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        if "schema.json" not in archive.namelist():
            raise ArtefactError(
                "skops: a zip file without schema.json, which no skops file is; save the model by skops.io.dump"
            )
        whole = sum(entry.file_size for entry in entries)
        if len(entries) > MAX_FILES or whole > MAX_BYTES:
            raise ArtefactError(
                f"skops: {len(entries)} files of {whole} bytes once unpacked; at most {MAX_FILES} files and {MAX_BYTES} bytes are taken"
            )
        for entry in entries:
            if entry.filename.endswith(".npy"):
                with archive.open(entry) as file:
                    _check_array(file, entry)


def _check_array(file: Any, entry: zipfile.ZipInfo) -> None:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = read(file)
    size = kind.itemsize
    for n in shape:
        size *= int(n)
    if kind.hasobject or size > entry.file_size:
        raise ArtefactError(
            f"skops: {entry.filename} says it is an array of {size} bytes and is none; the file is damaged"
        )


def _model_of(found: Any, task: Task | None, features: Sequence[str] | None) -> Model:
    kind = type(found).__name__
    guessed: Task = (
        "classification" if hasattr(found, "classes_") or hasattr(found, "predict_proba") else "regression"
    )
    if not hasattr(found, "predict"):
        raise ArtefactError(f"scikit-learn: {kind} is no fitted model: it has no predict")
    if isinstance(getattr(found, "classes_", None), list):
        raise ArtefactError(f"scikit-learn: {kind} predicts several labels at once; use a model of one")
    _check_trees(found)
    trees = _trees(found, features)
    if trees is not None:
        return TreeEnsemble(trees, np.asarray(found.classes_).tolist() if trees.n_classes else None)
    try:
        return wrap(found, task or guessed, features)
    except ValueError as error:  # it does not fit the task or the names
        raise ArtefactError(f"scikit-learn: {kind}: {error}") from None


def _check_trees(found: Any) -> None:
    """Refuse trees whose nodes point outside of them: scikit-learn would follow the pointers."""
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
    from sklearn.tree._tree import Tree as Own

    seen: set[int] = set()
    waiting = [found]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, str | bytes | int | float | complex | type | None):
            continue
        seen.add(id(part))
        if isinstance(part, Own):
            _check_nodes(part.children_left, part.children_right, part.feature, part.n_features)
        elif isinstance(part, TreePredictor):
            nodes = part.nodes
            left = np.where(nodes["is_leaf"] != 0, -1, nodes["left"].astype(np.int64))
            _check_nodes(left, nodes["right"], nodes["feature_idx"], found.n_features_in_)
            if nodes["is_categorical"].any():
                raise ArtefactError("scikit-learn: a tree that splits by category; convert the model to ONNX")
        elif isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list | tuple | set):
            waiting += part
        elif isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype.hasobject else []
        else:
            waiting += getattr(part, "__dict__", {}).values()


def _check_nodes(left: Any, right: Any, feature: Any, n_features: int) -> None:
    if len(left) == 0 or astray(left, right.astype(np.int64), feature.astype(np.int64), n_features):
        raise ArtefactError("scikit-learn: a tree whose nodes point outside of it; the file is damaged")


def _trees(found: Any, features: Sequence[str] | None) -> Ensemble | None:
    """The trees of a model made of trees alone, as arrays; None for other models, which scikit-learn itself predicts."""
    from sklearn import ensemble, tree

    classifier = hasattr(found, "classes_")
    n_classes = len(found.classes_) if classifier else 0
    n_outputs, link, number = max(n_classes, 1), "share" if classifier else "mean", 1.0
    of_margin = ("sigmoid" if n_classes == 2 else "softmax") if classifier else "identity"
    base = [0.0] * n_outputs
    kind = type(found)
    if kind in (
        tree.DecisionTreeClassifier, tree.DecisionTreeRegressor, tree.ExtraTreeClassifier, tree.ExtraTreeRegressor,
    ) and found.n_outputs_ == 1:  # fmt: skip
        trees = [_tree(found.tree_, classifier)]
    elif kind in (
        ensemble.RandomForestClassifier, ensemble.RandomForestRegressor,
        ensemble.ExtraTreesClassifier, ensemble.ExtraTreesRegressor,
    ) and found.n_outputs_ == 1:  # fmt: skip
        trees = [_tree(entry.tree_, classifier) for entry in found.estimators_]
        number = float(len(trees))
    elif kind in (ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor):
        if found._preprocessor is not None:
            return None
        base = np.ravel(found._baseline_prediction).tolist()
        trees = [_binned(tree, output) for line in found._predictors for output, tree in enumerate(line)]
        link = "exp" if not classifier and found.loss in ("poisson", "gamma") else of_margin
    elif kind in (ensemble.GradientBoostingClassifier, ensemble.GradientBoostingRegressor):
        if found.init not in (None, "zero"):  # it begins with another model's predictions, and no constant
            return None
        base = np.ravel(found._raw_predict_init(np.zeros((1, found.n_features_in_), np.float32))).tolist()
        trees = [
            _tree(tree.tree_, False, found.learning_rate, output)
            for line in found.estimators_
            for output, tree in enumerate(line)
        ]
        link = of_margin
        number = 2.0 if classifier and found.loss == "exponential" else 1.0
    else:
        return None
    own = [str(name) for name in getattr(found, "feature_names_in_", [])]
    return Ensemble(
        "sklearn",
        "classification" if classifier else "regression",
        trees,
        base,
        link,
        named("scikit-learn's model", own, features, int(found.n_features_in_)),
        n_classes=n_classes,
        number=number,
    )


def _tree(tree: Any, classifier: bool, scale: float = 1.0, output: int = 0) -> Tree:
    values = np.asarray(tree.value, np.float64)[:, 0, :] * scale
    if classifier:
        values = values / values.sum(axis=1, keepdims=True)
    to_left = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count))
    return Tree(
        np.asarray(tree.feature, np.int64),
        up_to_single(np.asarray(tree.threshold, np.float64)),
        (np.asarray(to_left) != 0).astype(np.int64) * layout.DEFAULT_LEFT,
        np.asarray(tree.children_left, np.int64),
        np.asarray(tree.children_right, np.int64),
        values,
        output,
    )


def _binned(tree: Any, output: int) -> Tree:
    """A tree of histogram gradient boosting, by the thresholds of values instead of bins."""
    nodes = tree.nodes
    leaf = nodes["is_leaf"] != 0
    return Tree(
        nodes["feature_idx"].astype(np.int64),
        nodes["num_threshold"].astype(np.float64),
        (nodes["missing_go_to_left"] != 0).astype(np.int64) * layout.DEFAULT_LEFT,
        np.where(leaf, -1, nodes["left"].astype(np.int64)),
        np.where(leaf, -1, nodes["right"].astype(np.int64)),
        nodes["value"].astype(np.float64).reshape(-1, 1),
        output,
    )
