"""How long logs of finished jobs stay in the store (MUSTER_RETENTION); those of live jobs are never touched."""

import asyncio
from typing import Final

import structlog
from starlette.concurrency import run_in_threadpool

from api.services import Services
from controller.state import StoreError
from controller.state.retention import DAY, Held, beyond
from muster.states import JOB_TERMINAL

log = structlog.get_logger("muster.api")

PERIOD: Final = 1800.0
"""Seconds between looks. Several API processes do it without harm: each removes what is beyond the same limit."""


async def run(here: Services) -> None:
    while True:
        await asyncio.sleep(PERIOD)
        try:
            await run_in_threadpool(prune, here)
        except (StoreError, OSError) as error:
            log.warning("old logs cannot be removed now", error=str(error)[:500])


def prune(here: Services) -> list[str]:
    """Uids of the jobs whose logs went: those that finished first; and logs of jobs that are not known, once they are
    too old themselves (a database that was restored knows less than the store). Raises StoreError, OSError."""
    stock, now, gone, finished = here.logs.held(), here.clock.now(), [], []
    with here.store.read() as r:
        for (namespace, uid), held in stock.items():
            job = r.job(uid)
            oldest = now - here.settings.retention.of("logs", namespace).days * DAY
            if job is None:
                if held.written_at is not None and held.written_at < oldest:
                    gone.append((namespace, uid))
            elif job.phase in JOB_TERMINAL and job.finished_at is not None:
                finished.append(Held(namespace, uid, job.finished_at, held.size))
    limits = {one.namespace: here.settings.retention.of("logs", one.namespace) for one in finished}
    going = set(beyond(finished, limits, now))
    gone += [(one.namespace, one.uid) for one in finished if one.uid in going]
    for namespace, uid in gone:
        here.logs.remove_job(namespace, uid)
    if gone:
        log.info("old logs were removed", jobs=len(gone))
    return [uid for _, uid in gone]
