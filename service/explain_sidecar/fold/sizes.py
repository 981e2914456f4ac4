"""How large a message can become: ``emit.max_bytes`` bounds each of them, whatever the records hold.

Every bound is a function of the settings and the state, so that a replay decides as the first run did.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import get_args, get_type_hints

import orjson

from explain_client.importance import Importance
from explain_client.periods import Driver, Mean
from explain_sidecar.errors import UserError
from explain_sidecar.settings import Settings
from explain_sidecar.settings.dependence import DependenceSettings

HEADROOM = 16_384
"""Largest overhead of a message in bytes: headers, the error of a dead letter, fields of fixed length, Kafka's frame."""


def _room(kind: type) -> int:
    """The most bytes of an object of a message, with the comma behind it, beside the texts in it. No number takes more than 24."""
    hints, size = get_type_hints(kind), len("{}")
    for each in fields(kind):
        types = {hints[each.name], *get_args(hints[each.name])}
        value = len("false") if bool in types else len('""') if str in types else 24
        size += len('"":,') + len(each.metadata.get("alias", each.name)) + value
    return size


MOST_SHIFTED = 10
"""Features that a message says of those that two models use otherwise."""

SHIFT = 1_500
"""Bytes of what features are used otherwise, beside their names, which are there ten times and five times in the sentence."""

ESTIMATED = 2_000
"""Bytes of the estimate of a loss beside the name of a feature, which may be in it twice."""

CELL = len(":") + _room(Importance)
"""Bytes of a feature's importance under a loss beside its name."""

MEAN = len(":") + _room(Mean)
"""The same of its mean over a period."""

DRIVER = _room(Driver)
"""The same of a driver."""

ESTIMATOR = 2_048
"""Bytes of an estimator in an explanation beside its features: settings, names of losses; and of a loss's difference between two models."""


class ExplanationSize:
    """The most bytes that an explanation can take, by the names of the features that it may have."""

    def __init__(self, settings: Settings) -> None:
        record, explainers = settings.record, settings.explainers
        losses = [len(explainer.losses or ("the default",)) for explainer in explainers]
        # A challenger has importances of its own, and there are their differences.
        times = 3 if settings.challenger.enabled else 1
        # A message has one segment of each explainer that keeps them.
        segmented = [
            (explainer.by, count) for explainer, count in zip(explainers, losses, strict=True) if explainer.by
        ]
        self._columns = times * sum(losses) + sum(count for _, count in segmented)
        about = times * sum(
            ESTIMATOR + 2 * len(orjson.dumps(chosen.name or chosen.kind)) for chosen in explainers
        )
        if times > 1:
            about += ESTIMATOR * self._columns
            about += len(orjson.dumps(settings.challenger.source))
            if settings.challenger.shift_every:
                # With models, which the server of HTTP does without.
                from explain_core.drift.change import NAMED

                about += SHIFT + 6 * (MOST_SHIFTED + NAMED) * record.max_string
        # JSON writes a control character with six bytes.
        identity = 6 * record.max_string if record.id else 0
        segments = sum(
            ESTIMATOR + 6 * (len(by) + record.max_string) + count * 2 * CELL for by, count in segmented
        )
        # Drivers, and the means over the period that ends and over those that do not.
        running = len({*settings.emit.periods} & {"alarm", "all"})
        periods = min(len(settings.emit.periods) - running, 1) + running
        about += (256 + 2 * MEAN * periods) * (1 + sum(losses))
        if settings.explain.estimated_loss:
            about += sum(losses) * (ESTIMATED + 12 * record.max_string)
        self._means = sum(losses), DRIVER + periods * MEAN, 1 + periods
        groups = sum(
            (times + (explainer.by is not None)) * count * _cells(explainer.groups)
            for count, explainer in zip(losses, explainers, strict=True)
        ) + self._averaged([name for explainer in explainers for name in explainer.groups])
        about += _curves(settings.partial_dependence, record.max_string)
        self._rest = HEADROOM + about + identity + groups + segments
        self._named = record.features or []
        if self.of(()) > settings.emit.max_bytes:
            raise UserError(
                f"emit.max_bytes: {settings.emit.max_bytes}: with these explainers, losses, groups and record.features an explanation "
                f"takes up to {self.of(())} bytes; raise it, and max.message.bytes of the output topics"
            )

    def of(self, names: Iterable[str]) -> int:
        """With features of these names, beside those of ``record.features``."""
        known = dict.fromkeys([*self._named, *names])
        return self._rest + self._columns * _cells(known) + self._averaged(known)

    def _averaged(self, names: Iterable[str]) -> int:
        """Drivers and means over periods of features."""
        rows, size, times = self._means
        return rows * sum(times * len(orjson.dumps(name)) + size for name in names)


def _curves(chosen: DependenceSettings, longest: int) -> int:
    """Of partial dependence: points, values, their errors and the shares between, and names of a feature and a class each."""
    curves = len(chosen.features) + 2 * chosen.top
    return curves * (300 + 4 * 25 * chosen.points + 2 * 6 * longest)


def _cells(names: Iterable[str]) -> int:
    return sum(len(orjson.dumps(name)) + CELL for name in names)
