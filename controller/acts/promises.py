"""Records when and where a waiting gang starts at the latest, only where it changed."""

from collections.abc import Mapping, Sequence

from controller.picture import Picture
from controller.records import JobRecord, Promise
from controller.scheduling.types import Reservation
from controller.state.store import Store
from controller.state.types import LeaderLease
from muster.states import JobPhase

SAME = 1.0  # seconds within which a date is the same


def write_promises(store: Store, guard: LeaderLease, picture: Picture, reservations: Sequence[Reservation]) -> bool:
    """True when something was written. A job whose start cannot be dated any more loses its promise."""
    wanted = {one.job_uid: Promise(at=one.at, nodes=one.nodes) for one in reservations}
    news = [job.uid for job in picture.jobs.values() if _differs(job, wanted)]
    if not news:
        return False
    with store.write(guard) as w:
        for uid in news:
            job = w.job(uid)
            if job is not None and _differs(job, wanted):
                w.patch_job(uid, promise=wanted.get(uid))
    return True


def _differs(job: JobRecord, wanted: Mapping[str, Promise]) -> bool:
    new = wanted.get(job.uid) if job.phase in (JobPhase.QUEUED, JobPhase.RECOVERING) else None
    if new is None or job.promise is None:
        return new is not job.promise
    return new.nodes != job.promise.nodes or abs(new.at - job.promise.at) > SAME
