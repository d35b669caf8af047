"""`python -m controller.tasks.main`: does the outbox's tasks. SIGTERM ends it within two seconds.

Besides MUSTER_DATABASE_URL and MUSTER_REDIS_URL it reads MUSTER_WEBHOOK_BACKOFF: seconds before a failed web hook
is called for the second time (default 2), and MUSTER_SMTP_URL (see controller/tasks/mail.py).
"""

import logging
import os
import signal
import sys
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType
from typing import Final

import httpx2
import structlog
from celery import Celery
from celery.exceptions import WorkerShutdown
from celery.worker import WorkController

from controller import logs
from controller.acts.repair_policy import RepairPolicy
from controller.agreeing import agree
from controller.settings import Settings, from_environment
from controller.state.errors import StoreUnavailable
from controller.state.store import Store, open_store
from controller.tasks.app import TASKS, make_app
from controller.tasks.backoff import Backoff
from controller.tasks.hooks import run_hook
from controller.tasks.mail import Server, send, server_from
from controller.tasks.webhook import call
from muster.clock import Clock, SystemClock

log = structlog.get_logger("muster.tasks")

END_SECONDS: Final = 1.5
"""After that a call in the middle of which we were told to end is dropped; its item is sent again."""


def backoff_from(environ: Mapping[str, str]) -> Backoff:
    """Raises ValueError naming the variable."""
    text = environ.get("MUSTER_WEBHOOK_BACKOFF") or "2"
    try:
        first = float(text)
    except ValueError:
        first = -1.0
    if not 0 < first < float("inf"):
        raise ValueError(f"MUSTER_WEBHOOK_BACKOFF: expected seconds above 0, found {text!r}")
    return Backoff(first=first)


def register(
    app: Celery,
    store: Store,
    client: httpx2.Client,
    *,
    clock: Clock,
    backoff: Backoff,
    policy: RepairPolicy | None = None,
    mail: Server | None = None,
) -> None:
    """Give the application its tasks; only a worker needs them."""

    def webhook(id: str, turn: float) -> None:  # noqa: A002
        call(store, client, id, turn, clock=clock, backoff=backoff)

    def repair(id: str, turn: float) -> None:  # noqa: A002
        run_hook(store, client, id, turn, clock=clock, policy=policy or RepairPolicy())

    def post(id: str, turn: float) -> None:  # noqa: A002
        send(store, mail, id, turn, clock=clock, backoff=backoff)

    app.task(post, name=TASKS["mail"])  # type: ignore[no-untyped-call]
    app.task(webhook, name=TASKS["webhook"])  # type: ignore[no-untyped-call]
    app.task(repair, name=TASKS["repair"])  # type: ignore[no-untyped-call]


def work(app: Celery) -> int:
    """Until SIGTERM or SIGINT; the exit code. Redis may come and go."""
    worker = WorkController(app=app, without_gossip=True, without_mingle=True, without_heartbeat=True, quiet=True)  # type: ignore[no-untyped-call]

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        last = threading.Timer(END_SECONDS, os._exit, args=(0,))
        last.daemon = True
        last.start()
        raise WorkerShutdown(0)

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    worker.start()  # type: ignore[no-untyped-call]
    return int(worker.exitcode or 0)


def main() -> int:
    try:
        settings, backoff, mail = from_environment(), backoff_from(os.environ), server_from(os.environ)
        if not settings.redis_url:
            raise ValueError("MUSTER_REDIS_URL is not set, e.g. redis://127.0.0.1:6379/0")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    _log_to_stderr(settings)
    clock = SystemClock()
    store = open_store(settings.database_url, clock=clock, new_id=lambda: uuid.uuid4().hex)
    with suppress(StoreUnavailable):
        agree(clock, store)
    app = make_app(settings.redis_url)
    register(app, store, httpx2.Client(), clock=clock, backoff=backoff, policy=settings.repair, mail=mail)
    return work(app)


def _log_to_stderr(settings: Settings) -> None:
    """Celery's own words go the same way as ours, from warnings up: it has much to say."""
    logs.configure(settings.log_level, settings.log_format)
    if settings.log_level == "debug":
        logging.getLogger("celery").setLevel(logging.DEBUG)


if __name__ == "__main__":
    sys.exit(main())
