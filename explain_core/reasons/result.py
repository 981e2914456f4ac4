"""The reasons of predictions, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Space = Literal["prediction", "margin"]
Method = Literal["exact", "rescaled", "sampled"]


class Reason(NamedTuple):
    """What one feature's value adds to a prediction, and the standard error of that: 0 unless it was sampled."""

    feature: str
    value: float
    std: float


@dataclass(frozen=True, eq=False)
class Reasons:
    """Shapley values of predictions: ``baseline`` + the sum of ``values`` over the features = ``prediction``.

    ``values`` and ``std`` are records × ``features`` × outputs, ``prediction`` is records × outputs and ``baseline`` the mean prediction over the
    background, by output. ``outputs`` are the labels, or None alone for a number. In the ``space`` "margin" all are sums before
    the link function; where one number stands for two classes, it is that of the label in ``outputs``.

    ``method`` says how they were found. "exact": the values of the definition. "rescaled": those of the margin against each row of the
    background, each multiplied by the change of the prediction per change of the margin. "sampled": estimates from random
    orders of the features, with their standard error ``std``.

    >>> one = Reasons(("a", "b"), (None,), np.array([[[0.5], [-2.0]]]), np.zeros((1, 2, 1)), np.array([[1.5]]), np.array([3.0]), "prediction", "exact")
    >>> one.top(1)
    [Reason(feature='b', value=-2.0, std=0.0)]
    """

    features: tuple[str, ...]
    outputs: tuple[Any, ...]
    values: Array
    std: Array
    prediction: Array
    baseline: Array
    space: Space
    method: Method

    def top(self, k: int, output: Any = None, record: int = 0) -> list[Reason]:
        """The k reasons of largest absolute value, the largest first; equal ones in the order of ``features``.

        ``output`` is a label, by default the one that is most probable. Raises ``ValueError`` where there is no such label.
        """
        place = self.place(output, record)
        values, std = self.values[record, :, place].tolist(), self.std[record, :, place].tolist()
        known = [Reason(*one) for one in zip(self.features, values, std, strict=True)]
        return sorted(known, key=lambda one: -abs(one.value))[:k]

    def place(self, output: Any = None, record: int = 0) -> int:
        """The place of a label in ``outputs``, by default that of the most probable one."""
        if output is None:
            return int(np.argmax(self.prediction[record]))
        if output not in self.outputs:
            raise ValueError(f"output: {output!r} is not one of {', '.join(map(repr, self.outputs))}")
        return self.outputs.index(output)

    def to_frame(self) -> pd.DataFrame:
        """Long form, one row per record, output and feature (needs pandas)."""
        import pandas as pd

        n, n_features, n_outputs = self.values.shape
        record, feature, output = np.indices((n, n_features, n_outputs)).reshape(3, -1)
        return pd.DataFrame(
            {
                "record": record,
                "feature": [self.features[i] for i in feature],
                "output": [self.outputs[i] for i in output],
                "value": self.values.ravel(),
                "std": self.std.ravel(),
            }
        )
