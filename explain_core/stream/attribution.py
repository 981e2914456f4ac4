"""Why the risk changed between two groups of records."""

from __future__ import annotations

from collections.abc import Callable

from explain_core import losses as known_losses
from explain_core.drift import RiskChange, dbshap
from explain_core.foreign import dumps, loads
from explain_core.losses import Task
from explain_core.models import Model
from explain_core.random import derive_seed
from explain_core.state import StateError, Unpack
from explain_core.stream.models import ModelData, model_data, restored_model
from explain_core.stream.options import Windowing
from explain_core.stream.rows import Rows

Fresh = Callable[[], Model]
"""Makes the model as it was before its first record."""


class RiskAttribution:
    """DBShap as the options ask for it; ``loss`` is that of the risk. ``fresh`` is None for a model that never learns."""

    def __init__(self, options: Windowing, task: Task, seed: int, fresh: Fresh | None) -> None:
        self.loss = known_losses.get(options.loss or ("squared" if task == "regression" else "zero_one"))
        self.options, self.task, self.static = options, task, fresh is None
        self._seed, self._fresh = seed, fresh

    def freeze(self, model: Model, fresh: bool) -> ModelData | None:
        """The model as it is, to judge records that come; None for one that never learns, and for a fresh one, which knows nothing."""
        return None if self.static or fresh else model_data(model, False, dumps)

    def thaw(self, model: ModelData, unpack: Unpack = loads) -> Model:
        """A frozen model; ``unpack`` for one of a snapshot, which nobody has checked yet. Raises ``StateError`` where it is invalid."""
        if self._fresh is None:
            raise StateError("windows: a model as it was, and it never learns")
        return restored_model(self._fresh(), model, False, unpack)

    def between(
        self, baseline: Rows, target: Rows, hypothesis: Model | tuple[Model, Model], number: int
    ) -> tuple[RiskChange | None, str]:
        """The change and nothing, or None and why there is none.

        ``hypothesis`` are the models from before the first record of either, or one that never learns. ``number`` makes the draws.
        """
        options = self.options
        try:
            change = dbshap(
                baseline.window(),
                target.window(),
                hypothesis=hypothesis,
                loss=self.loss,
                factorisation=options.factorisation,
                prequential=(baseline.losses, target.losses),
                max_cells=options.max_cells,
                max_samples=options.max_samples,
                ignore=options.ignore,
                bootstrap=options.bootstrap,
                seed=derive_seed(self._seed, number),
            )
        except ValueError as error:
            return None, f"not computed: {error}"
        return change, ""
