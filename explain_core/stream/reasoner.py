"""Reasons of the predictions of a model on a stream: against the rows that its reservoir holds at the time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import orjson

from explain_core.losses import Prediction
from explain_core.models import Model, Row
from explain_core.reasons import PredictionExplainer, Reasons
from explain_core.reasons.explainer import MAX_BACKGROUND
from explain_core.reservoirs import Reservoir
from explain_core.stream.options import Reasoning


class Background(NamedTuple):
    """The rows that a prediction was explained against: how many, and the digest of them, see ``background_digest``."""

    rows: int
    digest: str


class Predicted(NamedTuple):
    """The prediction for a record by a model that has not learnt from it, and has taken in so many ``records``.

    ``reasons`` are None as long as the reservoir has no row or the model no label; with the ``background`` also where ``Options.reasoning`` is None.
    """

    prediction: Prediction
    records: int
    reasons: Reasons | None = None
    background: Background | None = None


def background_digest(rows: Iterable[Row]) -> str:
    """BLAKE2b, 128 bits in hexadecimal, over such digests of the rows' JSON, each with its keys in order.

    >>> background_digest([{"b": 1, "a": "x"}]) == background_digest([{"a": "x", "b": 1}])
    True
    """
    return _digest(b"".join(map(_row_digest, rows))).hex()


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _row_digest(row: Row) -> bytes:
    return _digest(orjson.dumps(row, option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY, default=repr))


class Reasoner:
    """Explains predictions against a reservoir. It has no state: what it says is a function of the model, the reservoir's rows and the record.

    Parameters
    ----------
    model
        Whose predictions are explained; it may be another one, of the same kind, at each call of ``explain``.
    options
        In which space, and with how many predictions.
    reservoir
        Whose rows are the background.
    seed
        Of sampled reasons.

    Raises ``ValueError`` where the options do not suit the model or the reservoir.
    """

    def __init__(self, model: Model, options: Reasoning, reservoir: Reservoir, seed: int) -> None:
        if reservoir.size > MAX_BACKGROUND:
            raise ValueError(
                f"background: a reservoir of {reservoir.size:,} rows; reasons are against at most {MAX_BACKGROUND:,}"
            )
        self._reservoir = reservoir
        self._made: Callable[[Model, list[Row]], PredictionExplainer] = lambda model, rows: (
            PredictionExplainer(model, rows, space=options.space, most=options.most, seed=seed)
        )
        self._explainer = self._made(model, [{}])
        self._rows: list[Row] = []
        self._digests: list[bytes] = []

    def explain(self, model: Model, x: Row, prediction: Prediction, records: int) -> Predicted:
        """The model's prediction for a record, with its reasons."""
        self._sync(model)
        known = self._rows and not (isinstance(prediction, Mapping) and not prediction)
        reasons = self._explainer.explain([x]) if known else None
        background = Background(len(self._rows), _digest(b"".join(self._digests)).hex())
        return Predicted(prediction, records, reasons, background)

    def _sync(self, model: Model) -> None:
        rows = self._reservoir.rows
        if self._explainer.model is not model or len(rows) != len(self._rows):
            self._rows, self._digests = list(rows), list(map(_row_digest, rows))
            self._explainer = self._made(model, self._rows or [{}])
            return
        for slot, row in enumerate(rows):
            if row is not self._rows[slot]:
                self._rows[slot], self._digests[slot] = row, _row_digest(row)
                self._explainer.replace(slot, row)
