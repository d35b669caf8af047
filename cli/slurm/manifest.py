"""From the options of sbatch to a manifest. Pure: time and environment come in."""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cli.errors import Exit, Failure
from cli.slurm.hostlist import expand
from muster.quantity import format_duration

LABEL: Final = "slurm.muster.dev"
LARGEST_SCRIPT: Final = 100_000
"""Bytes: it travels in the environment, and the kernel takes 128 KiB of one variable."""
NOT_EXPORTED: Final = re.compile(
    r"(MUSTER|SLURM|SBATCH|SSH|XDG|DBUS|GPG)_.*|_|PWD|OLDPWD|SHLVL|DISPLAY|TERM.*|LS_COLORS|WINDOWID|BASH_FUNC.*"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """`slots`: tasks of each worker; a worker is a node unless `packed`: then each task is one, and they share nodes."""

    slots: tuple[int, ...]
    packed: bool = False
    least: int | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """`after`: (condition, numbers of jobs) and `singleton`, for the caller to look up."""

    document: dict[str, Any]
    after: tuple[tuple[str, str], ...] = ()
    singleton: bool = False
    notes: tuple[str, ...] = field(default=())


CONDITIONS: Final = {
    "afterok": "succeeded",
    "afternotok": "failed",
    "afterany": "finished",
    "after": "started",
    "aftercorr": "succeeded",
}


def make(
    script: str,
    given: Mapping[str, str],
    *,
    arguments: Sequence[str],
    program: str,
    run: Sequence[str],
    step_options: str,
    environ: Mapping[str, str],
    user: str,
    host: str,
    folder: str,
    default_name: str,
) -> Made:
    """`folder` is the submit directory. Raises Failure that names the option."""
    if len(script.encode()) > LARGEST_SCRIPT:
        raise Failure(f"the script is larger than {LARGEST_SCRIPT // 1000} kB", code=Exit.USAGE)
    shape = shape_of(given)
    title = given.get("job-name") or default_name
    limit = minutes(given["time"]) if "time" in given else None
    workdir = given.get("chdir") or folder
    devices, kind = devices_of(given, shape)
    cpus = _count(given, "cpus-per-task") or 1
    after, singleton = dependencies(given.get("dependency", ""))
    variables = exported(given.get("export", "ALL"), environ)
    plan: dict[str, Any] = {
        "script": script,
        "arguments": list(arguments),
        "name": title,
        "output": given.get("output"),
        "error": given.get("error"),
        "input": given.get("input"),
        "append": given.get("open-mode") == "append",
        "slots": list(shape.slots),
        "cpus": cpus,
        "gpusPerTask": _gpus_per_task(given),
        "variables": _variables(given, folder, host, devices),
        "signal": warning(given.get("signal")),
        "limit": limit or 0,
    }
    spec: dict[str, Any] = {
        "command": list(run),
        "workdir": workdir,
        "workers": len(shape.slots),
        "ranksPerWorker": 1,
        "cpu": str(max(shape.slots) * cpus),
        "memory": memory_of(given, max(shape.slots) * cpus, devices),
        "env": variables
        | {"MUSTER_SLURM_PROGRAM": program, "MUSTER_SLURM_OPTIONS": step_options, "MUSTER_SLURM": _json(plan)},
    }
    if shape.packed:
        spec["maxPerNode"] = len(shape.slots)
    if shape.least is not None:
        spec["minWorkers"] = shape.least
    if devices:
        spec["accelerators"] = [{"type": kind, "count": devices}]
    if limit:
        spec["timeLimit"] = format_duration(limit)
    if given.get("partition"):
        spec["queue"] = given["partition"].split(",")[0]
    if given.get("qos") not in (None, "", "normal"):
        spec["priorityClass"] = given["qos"]
    if "hold" in given:
        spec["suspend"] = True
    if "array" in given:
        spec["array"] = array(given["array"])
    if "no-requeue" in given:
        spec["recovery"] = {"maxRestarts": 0}
    if given.get("switches", "").partition("@")[0] == "1":
        spec["topology"] = {"required": "leaf"}
    nodes = {
        word: _hosts(given[option], option)
        for option, word in (("nodelist", "include"), ("exclude", "exclude"))
        if option in given
    }
    if nodes:
        spec["nodes"] = nodes
    if "constraint" in given:
        spec["nodeSelector"] = constraint(given["constraint"])
    labels = {f"{LABEL}/name": label(title), f"{LABEL}/user": label(user)}
    if given.get("account"):
        labels[f"{LABEL}/account"] = label(given["account"])
    annotations = {f"{LABEL}/name": title} | ({f"{LABEL}/comment": given["comment"]} if given.get("comment") else {})
    document = {
        "apiVersion": "muster.dev/v1",
        "kind": "Job",
        "metadata": {"name": name_of(title), "labels": labels, "annotations": annotations},
        "spec": spec,
    }
    return Made(document, after, singleton)


def _json(value: object) -> str:
    import json

    return json.dumps(value, separators=(",", ":"))


def name_of(title: str) -> str:
    """A job's name as Muster takes it: lower-case letters, digits and '-'."""
    text = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:50].strip("-")
    return text if text and text[0].isalpha() else f"job-{text}".strip("-")


def label(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)[:63].strip("._-") or "x"


# -- sizes -----------------------------------------------------------------------------------------------


def shape_of(given: Mapping[str, str]) -> Shape:
    """Nodes and tasks. Without --nodes, tasks lie where there is room for them."""
    tasks, each = _count(given, "ntasks"), _count(given, "ntasks-per-node")
    low, high = nodes_of(given.get("nodes", ""))
    if not low:
        if each and tasks:
            low = high = -(-tasks // each)
        elif each or not tasks or tasks == 1 or "gres" in given or "gpus-per-node" in given:
            low = high = 1
        else:
            return Shape((1,) * tasks, packed=True)
    if each is None and tasks is None:
        each = 1
    if tasks is None:
        tasks = (each or 1) * high
    elif tasks < low:
        low = high = tasks
    slots = tuple(tasks // high + (at < tasks % high) for at in range(high))
    if each and max(slots) > each:
        raise Failure(f"--ntasks {tasks} does not fit {high} nodes with --ntasks-per-node {each}", code=Exit.USAGE)
    return Shape(slots, least=low if low < high else None)


def nodes_of(text: str) -> tuple[int, int]:
    if not text:
        return 0, 0
    match = re.fullmatch(r"(\d+)(k?)(?:-(\d+)(k?))?", text)
    if not match or not int(match[1]):
        raise Failure(f"--nodes: expected N or MIN-MAX, found {text!r}", code=Exit.USAGE)
    low = int(match[1]) * (1024 if match[2] else 1)
    high = int(match[3]) * (1024 if match[4] else 1) if match[3] else low
    if high < low:
        raise Failure(f"--nodes: {text!r} has its ends in the wrong order", code=Exit.USAGE)
    return low, high


def _count(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if not text.isdigit() or not int(text):
        raise Failure(f"--{name}: expected a number above 0, found {text!r}", code=Exit.USAGE)
    return int(text)


def gpus(text: str, option: str) -> tuple[str, int]:
    """(type or "", count) of `4`, `h100`, `h100:4`, and in --gres `gpu:h100:4`."""
    parts = text.split("(")[0].split(":")
    if option == "gres":
        if parts[0] not in ("gpu", "npu"):
            raise Failure(f"--gres: expected gpu[:TYPE][:COUNT], found {text!r}", code=Exit.USAGE)
        parts = parts[1:]
    count = 1
    if parts and parts[-1].isdigit():
        count = int(parts.pop())
    if len(parts) > 1:
        raise Failure(f"--{option}: expected [TYPE:]COUNT, found {text!r}", code=Exit.USAGE)
    return (parts[0] if parts else ""), count


def devices_of(given: Mapping[str, str], shape: Shape) -> tuple[int, str]:
    """(devices of each worker, their kind; `any` where none was named)."""
    slots = max(shape.slots)
    workers = len(shape.slots)
    found = [
        (gpus(given[option], option), times)
        for option, times in (("gres", 1.0), ("gpus-per-node", 1.0), ("gpus-per-task", float(slots)), ("gpus", 1 / workers))
        if given.get(option)
    ]  # fmt: skip
    if not found:
        return 0, ""
    (kind, count), times = found[-1]
    devices = count * times
    if devices != int(devices):
        raise Failure(f"--gpus {count} cannot be shared evenly by {workers} nodes", code=Exit.USAGE)
    kind = kind or next((named for (named, _), _ in found if named), "") or _constraint_kind(given)
    return int(devices), kind or "any"


def _constraint_kind(given: Mapping[str, str]) -> str:
    from muster.accelerators import catalogue

    word = given.get("constraint", "").lower()
    return word if word and catalogue().get(word) is not None else ""


def _gpus_per_task(given: Mapping[str, str]) -> int:
    return gpus(given["gpus-per-task"], "gpus-per-task")[1] if given.get("gpus-per-task") else 0


def memory_of(given: Mapping[str, str], cpus: int, devices: int) -> str:
    """Of each worker. Slurm's numbers without a letter are MiB; 0 stands for all of the node: what is left is not reserved."""
    for option, times in (("mem", 1), ("mem-per-cpu", cpus), ("mem-per-gpu", max(devices, 1))):
        if given.get(option):
            mib = mebibytes(given[option], option) * times
            return f"{mib}Mi" if mib else "256Mi"
    return f"{1024 * max(1, cpus)}Mi"


def mebibytes(text: str, option: str) -> int:
    match = re.fullmatch(r"(\d+)([KMGT]?)B?", text.upper())
    if not match:
        raise Failure(f"--{option}: expected a number with K, M, G or T, found {text!r}", code=Exit.USAGE)
    factor = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}[match[2]]
    return int(-(-int(match[1]) * factor // 1))


# -- time, signals, order ---------------------------------------------------------------------------------


def minutes(text: str) -> int:
    """Seconds of `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`; 0 for no limit."""
    if text.lower() in ("infinite", "unlimited", "0"):
        return 0
    days, dash, rest = text.partition("-") if "-" in text else ("0", "", text)
    parts = rest.split(":")
    if not days.isdigit() or not all(part.isdigit() for part in parts) or len(parts) > 3:
        raise Failure(f"--time: expected e.g. 30, 1:30:00 or 2-12:00, found {text!r}", code=Exit.USAGE)
    numbers = [int(part) for part in parts]
    if dash:
        hours, mins, secs = (*numbers, 0, 0)[:3]
    else:
        hours, mins, secs = {1: (0, numbers[0], 0), 2: (0, *numbers), 3: tuple(numbers)}[len(numbers)]
    return ((int(days) * 24 + hours) * 60 + mins) * 60 + secs


def warning(text: str | None) -> dict[str, Any] | None:
    """--signal=[B:]NAME[@SECONDS]."""
    if not text:
        return None
    flags, colon, rest = text.rpartition(":")
    name, _, before = rest.partition("@")
    number = _signal(name)
    if number is None or (colon and not set(flags) <= set("BR")) or (before and not before.isdigit()):
        raise Failure(f"--signal: expected [B:]SIGNAL[@SECONDS], found {text!r}", code=Exit.USAGE)
    return {"number": number, "before": int(before or 60), "batch": "B" in flags}


def _signal(name: str) -> int | None:
    if name.isdigit():
        return int(name) if 0 < int(name) < 65 else None
    found = getattr(signal, f"SIG{name.upper().removeprefix('SIG')}", None)
    return int(found) if isinstance(found, signal.Signals) else None


def dependencies(text: str) -> tuple[tuple[tuple[str, str], ...], bool]:
    """((condition, number of a job), ...) and whether it waits for its namesakes."""
    if "?" in text:
        raise Failure(f"--dependency: {text!r}: `?` (one of several) is not known here", code=Exit.USAGE)
    found: list[tuple[str, str]] = []
    singleton = False
    for part in filter(None, text.split(",")):
        kind, *numbers = part.split(":")
        if kind == "singleton" and not numbers:
            singleton = True
            continue
        numbers = [number.partition("+")[0].partition("_")[0] for number in numbers]
        if kind not in CONDITIONS or not numbers or not all(number.isdigit() for number in numbers):
            allowed = ", ".join([*CONDITIONS, "singleton"])
            raise Failure(
                f"--dependency: {part!r}: expected KIND:JOB[:JOB...]", code=Exit.USAGE, hint=f"kinds: {allowed}"
            )
        found += [(CONDITIONS[kind], number) for number in numbers]
    return tuple(found), singleton


def array(text: str) -> dict[str, Any]:
    if not re.fullmatch(r"[\d,:-]+(%\d+)?", text):
        raise Failure(f"--array: expected e.g. 0-99%10 or 1,3,5-9, found {text!r}", code=Exit.USAGE)
    return {"indices": text}


# -- places and environment ---------------------------------------------------------------------------------


def _hosts(text: str, option: str) -> list[str]:
    try:
        return expand(text)
    except ValueError as error:
        raise Failure(f"--{option}: {error}", code=Exit.USAGE) from None


def constraint(text: str) -> dict[str, str]:
    """Features are labels of nodes: `fast&ib` asks for slurm.muster.dev/feature-fast and -ib; `key=value` for that label.
    The name of a kind of device asks for the devices instead."""
    from muster.accelerators import catalogue

    if set(text) & set("|[]()*"):
        raise Failure(f"--constraint: {text!r}: only names joined by & are known here", code=Exit.USAGE)
    found = {}
    for word in filter(None, re.split("[&,]", text)):
        key, equals, value = word.partition("=")
        if equals:
            found[key] = value
        elif catalogue().get(word.lower()) is None:
            found[f"{LABEL}/feature-{word}"] = "true"
    return found


def exported(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """--export: of the submitter's environment all (the default), none, or what is named."""
    words = [word for word in text.split(",") if word]
    plain = {name: value for name, value in environ.items() if not NOT_EXPORTED.fullmatch(name) and "\n" not in name}
    found: dict[str, str] = {}
    if words[:1] in (["NONE"], ["NIL"]):
        found = {name: value for name, value in plain.items() if name in ("HOME", "USER", "LOGNAME", "SHELL", "PATH")}
    elif "ALL" in words:
        found = plain
    else:
        found = {name: value for name, value in plain.items() if name in ("PATH", "HOME", "USER")}
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
        elif name in environ and name not in ("ALL", "NONE", "NIL"):
            found[name] = environ[name]
    return found


def _variables(given: Mapping[str, str], folder: str, host: str, devices: int) -> dict[str, str]:
    """SLURM_ variables that the options alone decide."""
    wanted = {
        "SLURM_SUBMIT_DIR": folder,
        "SLURM_SUBMIT_HOST": host,
        "SLURM_JOB_PARTITION": given.get("partition", "default"),
        "SLURM_JOB_ACCOUNT": given.get("account", ""),
        "SLURM_JOB_QOS": given.get("qos", ""),
        "SLURM_CLUSTER_NAME": "muster",
        "SLURM_NTASKS_PER_NODE": given.get("ntasks-per-node", ""),
        "SLURM_GPUS_PER_NODE": given.get("gpus-per-node") or (str(devices) if devices else ""),
        "SLURM_GPUS_PER_TASK": given.get("gpus-per-task", ""),
        "SLURM_GPUS": given.get("gpus", ""),
        "SLURM_MEM_PER_NODE": str(mebibytes(given["mem"], "mem")) if given.get("mem") else "",
        "SLURM_EXPORT_ENV": given.get("export", ""),
    }
    return {name: value for name, value in wanted.items() if value}
