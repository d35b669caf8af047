"""Talk with a worker: run a command beside its ranks, watch what they print, reach a port that they listen on.

WebSockets whose frames `muster.channels` describes. What refuses a session answers the handshake with a problem
document. The agent calls back at the second address here."""

import asyncio
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, Query, WebSocket, WebSocketDisconnect
from msgspec import Struct
from starlette.concurrency import run_in_threadpool

from api import problems, submission
from api.logreader import parse_rank
from api.problems import conflict, not_found
from api.services import Asking, Here, Services
from api.sessions import RELAYED, Call, Desk, Side, join, relay
from controller.acts.log import job_event
from controller.records import JobRecord, WorkerRecord
from controller.state import Reading, SessionRecord, StoreError, Writer
from controller.state.limits import SESSION_SECONDS
from muster.problems import FieldError, Problem
from muster.protocol import Session, encode
from muster.states import WorkerPhase

log = structlog.get_logger("muster.api")

router = APIRouter(prefix="/namespaces/{namespace}/jobs/{name}", tags=["sessions"])
agents = APIRouter(prefix="/agent/v1/sessions")

_MOST_WORDS: Final = 1000

Role = Annotated[str | None, Query(max_length=63)]
Index = Annotated[int | None, Query(ge=0)]
Size = Annotated[int, Query(ge=1, le=1000)]


class Target(Struct, frozen=True, kw_only=True):
    """Which worker, and which of its ranks, as they were asked for."""

    role: str | None
    worker: int | None
    rank: str | None


@router.websocket("/exec")
async def exec_(
    socket: WebSocket,
    here: Here,
    asking: Asking,
    namespace: str,
    name: str,
    command: Annotated[list[str] | None, Query()] = None,
    role: Role = None,
    worker: Index = None,
    rank: str | None = None,
    stdin: bool = False,
    tty: bool = False,
    term: Annotated[str, Query(max_length=64)] = "xterm",
    columns: Size = 80,
    rows: Size = 24,
) -> None:
    """Run `command` as the worker's user, in its folder, with its environment and limits; it dies with the worker."""
    words = tuple(command or ())
    if not words or not words[0] or len(words) > _MOST_WORDS or any("\0" in word for word in words):
        error = FieldError("query.command", "expected a program and its arguments, each as one `command`")
        await _deny(socket, Problem(422, "INVALID", "The request is not valid", errors=(error,)))
        return
    offer = Session(
        uid=here.new_id(),
        worker_uid="",
        kind="exec",
        command=words,
        stdin=stdin,
        tty=tty,
        term=term,
        columns=columns,
        rows=rows,
    )
    await _serve(socket, here, namespace, name, Target(role=role, worker=worker, rank=rank), offer, asking.name)


@router.websocket("/attach")
async def attach(
    socket: WebSocket,
    here: Here,
    asking: Asking,
    namespace: str,
    name: str,
    role: Role = None,
    worker: Index = None,
    rank: str | None = None,
) -> None:
    """What a rank prints from now on, straight from its node, and how it ends."""
    offer = Session(uid=here.new_id(), worker_uid="", kind="attach")
    await _serve(socket, here, namespace, name, Target(role=role, worker=worker, rank=rank), offer, asking.name)


@router.websocket("/portforward")
async def portforward(
    socket: WebSocket,
    here: Here,
    asking: Asking,
    namespace: str,
    name: str,
    port: Annotated[int, Query(ge=1, le=65535)],
    role: Role = None,
    worker: Index = None,
    rank: str | None = None,
) -> None:
    """One TCP connection to a port on which a process of the worker listens."""
    offer = Session(uid=here.new_id(), worker_uid="", kind="portforward", port=port)
    await _serve(socket, here, namespace, name, Target(role=role, worker=worker, rank=rank), offer, asking.name)


@agents.websocket("/{uid}")
async def called(socket: WebSocket, here: Here, uid: str) -> None:
    """An agent calls."""
    call = Call(socket)
    if here.desk.answer(uid, call):
        await socket.accept()
        await call.over.wait()
        await _close(socket)
        return
    row = await run_in_threadpool(_row, here, uid)
    if row is None or not row.url or RELAYED in socket.headers:
        await _deny(socket, not_found("Session", uid))
        return
    await socket.accept()
    await relay(row, socket, clock=here.clock)
    await _close(socket)


async def _serve(
    socket: WebSocket, here: Services, namespace: str, name: str, target: Target, offer: Session, who: str
) -> None:
    """One session from the question to its end."""
    desk: Desk = here.desk
    try:
        with desk.expect(offer.uid) as expected:
            row = await run_in_threadpool(_open, here, namespace, name, target, offer, who)
            try:
                desk.tell([row])
                call = await expected.call(row.node)
                await socket.accept()
                settings = here.settings
                await join(
                    Side(socket), call.side, clock=here.clock, idle=settings.session_idle, longest=SESSION_SECONDS
                )
                await _close(socket)
            finally:
                await asyncio.shield(run_in_threadpool(_forget, here, row.uid))
    except (Problem, StoreError) as error:
        problem = problems.as_problem(error)
        assert problem is not None
        await _deny(socket, problem)


def _open(here: Services, namespace: str, name: str, target: Target, offer: Session, who: str) -> SessionRecord:
    """The row that the agent's API process finds, and for a command an event that says who ran what. Raises Problem."""
    rank = parse_rank(target.rank)
    now = here.clock.now()

    def act(w: Writer) -> SessionRecord:
        job = submission.existing(w, namespace, name)
        worker = _chosen(w, job, target, rank)
        frame = Session(
            **{field: getattr(offer, field) for field in offer.__struct_fields__}
            | {"worker_uid": worker.uid, "rank": rank if isinstance(rank, int) else None}
        )
        row = SessionRecord(
            uid=offer.uid, node=worker.node, url=here.settings.url, offer=encode(frame).decode(), at=now
        )
        w.insert_session(row)
        if offer.kind == "exec":
            words = " ".join(offer.command)[:500]
            job_event(w, job, "Exec", f"{who} ran `{words}` in {worker.role}-{worker.index} on {worker.node}", now)
        return row

    row = here.write(act)
    here.hints.publish(here.follower.revision)  # the row itself is not in the change log
    return row


def _chosen(w: Reading, job: JobRecord, target: Target, rank: int | str | None) -> WorkerRecord:
    """The worker that was meant: by its rank, by role and index, else the first. Raises Problem."""
    if job.attempt_uid is None:
        raise conflict(f"job {job.name} has no running attempt; it is {job.phase}", code="NOT_RUNNING")
    workers = w.workers(job.attempt_uid)
    chosen = [
        one
        for one in workers
        if (target.role is None or one.role == target.role)
        and (target.worker is None or one.index == target.worker)
        and (not isinstance(rank, int) or 0 <= rank - one.template.first_rank < one.template.ranks)
    ]
    if not chosen:
        if isinstance(rank, int):
            raise not_found("Rank", str(rank))
        raise not_found("Worker", f"{target.role or 'worker'}-{target.worker or 0}")
    worker = chosen[0]
    if worker.phase is not WorkerPhase.RUNNING:
        raise conflict(
            f"{worker.role}-{worker.index} of job {job.name} is not running; it is {worker.phase}", code="NOT_RUNNING"
        )
    return worker


def _forget(here: Services, uid: str) -> None:
    try:
        here.store.transact(lambda w: w.delete_session(uid))
    except StoreError as error:
        log.warning("a session's row stays until it is pruned", session=uid, error=str(error))


def _row(here: Services, uid: str) -> SessionRecord | None:
    with here.store.read() as r:
        return r.session(uid)


async def _deny(socket: WebSocket, problem: Problem) -> None:
    await socket.send_denial_response(problems.response(problem, socket.state.request_id))


async def _close(socket: WebSocket) -> None:
    try:
        await socket.close()
    except (RuntimeError, WebSocketDisconnect, OSError):
        pass  # it is closed already
