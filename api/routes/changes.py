"""The watch: the change log as server-sent events."""

import functools
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Header, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from api import problems
from api.follower import PAGE, Entry, entries
from api.services import Here, Services
from controller.state import TooOld
from muster.problems import FieldError, Problem

router = APIRouter(tags=["watch"])


@router.get("/changes", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
async def changes(
    here: Here,
    after: Annotated[
        int | None, Query(ge=0, le=2**63 - 1, description="begin after this revision; without it, with now")
    ] = None,
    kind: Annotated[list[str] | None, Query(description="e.g. Job, Attempt, Node; all by default")] = None,
    namespace: str | None = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Events `put` and `delete`, each with the object as it is now; `bookmark` says from where to go on. A watcher
    that comes back sends `Last-Event-ID` (or `after`); 410 tells it that the log does not reach back so far."""
    begin = _begin(after, last_event_id)
    newest = await run_in_threadpool(_reaches, here, begin)
    stream = _stream(here, newest if begin is None else begin, frozenset(kind or ()), namespace)
    return StreamingResponse(
        stream, media_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )


def _begin(after: int | None, last_event_id: str | None) -> int | None:
    if last_event_id is None or last_event_id == "":
        return after
    if not last_event_id.isascii() or not last_event_id.isdigit() or int(last_event_id[:20]) >= 2**63:
        error = FieldError("header.last-event-id", "expected a revision", found=last_event_id[:200])
        raise Problem(422, "INVALID", "The request is not valid", errors=(error,))
    return int(last_event_id)


def _reaches(here: Services, begin: int | None) -> int:
    """The newest revision. Raises TooOld, so that the answer can still be 410."""
    with here.store.read() as r:
        if begin is not None:
            r.changes(begin, limit=1)
        return r.revision()


async def _stream(here: Services, after: int, kinds: frozenset[str], namespace: str | None) -> AsyncIterator[bytes]:
    yield _bookmark(after)
    try:
        async for revision, page in here.follower.watch(after, functools.partial(_page, here)):
            wanted = [entry for entry in page if _wanted(entry, kinds, namespace)]
            yield b"".join(entry.text or b"" for entry in wanted)
            if not wanted or wanted[-1].revision != revision:
                yield _bookmark(revision)
    except TooOld as error:
        problem = problems.as_problem(error)
        yield b"event: error\ndata: %s\n\n" % msgspec.json.encode(problem.wire() if problem else {})


async def _page(here: Services, after: int) -> list[Entry]:
    def read() -> list[Entry]:
        with here.store.read() as r:
            return entries(r, r.changes(after, limit=PAGE), rendered=True)

    return await run_in_threadpool(read)


def _wanted(entry: Entry, kinds: frozenset[str], namespace: str | None) -> bool:
    return (not kinds or entry.kind in kinds) and (namespace is None or entry.namespace == namespace)


def _bookmark(revision: int) -> bytes:
    return b'id: %d\nevent: bookmark\ndata: {"type":"bookmark","revision":%d}\n\n' % (revision, revision)
