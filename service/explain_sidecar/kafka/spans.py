"""Spans of the messages whose last record came with a ``traceparent``: what the sidecar did, in the trace of the pipeline.

They are made beside the fold, from the clock, and change nothing in what is published. A thread of its own exports them; while the
collector is away they are dropped, and the loop never waits.
"""

from __future__ import annotations

import logging
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


def spans_of(settings: Settings, slot: int) -> Spans | None:
    """None unless ``tracing.endpoint`` is set. Raises ``UserError`` where its extra is not installed."""
    endpoint = settings.tracing.endpoint
    if endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise UserError(
            f"tracing.endpoint: {error.name or error} is missing; it needs the extra `otel`: pip install 'explanation-sidecar[otel]'"
        ) from None
    # Their loggers report every batch that fails, with a traceback; ours says once that it does.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    resource = Resource.create(
        {"service.name": settings.app_id, "service.instance.id": worker_name(settings, slot)}
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(_reporting(exporter, endpoint)))
    return Spans(settings, provider)


class Spans:
    """Makes a span of each message, and hands it to a thread that exports it."""

    def __init__(self, settings: Settings, provider: TracerProvider) -> None:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._topics = settings.topics
        self._provider = provider
        self._tracer = provider.get_tracer("explanation-sidecar")
        self._propagator = TraceContextTextMapPropagator()
        self._kind = SpanKind.PRODUCER

    def add(self, partition: int, record: InputRecord, outputs: Sequence[Output], seconds: float) -> None:
        """The messages that a record has caused, and how long its fold took; nothing for a record without a trace."""
        carrier = {
            name: value.decode("ascii", "replace")
            for name, value in record.headers
            if name in TRACE_CONTEXT and value is not None
        }
        context = self._propagator.extract(carrier) if outputs and carrier else None
        if not context:
            return
        end = time.time_ns()
        for output in outputs:
            topic = getattr(self._topics, output.destination)
            attributes = {
                "messaging.system": "kafka",
                "messaging.operation.type": "send",
                "messaging.operation.name": "explain",
                "messaging.destination.name": topic,
                "messaging.destination.partition.id": str(partition),
                "messaging.message.body.size": len(output.value or b""),
                "explanation_sidecar.records.topic": self._topics.records,
                "explanation_sidecar.records.offset": record.offset,
            }
            span = self._tracer.start_span(
                f"explain {topic}", context, self._kind, attributes, start_time=end - int(seconds * 1e9)
            )
            span.end(end)

    def close(self) -> None:
        """Export what is left, for a short time at the most."""
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(CLOSE_SECONDS)


def _reporting(exporter: SpanExporter, endpoint: str) -> SpanExporter:
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
                log.warning(
                    "tracing.endpoint %s: spans cannot be exported, and are dropped until they can", endpoint
                )
            elif self.failing and not failed:
                log.info("tracing.endpoint %s: spans are exported again", endpoint)
            self.failing = failed
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

    return Reporting()
