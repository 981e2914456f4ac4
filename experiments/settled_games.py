"""Streams whose importances are known, for experiments: a concept, a model, and the truth of every moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BETA = np.array([2.0, 1.0, 0.5])


class Game:
    """y = 2a + b + c/2 and noise, explained for S streams at once: a linear model that knows it, squared loss, normal features.

    The truth is then 2 β². A subclass changes what its name says.
    """

    features = 3

    def __init__(self, streams: int, n: int, seed: int) -> None:
        self.streams, self.n = streams, n
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.weights: Array = BETA

    def known(self, t: int) -> int:
        """How many features there are at record t: the first ones."""
        return self.features

    def begin(self, t: int) -> None:
        """Record t comes."""

    def rows(self, count: int) -> Array:
        return self.rng.normal(size=(count, self.features))

    def noise(self) -> Array:
        return 0.5 * self.rng.normal(size=self.streams)

    def label(self, x: Array) -> Array:
        y: Array = self.predict(x) + self.noise()
        return y

    def predict(self, x: Array) -> Array:
        p: Array = (self.weights * x).sum(axis=-1)
        return p

    def loss(self, y: Array, p: Array) -> Array:
        return np.square(y - p)

    def learn(self, x: Array, y: Array) -> None:
        """Nothing: the model is static."""

    def truth(self) -> Array:
        """E[Δ] at this moment, for all streams or for each (S × d)."""
        return 2.0 * np.square(self.weights)


class Interaction(Game):
    """a·b + c: each matters by 2."""

    def predict(self, x: Array) -> Array:
        p: Array = x[:, 0] * x[:, 1] + x[:, 2]
        return p

    def truth(self) -> Array:
        return np.full(3, 2.0)


class Lognormal(Game):
    """Inputs exp(N(0, 1)): the squares of their differences have a skewness of hundreds."""

    spread = 1.0

    def rows(self, count: int) -> Array:
        return np.exp(self.spread * super().rows(count))

    def truth(self) -> Array:
        variance = self.spread**2
        return np.asarray(super().truth() * np.expm1(variance) * np.exp(variance))


class WiderLognormal(Lognormal):
    """Inputs exp(N(0, 1.5²))."""

    spread = 1.5


class HeavyNoise(Game):
    """Noise of Student's t with 2.5 degrees of freedom: no third moment."""

    def noise(self) -> Array:
        return 0.5 * self.rng.standard_t(2.5, size=self.streams)


class Rare(Game):
    """About 1 % positives, cross-entropy; the model knows their probability."""

    times, least = 1.0, -6.5

    def __init__(self, streams: int, n: int, seed: int) -> None:
        super().__init__(streams, n, seed)
        rng = np.random.Generator(np.random.PCG64(0))
        total, chunks = np.zeros(self.features), 100
        for _ in range(chunks):
            x, z = rng.normal(size=(2, 50_000, self.features))
            p = self._probability(x)
            own = self._expected(p, self.predict(x))
            for j in range(self.features):
                total[j] += (self._expected(p, self.predict(replaced(x, z, j))) - own).mean()
        self._truth = total / chunks

    def _log_odds(self, x: Array) -> Array:
        return np.asarray(self.least + (BETA * x).sum(axis=-1))

    def _probability(self, x: Array) -> Array:
        return np.asarray(1.0 / (1.0 + np.exp(-self._log_odds(x))))

    def _expected(self, p: Array, log_odds: Array) -> Array:
        return np.asarray(p * np.logaddexp(0.0, -log_odds) + (1.0 - p) * np.logaddexp(0.0, log_odds))

    def predict(self, x: Array) -> Array:
        return self.times * self._log_odds(x)

    def label(self, x: Array) -> Array:
        return self.rng.random(self.streams) < self._probability(x)

    def loss(self, y: Array, p: Array) -> Array:
        return np.asarray(np.logaddexp(0.0, np.where(y, -p, p)))

    def truth(self) -> Array:
        return self._truth


class Overconfident(Rare):
    """The same with log odds twice as large."""

    times = 2.0


class Rarer(Rare):
    """About 0.1 % positives."""

    least = -9.0


class Correlated(Game):
    """Inputs with a correlation of .9."""

    def rows(self, count: int) -> Array:
        common = self.rng.normal(size=(count, 1))
        return np.asarray(np.sqrt(0.9) * common + np.sqrt(0.1) * super().rows(count))


class Late(Game):
    """The feature that matters most comes after a quarter of the records."""

    def __init__(self, streams: int, n: int, seed: int) -> None:
        super().__init__(streams, n, seed)
        self.weights, self._there = BETA[::-1].copy(), False

    def known(self, t: int) -> int:
        return 3 if t >= self.n // 4 + 37 else 2

    def begin(self, t: int) -> None:
        self._there = self.known(t) == 3

    def rows(self, count: int) -> Array:
        x = super().rows(count)
        if not self._there:
            x[:, 2] = 0.0  # absent
        return x


class Switch(Game):
    """After a third of the records concept and model exchange the weights of a and c."""

    def begin(self, t: int) -> None:
        if t == self.n // 3 + 37:
            self.weights = BETA[::-1].copy()


class SmallSwitch(Game):
    """After half of the records all weights grow by a fifth, and all importances by 44 %."""

    def begin(self, t: int) -> None:
        if t == self.n // 2:
            self.weights = 1.2 * BETA


class Learning(Game):
    """A linear model that begins with 0 and learns by gradient descent at a constant rate of .005: the truth is 2 w β."""

    def __init__(self, streams: int, n: int, seed: int) -> None:
        super().__init__(streams, n, seed)
        self.weights = np.zeros((streams, self.features))

    def label(self, x: Array) -> Array:
        return np.asarray((BETA * x).sum(axis=-1) + self.noise())

    def learn(self, x: Array, y: Array) -> None:
        self.weights = self.weights + 0.005 * (y - self.predict(x))[:, None] * x

    def truth(self) -> Array:
        return np.asarray(2.0 * self.weights * BETA)


def replaced(x: Array, rows: Array, feature: int) -> Array:
    """x with a feature from other rows."""
    copy = x.copy()
    copy[:, feature] = rows[:, feature]
    return copy


GAMES: dict[str, Callable[[int, int, int], Game]] = {
    "additive": Game,
    "interaction": Interaction,
    "lognormal inputs": Lognormal,
    "t(2.5) noise": HeavyNoise,
    "1 % labels, confident": Rare,
    "1 % labels, overconfident": Overconfident,
    "correlated inputs": Correlated,
    "late feature": Late,
    "abrupt switch": Switch,
    "learning model": Learning,
}
BEYOND: dict[str, Callable[[int, int, int], Game]] = {
    "small switch": SmallSwitch,
    "0.1 % labels, confident": Rarer,
    "lognormal inputs, 1.5": WiderLognormal,
}
"""A change that only alarms can see in time, and tails of which a stream tells too little: followed where they are asked for."""
