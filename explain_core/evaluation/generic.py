"""Perturbed copies of a record, predicted one by one: right for every model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from explain_core.losses import Prediction
from explain_core.models import Model, Row, check_prediction
from explain_core.players import Player

_ABSENT: Any = object()


class GenericEvaluator:
    """Builds each copy and asks the model, unless the copy equals one whose prediction is known.

    Raises ``ValueError`` where the prediction for a copy is not finite or not of the task's shape.
    """

    name = "generic"

    def __init__(self, model: Model) -> None:
        self.model = model

    def predict(self, x: Row) -> Prediction:
        """The model's prediction, checked."""
        prediction = self.model.predict(x)
        check_prediction(prediction, self.model.task)
        return prediction

    def replaced(self, x: Row, base: Prediction, player: Player, rows: Sequence[Row]) -> list[Prediction]:
        """Predictions for x with the player's features taken from each row (iPFI's copies).

        A feature that a row lacks is absent from the copy too: absence is a value.
        """
        predict = self.predict
        out = []
        for row in rows:
            changed = False
            copy: dict[str, Any] = {}
            for name in player.features:
                value = row.get(name, _ABSENT)
                if value is not (own := x.get(name, _ABSENT)) and value != own:
                    if not changed:
                        copy, changed = dict(x), True
                    if value is _ABSENT:
                        del copy[name]
                    else:
                        copy[name] = value
            out.append(predict(copy) if changed else base)
        return out

    def start(self, rows: Sequence[Row]) -> Joining:
        """Predictions for the rows themselves, the empty coalition, before features of x join them."""
        return Joining(self.predict, [dict(row) for row in rows])


class Joining:
    """Reservoir rows that take over the features of a record, player by player (iSAGE's copies)."""

    def __init__(self, predict: Callable[[Row], Prediction], copies: list[dict[str, Any]]) -> None:
        self._predict = predict
        self._copies = copies
        self._known: list[Prediction | None] = [None] * len(copies)

    def predictions(self) -> list[Prediction]:
        """Predictions for the copies as they are now."""
        known, predict = self._known, self._predict
        for k, copy in enumerate(self._copies):
            if known[k] is None:
                known[k] = predict(copy)
        return known  # type: ignore[return-value]

    def join(self, x: Row, player: Player) -> None:
        """Let the player's features have the values of x in every copy."""
        for k, copy in enumerate(self._copies):
            for name in player.features:
                value = x.get(name, _ABSENT)
                if value is not (own := copy.get(name, _ABSENT)) and value != own:
                    self._known[k] = None
                    if value is _ABSENT:
                        del copy[name]
                    else:
                        copy[name] = value
