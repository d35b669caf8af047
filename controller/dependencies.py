"""Which jobs of `after` have done what is waited for. Pure: the caller looks the jobs up."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from controller.records import JobRecord, Unmet
from controller.scheduling.types import Wait
from muster.reasons import Waiting
from muster.states import JOB_TERMINAL, JobPhase

SAYS: Final = {"succeeded": "to succeed", "failed": "to fail", "finished": "to end", "started": "to start"}

SHOWN: Final = 4
"""Jobs that a sentence names at most."""

Newest = Callable[[str], JobRecord | None]
"""The live job of a name in the namespace, else the newest finished one."""


def look(job: JobRecord, newest: Newest) -> tuple[tuple[str, ...], tuple[Unmet, ...]]:
    """(jobs whose condition is true, or was once; the others)."""
    met, unmet = list[str](), list[Unmet]()
    for entry in job.spec.get("after") or ():
        name, condition = entry["job"], entry.get("condition", "succeeded")
        other = None if name in job.met else newest(name)
        if name in job.met or (other is not None and holds(condition, other)):
            met.append(name)
        else:
            unmet.append(Unmet(name, condition, str(other.phase) if other is not None else ""))
    return tuple(met), tuple(unmet)


def holds(condition: str, other: JobRecord) -> bool:
    match condition:
        case "succeeded":
            return other.phase is JobPhase.SUCCEEDED
        case "failed":
            return other.phase is JobPhase.FAILED
        case "started":
            return other.started_at is not None or other.phase is JobPhase.RUNNING
        case _:
            return other.phase in JOB_TERMINAL


def circle(job: JobRecord, newest: Newest) -> tuple[str, ...]:
    """Names from a job over what it comes after back to itself; empty where there is no way back."""
    came: dict[str, str] = {}
    todo = [(job.name, name) for name in reversed(_names(job.spec))]
    while todo:
        origin, name = todo.pop()
        if name == job.name:
            way = [origin]
            while way[-1] != job.name:
                way.append(came[way[-1]])
            return (*reversed(way), name)
        if name in came:
            continue
        came[name] = origin
        other = newest(name)
        if other is not None and other.phase not in JOB_TERMINAL:
            todo += [(name, further) for further in _names(other.spec) if further not in other.met]
    return ()


def sentence(one: Unmet) -> str:
    """`waits for prepare to succeed; it is Running`, and what to do where that will not come."""
    text = f"waits for {one.job} {SAYS[one.condition]}"
    if not one.phase:
        return f"{text}; there is no such job yet"
    return f"{text}; it has ended as {one.phase}" if one.phase in JOB_TERMINAL else f"{text}; it is {one.phase}"


def waits(job_uid: str, unmet: Sequence[Unmet], several: int) -> Wait:
    """What a job is told that waits for some of `several` jobs."""
    over = next((one for one in unmet if one.phase in JOB_TERMINAL), None)
    first = unmet[0]
    helps = f"submit {over.job} again, or change spec.after" if over else "" if first.phase else f"submit {first.job}"
    return Wait(
        job_uid=job_uid,
        code=Waiting.DEPENDENCY,
        message="; ".join(sentence(one) for one in unmet[:SHOWN]),
        helps=helps,
        numbers={"dependencies": several, "dependencies met": several - len(unmet)},
    )


def _names(spec: Mapping[str, Any]) -> list[str]:
    return [entry["job"] for entry in spec.get("after") or ()]
