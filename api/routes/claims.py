"""Claims: room promised to jobs while others vacate it. Read only: the planner makes and drops them."""

from fastapi import APIRouter, Response

from api import wire
from api.replies import reply
from api.services import Here
from api.views import ClaimView, ListView
from controller.records import JobRecord, WorkerRecord
from controller.state import Reading
from muster.states import WORKER_TERMINAL

router = APIRouter(tags=["claims"])


@router.get("/claims", response_model=ListView[ClaimView])
def claims(here: Here) -> Response:
    """Of all namespaces, the highest priority first."""
    return _listed(here, None)


@router.get("/namespaces/{namespace}/claims", response_model=ListView[ClaimView])
def claims_of(here: Here, namespace: str) -> Response:
    """Of the jobs of one namespace."""
    return _listed(here, namespace)


def _listed(here: Here, namespace: str | None) -> Response:
    with here.store.read() as r:
        found = [job for job in r.claimants() if namespace in (None, job.namespace)]
        shown = sorted((wire.claim(job, _leaving(r, job)) for job in found), key=_first)
        return reply(wire.page("Claim", r.revision(), shown))


def _leaving(r: Reading, job: JobRecord) -> list[tuple[WorkerRecord, str]]:
    """Workers that were told to go and have not gone yet, with whose they are."""
    if job.claim is None:
        return []
    workers = (r.worker(uid) for uid in job.claim.vacating)
    left = [one for one in workers if one is not None and one.phase not in WORKER_TERMINAL]
    owners = {uid: r.job(uid) for uid in {one.job_uid for one in left}}
    return [(one, f"{owner.namespace}/{owner.name}") for one in left if (owner := owners[one.job_uid]) is not None]


def _first(one: ClaimView) -> tuple[int, str, str]:
    return -one["status"]["priority"], one["metadata"]["namespace"], one["metadata"]["name"]
