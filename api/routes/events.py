"""Events of a namespace or of the whole cluster."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from api import wire
from api.replies import reply
from api.services import Here, Services
from api.views import EventView, ListView

router = APIRouter(tags=["events"])

After = Annotated[
    int | None, Query(ge=0, le=2**63 - 1, description="the first after this revision, instead of the newest")
]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("/events", response_model=ListView[EventView])
def all_events(here: Here, after: After = None, limit: Limit = 200) -> Response:
    """Oldest first."""
    return _events(here, None, after, limit)


@router.get("/namespaces/{namespace}/events", response_model=ListView[EventView])
def events(here: Here, namespace: str, after: After = None, limit: Limit = 200) -> Response:
    """Oldest first."""
    return _events(here, namespace, after, limit)


def _events(here: Services, namespace: str | None, after: int | None, limit: int) -> Response:
    with here.store.read() as r:
        found = r.events(namespace, after=after, limit=limit)
        return reply(wire.page("Event", r.revision(), [wire.event(one) for one in found]))
