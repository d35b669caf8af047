"""The server about itself, and what an attempt may know of itself."""

from fastapi import APIRouter, Response

from api import wire
from api.auth import unauthenticated
from api.replies import reply
from api.services import Asking, Here
from api.views import SelfView, VersionView
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
