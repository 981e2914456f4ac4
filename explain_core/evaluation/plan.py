"""What estimators ask of an evaluator, record after record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from explain_core.learners.arrays import Arrays
from explain_core.losses import FOREIGN, Loss, Prediction, Task, codes_of
from explain_core.models.empty import EmptyModel
from explain_core.players import Players
from explain_core.random import Generator
from explain_core.reservoirs import Reservoir
from explain_core.smoothing import Array, Smoother


class Perturbed(NamedTuple):
    """A record's truth, the prediction for it, and those for its perturbed copies in the order in which they are made; ``order``: in which players join."""

    y: Any
    base: Prediction
    copies: Sequence[Prediction]
    order: Sequence[int] = ()


@dataclass
class PlanEntry:
    """What one estimator brings to a plan: its draws, and what takes its Δ in; of no draws where it is absent.

    ``pairs`` says which losses are those of pairs; ``empty`` is the model of the empty coalition, which moves into the row of the plan, none where copies
    stand for it (see ``IncrementalSAGE``). ``settle`` fills the rows of Δ of the losses at some places.
    """

    source: Callable[[], Generator] = lambda: Generator(0)
    n_samples: int = 0
    smoother: Smoother = field(default_factory=lambda: Smoother((0, 0)))
    pairs: Sequence[bool] = ()
    empty: EmptyModel | None = None
    settle: Callable[[Sequence[int], Perturbed, Array], None] | None = None

    def __post_init__(self) -> None:
        self.delta: Array = np.zeros(self.smoother.value.shape)
        """Losses × players, filled by compiled code, and by ``settle``."""


class EvaluationPlan:
    """iPFI and iSAGE, or one of them, of the same players, losses and reservoir, also as arrays for compiled code."""

    def __init__(
        self,
        players: Players,
        losses: Sequence[Loss],
        task: Task,
        reservoir: Reservoir,
        pfi: PlanEntry,
        sage: PlanEntry,
    ) -> None:
        self.players, self.reservoir = players, reservoir
        self.pfi, self.sage = pfi, sage
        self.codes, self.label_free = codes_of(losses, task), losses[0].label_free
        self.foreign = np.flatnonzero(self.codes == FOREIGN).tolist()
        """The places of losses that only Python knows."""
        self.pairs = np.array(sage.pairs, np.bool_)
        self.order = np.empty(len(players) if sage.n_samples else 0, np.int64)
        """In which the players joined last."""
        self.state = np.zeros(2, np.uint64)
        """Of the generators of iPFI and iSAGE."""
        self.empty: Array = np.empty(0)
        """Weight and mean of the model of the empty coalition."""
        self.rows: Any = None
        """The reservoir's, encoded, once an evaluator lays the plan out: for these, a table of so many columns, and labels in the order of a prediction."""
        self.matrix: Array | None = None
        self.size = 0
        self.labels: list[Any] = []
        self.places: dict[Any, int] = {}
        self.arrays = Arrays()
