"""Trees asked for similar records in Python: what a record changes is walked and read again, the rest is known."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from typing import Any

from river.tree.base import Leaf
from river.tree.nodes.branch import NumericBinaryBranch
from river.tree.splitter import GaussianSplitter

from explain_core.evaluation.kernels import COMPENSATED
from explain_core.evaluation.river_trees import manner_of, mode_of
from explain_core.evaluation.tree_kernels import BAYES, HALF_LOG_TAU, MAJORITY
from explain_core.models import Row

_ABSENT: Any = object()


class Copies:
    """Votes of trees without alternates for one record after the other.

    The values are those of river to the last bit. The trees must not learn in between.
    """

    def __init__(self, trees: Sequence[Any]) -> None:
        self._trees = [_Tree(tree) for tree in trees]
        self._last: dict[str, Any] | None = None

    def votes(self, x: Row) -> list[dict[Any, float]]:
        """The votes of each tree; the dictionaries are good until the next record."""
        last = self._last
        self._last = x = dict(x)
        if last is None:
            return [tree.votes(x, None) for tree in self._trees]
        changed = {name for name, value in x.items() if value is not last.get(name, _ABSENT)}
        if len(last) + len(changed) > len(x):
            changed.update(last.keys() - x.keys())
        return [tree.votes(x, changed) for tree in self._trees]


class _Tree:
    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._nothing = dict.fromkeys(sorted(tree.classes), 0.0)
        self._nodes: list[Any] = []
        self._features: list[str] = []
        self._leaves: dict[int, _Leaf] = {}
        self._leaf: _Leaf | None = None
        self._votes: dict[Any, float] = self._nothing

    def votes(self, x: Row, changed: set[str] | None) -> dict[Any, float]:
        leaf = self._leaf
        if leaf is None or changed is None or not changed.isdisjoint(self._features):
            if self._tree._root is None:
                return self._nothing
            leaf = self._walk(x, changed)
        if leaf is not self._leaf or changed is None or not leaf.read.isdisjoint(changed):
            self._leaf = leaf
            self._votes = {**self._nothing, **leaf.prediction(x)}
        return self._votes

    def _walk(self, x: Row, changed: set[str] | None) -> _Leaf:
        """``node.traverse(x)`` from the first node of the last path that may send it elsewhere."""
        node, nodes, features = self._tree._root, self._nodes, self._features
        if nodes and changed is not None:
            at = next(at for at, feature in enumerate(features) if feature in changed)
            node = nodes[at]
            del nodes[at:], features[at:]
        while type(node) is NumericBinaryBranch or not isinstance(node, Leaf):
            feature = node.feature
            nodes.append(node)
            features.append(feature)
            if type(node) is NumericBinaryBranch and feature in x:
                node = node.children[0 if x[feature] <= node.threshold else 1]
                continue
            try:
                node = node.children[node.branch_no(x)]
            except KeyError:
                node = node.most_common_path()[1]
        leaf = self._leaves.get(id(node))
        if leaf is None:
            leaf = self._leaves[id(node)] = _Leaf(node, self._tree)
        return leaf


class _Leaf:
    """A leaf's prediction; of naive Bayes, whose terms are looked up where their value came before."""

    def __init__(self, leaf: Any, tree: Any) -> None:
        self._leaf, self._tree = leaf, tree
        stats = leaf.stats
        weight = sum(stats.values())
        self.read: AbstractSet[str] = frozenset()
        """The features that the prediction depends on."""
        self._known: dict[Any, float] | None = None
        mode = mode_of(leaf, tree, manner_of(leaf, tree), weight)
        if mode == BAYES:
            self.read = leaf.splitters.keys()
            self._priors = [math.log(w / weight) if w > 0 else None for w in stats.values()]
            self._terms: list[tuple[str, Any, dict[Any, list[float]]]] = [
                (name, _densities(splitter, stats), {}) for name, splitter in leaf.splitters.items()
            ]
        elif mode == MAJORITY:  # ``normalize_values_in_dict``, which copies deeply
            scale = 1 / weight if weight else 1.0
            self._known = {label: w * scale for label, w in stats.items()}

    def prediction(self, x: Row) -> dict[Any, float]:
        if self.read:
            return self._bayes(x)
        if self._known is None:
            self._known = self._leaf.prediction(x, tree=self._tree)
        return self._known

    def _bayes(self, x: Row) -> dict[Any, float]:
        """``do_naive_bayes_prediction``."""
        of_all = []
        for name, densities, terms in self._terms:
            value = x.get(name, _ABSENT)
            if value is _ABSENT:
                continue
            found = terms.get(value)
            if found is None:
                found = terms[value] = self._terms_of(name, value, densities)
            of_all.append(found)
        columns: Iterable[Any] = zip(*of_all, strict=True) if of_all else ((),) * len(self._priors)
        votes = [
            0.0 if prior is None else _sum(column, prior)
            for prior, column in zip(self._priors, columns, strict=True)
        ]
        highest = max(votes)
        whole = highest + math.log(sum([math.exp(vote - highest) for vote in votes]))
        return dict(zip(self._leaf.stats, [math.exp(vote - whole) for vote in votes], strict=True))

    def _terms_of(self, name: str, value: Any, densities: Any) -> list[float]:
        """What a value adds to the vote of each class; 0 where it has no say."""
        if densities is not None:
            return [
                0.0 if one is None else (value - one[0]) ** 2 / one[1] - HALF_LOG_TAU - one[2]
                for one in densities
            ]
        splitter = self._leaf.splitters[name]
        density = getattr(splitter, "cond_log_proba", None)
        terms = []
        for label, prior in zip(self._leaf.stats, self._priors, strict=True):
            if prior is None:
                term = 0.0
            elif density is not None:
                term = density(value, label)
            else:
                p = splitter.cond_proba(value, label)
                term = math.log(p) if p > 0 else 0.0
            terms.append(term if term > -math.inf else 0.0)
        return terms


def _sum(terms: Iterable[float], start: float) -> float:
    """One after the other, which ``sum`` itself does until Python 3.12."""
    return reduce(operator.add, terms, start) if COMPENSATED else sum(terms, start)


def _densities(splitter: Any, labels: Iterable[Any]) -> list[tuple[float, float, float] | None] | None:
    """``Gaussian.log_pdf`` of each class in parts: mean, −2 variance, half the logarithm of the variance; None where it has no say.

    None for splitters of another kind.
    """
    if type(splitter) is not GaussianSplitter:
        return None
    found: list[tuple[float, float, float] | None] = []
    for label in labels:
        gaussian = splitter._att_dist_per_class.get(label)
        one = None
        if gaussian is not None and gaussian._var.mean.n > gaussian._var.ddof:
            var = gaussian._var
            variance = var._S / (var.mean.n - var.ddof)
            if variance > 0.0:
                one = var.mean._mean, -2.0 * variance, 0.5 * math.log(variance)
        found.append(one)
    return found
