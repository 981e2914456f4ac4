from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Marks = NDArray[np.int8]

class Check:
    def __init__(
        self, table: Integers, n_classes: int, sizes: Integers, nominal: Integers, met: Sequence[Marks]
    ) -> None: ...
    def fault(self) -> int: ...

def apart(free_rows: Integers, size: int) -> tuple[Marks, Integers]: ...
def scattered(rows: Integers, places: Integers, size: int) -> Integers: ...
