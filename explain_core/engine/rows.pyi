from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class Encoder:
    def __init__(
        self, names: Sequence[str], index: dict[str, int], codes: dict[str, dict[Any, int]]
    ) -> None: ...
    @property
    def width(self) -> int: ...
    def row(self, record: dict[str, Any], row: Floats) -> bool: ...
