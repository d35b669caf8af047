"""The cluster at a glance, in answers whose size does not grow with the number of jobs: what dashboards draw."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from typing_extensions import TypedDict

from api import overview, submission, wire
from api.replies import reply
from api.services import Here
from api.views import IncidentView, ListView

router = APIRouter(tags=["overview"])


class PointView(TypedDict):
    """What a rank reported at the end of a step or phase."""

    attempt: int
    step: int
    loss: float | None
    at: str | None
    rank: int | None
    phase: str


class PhaseCount(TypedDict):
    phase: str
    count: int


class ReasonCount(TypedDict):
    queue: str
    reason: str
    count: int
    oldestSeconds: float


class KindCount(TypedDict):
    type: str
    all: int
    allocated: int
    healthy: int


class NextStart(TypedDict):
    namespace: str
    job: str
    at: str | None
    basis: str | None
    queue: str
    workers: int


class QueueCount(TypedDict):
    queue: str
    phase: str
    count: int


class SummaryView(TypedDict):
    resourceVersion: str
    at: str | None
    jobs: list[PhaseCount]
    queues: list[QueueCount]
    waiting: list[ReasonCount]
    nodes: list[PhaseCount]
    devices: list[KindCount]
    goodput: float | None
    deviceSeconds: dict[str, float]
    incidents: list[IncidentView]
    next: list[NextStart]


class FabricNode(TypedDict):
    """`path`: its domains, outermost first. `devices`: a letter for each: f free, u used, s sick. `jobs`: who holds
    each device, as places in the list of jobs, -1 for nobody."""

    name: str
    path: list[str]
    phase: str
    cordoned: bool
    type: str
    devices: str
    jobs: list[int]
    conditions: int


class FabricJob(TypedDict):
    namespace: str
    name: str
    queue: str
    phase: str


class FabricView(TypedDict):
    resourceVersion: str
    levels: list[str]
    nodes: list[FabricNode]
    jobs: list[FabricJob]


@router.get("/summary", response_model=SummaryView)
def summary(here: Here) -> Response:
    """Jobs by phase and queue, why jobs wait, devices and their use, goodput and incidents of the last day, what starts next."""
    with here.store.read() as r:
        return reply(overview.summary(r, here.forecasts.etas(), here.clock.now()))


@router.get("/fabric", response_model=FabricView)
def fabric(here: Here) -> Response:
    """Every node with its place on the fabric, its devices and who holds them, in a form made for drawing."""
    with here.store.read() as r:
        return reply(overview.fabric(r))


@router.get("/incidents", response_model=ListView[IncidentView])
def incidents(
    here: Here,
    hours: Annotated[float, Query(gt=0, le=24 * 366, description="opened in so many last hours")] = 24 * 7,
    namespace: str | None = None,
) -> Response:
    """Failures of all jobs, the newest first."""
    with here.store.read() as r:
        found = r.incidents(since=here.clock.now() - hours * 3600)
        shown = [wire.incident(one) for one in reversed(found) if namespace in (None, one.namespace)]
        return reply(wire.page("Incident", r.revision(), shown))


@router.get("/namespaces/{namespace}/jobs/{name}/progress", response_model=ListView[PointView])
def progress(
    here: Here,
    namespace: str,
    name: str,
    attempt: Annotated[int | None, Query(ge=1, description="its number; all of them unless said")] = None,
    limit: Annotated[int, Query(ge=1, le=5000, description="the newest of each attempt")] = 1000,
) -> Response:
    """What ranks reported of their steps, oldest first."""
    with here.store.read() as r:
        attempts = r.attempts(submission.existing(r, namespace, name).uid)
        wanted = [one for one in attempts if attempt in (None, one.number)]
        points = [overview.point(one, point) for one in wanted for point in r.progress(one.uid, limit)]
        return reply(wire.page("Progress", r.revision(), points))
