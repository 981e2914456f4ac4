"""The sidecar's messages as frozen dataclasses: the one source of what the topics carry.

The client decodes into them, the service writes their field names, and the JSON Schemas and the AsyncAPI document are
generated from their metadata: description, unit (``x-unit``), examples and bounds.
"""

from typing import Any

from explain_client.alarm import Alarm
from explain_client.drift import Drift
from explain_client.explanation import Explanation
from explain_client.prediction import Prediction
from explain_client.row import Row

__all__ = ["OUTPUTS", "Alarm", "Drift", "Explanation", "Prediction", "Row"]

OUTPUTS: dict[str, Any] = {kind.called[1]: kind for kind in (Explanation, Drift, Alarm, Row, Prediction)}
"""The messages of each output topic, by its setting."""
