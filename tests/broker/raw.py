"""Producing what confluent-kafka cannot: headers whose names are any bytes, by librdkafka's C API."""

import ctypes
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

Headers = Sequence[tuple[bytes, bytes | None]]

ONCE = {"enable.idempotence": "true", "max.in.flight.requests.per.connection": "1"}
"""Of a producer that doubles nothing where brokers crash.

With several requests in flight, the failure of one makes those after it come out of sequence, and librdkafka answers that by a new
epoch, under which the broker takes again what it had stored already: librdkafka#4953.
"""

# The arguments of rd_kafka_producev are pairs of a kind and a value; 0 ends them.
_END, _TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _TIMESTAMP, _HEADERS = 0, 1, 3, 4, 5, 7, 8, 10
_COPY = 2
_PRODUCER = 0


def _library() -> ctypes.CDLL:
    folder = Path(sysconfig.get_paths()["purelib"]) / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*"))))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, name).restype = ctypes.c_void_p
    return library


def produce(
    servers: str,
    topic: str,
    partition: int,
    records: Iterable[tuple[bytes, bytes, int, Headers]],
    seconds: float = 30,
) -> None:
    """Produce records, each of key, value, timestamp and headers, once and in order, and wait for them."""
    kafka, pointer, error = _library(), ctypes.c_void_p, ctypes.create_string_buffer(512)
    configuration = pointer(kafka.rd_kafka_conf_new())
    properties = {
        "bootstrap.servers": servers,
        **ONCE,
        "message.timeout.ms": "0",
        "reconnect.backoff.max.ms": "500",
        "log_level": "2",
    }
    for option, setting in properties.items():
        kafka.rd_kafka_conf_set(configuration, option.encode(), setting.encode(), error, len(error))
    client = pointer(kafka.rd_kafka_new(_PRODUCER, configuration, error, len(error)))
    for key, value, timestamp, headers in records:
        listed = pointer(kafka.rd_kafka_headers_new(ctypes.c_size_t(len(headers))))
        for name, content in headers:
            length = -1 if content is None else len(content)
            kafka.rd_kafka_header_add(
                listed, name, ctypes.c_ssize_t(len(name)), content, ctypes.c_ssize_t(length)
            )
        kind, text, size = ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
        refused = kafka.rd_kafka_producev(
            client,
            *(kind(_TOPIC), text(topic.encode()), kind(_PARTITION), ctypes.c_int32(partition)),
            *(kind(_VALUE), text(value), size(len(value)), kind(_KEY), text(key), size(len(key))),
            *(kind(_TIMESTAMP), ctypes.c_int64(timestamp), kind(_FLAGS), kind(_COPY)),
            *(kind(_HEADERS), listed, kind(_END)),
        )
        assert refused == 0, refused
    assert kafka.rd_kafka_flush(client, int(1_000 * seconds)) == 0
    kafka.rd_kafka_destroy(client)
