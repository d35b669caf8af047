"""Commits starts: attempt, workers, allocations, ports and templates of each gang, whole or not at all."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from controller.acts.log import job_event
from controller.acts.notify import notify
from controller.launch.ports import NoPorts, choose_block, ports_needed
from controller.launch.render import render
from controller.launch.roles import in_rank_order, spec_of
from controller.launch.types import LaunchError, PlacedWorker
from controller.records import AttemptRecord, JobRecord, NodeRecord, WorkerRecord
from controller.recovery.checkpoints import choose, redone_steps, spoiled, wanted
from controller.recovery.watching import inherited
from controller.scheduling.columns import takes_work
from controller.scheduling.types import Start, WorkerPlacement
from controller.state.writing import Writer
from muster.launch import LaunchTemplate
from muster.protocol import Lease
from muster.quantity import parse_cpu, parse_duration, parse_memory
from muster.reasons import End, Waiting
from muster.states import AttemptPhase, JobPhase

BUSY_FOR = 300.0  # seconds for which a port that an agent found taken is not offered again on its host


class PortMemory:
    """Ports that agents found taken by strangers. Kept in memory only: a new leader may ask once more."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, int], float] = {}

    def mark(self, host: str, ports: Sequence[int], now: float) -> None:
        for port in ports:
            self._until[host, port] = now + BUSY_FOR

    def avoid(self, host: str, now: float) -> set[int]:
        self._until = {key: until for key, until in self._until.items() if until > now}
        return {port for (owner, port) in self._until if owner == host}


class PortTaker:
    """Blocks of ports for one transaction: what the database holds, what agents found busy, what was just taken."""

    def __init__(self, w: Writer, memory: PortMemory, now: float, hosts: Iterable[str] = ()) -> None:
        """`hosts`: those that will be asked for, so that one query does for them all."""
        self._w, self._memory, self._now = w, memory, now
        self._used = w.ports_by_host(set(hosts))

    def take(self, host: str, size: int, ephemeral: tuple[int, int], seed: str) -> tuple[int, ...]:
        """Raises launch.ports.NoPorts when the host has no free block."""
        if host not in self._used:
            self._used |= self._w.ports_by_host([host])
        block = choose_block(host, size, self._used[host], self._memory.avoid(host, self._now), ephemeral, seed)
        self._used[host].update(block)
        return block


class Gang(NamedTuple):
    """All that starting one gang writes."""

    job: JobRecord
    attempt: AttemptRecord
    workers: list[WorkerRecord]
    event: str


def commit_starts(
    w: Writer, starts: Sequence[Start], *, ports: PortMemory, lease: Lease, new_id: Callable[[], str], now: float
) -> int:
    """How many gangs are placed, each whole; one for which the world has changed since it was planned is left out.
    A few statements for all of them: locks first, rows last."""
    jobs = w.hold_jobs({start.job_uid for start in starts})
    ready = [(jobs[start.job_uid], start) for start in starts if _may_start(jobs.get(start.job_uid))]
    nodes = w.hold_nodes({worker.node for _, start in ready for worker in start.workers})
    earlier = w.attempts_by_job(job.uid for job, _ in ready)
    taker = PortTaker(w, ports, now, (node.host for node in nodes.values()))
    gangs: list[Gang] = []
    for job, start in ready:
        placements = [nodes.get(worker.node) for worker in start.workers]
        if not _usable(placements):
            continue
        attempt = _attempt(w, job, start, earlier.get(job.uid, []), new_id=new_id, now=now)
        try:
            placed, templates = _prepare(job, attempt, start, placements, taker)
        except NoPorts as error:
            _no_ports(w, job, str(error))
        except LaunchError as error:
            _cannot_launch(w, job, str(error), now)
        else:
            workers = [
                _worker(job, attempt, one, template, lease, new_id())
                for one, template in zip(placed, templates, strict=True)
            ]
            where = f" in {start.domain}" if start.domain else ""
            on = ", ".join(one.node for one in placed)
            gangs.append(Gang(job, attempt, workers, f"attempt {attempt.number} on {on}{where}"))
    _write_gangs(w, gangs, now)
    return len(gangs)


def _may_start(job: JobRecord | None) -> bool:
    return (
        job is not None and job.phase in (JobPhase.QUEUED, JobPhase.RECOVERING) and not job.cancel and not job.suspend
    )


def _write_gangs(w: Writer, gangs: Sequence[Gang], now: float) -> None:
    w.insert_attempts([gang.attempt for gang in gangs])
    w.insert_workers([worker for gang in gangs for worker in gang.workers])
    w.move_jobs(
        JobPhase.STARTING,
        [
            (
                gang.job.uid,
                {
                    "reason": "",
                    "message": "",
                    "epoch": gang.attempt.epoch,
                    "attempt_uid": gang.attempt.uid,
                    "claim": None,
                    "promise": None,
                    "recovering_since": None,
                },
            )
            for gang in gangs
        ],
    )
    for gang in gangs:
        job_event(w, gang.job, "Placed", gang.event, now)


def _prepare(
    job: JobRecord, attempt: AttemptRecord, start: Start, nodes: Sequence[NodeRecord | None], taker: PortTaker
) -> tuple[list[PlacedWorker], tuple[LaunchTemplate, ...]]:
    size = ports_needed(job.spec)
    placed, numbers = list[PlacedWorker](), Counter[str]()
    for place, (worker, node) in enumerate(zip(start.workers, nodes, strict=True)):
        if node is not None:
            block = taker.take(node.host, size, node.ephemeral_ports, f"{attempt.uid}:{place}")
            placed.append(_place(numbers[worker.role], worker, node, block))
            numbers[worker.role] += 1
    return placed, render(job, attempt, placed)


def _no_ports(w: Writer, job: JobRecord, why: str) -> None:
    """The job waits: ports come back when another attempt ends, and that plans again."""
    if job.message != why:
        w.patch_job(job.uid, reason=Waiting.CAPACITY, message=why)


def _cannot_launch(w: Writer, job: JobRecord, why: str, now: float) -> None:
    """The manifest itself is at fault; waiting mends nothing."""
    failed = w.move_job(job.uid, JobPhase.FAILED, reason=End.USER_ERROR, message=why, finished_at=now)
    job_event(w, job, "UserError", why, now, level="warning")
    notify(w, failed, "failed", now=now, message=why)


def write_new_ports(
    w: Writer,
    job: JobRecord,
    attempt: AttemptRecord,
    workers: Sequence[WorkerRecord],
    memory: PortMemory,
    *,
    now: float,
) -> None:
    """A port was taken by a stranger: the workers on that host get others, and all templates say so."""
    for worker in workers:
        if worker.busy_ports:
            memory.mark(worker.host, worker.busy_ports, now)
    taker, size = PortTaker(w, memory, now), ports_needed(job.spec)
    placed = []
    workers = in_rank_order(job.spec, workers)
    for worker in workers:
        node = w.node(worker.node)
        ports = worker.ports
        if worker.busy_ports and node is not None:
            ports = taker.take(worker.host, size, node.ephemeral_ports, f"{worker.uid}:{worker.template_revision}")
            w.replace_ports(worker.uid, ports)
        placed.append(_placed_again(worker, node, ports))
    for worker, again, template in zip(workers, placed, render(job, attempt, placed), strict=True):
        w.patch_worker(
            worker.uid,
            ports=again.ports,
            template=template,
            template_revision=worker.template_revision + 1,
            problem="",
            message="",
            busy_ports=(),
        )
    job_event(w, job, "PortsTaken", "ports were taken by another program; the gang got new ones", now)


def _usable(nodes: Sequence[NodeRecord | None]) -> bool:
    return all(node is not None and takes_work(node) for node in nodes)


def _attempt(
    w: Writer,
    job: JobRecord,
    start: Start,
    attempts: Sequence[AttemptRecord],
    *,
    new_id: Callable[[], str],
    now: float,
) -> AttemptRecord:
    earlier = [attempt for attempt in attempts if attempt.scope == start.scope]
    checkpoint = job.spec.get("checkpoint")
    resume = None
    if checkpoint:
        resume = choose(
            wanted(w.checkpoints(job.uid), job.restart_from), directory=checkpoint["directory"], avoid=spoiled(earlier)
        )
    epoch = max(job.epoch, job.epoch_floor) + 1
    last_step = max((step for attempt in earlier if (step := attempt.last_step) is not None), default=None)
    return AttemptRecord(
        uid=new_id(),
        job_uid=job.uid,
        namespace=job.namespace,
        job_name=job.name,
        scope=start.scope,
        number=max((attempt.number for attempt in earlier), default=0) + 1,
        epoch=epoch,
        rendezvous=f"{job.name}-{epoch}-{new_id()[-8:]}",
        phase=AttemptPhase.PLACED,
        resume=resume,
        redone_steps=redone_steps(last_step, resume),
        placed_at=now,
        watch=inherited(max(earlier, key=lambda one: one.number).watch) if earlier else None,
    )


def _place(index: int, worker: WorkerPlacement, node: NodeRecord, ports: tuple[int, ...]) -> PlacedWorker:
    kinds = {device.index: device.type for device in node.devices}
    return PlacedWorker(
        role=worker.role,
        index=index,
        node=node.name,
        host=node.host,
        address=node.address,
        devices=worker.devices,
        device_type=kinds.get(worker.devices[0]) if worker.devices else None,
        ports=ports,
    )


def _placed_again(worker: WorkerRecord, node: NodeRecord | None, ports: tuple[int, ...]) -> PlacedWorker:
    kinds = {device.index: device.type for device in node.devices} if node else {}
    return PlacedWorker(
        role=worker.role,
        index=worker.index,
        node=worker.node,
        host=worker.host,
        address=node.address if node else "",
        devices=worker.devices,
        device_type=kinds.get(worker.devices[0]) if worker.devices else None,
        ports=ports,
    )


def _worker(
    job: JobRecord, attempt: AttemptRecord, placed: PlacedWorker, template: LaunchTemplate, lease: Lease, uid: str
) -> WorkerRecord:
    fence, own = job.spec.get("recovery", {}).get("fenceAfter"), spec_of(job.spec, placed.role)
    return WorkerRecord(
        uid=uid,
        attempt_uid=attempt.uid,
        job_uid=job.uid,
        namespace=job.namespace,
        role=placed.role,
        index=placed.index,
        node=placed.node,
        host=placed.host,
        epoch=attempt.epoch,
        devices=placed.devices,
        ports=placed.ports,
        cpu_milli=parse_cpu(own.get("cpu", "1")),
        memory=parse_memory(own.get("memory", "256Mi")),
        template=template,
        fence=lease.fence if fence is None else None if fence == "never" else parse_duration(fence),
    )
