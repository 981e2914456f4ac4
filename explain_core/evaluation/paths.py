"""Trees asked for similar records in Python: what a record changes is walked and read again, the rest is known."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Sequence
from functools import reduce
from typing import Any

from river.tree.base import Leaf

from explain_core.evaluation.river_trees import manner_of, mode_of
from explain_core.evaluation.tree_kernels import BAYES
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
        self._path: list[str] = []
        self._leaves: dict[int, _Leaf] = {}
        self._leaf: _Leaf | None = None
        self._votes: dict[Any, float] = self._nothing

    def votes(self, x: Row, changed: set[str] | None) -> dict[Any, float]:
        if self._tree._root is None:
            return self._nothing
        leaf = self._leaf
        if leaf is None or changed is None or not changed.isdisjoint(self._path):
            leaf = self._walk(x)
            if leaf is self._leaf and changed is not None and changed.isdisjoint(leaf.read):
                return self._votes
            self._leaf = leaf
        elif changed.isdisjoint(leaf.read):
            return self._votes
        self._votes = {**self._nothing, **leaf.prediction(x)}
        return self._votes

    def _walk(self, x: Row) -> _Leaf:
        """``node.traverse(x)``; on the way the path is remembered."""
        node, path = self._tree._root, []
        while not isinstance(node, Leaf):
            path.append(node.feature)
            try:
                node = node.children[node.branch_no(x)]
            except KeyError:
                node = node.most_common_path()[1]
        self._path = path
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
        bayes = mode_of(leaf, tree, manner_of(leaf, tree), weight) == BAYES
        self.read: Collection[str] = leaf.splitters if bayes else ()
        """The features that the prediction depends on."""
        self._known: dict[Any, float] | None = None
        if bayes:
            self._priors = {label: math.log(w / weight) if w > 0 else None for label, w in stats.items()}
            self._terms: dict[tuple[str, Any], list[float]] = {}

    def prediction(self, x: Row) -> dict[Any, float]:
        if self.read:
            return self._bayes(x)
        if self._known is None:
            self._known = self._leaf.prediction(x, tree=self._tree)
        return self._known

    def _bayes(self, x: Row) -> dict[Any, float]:
        """``do_naive_bayes_prediction``."""
        terms, of_all = self._terms, []
        for name in self.read:
            value = x.get(name, _ABSENT)
            if value is _ABSENT:
                continue
            found = terms.get((name, value))
            if found is None:
                found = terms[name, value] = self._terms_of(name, value)
            of_all.append(found)
        columns = zip(*of_all, strict=True) if of_all else ([] for _ in self._priors)
        votes = [
            0.0 if prior is None else reduce(operator.add, column, prior)
            for prior, column in zip(self._priors.values(), columns, strict=True)
        ]
        highest = max(votes)
        whole = highest + math.log(sum(math.exp(vote - highest) for vote in votes))
        return {label: math.exp(vote - whole) for label, vote in zip(self._priors, votes, strict=True)}

    def _terms_of(self, name: str, value: Any) -> list[float]:
        """What a value adds to the vote of each class; 0 where it has no say."""
        splitter = self._leaf.splitters[name]
        density = getattr(splitter, "cond_log_proba", None)
        terms = []
        for label, prior in self._priors.items():
            if prior is None:
                term = 0.0
            elif density is not None:
                term = density(value, label)
            else:
                p = splitter.cond_proba(value, label)
                term = math.log(p) if p > 0 else 0.0
            terms.append(term if term > -math.inf else 0.0)
        return terms
