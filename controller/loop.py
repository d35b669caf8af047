"""The one loop of the one leader. It alone knows all rooms.

The ideal: whenever anything changes, look at everything and write what follows. The deviation: only jobs that a
change touched, or whose deadline has come, are looked at, and the planner runs only when something changed.

Every write is one transaction guarded by the leader's epoch; the rooms decide, the acts write, the executor
makes it true. After a write the loop reads its own changes back like anybody's, so that the picture and the
index have one source.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog
from structlog.contextvars import bound_contextvars

from controller.acts import hangs, stragglers
from controller.acts.advance import write_advance
from controller.acts.alerts import write_alerts
from controller.acts.arrays import write_array
from controller.acts.dependencies import has_news, write_dependencies
from controller.acts.end import write_end
from controller.acts.move import commit_growth, commit_migrations, commit_turnover
from controller.acts.nodes import judge_nodes
from controller.acts.observations import record_observations
from controller.acts.preempt import commit_eviction, commit_stop, drop_claim
from controller.acts.promises import write_promises
from controller.acts.repair import DAY, quarantine, repair_nodes
from controller.acts.repair_policy import RepairPolicy
from controller.acts.start import PortMemory, commit_starts, write_new_ports
from controller.acts.waits import Reasons, moves_the_plan, settle_idle
from controller.arrays import is_array
from controller.dates import Dates
from controller.executors.base import Executor, Intent
from controller.leases import LeaseWatch
from controller.lifecycle import Next, advance
from controller.picture import Picture
from controller.records import Change, JobRecord
from controller.scheduling.index import ClusterIndex, apply, build
from controller.scheduling.planner import plan
from controller.scheduling.types import Migration, Plan, Start
from controller.state.errors import Conflict, IllegalMove, NotFound, StoreError, Taken
from controller.state.store import Store
from controller.state.types import LeaderLease
from controller.state.writing import Writer
from controller.telemetry.chronicle import Chronicle
from controller.telemetry.pulse import Pulse
from controller.telemetry.tracing import Export
from muster.clock import Clock
from muster.protocol import Lease
from muster.states import JobPhase

log = structlog.get_logger("muster.loop")

PAGE = 2000
RECONCILE = 5.0  # seconds between tellings of all intents, for what an executor could not do the first time
LEMONS = 30.0  # seconds between looks for nodes on which several jobs have failed
STARTS = 64  # of one transaction
STALE = (Conflict, IllegalMove, NotFound, Taken)
IDLE = (JobPhase.QUEUED, JobPhase.RECOVERING, JobPhase.SUSPENDED)


class Loop:
    """One term of one leader: built fresh from the database, thrown away when the term ends."""

    def __init__(
        self,
        *,
        store: Store,
        guard: LeaderLease,
        executor: Executor,
        publish: Callable[[int], None],
        outbox: Callable[[float], None],
        clock: Clock,
        new_id: Callable[[], str],
        lease: Lease,
        repair: RepairPolicy | None = None,
        record: Callable[[ClusterIndex, float, Plan], None] = lambda *_: None,
        pulse: Pulse | None = None,
        export: Export | None = None,
        alive: Callable[[], None] = lambda: None,
        attended: float = 0.0,
    ) -> None:
        """`alive` is called now and then within a long cycle: it renews the leader's lease. `attended`: UTC seconds,
        see `Election.attended`."""
        self._store, self._guard, self._executor = store, guard, executor
        self._publish, self._outbox, self._clock, self._new_id, self._lease = publish, outbox, clock, new_id, lease
        self._pulse, self._repair = pulse or Pulse(clock), repair or RepairPolicy()
        self._alive, self._record, self._attended = alive, record, attended
        with store.read() as r:
            self._revision, records = r.snapshot()
            leases, repairs = r.leases(), r.repairs(live_only=True)
        self._picture = Picture([*records, *repairs])
        self._dates = Dates(self._picture, attended)
        self._chronicle = Chronicle(self._picture.attempts.values(), export)
        self._index: ClusterIndex = build(records, revision=self._revision)
        self._watch = LeaseWatch(lease)
        self._ports = PortMemory()
        self._stale_plan, self._on_hold = True, False
        self._reasons = Reasons()
        self._compare_at: dict[str, float] = {}
        self._plan_again: float | None = None
        self._alerts: set[str] | None = None
        self._reconcile_at = self._lemons_at = clock.boottime()
        self._watch.observe(leases, self._picture.nodes, clock.boottime())

    def cycle(self) -> None:
        """One look at the world. Raises LeadershipLost or StoreUnavailable; the term is over then."""
        with self._pulse.timed(self._pulse.cycles):
            self._look()
        self._pulse.beat("leader", self._guard.epoch)

    def _look(self) -> None:
        self._absorb()  # 1. what others wrote
        if self._held():
            return  # an operator decides first what of this database is still true
        self._judge_nodes()  # 2. who is silent, who is back
        self._take_observations()  # 3. what the executor saw
        self._repair_nodes()  # 4. what is wrong with nodes is mended, whoever drains them waits for it
        self._advance_jobs()  # 5. attempts go on, end, are decided upon
        self._plan()  # 6. what starts, why the rest waits
        self._outbox(self._clock.now())  # 7. side effects that are due
        self._remind_executor()  # 8. what it could not do the first time

    @property
    def waits(self) -> bool:
        """Whether any job waits to start."""
        return bool(self._index.gangs)

    # -- the steps -----------------------------------------------------------------------------------

    def _absorb(self) -> None:
        while changes := self._changes():
            self._stale_plan |= any(moves_the_plan(self._picture.jobs.get(one.uid), one) for one in changes)
            self._picture.apply(changes)
            self._chronicle.take(changes, self._picture)
            self._index = apply(self._index, changes)
            self._revision = changes[-1].revision
            if len(changes) < PAGE:
                return

    def _changes(self) -> list[Change]:
        with self._store.read() as r:
            return r.changes(self._revision, limit=PAGE)

    def _held(self) -> bool:
        """Whether everything is on hold. Leases are watched meanwhile, so that nobody is silent when it ends."""
        with self._store.read() as r:
            held = r.cluster().held_since is not None
            leases = r.leases() if held else []
        if held:
            self._watch.observe(leases, self._picture.nodes, self._clock.boottime())
        if held != self._on_hold:
            log.warning("everything is on hold" if held else "the hold is over")
            self._on_hold = held
        return held

    def _judge_nodes(self) -> None:
        with self._store.read() as r:
            leases = r.leases()
        boottime = self._clock.boottime()
        self._watch.observe(leases, self._picture.nodes, boottime)
        if judge_nodes(self._store, self._guard, self._picture, self._watch, now=self._clock.now(), boottime=boottime):
            self._wrote()

    def _repair_nodes(self) -> None:
        now = self._clock.now()
        wrote = repair_nodes(self._write, self._picture, self._repair, now=now, new_id=self._new_id)
        if self._clock.boottime() >= self._lemons_at:
            self._lemons_at = self._clock.boottime() + LEMONS
            with self._store.read() as r:
                incidents = r.incidents(since=now - DAY)
            wrote |= quarantine(self._write, incidents, self._picture, self._repair, now=now, new_id=self._new_id)
        if wrote:
            self._wrote()

    def _take_observations(self) -> None:
        if observations := self._executor.observe():
            record_observations(self._store, self._guard, observations)
            self._wrote()

    def _advance_jobs(self) -> None:
        now = self._clock.now()
        self._picture.touched |= self._dates.due(now) | self._picture.recovering
        arrays, again = set[str](), set[str]()
        while self._picture.touched:
            uid = self._picture.touched.pop()
            job = self._picture.jobs.get(uid)
            if job is None:
                continue
            if uid in arrays:  # once in a cycle, so that a large one holds up nobody
                again.add(uid)
                continue
            if is_array(job):
                arrays.add(uid)
            self._dates.note(job, self._picture.attempts_of(uid))
            with bound_contextvars(job=f"{job.namespace}/{job.name}"):
                if self._advance_job(job, now):
                    self._wrote()
        self._picture.touched |= again
        if len(self._compare_at) > 2 * len(self._picture.attempts) + 100:
            self._compare_at = {uid: at for uid, at in self._compare_at.items() if uid in self._picture.attempts}

    def _advance_job(self, job: JobRecord, now: float) -> bool:
        """True when something was written. Decides on the picture, then again on the rows of the transaction."""
        if job.spec.get("after") and self._depends(job, now):
            return True
        if is_array(job):
            return self._write(partial(write_array, uid=job.uid, now=now, new_id=self._new_id))
        attempts = self._picture.attempts_of(job.uid)
        if not attempts:
            return (
                job.phase in IDLE and _idle_wish(job) and self._write(partial(self._settle, job_uid=job.uid, now=now))
            )
        wrote = False
        for attempt in attempts:
            workers = self._picture.workers_of(attempt.uid)
            if advance(job, attempt, workers, now, self._attended).next is not Next.STAY:
                wrote |= self._write(partial(self._advance_attempt, attempt_uid=attempt.uid, now=now))
            elif stragglers.wants_it(job, attempt) and now >= self._compare_at.get(attempt.uid, 0.0):
                self._compare_at[attempt.uid] = now + stragglers.LOOK
                wrote |= self._write(partial(stragglers.compare, attempt_uid=attempt.uid, now=now))
        return wrote

    def _depends(self, job: JobRecord, now: float) -> bool:
        """True when what it comes after has done something new."""
        with self._store.read() as r:
            news = has_news(r, job)
        return news and self._write(partial(write_dependencies, uid=job.uid, now=now))

    def _settle(self, w: Writer, job_uid: str, now: float) -> bool:
        job = w.job(job_uid)
        return job is not None and job.phase in IDLE and settle_idle(w, job, now)

    def _advance_attempt(self, w: Writer, attempt_uid: str, now: float) -> bool:
        attempt = w.attempt(attempt_uid)
        job = w.job(attempt.job_uid) if attempt else None
        if attempt is None or job is None or attempt.phase == "Ended":
            return False
        workers = w.workers(attempt_uid)
        step = advance(job, attempt, workers, now, self._attended)
        match step.next:
            case Next.STAY:
                return False
            case Next.END:
                write_end(w, job, attempt, workers, step.reason, now=now, new_id=self._new_id)
            case Next.EXAMINE:
                hangs.examine(w, job, attempt, workers, now)
            case Next.JUDGE:
                hangs.judge(w, job, attempt, workers, step, now)
            case Next.NEW_PORTS:
                write_new_ports(w, job, attempt, workers, self._ports, now=now)
            case _:
                write_advance(w, job, attempt, workers, step, now)
        return True

    def _plan(self) -> None:
        """When something has changed, or a date has come at which the plan may come out otherwise."""
        now = self._clock.now()
        if not self._stale_plan and (self._plan_again is None or now < self._plan_again):
            if self._reasons.write_rest(self._store, self._guard, self._picture, now=now):
                self._wrote()
            return
        self._stale_plan = False
        with self._pulse.timed(self._pulse.plans):
            decided = plan(self._index, now)
        self._pulse.decided(decided)
        self._record(self._index, now, decided)
        self._plan_again = decided.again
        acted = self._carry_out(decided, now)
        self._alerts = write_alerts(self._store, self._guard, self._alerts, decided.alerts, now)
        acted |= write_promises(self._store, self._guard, self._picture, decided.reservations)
        if self._reasons.write(self._store, self._guard, self._picture, decided.waits, now=now) or acted:
            self._wrote()

    def _carry_out(self, decided: Plan, now: float) -> bool:
        """Each decision in a transaction of its own, but starts, of which one that is stale is left out or written
        apart. True when there was any."""
        for first in range(0, len(decided.groups), STARTS):
            self._start([group.start for group in decided.groups[first : first + STARTS]], now)
            self._wrote()
        for uid in decided.released:
            self._write(partial(drop_claim, job_uid=uid))
        for eviction in decided.evictions:
            self._write(partial(commit_eviction, eviction=eviction, now=now))
        for moves in _by_beneficiary(decided):
            self._write(partial(commit_migrations, moves=moves, now=now))
        for turnover in decided.turnovers:
            self._write(partial(commit_turnover, turnover=turnover, now=now))
        for stop in decided.stops:
            self._write(partial(commit_stop, wanted=stop, now=now))
        for growth in decided.growths:
            self._write(partial(commit_growth, growth=growth, now=now))
        starts = decided.groups or decided.released or decided.evictions
        return bool(starts or decided.migrations or decided.turnovers or decided.stops or decided.growths)

    def _start(self, starts: Sequence[Start], now: float) -> None:
        """All in one transaction; each in its own when they do not go together."""
        start = partial(
            commit_starts, starts=starts, ports=self._ports, lease=self._lease, new_id=self._new_id, now=now
        )
        try:
            self._store.transact(start, guard=self._guard)
        except STALE as error:
            if len(starts) == 1:
                with bound_contextvars(job_uid=starts[0].job_uid):
                    self._drop(error)
                return
            for one in starts:
                self._start([one], now)

    def _remind_executor(self) -> None:
        if self._clock.boottime() >= self._reconcile_at:
            self._executor.reconcile(self._intents())
            self._reconcile_at = self._clock.boottime() + RECONCILE

    # -- writing -------------------------------------------------------------------------------------

    def _write(self, act: Callable[[Writer], bool]) -> bool:
        """One guarded transaction; a decision that the world has overtaken is dropped whole, and planned again."""
        try:
            return self._store.transact(act, guard=self._guard)
        except STALE as error:
            self._drop(error)
            return False

    def _drop(self, error: StoreError) -> None:
        log.info("stale decision dropped", why=str(error))
        self._pulse.dropped()
        self._stale_plan = True

    def _wrote(self) -> None:
        """Read back what was written, tell the executor what changed, wake who listens."""
        self._absorb()
        self._executor.reconcile(self._intents())
        self._publish(self._revision)
        self._alive()

    def _intents(self) -> Iterable[Intent]:
        for attempt in self._picture.attempts.values():
            job = self._picture.jobs.get(attempt.job_uid)
            if job is not None:
                yield Intent(job=job, attempt=attempt, workers=tuple(self._picture.workers_of(attempt.uid)))


def _by_beneficiary(decided: Plan) -> Iterable[list[Migration]]:
    found: dict[str, list[Migration]] = {}
    for move in decided.migrations:
        found.setdefault(move.beneficiary, []).append(move)
    return found.values()


def _idle_wish(job: JobRecord) -> bool:
    """Whether `settle_idle` may have something to do."""
    return job.cancel or job.suspend or job.restart_requested or job.phase in (JobPhase.SUSPENDED, JobPhase.RECOVERING)
