"""Why the risk changed between two groups of a partition's records, as the content of a drift message."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import orjson

from explain_core import losses as known_losses
from explain_core.drift import Difference, dbshap
from explain_core.models import Model
from explain_core.random import derive_seed
from explain_core.state import Unpack
from explain_sidecar.fold.foreign import dumps, loads
from explain_sidecar.fold.models import ModelData, load_model, model_data, restored_model
from explain_sidecar.fold.rows import Rows
from explain_sidecar.fold.sizes import HEADROOM
from explain_sidecar.settings import Settings


def window_content(
    number: int, rows: Rows, *, records: int, late: int, version: str | None, of_other_versions: int
) -> dict[str, Any]:
    """``baseline`` or ``target`` of a drift message; ``rows`` are from its first record to its last."""
    return {
        "number": number,
        "records": records,
        "late": late,
        "version": version,
        "of_other_versions": of_other_versions,
        "first_offset": rows.offsets[0],
        "last_offset": rows.offsets[-1],
        "first_timestamp": rows.timestamps[0],
        "last_timestamp": rows.timestamps[-1],
    }


def ignoring(ignored: Sequence[str], names: Sequence[str]) -> str:
    """How to leave these features out too, as a line of the settings' file."""
    listed = ", ".join(
        name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        for name in [*ignored, *names]
    )
    return f"set drift.ignore: [{listed}]"


_PLAIN = re.compile(r"(?!(?:true|false|yes|no|on|off|null|y|n)$)[A-Za-z_][\w.]*", re.ASCII | re.IGNORECASE)
"""Names that YAML takes for text without quotes."""


def without_change(sentence: str) -> dict[str, Any]:
    return {"sentence": sentence, "separation": None, "differences": [], "change": None}


def _difference(found: Difference) -> dict[str, Any]:
    """One of ``differences`` of the message."""
    risk = found.risk
    return {
        "feature": found.feature,
        "sense": found.sense,
        "words": found.words,
        "bits": found.bits,
        "before": found.before,
        "after": found.after,
        "value": found.value,
        "by": found.by,
        "risk": risk and risk.value,
        "low": risk and risk.low,
        "high": risk and risk.high,
        "fault": found.fault,
    }


class Attribution:
    """DBShap as the settings ``drift`` ask for it; ``loss`` is that of the risk."""

    def __init__(self, settings: Settings, seed: int, model_seed: int) -> None:
        drift, regression = settings.drift, settings.model.task == "regression"
        self.loss = known_losses.get(drift.loss or ("squared" if regression else "zero_one"))
        self._settings = drift
        self._seed = seed
        self._model_seed = model_seed
        identity = 6 * settings.record.max_string if settings.record.id else 0
        self._max_bytes = settings.emit.max_bytes - HEADROOM - identity
        self._static = settings.model.static
        self._model = settings.model

    def freeze(self, model: Model, fresh: bool) -> ModelData | None:
        """The model as it is, to judge records that come; None for one that never learns, and for a fresh one, which knows nothing."""
        return None if self._static or fresh else model_data(model, False, dumps)

    def thaw(self, model: ModelData, unpack: Unpack | None = None) -> Model:
        """A frozen model; ``unpack`` for one of a snapshot, which nobody has checked yet. Raises ``StateError`` where it is invalid."""
        made = load_model(self._model, self._model_seed)
        return restored_model(made, model, False, unpack or loads)

    def content(
        self,
        baseline: Rows,
        target: Rows,
        hypothesis: Model | tuple[Model, Model],
        names: tuple[str, str],
        number: int,
    ) -> dict[str, Any]:
        """``sentence``, ``separation``, ``differences`` and ``change`` of the message.

        ``hypothesis`` are the models from before the first record of either, or one that never learns. ``number`` makes the draws.
        """
        drift = self._settings
        try:
            change = dbshap(
                baseline.window(),
                target.window(),
                hypothesis=hypothesis,
                loss=self.loss,
                factorisation=drift.groups or drift.factorisation,
                prequential=(baseline.losses, target.losses),
                max_cells=drift.max_cells,
                max_samples=drift.max_samples,
                ignore=drift.ignore,
                bootstrap=drift.bootstrap,
                seed=derive_seed(self._seed, number),
            )
        except ValueError as error:
            return without_change(f"not computed: {error}")
        sentence = change.sentence(*names, remedy=partial(ignoring, drift.ignore))
        details = change.to_dict()
        content = {
            "sentence": sentence,
            "separation": details["separation"],
            "differences": [_difference(found) for found in change.differences],
            "change": details,
        }
        size = len(orjson.dumps(content))
        if size > self._max_bytes:
            return without_change(
                f"{sentence}; the details take {size} bytes and are left out: raise emit.max_bytes"
            )
        return content
