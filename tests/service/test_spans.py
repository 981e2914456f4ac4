"""Spans of traced messages: exported over HTTP to a collector, and never in the loop's way."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from explain_sidecar.fold.messages import Output
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.kafka.spans import Spans, spans_of
from explain_sidecar.settings import load_settings
from tests.loopback import serving

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """A server for OTLP over HTTP on loopback. It keeps its answers back while ``answers`` is cleared."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.spans: list[tuple[dict[str, str], Any]] = []
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        self.asked.set()
        self.answers.wait()
        if path != "/v1/traces":
            return 404, b""
        self.take(ExportTraceServiceRequest.FromString(body))
        return 200, b""

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            about = {
                attribute.key: attribute.value.string_value for attribute in resource.resource.attributes
            }
            self.spans += [(about, span) for scope in resource.scope_spans for span in scope.spans]

    @contextmanager
    def running(self) -> Iterator["Collector"]:
        with serving(self.answer) as self.endpoint:
            try:
                yield self
            finally:
                self.answers.set()


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


def made(endpoint: str | None) -> Spans:
    named = {} if endpoint is None else {"EXPLAIN_TRACING__ENDPOINT": endpoint}
    environ = {"EXPLAIN_APP_ID": "churn", "EXPLAIN_INSTANCE_ID": "pod-0", **named}
    spans = spans_of(load_settings(environ=environ), slot=1)
    assert spans is not None
    return spans


def record(offset: int, traceparent: bytes | None) -> InputRecord:
    headers = () if traceparent is None else (("traceparent", traceparent),)
    return InputRecord(offset, 0, b"k", b"{}", headers)


OUTPUT = Output("explanations", b"records/3", b"12345", (("schema", b"explanation/1"),))


def test_a_span_is_linked_to_the_trace_of_the_record_and_says_where_the_message_is() -> None:
    with Collector().running() as collector:
        spans = made(collector.endpoint)
        spans.add(3, record(7, f"00-{TRACE}-{PARENT}-01".encode()), [OUTPUT], seconds=0.25)
        for untraced in (None, b"", b"nonsense", f"00-{TRACE}-{PARENT}-00".encode(), b"\xff" * 55):
            spans.add(3, record(8, untraced), [OUTPUT], seconds=0.25)
        spans.add(3, record(9, f"00-{TRACE}-{PARENT}-01".encode()), [], seconds=0.25)
        spans.close()
    ((about, span),) = collector.spans
    (link,) = span.links
    assert (link.trace_id.hex(), link.span_id.hex(), span.name) == (TRACE, PARENT, "send explanations")
    assert span.parent_span_id == b"" and span.trace_id != link.trace_id
    assert span.end_time_unix_nano - span.start_time_unix_nano == 250_000_000
    assert (about["service.name"], about["service.instance.id"]) == ("churn", "churn-pod-0-1")
    attributes = {attribute.key: attribute.value for attribute in span.attributes}
    assert attributes["messaging.destination.partition.id"].string_value == "3"
    assert attributes["messaging.message.body.size"].int_value == 5
    assert attributes["messaging.kafka.message.key"].string_value == "records/3"
    assert attributes["messaging.client.id"].string_value == "churn-pod-0-1"
    assert attributes["explanation_sidecar.records.offset"].int_value == 7


def test_the_variables_of_opentelemetry_work_and_a_setting_of_ours_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    traced = record(7, f"00-{TRACE}-{PARENT}-01".encode())
    with Collector().running() as collector, Collector().running() as other:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "explainer")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
        for endpoint in (None, other.endpoint):
            spans = made(endpoint)
            spans.add(3, traced, [OUTPUT], seconds=0.25)
            spans.close()
        for name, value in (("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")):
            with monkeypatch.context() as off:
                off.setenv(name, value)
                assert spans_of(load_settings(environ={}), slot=0) is None
    for ((about, _),) in (collector.spans, other.spans):
        assert about["service.name"] == "explainer"
        assert about["service.instance.id"] == "churn-pod-0-1"
        assert about["deployment.environment.name"] == "staging"


def test_a_collector_that_does_not_answer_holds_nothing_up_and_the_oldest_excess_is_dropped() -> None:
    with Collector().running() as collector:
        collector.answers.clear()
        spans = made(collector.endpoint)
        for offset in range(10_000):
            spans.add(0, record(offset, f"00-{TRACE}-{PARENT}-01".encode()), [OUTPUT], seconds=0.0)
        assert collector.asked.wait(30)
        assert not collector.spans  # all were added while not one was answered
        collector.answers.set()
        spans.close()
        assert len(collector.spans) < 10_000


def test_a_collector_that_is_away_is_said_once_and_breaks_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")  # seconds
    with Collector().running() as gone:
        endpoint = gone.endpoint
    spans = made(endpoint)
    for offset in range(3):
        spans.add(0, record(offset, f"00-{TRACE}-{PARENT}-01".encode()), [OUTPUT], seconds=0.0)
        spans._provider.force_flush()
    warnings = [record for record in caplog.records if "tracing.endpoint" in record.getMessage()]
    assert [record.levelname for record in warnings] == ["WARNING"]
    assert not any(record.exc_info for record in caplog.records)


def test_without_an_endpoint_there_are_no_spans() -> None:
    assert spans_of(load_settings(environ={}), slot=0) is None
