"""The messages that go out: their bytes, and the chain that links them. Their fields are those of ``explain_client.messages``.

Each output topic carries a chain per partition, which ``explain_client.chain`` defines and its readers verify.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson
from msgspec import structs

from explain_client import DeadLetterHeaders
from explain_client.chain import DIGEST_KEY, chained, genesis
from explain_sidecar.fold.masking import masked
from explain_sidecar.formats.errors import BadRecord, Headers
from explain_sidecar.settings import Settings

if TYPE_CHECKING:
    from explain_sidecar.fold.records import InputRecord

Destination = Literal["explanations", "drift", "alarms", "rows", "predictions", "dead_letters"]


TRACE_CONTEXT = ("traceparent", "tracestate")
"""Headers of a record (W3C Trace Context) that are passed on with the message that it completes."""

MAX_CONTEXT = 2_048
"""Bytes of trace context that are passed on; W3C asks for 512 of tracestate."""

NOT_KEPT = "not_kept"
"""Class of a dead letter without the record, which is too large for it."""


LETTER_PREFIX = "__explain."
"""Prefix of the headers that the sidecar adds to a dead letter."""

MAX_KEY = 200
"""Characters of a key that is taken for the name of its partition."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


class Identity(NamedTuple):
    """Which message of its partition and topic this is, and the event time of its last record in milliseconds since 1970."""

    schema: str
    epoch: int
    seq: int
    timestamp: int


class Output(NamedTuple):
    """A message for one of the output topics; its partition is that of the input. A dead letter is the original record, not an event."""

    destination: Destination
    key: bytes | None
    value: bytes | None
    headers: Headers
    event: Identity | None = None


class Chain:
    """Sequence number and rolling digest of one output topic and partition."""

    __slots__ = ("digest", "seq")

    def __init__(self, *identity: object) -> None:
        self.seq = 0
        self.digest = genesis(*identity)

    def seal(self, body: bytes) -> str:
        """Take in a message; returns its digest in hexadecimal."""
        self.digest = chained(self.digest, body)
        self.seq += 1
        return self.digest.hex()


def sealed(body: dict[str, Any], chain: Chain) -> bytes:
    """The message's JSON with its digest as the last key."""
    raw = orjson.dumps(body, option=orjson.OPT_UTC_Z)[:-1]
    return raw + DIGEST_KEY + chain.seal(raw).encode() + b'"}'


def headers_of(event: Identity, record: InputRecord) -> Headers:
    """The headers of the message that a record completes: its schema, and the record's unchanged trace context, unless that is long."""
    schema = ("schema", event.schema.encode())
    context = [header for header in record.headers if header[0] in TRACE_CONTEXT]
    short = sum(len(name) + len(value or b"") for name, value in context) <= MAX_CONTEXT
    return (schema, *context) if short else (schema,)


def dead_letter(
    record: InputRecord,
    error: BadRecord,
    settings: Settings,
    topic: str,
    partition: int,
    epoch: int,
    chain: Chain,
) -> Output:
    """The record without its masked fields, with headers that name its error and its origin; of one larger than ``emit.max_bytes`` these alone."""
    record, error, left_out = masked(record, error, settings.record.masked)
    most = settings.emit.max_bytes
    if record.size > most:
        error = BadRecord(
            NOT_KEPT,
            f"the record takes {record.size} bytes and emit.max_bytes is {most}, so that its key, value and headers "
            f"are left out; {error.error_class}: {error}",
        )
        record = structs.replace(record, key=None, value=None, headers=())
    headers = DeadLetterHeaders(
        schema="dead-letter/1",
        app_id=settings.app_id,
        error_class=error.error_class,
        error_message=str(error),
        topic=topic,
        partition=str(partition),
        offset=str(record.offset),
        timestamp=str(record.timestamp),
        epoch=str(epoch),
        seq=str(chain.seq),
        masked=left_out,
        digest="",
    ).to_dict()
    own = [(name, _hex(value)) for name, value in record.headers]
    content = [_hex(record.key), _hex(record.value), own, headers]
    headers["__explain.digest"] = chain.seal(orjson.dumps(content))
    added = tuple((name, text.encode()) for name, text in headers.items())
    return Output("dead_letters", record.key, record.value, (*record.headers, *added))


def letter_headers(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    """What the headers that the sidecar added to a dead letter say, by name without the prefix; those of the last sidecar."""
    return {
        name.removeprefix(LETTER_PREFIX): (value or b"").decode(errors="replace")
        for name, value in headers
        if name.startswith(LETTER_PREFIX)
    }


def app_of(message: bytes) -> str | None:
    """The app_id of an explanation or drift message in JSON; None where it is neither."""
    try:
        data = orjson.loads(message)
    except orjson.JSONDecodeError:
        return None
    return data.get("app_id") if isinstance(data, dict) else None


def key_text(key: bytes | None) -> str | None:
    """A key as a name; None where it is not text, such as a key with a schema's id, or is too long."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return None
    return text if 0 < len(text) <= MAX_KEY and not _CONTROL.search(text) else None


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
