"""Keeps the forecast of starts up to date, and scores it: follows the change log, and writes beside it.

Any number may run: who finds a fresh forecast by somebody else leaves it alone. A standby's is preferred, so that the
leader has its cores for itself.
"""

import msgspec
import structlog

from controller.acts.waits import moves_the_plan
from controller.records import Change, JobRecord
from controller.scheduling.index import ClusterIndex, apply, build
from controller.simulation.forecast import STEPS, expected_end, forecast
from controller.simulation.spans import History
from controller.simulation.types import Basis, Forecast
from controller.state.errors import TooOld
from controller.state.store import Store
from controller.state.types import Prediction, StoredForecast
from muster.clock import Clock

log = structlog.get_logger("muster.forecast")

PAGE = 2_000
REMEMBERED = 2_000
"""Jobs that have ended, of which a history is made at the start."""
PAUSE = 2.0
"""Seconds between forecasts at least; of a slow one four times what it took, as far as its age allows."""
OLDEST = 8.0
"""Seconds after which a forecast is made anew, or found to hold still."""
STAMP = 4.0
"""Seconds between two words that it holds still."""
PATIENCE = 3.0
"""Seconds that a leader's waits longer than a standby's for somebody else's forecast."""
LEADER = "leader"
"""How the names of makers beside the leader begin."""
BUDGET = 4.0
"""Seconds that a forecast may take before it looks less closely."""


class Forecaster:
    """`maker` is unique to the process. `tick` is to be called about once a second."""

    def __init__(self, store: Store, clock: Clock, maker: str, *, standby: bool) -> None:
        self._store, self._clock = store, clock
        self._standby, self._maker = standby, f"{'standby' if standby else LEADER}:{maker}"
        self._begin()

    def _begin(self) -> None:
        with self._store.read() as r:
            revision, records = r.snapshot()
            self._history = History(r.succeeded(REMEMBERED))
        self._index: ClusterIndex = build(records, revision=revision)
        self._revision = revision
        self._stale = True
        self._made_at: float | None = None
        self._stamped_at = 0.0
        self._seconds = 0.0
        self._steps = STEPS
        self._due: float | None = None
        self._known = {one.job_uid for one in self._store.forecasts.open_predictions()}

    @property
    def index(self) -> ClusterIndex:
        return self._index

    def tick(self) -> bool:
        """One look. False when there was nothing to do: nobody waits, and nothing waits to be scored."""
        self._absorb()
        waiting = self._index.requests()
        now = self._clock.now()
        if self._known and self._stale:
            self._score()
        if self._due is not None and now >= self._due:
            self._stale = True
        if not waiting:
            if self._stale and self._made_at is not None:
                self._publish(Forecast(revision=self._revision, now=now), 0.0)
            self._stale = False
            return bool(self._known)
        if self._somebody_else():
            return True
        if self._stale and self._may(now):
            self._make(now)
        elif not self._stale and now - self._stamped_at >= STAMP:
            self._store.forecasts.holds(self._maker, self._revision, now)
            self._stamped_at = now
        return True

    # -- following -------------------------------------------------------------------------------------

    def _absorb(self) -> None:
        try:
            while changes := self._changes():
                self._stale |= any(moves_the_plan(self._index.jobs.get(one.uid), one) for one in changes)
                self._index = apply(self._index, changes)
                self._revision = changes[-1].revision
                for change in changes:
                    if isinstance(change.record, JobRecord):
                        self._history.learn(change.record)
        except TooOld:
            log.warning("fell behind the change log; beginning again")
            self._begin()

    def _changes(self) -> list[Change]:
        with self._store.read() as r:
            return r.changes(self._revision, limit=PAGE)

    def _somebody_else(self) -> bool:
        """Whether another maker's forecast is fresh. A standby's does not give way to a leader's."""
        found = self._store.forecasts.newest(body=False)
        if found is None or found.maker == self._maker or (self._standby and found.maker.startswith(LEADER)):
            return False
        return self._clock.now() - found.checked_at < OLDEST + (0.0 if self._standby else PATIENCE)

    def _may(self, now: float) -> bool:
        if self._made_at is None:
            return True
        return now - self._made_at >= max(PAUSE, min(OLDEST - self._seconds, 4 * self._seconds))

    # -- telling ---------------------------------------------------------------------------------------

    def _make(self, now: float) -> None:
        began = self._clock.boottime()
        found = forecast(self._index, now, self._history, steps=self._steps)
        seconds = self._clock.boottime() - began
        if seconds > BUDGET:
            self._steps = max(10, int(self._steps * BUDGET / seconds))
        elif seconds < BUDGET / 2:
            self._steps = min(STEPS, 2 * self._steps)
        self._publish(found, seconds)
        self._predict(found)

    def _publish(self, found: Forecast, seconds: float) -> None:
        body = msgspec.json.encode(found).decode()
        self._store.forecasts.put(
            StoredForecast(
                maker=self._maker,
                revision=self._revision,
                made_at=found.now,
                checked_at=found.now,
                seconds=seconds,
                body=body,
            )
        )
        self._made_at = self._stamped_at = found.now
        self._seconds, self._stale = seconds, False
        self._due = self._next_end(found.now)

    def _next_end(self, now: float) -> float | None:
        """When something should have ended: if it has not by then, the forecast does not hold any more."""
        ends = []
        for attempt in self._index.attempts.values():
            job = self._index.jobs.get(attempt.job_uid)
            found = expected_end(self._history, job, attempt, now) if job else None
            if found is not None:
                ends.append(max(found[0], now + PAUSE))
        return min(ends, default=None)

    def _predict(self, found: Forecast) -> None:
        """The first thing that a job is told is what counts. What starts at once has not waited."""
        fresh = [
            Prediction(
                job_uid=eta.job_uid,
                made_at=found.now,
                queue=self._index.asks[eta.job_uid].queue,
                predicted=eta.at,
                basis=str(eta.basis),
            )
            for eta in found.etas
            if eta.at is not None and eta.basis not in (Basis.NOW, Basis.BOUND) and eta.job_uid not in self._known
        ]
        self._store.forecasts.predict(fresh)
        self._known |= {one.job_uid for one in fresh}

    def _score(self) -> None:
        if any(uid not in self._index.gangs for uid in self._known):
            self._store.forecasts.settle()
            self._known = {one.job_uid for one in self._store.forecasts.open_predictions()}
