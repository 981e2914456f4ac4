from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LINEAR: int
TREES: int
MIXTURE: int
ENSEMBLE: int
SHALLOW: int

def predict(family: int, table: Integers, rows: Floats, out: Floats) -> None: ...
def explain(family: int, plan: Integers, table: Integers, x: Floats, y: float) -> bool: ...
def smooth(plan: Integers) -> None: ...
def learn(
    family: int,
    table: Integers,
    x: Floats,
    y: float,
    weight: float,
    explained: bool,
    room: Callable[[int, int, int], None] | None,
) -> None: ...

MOST: int
LONGEST: int

class Stream:
    predictions: Floats
    losses: Floats
    increments: Floats
    slots: Integers
    states: NDArray[np.uint64]
    def __init__(
        self,
        model: tuple[int, Integers, Callable[[int, int, int], None] | None, bool],
        plans: list[tuple[Integers, int]],
        reservoirs: list[tuple[Floats, bool]],
        performance: tuple[Floats, Integers, Floats, Floats, float],
        labels: Integers,
        every: int,
        leader: Stream | None = None,
    ) -> None: ...
    def begin(self, records: Floats, ys: Floats, weights: Floats, taken: int) -> None: ...

def run(streams: list[Stream], n: int) -> int: ...
def chain(digest: bytes, rows: Floats) -> bytes: ...
