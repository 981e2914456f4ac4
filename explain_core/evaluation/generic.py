"""Perturbed copies of a record, predicted one by one, which is right for every model, or all in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from explain_core.evaluation.plan import EvaluationPlan
from explain_core.losses import Prediction
from explain_core.models import Model, Row
from explain_core.players import Player

_ABSENT: Any = object()


class GenericEvaluator:
    """Builds each copy and asks the model, unless the copy equals one whose prediction is known.

    Others evaluate the copies together, or whole contributions as compiled code; theirs are the same draws, and the
    same values up to what they document. Raises ``ValueError`` where the prediction for a copy is not finite or not of
    the task's shape.
    """

    name = "generic"

    def __init__(self, model: Model) -> None:
        self.model = model
        self.fallbacks = 0
        """Calls that compiled code had to leave to Python since the process started."""

    def predict_many(self, rows: Sequence[Row]) -> list[Prediction]:
        """The model's predictions for records of any kind, to the last bit."""
        return self.model.predict_many(rows)

    def predict_copies(self, copies: Iterator[Row]) -> list[Prediction]:
        """Predictions for records that are similar. A record may change once the next one is asked for."""
        predict = self.model.checked_prediction
        return [predict(copy) for copy in copies]

    def replaced(
        self, x: Row, base: Prediction, players: Iterable[Player], rows: Iterable[Sequence[Row]]
    ) -> list[list[Prediction]]:
        """For each player, predictions for x with the player's features taken from each of its rows (iPFI's copies).

        A feature that a row lacks is absent from the copy too: absence is a value.
        """
        places: list[list[int]] = []  # of the answers; −1 is the prediction for x itself

        def copies() -> Iterator[Row]:
            n = 0
            for player, drawn in zip(players, rows, strict=True):
                places.append([])
                for row in drawn:
                    copy = dict(x)
                    changed = _take(copy, row, player.features)
                    places[-1].append(n if changed else -1)
                    if changed:
                        n += 1
                        yield copy

        answers = self.predict_copies(copies())
        return [[base if place < 0 else answers[place] for place in of_player] for of_player in places]

    def joined(
        self, x: Row, rows: Sequence[Row], given: Sequence[str], joining: Sequence[Player], empty: bool
    ) -> list[list[Prediction]]:
        """Predictions for the rows as one player after the other gets the values of x (iSAGE's copies).

        Features ``given`` have the values of x from the start; ``empty`` asks for the predictions before the first
        player too.
        """
        steps: list[list[int]] = [[-1] * len(rows) for _ in range(empty + len(joining))]

        def copies() -> Iterator[Row]:
            n = 0
            for k, row in enumerate(rows):  # each copy differs from the one before by a player
                copy = dict(row)
                _take(copy, x, given)
                place = -1
                for step, places in enumerate(steps, start=not empty):
                    if (step and _take(copy, x, joining[step - 1].features)) or place < 0:
                        place = n
                        n += 1
                        yield copy
                    places[k] = place

        answers = self.predict_copies(copies())
        return [[answers[place] for place in places] for places in steps]

    def explain(self, plan: EvaluationPlan, x: Row, y: Any, base: Prediction | None) -> Prediction | None:
        """Let compiled code draw, and add the Δ of the plan's parts; returns the prediction that it explains, ``base`` where it is given.

        None where compiled code cannot; then nothing has changed.
        """
        return None

    def __getstate__(self) -> dict[str, Any]:
        """Only the model: compiled code is compiled again where it is needed."""
        return {"model": self.model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["model"])  # type: ignore[misc]


class BatchEvaluator(GenericEvaluator):
    """For models on arrays, where a call costs more than a row: scikit-learn and its like, ONNX.

    A model may add up a batch in another order than a single row, which shows in the last bits.
    """

    name = "batch"

    def predict_copies(self, copies: Iterator[Row]) -> list[Prediction]:
        return self.model.checked_predictions([dict(copy) for copy in copies])


def _take(copy: dict[str, Any], x: Row, names: Iterable[str]) -> bool:
    """Let features of the copy have the values of x; whether that changes anything."""
    changed = False
    for name in names:
        value = x.get(name, _ABSENT)
        if value is not (own := copy.get(name, _ABSENT)) and value != own:
            changed = True
            if value is _ABSENT:
                del copy[name]
            else:
                copy[name] = value
    return changed
