"""``python -m explain_core.artefacts.trial``: load a model's file and predict with it, in a process that may die of it.

Libraries in C++ follow what a file says: of a damaged one CatBoost dies, and an ONNX graph may loop for ever or ask for terabytes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from explain_core.artefacts.artefact import ArtefactError
from explain_core.losses import Task

MAX_SECONDS = 30
"""For the whole trial; a worker that shows no sign of life ends after 45 s."""

MAX_MEMORY = 8 * 2**30
"""Bytes of addresses that the process may take, and four times the file."""

EXHAUSTED = 3
"""Exit status where that was too little."""

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""Each thread would take addresses."""


def try_out(
    data: bytes, path: str, task: Task | None, features: Sequence[str] | None, classes: Sequence[Any] | None
) -> None:
    """Raise ``ArtefactError`` where a process dies, hangs or runs out of memory that does with the file what the caller is about to do.

    A file that is refused in words there is for the caller to refuse. It takes about the time that importing the library takes.
    """
    names = None if features is None else [str(name) for name in features]
    question = json.dumps([path, task, names, None if classes is None else len(classes)]).encode()
    what = f"{path}: a process that loaded the file and predicted with it"
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "explain_core.artefacts.trial"],
            input=question + b"\n" + data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD},
            timeout=MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ArtefactError(
            f"{what} had not ended after {MAX_SECONDS} s; it is damaged, or a graph without end"
        ) from None
    if ended.returncode == EXHAUSTED:
        raise ArtefactError(
            f"{what} took more than {_most(data) >> 30} GiB of memory; it is damaged, or too large"
        )
    if ended.returncode < 0:
        name = signal.Signals(-ended.returncode).name
        memory = ", as where memory is too little" if name == "SIGKILL" else ""
        raise ArtefactError(f"{what} died of {name}{memory}; the file is damaged, or too large")


def _most(data: bytes) -> int:
    return MAX_MEMORY + 4 * len(data)


def main() -> int:
    line, _, data = sys.stdin.buffer.read().partition(b"\n")
    path, task, features, n_classes = json.loads(line)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_most(data), _most(data)))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(2 * MAX_SECONDS)  # where the process that waits for this one is gone
    except (ImportError, ValueError, OSError):  # a system without limits
        pass
    try:
        from explain_core.artefacts import load

        model = load.read(data, path, task, features, None if n_classes is None else range(n_classes))[1]
        model.predict_many([dict.fromkeys(model.features or (), 0.0)] * 2)
    except MemoryError:
        return EXHAUSTED
    except Exception as error:
        return EXHAUSTED if "alloc" in str(error) else 0
    return 0


if __name__ == "__main__":
    os._exit(main())
