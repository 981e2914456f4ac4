"""Spans of the messages whose last record came with a ``traceparent``: what the sidecar did, linked to the trace of the pipeline.

A message sums up many records, each with a trace of its own perhaps: its span begins a trace, and links to that of the last record, as
OpenTelemetry's conventions for messaging have it for batches. The variables ``OTEL_…`` work as in any program with the SDK.

They are made beside the fold, from the clock, and change nothing in what is published. A thread of its own exports them; while the
collector is away they are dropped, and the loop never waits.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from explain_sidecar.errors import UserError
from explain_sidecar.fold.messages import TRACE_CONTEXT, Output
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.kafka.clients import worker_name
from explain_sidecar.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

CLOSE_SECONDS = 5.0
"""How long the last spans may take at the end; Kafka has everything by then."""

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables of the SDK's that name a collector; the first that is set counts."""


def spans_of(settings: Settings, slot: int) -> Spans | None:
    """None unless ``tracing.endpoint`` is set, or one of ``ENDPOINTS`` by the environment. Raises ``UserError`` where the extra is not installed."""
    named = {name: os.environ[name] for name in ENDPOINTS if os.environ.get(name)}
    if settings.tracing.endpoint is not None:
        named = {"tracing.endpoint": settings.tracing.endpoint}
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if not named or off or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    source, endpoint = next(iter(named.items()))
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        message = f"{source}: {error.name or error} is missing; it needs the extra `otel`: pip install 'explanation-sidecar[otel]'"
        if source not in ENDPOINTS:
            raise UserError(message) from None
        log.warning("%s; there are no spans", message)  # a platform sets these for every program
        return None
    # Their loggers report every batch that fails, with a traceback; ours says once that it does.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    name = worker_name(settings, slot)
    own = Resource.create({"service.name": settings.app_id, "service.instance.id": name})
    resource = own.merge(OTELResourceDetector().detect())  # what the environment says comes first
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=None if source in ENDPOINTS else f"{endpoint}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(_reporting(exporter, f"{source} {endpoint}")))
    return Spans(settings, provider, name)


class Spans:
    """Makes a span of each message, and hands it to a thread that exports it."""

    def __init__(self, settings: Settings, provider: TracerProvider, client: str) -> None:
        from opentelemetry.trace import Link, SpanKind, get_current_span
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._topics = settings.topics
        self._provider = provider
        self._tracer = provider.get_tracer("explanation-sidecar")
        self._propagator = TraceContextTextMapPropagator()
        self._kind = SpanKind.PRODUCER
        self._link, self._span_of = Link, get_current_span
        self._common = {
            "messaging.system": "kafka",
            "messaging.operation.type": "send",
            "messaging.operation.name": "send",
            "messaging.client.id": client,
            "messaging.consumer.group.name": settings.app_id,
            "explanation_sidecar.records.topic": self._topics.records,
        }

    def add(self, partition: int, record: InputRecord, outputs: Sequence[Output], seconds: float) -> None:
        """The messages that a record has caused, and how long its fold took; nothing for a record without a trace."""
        carrier = {
            name: value.decode("ascii", "replace")
            for name, value in record.headers
            if name in TRACE_CONTEXT and value is not None
        }
        if not (outputs and carrier):
            return
        traced = self._span_of(self._propagator.extract(carrier)).get_span_context()
        if not (traced.is_valid and traced.trace_flags.sampled):
            return
        links = [self._link(traced)]
        end = time.time_ns()
        for output in outputs:
            topic = getattr(self._topics, output.destination)
            attributes = {
                **self._common,
                "messaging.destination.name": topic,
                "messaging.destination.partition.id": str(partition),
                "messaging.message.body.size": len(output.value or b""),
                "messaging.kafka.message.key": (output.key or b"").decode("utf-8", "replace"),
                "explanation_sidecar.records.offset": record.offset,
            }
            span = self._tracer.start_span(
                f"send {topic}", None, self._kind, attributes, links, start_time=end - int(seconds * 1e9)
            )
            span.end(end)

    def close(self) -> None:
        """Export what is left, for a short time at the most."""
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(CLOSE_SECONDS)


def _reporting(exporter: SpanExporter, where: str) -> SpanExporter:
    """An exporter that fails without noise: a line in the log when that begins, and one when it is over."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Reporting(SpanExporter):
        failing = False

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            try:
                result = exporter.export(spans)
            except Exception:
                result = SpanExportResult.FAILURE
            failed = result is not SpanExportResult.SUCCESS
            if failed and not self.failing:
                log.warning("%s: spans cannot be exported, and are dropped until they can", where)
            elif self.failing and not failed:
                log.info("%s: spans are exported again", where)
            self.failing = failed
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    return Reporting()
