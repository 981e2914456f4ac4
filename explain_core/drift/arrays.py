"""The two kinds of arrays here."""

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
"""Codes of bins, classes or cells."""
Values = NDArray[np.float64]
"""Probabilities, losses, weights."""
Flags = NDArray[np.bool_]


def totals(cells: Codes, weights: Values, n: int) -> Values:
    """The sum of the weights in each of n cells, in the order of the rows."""
    return np.bincount(cells, weights=weights, minlength=n).astype(np.float64, copy=False)
