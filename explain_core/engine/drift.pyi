from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Codes = NDArray[Any]
Flags = NDArray[np.bool_]

def walk(
    codes: Codes,
    feature: Integers,
    left: Flags,
    children: Integers,
    leaf: Integers,
    depth: int,
    found: Integers,
) -> None: ...
def grow(
    codes: Codes,
    y: Integers,
    weights: Floats,
    ranks: Integers,
    starts: Integers,
    lonely: Flags,
    deepest: int,
    least: float,
    feature: Integers,
    first: Integers,
    left: Flags,
    counts: Floats,
) -> tuple[int, int]: ...
def boost(
    codes: Codes,
    target: Floats,
    weights: Floats,
    others: Codes,
    others_target: Floats,
    others_weights: Floats,
    others_kinds: Integers,
    more: Codes,
    odds: bool,
    width: int,
    rounds: int,
    patience: int,
    depth: int,
    rate: float,
    found: Floats,
    further: Floats,
) -> None: ...
def play(
    times: Floats,
    node_weights: Floats,
    baseline_rows: Integers,
    target_rows: Integers,
    baseline_weights: Floats,
    target_weights: Floats,
    drawn: Floats,
    draws: Integers,
    where: Integers,
    before: Floats,
    after: Floats,
    first: Floats,
    last: Floats,
    values: Floats,
    variances: Floats,
    risks: Floats,
) -> None: ...
