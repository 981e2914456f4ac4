"""What the leaves of river's classification trees have learnt, read by compiled code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from river.tree.splitter import GaussianSplitter

from explain_core.evaluation import tree_kernels as kernels
from explain_core.evaluation.kernels import compiled, total
from explain_core.evaluation.objects import (
    addresses,
    as_float,
    attribute,
    following,
    item,
    number,
    size,
    whole,
)
from explain_core.evaluation.river_trees import BAYES, MAJORITY, TOKENS

_NAMES = (
    "_train_weight_seen_by_model", "classes", "_root", "n", "_mean_error", "_mean", "stats", "splitters", "_nb_correct_weight",
    "_mc_correct_weight", "_att_dist_per_class", "_var", "mean", "_S", "__class__",
    "_last_split_attempt_at",
)  # fmt: skip
(
    _WEIGHT, _CLASSES, _ROOT, _N, _ERROR, _MEAN, _STATS, _SPLITTERS, _NB,
    _MC, _BY_CLASS, _VAR, _VAR_MEAN, _SQUARES, _KIND, _ATTEMPT, _TOKEN
) = range(len(_NAMES) + 1)  # fmt: skip
_FIXED = _TOKEN + len(TOKENS)
_KEPT, _ADDRESSES = addresses((*_NAMES, *TOKENS))
_NONE, _GAUSSIAN, _CODES, _COLUMNS = range(_FIXED, _FIXED + 4)

READ, DIFFERENT, FULL, NOMINAL = range(4)
"""What came of reading a leaf: all is read; nothing, since it has not gained what was expected; nothing, since there is a class
or a feature of which the image does not know; all but the tables of what is no number."""


def known_objects(codes: dict[Any, int], columns: dict[str, int]) -> Any:
    """Addresses of what compiled code asks for and compares with; ``codes`` are those of classes and must be kept."""
    return np.array([*_ADDRESSES, id(None), id(GaussianSplitter), id(codes), id(columns)], np.int64)


@compiled
def kind_of(leaf: Any, weight: float, splitters: int, known: Any) -> int:
    """How a leaf predicts, as its ``prediction`` decides."""
    if leaf.classes == 0:
        return kernels.UNKNOWN if leaf.adaptive else kernels.NOTHING
    if leaf.manner == MAJORITY or splitters == known[_NONE]:
        return kernels.MAJORITY
    if leaf.manner == BAYES:
        bayes = weight >= leaf.threshold
    else:
        bayes = number(leaf.address, known[_NB]) >= number(leaf.address, known[_MC])
    if not bayes:
        return kernels.MAJORITY
    return kernels.BAYES if weight != 0.0 else kernels.NOTHING


@compiled
def moments_of(splitter: int, label: int, known: Any, out: Any) -> bool:
    """The moments of a class in a Gaussian splitter; False for another splitter."""
    if attribute(splitter, known[_KIND]) != known[_GAUSSIAN]:
        return False
    # Of a class that has none, all of these are nothing.
    variance = attribute(item(attribute(splitter, known[_BY_CLASS]), label), known[_VAR])
    mean = attribute(variance, known[_VAR_MEAN])
    kernels.gaussian(
        number(mean, known[_N]), number(mean, known[_MEAN]), number(variance, known[_SQUARES]), out
    )
    return True


@compiled
def read(
    index: int, expected: float, tolerance: float, leaves: Any, stats: Any, classes: Any, features: Any, moments: Any,
    changed: Any, known: Any,
) -> int:  # fmt: skip
    """Read a leaf that must have gained the expected weight (NaN: any) since it was read; ``changed`` says which classes have."""
    leaf = leaves[index]
    weights, splitters = attribute(leaf.address, known[_STATS]), attribute(leaf.address, known[_SPLITTERS])
    n, width = size(weights), 0
    if n < 0 or n > stats.shape[1]:
        return FULL
    labels, values = np.empty(n, np.int64), np.empty(n)
    place = np.zeros(3, np.int64)
    for k in range(n):
        labels[k], value = following(weights, place)
        values[k] = as_float(value)
    weight = total(values, n)
    gained = weight - leaf.weight
    if not math.isnan(expected) and gained != expected and not abs(gained - expected) <= tolerance:
        return DIFFERENT
    every = n != leaf.classes
    if every:
        for k in range(n):
            classes[index, k] = whole(item(known[_CODES], labels[k]))
            if classes[index, k] < 0:
                return FULL
    before, attempt = leaf.kind, number(leaf.address, known[_ATTEMPT])
    leaves[index].classes = n
    kind = kind_of(leaf, weight, splitters, known)
    result = READ
    if kind == kernels.BAYES and len(moments) > 0:
        width = size(splitters)
        every = (
            every
            or before != kernels.BAYES
            or attempt != leaf.attempt
            or splitters != leaf.splitters
            or width != leaf.features
        )
        if width > features.shape[1]:
            return FULL
        place[0] = 0
        for i in range(width):
            name, _ = following(splitters, place)
            features[index, i] = whole(item(known[_COLUMNS], name))
            if features[index, i] < 0:
                return FULL
    elif kind == kernels.BAYES:
        kind = kernels.UNKNOWN
    for k in range(n):
        changed[k] = every or values[k] != stats[index, k]
        stats[index, k] = values[k]
        place[0] = 0
        for i in range(width if changed[k] else 0):
            _, splitter = following(splitters, place)
            if not moments_of(splitter, labels[k], known, moments[index, classes[index, k], i]):
                result = NOMINAL
    leaves[index].kind = kind
    leaves[index].features = width
    leaves[index].weight = weight
    leaves[index].splitters = splitters
    leaves[index].attempt = attempt
    if leaf.adaptive:
        leaves[index].error = number(attribute(leaf.address, known[_ERROR]), known[_MEAN])
    return result


@compiled
def same_structure(t: int, tree: Any, tokens: Any, known: Any) -> bool:
    """Whether a tree's tokens say that only the leaves are new which the last record reached."""
    n = len(TOKENS) if tree.adaptive else 2
    for i in range(n):
        if number(tree.address, known[_TOKEN + i]) != tokens[t, i]:
            return False
    if not tree.adaptive:
        return bool(tokens[t, 1] == 0.0)
    error = attribute(attribute(tree.address, known[_ROOT]), known[_ERROR])
    return bool(number(error, known[_N]) - tokens[t, n] == 1.0)


@compiled
def follow(
    leaves: Any, stats: Any, classes: Any, features: Any, moments: Any, changed: Any, known: Any,
    trees: Any, tokens: Any, at: Any, results: Any,
) -> bool:  # fmt: skip
    """Read the leaf of each tree that the last record reached; whether that was all, and of each tree what came of it.

    All but the everyday case is ``DIFFERENT``: a tree of the same structure and classes, no part of which is asleep, and one
    leaf that has learnt all that its tree has and has not tried to split.
    """
    everything = True
    for t in range(len(trees)):
        tree, index = trees[t], at[t, 0]
        learnt = number(tree.address, known[_WEIGHT])
        if learnt == tree.learnt:
            results[t] = READ
            continue
        results[t] = DIFFERENT
        if (
            tree.address != 0
            and index >= 0
            and at[t, 1] < 0
            and learnt // tree.period == tree.learnt // tree.period
            and size(attribute(tree.address, known[_CLASSES])) == tree.classes
            and same_structure(t, tree, tokens, known)
            and number(leaves[index].address, known[_ATTEMPT]) == leaves[index].attempt
        ):
            # The leaf of an adaptive tree weighs a record otherwise than its tree does.
            expected = math.nan if tree.adaptive else learnt - tree.learnt
            before = leaves[index].weight
            results[t] = read(
                index, expected, 1e-9 * learnt, leaves, stats, classes, features, moments, changed[t], known
            )
            if leaves[index].weight == before:
                results[t] = DIFFERENT
        if results[t] == READ or results[t] == NOMINAL:
            trees[t].learnt = learnt
            if tree.adaptive:
                tokens[t, len(TOKENS)] += 1.0
        everything = everything and results[t] == READ
    return everything
