"""The verdict: an ordered list of named rules, the first that has something to say decides.

Order: what happened to the node or to the start outranks what ranks printed; the culprit's end outranks the
victims'; a known kind of end outranks repetition; repetition outranks another try.
"""

import re
from collections.abc import Callable, Sequence

from controller.records import Verdict, WorkerRecord
from controller.recovery.reading import End, ends
from controller.recovery.signatures import Kind
from controller.recovery.types import FailureCase
from muster.evidence import Source
from muster.reasons import End as Reason
from muster.states import WorkerPhase

USER_PROBLEMS = {
    "NO_SUCH_COMMAND": "the command does not exist on the node",
    "WORKDIR_MISSING": "the working directory does not exist on the node",
    "PERMISSION": "the command or its folder may not be used",
    "PROGRESS_REGEX": "progress.regex takes too long on the job's own log",
}
HOLD_PROBLEMS = {"DISK_FULL": "the node's disk is full", "CHECKPOINT_DIR": "the checkpoint directory cannot be used"}
UNAVAILABLE = {126: "the command cannot be executed", 127: "the command was not found"}


def decide(case: FailureCase, now: float) -> Verdict:
    """Who is at fault for the end of this attempt, and the cheapest action that works. Pure."""
    found = ends(case)
    culprit = _culprit(found)
    for rule in RULES:
        verdict = rule(case, found, culprit)
        if verdict is not None:
            return _within_budget(case, verdict)
    raise AssertionError("the last rule always decides")


def _culprit(found: Sequence[End]) -> End | None:
    """The earliest end that nobody else caused; when all look like victims, the earliest of them."""
    own = [end for end in found if not end.victim]
    return min(own or found, key=lambda end: (end.at, _weight(end)), default=None)


def _weight(end: End) -> int:
    """At the same time: proof of the kernel, then signals, then a named cause, then a bare exit code."""
    return 0 if end.oom else 1 if end.signal else 2 if end.reading else 3


Rule = Callable[[FailureCase, Sequence[End], End | None], Verdict | None]


def node_lost(case: FailureCase, found: Sequence[End], culprit: End | None) -> Verdict | None:
    lost = tuple(sorted({worker.node for worker in case.workers if worker.phase is WorkerPhase.LOST}))
    if not lost:
        return None
    said = [item.text for item in case.evidence if item.source is Source.NODE]
    return Verdict(
        category="node_lost",
        action="replace",
        why=f"{_names(lost)} stopped answering and passed the fence; its workers are placed elsewhere",
        culprit_nodes=lost,
        node_at_fault=True,
        certainty="confirmed",
        decided_by=tuple(said[:3]),
        fingerprint="node_lost",
    )


def refused_start(case: FailureCase, found: Sequence[End], culprit: End | None) -> Verdict | None:
    for worker in case.workers:
        if worker.problem in USER_PROBLEMS:
            return _start(worker, "fail", "launch_user_error", USER_PROBLEMS[worker.problem], node_at_fault=False)
        if worker.problem in HOLD_PROBLEMS:
            return _start(worker, "hold", worker.problem.lower(), HOLD_PROBLEMS[worker.problem], node_at_fault=None)
        if worker.problem == "PORT_BUSY":
            return _start(
                worker, "retry", "port_in_use", "a port was taken between its test and its use", node_at_fault=False
            )
    return None


def vanished(case: FailureCase, found: Sequence[End], culprit: End | None) -> Verdict | None:
    gone = [worker for worker in case.workers if worker.problem in _VANISHED]
    if not gone or (culprit is not None and not culprit.victim):
        return None
    worker = gone[0]
    what = _VANISHED[worker.problem]
    return Verdict(
        category="worker_vanished",
        action="restart",
        why=f"worker {worker.role}-{worker.index} on {worker.node} {what}; the gang restarts",
        node_at_fault=None,
        certainty="confirmed",
        decided_by=(worker.message,) if worker.message else (),
        fingerprint="worker_vanished",
    )


_VANISHED = {
    "VANISHED": "vanished with its shim",
    "FENCED": "lost its lease and was stopped by its shim",
    "STALE_EPOCH": "was refused: its node has already seen a newer epoch",
    "LAUNCH_FAILED": "could not be started by its node",
}


def out_of_memory(case: FailureCase, found: Sequence[End], culprit: End | None) -> Verdict | None:
    """Needs proof from the cgroup or the kernel; SIGKILL alone is none. Once with luck, twice it is the program."""
    if culprit is None or not culprit.oom:
        return None
    return _once(
        case, culprit, "host_oom", "its memory limit was reached (the kernel says so)", advice="ask for more memory"
    )


def known_kind(case: FailureCase, found: Sequence[End], culprit: End | None) -> Verdict | None:
    """The culprit's own log names the cause."""
    if culprit is None or culprit.victim or culprit.reading is None:
        return None
    signature, line = culprit.reading
    match signature.kind:
        case Kind.USER_ERROR if culprit.signal is None:
            return _verdict(culprit, "user_error", "fail", f"{signature.says}: {line}", certainty="confirmed")
        case Kind.DISK_FULL | Kind.STORAGE:
            return _verdict(culprit, str(signature.kind), "hold", f"{signature.says}: {line}")
        case Kind.GPU_OOM:
            return _verdict(culprit, "gpu_oom", "fail", f"{signature.says}: {line}", certainty="confirmed")
        case Kind.HOST_OOM:
            return _once(case, culprit, "host_oom", f"{signature.says}: {line}", advice="ask for more memory")
        case Kind.PORT_IN_USE:
            return _verdict(culprit, "port_in_use", "retry", f"{signature.says}: {line}")
        case Kind.CHECKPOINT_CORRUPT:
            return _verdict(culprit, "checkpoint_corrupt", "previous_checkpoint", f"{signature.says}: {line}")
        case _:
            return None


def cannot_execute(case: FailureCase, found: Sequence[End], culprit: End | None) -> Verdict | None:
    if culprit is None or culprit.code not in UNAVAILABLE:
        return None
    return _verdict(culprit, "user_error", "fail", UNAVAILABLE[culprit.code], certainty="confirmed")


def same_end_again(case: FailureCase, found: Sequence[End], culprit: End | None) -> Verdict | None:
    """Repetition without a new step is the program's, whatever it says."""
    limit = int(case.job.spec.get("recovery", {}).get("noProgressLimit", 2))
    if culprit is None or (culprit.signal is not None and _progressed(case)):
        return None
    fingerprint = _fingerprint(culprit, "crash")
    repeats = 1 if not _progressed(case) else 0
    for attempt in case.history:
        if not repeats or attempt.verdict is None or attempt.verdict.fingerprint != fingerprint:
            break
        if attempt.reason in (Reason.SUSPENDED, Reason.CANCELLED, Reason.SUPERSEDED):
            break
        repeats += 1
        if attempt.last_step is not None and attempt.last_step > _resume_step(attempt.resume):
            break
    if repeats < limit:
        return None
    why = f"{_who(culprit)} {culprit.how()} as {repeats - 1} time{'s' if repeats > 2 else ''} before, without a new step in between"
    return _verdict(culprit, "no_progress", "fail", why, fingerprint=fingerprint)


def crashed(case: FailureCase, found: Sequence[End], culprit: End | None) -> Verdict | None:
    if culprit is None:
        return None
    detail = f": {culprit.line}" if culprit.line and culprit.signal is None else ""
    return _verdict(
        culprit,
        "crash" if culprit.signal else "collective" if culprit.victim else "unknown",
        "restart",
        f"{culprit.how()}{detail}",
        certainty="likely" if culprit.signal else "possible",
        fingerprint=_fingerprint(culprit, "crash"),
    )


def nothing_known(case: FailureCase, found: Sequence[End], culprit: End | None) -> Verdict | None:
    what = case.attempt.message or "the gang ended without an exit that would say why"
    return Verdict(
        category="unknown",
        action="restart",
        why=f"{what}; the gang restarts",
        certainty="possible",
        fingerprint="unknown",
    )


RULES: Sequence[Rule] = (
    node_lost,
    refused_start,
    vanished,
    out_of_memory,
    known_kind,
    cannot_execute,
    same_end_again,
    crashed,
    nothing_known,
)


def _within_budget(case: FailureCase, verdict: Verdict) -> Verdict:
    """`maxRestarts` spent: the job fails, and the sentence says both."""
    limit = int(case.job.spec.get("recovery", {}).get("maxRestarts", 20))
    if verdict.action not in ("retry", "restart", "replace", "previous_checkpoint") or case.job.restarts < limit:
        return verdict
    return Verdict(
        category="budget_spent",
        action="fail",
        why=f"{verdict.why}, but all {limit} restarts of recovery.maxRestarts are spent",
        culprit_nodes=verdict.culprit_nodes,
        culprit_rank=verdict.culprit_rank,
        node_at_fault=verdict.node_at_fault,
        certainty=verdict.certainty,
        decided_by=verdict.decided_by,
        fingerprint=verdict.fingerprint,
    )


def _once(case: FailureCase, culprit: End, category: str, what: str, *, advice: str) -> Verdict:
    """Restart the first time; the same end again is the program's."""
    again = any(attempt.verdict is not None and attempt.verdict.category == category for attempt in case.history[:1])
    if again:
        return _verdict(culprit, category, "fail", f"{what}, again; {advice}", certainty="confirmed")
    return _verdict(culprit, category, "restart", what)


def _verdict(
    culprit: End, category: str, action: str, what: str, *, certainty: str = "likely", fingerprint: str = ""
) -> Verdict:
    does = {
        "fail": "a restart would not help",
        "hold": "the job is held",
        "retry": "the gang starts again",
        "restart": "the gang restarts on the same nodes",
        "previous_checkpoint": "the gang restarts from the checkpoint before",
    }
    sentence = what if what.startswith(_who(culprit)) else f"{_who(culprit)}: {what}"
    return Verdict(
        category=category,
        action=action,
        why=f"{sentence}; {does[action]}",
        culprit_rank=culprit.rank,
        node_at_fault=False if action in ("fail", "hold", "retry") else None,
        certainty="confirmed" if certainty == "confirmed" else "likely" if certainty == "likely" else "possible",
        decided_by=(culprit.line,) if culprit.line else (),
        fingerprint=fingerprint or _fingerprint(culprit, category),
    )


def _start(worker: WorkerRecord, action: str, category: str, what: str, *, node_at_fault: bool | None) -> Verdict:
    detail = f" ({worker.message})" if worker.message else ""
    return Verdict(
        category=category,
        action=action,
        why=f"worker {worker.role}-{worker.index} on {worker.node} could not start: {what}{detail}",
        node_at_fault=node_at_fault,
        certainty="confirmed",
        decided_by=(worker.problem,),
        fingerprint=f"start:{worker.problem}",
    )


def _who(culprit: End) -> str:
    return f"rank {culprit.rank} on {culprit.node}" if culprit.rank is not None else f"a worker on {culprit.node}"


def _progressed(case: FailureCase) -> bool:
    """Whether this attempt made a step that no attempt before it had made."""
    step = case.attempt.last_step
    return step is not None and (case.job.best_step is None or step > case.job.best_step)


def _resume_step(resume: object) -> int:
    return int(getattr(resume, "step", 0) or 0)


def _fingerprint(culprit: End, category: str) -> str:
    """Equal for the same kind of end, whatever the pid, address, port, time, path or epoch in its last line."""
    end = f"signal {culprit.signal}" if culprit.signal else f"exit {culprit.code}"
    line = re.sub(r"0x[0-9a-f]+|\d+", "#", culprit.line.lower())
    return f"{category}|{end}|{re.sub(r'/[^ :,]+', '/', line)[:160]}"


def _names(nodes: Sequence[str]) -> str:
    return ("node " if len(nodes) == 1 else "nodes ") + ", ".join(nodes)
