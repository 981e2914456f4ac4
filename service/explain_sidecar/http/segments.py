"""A partition's segments side by side: the records by the value of a feature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from explain_client import Segment
from explain_sidecar.http.history import half_of, losses_of, rounded

MAX_SEGMENTS = 100


def take_segments(known: dict[str, dict[str | None, Segment]], segments: Mapping[str, Segment]) -> None:
    """Take in what an explanation tells of segments, by estimator; the values of which nothing came for the longest go first."""
    for estimator, segment in segments.items():
        values = known.setdefault(estimator, {})
        if next(iter(values.values()), segment).feature != segment.feature:
            values.clear()
        values.pop(segment.value, None)
        values[segment.value] = segment
        if len(values) > MAX_SEGMENTS:
            del values[next(iter(values))]


def compared_segments(known: Mapping[str | None, Segment], loss: str, feature: str) -> dict[str, Any] | None:
    """Losses and the importance of a feature in each segment, the largest first, and their average by records; None without segments."""
    if not known:
        return None
    segments = sorted(known.values(), key=lambda segment: -segment.records)
    cells = [segment.importances.get(loss, {}).get(feature) for segment in segments]
    weighed = [
        (segment.records, cell.value)
        for segment, cell in zip(segments, cells, strict=True)
        if cell is not None and cell.value is not None
    ]
    total = sum(records for records, _ in weighed)
    average = sum(records * value for records, value in weighed) / total if total else None
    spread = math.sqrt(sum(records * (value - (average or 0.0)) ** 2 for records, value in weighed) / total) if total else None  # fmt: skip
    return {
        "by": segments[0].feature,
        "compared": feature,
        "average": rounded(average),
        "spread": rounded(spread),
        "rows": [
            {
                "value": segment.value,
                "records": segment.records,
                "importance": None if cell is None else rounded(cell.value),
                "half": rounded(half_of(cell)),
                "losses": losses_of(segment.performance.get(loss)),
            }
            for segment, cell in zip(segments, cells, strict=True)
        ],
    }  # fmt: skip
