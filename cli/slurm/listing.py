"""`squeue`, `sacct`, `sinfo`."""

import getpass
from collections.abc import Callable, Sequence
from typing import Any

from cli.api import Api, connect
from cli.errors import Exit, Failure
from cli.output import moment, now, say
from cli.slurm import jobs, tables
from cli.slurm.getopt import Option, parse, table
from cli.slurm.hostlist import compress
from cli.slurm.manifest import LABEL, label

Object = dict[str, Any]

QUEUE_OPTIONS = table(
    Option("jobs", "j"), Option("user", "u"), Option("me", takes="nothing"), Option("name", "n"), Option("partition", "p"),
    Option("account", "A"), Option("states", "t"), Option("format", "o"), Option("noheader", "h", takes="nothing"),
    Option("long", "l", takes="nothing"), Option("start", takes="nothing"), Option("array", "r", takes="nothing"),
    Option("sort", "S"), Option("nodelist", "w"), Option("all", "a", takes="nothing"), Option("Format", "O"), Option("qos", "q"),
)  # fmt: skip


def squeue(words: Sequence[str]) -> int:
    given, rest = parse(words, QUEUE_OPTIONS, command="squeue")
    if rest:
        raise Failure(f"{rest[0]!r} is no option", code=Exit.USAGE)
    api, at = connect(), now()
    every = found = _jobs(api, given)
    parents = jobs.arrays(every)
    states = {word.upper() for word in given.get("states", "").split(",") if word}
    if states and "ALL" not in states:
        found = [one for one in found if set(jobs.state(one)) & states]
    elif not states:
        found = [one for one in found if one["status"]["phase"] in jobs.LIVE]
    found = [one for one in found if not jobs.is_array(one) or _to_come(one)]
    found.sort(key=lambda one: (one["status"]["phase"] == "Running", jobs.order(one, parents)))
    cells: dict[str, tables.Cell] = {
        "i": ("JOBID", lambda one: jobs.shown_number(one, parents)),
        "A": ("JOBID", jobs.number),
        "F": ("ARRAY_JOB_ID", lambda one: jobs.shown_number(one, parents).partition("_")[0]),
        "K": ("ARRAY_TASK_ID", lambda one: jobs.shown_number(one, parents).partition("_")[2] or "N/A"),
        "P": ("PARTITION", lambda one: one["spec"].get("queue")),
        "j": ("NAME", jobs.title),
        "u": ("USER", jobs.user),
        "a": ("ACCOUNT", lambda one: jobs.label_of(one, "account") or "(null)"),
        "q": ("QOS", lambda one: one["spec"].get("priorityClass") or "normal"),
        "Q": ("PRIORITY", lambda one: one["spec"].get("priorityClass") or "normal"),
        "t": ("ST", lambda one: jobs.state(one)[1]),
        "T": ("STATE", lambda one: jobs.state(one)[0]),
        "M": ("TIME", lambda one: jobs.clock(jobs.elapsed(one, at))),
        "l": ("TIME_LIMIT", lambda one: "UNLIMITED" if jobs.limit(one) is None else jobs.clock(jobs.limit(one))),
        "L": ("TIME_LEFT", lambda one: _left(one, at)),
        "D": ("NODES", lambda one: len({w["node"] for w in one["status"].get("workers", ())}) or one["spec"].get("workers", 1)),
        "C": ("CPUS", jobs.cpus),
        "b": ("TRES_PER_NODE", _tres),
        "m": ("MIN_MEMORY", lambda one: one["spec"].get("memory")),
        "R": ("NODELIST(REASON)", jobs.reason),
        "N": ("NODELIST", jobs.nodes),
        "r": ("REASON", lambda one: jobs.reason(one).strip("()") if not jobs.nodes(one) else "None"),
        "S": ("START_TIME", lambda one: one["status"].get("startedAt") or (one["status"].get("eta") or {}).get("at") or "N/A"),
        "V": ("SUBMIT_TIME", lambda one: one["metadata"].get("createdAt")),
        "e": ("END_TIME", lambda one: one["status"].get("finishedAt") or "N/A"),
        "Z": ("WORK_DIR", lambda one: one["spec"].get("workdir")),
        "k": ("COMMENT", lambda one: one["metadata"].get("annotations", {}).get(f"{LABEL}/comment", "(null)")),
    }  # fmt: skip
    usual = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
    if "long" in given:
        usual = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
    if "start" in given:
        usual = "%.18i %.9P %.8j %.8u %.2t %.20S %.6D %R"
    shown = tables.percent(
        given.get("format") or usual, cells, found, headers="noheader" not in given, command="squeue"
    )
    if shown:
        say(shown)
    return Exit.OK


def _to_come(array: Object) -> bool:
    """Whether elements of it are still to be made: these are the array's own line."""
    order = array["status"].get("array") or {}
    return bool(order.get("pending", order.get("toCome", 0))) or array["status"]["phase"] in ("Queued", "Suspended")


def _left(job: Object, at: float) -> str:
    most, gone = jobs.limit(job), jobs.elapsed(job, at)
    return "UNLIMITED" if most is None else jobs.clock(most - (gone or 0))


def _tres(job: Object) -> str:
    accelerators = job["spec"].get("accelerators") or []
    return f"gres:gpu:{accelerators[0]['type']}:{accelerators[0]['count']}" if accelerators else "N/A"


def _jobs(api: Api, given: dict[str, str]) -> list[Object]:
    if "jobs" in given:
        found = []
        for word in given["jobs"].split(","):
            for job in jobs.by_number(api, word):
                found += [job, *(jobs.elements_of(api, job) if jobs.is_array(job) else [])]
        return found
    users = given.get("user") or (getpass.getuser() if "me" in given else "")
    labels = f"{LABEL}/user={label(users)}" if users and "," not in users else None
    found = api.items("/jobs", labelSelector=labels)
    wanted: dict[str, Callable[[Object], bool]] = {
        "user": lambda one: jobs.user(one) in {label(name) for name in users.split(",")},
        "name": lambda one: jobs.title(one) in given["name"].split(","),
        "partition": lambda one: one["spec"].get("queue") in given["partition"].split(","),
        "account": lambda one: jobs.label_of(one, "account") in given["account"].split(","),
        "nodelist": lambda one: any(
            w["node"] in given["nodelist"].split(",") for w in one["status"].get("workers", ())
        ),
    }
    for option, holds in wanted.items():
        if given.get(option):
            found = [one for one in found if holds(one)]
    return found


ACCOUNT_OPTIONS = table(
    Option("jobs", "j"), Option("user", "u"), Option("name"), Option("format", "o"), Option("starttime", "S"), Option("endtime", "E"),
    Option("state", "s"), Option("noheader", "n", takes="nothing"), Option("parsable", "p", takes="nothing"),
    Option("parsable2", "P", takes="nothing"), Option("allocations", "X", takes="nothing"), Option("allusers", "a", takes="nothing"),
    Option("long", "l", takes="nothing"), Option("brief", "b", takes="nothing"), Option("account", "A"), Option("partition", "r"),
    Option("delimiter"), Option("units"), Option("duplicates", "D", takes="nothing"),
)  # fmt: skip


def sacct(words: Sequence[str]) -> int:
    given, rest = parse(words, ACCOUNT_OPTIONS, command="sacct")
    if rest:
        raise Failure(f"{rest[0]!r} is no option", code=Exit.USAGE)
    api, at = connect(), now()
    names = ("jobs",) if "jobs" in given else ("user", "name", "partition", "account")
    asked: dict[str, str] = {name: value for name, value in given.items() if name in names}
    if not asked and "allusers" not in given:
        asked = {"me": ""}
    found = _jobs(api, asked)
    parents = jobs.arrays(found)
    found = [one for one in found if not jobs.is_array(one)]
    begin, end = _when(given.get("starttime"), "starttime"), _when(given.get("endtime"), "endtime")
    if begin is not None:
        found = [one for one in found if (moment(one["status"].get("finishedAt")) or at) >= begin]
    if end is not None:
        found = [one for one in found if (moment(one["metadata"].get("createdAt")) or 0) <= end]
    states = {word.upper() for word in given.get("state", "").split(",") if word}
    if states:
        found = [one for one in found if set(jobs.state(one)) & states]
    known: dict[str, tuple[str, int, Any]] = {
        "jobid": ("JobID", 12, lambda one: jobs.shown_number(one, parents)),
        "jobidraw": ("JobIDRaw", 12, jobs.number),
        "jobname": ("JobName", 10, jobs.title),
        "partition": ("Partition", 10, lambda one: one["spec"].get("queue")),
        "account": ("Account", 10, lambda one: jobs.label_of(one, "account")),
        "user": ("User", 9, jobs.user),
        "qos": ("QOS", 10, lambda one: one["spec"].get("priorityClass") or "normal"),
        "alloccpus": ("AllocCPUS", 10, jobs.cpus),
        "ncpus": ("NCPUS", 10, jobs.cpus),
        "nnodes": ("NNodes", 8, lambda one: one["spec"].get("workers", 1)),
        "alloctres": ("AllocTRES", 10, lambda one: f"cpu={jobs.cpus(one)}" + (f",gres/gpu={jobs.gpus(one)}" if jobs.gpus(one) else "")),
        "reqmem": ("ReqMem", 10, lambda one: one["spec"].get("memory")),
        "state": ("State", 10, lambda one: jobs.state(one)[0]),
        "exitcode": ("ExitCode", 8, lambda one: _exit(api, one)),
        "elapsed": ("Elapsed", 10, lambda one: _two(jobs.clock(jobs.elapsed(one, at)))),
        "elapsedraw": ("ElapsedRaw", 10, lambda one: int(jobs.elapsed(one, at) or 0)),
        "timelimit": ("Timelimit", 10, lambda one: "UNLIMITED" if jobs.limit(one) is None else _two(jobs.clock(jobs.limit(one)))),
        "submit": ("Submit", 19, lambda one: _time(one["metadata"].get("createdAt"))),
        "start": ("Start", 19, lambda one: _time(one["status"].get("startedAt"))),
        "end": ("End", 19, lambda one: _time(one["status"].get("finishedAt"))),
        "nodelist": ("NodeList", 15, lambda one: jobs.nodes(one) or "None assigned"),
        "workdir": ("WorkDir", 20, lambda one: one["spec"].get("workdir")),
        "restarts": ("Restarts", 8, lambda one: one["status"].get("restarts", 0)),
        "reason": ("Reason", 22, lambda one: one["status"].get("message") or "None"),
        "comment": ("Comment", 14, lambda one: one["metadata"].get("annotations", {}).get(f"{LABEL}/comment", "")),
        "cluster": ("Cluster", 10, lambda _: "muster"),
    }  # fmt: skip
    usual = "jobid,jobname,partition,account,alloccpus,state,exitcode"
    columns = tables.named(
        given.get("format") or ("jobid,state,exitcode" if "brief" in given else usual), known, command="sacct"
    )
    rows, headers = sorted(found, key=lambda one: jobs.order(one, parents)), "noheader" not in given
    if "parsable2" in given or "parsable" in given:
        shown = tables.piped(columns, rows, headers=headers, last="parsable2" not in given)
        shown = shown.replace("|", given["delimiter"]) if given.get("delimiter") else shown
    else:
        shown = tables.aligned(columns, rows, headers=headers)
    if shown:
        say(shown)
    return Exit.OK


def _exit(api: Api, job: Object) -> str:
    """CODE:SIGNAL of the first worker's last end."""
    if job["status"]["phase"] == "Succeeded" or job["status"]["phase"] in jobs.LIVE:
        return "0:0"
    where = f"/namespaces/{job['metadata']['namespace']}/jobs/{job['metadata']['name']}/attempts"
    for attempt in reversed(api.items(where)):
        for worker in attempt.get("workers", ()):
            for one in worker.get("exits") or ():
                if one.get("code") or one.get("signal"):
                    return f"{one.get('code') or 0}:{one.get('signal') or 0}"
    return "0:0"


def _two(text: str) -> str:
    """sacct writes hours always: 00:03:04."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    return days + dash + ":".join(part.zfill(2) for part in (["0"] * (3 - len(parts)) + parts))


def _time(text: str | None) -> str:
    return "Unknown" if not text else text[:19]


def _when(text: str | None, option: str) -> float | None:
    """`now`, `now-2days`, `today`, `2026-03-01`, `2026-03-01T10:00[:00]`, in local time."""
    import re
    from datetime import datetime, timedelta

    if not text:
        return None
    here = datetime.now().astimezone()
    if match := re.fullmatch(r"now(?:-(\d+)(seconds?|minutes?|hours?|days?|weeks?)?)?", text):
        unit = (match[2] or "seconds").rstrip("s") + "s"
        return (here - timedelta(**{unit: int(match[1] or 0)})).timestamp()
    if text in ("today", "midnight"):
        return here.replace(hour=0, minute=0, second=0).timestamp()
    for form in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d", "%m/%d/%y", "%m/%d"):
        try:
            found = datetime.strptime(text, form)  # noqa: DTZ007
        except ValueError:
            continue
        return (found.replace(year=here.year) if form == "%m/%d" else found).astimezone().timestamp()
    raise Failure(f"--{option}: expected e.g. 2026-03-01 or now-2days, found {text!r}", code=Exit.USAGE)


INFO_OPTIONS = table(
    Option("partition", "p"), Option("nodes", "n"), Option("Node", "N", takes="nothing"), Option("long", "l", takes="nothing"),
    Option("format", "o"), Option("noheader", "h", takes="nothing"), Option("summarize", "s", takes="nothing"),
    Option("states", "t"), Option("list-reasons", "R", takes="nothing"), Option("all", "a", takes="nothing"), Option("exact", "e", takes="nothing"),
)  # fmt: skip


def sinfo(words: Sequence[str]) -> int:
    given, rest = parse(words, INFO_OPTIONS, command="sinfo")
    if rest:
        raise Failure(f"{rest[0]!r} is no option", code=Exit.USAGE)
    api = connect()
    nodes = [one | {"_state": node_state(one)} for one in api.items("/nodes")]
    queues = [one["metadata"]["name"] for one in api.items("/queues")]
    if "partition" in given:
        queues = [name for name in queues if name in given["partition"].split(",")]
    if "nodes" in given:
        nodes = [one for one in nodes if one["metadata"]["name"] in given["nodes"].split(",")]
    if "states" in given:
        nodes = [one for one in nodes if one["_state"].rstrip("*") in given["states"].lower().split(",")]
    rows = []
    for queue in queues:
        groups: dict[Any, list[Object]] = {}
        for node in nodes:
            key = node["metadata"]["name"] if "Node" in given else (node["_state"], gres(node))
            groups.setdefault(key, []).append(node)
        rows += [{"queue": queue, "nodes": some} for _, some in sorted(groups.items(), key=lambda pair: str(pair[0]))]
    default = "default"
    cells: dict[str, tables.Cell] = {
        "P": ("PARTITION", lambda row: row["queue"] + ("*" if row["queue"] == default else "")),
        "R": ("PARTITION", lambda row: row["queue"]),
        "a": ("AVAIL", lambda _: "up"),
        "l": ("TIMELIMIT", lambda _: "infinite"),
        "D": ("NODES", lambda row: len(row["nodes"])),
        "t": ("STATE", lambda row: row["nodes"][0]["_state"]),
        "T": ("STATE", lambda row: _LONG.get(row["nodes"][0]["_state"].rstrip("*"), row["nodes"][0]["_state"])),
        "N": ("NODELIST", lambda row: compress(sorted(one["metadata"]["name"] for one in row["nodes"]))),
        "G": ("GRES", lambda row: gres(row["nodes"][0])),
        "c": ("CPUS", lambda row: row["nodes"][0]["status"].get("cpu")),
        "m": ("MEMORY", lambda row: _mib(row["nodes"][0]["status"].get("memory"))),
        "f": ("AVAIL_FEATURES", lambda row: _features(row["nodes"][0])),
        "E": ("REASON", lambda row: row["nodes"][0]["spec"].get("reason") or "none"),
        "F": ("NODES(A/I/O/T)", lambda row: _counts(row["nodes"])),
        "O": ("CPU_LOAD", lambda _: "N/A"),
    }  # fmt: skip
    usual = "%9P %5a %10l %5D %6t %N"
    if "Node" in given:
        usual = "%20N %5D %9P %6t" if "long" not in given else "%20N %5D %9P %8T %6c %10m %20G %E"
    elif "summarize" in given:
        usual = "%9P %5a %10l %15F %N"
    shown = tables.percent(given.get("format") or usual, cells, rows, headers="noheader" not in given, command="sinfo")
    if shown:
        say(shown)
    return Exit.OK


_LONG = {
    "idle": "idle",
    "mix": "mixed",
    "alloc": "allocated",
    "drain": "drained",
    "drng": "draining",
    "down": "down",
    "unk": "unknown",
}


def node_state(node: Object) -> str:
    used, every = len(node["status"].get("allocated", ())), len(node["status"].get("devices", ()))
    if node["status"]["phase"] == "Lost":
        return "down"
    if node["spec"].get("cordoned"):
        return "drng" if used else "drain"
    mark = "*" if node["status"]["phase"] == "Unknown" else ""
    return ("alloc" if every and used >= every else "mix" if used else "idle") + mark


def gres(node: Object) -> str:
    counts: dict[str, int] = {}
    for device in node["status"].get("devices", ()):
        counts[device["type"]] = counts.get(device["type"], 0) + 1
    return ",".join(f"gpu:{kind}:{count}" for kind, count in sorted(counts.items())) or "(null)"


def _mib(text: str | None) -> int:
    from muster.quantity import parse_memory

    return int(parse_memory(text) / 2**20) if text else 0


def _features(node: Object) -> str:
    prefix = f"{LABEL}/feature-"
    found = [key.removeprefix(prefix) for key in node["metadata"].get("labels", {}) if key.startswith(prefix)]
    return ",".join(sorted(found)) or "(null)"


def _counts(nodes: list[Object]) -> str:
    states = [one["_state"].rstrip("*") for one in nodes]
    used, idle = sum(one in ("alloc", "mix") for one in states), states.count("idle")
    return f"{used}/{idle}/{len(states) - used - idle}/{len(states)}"
