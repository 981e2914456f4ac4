"""``ARFClassifier`` in compiled code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explain_core.compiling import allocating, compiled, inlined, inner
from explain_core.kernels import put
from explain_core.learners import adwin
from explain_core.learners import layout as at
from explain_core.learners.arrays import Array, f8, held, i1, i8, u4
from explain_core.learners.hoeffding import learn_tree, predict_tree
from explain_core.learners.layout import short
from explain_core.learners.mersenne import poisson, state_of
from explain_core.learners.tree import TreeLearner, repeatable
from explain_core.learners.walks import release
from explain_core.losses import Prediction
from explain_core.models import Row
from explain_core.sums import total

UNKNOWN = -2
"""A guess that nobody has made."""


@inlined
def favourite(order: Any, seen: Any, tree: int, votes: Any) -> Any:
    """The code of the class with the most votes among those that the tree has met, −1 where it has met none."""
    best = -1
    for i in range(order.shape[1]):
        of = order[0, i]
        if seen[tree, of] == 1 and (best < 0 or votes[of] > votes[best]):
            best = of
    return best


@inlined
def guess(table: Any, tree: int, x: Any, votes: Any, parts: Any, places: Any, dense: Any) -> Any:
    """``predict_one``: the code of the class, −1 where the tree has met none; the votes, by code, are in ``dense``."""
    classes = i8(table, at.CLASSES)
    dense[:] = 0.0
    node, n = predict_tree(table, i8(table, at.TREES)[tree, at.ROOT], x, votes, parts, places)
    if node >= 0:
        leaf = i8(table, at.NODES)[node, at.LEAF_OF]
        for i in range(n):
            dense[classes[leaf, i]] = votes[i]
    return favourite(i8(table, at.ORDER), i1(table, at.SEEN), tree, dense)


@inner
def renew(table: Any, head: Any, tree: int) -> None:
    """Make a tree an empty one."""
    trees = i8(table, at.TREES)
    release(table, head, trees[tree, at.ROOT])
    trees[tree, :] = 0
    trees[tree, at.ROOT] = -1
    i1(table, at.SEEN)[tree, :] = 0


@inner
def watch(table: Any, head: Any, member: int, wrong: float) -> None:
    """Tell a member's detectors, and replace its trees where they say so."""
    numbers, members, counters = f8(table, at.NUMBERS), i8(table, at.MEMBERS), i8(table, at.COUNTERS)
    warned = numbers[0, at.WARNING_ON] != 0.0
    foreground, background = members[member, at.FOREGROUND], members[member, at.BACKGROUND]
    if warned and adwin.update(table, head, 2 * member, 0, wrong):
        if background < 0:
            background = 4 * member + 1 - foreground
        renew(table, head, background)
        adwin.reset(table, head, 2 * member)
        counters[member, at.WARNINGS] += 1
    if numbers[0, at.DRIFT_ON] != 0.0 and adwin.update(table, head, 2 * member + 1, 1, wrong):
        renew(table, head, foreground)
        if background >= 0:
            foreground, background = background, -1
            adwin.reset(table, head, 2 * member)
        adwin.reset(table, head, 2 * member + 1)
        f8(table, at.ACCURACY)[member, :] = 0.0
        counters[member, at.DRIFTS] += 1
    members[member, at.FOREGROUND], members[member, at.BACKGROUND] = foreground, background


@compiled
def learn(table: Any, x: Any, y: int, w: float) -> Any:
    """``ARFClassifier.learn_one``; see ``hoeffding.learn``. The weight has no effect, as in river.

    ``guesses`` in the table: which class each member takes the record for, where predicting it has found that; afterwards all are ``UNKNOWN``.
    """
    head, members, accuracy = i8(table, at.HEAD), i8(table, at.MEMBERS), f8(table, at.ACCURACY)
    if short(table, head, 2 * len(members)):
        return -2 * len(members)
    words, rate = u4(table, at.GENERATOR), f8(table, at.NUMBERS)[0, at.RATE]
    guesses = i8(table, at.GUESSES)[0]
    size = f8(table, at.STATS).shape[1]
    votes, parts, dense, places = np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64)
    for member in range(len(members)):
        foreground, background = members[member, at.FOREGROUND], members[member, at.BACKGROUND]
        guessed, guesses[member] = guesses[member], UNKNOWN
        if guessed == UNKNOWN:
            guessed = guess(table, foreground, x, votes, parts, places, dense)
        accuracy[member, at.ALL] += 1.0
        if guessed == y:
            accuracy[member, at.CORRECT] += 1.0
        k = float(poisson(rate, words, head))
        if k > 0.0:
            if background >= 0:
                learn_tree(table, background, x, y, k, 1, False, votes, parts, places)
            learn_tree(table, foreground, x, y, k, 1, True, votes, parts, places)
            watch(table, head, member, 0.0 if guessed == y else 1.0)
    return 0


@allocating
def vote(table: Any, x: Any, out: Any, order: Any, votes: Any, parts: Any, places: Any, dense: Any) -> Any:
    """``predict_proba_one`` into ``out``, by code; the codes in river's order, and how many there are."""
    members, accuracy, numbers = i8(table, at.MEMBERS), f8(table, at.ACCURACY), f8(table, at.NUMBERS)
    seen, labels, known = i1(table, at.SEEN), i8(table, at.ORDER), 0
    out[:] = 0.0
    entered = np.zeros(len(dense), np.int64)
    for member in range(len(members)):
        tree = members[member, at.FOREGROUND]
        guess(table, tree, x, votes, parts, places, dense)
        share = (
            accuracy[member, at.CORRECT] / accuracy[member, at.ALL]
            if accuracy[member, at.ALL] != 0.0
            else 0.0
        )
        weighted = share > 0.0 and numbers[0, at.WEIGHTED] != 0.0
        for i in range(labels.shape[1]):
            of = labels[0, i]
            if seen[tree, of] == 0:
                continue
            value = dense[of] * share if weighted else dense[of]
            out[of] = value + out[of]
            if entered[of] == 0:
                entered[of] = 1
                order[known] = of
                known += 1
    for i in range(known):
        votes[i] = out[order[i]]
    whole = total(votes, known)
    if whole > 0.0:
        for i in range(known):
            out[order[i]] = out[order[i]] / whole
    return known


@compiled
def predict(table: Any, x: Any, out: Any, order: Any) -> Any:
    """``predict_proba_one`` into ``out`` and ``order``, its classes in the order of the prediction; how many there are."""
    size = f8(table, at.STATS).shape[1]
    by_code = np.empty(size)
    n = vote(
        table, x, by_code, order, np.empty(size), np.empty(size), np.empty(size, np.int64), np.empty(size)
    )
    for i in range(n):
        out[i] = by_code[order[i]]
    return n


@compiled
def predict_codes(table: Any, rows: Any, out: Any) -> None:
    """``predict`` of encoded rows, rows × codes."""
    size, own, found = f8(table, at.STATS).shape[1], held(rows), held(out)
    by_code, order, places = np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64)
    votes, parts, dense = np.empty(size), np.empty(size), np.empty(size)
    for row in range(len(own)):
        vote(table, own[row], by_code, order, votes, parts, places, dense)
        put(by_code[: found.shape[1]], found[row])


class ForestLearner(TreeLearner):
    """``river.forest.ARFClassifier`` in arrays.

    Row 2m or 2m + 1 of the trees is that of member m, the other one that in its background.
    """

    kind = "adaptive_random_forest_classifier"

    @staticmethod
    def takes(model: Any) -> bool:
        """Whether the model is one that this learner repeats."""
        from river import forest, metrics

        return (
            type(model) is forest.ARFClassifier
            and repeatable(model)
            and type(model.metric) is metrics.Accuracy
            and not model.metric.cm.n_samples
            and draws(model)
        )

    def _empty(self, model: Any) -> dict[str, Array]:
        from river import drift

        self.trees = 2 * model.n_models
        found = super()._empty(model)
        numbers, head = found["numbers"], found["head"]
        numbers[0, at.RATE] = math.exp(-model.lambda_value)
        numbers[0, at.WEIGHTED] = not model.disable_weighted_vote
        detectors = np.zeros((2, at.N_DETECTOR))
        for row, on, detector in (
            (0, at.WARNING_ON, model.warning_detector),
            (1, at.DRIFT_ON, model.drift_detector),
        ):
            if type(detector) is drift.ADWIN:
                numbers[0, on] = 1.0
                detectors[row] = adwin_numbers(detector)
        found["detectors"] = detectors
        members = np.full((model.n_models, 2), -1, np.int64)
        members[:, at.FOREGROUND] = range(0, self.trees, 2)
        ends = np.zeros((self.trees, at.N_END), np.int64)
        ends[:, [at.NEWEST, at.OLDEST]] = -1
        words, head[0, at.POSITION] = state_of(model._rng)
        found.update(
            guesses=np.full(model.n_models, UNKNOWN, np.int64),
            generator=words,
            members=members,
            accuracy=np.zeros((model.n_models, 2)),
            counters=np.zeros((model.n_models, 2), np.int64),
            windows=np.zeros((self.trees, at.N_WINDOW)),
            ends=ends,
            buckets=np.zeros((0, 2 * int(detectors[:, at.MOST_BUCKETS].max() + 1))),
            chains=np.zeros((0, at.N_CHAIN), np.int64),
        )
        return found

    @property
    def takes_weight(self) -> bool:
        return False

    def learn(self, x: Row, y: Any, weight: float = 1.0) -> None:
        if x is not self.explained:
            self.arrays["guesses"].fill(UNKNOWN)
        self.explained = None
        if self.arrays["head"][0, at.N_FEATURES] == 0:
            self._draw_from(int(np.count_nonzero(~np.isnan(self.encoded(x)))))
        super().learn(x, y, weight)

    def _learn(self, table: Array, row: Array, target: float, weight: float) -> int:
        found: int = learn(table, row, int(target), weight)
        return found

    def _draw_from(self, features: int) -> None:
        """``BaseForest._set_max_features``."""
        asked = self.wrapped.max_features
        if asked is None:
            k = features
        elif asked == "sqrt":
            k = round(math.sqrt(features))
        elif asked == "log2":
            k = round(math.log2(features)) if features else 0
        else:
            k = asked if isinstance(asked, int) else int(asked * features)
        k = max(1, min(k + features if k < 0 else k, features))
        self.arrays["head"][0, at.N_FEATURES] = k
        self.arrays["leaves"] = np.zeros((0, at.N_LEAF + k), np.int64)

    def _fit_classes(self) -> None:
        super()._fit_classes()
        self._codes = np.zeros(self.arrays["stats"].shape[1], np.int64)

    @property
    def order(self) -> Sequence[Any] | None:
        return super().order if self.task == "regression" else None

    def predict(self, x: Row) -> Prediction:
        row, out = self.encoded(x), self._out[0]
        if not self.labels:
            return {}
        n = predict(self.arrays.table, row, out, self._codes)
        labels = self.labels
        return {
            labels[code]: value for code, value in zip(self._codes[:n].tolist(), out.tolist(), strict=False)
        }

    def predict_rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64] | None:
        return None if self.order is None else super().predict_rows(rows)

    def predict_codes(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.task == "regression":
            return super().predict_codes(rows)
        if self.columns.size != self._size:
            self._fit_columns()
        out = np.empty((len(rows), len(self.labels)))
        predict_codes(self.arrays.table, rows, out)
        return out


def draws(model: Any) -> bool:
    """Whether a forest has learnt nothing, and its own parameters are among those that the kernels know."""
    from river import drift

    return (
        len(model) == 0
        and type(model.n_models) is int
        and model.n_models > 0
        and type(model.lambda_value) in (int, float)
        and 0.0 < model.lambda_value < 700.0
        and (model.max_features in ("sqrt", "log2", None) or type(model.max_features) in (int, float))
        and all(
            type(detector) is drift.NoDrift or watches(detector)
            for detector in (model.drift_detector, model.warning_detector)
        )
    )


def watches(detector: Any) -> bool:
    """Whether a detector is an ADWIN that the kernels know: with one bucket a row, rows are empty once two were merged, which river takes off again and again."""
    from river import drift

    return type(detector) is drift.ADWIN and detector.max_buckets > 1


def adwin_numbers(detector: Any) -> list[float]:
    """The parameters of a river ADWIN."""
    return [
        detector.delta,
        detector.clock,
        detector.max_buckets,
        detector.min_window_length,
        detector.grace_period,
    ]
