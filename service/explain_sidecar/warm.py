"""``python -m explain_sidecar.warm FILE``: compile what the workers of these settings need into numba's cache, beside what else starts.

It must run in the workers' environment: the machine code is for the processor that they are told to compute as.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from explain_core.compiling import AVAILABLE
from explain_core.losses import Task
from explain_sidecar.caches import cache_folder
from explain_sidecar.errors import UserError
from explain_sidecar.settings import Settings, load_settings


def warm_up(settings: Settings) -> None:
    """Compile what these settings need: processes that ask at the same time share the parts out, and wait for each other's."""
    try:
        folder = cache_folder()
    except UserError:
        folder = Path(os.devnull)  # nothing can be made in it: everybody compiles everything
    theirs = []
    for name, part in _parts(settings):
        with _turn(folder, name) as first:
            if first:
                part()
            else:
                theirs.append((name, part))
    for name, part in theirs:
        with _turn(folder, name, wait=True):
            part()


def _parts(settings: Settings) -> Iterator[tuple[str, Callable[[], object]]]:
    """What compiles, or loads, the kernels of each purpose, by its name; the longest first."""
    from explain_core.importance.warm import warm_ensembles, warm_means, warm_model
    from explain_sidecar.fold.models import load_challenger, load_model

    task: Task = "regression" if settings.model.task == "regression" else "classification"
    if settings.models.enabled:
        yield "model", lambda: warm_ensembles(task)
    else:
        yield "model", lambda: warm_model(load_model(settings.model, seed=0))
    if settings.challenger_model is not None:
        yield "challenger", lambda: warm_model(load_challenger(settings, seed=0))
    yield "means", lambda: warm_means(task)
    if settings.drift.enabled:
        yield (
            "drift",
            lambda: _drift("per_feature" if settings.drift.groups else settings.drift.factorisation),
        )
    if settings.alarms.enabled:
        from explain_core.alarms import detector

        yield "alarms", detector.warm
    if any(explainer.by is not None for explainer in settings.explainers):
        from explain_core.importance import segments

        yield "segments", segments.warm
    if AVAILABLE and any(explainer.removal == "conditional" for explainer in settings.explainers):
        from explain_core.removal import conditional

        yield "conditional", conditional.warm


def _drift(factorisation: Literal["joint", "per_feature"]) -> None:
    from explain_core.drift import dbshap

    rows = [({"a": i / 50}, i % 2) for i in range(50)]
    dbshap(
        rows,
        rows,
        hypothesis=lambda x: {1: x["a"]},
        factorisation=factorisation,
        conditional="tree",
        max_cells=1,
        bootstrap=0,
    )


@contextmanager
def _turn(folder: Path, part: str, wait: bool = False) -> Iterator[bool]:
    """Whether nobody compiles the part; with ``wait``, when that is so. At once, too, where the folder cannot be written to."""
    first = True
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((folder / f"compiling-{part}").open("w"))
            fcntl.flock(lock, fcntl.LOCK_SH if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            first = False
        except OSError:
            pass
        yield first


if __name__ == "__main__":
    warm_up(load_settings(Path(sys.argv[1])))
