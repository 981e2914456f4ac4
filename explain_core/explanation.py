"""The one result type of every estimator: values with their bands, and what they mean."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Status = Literal["warming", "ready"]


class Importance(NamedTuple):
    """Importance of one feature under one loss, in units of that loss; NaN where nothing is known yet.

    ``value`` is a mean over records, and ``std`` its standard error. The band from ``low`` to ``high`` is one for the mean of what was to be expected
    at each of them, see ``explain_core.smoothing.Smoother``. ``steady``: whether it describes the moment too; None where that is not known.

    >>> importance = Importance(value=0.5, std=0.05, low=0.4, high=0.6, steady=True)
    >>> importance.low > 0.0
    True
    """

    value: float
    std: float
    low: float
    high: float
    steady: bool | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """What an estimator knows after ``n`` explained records.

    Parameters
    ----------
    estimator, features, losses
        Their names; of a group of features that of the group.
    values, std
        The importances, losses × features, in units of the loss, and their standard errors.
    n
        Explained records.
    status
        "ready", or "warming" while there is no value.
    low, high
        Ends of the bands, NaN where there are too few records for one; by default ``width`` standard errors away.
    steady
        1 where the value describes the moment too, 0 where it has changed of late, NaN where that is not known.
    samples
        Losses × features × repeats, of estimators that repeat.
    metadata
        The settings that say what was estimated.

    >>> values, std = np.array([[0.5, 0.1]]), np.array([[0.05, 0.05]])
    >>> explanation = Explanation("ipfi", ("a", "b"), ("brier",), values, std, n=100, width=2.0)
    >>> explanation.importance()["b"]
    Importance(value=0.1, std=0.05, low=0.0, high=0.2, steady=None)
    >>> Explanation.from_json(explanation.to_json()).top(1)[0][0]
    'a'
    >>> explanation.to_frame().shape
    (2, 7)
    """

    estimator: str
    features: tuple[str, ...]
    losses: tuple[str, ...]
    values: NDArray[np.float64]
    std: NDArray[np.float64]
    n: int
    status: Status = "ready"
    low: NDArray[np.float64] = field(default=None)  # type: ignore[arg-type]
    high: NDArray[np.float64] = field(default=None)  # type: ignore[arg-type]
    steady: NDArray[np.float64] = field(default=None)  # type: ignore[arg-type]
    samples: NDArray[np.float64] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    width: InitVar[float] = 1.959963984540054

    def __post_init__(self, width: float) -> None:
        for name, side in (("low", -width), ("high", width), ("steady", np.nan)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, self.values + side * self.std)

    @property
    def variance(self) -> NDArray[np.float64]:
        """Variance of each value, losses × features, in squared units of the loss."""
        result: NDArray[np.float64] = self.std**2
        return result

    def importance(self, loss: str | None = None) -> dict[str, Importance]:
        """Importance per feature under a loss, by default the first."""
        return dict(zip(self.features, map(Importance._make, self.cells(loss)), strict=True))

    def cells(self, loss: str | None = None) -> Iterator[tuple[float, float, float, float, bool | None]]:
        """Value, std, low, high and steady of each feature under a loss, by default the first."""
        row = 0 if loss is None else self._row(loss)
        steady = [None if of != of else of > 0.0 for of in self.steady[row].tolist()]
        columns = (self.values, self.std, self.low, self.high)
        return zip(*[column[row].tolist() for column in columns], steady, strict=True)

    def top(self, k: int, loss: str | None = None) -> list[tuple[str, Importance]]:
        """The k features of largest value, the largest first; equal ones in the order of ``features``."""
        known = self.importance(loss).items()
        return sorted(known, key=lambda item: -item[1].value if item[1].value == item[1].value else math.inf)[
            :k
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; what is not known is None."""
        return {key.name: _plain(getattr(self, key.name)) for key in fields(self)}

    def to_json(self) -> str:
        """``to_dict`` as JSON. Raises ``ValueError`` where the metadata holds a number that is not finite."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Explanation:
        """The explanation that ``to_dict`` gave. Raises ``ValueError`` where a key is missing or a shape is wrong."""
        missing = [key.name for key in fields(cls) if key.name not in data]
        if missing:
            raise ValueError(
                f"explanation: {', '.join(missing)} is missing; pass what to_dict or to_json gave"
            )
        known = {key.name: data[key.name] for key in fields(cls)}
        losses, features, samples = tuple(data["losses"]), tuple(data["features"]), data["samples"]
        for name in ("values", "std", "low", "high", "steady"):
            known[name] = np.array(data[name], dtype=np.float64).reshape(len(losses), len(features))
        known["samples"] = None if samples is None else np.array(samples, dtype=np.float64)
        return cls(**{**known, "losses": losses, "features": features})

    @classmethod
    def from_json(cls, text: str | bytes) -> Explanation:
        """The explanation that ``to_json`` gave. Raises ``ValueError`` for anything else."""
        return cls.from_dict(json.loads(text))

    def to_frame(self) -> pd.DataFrame:
        """Long form, one row per loss and feature (needs pandas)."""
        import pandas as pd

        rows = [(loss, name, *cells) for loss in self.losses for name, cells in self.importance(loss).items()]
        return pd.DataFrame(rows, columns=["loss", "feature", *Importance._fields])

    def _row(self, loss: str) -> int:
        if loss not in self.losses:
            raise ValueError(f"loss: {loss!r} was not estimated; there are {', '.join(self.losses)}")
        return self.losses.index(loss)


def _plain(value: Any) -> Any:
    """An array as nested lists with None for what is not finite, a tuple as a list."""
    if isinstance(value, np.ndarray):
        return np.where(np.isfinite(value), value, None).tolist()  # type: ignore[call-overload]
    return list(value) if isinstance(value, tuple) else value
