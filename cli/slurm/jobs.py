"""Jobs of the cluster as Slurm's commands speak of them: by number, with Slurm's states."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from cli.api import Api, Object
from cli.errors import Exit, Failure
from cli.slurm.hostlist import compress
from cli.slurm.manifest import LABEL

STATES: Final = {
    "Queued": ("PENDING", "PD"),
    "Starting": ("CONFIGURING", "CF"),
    "Running": ("RUNNING", "R"),
    "Recovering": ("REQUEUED", "RQ"),
    "Suspended": ("PENDING", "PD"),
    "Succeeded": ("COMPLETED", "CD"),
    "Failed": ("FAILED", "F"),
    "Cancelled": ("CANCELLED", "CA"),
}
"""Of sacct and squeue, long and short."""
LIVE: Final = ("Queued", "Starting", "Running", "Recovering", "Suspended")
REASONS: Final = {
    "CAPACITY": "Resources",
    "DEVICE_FRAGMENTED": "Resources",
    "TOPOLOGY_FRAGMENTED": "Resources",
    "FAIR_SHARE": "Priority",
    "BACKFILL_WOULD_DELAY": "Priority",
    "RESERVED_FOR_OTHER": "Priority",
    "NO_VICTIM_SET": "Resources",
    "QUOTA": "QOSGrpGRES",
    "DEPENDENCY": "Dependency",
    "SUSPENDED": "JobHeldUser",
    "ByUser": "JobHeldUser",
    "STRUCTURAL": "BadConstraints",
    "NODE_REPAIR": "ReqNodeNotAvail",
    "INVALID_TOPOLOGY": "BadConstraints",
}


def number(job: Object) -> int:
    return int(job["metadata"].get("number", 0))


def label_of(job: Object, name: str) -> str:
    return str(job["metadata"].get("labels", {}).get(f"{LABEL}/{name}", ""))


def title(job: Object) -> str:
    """The name that it was submitted with."""
    return str(job["metadata"].get("annotations", {}).get(f"{LABEL}/name") or job["metadata"]["name"])


def user(job: Object) -> str:
    return label_of(job, "user") or "-"


def shown_number(job: Object, parents: Mapping[str, Object]) -> str:
    """`812`; `812_3` for an element of an array, `812_[0-9]` for the array itself."""
    parent = job["metadata"].get("labels", {}).get("muster.dev/array")
    if parent in parents:
        return f"{number(parents[parent])}_{job['metadata']['labels'].get('muster.dev/array-index')}"
    array = job["spec"].get("array")
    return f"{number(job)}_[{array.get('indices') or '*'}]" if array else str(number(job))


def order(job: Object, parents: Mapping[str, Object]) -> tuple[int, int]:
    """Elements of an array stand with it."""
    base, _, index = shown_number(job, parents).partition("_")
    return int(base), int(index) if index.isdigit() else -1


def is_array(job: Object) -> bool:
    return bool(job["spec"].get("array"))


def arrays(jobs: Iterable[Object]) -> dict[str, Object]:
    """Arrays by name, the newest of each."""
    found: dict[str, Object] = {}
    for job in sorted(jobs, key=number):
        if is_array(job):
            found[job["metadata"]["name"]] = job
    return found


def nodes(job: Object) -> str:
    names = dict.fromkeys(worker["node"] for worker in job["status"].get("workers", ()))
    return compress(sorted(names)) if names else ""


def state(job: Object) -> tuple[str, str]:
    phase = str(job["status"]["phase"])
    if phase == "Failed" and job["status"].get("reason") == "TIME_LIMIT":
        return "TIMEOUT", "TO"
    return STATES.get(phase, (phase.upper(), phase[:2].upper()))


def reason(job: Object) -> str:
    """NODELIST(REASON) of squeue."""
    placed = nodes(job)
    if placed:
        return placed
    word = str(job["status"].get("reason") or "")
    if job["status"]["phase"] == "Queued":
        return f"({REASONS.get(word, word or 'None')})"
    return f"({REASONS.get(word, 'None')})" if job["status"]["phase"] == "Suspended" else ""


def by_number(api: Api, text: str) -> list[Object]:
    """The jobs that `812`, `812_3`, `812_[0-3]` name. Raises Failure when there is none."""
    base, _, index = text.partition("_")
    if not base.isdigit():
        raise Failure(f"{text!r} is no job id", code=Exit.USAGE)
    found = api.items("/jobs", fieldSelector=f"metadata.number={base}")
    if not found:
        raise Failure(f"there is no job {base}", code=Exit.NOT_FOUND)
    if not index:
        return found
    (array,) = found
    wanted = set(_indexes(index, text))
    elements = elements_of(api, array)
    chosen = [one for one in elements if int(one["metadata"]["labels"]["muster.dev/array-index"]) in wanted]
    if not chosen:
        raise Failure(f"there is no job {text}", code=Exit.NOT_FOUND)
    return chosen


def elements_of(api: Api, array: Object) -> list[Object]:
    where = array["metadata"]["namespace"]
    return api.items(f"/namespaces/{where}/jobs", labelSelector=f"muster.dev/array={array['metadata']['name']}")


def _indexes(text: str, whole: str) -> Iterator[int]:
    for part in text.strip("[]").partition("%")[0].split(","):
        low, dash, high = part.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            raise Failure(f"{whole!r} is no job id", code=Exit.USAGE)
        yield from range(int(low), int(high or low) + 1)


def act(api: Api, job: Object, verb: str) -> Any:
    return api.act("Job", job["metadata"]["name"], verb, job["metadata"]["namespace"])


def clock(seconds: float | None) -> str:
    """`1-02:03:04`, `2:03:04`, `3:04`."""
    if seconds is None:
        return "0:00"
    whole = max(0, int(seconds))
    days, hours, mins, secs = whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    if days:
        return f"{days}-{hours:02}:{mins:02}:{secs:02}"
    return f"{hours}:{mins:02}:{secs:02}" if hours else f"{mins}:{secs:02}"


def elapsed(job: Object, at: float) -> float | None:
    from cli.output import moment

    began, ended = moment(job["status"].get("startedAt")), moment(job["status"].get("finishedAt"))
    return None if began is None else (ended or at) - began


def limit(job: Object) -> float | None:
    from muster.quantity import parse_duration

    text = job["spec"].get("timeLimit")
    return parse_duration(text) if text else None


def cpus(job: Object) -> int:
    from muster.quantity import parse_cpu

    return int(parse_cpu(str(job["spec"].get("cpu", "1"))) // 1000 or 1) * int(job["spec"].get("workers", 1))


def gpus(job: Object) -> int:
    accelerators = job["spec"].get("accelerators") or []
    return int(accelerators[0]["count"]) * int(job["spec"].get("workers", 1)) if accelerators else 0
