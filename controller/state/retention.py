"""How long what finished jobs left is kept. What belongs to a live job is never touched."""

from collections.abc import Iterable

from msgspec import Struct
from sqlalchemy import Connection, delete, func, select

from controller.state import tables
from controller.state.limits import EVENT_SECONDS, EVENTS_OF_NAMESPACE, EVIDENCE_BYTES_OF_NAMESPACE, EVIDENCE_SECONDS
from controller.state.statements import batches
from muster.states import JOB_TERMINAL

_jobs, _events, _evidence = tables.jobs.c, tables.events.c, tables.evidence.c
_live = select(_jobs.uid).where(tables.LIVE_JOB)
_of_the_living = _events.object_uid.in_(_live)
_held = (
    select(_jobs.namespace, _jobs.uid, _jobs.finished_at, func.sum(_evidence.size))
    .join(tables.attempts, tables.attempts.c.job_uid == _jobs.uid)
    .join(tables.evidence, _evidence.attempt_uid == tables.attempts.c.uid)
    .where(_jobs.phase.in_(sorted(JOB_TERMINAL)))
    .group_by(_jobs.namespace, _jobs.uid, _jobs.finished_at)
)


class Held(Struct, frozen=True):
    """Bytes that a finished job holds, and when it finished."""

    namespace: str
    uid: str
    finished_at: float
    size: int


def beyond(held: Iterable[Held], limit: int, oldest: float) -> list[str]:
    """Jobs whose share goes: those that finished before `oldest`, and in each namespace, from the newest back, all
    from the one on with which it would hold more than `limit` bytes."""
    sums: dict[str, int] = {}
    going = []
    for one in sorted(held, key=lambda one: (-one.finished_at, one.uid)):
        sums[one.namespace] = sums.get(one.namespace, 0) + one.size
        if one.finished_at < oldest or sums[one.namespace] > limit:
            going.append(one.uid)
    return going


def prune_events(connection: Connection, now: float) -> None:
    """By age, then by number in each namespace, the oldest first."""
    table = tables.events
    connection.execute(delete(table).where(_events.at < now - EVENT_SECONDS, ~_of_the_living))
    counts = select(_events.namespace).group_by(_events.namespace).having(func.count() > EVENTS_OF_NAMESPACE)
    for namespace in connection.execute(counts).scalars().all():
        mine = select(_events.revision).where(_events.namespace == namespace).order_by(_events.revision.desc())
        last = connection.execute(mine.limit(1).offset(EVENTS_OF_NAMESPACE - 1)).scalar_one()
        old = (_events.namespace == namespace) & (_events.revision < last)
        connection.execute(delete(table).where(old, ~_of_the_living))


def prune_evidence(connection: Connection, now: float) -> None:
    """Evidence of finished jobs by age, then by bytes in each namespace. Verdicts and incidents stay."""
    held = [Held(*row) for row in connection.execute(_held)]
    for uids in batches(beyond(held, EVIDENCE_BYTES_OF_NAMESPACE, now - EVIDENCE_SECONDS)):
        attempts = select(tables.attempts.c.uid).where(tables.attempts.c.job_uid.in_(uids))
        connection.execute(delete(tables.evidence).where(_evidence.attempt_uid.in_(attempts)))
