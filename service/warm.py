"""``python -m service.warm FILE``: compile what the workers of these settings need into numba's cache, beside what else starts.

It must run in the workers' environment: the machine code is for the processor that they are told to compute as.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from explain_core.compiling import AVAILABLE
from service.broker.jars import cache_folder
from service.settings import Settings, load_settings


def warm_up(settings: Settings) -> None:
    """Compile what these settings need, once for all processes that ask at the same time."""
    with _turn(cache_folder()):
        from explain_core.importance.warm import warm, warm_ensembles
        from service.fold.models import load_challenger, load_model

        if settings.models.enabled:
            warm_ensembles("regression" if settings.model.task == "regression" else "classification")
        else:
            warm(load_model(settings.model, seed=0))
        if settings.challenger_model is not None:
            warm(load_challenger(settings, seed=0))
        if settings.drift.enabled:
            from explain_core.drift import dbshap

            rows = [({"a": i / 50}, i % 2) for i in range(50)]
            kind = "per_feature" if settings.drift.groups else settings.drift.factorisation
            dbshap(
                rows,
                rows,
                hypothesis=lambda x: {1: x["a"]},
                factorisation=kind,
                conditional="tree",
                bootstrap=0,
            )
        if settings.alarms.enabled:
            from explain_core.alarms.detector import warm as warm_alarms

            warm_alarms()
        if any(explainer.by is not None for explainer in settings.explainers):
            from explain_core.importance.segments import warm as warm_segments

            warm_segments()
        if AVAILABLE and any(explainer.removal == "conditional" for explainer in settings.explainers):
            from explain_core.removal import conditional

            conditional.warm()


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Begin at once where nobody is within, else when the first one is out; at once too where the folder cannot be written to."""
    with ExitStack() as stack:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((folder / "compiling").open("w"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(lock, fcntl.LOCK_SH)
        yield


if __name__ == "__main__":
    warm_up(load_settings(Path(sys.argv[1])))
