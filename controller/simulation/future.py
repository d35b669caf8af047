"""What becomes of a cluster when the planner is run forward: gangs start where it says, and end when `span` says.

The records and the index are those of production; only time and the ends of gangs are made up. What is told to go is
gone at once, whoever was evicted goes on later with what it had left, and a gang in another size ends when it would have.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from msgspec import Struct
from msgspec.structs import replace

from controller.records import AttemptRecord, Change, Claim, JobRecord, Record, WorkerRecord
from controller.scheduling.index import ClusterIndex, apply
from controller.scheduling.planner import plan
from controller.scheduling.types import Eviction, GangRequest, Growth, Migration, Plan, Start, WorkerPlacement
from muster.launch import LaunchTemplate
from muster.states import AttemptPhase, JobPhase, WorkerPhase

ROUNDS = 40
"""Plans at one moment, at most: a plan that evicts is followed by one that starts."""

_TEMPLATE = LaunchTemplate(framework="command", processes=(("true",),))

Span = Callable[[JobRecord], float | None]
"""Seconds that a job runs from its start to its end; None: nobody knows."""


class Started(Struct, frozen=True):
    """A job that started. `again`: not for the first time in this future."""

    job_uid: str
    at: float
    placed: Start
    again: bool


class Future:
    """`ends` are the ends of the attempts that run now, by uid; who is not in it never ends."""

    def __init__(self, index: ClusterIndex, now: float, span: Span, ends: dict[str, float]) -> None:
        self.index, self.now, self._span = index, now, span
        self.plan = Plan()
        self.plans = 0
        self._numbers = count(index.revision + 1)
        self._ends = dict(ends)
        self._heap = [(at, uid) for uid, at in ends.items()]
        heapq.heapify(self._heap)
        self._left: dict[str, float | None] = {}  # seconds that evicted jobs still need
        self._begun: set[str] = set()
        self._crew: dict[str, dict[str, WorkerRecord]] = {}
        for workers in index.workers.values():
            for worker in workers.values():
                self._crew.setdefault(worker.attempt_uid, {})[worker.uid] = worker

    # -- time ------------------------------------------------------------------------------------------

    @property
    def next_end(self) -> float | None:
        """When something ends next."""
        while self._heap and self._ends.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    @property
    def ends(self) -> int:
        """How many that run have an end."""
        return len(self._ends)

    def after(self, count: int) -> float | None:
        """When so many more have ended; None when fewer will."""
        found = heapq.nsmallest(count, self._ends.values()) if count > 1 else []
        return found[-1] if len(found) == count else None

    @property
    def next_at(self) -> float | None:
        """When something may change by itself: an end, or a date of the plan."""
        dates = [at for at in (self.next_end, self.plan.again) if at is not None]
        return min(dates, default=None)

    def until(self, now: float) -> list[str]:
        """Let time pass: everything that ends by then ends. The uids of the jobs that did."""
        self.now = max(self.now, now)
        over = []
        while (at := self.next_end) is not None and at <= self.now:
            uid = heapq.heappop(self._heap)[1]
            over.append(uid)
            del self._ends[uid]
        jobs = [self.index.attempts[uid].job_uid for uid in over if uid in self.index.attempts]
        self.put(*self._ended(over, JobPhase.SUCCEEDED))
        return jobs

    def put(self, *records: Record) -> None:
        """What comes from outside: jobs that are submitted, nodes that come or go."""
        if records:
            stamped = [replace(record, revision=next(self._numbers)) for record in records]
            kinds = [(type(one).__name__.removesuffix("Record"), one) for one in stamped]
            changes = [Change(revision=one.revision, kind=kind, uid=one.uid, record=one) for kind, one in kinds]
            self.index = apply(self.index, changes)

    # -- deciding --------------------------------------------------------------------------------------

    def settle(self) -> list[Started]:
        """Plan and carry out until nothing changes any more at this moment."""
        started: list[Started] = []
        for _ in range(ROUNDS):
            self.plan = plan(self.index, self.now, reasons=False)
            self.plans += 1
            if not self._carry_out(self.plan, started):
                break
        if self.plan.again is not None and self.plan.again <= self.now:
            self.plan = replace(self.plan, again=None)
        return started

    def _carry_out(self, decided: Plan, started: list[Started]) -> bool:
        """True when another plan at the same moment may come out otherwise."""
        records: list[Record] = []
        for group in decided.groups:
            records += self._start(group.start, started)
        for eviction in decided.evictions:
            records += self._evict(eviction)
        for turnover in decided.turnovers:
            for victim in turnover.stops:
                records += self._requeue(victim.attempt_uid)
            records += [record for move in turnover.moves for record in self._migrate(move)]
            records += [record for claim in turnover.claims for record in self._evict(claim)]
        for stop in decided.stops:
            records += self._requeue(stop.attempt_uid)
        for move in decided.migrations:
            records += self._migrate(move)
        for growth in decided.growths:
            records += self._grow(growth)
        freed = [uid for uid in decided.released if uid in self.index.jobs]
        records += [replace(self.index.jobs[uid], claim=None) for uid in freed]
        self.put(*records)
        return bool(decided.evictions or decided.turnovers or decided.stops or decided.migrations or freed)

    def _start(self, start: Start, started: list[Started]) -> Iterable[Record]:
        job = self.index.jobs[start.job_uid]
        request = self.index.asks[job.uid]
        epoch = job.epoch + 1
        attempt = AttemptRecord(
            uid=f"{job.uid}/{epoch}",
            job_uid=job.uid,
            namespace=job.namespace,
            job_name=job.name,
            scope=start.scope,
            number=epoch,
            epoch=epoch,
            rendezvous="",
            phase=AttemptPhase.RUNNING,
            placed_at=self.now,
            running_at=self.now,
        )
        self._crew[attempt.uid] = {}
        length = self._left.pop(job.uid, None) if job.uid in self._left else self._span(job)
        if length is not None:
            self._ends[attempt.uid] = self.now + max(length, 0.0)
            heapq.heappush(self._heap, (self._ends[attempt.uid], attempt.uid))
        started.append(Started(job.uid, self.now, start, job.uid in self._begun))
        self._begun.add(job.uid)
        fields = {"preferred": (), "claim": None, "recovering_since": None, "promise": None}
        running = replace(job, phase=JobPhase.RUNNING, epoch=epoch, attempt_uid=attempt.uid, **fields)
        return [attempt, *self._workers(attempt, request, start.workers), running]

    def _workers(
        self, attempt: AttemptRecord, request: GangRequest, placed: Sequence[WorkerPlacement]
    ) -> list[WorkerRecord]:
        needs = {role.name: (role.cpu_milli, role.memory) for role in request.roles}
        crew = self._crew[attempt.uid]
        made = []
        for one in placed:
            cpu, memory = needs.get(one.role, (request.cpu_milli, request.memory))
            index = len(crew)
            worker = WorkerRecord(
                uid=f"{attempt.uid}/{index}",
                attempt_uid=attempt.uid,
                job_uid=attempt.job_uid,
                namespace=attempt.namespace,
                role=one.role,
                index=index,
                node=one.node,
                host=one.node,
                epoch=attempt.epoch,
                devices=one.devices,
                cpu_milli=cpu,
                memory=memory,
                template=_TEMPLATE,
                desired="run",
                phase=WorkerPhase.RUNNING,
                running_at=self.now,
            )
            crew[worker.uid] = worker
            made.append(worker)
        return made

    def _evict(self, eviction: Eviction) -> Iterable[Record]:
        records: list[Record] = []
        vacating = list(eviction.awaited)
        for victim in eviction.victims:
            crew = self._crew.get(victim.attempt_uid, {})
            going = [crew[uid] for uid in victim.workers if uid in crew] or list(crew.values())
            vacating += [worker.uid for worker in going]
            if victim.workers:
                records += self._leave(victim.attempt_uid, going)
            else:
                records += self._requeue(victim.attempt_uid)
        claim = Claim(
            nodes=tuple(worker.node for worker in eviction.workers), vacating=tuple(vacating), made_at=self.now
        )
        return [*records, replace(self.index.jobs[eviction.job_uid], claim=claim)]

    def _requeue(self, attempt_uid: str) -> Iterable[Record]:
        """Out of its place and back in its queue, with what it still has to do."""
        end = self._ends.pop(attempt_uid, None)
        job_uid = self.index.attempts[attempt_uid].job_uid
        self._left[job_uid] = None if end is None else end - self.now
        return self._ended([attempt_uid], JobPhase.QUEUED)

    def _migrate(self, move: Migration) -> Iterable[Record]:
        attempt, job = self.index.attempts[move.attempt_uid], self.index.jobs[move.job_uid]
        going = self._leave(attempt.uid, list(self._crew.get(attempt.uid, {}).values()))
        self._crew[attempt.uid] = {}
        moved = replace(attempt, uid=f"{job.uid}/{job.epoch + 1}", epoch=job.epoch + 1, number=attempt.number + 1)
        self._crew[moved.uid] = {}
        end = self._ends.pop(attempt.uid, None)
        if end is not None:
            self._ends[moved.uid] = end
            heapq.heappush(self._heap, (end, moved.uid))
        workers = self._workers(moved, self.index.asks[job.uid], move.workers)
        over = replace(attempt, phase=AttemptPhase.ENDED, ended_at=self.now)
        return [*going, over, moved, *workers, replace(job, epoch=moved.epoch, attempt_uid=moved.uid)]

    def _grow(self, growth: Growth) -> Iterable[Record]:
        attempt = self.index.attempts.get(growth.attempt_uid)
        return self._workers(attempt, self.index.asks[growth.job_uid], growth.workers) if attempt else ()

    def _leave(self, attempt_uid: str, going: Iterable[WorkerRecord]) -> list[Record]:
        crew = self._crew.get(attempt_uid, {})
        records: list[Record] = []
        for worker in going:
            crew.pop(worker.uid, None)
            records.append(replace(worker, phase=WorkerPhase.EXITED, released=True, ended_at=self.now))
        return records

    def _ended(self, attempts: Iterable[str], phase: JobPhase) -> list[Record]:
        records: list[Record] = []
        for uid in attempts:
            attempt = self.index.attempts.get(uid)
            if attempt is None:
                continue
            records += self._leave(uid, list(self._crew.get(uid, {}).values()))
            self._crew.pop(uid, None)
            records.append(replace(attempt, phase=AttemptPhase.ENDED, ended_at=self.now))
            if job := self.index.jobs.get(attempt.job_uid):
                records.append(replace(job, phase=phase, attempt_uid=None, claim=None))
        return records
