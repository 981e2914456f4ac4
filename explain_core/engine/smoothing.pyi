import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LOSSES: dict[str, int]
LIMIT: float
LEFT: float
SCALES: tuple[int, int]
BLOCK: int
FAR: int
RING: int
VALUE: int
MEAN: int
SQUARES: int
CUBES: int
QUARTER: int
Q2: int
Q3: int
Q4: int
FINE: int
FINES: int
NEAR: int
NEARS: int
FARS: int
BATCHES: int
ALL_SQUARES: int
ALL_CUBES: int
OLD: int
NEWEST: int
ROWS: int
N: int
W: int
SIZE: int
OPEN: int
OPEN_2: int
OPEN_3: int
KEPT: int
T: int
R2: int
R3: int
R4: int
BLOCKS: int
POOLED: int
COLUMN_ROWS: int
VARIANCE: int
THIRD: int
FOURTH: int
EFFECTIVE: int
FACTOR: int
KNOWN: int
GAMMA: int
COUNT: int
INPUTS: int

def update(cells: Floats, sums: Floats, decay: float, delta: Floats) -> None: ...
def update_apart(
    cells: Floats,
    sums: Floats,
    decay: float,
    counts: Integers,
    losses: Floats,
    rows: Integers,
    increments: Floats,
    places: Integers,
    begin: int,
    end: int,
    block: int,
) -> int: ...
def perform(
    numbers: Floats, sizes: Integers, y: float, seen: int, cells: Floats, sums: Floats, smoothing: float
) -> None: ...
def close_block(cells: Floats, sums: Floats, decay: float, closed: Floats) -> None: ...
def inputs_of(cells: Floats, sums: Floats, inputs: Floats) -> None: ...
def spread_of(inputs: Floats, out: Floats) -> None: ...
def means_of_sums(sums: Floats, least: float, out: Floats) -> None: ...
def ends(value: Floats, spread: Floats, t: Floats, out: Floats) -> None: ...
def studentised(value: Floats, spread: Floats, out: Floats) -> None: ...
