"""Lease renewals of all agents of this process, in one transaction for each moment; acknowledged after the commit."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

import structlog

from api.hub import Hub, Outbox
from api.metrics import Metrics
from controller.state import Store, StoreError
from muster.clock import Clock
from muster.protocol import Renew, Renewed

log = structlog.get_logger("muster.api")

GATHER: Final = 0.02
"""Seconds for which renewals are gathered."""


class Pending(NamedTuple):
    stream: Outbox
    renew: Renew
    arrived: float


class Renewals:
    """`run` is its task."""

    def __init__(self, store: Store, hub: Hub, clock: Clock, metrics: Metrics, pool: Executor) -> None:
        self._store, self._hub, self._clock, self._metrics, self._pool = store, hub, clock, metrics, pool
        self._pending: list[Pending] = []
        self._some = asyncio.Event()

    def add(self, stream: Outbox, renew: Renew) -> None:
        self._pending.append(Pending(stream, renew, self._clock.boottime()))
        self._some.set()

    async def run(self) -> None:
        """Until cancelled. What cannot be committed is not acknowledged: the agents come again."""
        loop = asyncio.get_running_loop()
        while True:
            await self._some.wait()
            await asyncio.sleep(GATHER)
            self._some.clear()
            batch = [one for one in self._pending if self._hub.holds(one.stream)]
            self._pending = []
            try:
                await loop.run_in_executor(self._pool, self._commit, batch)
            except StoreError as error:
                log.warning("renewals could not be committed", agents=len(batch), error=str(error))
                continue
            self._acknowledge(batch)

    def _commit(self, batch: Sequence[Pending]) -> None:
        renewals = [(one.stream.node, one.stream.boot_id) for one in batch]
        self._store.transact(lambda w: w.renew_leases(renewals))

    def _acknowledge(self, batch: Sequence[Pending]) -> None:
        now = self._clock.boottime()
        for one in batch:
            one.stream.post(Renewed(seq=one.renew.seq, sent=one.renew.sent, at=self._clock.now()))
            self._metrics.renewal_seconds.observe(now - one.arrived)
        self._metrics.renewals.inc(len(batch))
