"""`/metrics`, `/healthz` and `/readyz` of the controller, on a port of its own (`MUSTER_METRICS_PORT`)."""

import threading
from collections.abc import Callable, Iterable, Iterator
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from controller.telemetry.pulse import BUCKETS, Pulse, Timing


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """A scrape each few seconds is nothing to tell."""


class PulseCollector:
    """The pulse in Prometheus' words."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse

    def collect(self) -> Iterator[Metric]:
        health = self._pulse.health()
        yield GaugeMetricFamily("muster_controller_leading", "1: this process leads", value=health.role == "leader")
        yield GaugeMetricFamily("muster_controller_silent_seconds", "Since its last sign of life", value=health.silent)
        yield _histogram("muster_cycle_seconds", "One look of the loop at the world", self._pulse.cycles)
        yield _histogram("muster_plan_seconds", "The planner's part of it", self._pulse.plans)
        family = CounterMetricFamily(
            "muster_decisions", "What was decided, and what the world overtook", labels=["what"]
        )
        for what, count in self._pulse.decisions.items():
            family.add_metric([what], count)
        yield family


def _histogram(name: str, words: str, timing: Timing) -> HistogramMetricFamily:
    total, buckets = 0, []
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), timing.counts, strict=True):
        total += count
        buckets.append((bound, total))
    return HistogramMetricFamily(name, words, buckets=buckets, sum_value=timing.sum)


def application(pulse: Pulse) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    registry = CollectorRegistry()
    registry.register(PulseCollector(pulse))

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path, health = environ.get("PATH_INFO", ""), pulse.health()
        if path == "/metrics":
            start("200 OK", [("Content-Type", CONTENT_TYPE_LATEST)])
            return [generate_latest(registry)]
        good = {"/healthz": health.alive, "/readyz": health.ready}.get(path)
        status = "404 Not Found" if good is None else "200 OK" if good else "503 Service Unavailable"
        start(status, [("Content-Type", "application/json")])
        return [msgspec.json.encode(health)]

    return answer


def serve(pulse: Pulse, host: str, port: int) -> WSGIServer:
    """Answers in a thread of its own until `shutdown()`. Raises OSError when the port is taken."""
    server = make_server(host, port, application(pulse), handler_class=_Quiet)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
