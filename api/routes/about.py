"""The server about itself, and what an attempt may know of itself."""

from fastapi import APIRouter, Response

from api import submission, wire
from api.auth import unauthenticated
from api.replies import reply
from api.services import Asking, Here
from api.views import SelfView, VersionView
from controller.records import AttemptRecord
from controller.state import Writer
from muster.resources.meta import API_VERSION
from muster.version import PROTOCOL, PROTOCOL_OLDEST, VERSION

router = APIRouter(tags=["about"])


@router.get("/version", response_model=VersionView)
async def version() -> Response:
    return reply(
        {"version": VERSION, "apiVersion": API_VERSION, "protocol": PROTOCOL, "protocolOldest": PROTOCOL_OLDEST}
    )


@router.get("/self", response_model=SelfView)
def myself(here: Here, asking: Asking) -> Response:
    """For the token that a worker finds in its environment."""
    with here.store.read() as r:
        attempt = r.attempt(asking.attempt)
    if attempt is None:
        raise unauthenticated("the attempt of this token is gone")
    return reply(wire.myself(attempt))


@router.post("/self/restart", status_code=202, response_model=SelfView)
def restart_myself(here: Here, asking: Asking) -> Response:
    """The attempt asks to be ended and begun anew, from its newest checkpoint; it counts as no failure. What `scontrol
    requeue` does from inside a job of Slurm's."""
    now = here.clock.now()

    def wish(w: Writer) -> AttemptRecord:
        attempt = w.attempt(asking.attempt)
        job = None if attempt is None else w.job(attempt.job_uid)
        if attempt is None or job is None:
            raise unauthenticated("the attempt of this token is gone")
        if job.attempt_uid == attempt.uid:
            submission.steer(w, job.namespace, job.name, "restart", f"attempt {attempt.number} itself", now)
        return attempt

    return reply(wire.myself(here.write(wish)), 202)
