"""Reservoirs: the rows that stand for the marginal distribution of the features.

One owner: explainers share a reservoir, and whoever created it adds each observation once, after explaining,
so that a draw at time s comes from observations r < s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec.structs import replace

from explain_core.random import Generator
from explain_core.state import LARGEST_COUNT, Count, Seed, State, Value, check, check_row

Row = Mapping[str, Any]
Kind = Literal["geometric", "uniform"]


class Reservoir(Protocol):
    """At most ``size`` rows; ``rows`` is in slot order, and a uniform slot is a draw. One of your own needs no more than this.

    >>> class Newest:
    ...     size, rows = 1, []
    ...     def add(self, row):
    ...         self.rows[:] = [row]
    >>> from explain_core.importance.ipfi import IncrementalPFI
    >>> pfi = IncrementalPFI(lambda x: x["a"], task="regression", reservoir=Newest())
    >>> pfi.reservoir.add({"a": 1.0})
    >>> pfi.explain_one({"a": 3.0}, 3.0).explanation.importance()["a"].value
    4.0
    """

    size: int
    rows: list[Row]

    def add(self, row: Row) -> None:
        """Take an observation in. The mapping is kept, not copied: it must not change afterwards."""


class ReservoirState(State, frozen=True):
    """Rows in the order of their slots, and the generator; of a uniform reservoir also Algorithm L's W and skip."""

    rng: Seed
    rows: list[dict[str, Value]]
    w: float | None = None
    skip: Count | None = None


class StoredReservoir:
    """What both reservoirs here are: rows, and a generator, as state."""

    kind: Kind

    def __init__(self, size: int = 100, seed: int = 0) -> None:
        if size < 1:
            raise ValueError(f"size: {size} is not a number of rows; a reservoir needs at least 1")
        self.size = size
        self.rows: list[Row] = []
        self.replaced = self.slot = 0  # how many rows were replaced so far, and where the last one was
        self._rng = Generator(seed)

    def state(self) -> ReservoirState:
        return ReservoirState(self._rng.state, [dict(row) for row in self.rows])

    def restore(self, state: ReservoirState) -> None:
        """Take a stored state on. Raises ``StateError`` where it is none of such a reservoir."""
        check(len(state.rows) <= self.size, f"reservoir: {len(state.rows)} rows and room for {self.size}")
        for row in state.rows:
            check_row("reservoir", row)
        self.rows = list(state.rows)
        self.replaced += 2  # more than the last slot
        self._rng = Generator(state.rng)

    def add(self, row: Row) -> None:
        raise NotImplementedError

    def _replace(self, row: Row) -> None:
        """Put a row in the place of a uniformly drawn one."""
        self.slot = slot = self._rng.below(self.size)
        self.rows[slot] = row
        self.replaced += 1


class GeometricReservoir(StoredReservoir):
    """The newest observation always enters, in place of a uniformly drawn slot.

    An observation that is k steps old is still there with probability (1 − 1/L)^k: the ages are geometric with
    mean L, the size (iPFI journal, Sect. 3.2; iSAGE Alg. 2). For streams that drift.

    Parameters
    ----------
    size
        Rows that it holds.
    seed
        Of its own generator.

    >>> reservoir = GeometricReservoir(size=2, seed=1)
    >>> for i in range(5):
    ...     reservoir.add({"i": i})
    >>> {"i": 4} in reservoir.rows, len(reservoir.rows)
    (True, 2)
    """

    kind = "geometric"

    @property
    def next_slots(self) -> Generator:
        """A generator that draws, below ``size``, the slots that the next rows come into, once the reservoir is full."""
        return Generator(self._rng.state)

    def restore(self, state: ReservoirState) -> None:
        check(state.skip is None, "reservoir: a uniform one instead of a geometric one")
        super().restore(state)

    def add(self, row: Row) -> None:
        if len(self.rows) < self.size:
            self.rows.append(row)
        else:
            self._replace(row)

    def replace(self, slots: Sequence[int], rows: Sequence[Row], state: int) -> None:
        """``add`` of rows for which compiled code has drawn the slots, up to that state of the generator."""
        for slot, row in zip(slots, rows, strict=False):
            self.rows[slot] = row
        self.slot = slots[-1]
        self.replaced += len(slots)
        self._rng.state = state


class UniformReservoir(StoredReservoir):
    """Every observation so far is in the reservoir with the same probability (Vitter 1985; Li 1994, Algorithm L).

    For a distribution that does not change: the draws are then those of the whole past.

    Parameters
    ----------
    size
        Rows that it holds.
    seed
        Of its own generator.

    >>> reservoir = UniformReservoir(size=2, seed=1)
    >>> for i in range(50):
    ...     reservoir.add({"i": i})
    >>> len(reservoir.rows)
    2
    """

    kind = "uniform"

    def __init__(self, size: int = 100, seed: int = 0) -> None:
        super().__init__(size, seed)
        self._w = 1.0
        self._skip = 0

    def state(self) -> ReservoirState:
        return replace(super().state(), w=self._w, skip=self._skip)

    def restore(self, state: ReservoirState) -> None:
        check(
            state.skip is not None and state.w is not None and 0.0 <= state.w <= 1.0,
            "reservoir: a geometric one instead of a uniform one",
        )
        super().restore(state)
        self._w, self._skip = state.w or 0.0, state.skip or 0

    def add(self, row: Row) -> None:
        if len(self.rows) < self.size:
            self.rows.append(row)
            if len(self.rows) == self.size:
                self._draw_skip()
        elif self._skip:
            self._skip -= 1
        else:
            self._replace(row)
            self._draw_skip()

    def _draw_skip(self) -> None:
        # The skip uses the W of this round, already multiplied.
        self._w *= (1.0 - self._rng.uniform()) ** (1.0 / self.size)
        # W may round to 1 (never skip) or fall below 2⁻¹⁰⁷⁴ (skip for good).
        log = math.log1p(-self._w) if self._w < 1.0 else -math.inf
        skip = math.log(1.0 - self._rng.uniform()) / log if log else math.inf
        self._skip = math.floor(min(skip, LARGEST_COUNT))


def make_reservoir(kind: Kind, size: int = 100, seed: int = 0) -> StoredReservoir:
    """The reservoir of that kind. Raises ``ValueError`` for an unknown kind or a size below 1.

    >>> make_reservoir("uniform", size=7).size
    7
    """
    kinds: dict[str, type[StoredReservoir]] = {of.kind: of for of in (GeometricReservoir, UniformReservoir)}
    if kind not in kinds:
        raise ValueError(f"reservoir: {kind!r} is not one of {', '.join(kinds)}")
    return kinds[kind](size, seed)
