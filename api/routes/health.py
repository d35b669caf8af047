"""For load balancers and Prometheus; open to everybody."""

from fastapi import APIRouter, Response

from api import holding
from api.metrics import CONTENT_TYPE
from api.replies import reply
from api.services import Here

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=dict[str, str])
async def healthz() -> Response:
    """The process is alive."""
    return reply({"status": "ok"})


@router.get("/readyz", response_model=dict[str, str])
def readyz(here: Here) -> Response:
    """The database answers; 503 otherwise. `hold` says what waits for an operator; submissions are taken all the same."""
    with here.store.read() as r:
        hold = holding.words(r.cluster(), r.nodes())
        return reply({"status": "ok", "revision": str(r.revision())} | ({"hold": hold} if hold else {}))


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(here: Here) -> Response:
    return Response(here.metrics.text(), media_type=CONTENT_TYPE)
