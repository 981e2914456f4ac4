"""The messages that go out, as pydantic models: the code that builds them and their JSON Schemas have this one source.

Each output topic carries a chain per partition: ``seq`` counts its messages from 0, and ``digest`` is a rolling hash in
which every message includes the one before. A reader of one topic can so verify that nothing was lost, doubled or
forked: ``digest = blake2b-128(previous digest ‖ the message's bytes up to the digest)``, in hexadecimal.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict, Field

from service.records import BadRecord, Headers, InputRecord

Destination = Literal["explanations", "drift", "dead_letters"]


class Output(NamedTuple):
    """A message for one of the output topics; its partition is that of the input."""

    destination: Destination
    key: bytes | None
    value: bytes | None
    headers: Headers


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Importance(_Message):
    """Importance of one feature under one loss; null where nothing is known yet."""

    value: float | None = Field(description="Estimated importance, in units of the loss.")
    std: float | None = Field(description="Standard error of the value, in units of the loss.")
    low: float | None = Field(description="Lower end of the confidence band.")
    high: float | None = Field(description="Upper end of the confidence band.")


class Losses(_Message):
    """Smoothed prequential loss: of the model, and of the empty model that knows no feature."""

    model: float | None = Field(description="Smoothed loss of the model on records it had not learnt from.")
    empty: float | None = Field(description="Smoothed loss of the mean prediction, which uses no feature.")


class ExplanationMessage(_Message):
    """What drives the model of one input partition after a record."""

    schema_: Literal["explanation/1"] = Field(
        "explanation/1", alias="schema", description="Name and version of this schema."
    )
    app_id: str = Field(description="The sidecar's app_id.")
    topic: str = Field(description="Records topic.")
    partition: int = Field(ge=0, description="Partition of the records topic, and of this message.")
    offset: int = Field(ge=0, description="Offset of the last record folded.")
    timestamp: int = Field(description="Event time of that record, in milliseconds since 1970.")
    id: str | None = Field(description="Id of that record, where record.id is set.")
    epoch: int = Field(ge=0, description="Starts at 0; a reset begins a new one, with a new model.")
    seq: int = Field(ge=0, description="Number of this message in its partition and epoch, from 0.")
    records: int = Field(ge=1, description="Records folded in this epoch.")
    explained: int = Field(ge=0, description="Records explained in this epoch.")
    rejected: int = Field(ge=0, description="Records of this epoch that were not folded.")
    status: Literal["warming", "ready"] = Field(description="`warming` until every estimator has a value.")
    performance: dict[str, Losses] = Field(description="By loss: is the model better than no model?")
    importance: dict[str, dict[str, dict[str, Importance]]] = Field(
        description="By estimator, loss and feature."
    )
    estimators: dict[str, dict[str, Any]] = Field(
        description="By estimator: the settings that say what was estimated."
    )
    notices: list[str] = Field(description="What an operator accepted since the message before, in words.")
    digest: str = Field(pattern="^[0-9a-f]{32}$", description="Rolling hash over this partition's messages.")


class DeadLetterHeaders(_Message):
    """Headers added to a record that could not be folded; its key, value and own headers are unchanged."""

    schema_: Literal["dead-letter/1"] = Field(
        alias="__explain.schema", description="Name and version of this schema."
    )
    error_class: str = Field(alias="__explain.errors.class", description="Kind of error, from a fixed set.")
    error_message: str = Field(alias="__explain.errors.message", description="What is wrong, for people.")
    topic: str = Field(alias="__explain.errors.topic", description="Records topic.")
    partition: str = Field(alias="__explain.errors.partition", description="Its partition, decimal.")
    offset: str = Field(alias="__explain.errors.offset", description="The record's offset, decimal.")
    timestamp: str = Field(
        alias="__explain.errors.timestamp", description="The record's Kafka timestamp, milliseconds."
    )
    epoch: str = Field(alias="__explain.epoch", description="Epoch of the partition, decimal.")
    seq: str = Field(
        alias="__explain.seq", description="Number of this dead letter in its partition and epoch, decimal."
    )
    digest: str = Field(
        alias="__explain.digest", pattern="^[0-9a-f]{32}$", description="Rolling hash over the dead letters."
    )


class Chain:
    """Sequence number and rolling digest of one output topic and partition."""

    __slots__ = ("digest", "seq")

    def __init__(self, *identity: object) -> None:
        self.seq = 0
        self.digest = hashlib.blake2b("/".join(map(str, identity)).encode(), digest_size=16).digest()

    def seal(self, body: bytes) -> str:
        """Take in a message; returns its digest in hexadecimal."""
        self.digest = chained(self.digest, body)
        self.seq += 1
        return self.digest.hex()

    def __getstate__(self) -> tuple[int, bytes]:
        return self.seq, self.digest

    def __setstate__(self, state: tuple[int, bytes]) -> None:
        self.seq, self.digest = state


def chained(previous: bytes, body: bytes) -> bytes:
    """The digest of a message after the one before it."""
    return hashlib.blake2b(previous + body, digest_size=16).digest()


_DIGEST = b',"digest":"'


def sealed(body: dict[str, Any], chain: Chain) -> bytes:
    """The message's JSON with its digest as the last key."""
    raw = orjson.dumps(body)[:-1]
    return raw + _DIGEST + chain.seal(raw).encode() + b'"}'


def body_of(value: bytes) -> bytes:
    """The part of a message's bytes that its digest covers. Raises ``ValueError`` where there is no digest."""
    return value[: value.rindex(_DIGEST)]


def dead_letter(
    record: InputRecord, error: BadRecord, topic: str, partition: int, epoch: int, chain: Chain
) -> Output:
    """The record as it came, with headers that say what is wrong with it and where it was."""
    headers = DeadLetterHeaders.model_construct(
        schema_="dead-letter/1",
        error_class=error.error_class,
        error_message=str(error),
        topic=topic,
        partition=str(partition),
        offset=str(record.offset),
        timestamp=str(record.timestamp),
        epoch=str(epoch),
        seq=str(chain.seq),
        digest="",
    ).model_dump(by_alias=True)
    own = [(name, _hex(value)) for name, value in record.headers]
    content = [_hex(record.key), _hex(record.value), own, headers]
    headers["__explain.digest"] = chain.seal(orjson.dumps(content))
    added = tuple((name, text.encode()) for name, text in headers.items())
    return Output("dead_letters", record.key, record.value, (*record.headers, *added))


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
