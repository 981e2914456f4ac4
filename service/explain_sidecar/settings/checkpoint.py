"""The sections on snapshots, and on what to accept when they do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from explain_sidecar.settings.base import Section
from explain_sidecar.settings.sources import Problem


class CheckpointSettings(Section):
    """When snapshots are taken. The caps (max_overhead, max_bytes_per_second) override the goals (max_replay_seconds, max_age), with a warning."""

    max_replay_seconds: float = Field(0.5, gt=0)
    """Longest replay after a restart, seconds for all partitions of a worker."""
    max_age: float = Field(15, gt=0)
    """Longest time without a snapshot of a partition with new records, seconds."""
    max_overhead: float = Field(0.05, gt=0, le=1)
    """Largest share of the processing time that snapshots may take."""
    max_bytes_per_second: float = Field(1_000_000, gt=0)
    """Largest number of snapshot bytes per second of a worker."""
    hmac_key_file: Path | None = None
    """File with one key per line: the first signs snapshots, all are accepted."""
    allow_unsigned: bool = False
    """Beside a key, accept snapshots from before there was one; a model that only its own code can store is never read from them."""
    on_mismatch: Literal["carry", "new_model", "fail", "reset"] = "carry"
    """What to do if settings that the state depends on have changed. carry begins a new epoch with all parts of the state that the change does not touch, and stops where the model is not among them; new_model begins it also without the model; reset takes nothing over; fail shows the difference."""


class RecoverySettings(Section):
    """What to accept after a divergence."""

    on_divergence: Literal["fail", "continue"] = "fail"
    """continue accepts a replay that differs, for the partition and offset named here."""
    partition: int | None = Field(None, ge=0)
    """Partition whose divergence is accepted."""
    offset: int | None = Field(None, ge=0)
    """Committed offset whose divergence is accepted."""

    def problems(self) -> Iterator[Problem]:
        for name in ("partition", "offset"):
            if self.on_divergence == "continue" and getattr(self, name) is None:
                yield (
                    name,
                    "is missing; recovery.on_divergence continue needs the one that the error message gave",
                )
