import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

def entered(table: Integers, order: Integers) -> int: ...
def rounded(x: float, scale: float) -> float: ...
