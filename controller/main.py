"""`python -m controller.main`: campaigns, leads while it may, stands by otherwise. SIGTERM ends it cleanly."""

import gc
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import structlog

from controller import logs
from controller.acts.receipts import write_receipts
from controller.agreeing import agree
from controller.collecting import seldom_collect
from controller.companion import Companion
from controller.executors.agents import AgentsExecutor
from controller.executors.base import Executor
from controller.loop import Loop
from controller.recorder import Recorder
from controller.settings import Settings, from_environment
from controller.state.errors import LeadershipLost, StoreError, StoreUnavailable, TooOld
from controller.state.hints import Hints
from controller.state.leader import Election
from controller.state.store import Store, open_store
from controller.state.types import LeaderLease
from controller.tasks.sender import Sender
from controller.telemetry.pulse import Pulse
from controller.telemetry.tracing import exporter
from muster.clock import SystemClock

log = structlog.get_logger("muster.controller")

TICK = 0.5  # seconds between looks when no hint comes
HOUSEKEEPING = 60.0  # seconds between prunings and looks at the wall clock
JUMP = 2.0  # seconds by which the wall clock must have moved to be worth a word
OUTAGE_PAUSE = 1.0  # seconds before the database is tried again


class Controller:
    """Owns the process's parts; `run` returns when `stop` is set."""

    def __init__(self, settings: Settings, *, clock: SystemClock, new_id: Callable[[], str], holder: str) -> None:
        self._settings, self._clock, self._new_id, self._holder = settings, clock, new_id, holder
        self._hints = Hints(settings.redis_url)
        self._drift = 0.0
        self.pulse = Pulse(clock)
        self._export = exporter("muster-controller")
        self._recorder = (
            Recorder(Path(settings.decisions), settings.decisions_mib * 2**20) if settings.decisions else None
        )
        self._forecaster = Companion("controller.forecaster", clock)
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                self._serve()
            except StoreUnavailable as error:
                log.warning("the database does not answer; standing by", error=str(error))
                self.pulse.beat("cut off")
                self.stop.wait(OUTAGE_PAUSE)
        self._forecaster.end()
        if self._recorder is not None:
            self._recorder.close()

    def _serve(self) -> None:
        """With a working database: campaign and lead, again and again."""
        store = open_store(self._settings.database_url, clock=self._clock, new_id=self._new_id)
        try:
            store.migrate()
            agree(self._clock, store)
            self._drift = self._clock.drift()
            election = Election(store, self._holder, self._clock, self._settings.leader_lease)
            while not self.stop.is_set():
                lease = election.campaign()
                self.pulse.beat("standby")
                if lease is None:
                    with store.read() as r:
                        self._forecaster.wanted(r.waits(), "standby")
                    self.stop.wait(min(1.0, self._settings.leader_lease / 5))
                    continue
                log.info("leading", epoch=lease.epoch)
                self._lead(store, election, lease)
        finally:
            store.close()

    def _lead(self, store: Store, election: Election, lease: LeaderLease) -> None:
        """One term. Everything it knew is thrown away at its end."""
        renew_at = tidy_at = self._clock.boottime()

        def alive() -> None:
            """Also within a cycle that takes long, since it starts very many jobs."""
            nonlocal renew_at
            if self._clock.boottime() >= renew_at:
                if not election.renew(lease):
                    raise LeadershipLost(f"epoch {lease.epoch} is over")
                renew_at = self._clock.boottime() + self._settings.leader_lease / 4

        try:
            loop = Loop(
                store=store,
                guard=lease,
                executor=self._executor(),
                publish=self._hints.publish,
                outbox=self._outbox(store),
                clock=self._clock,
                new_id=self._new_id,
                lease=self._settings.lease,
                repair=self._settings.repair,
                record=self._recorder.note if self._recorder else lambda *_: None,
                pulse=self.pulse,
                export=self._export,
                alive=alive,
                attended=election.attended,
            )
            gc.unfreeze()  # what an earlier term left
            gc.collect()
            gc.freeze()  # the cluster's records: looking through millions of them again and again would hold up cycles
            while not self.stop.is_set():
                alive()
                loop.cycle()
                self._forecaster.wanted(loop.waits, "leader")
                if self._clock.boottime() >= tidy_at:
                    self._tidy(store, lease)
                    tidy_at = self._clock.boottime() + HOUSEKEEPING
                self._hints.wait(TICK)
        except LeadershipLost as error:
            log.warning("leadership lost", reason=str(error))
        except TooOld as error:
            log.warning("fell behind the change log; beginning again", reason=str(error))
            election.resign(lease)
        else:
            election.resign(lease)

    def _tidy(self, store: Store, lease: LeaderLease) -> None:
        write_receipts(store, lease, now=self._clock.now())
        store.prune(self._settings.retention)
        drift = self._clock.drift()
        if abs(drift - self._drift) > JUMP:
            log.warning(
                "the wall clock jumped; leases and deadlines go on by the monotonic clock",
                seconds=round(drift - self._drift, 3),
            )
            self._drift = drift

    def _executor(self) -> Executor:
        if self._settings.executor == "kubernetes":
            from controller.executors.kubernetes.executor import KubernetesExecutor

            executor: Executor = KubernetesExecutor.from_environment()
            return executor
        return AgentsExecutor()

    def _outbox(self, store: Store) -> Callable[[float], None]:
        """Celery is imported at the first row that is due: most terms of most leaders have none."""

        def dispatch_due(now: float) -> None:
            from controller.tasks.app import make_app
            from controller.tasks.dispatch import dispatch

            dispatch(store, make_app(str(self._settings.redis_url)), now)

        sender = Sender(dispatch_due)

        def send_due(now: float) -> None:
            if self._settings.redis_url and store.outbox_due(now, 1):
                sender(now)

        return send_due


def main() -> int:
    try:
        settings = from_environment()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    logs.configure(settings.log_level, settings.log_format)
    holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    controller = Controller(settings, clock=SystemClock(), new_id=new_id, holder=holder)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        controller.stop.set()

    if settings.metrics_port is not None:
        try:
            _serve_metrics(controller.pulse, settings)
        except OSError as error:
            print(f"error: MUSTER_METRICS_PORT {settings.metrics_port}: {error.strerror}", file=sys.stderr)  # noqa: T201
            return 2
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    seldom_collect()
    try:
        controller.run()
    except StoreError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _serve_metrics(pulse: Pulse, settings: Settings) -> None:
    from controller.telemetry.server import serve

    assert settings.metrics_port is not None
    port = serve(pulse, settings.metrics_host, settings.metrics_port).server_port
    log.info("metrics and health", url=f"http://{settings.metrics_host}:{port}")


def new_id() -> str:
    """A sortable unique id: 48 bits of milliseconds, 80 random bits, in hexadecimal (the layout of ULID)."""
    return f"{int(time.time() * 1000):012x}{secrets.token_hex(10)}"


if __name__ == "__main__":
    sys.exit(main())
