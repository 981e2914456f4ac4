"""Baselines that recompute a batch importance on the newest records: what the incremental estimators replace."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from explain_core.bands import Array, Band, half_width
from explain_core.explanation import Explanation
from explain_core.importance.base import AnyLoss, checked_losses
from explain_core.importance.batch.permutation import switched
from explain_core.losses import AnyTask
from explain_core.models import Model, Row, wrap
from explain_core.players import Players
from explain_core.random import Generator, derive_seed


class WindowedEstimator:
    """An importance that is computed from scratch on the last ``window`` records, every ``stride`` records.

    Between two computations the explanation stays as it is; until the window is full there is none. The model is
    the current one, also for the older records of the window.

    Raises ``ValueError`` for arguments that do not fit. An
    ``explain_one`` that raises has not changed the state.

    Parameters
    ----------
    model, task, losses, features, groups, band, confidence, seed
        As for ``IncrementalEstimator``.
    window
        Records of a computation.
    stride
        Records from one computation to the next; by default the window: intervals that do not overlap.

    What is computed is in ``IntervalPFI`` and ``SlidingWindowSAGE``; this is the contract that both keep:

    >>> estimator = IntervalPFI(lambda x: 2.0 * x["a"], task="regression", window=20)
    >>> for i in range(39):
    ...     estimator = estimator.explain_one({"a": float(i % 7)}, 2.0 * (i % 7))
    >>> estimator.explanation.n
    20
    """

    name = ""

    def __init__(
        self,
        model: Any,
        *,
        task: AnyTask = "classification",
        losses: Sequence[AnyLoss] | AnyLoss | None = None,
        window: int = 1_000,
        stride: int | None = None,
        features: Sequence[str] | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        band: Band = "normal",
        confidence: float = 0.95,
        seed: int = 0,
    ) -> None:
        if window < 2:
            raise ValueError(f"window: {window} records are too few to switch values; use at least 2")
        if stride is not None and stride < 1:
            raise ValueError(f"stride: {stride} is not a number of records; use at least 1")
        self.model: Model = wrap(model, task)
        self.task = self.model.task
        self.losses = checked_losses(losses, self.task)
        self.window, self.stride = window, stride or window
        self.players = Players(features, groups)
        self._width = half_width(band, confidence)
        self._rng = Generator(derive_seed(seed, self.name))
        self._records: deque[tuple[Row, Any]] = deque(maxlen=window)
        self._seen = 0
        self._values: Array = np.empty((len(self.losses), 0))
        self._std: Array = np.empty((len(self.losses), 0))

    def explain_one(self, x: Row, y: Any) -> Self:
        """Take the record in, and compute the importance anew if it is time."""
        players, x = self.players.after(x), dict(x)
        full_for = self._seen + 1 - self.window
        if full_for >= 0 and full_for % self.stride == 0:
            held = [*self._records, (x, y)][-self.window :]
            state = self._rng.state
            try:
                delta, influence = self._contributions(players, [x for x, _ in held], [y for _, y in held])
                if not np.isfinite(delta).all():
                    names = [loss.name for loss in self.losses]
                    raise ValueError(
                        f"losses: a loss of {names} is not finite in the window that ends with y = {y!r}"
                    )
            except BaseException:
                self._rng.state = state
                raise
            self._values = delta.mean(axis=0)
            self._std = influence.std(axis=0, ddof=1) / np.sqrt(len(delta))
        self.players = players
        self._records.append((x, y))
        self._seen += 1
        return self

    @property
    def explanation(self) -> Explanation:
        """The values of the last computation, one row per loss, one column per feature or group.

        ``std`` is the standard error over the records of the window; NaN where nothing is known yet.
        """
        missing = [(0, 0), (0, len(self.players) - self._values.shape[1])]
        ready = self._values.shape[1] > 0
        return Explanation(
            estimator=self.name,
            features=tuple(player.name for player in self.players),
            losses=tuple(loss.name for loss in self.losses),
            values=np.pad(self._values, missing, constant_values=np.nan),
            std=np.pad(self._std, missing, constant_values=np.nan),
            n=self.window if ready else 0,
            status="ready" if ready else "warming",
            width=self._width,
            metadata={"window": self.window, "stride": self.stride} | self._metadata(),
        )

    def _metadata(self) -> dict[str, Any]:
        raise NotImplementedError

    def _contributions(self, players: Players, rows: list[Row], ys: list[Any]) -> tuple[Array, Array]:
        """Δ of every record of the window, records × losses × players; and its influence on their mean, up to a constant."""
        raise NotImplementedError


class IntervalPFI(WindowedEstimator):
    """Permutation importance of every interval of ``window`` records (the baseline of the iPFI paper, Sect. 4.1).

    Each of the random permutations is cyclic, so that no record keeps its own value: the mean over them
    estimates e_switch − e_orig of the interval without bias. A record has its part in the mean twice, by its own loss and by that of
    the record that gets its value: the standard error is that of the sum of both.

    Parameters
    ----------
    model
        What is explained, see ``WindowedEstimator``.
    n_repeats
        Permutations of an interval.
    **settings
        Those of ``WindowedEstimator``.

    >>> pfi = IntervalPFI(lambda x: 2.0 * x["a"], task="regression", window=50)
    >>> for i in range(50):
    ...     x = {"a": float(i % 7), "b": float(i % 5)}
    ...     _ = pfi.explain_one(x, 2.0 * x["a"])
    >>> pfi.explanation.top(1)[0][0], pfi.explanation.importance()["b"].value
    ('a', 0.0)
    """

    name = "interval_pfi"

    def __init__(self, model: Any, *, n_repeats: int = 10, **settings: Any) -> None:
        if n_repeats < 1:
            raise ValueError(f"n_repeats: {n_repeats} repeats are none; use at least 1")
        super().__init__(model, **settings)
        self.n_repeats = n_repeats

    def _metadata(self) -> dict[str, Any]:
        return {"n_repeats": self.n_repeats}

    def _contributions(self, players: Players, rows: list[Row], ys: list[Any]) -> tuple[Array, Array]:
        n = len(rows)
        predictions = self.model.checked_predictions(rows)
        own = np.array([[loss(y, p) for loss in self.losses] for y, p in zip(ys, predictions, strict=True)])
        delta, given = np.zeros((2, n, len(self.losses), len(players)))
        for _ in range(self.n_repeats):
            owners = self._rng.permutation(n)
            donors = [*owners[1:], owners[0]]
            for j, player in enumerate(players):
                copies = switched(self.model, rows, player, owners, donors)
                for i, donor, prediction in zip(owners, donors, copies, strict=True):
                    losses = [loss(ys[i], prediction) for loss in self.losses]
                    delta[i, :, j] += losses
                    given[donor, :, j] += losses
        result: Array = delta / self.n_repeats - own[:, :, None]
        return result, result + given / self.n_repeats
