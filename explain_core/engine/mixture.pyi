import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LINEAR: int
TREES: int
LOW: int
HIGH: int
SPREAD: int
SEEN: int
N_TARGET: int
REGRESSION: int
OUTPUTS: int
EXTREMES: int
FIRST: int

def begin(table: Integers, out: Floats) -> None: ...
def blend(table: Integers, member: int, predicted: Floats, out: Floats) -> None: ...
def update(table: Integers, y: float, known: bool) -> float: ...
def explain_mixture(plan: Integers, table: Integers, x: Floats, y: float) -> bool: ...
