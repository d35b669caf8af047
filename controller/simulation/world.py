"""A cluster under a virtual clock, driven by the planner of production.

What a plan decides is carried out at once: gangs start, victims go (at once, or when the scenario says that they have
left), claims are kept, migrations and growth happen. Everything is a record and goes through the index as changes
of the log, so that the planner sees what it sees in production. `index.check()` and the invariants of capacity and
whole gangs are asserted after every step.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from controller.dependencies import look
from controller.records import (
    AttemptRecord,
    Change,
    Claim,
    JobRecord,
    NodeRecord,
    QueueRecord,
    Record,
    WorkerRecord,
)
from controller.scheduling.columns import takes_work
from controller.scheduling.crews import charge
from controller.scheduling.discipline.programs import learned, program_of, service, uid_of
from controller.scheduling.index import ClusterIndex, apply, build
from controller.scheduling.planner import plan
from controller.scheduling.types import Eviction, Growth, Migration, Plan, Turnover, WorkerPlacement
from controller.scheduling.usage import half_life, with_use
from controller.simulation.worldbook import Tally
from muster.launch import LaunchTemplate
from muster.quantity import parse_cpu, parse_memory
from muster.reasons import End
from muster.states import JOB_TERMINAL, AttemptPhase, JobPhase, NodePhase, WorkerPhase

SETTLED = 40
RECOVERY_TIMEOUT = 600.0
_TEMPLATE = LaunchTemplate(framework="command", processes=(("true",),))


class Habits(Struct, frozen=True, kw_only=True):
    """How a job behaves: seconds of work in all (None: it runs until something ends it), whether it goes back to its
    queue when it is evicted, and whether it vacates its nodes only when told (`slow`)."""

    work: float | None = None
    requeue: bool = True
    slow: bool = False


class World:
    """Times are seconds since the beginning."""

    def __init__(
        self, records: Iterable[Record], levels: tuple[str, ...], *, recovery: float = RECOVERY_TIMEOUT
    ) -> None:
        self.now = 0.0
        self.recovery = recovery
        self.index: ClusterIndex = build(records, levels=levels)
        self.jobs: dict[str, JobRecord] = {}
        self.habits: dict[str, Habits] = {}
        self.tally = Tally()
        self.plan = Plan()
        self._done: dict[str, float] = {}
        self._succeeded: dict[str, int] = {}
        self._numbers = count(1)

    # -- records ----------------------------------------------------------------------------------------

    def put(self, *records: Record) -> None:
        changes = []
        for record in records:
            fresh = replace(record, revision=next(self._numbers))
            if isinstance(fresh, JobRecord):
                self.jobs[fresh.name] = fresh
            kind = type(fresh).__name__.removesuffix("Record")
            changes.append(Change(revision=fresh.revision, kind=kind, uid=fresh.uid, record=fresh))
        self.index = apply(self.index, changes)
        ended = any(isinstance(record, JobRecord) and record.phase in JOB_TERMINAL for record in records)
        self._look_at_dependencies({record.name for record in records if isinstance(record, JobRecord)}, ended)

    def _look_at_dependencies(self, names: set[str], ended: bool) -> None:
        """Of jobs that came, and of all that wait when one has ended."""
        for job in list(self.jobs.values()):
            if job.spec.get("after") and job.phase not in JOB_TERMINAL and (ended or job.name in names):
                met, unmet = look(job, self.jobs.get)
                if (job.met, job.unmet) != (met, unmet):
                    self.put(replace(job, met=met, unmet=unmet))

    def job(self, name: str) -> JobRecord:
        return self.jobs[name]

    def workers(self, name: str) -> list[WorkerRecord]:
        """The live workers of a job in rank order."""
        uid = self.jobs[name].uid if name in self.jobs else ""
        living = (worker for workers in self.index.workers.values() for worker in workers.values())
        return sorted((w for w in living if w.job_uid == uid), key=lambda worker: worker.index)

    def attempt(self, name: str) -> AttemptRecord | None:
        uid = self.jobs[name].uid
        return next((attempt for attempt in self.index.attempts.values() if attempt.job_uid == uid), None)

    def running(self, name: str) -> bool:
        return name in self.jobs and self.jobs[name].phase is JobPhase.RUNNING and bool(self.workers(name))

    def charged(self, name: str) -> int:
        """Devices that a job is charged for: what it holds, what was vacated for it, what it lost and waits for."""
        job = self.jobs[name]
        crew = self.index.crews.get(job.uid)
        held = sum(charge(self.index, crew, crew.workers).values()) if crew else 0
        return held + self.plan.charges.get(job.uid, 0)

    def notes(self, name: str) -> list[str]:
        """What was said of its placement."""
        return self.tally.notes.get(name, [])

    def held_for(self, name: str) -> list[str]:
        """Nodes that a gang which is being repaired still holds."""
        job = self.jobs[name]
        return [node for node in job.preferred if job.phase is JobPhase.RECOVERING]

    # -- what happens to it -----------------------------------------------------------------------------

    def submit(self, job: JobRecord, habits: Habits) -> None:
        self.habits[job.name] = habits
        self.put(replace(job, queued_at=self.now + next(self._numbers) * 1e-6, created_at=self.now))

    def run(self, job: JobRecord, nodes: Iterable[str], habits: Habits) -> None:
        """Put a job that runs already on these nodes, one name for each worker."""
        self.submit(job, habits)
        wanted = len(self._devices_wanted(job))
        placed: list[WorkerPlacement] = []
        taken: Counter[str] = Counter()
        for node in nodes:
            free = [device.index for device in self.index.free_devices(node)][taken[node] : taken[node] + wanted]
            taken[node] += len(free)
            if len(free) < wanted:
                raise ValueError(f"{node} has no {wanted} free devices for {job.name}")
            placed.append(WorkerPlacement(node, tuple(free)))
        self._start(self.jobs[job.name], placed)

    def cancel(self, name: str) -> None:
        self._end(name, JobPhase.CANCELLED, End.CANCELLED)

    def left(self, name: str, nodes: Iterable[str], requeued: bool) -> None:
        """A job that is stopping has vacated nodes."""
        gone = set(nodes)
        leaving = [worker for worker in self.workers(name) if worker.node in gone]
        self.put(*(replace(worker, phase=WorkerPhase.EXITED, released=True) for worker in leaving))
        if not self.workers(name):
            self._end(name, JobPhase.QUEUED if requeued else JobPhase.CANCELLED, End.PREEMPTED)

    def lose(self, node: str) -> None:
        """A node is lost for certain: its workers are dead, their gangs stop, and are repaired."""
        self.put(replace(self.index.nodes[node], phase=NodePhase.LOST, phase_since=self.now))
        uids = {worker.job_uid for worker in self.index.workers.get(node, {}).values()}
        for name in sorted(job.name for job in self.jobs.values() if job.uid in uids):
            self._repair(name, node)

    def set_node(self, name: str, phase: NodePhase) -> None:
        self.put(replace(self.index.nodes[name], phase=phase, phase_since=self.now))

    def _repair(self, name: str, node: str) -> None:
        workers = self.workers(name)
        stay = tuple(worker.node for worker in workers if worker.node != node)
        attempt = self.attempt(name)
        if attempt is not None and attempt.phase is AttemptPhase.STOPPING:  # it was on its way out already
            self.left(name, [node], self.habits[name].requeue)
            return
        self._end(name, JobPhase.RECOVERING, End.NODE_LOST)
        job = self.jobs[name]
        self.put(
            replace(
                job,
                preferred=stay,
                excluded=tuple(dict.fromkeys((*job.excluded, node))),
                recovering_since=self.now,
                restarts=job.restarts + 1,
            )
        )

    # -- time -------------------------------------------------------------------------------------------

    def due(self) -> float | None:
        """When something happens by itself next."""
        times = [time for name in self.jobs if (time := self._ends_at(name)) is not None]
        times += [job.recovering_since + self.recovery for job in self.jobs.values() if _mends(job)]  # type: ignore[operator]
        return min(times, default=None)

    def pass_time(self, time: float) -> None:
        """Everything that ends by then, ends."""
        self.now = time
        for name in sorted(self.jobs):
            at = self._ends_at(name)
            if at is not None and at <= time:
                self._finish(name)
            job = self.jobs[name]
            if _mends(job) and (job.recovering_since or 0.0) + self.recovery <= time:
                self.put(replace(job, phase=JobPhase.QUEUED, recovering_since=None))

    def _ends_at(self, name: str) -> float | None:
        """When a running job's work is done, or its limit is reached."""
        attempt = self.attempt(name) if self.jobs[name].phase is JobPhase.RUNNING else None
        if attempt is None or attempt.running_at is None:
            return None
        limit, work = self.index.asks[self.jobs[name].uid].limit, self.habits[name].work
        ends = [attempt.running_at + limit] if limit is not None else []
        if work is not None:
            ends.append(attempt.running_at + work - self._done.get(name, 0.0))
        return min(ends, default=None)

    def finish(self, name: str) -> None:
        """Its work is done."""
        self._end(name, JobPhase.SUCCEEDED, End.SUCCEEDED)

    def _finish(self, name: str) -> None:
        attempt, work = self.attempt(name), self.habits[name].work
        ran = self.now - (attempt.running_at or 0.0) if attempt else 0.0
        done = self._done.get(name, 0.0) + ran
        if work is not None and done >= work - 1e-6:
            self._end(name, JobPhase.SUCCEEDED, End.SUCCEEDED)
            return
        self._done[name] = done
        self.tally.stopped.setdefault(name, []).append(self.now)
        self._end(name, JobPhase.QUEUED, End.TIME_LIMIT)

    def succeed(self, name: str, workers: int) -> None:
        """So many workers of a gang have done their part: what they held is free, and they count as if they ran."""
        done = self.workers(name)[:workers]
        self._succeeded[name] = self._succeeded.get(name, 0) + len(done)
        self.put(*(replace(worker, phase=WorkerPhase.EXITED, released=True, ended_at=self.now) for worker in done))

    def fail(self, name: str) -> None:
        """A worker fails: all of the gang is to begin again where it was."""
        attempt = self.attempt(name)
        nodes = tuple(worker.node for worker in self.workers(name))
        self._end(name, JobPhase.RECOVERING, End.RANK_FAILED)
        if attempt is not None:
            job = self.jobs[name]
            self.put(replace(job, preferred=nodes, recovering_since=self.now, restarts=job.restarts + 1))

    # -- deciding ---------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Plan and carry out until nothing changes any more."""
        for _ in range(SETTLED):
            self.plan = plan(self.index, self.now)
            if not self._carry_out(self.plan):
                return
            self.tally.cycles += 1
            self.check()
        raise AssertionError("the plan does not settle")

    def _carry_out(self, decided: Plan) -> bool:
        for uid in decided.released:
            self.put(replace(self._job_of(uid), claim=None))
        for group in decided.groups:
            job = self._job_of(group.start.job_uid)
            if group.start.note:
                self.tally.notes.setdefault(job.name, []).append(group.start.note)
            self._start(job, group.start.workers)
        for eviction in decided.evictions:
            self._evict(eviction)
        for move in decided.migrations:
            self._migrate(move)
        for growth in decided.growths:
            self._grow(growth)
        for stop in decided.stops:
            self._end(self._job_of(stop.job_uid).name, JobPhase.QUEUED, End.DRAINED)
        for turnover in decided.turnovers:
            self._turn_over(turnover)
        return bool(
            decided.turnovers
            or decided.stops
            or decided.groups
            or decided.evictions
            or decided.migrations
            or decided.growths
            or decided.released
        )

    def _start(self, job: JobRecord, placed: Iterable[WorkerPlacement]) -> None:
        number = job.epoch + 1
        attempt = AttemptRecord(
            uid=f"{job.uid}-{number}",
            job_uid=job.uid,
            namespace=job.namespace,
            job_name=job.name,
            scope="gang",
            number=number,
            epoch=number,
            rendezvous=f"{job.name}-{number}",
            phase=AttemptPhase.RUNNING,
            placed_at=self.now,
            running_at=self.now,
        )
        workers = [self._worker(job, attempt, index, one) for index, one in enumerate(placed)]
        self._note_moves(job, workers)
        self.tally.started.setdefault(job.name, []).append(self.now)
        fields = {"preferred": (), "excluded": (), "claim": None, "recovering_since": None}
        self.put(
            attempt, *workers, replace(job, phase=JobPhase.RUNNING, epoch=number, attempt_uid=attempt.uid, **fields)
        )

    def _worker(self, job: JobRecord, attempt: AttemptRecord, index: int, placed: WorkerPlacement) -> WorkerRecord:
        return WorkerRecord(
            uid=f"{attempt.uid}-w{index}",
            attempt_uid=attempt.uid,
            job_uid=job.uid,
            namespace=job.namespace,
            role=placed.role,
            index=index,
            node=placed.node,
            host=placed.node,
            epoch=attempt.epoch,
            devices=placed.devices,
            cpu_milli=parse_cpu(job.spec.get("cpu", "1")),
            memory=parse_memory(job.spec.get("memory", "256Mi")),
            template=_TEMPLATE,
            desired="run",
            phase=WorkerPhase.RUNNING,
            running_at=self.now,
        )

    def _note_moves(self, job: JobRecord, workers: Iterable[WorkerRecord]) -> None:
        """Healthy nodes that a repair left although they were part of the gang."""
        if job.phase is JobPhase.RECOVERING:
            kept = {worker.node for worker in workers}
            healthy = (node for node in dict.fromkeys(job.preferred) if takes_work(self.index.nodes[node]))
            self.tally.moved += [node for node in healthy if node not in kept]

    def _evict(self, eviction: Eviction) -> None:
        vacating: list[str] = list(eviction.awaited)
        for victim in eviction.victims:
            job = self._job_of(victim.job_uid)
            workers = [w for w in self.workers(job.name) if not victim.workers or w.uid in victim.workers]
            vacating += [worker.uid for worker in workers]
            self.put(*(replace(worker, desired="stop", stop_reason=eviction.message) for worker in workers))
            if victim.workers:
                self.tally.shrunk += len(workers)
            else:
                self.tally.evicted.append(job.name)
                attempt = self.attempt(job.name)
                if attempt is not None:
                    self.put(replace(attempt, phase=AttemptPhase.STOPPING, reason=End.PREEMPTED))
        nodes = tuple(worker.node for worker in eviction.workers)
        claim = Claim(nodes=nodes, vacating=tuple(vacating), made_at=self.now)
        self.put(replace(self._job_of(eviction.job_uid), claim=claim))
        for victim in eviction.victims:
            self._vacate(self._job_of(victim.job_uid), victim.workers)

    def _vacate(self, job: JobRecord, some: tuple[str, ...]) -> None:
        """Who is not said to be slow is gone at once."""
        habits = self.habits[job.name]
        if some:
            self.put(
                *(replace(w, phase=WorkerPhase.EXITED, released=True) for w in self.workers(job.name) if w.uid in some)
            )
        elif not habits.slow:
            self._end(job.name, JobPhase.QUEUED if habits.requeue else JobPhase.CANCELLED, End.PREEMPTED)

    def _migrate(self, move: Migration) -> None:
        job = self._job_of(move.job_uid)
        done = self._done.get(job.name, 0.0)
        attempt = self.attempt(job.name)
        self._done[job.name] = done + (self.now - (attempt.running_at or 0.0) if attempt else 0.0)
        self._end(job.name, JobPhase.QUEUED, End.SUPERSEDED)
        self._start(self.jobs[job.name], move.workers)
        self.tally.migrations += 1

    def _turn_over(self, turnover: Turnover) -> None:
        for victim in turnover.stops:
            self._end(self._job_of(victim.job_uid).name, JobPhase.QUEUED, End.PREEMPTED)
        for move in turnover.moves:
            self._end(self._job_of(move.job_uid).name, JobPhase.QUEUED, End.RESIZED)
        for uid, workers in turnover.places():
            claim = Claim(nodes=tuple(worker.node for worker in workers), vacating=(), made_at=self.now)
            self.put(replace(self._job_of(uid), claim=claim))

    def _grow(self, growth: Growth) -> None:
        job = self._job_of(growth.job_uid)
        attempt = self.attempt(job.name)
        first = max((worker.index for worker in self.workers(job.name)), default=-1) + 1
        if attempt is not None:
            self.put(*(self._worker(job, attempt, first + i, placed) for i, placed in enumerate(growth.workers)))

    def _end(self, name: str, phase: JobPhase, reason: End) -> None:
        """All of it is over at once."""
        attempt = self.attempt(name)
        self._succeeded.pop(name, None)
        self._learn(name, attempt, phase)
        self.put(
            *(
                replace(worker, phase=WorkerPhase.EXITED, released=True, ended_at=self.now)
                for worker in self.workers(name)
            )
        )
        if attempt is not None:
            self.put(replace(attempt, phase=AttemptPhase.ENDED, reason=reason, ended_at=self.now))
        self.put(replace(self.jobs[name], phase=phase, reason="", attempt_uid=None, claim=None))

    def _charge(self, job: JobRecord, workers: Iterable[WorkerRecord], seconds: float) -> None:
        """What it has used is booked on its queue, where that counts."""
        queue = self.index.queues.get(job.spec.get("queue", "default"))
        if queue is not None and half_life(queue) is not None:
            used: Counter[str] = Counter()
            for worker in workers:
                devices = self.index.nodes[worker.node].devices
                used.update(device.type for device in devices if device.index in worker.devices)
            self.put(with_use(queue, {kind: count * seconds for kind, count in used.items()}, self.now))

    def _learn(self, name: str, attempt: AttemptRecord | None, phase: JobPhase) -> None:
        """The service that it has had; when it has succeeded, what its program needs, as in production."""
        job, workers = self.jobs[name], self.workers(name)
        if attempt is not None and workers:
            devices = sum(len(worker.devices) for worker in workers)
            spent = service(job.spec, len(workers), devices, self.now - attempt.placed_at)
            job = self.jobs[name] = replace(job, attained=job.attained + spent)
            self._charge(job, workers, self.now - attempt.placed_at)
        if phase is JobPhase.SUCCEEDED:
            record = learned(self.index.programs.get(uid_of(job.namespace, program_of(job))), job, job.attained)
            if record is not None:
                self.put(record)

    def _job_of(self, uid: str) -> JobRecord:
        return next(job for job in self.jobs.values() if job.uid == uid)

    def _devices_wanted(self, job: JobRecord) -> range:
        kinds = job.spec.get("accelerators") or []
        return range(kinds[0]["count"] if kinds else 0)

    # -- invariants -------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises AssertionError where the world is not as it must be."""
        for node, workers in self.index.workers.items():
            record = self.index.nodes[node]
            held = Counter(device for worker in workers.values() for device in worker.devices)
            assert all(number == 1 for number in held.values()), f"{node}: a device is held twice"
            assert held.keys() <= {device.index for device in record.devices}, f"{node}: more devices than there are"
            assert sum(w.cpu_milli for w in workers.values()) <= record.cpu_milli, f"{node}: more CPU than there is"
        for uid, crew in self.index.crews.items():
            if crew.leaving:
                continue
            request = crew.request
            least = sum(role.workers for role in request.roles) or request.minimum or request.options[0][1]
            staying = sum(worker.desired != "stop" for worker in crew.workers) + self._succeeded.get(request.name, 0)
            assert staying >= min(least, *(w for _, w in request.options)), f"{uid}: a part of a gang runs"


def _mends(job: JobRecord) -> bool:
    return job.phase is JobPhase.RECOVERING and job.recovering_since is not None


def alive(job: JobRecord) -> bool:
    return job.phase not in JOB_TERMINAL


def queue_of(name: str, **spec: object) -> QueueRecord:
    return QueueRecord(name=name, uid=f"queue-{name}", spec=dict(spec))


def node_of(name: str, **fields: object) -> NodeRecord:
    return NodeRecord(name=name, uid=f"node-{name}", **fields)  # type: ignore[arg-type]
