"""The views that lay partitions side by side: the overview, and the comparison of their importances."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from explain_client.merge import merge
from explain_sidecar.http.feed import Feed
from explain_sidecar.http.history import (
    START,
    Column,
    History,
    column_of,
    half_of,
    judged_by,
    losses_of,
    rounded,
)
from explain_sidecar.http.partition import Partition, ShownVersion

DRIVERS = 3
COURSE = 60
"""Points of a small chart."""

NEWEST_ALARMS = 50


def overview(known: Mapping[int, Partition], wanted: Column) -> dict[str, Any]:
    """Of every partition its risk against no model, its drivers, its state, and when there were alarms."""
    alarms = [
        {"partition": number, **alarm} for number, partition in known.items() for alarm in partition.alarms
    ]
    alarms.sort(key=lambda alarm: alarm["onset"], reverse=True)
    return {
        "partitions": [
            _summary(partition, chosen, column_of(chosen.history, wanted))
            for partition in known.values()
            if (chosen := partition.shown) is not None
        ],
        "alarms": alarms[:NEWEST_ALARMS],
    }


def _summary(partition: Partition, chosen: ShownVersion, column: Column) -> dict[str, Any]:
    newest = chosen.newest
    estimator, loss = column
    cells = newest.importances.get(estimator, {}).get(loss, {})
    judged = judged_by(newest, loss)
    model, empty = losses_of(newest.performance.get(judged))
    driven = newest.drivers.get(estimator, {}).get(loss)
    sure = [driver.feature for driver in driven.drivers if driver.feature in cells] if driven else []
    likely = sorted((name for name in cells if cells[name].value is not None and name not in sure), key=lambda name: -(cells[name].value or 0.0))  # fmt: skip
    return {
        "partition": partition.number,
        "status": newest.status,
        "worse": newest.worse_since is not None,
        "records": newest.records,
        "rejected": newest.rejected_recently,
        "lag": partition.lag,
        "timestamp": newest.timestamp,
        "broken": partition.broken is not None,
        "loss": judged,
        "model": model,
        "empty": empty,
        "drivers": [] if newest.worse_since else [{"feature": name, "value": rounded(cells[name].value), "sure": name in sure} for name in [*sure, *likely][:DRIVERS]],
        "course": _course(chosen.history, judged),
        "alarms": sorted(alarm["onset"] for alarm in partition.alarms),
    }  # fmt: skip


def _course(history: History, loss: str) -> dict[str, Any]:
    """Both losses at ``COURSE`` points at the most, of all that was seen; the newest is one of them."""
    points = history.charted()
    step = max(-(-len(points) // COURSE), 1)
    points = points[(len(points) - 1) % step :: step] if points else []
    model, empty = history.risks(loss, points)
    return {"times": history.times(points), "model": model, "empty": empty}


def grid(feed: Feed, known: Mapping[int, Partition], column: Column, feature: str) -> dict[str, Any]:
    """The newest importance of every feature in every partition, and their average; the largest first.

    ``compared`` is the feature that has its bands too, by partition.
    """
    estimator, loss = column
    newest = [partition.shown.newest for partition in known.values() if partition.shown is not None]
    cells = [explanation.importances.get(estimator, {}).get(loss, {}) for explanation in newest]
    shown = [
        replace(explanation, importances={estimator: {loss: by_feature}})
        for explanation, by_feature in zip(newest, cells, strict=True)
    ]
    last = {explanation.partition: (explanation.epoch, explanation.seq) for explanation in newest}
    merged = merge([*(message for message in feed.window if (message.epoch, message.seq) < last.get(message.partition, START)), *shown])  # fmt: skip
    average = merged.importances.get(estimator, {}).get(loss, {})
    features = sorted(
        dict.fromkeys(name for by_feature in cells for name in by_feature),
        key=lambda name: -average[name].value if name in average else math.inf,
    )
    compared = feature if feature in features else next(iter(features), "")
    return {
        "partitions": [explanation.partition for explanation in newest],
        "features": features,
        "values": [
            [rounded(by_feature[name].value if name in by_feature else None) for by_feature in cells]
            for name in features
        ],
        "label": merged.label,
        "warming": merged.warming,
        "average": [
            [rounded(value) for value in (average[name].value, average[name].std, average[name].spread)]
            if name in average
            else [None, None, None]
            for name in features
        ],
        "compared": compared,
        "halves": [rounded(half_of(by_feature.get(compared))) for by_feature in cells],
        "losses": [losses_of(explanation.performance.get(loss)) for explanation in newest],
    }
