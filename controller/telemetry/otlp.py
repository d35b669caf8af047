"""Our spans in the words of the OpenTelemetry SDK. Imported only where the extra `tracing` is installed."""

from collections.abc import Iterable
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from controller.telemetry.spans import Span
from controller.telemetry.tracing import Export
from muster.version import VERSION

_SCOPE: Final = InstrumentationScope("muster", VERSION)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


def start(service: str) -> Export:
    """`service` is the service.name unless OTEL_SERVICE_NAME says otherwise."""
    resource = Resource.create({"service.name": service, "service.version": VERSION})
    sending = BatchSpanProcessor(OTLPSpanExporter())

    def export(spans: Iterable[Span]) -> None:
        for span in spans:
            sending.on_end(_readable(span, resource))

    return export


def _readable(span: Span, resource: Resource) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=SpanContext(span.trace, span.id, is_remote=False, trace_flags=_SAMPLED),
        parent=SpanContext(span.trace, span.parent, is_remote=True, trace_flags=_SAMPLED) if span.parent else None,
        resource=resource,
        attributes=span.attributes,
        kind=SpanKind.INTERNAL,
        start_time=int(span.start * 1e9),
        end_time=int(span.end * 1e9),
        instrumentation_scope=_SCOPE,
    )
