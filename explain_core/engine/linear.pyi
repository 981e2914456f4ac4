import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

def contributions(table: NDArray[np.int64], rows: Floats, out: Floats) -> None: ...
