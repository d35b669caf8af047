"""The application: everything is made, wired and started here."""

import asyncio
import os
import secrets
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from anyio import CapacityLimiter
from fastapi import Depends, FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response

from api import dashboard_files, logretention, problems
from api.auth import Authenticator
from api.credentials import read_or_make, token_hash
from api.follower import Follower
from api.forecasts import Forecasts
from api.hub import Hub
from api.intake import Intake
from api.inventory import Inventory
from api.logstore import open_log_store
from api.metrics import PREFIX, Metrics
from api.middleware import Authentication, BodyLimit, Requests
from api.openapi import document
from api.parameters import known_only
from api.renewals import Renewals
from api.routes import (
    about,
    admin,
    changes,
    claims,
    events,
    goodput,
    health,
    job_parts,
    jobs,
    logs,
    nodes,
    overview,
    planning,
    policies,
    queues,
    sessions,
    tokens,
    why,
)
from api.services import Services
from api.sessions import Desk
from api.settings import Settings
from api.stream import Pools, Stream
from controller.agreeing import agree
from controller.state import Store, StoreError, TokenRecord, Writer, open_store
from controller.state.hints import Hints
from controller.telemetry.tracing import exporter
from muster.clock import Clock, SystemClock
from muster.problems import Problem
from muster.version import VERSION

LOG_READERS: Final = 8


def new_uid() -> str:
    """A random UUID (RFC 9562, version 4), in a quarter of the time that `uuid` takes: a submission needs four."""
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:]}"


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def create_app(settings: Settings, *, clock: Clock | None = None, new_id: Callable[[], str] = new_uid) -> FastAPI:
    """The ASGI application. Nothing is opened or written before its lifespan begins."""
    clock = clock or SystemClock()
    store = open_store(settings.database_url, clock=clock, new_id=new_id)
    services = _services(settings, store, clock, new_id)
    app = FastAPI(
        title="Muster",
        version=VERSION,
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        middleware=[
            Middleware(Requests, new_id=new_id, metrics=services.metrics),
            Middleware(BodyLimit),
            Middleware(Authentication, authenticator=services.authenticator, refused=services.store.refused),
        ],
    )
    app.state.services = services
    for error in (Problem, StoreError, HTTPException, RequestValidationError):
        app.add_exception_handler(error, _refused)
    for module in (
        jobs,
        job_parts,
        goodput,
        why,
        logs,
        nodes,
        queues,
        policies,
        claims,
        events,
        changes,
        overview,
        planning,
        admin,
        tokens,
        about,
    ):
        app.include_router(module.router, prefix=PREFIX, dependencies=[Depends(known_only)])
    app.include_router(sessions.router, prefix=PREFIX)
    app.include_router(sessions.agents)
    app.include_router(health.router)
    app.add_api_websocket_route("/agent/v1/stream", _stream)
    dashboard_files.mount(app)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    return app


def _services(settings: Settings, store: Store, clock: Clock, new_id: Callable[[], str]) -> Services:
    hints, hub = Hints(settings.redis_url), Hub()
    authenticator, inventory = Authenticator(store, clock), Inventory(store)
    desk = Desk(hub, most=settings.sessions)
    follower = Follower(
        store,
        hints,
        hub,
        secret=lambda: authenticator.secret,
        on_inventory=inventory.changed,
        on_sessions=desk.look,
    )
    forecasts = Forecasts(store, clock)
    return Services(
        settings=settings,
        store=store,
        hints=hints,
        clock=clock,
        new_id=new_id,
        authenticator=authenticator,
        metrics=Metrics(store, clock),
        logs=open_log_store(str(settings.log_store)),
        inventory=inventory,
        hub=hub,
        follower=follower,
        desk=desk,
        forecasts=forecasts,
        intake=Intake(store, inventory, forecasts, hints, clock, new_id),
        log_readers=CapacityLimiter(LOG_READERS),
        export=exporter("muster-api"),
    )


def prepare(here: Services) -> None:
    """What must be there before the first request. Raises StoreError, BadSecret, OSError."""
    here.logs.prepare()
    here.store.migrate()
    if isinstance(here.clock, SystemClock):
        agree(here.clock, here.store)
    files = here.settings
    admin, agent = (read_or_make(path, new_secret) for path in (files.admin_token_file, files.agent_token_file))
    here.authenticator.secret = read_or_make(files.secret_file, new_secret)
    now = here.clock.now()

    def act(w: Writer) -> None:
        for role, token in (("admin", admin), ("agent", agent)):
            digest = token_hash(token)
            if w.token(digest) is None:
                w.put_token(TokenRecord(hash=digest, role=role, name=role, created_at=now))  # type: ignore[arg-type]
        queues.ensure_default(w, here.new_id(), now)
        cluster = w.cluster()
        if not cluster.incarnation:
            w.put_cluster(replace(cluster, incarnation=here.new_id()), before="")
        policies.ensure_builtin(w, here.new_id, now)

    here.write(act)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    here: Services = app.state.services
    if not here.authenticator.secret:
        await run_in_threadpool(prepare, here)
    pools = Pools()
    renewals = Renewals(here.store, here.hub, here.clock, here.metrics, pools.renewals)
    app.state.streams = lambda socket: Stream(here, socket, renewals, pools)
    tasks = [asyncio.create_task(here.follower.run()), asyncio.create_task(renewals.run())]
    tasks.append(asyncio.create_task(_load_planner(here)))
    tasks.append(asyncio.create_task(logretention.run(here)))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_end, here, tasks, pools)
        yield


async def _load_planner(here: Services) -> None:
    """Off the way of the start, and before the first submission needs it."""
    await run_in_threadpool(here.inventory.ground)


async def _end(here: Services, tasks: list[asyncio.Task[Any]], pools: Pools) -> None:
    stop_streams(here)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    here.follower.close()
    here.intake.close()
    pools.close()
    threading.Thread(target=here.hints.close, daemon=True).start()  # nobody need wait for Redis
    here.store.close()


def stop_streams(here: Services) -> None:
    """Agents and watchers are sent away, so that the process can end."""
    here.follower.stop()
    here.hub.close()


async def _stream(websocket: WebSocket) -> None:
    await websocket.app.state.streams(websocket).run()


async def _refused(request: Request, error: Exception) -> Response:
    problem = problems.as_problem(error, request.url.path)
    assert problem is not None, "only refusals come here"
    headers = dict(getattr(error, "headers", None) or {})
    return problems.response(problem, request.state.request_id, headers)
