"""XGBoost's own formats, JSON and UBJSON, without XGBoost.

Source: https://xgboost.readthedocs.io/en/stable/tutorials/saving_model.html and its model schema.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from explain_core.artefacts import layout, ubjson
from explain_core.artefacts.artefact import ArtefactError, named
from explain_core.artefacts.ensemble import Ensemble, Tree, below_single, bits
from explain_core.losses import Task


class _TreeParam(msgspec.Struct):
    size_leaf_vector: str = "1"


class _Tree(msgspec.Struct):
    left_children: list[int]
    right_children: list[int]
    split_indices: list[int]
    split_conditions: list[float]
    default_left: list[int | bool]
    tree_param: _TreeParam
    categories: list[int] = []
    categories_nodes: list[int] = []
    categories_segments: list[int] = []
    categories_sizes: list[int] = []


class _Category(msgspec.Struct):
    values: list[float] = []
    offsets: list[int] | None = None


class _Categories(msgspec.Struct):
    enc: list[_Category] = []


class _Trees(msgspec.Struct):
    trees: list[_Tree]
    tree_info: list[int]
    iteration_indptr: list[int] | None = None
    cats: _Categories = msgspec.field(default_factory=_Categories)


class _Booster(msgspec.Struct):
    name: str
    model: Any = None
    gbtree: _Booster | None = None
    weight_drop: list[float] = []


class _LearnerParam(msgspec.Struct):
    base_score: str
    num_feature: str
    num_class: str = "0"
    num_target: str = "1"


class _Objective(msgspec.Struct):
    name: str


class _Learner(msgspec.Struct):
    gradient_booster: _Booster
    learner_model_param: _LearnerParam
    objective: _Objective
    attributes: dict[str, str] = {}
    feature_names: list[str] = []
    feature_types: list[str] = []


class _Model(msgspec.Struct):
    learner: _Learner
    version: tuple[int, int, int]


def read(data: bytes, features: Sequence[str] | None) -> tuple[Ensemble, str]:
    """The ensemble in the bytes of a model's file, and the version of XGBoost that wrote it.

    ``features`` names the columns of a model that does not. Predictions are those of the library's estimators: after early stopping
    they end with the best iteration where one of these wrote the file. Raises ``ArtefactError``.
    """
    try:
        plain = data.lstrip(b"{ \t\r\n")[:1] in (b'"', b"}")
        model = msgspec.convert(msgspec.json.decode(data) if plain else ubjson.loads(data), _Model)
        booster = model.learner.gradient_booster
        if booster.name == "dart" and booster.gbtree is not None:
            trees = msgspec.convert(booster.gbtree.model, _Trees)
        elif booster.name == "gbtree":
            trees = msgspec.convert(booster.model, _Trees)
        else:
            raise ArtefactError(
                f"XGBoost: the booster {booster.name!r} is not one of gbtree, dart; use one of them"
            )
        return _ensemble(model.learner, trees, features), ".".join(map(str, model.version))
    except ArtefactError:
        raise
    except (msgspec.MsgspecError, RecursionError, ValueError, IndexError, OverflowError) as error:
        raise ArtefactError(
            f"XGBoost: {error}; the file is damaged, or was not written by save_model of XGBoost 1.0 or later"
        ) from None


def _ensemble(learner: _Learner, model: _Trees, features: Sequence[str] | None) -> Ensemble:
    param, objective = learner.learner_model_param, learner.objective.name
    if objective not in _OBJECTIVES:
        raise ArtefactError(
            f"XGBoost: the objective {objective!r} is not known; use one of {', '.join(_OBJECTIVES)}"
        )
    task, link, to_margin = _OBJECTIVES[objective]
    outputs = max(int(param.num_class), int(param.num_target), 1)
    if int(param.num_target) > 1:
        raise ArtefactError(f"XGBoost: the model has {param.num_target} targets; use one with a single one")
    if outputs > max(len(model.trees), 1):
        raise ArtefactError(
            f"XGBoost: {outputs} classes and {len(model.trees)} trees, of which each class has one at least; the file is damaged"
        )
    n_features = int(param.num_feature)
    names = named("XGBoost", learner.feature_names, features, n_features)
    kinds = learner.feature_types or ["float"] * n_features
    if len(kinds) != n_features:
        raise ArtefactError(
            f"XGBoost: {len(kinds)} feature types for {n_features} columns; the file is damaged"
        )
    scores = np.array(param.base_score.strip("[]").split(","), np.float64).astype(np.float32)
    base = np.resize(scores, outputs) if len(scores) in (1, outputs) else scores
    if len(base) != outputs or len(model.tree_info) != len(model.trees):
        raise ArtefactError(
            "XGBoost: constants or trees of other outputs than the model's; the file is damaged"
        )
    n_trees = len(model.trees)
    best = learner.attributes.get("best_iteration")
    if best is not None and "scikit_learn" in learner.attributes and model.iteration_indptr:
        n_trees = model.iteration_indptr[min(int(best) + 1, len(model.iteration_indptr) - 1)]
    drop = learner.gradient_booster.weight_drop or [1.0] * len(model.trees)
    trees = [
        _tree(tree, output, weight)
        for tree, output, weight in zip(
            model.trees[:n_trees], model.tree_info[:n_trees], drop[:n_trees], strict=True
        )
    ]
    return Ensemble(
        "xgboost",
        task,
        trees,
        [to_margin(float(score)) for score in base],
        link,
        names,
        n_classes=max(outputs, 2) if task == "classification" else 0,
        single=True,
        categories=_categories(names, kinds, model.cats),
    )


def _logit(p: float) -> float:
    if not 0.0 < p < 1.0:
        raise ArtefactError(f"XGBoost: base_score {p} is no probability; the file is damaged")
    return float(-np.log(np.float32(1.0) / np.float32(p) - np.float32(1.0)))


def _log(mean: float) -> float:
    if mean <= 0.0:
        raise ArtefactError(f"XGBoost: base_score {mean} is not above 0; the file is damaged")
    return float(np.log(np.float32(mean)))


_OBJECTIVES: dict[str, tuple[Task, str, Callable[[float], float]]] = {
    "binary:logistic": ("classification", "sigmoid", _logit),
    "reg:logistic": ("regression", "sigmoid", _logit),
    "multi:softprob": ("classification", "softmax", float),
    "multi:softmax": ("classification", "softmax", float),
    "binary:hinge": ("classification", "step", float),
    "count:poisson": ("regression", "exp", _log),
    "rank:map": ("regression", "identity", float),
    "rank:ndcg": ("regression", "identity", float),
    "rank:pairwise": ("regression", "identity", float),
    "reg:absoluteerror": ("regression", "identity", float),
    "reg:gamma": ("regression", "exp", _log),
    "reg:linear": ("regression", "identity", float),
    "reg:pseudohubererror": ("regression", "identity", float),
    "reg:quantileerror": ("regression", "identity", float),
    "reg:squarederror": ("regression", "identity", float),
    "reg:squaredlogerror": ("regression", "identity", float),
    "reg:tweedie": ("regression", "exp", _log),
    "survival:aft": ("regression", "exp", _log),
    "survival:cox": ("regression", "exp", _log),
}
"""The task, the link function, and what makes a margin of the constant score."""


def _categories(names: list[str], kinds: list[str], known: _Categories) -> dict[str, list[Any]]:
    """The names of the categories that the file has, by feature: without them the features' values are the codes."""
    found: dict[str, list[Any]] = {}
    for name, kind, category in zip(names, kinds, known.enc, strict=False):
        if kind != "c" or not category.values:
            continue
        if category.offsets is None:
            found[name] = list(category.values)
        else:
            text = bytes(int(code) % 256 for code in category.values)
            if not text.isascii():
                raise ArtefactError(
                    f"XGBoost: feature {name!r} has categories with letters beyond ASCII, of which XGBoost stores as many bytes as they "
                    "have letters, so that they end too early; train with other names for them, or with their codes"
                )
            ends = category.offsets
            found[name] = [text[a:b].decode() for a, b in itertools.pairwise(ends)]
    return found


def _tree(tree: _Tree, output: int, weight: float) -> Tree:
    left = np.array(tree.left_children, np.int64)
    right, feature = np.array(tree.right_children, np.int64), np.array(tree.split_indices, np.int64)
    condition = np.array(tree.split_conditions, np.float64).astype(np.float32)
    flags = np.array(tree.default_left, np.int64) & 1
    if tree.tree_param.size_leaf_vector not in ("0", "1"):
        raise ArtefactError("XGBoost: a leaf of several numbers; use multi_strategy one_output_per_tree")
    if {len(right), len(feature), len(condition), len(flags)} != {len(left)}:
        raise ArtefactError("XGBoost: a tree's arrays differ in length; the file is damaged")
    values = (condition * np.float32(weight)).astype(np.float64).reshape(-1, 1)
    threshold = below_single(condition)
    sets: list[Any] = []
    for node, start, size in zip(
        tree.categories_nodes, tree.categories_segments, tree.categories_sizes, strict=True
    ):
        codes = tree.categories[start : start + size]
        if len(codes) != size or min(codes, default=0) < 0 or max(codes, default=0) >= 2**24:
            raise ArtefactError("XGBoost: a set of categories is not whole; the file is damaged")
        # The categories in the set go right: the children change places, and so does where a missing value goes.
        left[node], right[node] = right[node], left[node]
        flags[node] = layout.CATEGORICAL + (1 - flags[node])
        threshold[node] = len(sets)
        sets.append(bits(codes))
    return Tree(feature, threshold, flags, left, right, values, output, sets)
