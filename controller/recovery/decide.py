"""The verdict: an ordered list of named rules, the first that has something to say decides.

Order: success is terminal; what happened to the node or to the start outranks what ranks printed; proof of the kernel
outranks words; the culprit's end outranks the victims'; a known kind of end outranks a bare exit. Afterwards two
limits stand above any restart: repetition without progress, and the budget.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller.records import Verdict, WorkerRecord
from controller.recovery.hardware import proof
from controller.recovery.policy import POLICIES, USAGE, exit_meaning, innocent
from controller.recovery.ranks import look
from controller.recovery.reading import KILL, End, culprit, ends
from controller.recovery.repetition import INFRASTRUCTURE, idle_attempts, same_ends
from controller.recovery.start import could_not_start
from controller.recovery.types import FailureCase
from controller.recovery.wording import does, names
from muster.evidence import Source
from muster.states import WorkerPhase

RESTARTS: Final = ("retry", "restart", "replace", "previous_checkpoint")
"""The actions that start the gang again."""
PATIENCE: Final = 3
"""A job stops after so many attempts more than `noProgressLimit` without a new step, whatever their ends were."""


class Scene(Struct, frozen=True):
    """What the rules look at: the case, all ends in it, and the one that all others follow from."""

    case: FailureCase
    ends: Sequence[End]
    culprit: End | None


def decide(case: FailureCase, now: float) -> Verdict:
    """Who is at fault for the end of this attempt, and the cheapest action that works. Pure."""
    found = ends(case)
    scene = Scene(case, found, culprit(found))
    verdict = next(verdict for rule in RULES if (verdict := rule(scene)))
    return _within_budget(case, _with_progress(scene, verdict))


def succeeded(scene: Scene) -> Verdict | None:
    """Every process of every worker had exited with 0: what befell the nodes afterwards changes nothing."""
    workers = scene.case.workers
    done = all(
        len(worker.exits) == len(worker.template.processes)
        and all(exit_.code == 0 and not exit_.signal for exit_ in worker.exits)
        for worker in workers
    )
    if not done or not workers:
        return None
    return Verdict(
        category="success",
        action="record",
        why="every rank had exited with 0 before anything else happened; the job is done",
        node_at_fault=False,
        certainty="confirmed",
        fingerprint="success",
    )


def node_lost(scene: Scene) -> Verdict | None:
    lost = sorted(
        (worker for worker in scene.case.workers if worker.phase is WorkerPhase.LOST),
        key=lambda worker: (worker.role, worker.index),
    )
    if not lost:
        return None
    nodes = tuple(sorted({worker.node for worker in lost}))
    workers = ", ".join(f"{worker.role}-{worker.index}" for worker in lost[:4]) + (" ..." if len(lost) > 4 else "")
    said = [item.text for item in scene.case.evidence if item.source is Source.NODE and item.node in nodes]
    return Verdict(
        category="node_lost",
        action="replace",
        why=f"{names(nodes)} stopped renewing its lease and passed the fence, and {workers} with it; {does('replace')}",
        culprit_nodes=nodes,
        node_at_fault=True,
        certainty="confirmed",
        decided_by=tuple(said[:3]),
        fingerprint="node_lost",
    )


def start_refused(scene: Scene) -> Verdict | None:
    return could_not_start(scene.case)


def hardware(scene: Scene) -> Verdict | None:
    """The kernel or a device said why: that beats what ranks printed. A kill for want of memory is proven by itself."""
    end = scene.culprit
    times = [one.at for one in scene.ends if one.at]
    found = proof(scene.case, min(times, default=None))
    if found is None or (end is not None and end.oom):
        return None
    node = found.sight.node
    if found.shared:
        return Verdict(
            category="shared_incident",
            action="restart",
            why=f"{len(found.nodes)} nodes at once: {found.sight.text.strip()[:200]}; {does('restart')}",
            node_at_fault=False,
            certainty="likely",
            decided_by=(found.sight.text.strip()[:300],),
            fingerprint=f"hardware:shared_incident|{found.sight.data.get('code')}",
        )
    return Verdict(
        category=found.category,
        action="replace",
        why=f"{found.what}; {does('replace')}",
        culprit_nodes=(node,),
        culprit_rank=end.rank if end is not None and end.node == node else None,
        node_at_fault=True,
        certainty="confirmed",
        decided_by=(found.sight.text.strip()[:300], *((end.proof,) if end is not None else ())),
        fingerprint=f"hardware:{found.category}|{node}",
    )


def hung(scene: Scene) -> Verdict | None:
    """It was stopped because it had made no progress for too long: all ends came after that. Never an eviction on a
    silence alone; the second time in a row with the same rank in the same place its node is replaced."""
    watch, stopping = scene.case.attempt.watch, scene.case.attempt.stopping_at
    suspect = watch.suspect if watch is not None else None
    if suspect is None or stopping is None or any(not end.victim and end.at < stopping for end in scene.ends):
        return None
    found = look(scene.case.evidence, suspect.uid)
    if found is not None and found.kind == "at-work":
        found = None
    category, action = HANGS[found.kind if found else "unknown"]
    what = scene.case.attempt.message or "it made no progress"
    where = found.node if found is not None and found.kind not in ("desync", "behind") else ""
    rank = found.rank if found is not None else None
    node = where or next((worker.node for worker in scene.case.workers if _has_rank(worker, rank)), "")
    mark = f"hang:{category}|{'' if rank is None else rank}|{node if rank is not None else ''}"
    again = same_ends(scene.case, mark) > 1
    if again and action == "restart" and node and rank is not None:
        return Verdict(category=category, action="replace", why=f"{what}, again; {does('replace')}", culprit_rank=rank,
                       culprit_nodes=(node,), node_at_fault=True, certainty="likely", fingerprint=mark,
                       decided_by=(found.why,) if found else ())  # fmt: skip
    if again and category == "user_code_desync":
        action = "fail"
    return Verdict(category=category, action=action, why=f"{what}; {does(action)}", culprit_rank=rank,
                   node_at_fault=False if category == "user_code_desync" else None, fingerprint=mark,
                   certainty="likely" if found else "possible", decided_by=(found.why,) if found else ())  # fmt: skip


HANGS: Final = {
    "stopped": ("rank_hung", "restart"),
    "blocked": ("rank_hung", "restart"),
    "elsewhere": ("rank_hung", "restart"),
    "behind": ("rank_behind", "restart"),
    "desync": ("user_code_desync", "restart"),
    "unknown": ("hang_unknown", "restart"),
}
"""What a look at all ranks has found, to category and action."""


def _has_rank(worker: WorkerRecord, rank: int | None) -> bool:
    first = worker.template.first_rank
    return rank is not None and first <= rank < first + worker.template.ranks


def vanished(scene: Scene) -> Verdict | None:
    """The machine is alive, the worker is not. A rank that had failed on its own before is the cause, not this."""
    gone = [worker for worker in scene.case.workers if worker.problem in ("VANISHED", "FENCED")]
    if not gone or (scene.culprit is not None and not scene.culprit.victim):
        return None
    worker = min(gone, key=lambda one: (one.role, one.index))
    what = (
        "lost its lease for the length of the fence and was stopped by its shim"
        if worker.problem == "FENCED"
        else "vanished with its shim, while its node lives on"
    )
    return Verdict(
        category="worker_vanished",
        action="restart",
        why=f"worker {worker.role}-{worker.index} on {worker.node} {what}; {does('restart')}",
        node_at_fault=None,
        certainty="confirmed",
        decided_by=(worker.message,) if worker.message else (),
        fingerprint="worker_vanished",
    )


def out_of_memory(scene: Scene) -> Verdict | None:
    """Needs proof from the cgroup or the kernel: SIGKILL alone is none."""
    end = scene.culprit
    if end is None or not end.oom:
        return None
    return _by_policy(scene, end, "host_oom", "its memory limit was reached, the kernel says so", "confirmed")


def known_kind(scene: Scene) -> Verdict | None:
    """The culprit's own log names the cause. A signal that no program sends itself is no error of the user's."""
    end = scene.culprit
    if end is None or end.reading.hit is None or end.kind not in POLICIES or end.victim:
        return None
    if end.signal and POLICIES[end.kind].action == "fail":
        return None
    return _by_policy(scene, end, end.kind, f"{end.reading.hit.signature.says}: {end.line}")


def exit_code_with_a_meaning(scene: Scene) -> Verdict | None:
    """What shells and argument parsers say by their exit code."""
    end = scene.culprit
    meaning = exit_meaning(end.code, end.log) if end is not None and not end.victim else None
    if end is None or meaning is None:
        return None
    line = next((found[0].strip() for found in USAGE.finditer(end.log)), end.line)
    return _by_policy(scene, end, "user_error", f"{end.how}: {meaning}" + (f": {line}" if line else ""), "confirmed")


def crashed(scene: Scene) -> Verdict | None:
    end = scene.culprit
    if end is None:
        return None
    if end.victim:
        return _verdict(
            end, "collective", "restart", f"{_lost(end)}, and nothing shows who failed first", certainty="possible"
        )
    detail = f": {end.line}" if end.line and (not end.signal or end.reading.line) else ""
    return _verdict(
        end, "crash" if end.signal else "unknown", "restart", f"{end.how}{detail}",
        certainty="likely" if end.signal else "possible",
    )  # fmt: skip


def nothing_known(scene: Scene) -> Verdict | None:
    what = scene.case.attempt.message or "the gang ended without an exit that would say why"
    return Verdict(
        category="unknown",
        action="restart",
        why=f"{what}; {does('restart')}",
        certainty="possible",
        fingerprint="unknown",
    )


Rule = Callable[[Scene], Verdict | None]
RULES: Final[Sequence[Rule]] = (
    succeeded,
    node_lost,
    start_refused,
    hardware,
    hung,
    vanished,
    out_of_memory,
    known_kind,
    exit_code_with_a_meaning,
    crashed,
    nothing_known,
)


# -- what stands above a restart ---------------------------------------------------------------------


def _with_progress(scene: Scene, verdict: Verdict) -> Verdict:
    """The same end at the same point is the program's, whatever it looks like; and no new step in many attempts stops
    the job whatever their ends are. A kill from outside is no end of the program's own: only the second holds."""
    end = scene.culprit
    if verdict.action not in RESTARTS or verdict.category in (*INFRASTRUCTURE, "launch_failed"):
        return verdict
    if end is None or verdict.fingerprint.startswith(("start:", "hardware:")):
        return verdict
    limit = int(scene.case.job.spec.get("recovery", {}).get("noProgressLimit", 2))
    what = verdict.why.partition(";")[0]
    same, idle = same_ends(scene.case, verdict.fingerprint), idle_attempts(scene.case)
    from_outside = end.signal == KILL and not end.oom and not verdict.fingerprint.startswith("hang:")
    if verdict.action == "previous_checkpoint" and _other_checkpoint(scene.case):
        return verdict
    if same >= limit and not from_outside:
        why = f"{what}, {same} attempts in a row without a new step in between"
    elif idle >= limit + PATIENCE:
        why = f"{what}, and no new step was made in {idle} attempts in a row"
    else:
        return verdict
    return replace(verdict, category="no_progress", action="fail", node_at_fault=False, culprit_nodes=(),
                   why=f"{why}; {does('fail')}")  # fmt: skip


def _other_checkpoint(case: FailureCase) -> bool:
    """Whether this attempt had already started from another checkpoint than the one before it."""
    return bool(case.history) and case.attempt.resume is not None and case.attempt.resume != case.history[0].resume


def _within_budget(case: FailureCase, verdict: Verdict) -> Verdict:
    """`maxRestarts` spent: the job fails, and the sentence says both."""
    limit = int(case.job.spec.get("recovery", {}).get("maxRestarts", 20))
    if verdict.action not in RESTARTS or case.job.restarts < limit:
        return verdict
    spent = "no restart is allowed (recovery.maxRestarts is 0)"
    if limit:
        spent = f"all {limit} restarts that recovery.maxRestarts allows are spent"
    return replace(verdict, action="fail", why=f"{verdict.why.partition(';')[0]}; {spent}")


# -- making verdicts ---------------------------------------------------------------------------------


def _by_policy(scene: Scene, end: End, category: str, what: str, certainty: str = "likely") -> Verdict:
    """The first time as the policy says; the second time in a row without a new step, as it says for that."""
    policy = POLICIES[category]
    verdict = _verdict(end, category, policy.action, what, certainty=policy.certainty or certainty)
    if policy.action == "replace":
        verdict = replace(verdict, culprit_nodes=(end.node,), node_at_fault=True)
    if policy.again and same_ends(scene.case, verdict.fingerprint) > 1:
        return _verdict(end, category, policy.again, f"{what}, again", policy.advice, certainty="confirmed")
    return verdict if not policy.advice or policy.again else replace(verdict, why=f"{verdict.why}; {policy.advice}")


def _verdict(
    end: End, category: str, action: str, what: str, advice: str = "", *, certainty: str = "likely"
) -> Verdict:
    joint = " " if what.startswith(("was ", "exited ", "ended ")) else ": "
    return Verdict(
        category=str(category),
        action=action,
        why="; ".join(part for part in (f"{end.who}{joint}{what}", does(action), advice) if part),
        culprit_rank=end.rank,
        node_at_fault=False if action in ("fail", "hold", "retry") or innocent(category) else None,
        certainty="confirmed" if certainty == "confirmed" else "likely" if certainty == "likely" else "possible",
        decided_by=(end.proof,),
        fingerprint=fingerprint(end, category),
    )


def _lost(end: End) -> str:
    if end.reading.hit is None:
        return end.how
    return f"ended as one that lost its peers: {end.line}"


def fingerprint(end: End, category: str) -> str:
    """Equal for the same kind of end, whatever the pid, address, port, time, path, epoch or step in its words. What a
    killed process printed last is chance and no part of it."""
    how = f"signal {end.signal}" if end.signal else "" if end.code is None else f"exit {end.code}"
    line = "" if end.signal and not end.reading.line else end.line.lower()
    line = re.sub(r"(?:/[^\s:,'\"]+)+", "/", line)
    line = re.sub(r"\b(?=\w*\d)[0-9a-f]{6,}\b|0x[0-9a-f]+|\d+(?:[.:_-]\d+)*(?:e[+-]?\d+)?", "#", line)
    return f"{category}|{how}|{line[:160]}"
