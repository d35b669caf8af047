"""What would happen if: the planner asked of a cluster that is not there.

    changed(index, change, now) -> index
    compare(index, change, now, history) -> Comparison

Pure; the index that is given stays as it is.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from controller.records import Change, JobRecord, NodeRecord, QueueRecord, Record
from controller.scheduling.index import ClusterIndex, apply
from controller.scheduling.planner import plan
from controller.scheduling.types import Plan, Wait
from controller.simulation.forecast import forecast
from controller.simulation.spans import History
from controller.simulation.types import Eta
from muster.problems import FieldError, nearest
from muster.states import AttemptPhase, JobPhase, WorkerPhase

MOST_NODES = 100_000


class WhatIf(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`quota` replaces what these queues have of these kinds; `like` names the node that all new ones are alike;
    `job` is submitted, or takes the place of the live one of its name."""

    job: JobRecord | None = None
    quota: dict[str, dict[str, int]] = {}
    add_nodes: int = 0
    like: str = ""
    drain: tuple[str, ...] = ()


class Told(Struct, frozen=True, kw_only=True):
    """One job that waits in either world. `today` and `then` are None where it does not wait there."""

    namespace: str
    name: str
    today: Eta | None
    then: Eta | None


class Comparison(Struct, frozen=True, kw_only=True):
    """The next plan with the change (without the reasons), and all starts beside those without it, in the order of service."""

    revision: int
    now: float
    plan: Plan
    names: dict[str, tuple[str, str]]
    """(namespace, name) by uid, of all that the plan speaks of."""
    jobs: tuple[Told, ...]
    why: Wait | None = None
    """Why the job that was asked about would wait."""


class Unfit(ValueError):
    """A change that cannot be made in thought; `errors` say which fields."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(error.sentence() for error in errors))
        self.errors = errors


def compare(index: ClusterIndex, change: WhatIf, now: float, history: History) -> Comparison:
    """Raises Unfit."""
    other = changed(index, change, now)
    before = {eta.job_uid: eta for eta in forecast(index, now, history).etas}
    after = {eta.job_uid: eta for eta in forecast(other, now, history).etas}
    decided = plan(other, now)
    order = dict.fromkeys((*after, *before))
    jobs = {**index.jobs, **other.jobs}
    named = {uid: (job.namespace, job.name) for uid, job in jobs.items()}
    spoken = {group.start.job_uid for group in decided.groups} | {one.job_uid for one in decided.evictions}
    spoken |= {victim.job_uid for one in decided.evictions for victim in one.victims}
    asked = change.job.uid if change.job else ""
    return Comparison(
        revision=index.revision,
        now=now,
        plan=replace(decided, waits=()),
        names={uid: named[uid] for uid in spoken if uid in named},
        jobs=tuple(
            Told(namespace=named[uid][0], name=named[uid][1], today=before.get(uid), then=after.get(uid))
            for uid in order
        ),
        why=next((wait for wait in decided.waits if wait.job_uid == asked), None),
    )


def changed(index: ClusterIndex, change: WhatIf, now: float) -> ClusterIndex:
    """The index as it would be. Raises Unfit."""
    errors = [*_nodes_errors(index, change), *_quota_errors(index, change)]
    if errors:
        raise Unfit(errors)
    records: list[Record] = [*_quota(index, change), *_new_nodes(index, change), *_drained(index, change, now)]
    if change.job is not None:
        records += _displaced(index, {change.job.uid}, now)
        records = [one for one in records if not (isinstance(one, JobRecord) and one.uid == change.job.uid)]
        records.append(change.job)
    first = index.revision + 1
    changes = [
        Change(
            revision=number,
            kind=type(record).__name__.removesuffix("Record"),
            uid=record.uid,
            record=replace(record, revision=number),
        )
        for number, record in enumerate(records, first)
    ]
    return replace(apply(index, changes), revision=index.revision)


def _nodes_errors(index: ClusterIndex, change: WhatIf) -> Iterable[FieldError]:
    for number, name in enumerate(change.drain):
        if name not in index.nodes:
            yield _unknown(f"drain[{number}]", "unknown node", name, index.nodes)
    if not 0 <= change.add_nodes <= MOST_NODES:
        yield FieldError("addNodes", f"expected 0 to {MOST_NODES} nodes", found=change.add_nodes)
    if change.like and change.like not in index.nodes:
        yield _unknown("like", "unknown node", change.like, index.nodes)
    if bool(change.add_nodes) != bool(change.like):
        yield FieldError("like", "addNodes and like go together: how many nodes, and which node they are like")


def _quota_errors(index: ClusterIndex, change: WhatIf) -> Iterable[FieldError]:
    for queue, kinds in change.quota.items():
        if queue not in index.queues:
            yield _unknown(f"quota.{queue}", "unknown queue", queue, index.queues)
        for kind, amount in kinds.items():
            if amount < 0:
                yield FieldError(f"quota.{queue}.{kind}", "expected a number that is not negative", found=amount)


def _unknown(field: str, message: str, found: str, known: Iterable[str]) -> FieldError:
    allowed = tuple(sorted(known))
    shown = allowed if len(allowed) <= 20 else ()
    return FieldError(field, message, "UNKNOWN", found, shown, nearest(found, allowed))


def _quota(index: ClusterIndex, change: WhatIf) -> Iterable[QueueRecord]:
    for name, kinds in change.quota.items():
        queue = index.queues[name]
        yield replace(queue, spec=queue.spec | {"quota": {**(queue.spec.get("quota") or {}), **kinds}})


def _new_nodes(index: ClusterIndex, change: WhatIf) -> Iterable[NodeRecord]:
    for number in range(1, change.add_nodes + 1):
        like = index.nodes[change.like]
        name = f"{like.name}+{number}"
        devices = tuple(replace(device, healthy=True) for device in like.devices)
        yield replace(like, name=name, uid=name, host=name, devices=devices, cordoned=False)


def _drained(index: ClusterIndex, change: WhatIf, now: float) -> list[Record]:
    nodes: list[Record] = [replace(index.nodes[name], cordoned=True) for name in dict.fromkeys(change.drain)]
    held = [worker for name in change.drain for worker in index.workers.get(name, {}).values()]
    return nodes + _displaced(index, {worker.job_uid for worker in held}, now)


def _displaced(index: ClusterIndex, jobs: set[str], now: float) -> list[Record]:
    """These jobs, where they run, end there and wait again."""
    records: list[Record] = []
    for workers in index.workers.values():
        going = (worker for worker in workers.values() if worker.job_uid in jobs)
        records += [replace(worker, phase=WorkerPhase.EXITED, released=True, ended_at=now) for worker in going]
    for attempt in index.attempts.values():
        if attempt.job_uid in jobs:
            records.append(replace(attempt, phase=AttemptPhase.ENDED, ended_at=now))
            job = index.jobs[attempt.job_uid]
            records.append(replace(job, phase=JobPhase.QUEUED, attempt_uid=None, reason="", message=""))
    return records
