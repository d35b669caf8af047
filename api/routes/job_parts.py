"""What belongs to one job: attempts, events, checkpoints, incidents."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from api import show, submission, wire
from api.replies import reply
from api.services import Here
from api.views import AttemptView, CheckpointView, EventView, IncidentView, ListView

router = APIRouter(prefix="/namespaces/{namespace}/jobs/{name}", tags=["jobs"])


@router.get("/attempts", response_model=ListView[AttemptView])
def attempts(here: Here, namespace: str, name: str) -> Response:
    """Oldest first, each with its workers."""
    with here.store.read() as r:
        found = r.attempts(submission.existing(r, namespace, name).uid)
        return reply(wire.page("Attempt", r.revision(), show.attempts(r, found)))


@router.get("/events", response_model=ListView[EventView])
def events(here: Here, namespace: str, name: str, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> Response:
    """The newest, oldest first."""
    with here.store.read() as r:
        found = r.events(object_uid=submission.existing(r, namespace, name).uid, limit=limit)
        return reply(wire.page("Event", r.revision(), [wire.event(one) for one in found]))


@router.get("/checkpoints", response_model=ListView[CheckpointView])
def checkpoints(here: Here, namespace: str, name: str) -> Response:
    """By step."""
    with here.store.read() as r:
        found = r.checkpoints(submission.existing(r, namespace, name).uid)
        return reply(wire.page("Checkpoint", r.revision(), [wire.checkpoint(one) for one in found]))


@router.get("/incidents", response_model=ListView[IncidentView])
def incidents(here: Here, namespace: str, name: str) -> Response:
    """Oldest first."""
    with here.store.read() as r:
        found = r.incidents(job_uid=submission.existing(r, namespace, name).uid)
        return reply(wire.page("Incident", r.revision(), [wire.incident(one) for one in found]))
