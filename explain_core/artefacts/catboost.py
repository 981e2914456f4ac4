"""CatBoost's own format, predicted by CatBoost itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explain_core.artefacts.artefact import ArtefactError, named, needs
from explain_core.losses import Prediction, Task
from explain_core.models import Model, Row
from explain_core.models.base import BatchModel

_SEVERAL = {
    "MultiRMSE", "MultiRMSEWithMissingValues", "MultiQuantile", "RMSEWithUncertainty", "MultiLogloss", "MultiCrossEntropy",
}  # fmt: skip


_EXPONENTIAL = {"Poisson", "Tweedie"}
_OF_CLASSES = {"Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll"}


class CatBoostModel(BatchModel):
    """A trained CatBoost model; categories are strings or whole numbers, a missing category the text nan."""

    features: Sequence[str]

    def __init__(
        self, model: Any, task: Task, features: Sequence[str], classes: Sequence[Any] | None
    ) -> None:
        super().__init__(model, task)
        self.features = list(features)
        self.classes = None if classes is None else list(classes)
        numeric = model._get_float_feature_indices()
        self.kinds = {self.features[column]: "number" for column in numeric}
        self._nominal = frozenset(np.asarray(self.features)[model.get_cat_feature_indices()].tolist())

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        if not rows:
            return []
        nominal = self._nominal
        table: Any = [
            [_category(x.get(name)) if name in nominal else x.get(name, np.nan) for name in self.features]
            for x in rows
        ]
        if not nominal:
            table = np.array(table, np.float32)
        kind = (
            "Probability"
            if self.classes is not None
            else "Exponent"
            if _loss(self.wrapped).split(":")[0] in _EXPONENTIAL
            else "RawFormulaVal"
        )
        found = np.asarray(self.wrapped.predict(table, prediction_type=kind, thread_count=1)).tolist()
        if self.classes is None:
            return list(found)
        return [dict(zip(self.classes, line, strict=True)) for line in found]


def read(data: bytes, features: Sequence[str] | None) -> Model:
    """The model in the bytes of a .cbm file. Raises ``ArtefactError``."""
    with needs("catboost", "catboost"):
        import catboost
    try:
        model = catboost.CatBoost()
        model.load_model(blob=data)
        own = [str(name) for name in model.feature_names_]
        plain = own == [str(column) for column in range(len(own))]
        names = named("CatBoost", [] if plain and features is not None else own, features, len(own))
        known = list(model.classes_) if len(model.classes_) else None
        loss = _loss(model)
        if loss.split(":")[0] in _SEVERAL:
            raise ArtefactError(
                f"CatBoost: the loss {loss} is that of several numbers or labels at once; use a model of one"
            )
        if known is None and loss.split(":")[0] in _OF_CLASSES:
            known = [0, 1]
        kind: Task = "regression" if known is None else "classification"
        return CatBoostModel(model, kind, names, [_plain(label) for label in known] if known else None)
    except ArtefactError:
        raise
    except Exception as error:  # CatBoost raises types of its own for damaged files
        raise ArtefactError(f"CatBoost: {str(error).splitlines()[0]}; the file is damaged") from None


def _loss(model: Any) -> str:
    params = model.get_all_params() if hasattr(model, "get_all_params") else {}
    return str(params.get("loss_function", ""))


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _category(value: Any) -> str:
    return (
        "nan"
        if value is None or value != value
        else str(int(value))
        if isinstance(value, bool | float)
        else str(value)
    )
