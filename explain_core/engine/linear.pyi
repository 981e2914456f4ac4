import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

def predict_rows(table: Integers, rows: Floats, out: Floats) -> None: ...
