"""The logs of a job as plain text, while it runs and after."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any, Final, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from api import submission
from api.logreader import Cursor, Selection, parse_rank, sources
from api.problems import not_found
from api.services import Here, Services
from controller.arrays import is_array, names_of
from controller.launch.roles import in_rank_order
from controller.records import AttemptRecord, JobRecord, WorkerRecord
from controller.state import Reader
from muster.problems import Problem
from muster.states import JOB_TERMINAL, AttemptPhase

router = APIRouter(tags=["logs"])

T = TypeVar("T")

PAUSE: Final = 0.2
"""Seconds between looks at a log that is followed."""
QUIET: Final = 1.5
"""Seconds without anything new after the attempt's end, until its logs are taken for complete: they may arrive later
than the news of the end."""


@router.get(
    "/namespaces/{namespace}/jobs/{name}/logs",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {}}}},
)
async def logs(
    here: Here,
    namespace: str,
    name: str,
    attempt: Annotated[int | None, Query(ge=1, description="number; the newest by default")] = None,
    role: str | None = None,
    worker: Annotated[int | None, Query(ge=0)] = None,
    rank: Annotated[str | None, Query(description="a number, or `worker` for the launcher's own output")] = None,
    all_ranks: Annotated[bool, Query(alias="allRanks", description="every stream, each line with its origin")] = False,
    follow: bool = False,
    tail: Annotated[int | None, Query(ge=0, le=1_000_000, description="last lines of each stream")] = None,
) -> StreamingResponse:
    """By default what the first rank and its worker wrote. `follow` goes on until the attempt has ended and everything
    was sent, and waits for the first attempt of a job that has none yet."""
    wanted = Selection(role=role, worker=worker, rank=parse_rank(rank), all_ranks=all_ranks)
    job, found = await _off_loop(here, _find, here, namespace, name, attempt)
    if is_array(job):
        first = next(iter(names_of(name, job.spec["array"])))
        raise Problem(
            404, "NO_ATTEMPT", "An array has no logs", f"job {name} is an array: its elements have them, e.g. {first}"
        )
    if found is None and (not follow or job.phase in JOB_TERMINAL):
        raise Problem(404, "NO_ATTEMPT", "There are no logs yet", f"job {name} has had no attempt; it is {job.phase}")
    cursors = None if found is None else await _off_loop(here, _cursors, here, found, wanted, tail)
    stream = _follow(here, job.uid, found, cursors, wanted, tail) if follow else _all(here, cursors or ())
    return StreamingResponse(
        stream, media_type="text/plain; charset=utf-8", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )


async def _off_loop(here: Services, fn: Callable[..., T], *args: Any) -> T:
    """In one of the few threads that read logs, so that a log store which hangs holds up nothing else."""
    return await anyio.to_thread.run_sync(lambda: fn(*args), limiter=here.log_readers)


async def _all(here: Services, cursors: Sequence[Cursor]) -> AsyncIterator[bytes]:
    """Everything that is there now, one file after the other."""
    for cursor in cursors:
        while data := await _off_loop(here, cursor.read):
            yield data
        yield cursor.finish()


def _find(here: Services, namespace: str, name: str, number: int | None) -> tuple[JobRecord, AttemptRecord | None]:
    with here.store.read() as r:
        job = submission.existing(r, namespace, name)
        return job, _attempt(r, job, number)


def _attempt(r: Reader, job: JobRecord, number: int | None) -> AttemptRecord | None:
    """The one of this number, else the newest; None when there is none yet. Raises Problem 404."""
    found = r.attempts(job.uid)
    if number is None:
        return found[-1] if found else None
    chosen = next((one for one in found if one.number == number), None)
    if chosen is None:
        raise not_found("Attempt", str(number))
    return chosen


def _cursors(here: Services, attempt: AttemptRecord, wanted: Selection, tail: int | None) -> list[Cursor]:
    with here.store.read() as r:
        workers: Sequence[WorkerRecord] = r.workers(attempt.uid)
        job = r.job(attempt.job_uid)
    if job is not None:
        workers = in_rank_order(job.spec, workers)
    return [Cursor(source, tail) for source in sources(here.logs, workers, wanted)]


async def _follow(
    here: Services,
    job_uid: str,
    attempt: AttemptRecord | None,
    cursors: list[Cursor] | None,
    wanted: Selection,
    tail: int | None,
) -> AsyncIterator[bytes]:
    while attempt is None:
        await asyncio.sleep(PAUSE)
        job, attempt = await _off_loop(here, _first, here, job_uid)
        if job is None or here.follower.stopped or (attempt is None and job.phase in JOB_TERMINAL):
            return
    if cursors is None:
        cursors = await _off_loop(here, _cursors, here, attempt, wanted, tail)
    ended = here.clock.now() - attempt.ended_at if attempt.ended_at is not None else 0.0
    quiet_since = here.clock.boottime() - ended
    caught_up = False
    while True:
        over = here.follower.stopped or await _off_loop(here, _is_over, here, attempt)
        new = await _off_loop(here, _news, cursors)
        now = here.clock.boottime()
        if new:
            quiet_since = now if caught_up else quiet_since
            yield new
        elif here.follower.stopped or (over and now - quiet_since >= QUIET):
            break
        else:
            caught_up = True
            await asyncio.sleep(PAUSE)
    yield b"".join(cursor.finish() for cursor in cursors)


def _first(here: Services, job_uid: str) -> tuple[JobRecord | None, AttemptRecord | None]:
    with here.store.read() as r:
        job = r.job(job_uid)
        return job, _attempt(r, job, None) if job else None


def _is_over(here: Services, attempt: AttemptRecord) -> bool:
    """Ended, or gone with its job."""
    with here.store.read() as r:
        found = r.attempt(attempt.uid)
    return found is None or found.phase is AttemptPhase.ENDED


def _news(cursors: Sequence[Cursor]) -> bytes:
    return b"".join(cursor.read() for cursor in cursors)
