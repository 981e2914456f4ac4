from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

A_NUMBER: int
A_STRING: int

class Encoder:
    def __init__(
        self, names: Sequence[str | None], index: dict[str, int], codes: dict[str, dict[Any, int]]
    ) -> None: ...
    @property
    def width(self) -> int: ...
    def row(self, record: dict[str, Any], row: Floats) -> bool: ...
    def fill(self, records: Sequence[Any], rows: Floats) -> int: ...

class Reader:
    def __init__(
        self,
        loads: Callable[[bytes], Any],
        label: str,
        further: tuple[str, ...],
        version: tuple[str, str] | None,
        features: tuple[str, ...] | None,
        labels: dict[Any, int] | None,
        encoder: Encoder,
        limits: tuple[float, int],
    ) -> None: ...
    def read(
        self, values: list[bytes], rows: Floats, ys: Floats, others: list[dict[str, Any]]
    ) -> list[dict[str, Any]]: ...
