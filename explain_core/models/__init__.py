"""One view of any model: a record in, a prediction out.

river works on dictionaries one at a time, scikit-learn and ONNX on arrays, a plain callable on a record; estimators
and the fold see ``Model`` alone.
"""

from explain_core.models.arrays import ArrayModel
from explain_core.models.base import FeatureKind, Labels, Model, PredictionError, Row, check_prediction
from explain_core.models.onnx import OnnxModel
from explain_core.models.wrapping import CallableModel, wrap

__all__ = [
    "ArrayModel",
    "CallableModel",
    "FeatureKind",
    "Labels",
    "Model",
    "OnnxModel",
    "PredictionError",
    "Row",
    "check_prediction",
    "wrap",
]
