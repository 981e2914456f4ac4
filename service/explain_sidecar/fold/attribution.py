"""Why the risk changed between two groups of a partition's records, as the content of a drift message."""

from __future__ import annotations

from typing import Any

import orjson

from explain_core import losses as known_losses
from explain_core.drift import dbshap
from explain_core.models import Model
from explain_core.random import derive_seed
from explain_core.state import Unpack
from explain_sidecar.fold.models import ModelData, load_model, model_data, restored_model, trusted_modules
from explain_sidecar.fold.rows import Rows
from explain_sidecar.fold.sizes import HEADROOM
from explain_sidecar.pickles.codec import dumps, loads
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
        """A frozen model. Raises ``StateError`` where it is invalid."""
        made = load_model(self._model, self._model_seed)
        return restored_model(made, model, False, unpack or self._loads)

    def content(
        self,
        baseline: Rows,
        target: Rows,
        hypothesis: Model | tuple[Model, Model],
        names: tuple[str, str],
        number: int,
    ) -> dict[str, Any]:
        """``sentence`` and ``change`` of the message.

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
                bootstrap=drift.bootstrap,
                seed=derive_seed(self._seed, number),
            )
        except ValueError as error:
            return {"sentence": f"not computed: {error}", "change": None}
        sentence = change.sentence(*names)
        details = change.to_dict()
        size = len(orjson.dumps(details))
        if size > self._max_bytes:
            return {
                "sentence": f"{sentence}; the details take {size} bytes and are left out: raise emit.max_bytes",
                "change": None,
            }
        return {"sentence": sentence, "change": details}

    def _loads(self, packed: bytes) -> Any:
        """Packed by this process, or checked by it."""
        return loads(packed, trusted_modules(self._model))
