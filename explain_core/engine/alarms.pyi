import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CLIP: float
PAIRS: float
SAFETY: float
PER_LEVEL: int
BLOCKS: int
SUM: int
SQUARE: int
CUBE: int
MEANS: int
PRODUCTS: int
OWN: int
OWN_SQUARE: int
IN_SEASON: int
FIELDS: int
AGE: int
CENTRE: int
REACH: int
FIRST: int
SECOND: int
CLIPPED: int
LAST: int
MIN_CHANGE: int
N_CELL: int
ONSET: int
EARLIEST: int
LATEST: int
EVIDENCE: int
TIMES: int
CUT: int
N_0: int
MEAN_0: int
VARIANCE_0: int
N_1: int
MEAN_1: int
VARIANCE_1: int
LEAST: int
N_FOUND: int
WARM: int
FIRST_ONSET: int
H: int
BY_0: int
BY_1: int
TOTAL: int
NOISE: int
DRAWS: int

def end_block(
    pending: Floats,
    min_change: Floats,
    constants: Floats,
    cells: Floats,
    buckets: Floats,
    sizes: Integers,
    starts: Integers,
    found: Floats,
    hours: Integers,
    lengths: Integers,
    profile: Floats,
    visits: Integers,
    seasons: Floats,
) -> int: ...
