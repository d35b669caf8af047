"""What Prometheus reads of an API process: its requests, agents and renewals, and the state of the cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import Scope

from api.census import Census
from api.foresight import Foresight
from controller.state import Store
from muster.clock import Clock

PREFIX = "/api/v1"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Observed:
    """The status of a request, 0 until it is known."""

    status: int = 0


class Metrics:
    """One registry for each app."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._now = clock.boottime
        self._registry = CollectorRegistry()
        self._registry.register(Census(store, clock.now))
        self._registry.register(Foresight(store, clock.now))
        self._requests = Counter(
            "muster_api_requests", "Requests", ("method", "route", "status"), registry=self._registry
        )
        self._latency = Histogram(
            "muster_api_request_seconds", "Time to answer", ("method", "route"), registry=self._registry
        )
        self.agents = Gauge("muster_api_agents", "Agents whose stream ends here", registry=self._registry)
        self.renewals = Counter("muster_api_renewals", "Leases renewed", registry=self._registry)
        self.renewal_seconds = Histogram(
            "muster_api_renewal_seconds", "From a renewal's arrival to its commit", registry=self._registry
        )
        self.logged_bytes = Counter("muster_api_log_bytes", "Bytes put into the log store", registry=self._registry)

    @contextmanager
    def request(self, scope: Scope) -> Iterator[Observed]:
        """Counts a request when it is over. The route is its template, so that names make no new series."""
        observed, begun = Observed(), self._now()
        try:
            yield observed
        finally:
            method = scope.get("method", "WEBSOCKET")
            route = _route(scope)
            self._requests.labels(method, route, str(observed.status)).inc()
            if scope["type"] == "http":
                self._latency.labels(method, route).observe(self._now() - begun)

    def text(self) -> bytes:
        """Reads the database."""
        return generate_latest(self._registry)


def _route(scope: Scope) -> str:
    """The template of the address; a router that was included names its own without the prefix."""
    path: str | None = getattr(scope.get("route"), "path", None)
    if path is None:
        return "unknown"
    return path if not scope["path"].startswith(PREFIX) or path.startswith(PREFIX) else PREFIX + path
