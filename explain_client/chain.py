"""The chain of an output topic: it proves that no message of a partition was lost, doubled, forked or altered.

``seq`` counts the messages of a partition and epoch from 0, and ``digest`` is a rolling hash in which every message
includes the one before: ``digest = blake2b-128(previous digest ‖ the message's bytes up to the digest)``.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from explain_client.errors import ChainError
from explain_client.messages import Alarm, Drift, Explanation, Prediction, Row

DIGEST_KEY = b',"digest":"'
"""What a message's digest begins with; it is the last key."""


class Link(NamedTuple):
    """The last message seen of a chain."""

    epoch: int
    seq: int
    digest: str


def genesis(*identity: object) -> bytes:
    """The digest that a chain begins with, from what it belongs to."""
    return hashlib.blake2b("/".join(map(str, identity)).encode(), digest_size=16).digest()


def chained(previous: bytes, body: bytes) -> bytes:
    """The digest of a message after the one before it."""
    return hashlib.blake2b(previous + body, digest_size=16).digest()


def body_of(value: bytes) -> bytes:
    """The part of a message's bytes that its digest covers. Raises ``ValueError`` where there is no digest."""
    return value[: value.rindex(DIGEST_KEY)]


def next_link(before: Link | None, message: Explanation | Drift | Alarm | Row | Prediction) -> Link:
    """The chain with a message more; without a link before, a message in the middle of an epoch is taken on trust.

    Raises ``ChainError`` where the message does not follow the link.
    """
    here = Link(message.epoch, message.seq, message.digest)
    where = f"{message.topic} partition {message.partition} epoch {message.epoch} seq {message.seq}"
    if before is not None and message.epoch == before.epoch:
        if message.seq > before.seq + 1:
            raise ChainError(f"{where}: {message.seq - before.seq - 1} messages are missing before it")
        if message.seq <= before.seq:
            raise ChainError(
                f"{where}: came after seq {before.seq}; doubled, or two sidecars write the topic"
            )
        previous = bytes.fromhex(before.digest)
    elif before is not None and message.epoch < before.epoch:
        raise ChainError(f"{where}: came after epoch {before.epoch}; two sidecars write the topic")
    elif message.seq == 0:
        previous = genesis(message.app_id, message.topic, message.partition, message.epoch, message.called[1])
    elif before is None:
        return here
    else:
        raise ChainError(f"{where}: the first {message.seq} messages of this epoch are missing")
    # A message that no sidecar wrote may have its digest elsewhere than at the end.
    if DIGEST_KEY not in message.raw or chained(previous, body_of(message.raw)).hex() != message.digest:
        raise ChainError(
            f"{where}: its digest does not follow from the message before: altered, or another history"
        )
    return here
