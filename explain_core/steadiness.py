"""When the band of a smoothed mean may be believed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from explain_core import steadiness_kernels as kernels
from explain_core.smoothing import Array, Smoother
from explain_core.state import Block, State, array, block, finite
from explain_core.steadiness_kernels import LAG, LATE, NEWEST, SCALES

BLOCK = 100
"""Observations after which a mean is compared with its past."""

TURNOVER = 4
"""Reservoir sizes after which 98 % of a geometric reservoir's rows are new."""


class SteadinessState(State, frozen=True):
    """``cells`` (13 × losses × columns) and ``sums`` (4 × columns)."""

    cells: Block
    sums: Block


class Steadiness:
    """Watches a smoother, block by block, for what its standard error does not know.

    - **A change**: the means of the newest 1, 4 and 16 blocks are compared with the mean before. If one differs by more than
      four standard errors, each column of that loss gets a *lag*: how far φ is behind, plus one standard error. (The limit is
      higher for skewed increments, by Cornish and Fisher, and for a plain mean, which never forgets.) The lag decays as φ
      forgets. While it exceeds half the standard error of φ, the band is not settled; below that the band is wider by the lag.
      While it exceeds a tenth, the covariance term G keeps its ratio to the variance: it would take the change for dependence.
    - **An alarm** (``changed``): alarms see slower and smaller changes, and say how far a mean moved, and when. Its column gets
      a lag in the same way.
    - **Few informative observations**: the standard error of n observations of skewness γ is itself known from only about
      n/γ² of them. The band is wider by the share (1.5 γ² + 4)/n, at most 1.5, with n corrected for dependence. γ is the
      largest of late, raised by 1 + 2/√B, where B is the number of blocks that contribute to it (participation ratio): a heavy
      tail whose extremes have not come yet is seen in few blocks. Only bands with n/γ² below ½ are withheld. To withhold more
      would leave those that look best because their extremes have not come.
    - **A new column**: nothing is settled before 1,500 observations. A feature met late is replaced, at first, by rows of the
      reservoir that lack it; four reservoir sizes later its mean begins anew.

    What is settled is right more often than the nominal band says in the stationary games of ``python -m experiments.settled``,
    which also says what it costs. No test of so few numbers sees changes far slower than 1/α, or a tail of which nothing came yet.

    >>> smoother = Smoother((1, 1), alpha=0.01)
    >>> steadiness = Steadiness(smoother)
    >>> for i in range(2_000):
    ...     smoother.update(np.array([[float(i % 7)]]))
    ...     if smoother.n % BLOCK == 0:
    ...         steadiness.end_block(smoother)
    >>> bool(steadiness.settled(smoother)[0, 0]), 2.0 < float(steadiness.widths(smoother, 2.0)[0, 0]) < 2.2
    (True, True)
    """

    def __init__(self, smoother: Smoother, memory: int | None = None) -> None:
        shape = smoother.value.shape
        self._memory = memory
        self._decay = float(smoother.rates[0])
        d = self._decay
        kept = d**BLOCK
        effective = float(BLOCK) if d == 1.0 else (1.0 - kept) / (1.0 - d) * (1.0 + d) / (1.0 + kept)
        slow = 10.0 * max(0.0 if d == 1.0 else 1.0 / (1.0 - d), float(memory or 0)) / BLOCK
        self._constants: Array = np.array(
            [kept, effective, slow if d < 1.0 and slow > 1.0 else 100.0, d, *smoother.error_constants]
        )
        """The weight that a block keeps of what was before; observations of equal weight that tell as much as those of a block; blocks that
        skewness is remembered for; and the rest of what ``steadiness_kernels`` names."""
        self.cells: Array = np.zeros((NEWEST + len(SCALES), *shape))
        """φ and the long-run variance of an observation at the end of the last block; what φ owes to the past; G over the variance;
        variance, third moment and largest γ² of late; the third moment at the end of the last block; sums of the blocks' own
        third moments and of their squares; the newest means."""
        self.sums: Array = np.zeros((4, shape[-1]))
        """Of each column: W and Σ w² at the end of the last block, its blocks, and 1 if it was met late."""

    def grow(self, columns: int, *, late: bool) -> None:
        """Append columns, as ``Smoother.grow`` does; ``late`` if others have observations already."""
        missing = columns - self.cells.shape[-1]
        if missing > 0:
            self.cells = np.concatenate([self.cells, np.zeros((*self.cells.shape[:-1], missing))], axis=-1)
            sums = np.zeros((4, missing))
            sums[LATE] = float(late)
            self.sums = np.concatenate([self.sums, sums], axis=-1)

    def end_block(self, smoother: Smoother) -> None:
        """Take notice of the last ``BLOCK`` observations. It may change G and S, and begin columns anew."""
        with np.errstate(divide="ignore", invalid="ignore"):
            kernels.end_block(
                _flat(self.cells), self.sums, _flat(smoother.cells), smoother.sums, self._constants
            )
        if self._memory is not None:
            turned = (self.sums[LATE] > 0.0) & (smoother.sums[0] >= TURNOVER * self._memory)
            if turned.any():
                smoother.begin(turned)
                self.cells[..., turned] = 0.0
                self.sums[:, turned] = 0.0

    def changed(self, smoother: Smoother, row: int, column: int, distance: float, records: int) -> None:
        """Take notice of an alarm: the mean of a cell moved by ``distance``, ``records`` observations ago.

        φ owes to the past the distance times the share of its weight that is due to what came before.
        """
        weights = float(smoother.sums[1, column])
        decay = float(smoother.rates[0])
        fresh = float(records) if decay == 1.0 else (1.0 - decay**records) / (1.0 - decay)
        if fresh < weights:
            owed = abs(distance) * (weights - fresh) / weights
            self.cells[LAG, row, column] = max(float(self.cells[LAG, row, column]), owed)

    def bands(self, smoother: Smoother, width: float) -> tuple[Array, Array]:
        """``smoother.std``, and half the bands in these standard errors, where ``width`` would do if they were known exactly and
        nothing changed; NaN where a band may not be believed.
        """
        smoothed, weighed = smoother.cells, smoother.sums
        found = np.empty((2, *smoothed.shape[1:]))
        with np.errstate(divide="ignore", invalid="ignore"):
            kernels.bands(
                _flat(self.cells), self.sums, _flat(smoothed), weighed, self._constants, width, _flat(found)
            )
        return found[0], found[1]

    def widths(self, smoother: Smoother, width: float) -> Array:
        """Those of ``bands``."""
        return self.bands(smoother, width)[1]

    def settled(self, smoother: Smoother) -> NDArray[np.bool_]:
        """Whether the band may be believed, cell by cell."""
        result: NDArray[np.bool_] = np.isfinite(self.widths(smoother, 1.0))
        return result

    def state(self) -> SteadinessState:
        return SteadinessState(block(self.cells), block(self.sums))

    def restore(self, state: SteadinessState, columns: int) -> None:
        """Take a stored state of so many columns on. Raises ``StateError`` where it is none of this shape."""
        cells = array("steadiness", state.cells, "<f8", (len(self.cells), *self.cells.shape[1:-1], columns))
        sums = array("steadiness", state.sums, "<f8", (4, columns))
        finite("steadiness", cells)
        finite("steadiness", sums)
        self.cells, self.sums = cells, sums


def _flat(cells: Array) -> Array:
    """Cells with one axis of losses, however many there are: a view."""
    return cells.reshape(len(cells), math.prod(cells.shape[1:-1]), cells.shape[-1])
