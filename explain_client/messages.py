"""The sidecar's messages as frozen dataclasses: the one source of what the topics carry.

The client decodes into them, the service writes their field names, and the JSON Schemas and the AsyncAPI document are
generated from their metadata: description, unit (``x-unit``), examples and bounds.
"""

from typing import Any

from explain_client.alarm import Alarm, Moment, SegmentName, Side
from explain_client.challenger import Challenger, ExplanationShift, FeatureShift, LossDifference
from explain_client.dead_letter import DeadLetterHeaders
from explain_client.drift import AlarmReference, Drift, Window
from explain_client.explanation import (
    EstimatedLoss,
    Explanation,
    LabelDelay,
    ModelVersion,
    PartialDependence,
    SettledLoss,
    Skew,
)
from explain_client.fields import is_date, schema_of, unframed, utc
from explain_client.importance import Importance, Importances, Losses
from explain_client.prediction import EarlierPrediction, Prediction, Reason
from explain_client.row import Row
from explain_client.segments import Segment, SegmentLosses

OUTPUTS: dict[str, Any] = {kind.called[1]: kind for kind in (Explanation, Drift, Alarm, Row, Prediction)}
"""The messages of each output topic, by its setting."""

__all__ = [
    "OUTPUTS",
    "Alarm",
    "AlarmReference",
    "Challenger",
    "DeadLetterHeaders",
    "Drift",
    "EarlierPrediction",
    "EstimatedLoss",
    "Explanation",
    "ExplanationShift",
    "FeatureShift",
    "Importance",
    "Importances",
    "LabelDelay",
    "LossDifference",
    "Losses",
    "ModelVersion",
    "Moment",
    "PartialDependence",
    "Prediction",
    "Reason",
    "Row",
    "Segment",
    "SegmentLosses",
    "SegmentName",
    "SettledLoss",
    "Side",
    "Skew",
    "Window",
    "is_date",
    "schema_of",
    "unframed",
    "utc",
]
