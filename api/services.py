"""What the routes share: one of each for the process. Made in app.py, found in `request.app.state.services`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from anyio import CapacityLimiter
from fastapi import Depends
from starlette.requests import HTTPConnection

from api.acting import acting
from api.auth import Authenticator, Principal
from api.follower import Follower
from api.forecasts import Forecasts
from api.hub import Hub
from api.intake import Intake
from api.inventory import Inventory
from api.logstore import LogStore
from api.metrics import Metrics
from api.sessions import Desk
from api.settings import Settings
from controller.state import Store, Writer
from controller.state.hints import Hints
from controller.telemetry.tracing import Export
from muster.clock import Clock

T = TypeVar("T")


@dataclass(frozen=True)
class Services:
    settings: Settings
    store: Store
    hints: Hints
    clock: Clock
    new_id: Callable[[], str]
    authenticator: Authenticator
    metrics: Metrics
    logs: LogStore
    inventory: Inventory
    hub: Hub
    follower: Follower
    forecasts: Forecasts
    desk: Desk
    intake: Intake
    log_readers: CapacityLimiter
    export: Export | None = None
    """Takes spans when a collector is configured."""

    def write(self, fn: Callable[[Writer], T]) -> T:
        """`fn` in one transaction, tried again when others are in the way; everybody is told after the commit."""
        writers: list[Writer] = []
        actor = acting.get()

        def once(w: Writer) -> T:
            w.actor = actor
            writers.append(w)
            return fn(w)

        result = self.store.transact(once)
        self.told(writers[-1].revision)
        return result

    def told(self, revision: int) -> None:
        if revision:
            self.hints.publish(revision)


async def services_of(connection: HTTPConnection) -> Services:
    found: Services = connection.app.state.services
    return found


async def principal_of(connection: HTTPConnection) -> Principal:
    found: Principal = connection.state.principal
    return found


Here = Annotated[Services, Depends(services_of)]
Asking = Annotated[Principal, Depends(principal_of)]
