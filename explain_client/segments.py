"""Segments of several explanations: each explanation tells of one of an estimator's segments."""

from __future__ import annotations

from collections.abc import Iterable

from explain_client.explanation import Explanation, Segment


def newest_segments(
    explanations: Iterable[Explanation], estimator: str | None = None
) -> dict[str | None, Segment]:
    """What was told last of each segment of an estimator, by value, by default of the first that has any.

    The explanations are those of one partition and epoch, in their order, such as of ``Explanations`` with ``follow=False``.
    """
    found: dict[str | None, Segment] = {}
    for explanation in explanations:
        segments = explanation.segments
        segment = next(iter(segments.values()), None) if estimator is None else segments.get(estimator)
        if segment is not None:
            found[segment.value] = segment
    return found
