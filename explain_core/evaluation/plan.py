"""What an estimator asks of an evaluator, record after record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explain_core.evaluation.kernels import LOSSES
from explain_core.evaluation.table import Table
from explain_core.losses import NAMED, Loss
from explain_core.players import Players
from explain_core.random import Generator
from explain_core.reservoirs import Reservoir


class Plan:
    """The players, losses and draws of an estimator, also as arrays for compiled kernels.

    ``pairs`` says which losses are those of pairs, ``empty`` whether the copies of the empty coalition are evaluated
    too (see ``IncrementalSAGE``).
    """

    def __init__(
        self,
        players: Players,
        losses: Sequence[Loss],
        n_samples: int,
        reservoir: Reservoir,
        rng: Generator,
        pairs: Sequence[bool] = (),
        empty: bool = False,
    ) -> None:
        self.players, self.losses, self.n_samples = players, tuple(losses), n_samples
        self.reservoir, self.rng = reservoir, rng
        known = all(NAMED.get(loss.name) is loss for loss in losses)
        self.codes = np.array([LOSSES[loss.name] for loss in losses], np.int64) if known else None
        self.pairs = np.array(pairs, np.bool_)
        self.first = 0 if empty else 1
        self.delta = np.empty((len(self.losses), len(players)))
        """Losses × players, filled by a kernel."""
        self.before = np.empty(len(self.losses) if pairs and not empty else 0)
        """Losses of the empty coalition, where they are not those of copies."""
        self.order = np.empty(len(players), np.int64)
        """In which the players joined last."""
        self._width = -1
        self.arguments: tuple[Any, ...] = ()
        """What a kernel is called with, while ``image`` and ``matrix`` are these objects."""
        self.image: Any = None
        self.matrix: Any = None

    def bind(self, table: Table) -> None:
        """Say where the players' features are among the columns of a table."""
        if len(table.names) == self._width:
            return
        columns = [[table.column(name) for name in player.features] for player in self.players]
        self._width = len(table.names)
        self.starts = np.cumsum([0, *map(len, columns)]).astype(np.int64)
        self.columns = np.array([column for of_one in columns for column in of_one], np.int64)
        self.outside = np.setdiff1d(np.arange(self._width), self.columns)
