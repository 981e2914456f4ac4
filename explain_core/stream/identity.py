"""Which stream this is: what its draws and its digest begin with."""

from __future__ import annotations

import hashlib

from explain_core.random import derive_seed


def beginning(
    seed: int,
    app_id: str = "explanation-sidecar",
    topic: str = "records",
    partition: int = 0,
    epoch: int = 0,
) -> tuple[int, bytes]:
    """The seed of a stream's draws, and the digest that it begins with; by default those of a sidecar without settings.

    >>> beginning(0) == beginning(0, partition=0), beginning(0) == beginning(0, partition=1)
    (True, False)
    """
    identity = app_id, topic, partition, epoch
    digest = hashlib.blake2b("/".join(map(str, identity)).encode(), digest_size=16).digest()
    return derive_seed(seed, *identity), digest
