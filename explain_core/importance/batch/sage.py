"""SAGE from scratch: of a data set (Covert, Lundberg & Lee 2020; iSAGE Alg. 5) and of a sliding window (SW-SAGE)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explain_core.bands import Array, Band, half_width
from explain_core.explanation import Explanation
from explain_core.importance.base import AnyLoss, at_least_one, checked_losses
from explain_core.importance.batch.intervals import WindowedEstimator
from explain_core.losses import AnyTask, Loss, Prediction
from explain_core.models import Model, Row, wrap
from explain_core.models.empty import mean_prediction
from explain_core.players import Players
from explain_core.progress import track
from explain_core.random import Generator, derive_seed
from explain_core.tables import labels, records, transfer

BATCH = 50
"""Records that are explained at a time: their copies are predicted together."""


class SAGE:
    """How the gain of a model over no model is shared among the features on a data set (iSAGE Alg. 5).

    For each record (x, y), features join an empty coalition S in random order. A feature's Δ is the loss before minus the
    loss after it joined; the loss is that of the mean prediction over m copies (x on S, z elsewhere). The rows z
    are drawn uniformly from the background, once per record and never the record itself; y₀ is the mean prediction
    over the whole background. The values sum to the mean of L(y₀, y) − L(f(x), y).

    Parameters
    ----------
    model, task, classes, losses, features, groups, band, confidence, seed
        As for the incremental estimators.
    n_samples
        Rows m that are drawn; None takes the whole background for every record. The value depends on m.

    >>> rows = [{"a": float(i % 7), "b": float(i % 5)} for i in range(70)]
    >>> sage = SAGE(lambda x: 2.0 * x["a"], task="regression", losses="squared", n_samples=None)
    >>> explanation = sage.explain(rows, [2.0 * x["a"] for x in rows], tolerance=None)
    >>> explanation.top(1)[0][0], float(explanation.values.sum().round(6))
    ('a', 16.0)
    """

    def __init__(
        self,
        model: Any,
        *,
        task: AnyTask = "classification",
        losses: Sequence[AnyLoss] | AnyLoss | None = None,
        n_samples: int | None = 10,
        features: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        band: Band = "normal",
        confidence: float = 0.95,
        seed: int = 0,
    ) -> None:
        self.model: Model = wrap(model, task, features, classes)
        self.losses = checked_losses(losses, self.model.task)
        self.n_samples = None if n_samples is None else at_least_one(n_samples)
        self.features = self.model.features if features is None else features
        self.groups = groups
        self.seed = seed
        self._width = half_width(band, confidence)

    def explain(
        self,
        X: Any,
        y: Any,
        *,
        background: Any = None,
        n_outer: int | None = None,
        tolerance: float | None = 0.025,
        progress: bool = False,
    ) -> Explanation:
        """The SAGE values of rows X (data frame, matrix n × d or n mappings) with truths y.

        Records are taken in random order, all of them before any comes again, until the largest standard error is
        below ``tolerance`` times the range of the values (for the first loss), at most ``n_outer`` of them (by
        default 100 n; with ``tolerance=None`` n, each record once). ``background`` (default: X) is a table like X.
        ``metadata["converged"]`` says whether the tolerance was reached; a warning if not.

        Raises ``ValueError`` for arguments that do not fit and predictions that are not finite, not of the task's
        shape or without the classes in y.
        """
        if n_outer is not None and n_outer < 2:
            raise ValueError(f"n_outer: {n_outer} records give no standard error; use at least 2")
        if tolerance is not None and not 0.0 < tolerance < 1.0:
            raise ValueError(
                f"tolerance: {tolerance} is outside (0, 1); 0.025 is usual, None switches it off"
            )
        rows = records(X, self.features)
        players = Players(self.features, self.groups)
        for row in rows:
            players.observe(row)
        predictions = self.model.predict_many(rows)
        ys = labels(y, rows, self.model, predictions)
        others = rows if background is None else records(background, self.features)
        if background is None and len(rows) < 2:
            raise ValueError("X: a single row has no background; pass more rows, or background=")
        empty = mean_prediction(predictions if background is None else self.model.checked_predictions(others))
        rng = Generator(derive_seed(self.seed, "sage"))
        limit = n_outer or (len(rows) if tolerance is None else 100 * len(rows))
        among = background is None
        game = _Game(
            self.model, self.losses, players, rows, ys, predictions, empty, others, among, self.n_samples
        )
        n, mean, squares = 0, *np.zeros((2, len(self.losses), len(players)))
        std = np.full_like(mean, np.nan)
        converged = False
        for batch in track(_batches(len(rows), limit, rng), "SAGE", -(-limit // BATCH), progress):
            for delta in game.contributions(batch, rng):
                n += 1
                off = delta - mean
                mean = mean + off / n
                squares = squares + off * (delta - mean)
            std = np.sqrt(squares / (n - 1) / n) if n > 1 else std
            if tolerance is not None and _converged(mean, std, tolerance):
                converged = True
                break
        if tolerance is not None and not converged:
            warnings.warn(
                f"SAGE has not converged to {tolerance} after {n} records; raise n_outer or tolerance",
                RuntimeWarning,
                stacklevel=2,
            )
        return Explanation(
            estimator="sage",
            features=tuple(player.name for player in players),
            losses=tuple(loss.name for loss in self.losses),
            values=mean,
            std=std,
            n=n,
            width=self._width,
            metadata={"n_samples": self.n_samples, "tolerance": tolerance, "converged": converged},
        )


class SlidingWindowSAGE(WindowedEstimator):
    """SAGE of the last ``window`` records with the current model, from scratch every ``stride`` records (iSAGE Sect. 3).

    One computation costs as many model calls as iSAGE makes in ``window`` records: with stride w/20 it is 20 times
    as expensive as iSAGE.

    Parameters
    ----------
    model
        What is explained, see ``WindowedEstimator``.
    n_samples
        Rows m that are drawn for each record.
    **settings
        Those of ``WindowedEstimator``.

    >>> sage = SlidingWindowSAGE(lambda x: 2.0 * x["a"], task="regression", window=50, stride=10)
    >>> for i in range(60):
    ...     x = {"a": float(i % 7), "b": float(i % 5)}
    ...     _ = sage.explain_one(x, 2.0 * x["a"])
    >>> sage.explanation.top(1)[0][0]
    'a'
    """

    name = "sw_sage"

    def __init__(self, model: Any, *, n_samples: int = 10, **settings: Any) -> None:
        super().__init__(model, **settings)
        self.n_samples = at_least_one(n_samples)

    def _metadata(self) -> dict[str, Any]:
        return {"n_samples": self.n_samples}

    def _contributions(self, players: Players, rows: list[Row], ys: list[Any]) -> tuple[Array, Array]:
        predictions = self.model.checked_predictions(rows)
        empty = mean_prediction(predictions)
        game = _Game(
            self.model, self.losses, players, rows, ys, predictions, empty, rows, True, self.n_samples
        )
        batches = (range(start, min(start + BATCH, len(rows))) for start in range(0, len(rows), BATCH))
        result = np.concatenate([game.contributions(batch, self._rng) for batch in batches])
        return result, result


@dataclass(frozen=True)
class _Game:
    """Records with their truths and predictions, and what takes their features' place.

    ``empty`` is the prediction that knows no feature. Values come from ``n_samples`` of the ``others`` for each record, or from all of them (None);
    where the records are ``among`` these, not from the record itself.
    """

    model: Model
    losses: Sequence[Loss]
    players: Players
    rows: Sequence[Row]
    ys: Sequence[Any]
    predictions: Sequence[Prediction]
    empty: Prediction
    others: Sequence[Row]
    among: bool
    n_samples: int | None

    def contributions(self, batch: Sequence[int], rng: Generator) -> Array:
        """Δ of the records at these places, records × losses × players, each with its own background draws and order of players.

        A feature outside the players, where these are fixed, has the value of its record in every coalition.
        """
        losses, players = self.losses, self.players
        copies = [[dict(z) for z in self._background(i, rng)] for i in batch]
        orders = [rng.permutation(len(players)) for _ in batch]
        rows, ys = [self.rows[i] for i in batch], [self.ys[i] for i in batch]
        delta = np.zeros((len(rows), len(losses), len(players)))
        if players.fixed:
            for x, some in zip(rows, copies, strict=True):
                for copy in some:
                    transfer(players.outside([*x, *copy]), x, copy)
        before = np.array([[loss(y, self.empty) for loss in losses] for y in ys])
        for step in range(len(players)):
            if step < len(players) - 1:
                for x, order, some in zip(rows, orders, copies, strict=True):
                    for copy in some:
                        transfer(players[order[step]].features, x, copy)
                answers = iter(self.model.checked_predictions([copy for some in copies for copy in some]))
                means = [mean_prediction([next(answers) for _ in some]) for some in copies]
            else:
                means = [self.predictions[i] for i in batch]
            after = np.array([[loss(y, p) for loss in losses] for y, p in zip(ys, means, strict=True)])
            for i, order in enumerate(orders):
                delta[i, :, order[step]] = before[i] - after[i]
            before = after
        return delta

    def _background(self, own: int, rng: Generator) -> list[Row]:
        """The others drawn uniformly with replacement, or all of them, without the record itself."""
        others, m = self.others, self.n_samples
        if m is None:
            return [row for i, row in enumerate(others) if not (self.among and i == own)]
        if not self.among:
            return [others[rng.below(len(others))] for _ in range(m)]
        drawn = (rng.below(len(others) - 1) for _ in range(m))
        return [others[i + (i >= own)] for i in drawn]


def _batches(n: int, limit: int, rng: Generator) -> Iterator[list[int]]:
    """Row numbers in random order, every row once before any comes again, ``limit`` of them in all."""
    left: list[int] = []
    for start in range(0, limit, BATCH):
        batch = []
        for _ in range(min(BATCH, limit - start)):
            left = left or rng.permutation(n)
            batch.append(left.pop())
        yield batch


def _converged(values: Array, std: Array, tolerance: float) -> bool:
    """The package ``sage``'s criterion: the standard error is small beside the range of the values."""
    return bool(np.max(std[0], initial=0.0) <= tolerance * np.ptp(values[0]))
