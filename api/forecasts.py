"""The newest forecast, kept decoded between requests, and how good forecasts were."""

import threading
from collections.abc import Iterable, Mapping

import msgspec

from api.views import AccuracyView, EtaView
from controller.simulation.types import Basis, Eta, Forecast
from controller.state import Prediction, Store, StoredForecast
from muster.clock import Clock, iso


class Forecasts:
    """Safe to share between threads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._known: tuple[StoredForecast, dict[str, tuple[int, Eta]]] | None = None
        self._lock = threading.Lock()

    def etas(self) -> Mapping[str, EtaView]:
        """By job uid. What is read costs nothing until a newer forecast is there."""
        header = self._store.forecasts.newest(body=False)
        if header is None:
            return {}
        with self._lock:
            known = self._known
            if known is None or (known[0].maker, known[0].made_at) != (header.maker, header.made_at):
                known = self._read()
                if known is None:
                    return {}
                self._known = known
        return _Views(header, known[1], self._clock.now())

    def _read(self) -> tuple[StoredForecast, dict[str, tuple[int, Eta]]] | None:
        stored = self._store.forecasts.newest()
        if stored is None:
            return None
        forecast = msgspec.json.decode(stored.body, type=Forecast)
        return stored, {eta.job_uid: (place, eta) for place, eta in enumerate(forecast.etas, 1)}


class _Views(Mapping[str, EtaView]):
    """Made when asked for: a list shows few of all that wait."""

    def __init__(self, header: StoredForecast, etas: dict[str, tuple[int, Eta]], now: float) -> None:
        self._header, self._etas, self._now = header, etas, now

    def __getitem__(self, uid: str) -> EtaView:
        place, eta = self._etas[uid]
        return {
            "at": iso(eta.at),
            "bound": eta.basis is Basis.BOUND,
            "basis": str(eta.basis),
            "note": eta.note,
            "position": place,
            "waiting": len(self._etas),
            "revision": str(self._header.revision),
            "madeAt": iso(self._header.made_at),
            "ageSeconds": round(max(0.0, self._now - self._header.checked_at), 1),
        }

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._etas)

    def __len__(self) -> int:
        return len(self._etas)


def accuracy(predictions: Iterable[Prediction], queue: str | None = None) -> AccuracyView:
    """The errors of the first prediction of each of the last thousand starts (of one queue, where one is named)."""
    errors = sorted(
        abs(one.started_at - one.predicted)
        for one in predictions
        if one.started_at is not None and queue in (None, one.queue)
    )
    return {
        "starts": len(errors),
        "p50ErrorSeconds": _share(errors, 0.5),
        "p90ErrorSeconds": _share(errors, 0.9),
    }


def _share(values: list[float], share: float) -> float | None:
    """The smallest value that this share of them does not exceed."""
    return round(values[max(0, -int(-share * len(values) // 1) - 1)], 3) if values else None
