"""The ground-truth experiment measures what the library computes."""

import numpy as np
import pytest

from experiments.coverage import Game, cross_entropy
from experiments.data import agrawal
from experiments.ground_truth import M, incremental, sage, sliding, switching
from explain_core.importance.batch.sage import SAGE, SlidingWindowSAGE
from explain_core.importance.isage import IncrementalSAGE
from explain_core.models import CallableModel


def rule(column, cut):
    return lambda X: np.where(np.asarray(X)[:, column] > cut, 0.9, 0.2)


TABLE = agrawal(1_000, seed=3)
GAMES = [
    Game("by salary", TABLE.features, TABLE.X, TABLE.y, rule(0, 70_000), cross_entropy, M),
    Game("by age", TABLE.features, TABLE.X, TABLE.y, rule(2, 50), cross_entropy, M),
]


class Turns(CallableModel):
    """The models of the games, of which one is in force."""

    def __init__(self):
        super().__init__(None, "classification")
        self.game = GAMES[0]

    def predict(self, x):
        p = float(self.game.predict(np.array([list(x.values())]))[0])
        return {0: 1 - p, 1: p}


def records(stream):
    for x, y, function in zip(stream.X.tolist(), stream.y.tolist(), stream.function, strict=True):
        yield dict(zip(TABLE.features, x, strict=True)), y, GAMES[function]


def test_its_isage_is_the_library_s_while_models_take_turns():
    stream = switching(GAMES, 180, 0.05, seed=2)
    (found,) = incremental(GAMES, stream, [0.05], seed=7)
    model = Turns()
    own = IncrementalSAGE(model, features=TABLE.features, alpha=0.05, n_samples=M, seed=7, empty="ema")
    for t, (x, y, game) in enumerate(records(stream)):
        model.game = game
        own.explain_one(x, y)
        assert found[t] == pytest.approx(own.explanation.values[0], rel=1e-9, abs=1e-12, nan_ok=True)
    assert set(stream.function.tolist()) == {0, 1}
    assert np.abs(found[-1]).max() > 0.05


def test_its_batch_sage_estimates_what_the_library_s_does():
    part, rng = slice(0, 60), np.random.Generator(np.random.PCG64(1))
    mine = np.array([sage(GAMES[0], TABLE.X[part], TABLE.y[part], rng) for _ in range(200)])
    model = CallableModel(
        lambda x: {1: 0.9, 0: 0.1} if x["salary"] > 70_000 else {1: 0.2, 0: 0.8}, "classification"
    )
    library = SAGE(model, n_samples=M, features=TABLE.features)
    theirs = library.explain(TABLE.X[part], TABLE.y[part], n_outer=6_000, tolerance=None)
    error = np.hypot(mine.std(axis=0) / np.sqrt(200), theirs.std[0])
    assert (np.abs(mine.mean(axis=0) - theirs.values[0]) <= 4 * error + 1e-12).all()


def test_its_windows_end_where_the_library_s_do_and_are_explained_with_the_model_of_their_end():
    """SW-SAGE differs by its draws alone: with a model that looks at one feature every draw gives the same sum."""
    stream = switching(GAMES, 130, 0.05, seed=2)
    found = sliding(GAMES, stream, 40, 20, seed=1)
    model = Turns()
    own = SlidingWindowSAGE(model, features=TABLE.features, window=40, stride=20, n_samples=M)
    sums = []
    for x, y, game in records(stream):
        model.game = game
        sums.append(own.explain_one(x, y).explanation.values[0].sum())
    assert found.sum(axis=1) == pytest.approx(sums, nan_ok=True)
    assert len({round(value, 9) for value in sums[39:]}) == 5
