"""Single predictions, which the dashboard looks up by the id of their record."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from itertools import islice
from typing import Any

import orjson

from explain_client.messages import Prediction
from explain_sidecar.settings import Settings

MOST, MOST_BYTES = 20_000, 32 * 2**20
"""Predictions that are kept, and bytes of their JSON, at the most: over all partitions, each of which has an equal share."""

FOUND = 5
"""Predictions with the same id that are shown, the newest."""


class NewestPredictions:
    """The newest predictions of a partition whose records have an id, as JSON."""

    def __init__(self) -> None:
        self._kept: deque[tuple[str, bytes]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, prediction: Prediction, partitions: int) -> None:
        """Keep one more, and as many of those before it as the share of one of so many partitions allows."""
        if prediction.id is None:
            return
        self._kept.append((prediction.id, prediction.raw))
        self._bytes += len(prediction.raw)
        while len(self._kept) > MOST // partitions or self._bytes > MOST_BYTES // partitions:
            self._bytes -= len(self._kept.popleft()[1])

    def of(self, wanted: str) -> list[Prediction]:
        """Those with this id, ``FOUND`` at the most, the newest first."""
        values = (value for known, value in reversed(self._kept) if known == wanted)
        return [Prediction.from_json(value) for value in islice(values, FOUND)]


def look_up(
    settings: Settings, kept: Collection[NewestPredictions], wanted: str
) -> tuple[int, dict[str, Any]]:
    """HTTP's status, and the predictions with this id, the newest first, each with its sentence; or a ``problem`` in words.

    No other ids are told: an id may be that of a person.
    """
    count, longest = sum(map(len, kept)), settings.record.max_string
    found: list[Prediction] = []
    status = 400
    if not settings.predictions.enabled:
        status, problem = 404, "Predictions are not published: set predictions.enabled to look one up."
    elif settings.record.id is None:
        status, problem = 404, "Records have no id to look a prediction up by: set record.id."
    elif not wanted:
        problem = f"Give the id of a record; the newest {count:,} predictions are kept here."
    elif len(wanted) > longest:
        problem = (
            f"The id has {len(wanted):,} characters; ids have {longest:,} at the most (record.max_string)."
        )
    else:
        status = 404
        found = [prediction for newest in kept for prediction in newest.of(wanted)]
        problem = (
            f"No prediction of this id is among the newest {count:,}, which are kept here; "
            "`explain-sidecar tail --predictions --from-beginning --json` has all that the topic holds."
        )
    if not found:
        return status, {"problem": problem, "predictions": []}
    found.sort(key=lambda one: (one.epoch, one.timestamp, one.offset), reverse=True)
    told = [{**orjson.loads(one.raw), "sentence": one.sentence()} for one in found[:FOUND]]
    return 200, {"problem": None, "predictions": told}
