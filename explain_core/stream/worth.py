"""Whether a model is worse than no model, so that its importances say nothing."""

from __future__ import annotations

import math

import msgspec

from explain_core.alarms.detector import Position
from explain_core.models.empty import Performance
from explain_core.state import Count, State

SLACK = 0.01
"""Of no model's loss: a model is worse only where its loss is above that by more, and for certain. A mixture may be as bad as no model, and hardly worse."""
BEYOND = 10.0
"""So many times the loss of no model is out of all proportion, whatever the band."""
CONFIDENCE = 0.999
"""Of the band that makes it certain: it is looked at again with each explanation."""
LEAST = 100
"""Records before which nothing is out of proportion."""


class WorthData(State, frozen=True):
    """Offset and event time of the record since which the model is worse; None where it is not."""

    offset: Count
    timestamp: int


class Worth:
    """The state of a model: worse than no model since a record, or not.

    It becomes worse where the band of its gain under the first loss lies below −1 % of no model's loss, or where its loss is more than ten
    times that; it recovers when the mean of the gain is above −1 % again, and the loss is in proportion.
    """

    def __init__(self) -> None:
        self.since: WorthData | None = None

    def judge(self, performance: Performance, records: int, position: Position) -> str | None:
        """Look at the losses after a record; a notice where the state has changed."""
        name = performance.losses[0].name
        model, empty, _ = performance.of(name)
        gain, slack = float(performance.gains[0]), SLACK * abs(empty)
        beyond = records >= LEAST and (not math.isfinite(model) or model > BEYOND * empty > 0.0)
        if self.since is None and (
            beyond or (gain < -slack and float(performance.bands(CONFIDENCE)[2][0, 1]) < -slack)
        ):
            self.since = WorthData(position.offset, position.timestamp)
            return (
                f"the model is worse than no model: {name} {model:.4g}, and {empty:.4g} without any feature; "
                "its importances say nothing"
            )
        if self.since is not None and not beyond and gain >= -slack:
            since, self.since = self.since, None
            return f"the model is no longer worse than no model, as it was since offset {since.offset}"
        return None

    def about(self) -> dict[str, int] | None:
        """As a message has it."""
        return None if self.since is None else msgspec.structs.asdict(self.since)
