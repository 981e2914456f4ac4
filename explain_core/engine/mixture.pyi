from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LOW: int
HIGH: int
SPREAD: int
SEEN: int
HOME_LOW: int
HOME_SPREAD: int
SHIFT: int
SCALE: int
N_TARGET: int
REGRESSION: int
OUTPUTS: int
EXTREMES: int
FIRST: int
PROPORTION: int

def learn(
    table: Integers,
    x: Floats,
    y: float,
    weight: float,
    known: bool,
    explained: bool,
    room: Callable[[int, int, int], None],
) -> None: ...
