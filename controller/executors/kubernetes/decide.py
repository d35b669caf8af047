"""The matrix of what is wanted and which pods there are. Pure.

    desired   pod                    act                 seen
    any       none, worker Assigned  create, bind (1)    nothing
    any       none, worker further   -                   Exited, VANISHED: somebody deleted it
    prepare   all bound (2)          -                   Preparing, Ready once its containers run
    run       running                say go              Ready before the go, Running after it
    not stop  ended                  -                   Exited with the exits
    stop      there                  delete              as before, with the exits there are
    stop      none                   -                   Exited: the object is gone, so every process is
    -         of an older epoch      delete              nothing

(1) All or none: a pod of the attempt that is being deleted makes the rest wait until all are gone.
(2) Nobody is seen as Preparing before the whole gang is bound: until then it may be taken back whole.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from controller.executors.base import Intent, Observation
from controller.executors.kubernetes.pod import Pod, unsupported
from controller.records import WorkerRecord
from muster.evidence import Evidence, Source
from muster.protocol import RankExit
from muster.states import WORKER_TERMINAL, WorkerPhase


class Steps(Struct, frozen=True, kw_only=True):
    """What to do for one attempt. `launch` are workers to create (where no pod is given) and bind."""

    delete: tuple[Pod, ...] = ()
    launch: tuple[tuple[WorkerRecord, Pod | None], ...] = ()
    go: tuple[Pod, ...] = ()


def steps(intent: Intent, pods: Sequence[Pod]) -> Steps:
    mine = _of_attempt(intent, pods)
    old = [pod for pod in pods if pod.job == intent.job.uid and pod.epoch < intent.attempt.epoch]
    unwanted = [pod for worker in intent.workers if _over(worker) and (pod := mine.get(worker.uid))]
    going = [worker for worker in intent.workers if not _over(worker)]
    misplaced = any((pod := mine.get(worker.uid)) and pod.node not in ("", worker.node) for worker in going)
    if misplaced:
        unwanted = list(mine.values())
    launch: list[tuple[WorkerRecord, Pod | None]] = []
    if len(going) == len(intent.workers) and not misplaced and not any(pod.deleting for pod in mine.values()):
        launch = [(worker, mine.get(worker.uid)) for worker in going if _unlaunched(worker, mine.get(worker.uid))]
    go = [pod for worker in going if worker.desired == "run" and (pod := mine.get(worker.uid))]
    return Steps(
        delete=tuple(pod for pod in (*old, *unwanted) if not pod.deleting),
        launch=tuple(launch) if not any(unsupported(worker.template) for worker in intent.workers) else (),
        go=tuple(pod for pod in go if not pod.go and not pod.deleting and not pod.ended),
    )


def observations(intent: Intent, pods: Sequence[Pod], now: float) -> list[Observation]:
    """What is news about the workers of this attempt."""
    mine = _of_attempt(intent, pods)
    whole = all((pod := mine.get(worker.uid)) and pod.node and not pod.deleting for worker in intent.workers)
    seen = (
        _observe(worker, mine.get(worker.uid), now, whole)
        for worker in intent.workers
        if worker.phase not in WORKER_TERMINAL
    )
    return [one for one in seen if one is not None]


def _observe(worker: WorkerRecord, pod: Pod | None, now: float, whole: bool) -> Observation | None:
    if pod is None:
        return _without_pod(worker, now)
    exits = pod.exits or worker.exits
    if worker.desired != "stop" and pod.ended:
        return _observation(worker, WorkerPhase.EXITED, now, pod.exits, pod.problem, pod.message)
    if worker.phase is WorkerPhase.ASSIGNED and not whole:
        return None
    phase = worker.phase
    if pod.running and worker.phase is not WorkerPhase.RUNNING:
        phase = WorkerPhase.RUNNING if pod.go else WorkerPhase.READY
    elif worker.phase is WorkerPhase.ASSIGNED:
        phase = WorkerPhase.PREPARING
    if (phase, exits, pod.problem, pod.message) == (worker.phase, worker.exits, worker.problem, worker.message):
        return None
    return _observation(worker, phase, now, exits, pod.problem, pod.message)


def _without_pod(worker: WorkerRecord, now: float) -> Observation | None:
    if worker.desired == "stop":
        return _observation(worker, WorkerPhase.EXITED, now, worker.exits, "", "its pod is gone")
    if why := unsupported(worker.template):
        return _observation(worker, WorkerPhase.EXITED, now, (), "UNSUPPORTED", why)
    if worker.phase is WorkerPhase.ASSIGNED:
        return None
    return _observation(worker, WorkerPhase.EXITED, now, worker.exits, "VANISHED", "its pod was deleted by somebody")


def _observation(
    worker: WorkerRecord, phase: WorkerPhase, now: float, exits: tuple[RankExit, ...], problem: str, message: str
) -> Observation:
    evidence = tuple(
        Evidence(
            source=Source.EXIT,
            at=end.at or now,
            attempt=worker.attempt_uid,
            node=worker.node,
            role=worker.role,
            worker=worker.index,
            data={"code": end.code, "signal": end.signal, "oom": end.oom},
        )
        for end in exits
        if phase is WorkerPhase.EXITED
    )
    return Observation(
        worker_uid=worker.uid,
        attempt_uid=worker.attempt_uid,
        epoch=worker.epoch,
        phase=phase,
        at=now,
        template_revision=worker.template_revision,
        exits=exits,
        problem=problem,
        message=message,
        evidence=evidence,
    )


def _of_attempt(intent: Intent, pods: Iterable[Pod]) -> dict[str, Pod]:
    return {pod.worker: pod for pod in pods if (pod.attempt, pod.epoch) == (intent.attempt.uid, intent.attempt.epoch)}


def _over(worker: WorkerRecord) -> bool:
    return worker.desired == "stop" or worker.phase in WORKER_TERMINAL


def _unlaunched(worker: WorkerRecord, pod: Pod | None) -> bool:
    return worker.phase is WorkerPhase.ASSIGNED and (pod is None or not pod.node)
