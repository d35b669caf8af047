"""What jobs cost and what became of it: receipts, and their sums."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime

from api import goodput_wire, submission
from api.goodput_wire import GoodputView, ReceiptView
from api.replies import reply
from api.services import Here
from controller.acts.receipts import receipt_of
from controller.recovery.accounts import By

router = APIRouter(tags=["goodput"])

LIVE_LIMIT = 500
"""Live jobs that are booked for one answer; with more only finished ones are."""


@router.get("/namespaces/{namespace}/jobs/{name}/receipt", response_model=ReceiptView)
def receipt(here: Here, namespace: str, name: str) -> Response:
    """Where each device-second of the job went, what each failure cost, and why it ended; of a live job up to now, and of
    a job that was removed the newest that is on record."""
    with here.store.read() as r:
        job = r.job_named(namespace, name)
        if job is None:
            past = [one for one in r.receipts(namespace) if one.name == name]
            if past:
                return reply(goodput_wire.receipt(past[-1]))
            job = submission.existing(r, namespace, name)
        found = r.receipt(job.uid) or receipt_of(r, job, here.clock.now())
        return reply(goodput_wire.receipt(found))


@router.get("/goodput", response_model=GoodputView)
def goodput(
    here: Here,
    namespace: str | None = None,
    queue: str | None = None,
    since: Annotated[AwareDatetime | None, Query(description="jobs that ended then or later, and live ones")] = None,
    by: By = "queue",
) -> Response:
    """Device-seconds by what they went to, ETTR, MTTF and MTTR with its parts: of all jobs together, and by queue,
    namespace, user, accelerator, job, cause of failure, or culprit node."""
    with here.store.read() as r:
        found = r.receipts(namespace, since=since.timestamp() if since else None, queue=queue)
        live = r.jobs(namespace, live_only=True, queue=queue, limit=LIVE_LIMIT + 1)
        complete = len(live) <= LIVE_LIMIT
        if complete:
            found += [receipt_of(r, job, here.clock.now()) for job in live]
    return reply(goodput_wire.goodput(by, found, complete))
