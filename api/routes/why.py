"""Why a job is not running yet, and when it will."""

from fastapi import APIRouter, Response

from api import submission, wire
from api.replies import reply
from api.services import Here
from api.views import WhyView

router = APIRouter(prefix="/namespaces/{namespace}/jobs/{name}", tags=["jobs"])


@router.get("/why", response_model=WhyView)
def why(here: Here, namespace: str, name: str) -> Response:
    """The reason that binds, the others, the numbers, what would help, and when it is expected to start."""
    with here.store.read() as r:
        record = submission.existing(r, namespace, name)
    return reply(wire.why(record, here.forecasts.etas().get(record.uid)))
