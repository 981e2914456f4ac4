"""The coverage experiment measures what the library computes."""

import numpy as np
import pytest

from experiments.coverage import (
    SIZE,
    Game,
    Generators,
    agrawal_game,
    linear_game,
    simulate,
    stream_seed,
    truth,
)
from explain_core.importance.ipfi import IncrementalPFI
from explain_core.importance.isage import IncrementalSAGE
from explain_core.random import Generator

GAMES = {"agrawal": agrawal_game(5_000), "linear": linear_game(5_000)}


def test_many_generators_at_once_draw_what_one_draws():
    seeds = [0, 1, 2**64 - 1]
    together, alone = Generators(seeds), [Generator(seed) for seed in seeds]
    for n in (1, 7, 100_000):
        assert together.below(n).tolist() == [rng.below(n) for rng in alone]
    assert together.permutation(9).tolist() == [rng.permutation(9) for rng in alone]
    assert together.state.tolist() == [rng.state for rng in alone]


@pytest.mark.parametrize("estimator", [IncrementalPFI, IncrementalSAGE])
@pytest.mark.parametrize("game", GAMES.values(), ids=GAMES)
def test_the_streams_of_the_experiment_are_those_of_the_library(game: Game, estimator):
    seeds, n, alpha = range(3), 60, 0.05
    regression = game.name.startswith("linear")

    def model(x):
        p = float(game.predict(np.array([list(x.values())]))[0])
        return p if regression else {0: 1.0 - p, 1: p}

    smoother = simulate(game, estimator.name, alpha, n, seeds, False)
    for seed in seeds:
        records = Generator(stream_seed(seed))
        task = "regression" if regression else "classification"
        empty = {"empty": "ema"} if estimator is IncrementalSAGE else {}
        own = estimator(model, task=task, alpha=alpha, n_samples=game.m, size=SIZE, seed=seed, **empty)
        for _ in range(SIZE + n):
            i = records.below(len(game.X))
            own.explain_one(dict(zip(game.features, game.X[i].tolist(), strict=True)), game.y[i].item())
        np.testing.assert_allclose(smoother.value[seed], own.explanation.values[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(smoother.std[seed], own.explanation.std[0], rtol=1e-7, atol=1e-9)


def test_the_truth_of_the_linear_game_is_the_one_known_by_hand():
    """iPFI 2 β²; iSAGE at m draws (1 + 1/m) β² − Σ β²/(d m) (see test_isage), on normal features of variance 1."""
    game, squares = GAMES["linear"], np.array([4.0, 1.0, 0.25])
    scale = squares * game.X.var(axis=0)
    for name, expected in (
        ("ipfi", 2 * scale),
        ("isage", (1 + 1 / game.m) * scale - scale.sum() / (3 * game.m)),
    ):
        mean, sigma = truth(game, name, 200_000, False)
        np.testing.assert_allclose(mean, expected, atol=5 * (sigma / np.sqrt(200_000)).max())
