"""Streams of 20 subjects for ``experiments.alarms``: those whose means never change, and games in which one can be made to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numba import njit  # shap's compiler, which comes with the extra bench

from explain_core.alarms import BLOCK

Array = np.ndarray[Any, Any]
Stream = Callable[[int], Array]
"""The next n records, n × subjects."""

SUBJECTS = 20
SIZE = 100
"""Rows of the reservoirs."""
CHUNK = 20 * BLOCK


@njit(cache=True)
def seed(value: int) -> None:
    """Of numba's own generator."""
    np.random.seed(value)


@njit(cache=True)
def linear_records(rows: Any, weights: Any, heavy: int, m: int, out: Any) -> None:
    """iPFI's increments, squared loss, of a linear model that errs by noise alone; all features share a geometric reservoir."""
    n, d = out.shape
    x = np.empty(d)
    for t in range(n):
        error = np.random.randn()
        for j in range(d):
            g = np.random.randn()
            x[j] = np.sinh(1.2 * g) / 1.5 if j < heavy else g
        for j in range(d):
            total = 0.0
            for _ in range(m):
                r = error + weights[j] * (x[j] - rows[np.random.randint(len(rows)), j])
                total += r * r
            out[t, j] = total / m - error * error
        rows[np.random.randint(len(rows))] = x


@njit(cache=True)
def logistic_records(rows: Any, w: Any, truth: Any, rate: float, out: Any) -> None:
    """Loss (column 0) and iPFI's increments, cross-entropy, of a logistic model that learns by stochastic gradient descent."""
    n, d = len(out), len(truth) - 1
    x = np.empty(d)
    for t in range(n):
        a, q = truth[d], w[d]
        for j in range(d):
            x[j] = np.random.randn()
            a += truth[j] * x[j]
            q += w[j] * x[j]
        y = 1.0 if np.random.random() < 1.0 / (1.0 + np.exp(-a)) else 0.0
        sign = 1.0 - 2.0 * y
        base = np.log1p(np.exp(min(sign * q, 30.0)))
        out[t, 0] = base
        for j in range(d):
            u = sign * (q + w[j] * (rows[np.random.randint(len(rows)), j] - x[j]))
            out[t, 1 + j] = np.log1p(np.exp(min(u, 30.0))) - base
        step = rate * (y - 1.0 / (1.0 + np.exp(-q)))
        for j in range(d):
            w[j] += step * x[j]
        w[d] += step
        rows[np.random.randint(len(rows))] = x


class LinearGame:
    """The linear model: features of weights from .3 to 2, half of them with heavy tails. ``weights`` may be changed."""

    def __init__(self, number: int, m: int = 1) -> None:
        seed(number)
        self.weights = np.linspace(0.3, 2.0, SUBJECTS)
        self._rows, self._m = np.zeros((SIZE, SUBJECTS)), m
        self(2_000)

    def __call__(self, n: int) -> Array:
        out = np.empty((n, SUBJECTS))
        linear_records(self._rows, self.weights, SUBJECTS // 2, self._m, out)
        return out


class LogisticGame:
    """The logistic model that goes on learning, after 100,000 records. ``empty`` is the loss of the labels' frequency."""

    def __init__(self, number: int, bias: float, rate: float) -> None:
        seed(number)
        rng = np.random.default_rng(number)
        self._truth = np.append(np.linspace(0.0, 1.0, SUBJECTS - 1), bias)
        self._w, self._rate = np.zeros(SUBJECTS), rate
        self._rows = rng.normal(size=(SIZE, SUBJECTS - 1))
        odds = bias + rng.normal(size=(100_000, SUBJECTS - 1)) @ self._truth[:-1]
        p = float((1.0 / (1.0 + np.exp(-odds))).mean())
        self.empty = -(p * math.log(p) + (1.0 - p) * math.log(1.0 - p))
        self(100_000)

    def __call__(self, n: int) -> Array:
        out = np.empty((n, SUBJECTS))
        logistic_records(self._rows, self._w, self._truth, self._rate, out)
        return out


class Library:
    """Loss and increments of iPFI and iSAGE of this library: Agrawal's function 1, a Hoeffding tree that has learnt and learns no more."""

    def __init__(self, number: int, learnt: int = 20_000) -> None:
        from river.datasets import synth
        from river.tree import HoeffdingTreeClassifier

        from explain_core.importance.group import EstimatorGroup
        from explain_core.importance.ipfi import IncrementalPFI
        from explain_core.importance.isage import IncrementalSAGE
        from explain_core.learners.choice import learner_of

        learner = learner_of(HoeffdingTreeClassifier(), "classification")
        for x, y in synth.Agrawal(classification_function=1, seed=number + 1_000).take(learnt):
            learner.learn(x, y)
        self._model, self._records = learner, iter(synth.Agrawal(classification_function=1, seed=number))
        self._pfi = IncrementalPFI(learner, seed=number)
        self._sage = IncrementalSAGE(
            learner, reservoir=self._pfi.reservoir, evaluator=self._pfi.evaluator, seed=number
        )
        self._both = EstimatorGroup([self._pfi, self._sage])
        self(2 * SIZE)

    def __call__(self, n: int) -> Array:
        out = np.empty((n, 19))
        loss = self._pfi.losses[0]
        for t in range(n):
            x, y = next(self._records)
            prediction = self._model.predict(x)
            out[t, 0] = loss(y, prediction)
            self._both.explain_one(x, y, prediction)
            self._pfi.reservoir.add(x)
            if self._pfi.increments is not None and self._sage.increments is not None:
                out[t, 1:10], out[t, 10:] = self._pfi.increments[0], self._sage.increments[0]
        return out


def independent(draw: Callable[[np.random.Generator, tuple[int, int]], Array]) -> Callable[[int], Stream]:
    """Streams of independent values."""

    def begin(number: int) -> Stream:
        rng = np.random.default_rng(number)
        return lambda n: draw(rng, (n, SUBJECTS))

    return begin


NULLS: dict[str, Callable[[int], Stream]] = {
    "normal": independent(lambda rng, shape: rng.normal(size=shape)),
    "20 % positives": independent(lambda rng, shape: (rng.random(shape) < 0.2) * 1.0),
    "1 % positives": independent(lambda rng, shape: (rng.random(shape) < 0.01) * 1.0),
    "lognormal": independent(
        lambda rng, shape: np.minimum(np.exp(-2.0 + 1.5 * rng.standard_normal(shape)), 34.0)
    ),
    "t(3)": independent(lambda rng, shape: rng.standard_t(3, size=shape)),
    "losses up to 34": independent(
        lambda rng, shape: np.where(rng.random(shape) < 0.03, 34.0 * rng.random(shape), 0.1 * rng.exponential(size=shape))
    ),
    "linear game, m = 1": LinearGame,
    "linear game, m = 5": lambda number: LinearGame(number, 5),
    "learning, rate .005": lambda number: LogisticGame(number, -5.5, 0.005),
    "learning, rate .02": lambda number: LogisticGame(number, 0.0, 0.02),
}  # fmt: skip
"""Each by the number of its seed."""


def chunks(stream: Stream, records: int) -> Iterator[Array]:
    """So many records of the stream, by the thousand or so."""
    for _ in range(-(-records // CHUNK)):
        yield stream(CHUNK)
