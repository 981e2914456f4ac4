"""Explains single predictions of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from explain_core.artefacts.ensemble import TreeEnsemble
from explain_core.learners.linear import LinearLearner
from explain_core.losses import AnyTask
from explain_core.models import Labels, Model, Row, wrap
from explain_core.reasons.coalitions import CoalitionReasons
from explain_core.reasons.linear import LinearReasons
from explain_core.reasons.result import Reasons, Space
from explain_core.reasons.trees import TreeReasons

MAX_BACKGROUND = 10_000
"""Rows of a background."""


class PredictionExplainer:
    """Shapley values of single predictions against a background: interventional, so of the model, not of causes in the world.

    A coalition's worth is the mean prediction over the background for records that have the coalition's features from the record and all
    others from a row of the background (Lundberg et al. 2020). A feature that a record lacks is lacking in the coalition too: absence is a value.

    =================================  ==========================  =============================
    model                              ``space="margin"``          ``space="prediction"``
    =================================  ==========================  =============================
    trained trees, forest, boosting    exact                       exact where it is a straight line in the margin; rescaled where it
                                                                   is a curve of one margin
    linear learner, of numbers         exact                       exact
    linear learner, logistic           exact                       as any other
    any other                          ``ValueError``              exact, or sampled, see ``most``
    =================================  ==========================  =============================

    Parameters
    ----------
    model
        Whatever ``explain_core.wrap`` takes; it is read, and does not learn. The reasons are those of the model as it is when it is asked.
    background
        Records, 1 to 10,000, and fewer for very large ensembles; often those of a reservoir.
    task, features, classes
        Of a model that is no ``explain_core.Model`` yet, see ``explain_core.wrap``.
    space
        Whether predictions are explained, or the sums before the link function: log-odds of a classifier.
    most
        Predictions for one record where only the model can be asked: if all coalitions take more, orders are sampled.
    seed
        Of these orders; each record has the same.

    Raises ``ValueError`` for a space that the model has not, and for a background of no row or too many.

    >>> explainer = PredictionExplainer(lambda x: 2.0 * x["a"] + x["b"], [{"a": 0, "b": 0}, {"a": 1, "b": 0}], task="regression")
    >>> reasons = explainer.explain([{"a": 3, "b": 4}])
    >>> [round(value, 9) for value in reasons.values[0, :, 0].tolist()], reasons.baseline.tolist(), reasons.method
    ([5.0, 4.0], [1.0], 'exact')
    """

    def __init__(
        self,
        model: Any,
        background: Sequence[Row],
        *,
        task: AnyTask | None = None,
        space: Space = "prediction",
        features: Sequence[str] | None = None,
        classes: Labels | None = None,
        most: int = 32_768,
        seed: int = 0,
    ) -> None:
        if space not in get_args(Space):
            raise ValueError(f"space: {space!r} is not one of {', '.join(get_args(Space))}")
        _rows("background", background)
        if not 1 <= len(background) <= MAX_BACKGROUND:
            raise ValueError(f"background: {len(background)} rows; give 1 to {MAX_BACKGROUND:,}")
        if most < 1:
            raise ValueError(f"most: {most} predictions; give 1 or more")
        if isinstance(model, Model):
            task = task or model.task
        self.model = wrap(model, task, features, classes)  # type: ignore[arg-type]
        self.size = len(background)
        self._reasons: TreeReasons | LinearReasons | CoalitionReasons
        if isinstance(self.model, TreeEnsemble) and TreeReasons.fits(self.model, space):
            self._reasons = TreeReasons(self.model, background, space)
        elif isinstance(self.model, LinearLearner) and LinearReasons.fits(self.model, space):
            self._reasons = LinearReasons(self.model, background, space)
        elif space == "prediction":
            self._reasons = CoalitionReasons(self.model, background, most, seed)
        else:
            raise ValueError(
                f"space: margin, and {self.model.title} has none that is known; use space='prediction'"
            )

    def explain(self, records: Sequence[Row]) -> Reasons:
        """The reasons of the predictions of some records; they may differ in the last bits from those of each alone."""
        return self._reasons.explain(_rows("records", records))

    def replace(self, slot: int, x: Row) -> None:
        """Put a record in the place of a row of the background. Raises ``IndexError`` where there is no such row."""
        if not 0 <= slot < self.size:
            raise IndexError(f"slot: {slot}, and the background has the rows 0 to {self.size - 1}")
        self._reasons.replace(slot, x)


def _rows(name: str, rows: Sequence[Row]) -> Sequence[Row]:
    if not hasattr(rows, "__len__") or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(
            f"{name}: a {type(rows).__name__} is no list of dicts; of a data frame pass to_dict('records'), of one record [record]"
        )
    return rows
