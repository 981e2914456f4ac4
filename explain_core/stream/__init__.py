"""One heart: a model on a stream with all that is known of it, as the sidecar runs it and as the library offers it."""

from explain_core.stream.events import Alarm, Event, Record, RiskChanged, Subject
from explain_core.stream.explainer import StreamExplainer
from explain_core.stream.options import (
    Alarming,
    Comparing,
    Explainer,
    Following,
    Options,
    Reasoning,
    Windowing,
)
from explain_core.stream.reasoner import Predicted

__all__ = [
    "Alarm",
    "Alarming",
    "Comparing",
    "Event",
    "Explainer",
    "Following",
    "Options",
    "Predicted",
    "Reasoning",
    "Record",
    "RiskChanged",
    "StreamExplainer",
    "Subject",
    "Windowing",
]
