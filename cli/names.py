"""Names of resources as people type them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cli.errors import Exit, Failure, suggestion


@dataclass(frozen=True, slots=True)
class Resource:
    """`word` is the singular; `of_job` things belong to one job; `namespaced` ones to a namespace."""

    word: str
    kind: str
    plural: str
    short: str
    namespaced: bool = True
    of_job: bool = False


JOB: Final = Resource("job", "Job", "jobs", "jo")
NODE: Final = Resource("node", "Node", "nodes", "no", namespaced=False)
QUEUE: Final = Resource("queue", "Queue", "queues", "q", namespaced=False)
PRIORITY_CLASS: Final = Resource("priorityclass", "PriorityClass", "priorityclasses", "pc", namespaced=False)
RESERVATION: Final = Resource("reservation", "Reservation", "reservations", "rsv", namespaced=False)
MAINTENANCE: Final = Resource("maintenancewindow", "MaintenanceWindow", "maintenancewindows", "mw", namespaced=False)
CLAIM: Final = Resource("claim", "Claim", "claims", "cl")
EVENT: Final = Resource("event", "Event", "events", "ev")
ATTEMPT: Final = Resource("attempt", "Attempt", "attempts", "at", of_job=True)
CHECKPOINT: Final = Resource("checkpoint", "Checkpoint", "checkpoints", "cp", of_job=True)
ALL: Final = (JOB, NODE, QUEUE, PRIORITY_CLASS, RESERVATION, MAINTENANCE, CLAIM, EVENT, ATTEMPT, CHECKPOINT)
DECLARED: Final = (JOB, QUEUE, PRIORITY_CLASS, RESERVATION, MAINTENANCE)
"""What manifests describe."""


def resource(word: str, among: Sequence[Resource] = ALL) -> Resource:
    """The resource that `word` names in singular, plural or short. Raises Failure with the nearest one."""
    for one in among:
        if word.lower() in (one.word, one.plural, one.short):
            return one
    known = [name for one in among for name in (one.word, one.plural)]
    hint = suggestion(word, known) or "known: " + ", ".join(f"{one.plural} ({one.short})" for one in among)
    other = any(word.lower() in (one.word, one.plural, one.short) for one in ALL)
    what = "cannot be used here" if other else "is not a resource"
    raise Failure(f'"{word}" {what}', code=Exit.USAGE, hint=hint)


def targets(words: Sequence[str], among: Sequence[Resource]) -> list[tuple[Resource, str]]:
    """`job a b` and `job/a job/b` alike. Raises Failure when a name is missing."""
    if words and "/" not in words[0]:
        kind, names = resource(words[0], among), words[1:]
        found = [(kind, name) for name in names if "/" not in name]
        if len(found) < len(names):
            raise Failure(f"write either `{kind.word} NAME` or `{kind.word}/NAME`", code=Exit.USAGE)
    else:
        pairs = [word.partition("/") for word in words]
        found = [(resource(kind, among), name) for kind, _, name in pairs]
    example = among[0].word
    if not found or not all(name for _, name in found):
        raise Failure("a name is missing", code=Exit.USAGE, hint=f"write it as `{example} NAME` or `{example}/NAME`")
    return found


def job_name(word: str) -> str:
    """`NAME`, `job/NAME`."""
    kind, slash, name = word.rpartition("/")
    if slash:
        resource(kind, (JOB,))
    if not name:
        raise Failure("the name of a job is missing", code=Exit.USAGE)
    return name
