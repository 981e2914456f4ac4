"""Ensembles of shallow trees as arrays: nodes by column and threshold; see ``explain_core/engine/ensembles.pyx``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from explain_core.artefacts import layout

if TYPE_CHECKING:
    from explain_core.artefacts.ensemble import Ensemble, Tree

MAX_LEAVES = 64
"""Bits of a word."""


def fits(ensemble: Ensemble) -> bool:
    """Whether the leaves of each tree are bits of a word, and leaves of several numbers are all added to
    the same outputs.
    """
    return all(np.count_nonzero(tree.left < 0) <= MAX_LEAVES for tree in ensemble.trees) and (
        ensemble.trees[0].values.shape[1] == 1 or len({tree.output for tree in ensemble.trees}) == 1
    )


def interval(n_trees: int) -> int:
    """Nodes of a column between two of its marks: about as many as cost what it costs to take on a mark.

    >>> interval(12), interval(500)
    (64, 250)
    """
    return max(n_trees // 2, 64)


def arrays(ensemble: Ensemble) -> dict[str, NDArray[Any]]:
    """The arrays of a checked ensemble that ``fits``, by their slots."""
    outputs = np.array([tree.output for tree in ensemble.trees])
    places = np.argsort(outputs, kind="stable")  # those of an output keep their order
    trees, outputs = [ensemble.trees[place] for place in places], outputs[places]
    found = [_words(tree) for tree in trees]
    owner = np.repeat(np.arange(len(trees)), [len(nodes) for nodes, _, _ in found])
    feature, flags, threshold = (
        np.concatenate([part[nodes] for part, (nodes, _, _) in zip(parts, found, strict=True)])
        for parts in zip(*((tree.feature, tree.flags, tree.threshold) for tree in trees), strict=True)
    )
    first_sets = np.cumsum([0, *(len(tree.sets) for tree in ensemble.trees)])[places]
    limits = np.where(flags & layout.CATEGORICAL != 0, threshold + first_sets[owner], threshold)
    flagged = flags & (layout.CATEGORICAL | layout.ZERO_IS_MISSING) != 0
    order = np.lexsort((limits, flagged, feature))
    owner, stays = owner[order], np.concatenate([words for _, words, _ in found])[order]
    sizes, of_flagged = (
        np.bincount(of_node, minlength=len(ensemble.features)) for of_node in (feature, feature[flagged])
    )
    spans, marks, begin, step = [], [np.zeros((0, len(trees)), np.int64)], 0, interval(len(trees))
    for size, n_flagged in zip(sizes.tolist(), of_flagged.tolist(), strict=True):
        end = begin + size
        spans.append((begin, end - n_flagged, end, len(marks) - 1))
        words = np.full(len(trees), -1)
        for k in range(begin + step, end - n_flagged + 1, step):
            np.bitwise_and.at(words, owner[k - step : k], stays[k - step : k])
            marks.append(words[np.newaxis].copy())
        begin = end
    values = np.concatenate(
        [tree.values[leaves] for tree, (_, _, leaves) in zip(trees, found, strict=True)]
    ).T
    begins = np.flatnonzero(np.diff(outputs, prepend=-1))
    return {
        "leaves": values[:0] if ensemble.single else values,
        "spans": np.array(spans, np.int64),
        "limits": limits[order],
        "owners": np.stack([owner, (feature << layout.FLAG_BITS | flags)[order]], axis=1).astype(np.uint32),
        "stays": stays,
        "marks": np.concatenate(marks),
        "firsts": np.cumsum([0, *(len(leaves) for _, _, leaves in found[:-1])]).astype(np.uint64),
        "runs": np.stack([begins, outputs[begins], np.append(begins[1:], len(trees))], axis=1),
        "narrow": (values if ensemble.single else values[:0]).astype(np.float32),
    }


def _words(tree: Tree) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The inner nodes, for each the leaves that stay when it sends to the right, and the leaves from left to right."""
    left, right = tree.left.tolist(), tree.right.tolist()
    waiting, order = [0], []
    while waiting:
        order.append(node := waiting.pop())
        if left[node] >= 0:
            waiting += [right[node], left[node]]
    inner = [node for node in order if left[node] >= 0]
    leaves = [node for node in order if left[node] < 0]
    words = {leaf: 1 << place for place, leaf in enumerate(leaves)}
    for node in reversed(inner):
        words[node] = words[left[node]] | words[right[node]]
    gone = np.array([words[left[node]] for node in inner], np.uint64)
    return np.array(inner, np.int64), (~gone).view(np.int64), np.array(leaves, np.int64)
