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

def explain(family: int, plan: Integers, table: Integers, x: Floats, y: float) -> bool: ...
def learn(
    family: int,
    table: Integers,
    x: Floats,
    y: float,
    weight: float,
    explained: bool,
    room: Callable[[int, int, int], None] | None,
) -> None: ...
