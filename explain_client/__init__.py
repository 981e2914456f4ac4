"""Read the explanation sidecar's output: typed, committed, verified.

from explain_client import Explanations

with Explanations("127.0.0.1:9092", "explanations") as stream:
    for explanation in stream:
        print(explanation.time, explanation.importance("ipfi", "cross_entropy").top(5))
"""

from explain_client.alarm import Alarm, Moment, SegmentName, Side
from explain_client.challenger import Challenger, ExplanationShift, FeatureShift, LossDifference
from explain_client.dead_letter import DeadLetterHeaders
from explain_client.drift import AlarmReference, Drift, Window
from explain_client.errors import ChainError, ClientError, SchemaError
from explain_client.explanation import (
    EstimatedLoss,
    Explanation,
    LabelDelay,
    ModelVersion,
    PartialDependence,
    SettledLoss,
    Skew,
)
from explain_client.frames import to_pandas
from explain_client.importance import Importance, Importances, Losses
from explain_client.latest import latest, newest_segments, recent
from explain_client.merge import Merged, MergedImportance, merge
from explain_client.periods import Driven, Driver, Mean, Period, merge_periods
from explain_client.position import PartitionPosition, Position
from explain_client.prediction import EarlierPrediction, Prediction, Reason
from explain_client.row import Row
from explain_client.segments import Segment, SegmentLosses
from explain_client.stories import Acknowledged, Expected, Stories, Story, control_of
from explain_client.stream import Alarms, Drifts, Explanations, Predictions, Rows, Start

__all__ = [
    "Acknowledged",
    "Alarm",
    "AlarmReference",
    "Alarms",
    "ChainError",
    "Challenger",
    "ClientError",
    "DeadLetterHeaders",
    "Drift",
    "Drifts",
    "Driven",
    "Driver",
    "EarlierPrediction",
    "EstimatedLoss",
    "Expected",
    "Explanation",
    "ExplanationShift",
    "Explanations",
    "FeatureShift",
    "Importance",
    "Importances",
    "LabelDelay",
    "LossDifference",
    "Losses",
    "Mean",
    "Merged",
    "MergedImportance",
    "ModelVersion",
    "Moment",
    "PartialDependence",
    "PartitionPosition",
    "Period",
    "Position",
    "Prediction",
    "Predictions",
    "Reason",
    "Row",
    "Rows",
    "SchemaError",
    "Segment",
    "SegmentLosses",
    "SegmentName",
    "SettledLoss",
    "Side",
    "Skew",
    "Start",
    "Stories",
    "Story",
    "Window",
    "control_of",
    "latest",
    "merge",
    "merge_periods",
    "newest_segments",
    "recent",
    "to_pandas",
]
