"""What is fetched or computed once per user, and shared by all processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from explain_sidecar.errors import UserError


def cache_folder() -> Path:
    """Raises ``UserError`` where this user has no home directory, and nobody says where else."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "explanation-sidecar"
    except RuntimeError:
        raise UserError("this user has no home directory to keep a cache in; set XDG_CACHE_HOME") from None


def filled(folder: Path, fill: Callable[[Path], None]) -> Path:
    """``folder``, with what ``fill`` writes into the folder that it is given. It appears only when it is whole.

    Processes that need it at the same time wait for the first of them. ``fill`` finds what a call left that failed or was killed, and
    may continue with it. Raises ``UserError`` where nothing can be written there.
    """
    try:
        if folder.exists():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with Path(f"{folder}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                unfinished = Path(f"{folder}.unfinished")
                unfinished.mkdir(exist_ok=True)
                fill(unfinished)
                unfinished.rename(folder)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be filled: {error}; make room there, or set XDG_CACHE_HOME to a folder that you may write to"
        ) from None
    return folder
