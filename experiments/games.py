"""Streams of increments whose truth is known at every record: what is to be expected of each, given concept and model of that moment.

The model is y = Σ w_j x_j, or what the game says, under the squared loss; iPFI has five draws, which the features share, from a geometric reservoir of L = 100
rows, which the first 100 records fill: the rows that the next five records replace, as in the library. The truth μ_t of record t is the expectation of its increment Δ_t given concept and model at t, over
records and over the rows that the (lagging) reservoir may hold at t. A mean with weights w_t estimates Σ w_t μ_t, never μ at the end alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Array = NDArray[Any]

L, M = 100, 5
BETA = np.array([2.0, 1.0, 0.5])


def draw(rng: np.random.Generator, streams: int, n: int, m: int) -> Array:
    """Which record each draw is (m, streams, n): a geometric reservoir of L rows, which the first L records fill; those that are replaced next."""
    found = np.empty((m, streams, n), np.int32)
    slots, every = np.tile(np.arange(L), (streams, 1)), np.arange(streams)
    replaced = rng.integers(L, size=(n + m, streams))
    for t in range(n):
        found[:, :, t] = slots[every, replaced[t : t + m]]
        slots[every, replaced[t]] = t + L
    return found


def descend(x: Array, y: Array, rate: float, start: Array) -> Array:
    """Weights of a linear model before each record (streams, n, d), taught by gradient descent from ``start``."""
    w = np.empty(x.shape)
    now = np.tile(start, (len(x), 1))
    for t in range(x.shape[1]):
        w[:, t] = now
        now = now + rate * (y[:, t] - (now * x[:, t]).sum(1))[:, None] * x[:, t]
    return w


class Game:
    """y = 2a + b + c/2 and noise; the model knows it; normal inputs: the truth is 2 β²."""

    d, pool = 3, L

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n, self.rng = n, rng
        self.t = np.arange(-L, n)

    def inputs(self, streams: int) -> Array:
        return self.rng.normal(size=(streams, self.n + L, self.d))

    def noise(self, streams: int) -> Array:
        return 0.5 * self.rng.normal(size=(streams, self.n + L))

    def weights(self, x: Array, noise: Array) -> tuple[Array, Array]:
        """Of the model, and of the concept: (streams or 1, records, d)."""
        return BETA[None, None], BETA[None, None]

    def score(self, x: Array, w: Array) -> Array:
        return (
            x @ w[0, 0] if w.shape[:2] == (1, 1) else np.einsum("snd,snd->sn", x, np.broadcast_to(w, x.shape))
        )

    def label(self, score: Array, noise: Array) -> Array:
        return score + noise

    def loss(self, y: Array, p: Array) -> Array:
        return np.square(y - p)

    def truth(self, w: Array, beta: Array) -> Array:
        """(streams or 1, n, d)."""
        return (
            np.broadcast_to(2.0 * w * beta, (1, self.n, self.d))
            if w.shape[1] == 1
            else 2.0 * w[:, L:] * np.broadcast_to(beta, w.shape)[:, L:]
        )


class Interaction(Game):
    def score(self, x: Array, w: Array) -> Array:
        return x[..., 0] * x[..., 1] + x[..., 2]

    def truth(self, w: Array, beta: Array) -> Array:
        return np.full((1, self.n, 3), 2.0)


class Lognormal(Game):
    spread = 1.0

    def inputs(self, streams: int) -> Array:
        return np.exp(self.spread * super().inputs(streams))

    def truth(self, w: Array, beta: Array) -> Array:
        v = self.spread**2
        return super().truth(w, beta) * np.expm1(v) * np.exp(v)


class WiderLognormal(Lognormal):
    spread = 1.5


class HeavyNoise(Game):
    def noise(self, streams: int) -> Array:
        return 0.5 * self.rng.standard_t(2.5, size=(streams, self.n + L))


class Rare(Game):
    """About 1 % positives; the score are log odds."""

    times, least = 1.0, -6.5

    def label(self, score: Array, noise: Array) -> Array:
        return self.rng.random(score.shape) < 1.0 / (1.0 + np.exp(-(self.least + score)))

    def loss(self, y: Array, p: Array) -> Array:
        p = self.times * (self.least + p)
        return np.logaddexp(0.0, np.where(y, -p, p))

    def truth(self, w: Array, beta: Array) -> Array:
        rng, total = np.random.default_rng(0), np.zeros(3)
        for _ in range(60):
            x, z = rng.normal(size=(2, 50_000, 3))
            s = (x * BETA).sum(-1)
            p = 1.0 / (1.0 + np.exp(-(self.least + s)))

            def expected(score: Array, p: Array = p) -> Array:
                o = self.times * (self.least + score)
                return p * np.logaddexp(0.0, -o) + (1.0 - p) * np.logaddexp(0.0, o)

            own = expected(s)
            for j in range(3):
                total[j] += (expected(s + BETA[j] * (z[:, j] - x[:, j])) - own).mean()
        return np.broadcast_to(total / 60, (1, self.n, 3))


class Overconfident(Rare):
    times = 2.0


class Rarer(Rare):
    least = -9.0


class Correlated(Game):
    def inputs(self, streams: int) -> Array:
        return np.sqrt(0.9) * self.rng.normal(size=(streams, self.n + L, 1)) + np.sqrt(0.1) * super().inputs(
            streams
        )


class Late(Game):
    """The feature that matters most comes after a quarter; rows that lack it have 0 there. Explained from its first record on."""

    def inputs(self, streams: int) -> Array:
        x = super().inputs(streams)
        self.born = self.n // 4 + 37
        x[:, : self.born + L, 2] = 0.0
        return x

    def weights(self, x: Array, noise: Array) -> tuple[Array, Array]:
        return BETA[::-1].copy()[None, None], BETA[::-1].copy()[None, None]

    def truth(self, w: Array, beta: Array) -> Array:
        found = np.repeat(super().truth(w, beta), 1, 0).copy()
        since = np.arange(self.n) - self.born
        found[0, :, 2] = np.where(
            since < 0, 0.0, found[0, :, 2] * (1.0 - 0.5 * (1.0 - 1.0 / L) ** np.maximum(since, 0))
        )
        return found


class Switch(Game):
    """Concept and model exchange the weights of a and c after a third."""

    def weights(self, x: Array, noise: Array) -> tuple[Array, Array]:
        w = np.where((self.t >= self.n // 3 + 37)[:, None], BETA[::-1], BETA)[None]
        return w, w


class SmallSwitch(Game):
    def weights(self, x: Array, noise: Array) -> tuple[Array, Array]:
        w = np.where((self.t >= self.n // 2)[:, None], 1.2 * BETA, BETA)[None]
        return w, w


class Seasonal(Game):
    """Weights of concept and model swing between .4 and 1.6 of BETA once in 5,000 records."""

    def weights(self, x: Array, noise: Array) -> tuple[Array, Array]:
        w = (BETA * (1.0 + 0.6 * np.sin(2 * np.pi * self.t[:, None] / 5_000 + np.array([0.0, 2.0, 4.0]))))[
            None
        ]
        return w, w


class Learning(Game):
    """The model begins with 0 and learns by gradient descent: the truth is 2 w β, its own for each stream."""

    rate = 0.005

    def weights(self, x: Array, noise: Array) -> tuple[Array, Array]:
        y = (x * BETA).sum(-1) + noise
        return descend(x, y, self.rate, np.zeros(3)), BETA[None, None]


class FastLearning(Learning):
    rate = 0.05


class NoiseFeatures(Learning):
    """Only a matters; a model that learns fast tries b and c too, on noisy labels: their truth is 0."""

    beta = np.array([2.0, 0.0, 0.0])

    def weights(self, x: Array, noise: Array) -> tuple[Array, Array]:
        y = (x * self.beta).sum(-1) + 3.0 * noise
        return descend(x, y, 0.02, np.zeros(3)), self.beta[None, None]


class MovingInputs(Game):
    """The inputs' means swing by ±2 once in 3,000 records; the reservoir follows late."""

    def inputs(self, streams: int) -> Array:
        self.mean = 2.0 * np.sin(2 * np.pi * self.t / 3_000)
        return super().inputs(streams) + self.mean[:, None]

    def truth(self, w: Array, beta: Array) -> Array:
        one, two = np.zeros(self.n), np.zeros(self.n)
        one[0], two[0] = self.mean[:L].mean(), np.square(self.mean[:L]).mean()
        for t in range(1, self.n):
            new = self.mean[L + t - 1]
            one[t] = one[t - 1] + (new - one[t - 1]) / L
            two[t] = two[t - 1] + (new**2 - two[t - 1]) / L
        now = self.mean[L:]
        return ((2.0 + now**2 - 2.0 * now * one + two)[:, None] * BETA**2)[None]


class Clustered(Game):
    """a is shared by 25 records in a row (the hidden-1 of an hour), b is an AR(1) of .98: rows of the reservoir are like the record."""

    rho, together = 0.98, 25

    def inputs(self, streams: int) -> Array:
        x = super().inputs(streams)
        n = self.n + L
        x[..., 0] = np.repeat(self.rng.normal(size=(streams, n // self.together + 1)), self.together, 1)[
            :, :n
        ]
        e = x[..., 1] * np.sqrt(1 - self.rho**2)
        e[:, 0] = x[:, 0, 1]
        x[..., 1] = lfilter([1.0], [1.0, -self.rho], e, axis=1)
        return x

    def truth(self, w: Array, beta: Array) -> Array:
        # E corr(x_t, z): rows are a records old with probability keep^(a−1)/L; the first rows, k = 0 … L−1, all stay together at first
        found = np.empty((1, self.n, 3))
        keep = 1.0 - 1.0 / L
        for t in range(self.n):
            at = t + L
            young = np.arange(1, t + 1)[:1_200]
            weight = keep ** (young - 1) / L
            old = at - np.arange(L)
            left = keep**t / L
            same = ((at - young) // self.together == at // self.together) @ weight + left * np.sum(
                (at - old) // self.together == at // self.together
            )
            alike = self.rho**young @ weight + left * np.sum(self.rho**old)
            found[0, t] = 2.0 * BETA**2 * (1.0 - np.array([same, alike, 0.0]))
        return found


class Days(Game):
    """The size of the noise is common to 300 records, lognormal: bad days."""

    def noise(self, streams: int) -> Array:
        n = self.n + L
        size = np.repeat(np.exp(0.7 * self.rng.normal(size=(streams, n // 300 + 1))), 300, 1)[:, :n]
        return size * super().noise(streams)


GAMES = {
    "additive": Game, "interaction": Interaction, "lognormal inputs": Lognormal, "lognormal inputs, 1.5": WiderLognormal,
    "t(2.5) noise": HeavyNoise, "1 % labels, confident": Rare, "1 % labels, overconfident": Overconfident,
    "0.1 % labels, confident": Rarer, "correlated inputs": Correlated, "late feature": Late, "abrupt switch": Switch,
    "small switch": SmallSwitch, "seasonal": Seasonal, "learning model": Learning, "fast learning": FastLearning,
    "noise features": NoiseFeatures, "moving inputs": MovingInputs, "clustered inputs": Clustered, "bad days": Days,
}  # fmt: skip


class Streams(NamedTuple):
    """Increments and truth (records, streams or 1, features), and the record at which each feature came."""

    delta: Array
    truth: Array
    born: list[int]


def run(name: str, streams: int, n: int, seed: int = 0) -> Streams:
    """Play a game: so many streams of n records."""
    rng = np.random.default_rng([seed, list(GAMES).index(name)])
    game = GAMES[name](n, rng)
    x, noise = game.inputs(streams), game.noise(streams)
    w, beta = game.weights(x, noise)
    y = game.label(game.score(x, beta), noise)
    own = game.loss(y, game.score(x, w))
    drawn, delta = draw(rng, streams, n, M), np.empty((n, streams, 3))
    now = w if w.shape[1] == 1 else w[:, L:]
    for j in range(3):
        copy, total = x[:, L:].copy(), np.zeros((streams, n))
        for rows in drawn:
            copy[..., j] = np.take_along_axis(x[..., j], rows, 1)
            total += game.loss(y[:, L:], game.score(copy, now))
        delta[..., j] = (total / M - own[:, L:]).T
    truth = np.moveaxis(np.asarray(game.truth(w, beta)), 0, 1)
    return Streams(delta, truth, [0, 0, getattr(game, "born", 0)])
