"""ONNX graphs that are one ensemble of trees, as arrays.

Source: https://onnx.ai/onnx/operators/, TreeEnsembleClassifier and TreeEnsembleRegressor of the domain ai.onnx.ml.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.artefacts import layout
from explain_core.artefacts.artefact import ArtefactError
from explain_core.artefacts.ensemble import Ensemble, Tree, TreeEnsemble, below_single, up_to_single
from explain_core.models import OnnxModel

_LABELLING = {"ZipMap", "Cast", "Identity"}
"""Nodes that may follow the trees: they name the classes."""

PROBES = 64
"""Rows on which predictions are compared."""


def ensemble_of(data: bytes, model: OnnxModel) -> TreeEnsemble | None:
    """The same model as a ``TreeEnsemble``; None where the graph is another one, or onnxruntime predicts otherwise by a single bit.

    Predictions are compared on rows of values that are thresholds of the trees, or next to one, or missing.
    """
    inputs = model._inputs
    if len(inputs) != 1 or inputs[0][1] is not np.float32:
        return None
    try:
        ensemble = _ensemble(_graph().FromString(data), inputs[0][0], model.features)
        if ensemble is None:
            return None
        rows = _probes(ensemble)
        expected = model.predict_many(rows)
        labels = list(expected[0]) if isinstance(expected[0], dict) else None
        found = TreeEnsemble(ensemble, labels)
        same = found.predict_many(rows) == expected
    except (ArtefactError, ValueError, IndexError, KeyError):  # the graph is not as these trees are
        return None
    return found if same else None


def _ensemble(model: Any, matrix: str, features: Sequence[str]) -> Ensemble | None:
    """The trees of a graph. Raises ``ValueError`` and the like for another graph."""
    (node,) = (node for node in model.graph.node if node.op_type not in _LABELLING)
    given = {attribute.name: attribute for attribute in node.attribute}
    if list(node.input) != [matrix] or any(name.endswith("_as_tensor") for name in given):
        return None
    if "post_transform" in given and given["post_transform"].s != b"NONE":
        return None  # the last bits of the function would be others
    if "base_values" in given and any(given["base_values"].floats):
        return None  # onnxruntime adds them last
    if node.op_type == "TreeEnsembleClassifier":
        labels = (given[name] for name in given if name.startswith("classlabels"))
        n_classes = max(len(attribute.ints) + len(attribute.strings) for attribute in labels)
        ids = np.array(given["class_ids"].ints)
        alone = n_classes == 2 and len(set(ids.tolist())) == 1  # the score of the second class
        link = "complement" if alone else "identity"
        trees = _trees(given, "class", ids - ids[0] if alone else ids, 1 if alone else n_classes)
    elif node.op_type == "TreeEnsembleRegressor" and given["n_targets"].i == 1:
        average = "aggregate_function" in given and given["aggregate_function"].s == b"AVERAGE"
        n_classes, link = 0, "mean" if average else "identity"
        trees = _trees(given, "target", np.array(given["target_ids"].ints), 1)
    else:
        return None
    return Ensemble(
        "ONNX",
        "classification" if n_classes else "regression",
        trees,
        [0.0] * trees[0].values.shape[1],
        link,
        features,
        n_classes=n_classes,
        number=float(len(trees)) if link == "mean" else 1.0,
        single=True,
    )


def _trees(given: dict[str, Any], of: str, ids: NDArray[np.int64], outputs: int) -> list[Tree]:
    """The trees of a node's attributes; ``ids`` are the outputs of the leaves' weights."""
    tree_ids, node_ids, feature, yes, no, weights_of, weights_at = (
        np.array(given[name].ints, np.int64)
        for name in (
            "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids",
            f"{of}_treeids", f"{of}_nodeids",
        )
    )  # fmt: skip
    modes, limits = np.array(given["nodes_modes"].strings), np.array(given["nodes_values"].floats, np.float32)
    weights = np.array(given[f"{of}_weights"].floats, np.float64)
    tracks = given.get("nodes_missing_value_tracks_true")
    to_yes = np.array(tracks.ints if tracks and tracks.ints else np.zeros(len(modes)), np.int64)
    if not set(modes.tolist()) <= {b"BRANCH_LEQ", b"BRANCH_LT", b"LEAF"}:
        raise ValueError("another comparison")
    thresholds = np.where(
        modes == b"BRANCH_LT", below_single(limits), up_to_single(limits.astype(np.float64))
    )
    trees = []
    for tree in dict.fromkeys(tree_ids.tolist()):
        nodes = np.flatnonzero(tree_ids == tree)
        place = dict(zip(node_ids[nodes].tolist(), range(len(nodes)), strict=True))
        leaf = modes[nodes] == b"LEAF"
        left, right = (
            np.where(leaf, -1, [place.get(child, -1) for child in children[nodes].tolist()])
            for children in (yes, no)
        )
        values = np.zeros((len(nodes), outputs))
        own = np.flatnonzero(weights_of == tree)
        values[[place[node] for node in weights_at[own].tolist()], ids[own]] = weights[own]
        flags = (to_yes[nodes] != 0) * layout.DEFAULT_LEFT
        trees.append(Tree(feature[nodes], thresholds[nodes], flags, left, right, values))
    return trees


def _probes(ensemble: Ensemble) -> list[dict[str, float]]:
    """Rows whose values are thresholds or next to one; a tenth of the values is missing."""
    rng = np.random.Generator(np.random.PCG64(0))
    feature = np.concatenate([tree.feature[tree.left >= 0] for tree in ensemble.trees])
    threshold = np.concatenate([tree.threshold[tree.left >= 0] for tree in ensemble.trees])
    rows: list[dict[str, float]] = [{} for _ in range(PROBES)]
    for column, name in enumerate(ensemble.features):
        limits = np.append(threshold[feature == column], 0.0).astype(np.float32)
        near = np.nextafter(limits, rng.choice(np.array([-np.inf, 0.0, np.inf], np.float32), len(limits)))
        values, missing = rng.choice(near, PROBES).tolist(), (rng.random(PROBES) < 0.1).tolist()
        for row, value, absent in zip(rows, values, missing, strict=True):
            if not absent:
                row[name] = value
    return rows


@functools.cache
def _graph() -> Any:
    """The message of a model, as far as it is read here; of https://github.com/onnx/onnx, ``onnx.proto``."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    messages = {
        "Attribute": [
            ("name", 1, kinds.TYPE_STRING, False),
            ("i", 3, kinds.TYPE_INT64, False),
            ("s", 4, kinds.TYPE_BYTES, False),
            ("floats", 7, kinds.TYPE_FLOAT, True),
            ("ints", 8, kinds.TYPE_INT64, True),
            ("strings", 9, kinds.TYPE_BYTES, True),
        ],
        "Node": [
            ("input", 1, kinds.TYPE_STRING, True),
            ("op_type", 4, kinds.TYPE_STRING, False),
            ("attribute", 5, "Attribute", True),
        ],
        "Graph": [("node", 1, "Node", True)],
        "Model": [("graph", 7, "Graph", False)],
    }
    file = descriptor_pb2.FileDescriptorProto(name="onnx_trees.proto", package="onnx_trees", syntax="proto2")
    for message, fields in messages.items():
        described = file.message_type.add(name=message)
        for name, number, kind, repeated in fields:
            field = described.field.add(name=name, number=number)
            field.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if isinstance(kind, str):
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".onnx_trees.{kind}"
            else:
                field.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("onnx_trees.Model"))
