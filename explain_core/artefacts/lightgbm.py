"""LightGBM's text format, without LightGBM.

Source: https://github.com/microsoft/LightGBM, ``gbdt_model_text.cpp`` and ``tree.cpp``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from explain_core.artefacts import layout
from explain_core.artefacts.artefact import ArtefactError, named
from explain_core.artefacts.ensemble import Ensemble, Tree
from explain_core.losses import Task

_OBJECTIVES: dict[str, tuple[Task, str]] = {
    "binary": ("classification", "sigmoid"),
    "multiclass": ("classification", "softmax"),
    "multiclassova": ("classification", "each_sigmoid"),
    "cross_entropy": ("regression", "sigmoid"),
    "cross_entropy_lambda": ("regression", "log1p_exp"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), ("regression", "exp")),
    **dict.fromkeys(
        ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg"),
        ("regression", "identity"),
    ),
}
"""The task and the link function."""
_MISSING = {
    0: layout.NAN_IS_ZERO,
    1: layout.NAN_IS_ZERO | layout.ZERO_IS_MISSING,
    2: 0,
}
"""Flags by the type in the bits of a decision."""


def read(data: bytes, features: Sequence[str] | None) -> tuple[Ensemble, str | None]:
    """The ensemble in the bytes of a model's file, and the version of its format.

    ``features`` names the columns of a model trained without names, which LightGBM calls Column_0, …. Raises ``ArtefactError``.
    """
    try:
        text = data.decode()
        head, *blocks = text.split("\n\nTree=")
        lines = _fields(head)
        if not blocks or "\nend of trees" not in blocks[-1]:
            raise ArtefactError("LightGBM: the file ends before its last tree; it is truncated")
        blocks[-1], _, tail = blocks[-1].partition("\nend of trees")
        return _ensemble(lines, blocks, tail, features, "average_output" in head.split("\n")), lines.get(
            "version"
        )
    except ArtefactError:
        raise
    except (ValueError, KeyError, IndexError, OverflowError, RecursionError) as error:
        raise ArtefactError(f"LightGBM: {type(error).__name__}: {error}; the file is damaged") from None


def _fields(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.split("\n") if "=" in line)


def _ensemble(
    head: dict[str, str], blocks: list[str], tail: str, features: Sequence[str] | None, average: bool
) -> Ensemble:
    n_classes, per_iteration = int(head["num_class"]), int(head["num_tree_per_iteration"])
    n = int(head["max_feature_idx"]) + 1
    sizes = head.get("tree_sizes")
    if sizes is not None and len(sizes.split()) != len(blocks):
        raise ArtefactError(
            f"LightGBM: {len(blocks)} trees and the sizes of {len(sizes.split())}; the file is truncated"
        )
    own = head["feature_names"].split(" ")
    if own == [f"Column_{column}" for column in range(n)] and features is not None:
        own = []
    task, link, number = _objective(head.get("objective", "regression").split())
    if (
        n_classes < 1
        or not 1 <= per_iteration <= len(blocks)
        or (n_classes > 1 and per_iteration != n_classes)
    ):
        raise ArtefactError("LightGBM: numbers of classes and trees that do not fit; the file is damaged")
    if average and link != "identity":
        raise ArtefactError(
            "LightGBM: boosting rf is known with objectives for numbers alone; use gbdt, dart or goss"
        )
    names = named("LightGBM", own, features, n)
    categories = _categories(tail, names, head.get("feature_infos", "").split())
    iterations = len(blocks) // per_iteration
    return Ensemble(
        "lightgbm",
        task,
        [_tree(_fields(block), number % per_iteration) for number, block in enumerate(blocks)],
        [0.0] * per_iteration,
        "mean" if average else link,
        names,
        n_classes=max(per_iteration, 2) if task == "classification" else 0,
        number=float(iterations) if average else number,
        categories=categories,
    )


def _objective(words: list[str]) -> tuple[Task, str, float]:
    """The task, the link function and its number."""
    name, options = words[0], dict(word.split(":", 1) for word in words[1:] if ":" in word)
    if name not in _OBJECTIVES:
        raise ArtefactError(
            f"LightGBM: the objective {name!r} is not known; use one of {', '.join(sorted(_OBJECTIVES))}"
        )
    task, link = _OBJECTIVES[name]
    number = float(options["sigmoid"]) if name in ("binary", "multiclassova") else 1.0
    return task, "square" if link == "identity" and "sqrt" in words else link, number


def _categories(tail: str, names: list[str], infos: list[str]) -> dict[str, list[Any]]:
    """The categories of a pandas data frame, by feature; features without names for them have their codes as values."""
    line = next((line for line in tail.split("\n") if line.startswith("pandas_categorical:")), None)
    known = json.loads(line.partition(":")[2]) if line else None
    if not known:
        return {}
    # A column of categories has a list of them where a number has an interval.
    nominal = [name for name, info in zip(names, infos, strict=True) if not info.startswith("[")]
    if len(nominal) != len(known):
        nominal = [
            name
            for name, info in zip(names, infos, strict=True)
            if not info.startswith("[") and info != "none"
        ]
    if len(nominal) != len(known) or not all(isinstance(categories, list) for categories in known):
        raise ArtefactError(
            f"LightGBM: categories of {len(known)} features, and {len(nominal)} columns have some; the file is damaged"
        )
    return dict(zip(nominal, known, strict=True))


def _tree(fields: dict[str, str], output: int) -> Tree:
    n_leaves = int(fields["num_leaves"])
    if fields.get("is_linear", "0") != "0":
        raise ArtefactError("LightGBM: a tree with linear models in its leaves; train with linear_tree=false")
    leaf_values = _numbers(fields, "leaf_value", n_leaves, np.float64)
    inner = n_leaves - 1
    feature = _numbers(fields, "split_feature", inner, np.int64)
    decision = _numbers(fields, "decision_type", inner, np.int64)
    threshold = _numbers(fields, "threshold", inner, np.float64)
    left, right = (_numbers(fields, name, inner, np.int64) for name in ("left_child", "right_child"))
    categorical = decision & 1 != 0
    missing = decision >> 2 & 3
    if len(missing) and missing.max() > 2:
        raise ArtefactError("LightGBM: an unknown kind of missing value; the file is damaged")
    numeric = np.array([_MISSING[kind] for kind in missing.tolist()], np.int64) + (decision >> 1 & 1)
    sets: list[Any] = []
    if categorical.any():
        starts = _numbers(fields, "cat_boundaries", int(fields["num_cat"]) + 1, np.int64)
        words = _numbers(fields, "cat_threshold", int(starts[-1]), np.int64).astype(np.uint32)
        if starts[0] != 0 or (np.diff(starts) < 1).any():
            raise ArtefactError("LightGBM: sets of categories that overlap; the file is damaged")
        sets = np.split(words, starts[1:-1])
    # Leaves have numbers below 0 in the file and come after the inner nodes here.
    padding = np.zeros(n_leaves, np.int64)
    return Tree(
        np.concatenate([feature, padding]),
        np.concatenate([threshold, padding]),
        np.concatenate([np.where(categorical, layout.CATEGORICAL, numeric), padding]),
        np.concatenate([np.where(left < 0, inner + ~left, left), padding - 1]),
        np.concatenate([np.where(right < 0, inner + ~right, right), padding - 1]),
        np.concatenate([np.zeros(inner), leaf_values]).reshape(-1, 1),
        output,
        sets,
    )


def _numbers(fields: dict[str, str], name: str, n: int, kind: Any) -> Any:
    words = fields.get(name, "").split() if n else []
    if len(words) != n:
        raise ArtefactError(f"LightGBM: {len(words)} numbers in {name} instead of {n}; the file is damaged")
    return np.array(words, kind) if n else np.zeros(0, kind)
