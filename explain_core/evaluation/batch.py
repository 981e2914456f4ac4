"""All perturbed copies of a record in one call of the model."""

from __future__ import annotations

from collections.abc import Iterator

from explain_core.evaluation.generic import GenericEvaluator
from explain_core.losses import Prediction
from explain_core.models import Row


class BatchEvaluator(GenericEvaluator):
    """For models on arrays, where a call costs more than a row: scikit-learn and its like, ONNX.

    A model may add up a batch in another order than a single row, which shows in the last bits.
    """

    name = "batch"

    def predict_copies(self, copies: Iterator[Row]) -> list[Prediction]:
        return self.model.checked_predictions([dict(copy) for copy in copies])
