"""One importance per feature from the explanations of several partitions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from explain_client.explanation import Explanation
from explain_client.importance import Importance, pick


@dataclass(frozen=True, slots=True)
class MergedImportance:
    """Weighted average over partitions, in units of the loss.

    ``std`` is its standard error, with the partitions' errors independent; ``spread`` the weighted standard deviation of
    the partitions' values: how different the partition models are.
    """

    value: float
    std: float | None
    spread: float


@dataclass(frozen=True, slots=True)
class Merged:
    """An average over partition models: no model that exists has these importances.

    ``weights`` are the partitions' shares of the window's records and add up to 1; ``warming`` counts the partitions that
    were left out because they have no values yet.
    """

    importances: Mapping[str, Mapping[str, Mapping[str, MergedImportance]]]
    weights: Mapping[tuple[str, int], float]
    warming: int
    label: str = "average over partition models"

    def importance(
        self, estimator: str | None = None, loss: str | None = None
    ) -> Mapping[str, MergedImportance]:
        """By feature, under an estimator and a loss, by default the first ones. ``KeyError`` names those known."""
        found: Mapping[str, MergedImportance] = pick(
            pick(self.importances, estimator, "estimator"), loss, "loss"
        )
        return found


def merge(explanations: Iterable[Explanation], window: int = 10_000) -> Merged:
    """Merge the newest explanation of each partition, weighted by its share of the last ``window`` records of all.

    Give it the explanations of the window: ``recent(servers, topic)``, or what a stream yielded. The last records are those
    of latest event time; an explanation stands for the records since the one before it. One explanation per
    partition (``latest``) tells nothing of the traffic, so that partitions weigh the same where they emit alike.

    With weights wₚ, value = Σ wₚ vₚ, std = √Σ wₚ² sₚ² and spread = √Σ wₚ (vₚ − value)². A feature that a partition does not
    know is averaged over the others. Raises ``ValueError`` where there is nothing to merge, or explanations of several sidecars.
    """
    if window < 1:
        raise ValueError(f"window: {window} is not a number of records; give 1 or more")
    known = list(explanations)
    newest: dict[tuple[str, int], Explanation] = {}
    for explanation in known:
        before = newest.get((explanation.topic, explanation.partition))
        if before is None or (before.epoch, before.seq) < (explanation.epoch, explanation.seq):
            newest[explanation.topic, explanation.partition] = explanation
    ready = {key: explanation for key, explanation in newest.items() if explanation.status != "warming"}
    if not newest:
        raise ValueError("explanations: there are none to merge")
    names = {explanation.app_id: None for explanation in known}
    if len(names) > 1:
        raise ValueError(
            f"explanations: they are of the sidecars {', '.join(names)}; give those of one app_id"
        )
    weights = _weights(
        [explanation for explanation in known if (explanation.topic, explanation.partition) in ready], window
    )
    importances: dict[str, dict[str, dict[str, MergedImportance]]] = {}
    for estimator, loss, feature in _names(ready.values()):
        cells = [
            (weights[key], cell)
            for key, explanation in ready.items()
            if (cell := explanation.importances.get(estimator, {}).get(loss, {}).get(feature)) is not None
        ]
        merged = _average(cells)
        if merged is not None:
            importances.setdefault(estimator, {}).setdefault(loss, {})[feature] = merged
    return Merged(importances, weights, len(newest) - len(ready))


def _weights(explanations: list[Explanation], window: int) -> dict[tuple[str, int], float]:
    shares = {(explanation.topic, explanation.partition): 0.0 for explanation in explanations}
    left = float(window)
    for explanation in sorted(explanations, key=_order, reverse=True):
        part = min(left, explanation.records / (explanation.seq + 1))
        shares[explanation.topic, explanation.partition] += part
        left -= part
    total = sum(shares.values())
    return {key: share / total for key, share in shares.items()}


def _order(explanation: Explanation) -> tuple[int, str, int, int, int]:
    return explanation.timestamp, explanation.topic, explanation.partition, explanation.epoch, explanation.seq


def _names(explanations: Iterable[Explanation]) -> list[tuple[str, str, str]]:
    found = {
        (estimator, loss, feature): None
        for explanation in explanations
        for estimator, by_loss in explanation.importances.items()
        for loss, features in by_loss.items()
        for feature in features
    }
    return list(found)


def _average(cells: list[tuple[float, Importance]]) -> MergedImportance | None:
    values = [(weight, cell.value, cell.std) for weight, cell in cells if cell.value is not None]
    total = sum(weight for weight, _, _ in values)
    if total == 0:
        return None
    value = sum(weight * v for weight, v, _ in values) / total
    spread = math.sqrt(sum(weight * (v - value) ** 2 for weight, v, _ in values) / total)
    errors = [weight * s for weight, _, s in values if s is not None]
    std = math.hypot(*errors) / total if len(errors) == len(values) else None
    return MergedImportance(value, std, spread)
