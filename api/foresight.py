"""For Prometheus: how fresh the forecast of starts is, and how good forecasts were."""

from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily

from api.forecasts import accuracy
from controller.state import Store, StoreError


class Foresight:
    """Read when asked, so that it is never out of date; nothing while the database is away."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self._store, self._now = store, now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            newest, scored = self._store.forecasts.newest(body=False), self._store.forecasts.scored()
        except StoreError:
            return
        errors = GaugeMetricFamily(
            "muster_eta_error_seconds", "Of the first predicted start, over the last 1,000", labels=["quantile"]
        )
        found = accuracy(scored)
        for quantile, value in (("0.5", found["p50ErrorSeconds"]), ("0.9", found["p90ErrorSeconds"])):
            if value is not None:
                errors.add_metric([quantile], value)
        yield errors
        yield GaugeMetricFamily("muster_eta_starts", "Starts that are scored", value=found["starts"])
        if newest is not None:
            age = max(0.0, self._now() - newest.checked_at)
            yield GaugeMetricFamily(
                "muster_forecast_age_seconds", "Since the forecast was made, or held still", value=age
            )
            yield GaugeMetricFamily("muster_forecast_seconds", "That the newest forecast took", value=newest.seconds)

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing is known before it is asked for."""
        return []
