"""Spans to an OpenTelemetry collector, by the extra `tracing`. The standard variables decide: without
OTEL_EXPORTER_OTLP_ENDPOINT (or ..._TRACES_ENDPOINT) nothing is imported and nothing is sent."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog

from controller.telemetry.spans import Span

log = structlog.get_logger("muster.tracing")

Export = Callable[[Iterable[Span]], None]
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def exporter(service: str, environ: Mapping[str, str] | None = None) -> Export | None:
    """Takes spans and sends them in the background, dropping what a collector that is away does not take; None when
    nobody asked for it, or the extra is missing (said in the log)."""
    env = os.environ if environ is None else environ
    if not any(env.get(name) for name in ENDPOINTS):
        return None
    try:
        from controller.telemetry.otlp import start
    except ImportError as error:
        log.warning("no traces: install muster-cluster[tracing]", missing=error.name)
        return None
    return start(service)
