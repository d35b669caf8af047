"""`scancel` and `scontrol`."""

import getpass
import os
from collections.abc import Sequence
from typing import Any

from cli.api import connect
from cli.errors import Exit, Failure
from cli.output import say
from cli.slurm import jobs
from cli.slurm.getopt import Option, parse, table
from cli.slurm.hostlist import compress, expand
from cli.slurm.manifest import LABEL, label, minutes
from muster.quantity import format_duration

Object = dict[str, Any]

CANCEL_OPTIONS = table(
    Option("user", "u"), Option("me", takes="nothing"), Option("name", "n"), Option("jobname"), Option("partition", "p"),
    Option("account", "A"), Option("state", "t"), Option("quiet", "Q", takes="nothing"), Option("verbose", "v", takes="nothing"),
    Option("full", "f", takes="nothing"), Option("interactive", "i", takes="nothing"), Option("nodelist", "w"),
)  # fmt: skip


def scancel(words: Sequence[str]) -> int:
    given, rest = parse(words, CANCEL_OPTIONS, command="scancel")
    api = connect()
    filters = {
        name: given[name]
        for name in ("user", "me", "name", "jobname", "partition", "account", "state", "nodelist")
        if name in given
    }
    if not rest and not filters:
        raise Failure(
            "scancel: which jobs?", code=Exit.USAGE, hint="scancel ID..., or --me, -u USER, -n NAME, -t STATE"
        )
    found, code = [], Exit.OK
    for word in rest:
        try:
            found += jobs.by_number(api, word)
        except Failure as failure:
            if failure.code is Exit.UNREACHABLE:
                raise
            for line in failure.lines():
                os.write(2, f"scancel: {line}\n".encode())
            code = Exit.ERROR
    if not rest:
        found = api.items("/jobs")
    for job in _chosen(found, given):
        jobs.act(api, job, "cancel")
    return code


def _chosen(found: list[Object], given: dict[str, str]) -> list[Object]:
    users = given.get("user") or (getpass.getuser() if "me" in given else "")
    name = given.get("name") or given.get("jobname")
    states = {word.upper() for word in given.get("state", "").split(",") if word}
    return [
        one
        for one in found
        if one["status"]["phase"] in jobs.LIVE
        and (not users or jobs.user(one) in {label(word) for word in users.split(",")})
        and (not name or jobs.title(one) in name.split(","))
        and (not given.get("partition") or one["spec"].get("queue") in given["partition"].split(","))
        and (not given.get("account") or jobs.label_of(one, "account") in given["account"].split(","))
        and (not states or set(jobs.state(one)) & states)
        and (not given.get("nodelist") or {w["node"] for w in one["status"].get("workers", ())} & set(given["nodelist"].split(",")))
    ]  # fmt: skip


def scontrol(words: Sequence[str]) -> int:
    flags = {"-o", "--oneliner", "-d", "--details", "-a", "--all"}
    one_line = bool({"-o", "--oneliner"} & set(words))
    words = [word for word in words if word not in flags]
    match words:
        case ["show", "hostnames" | "hostname", *rest]:
            say("\n".join(_expanded(rest[0] if rest else os.environ.get("SLURM_JOB_NODELIST", ""))))
        case ["show", "hostlist" | "hostlistsorted", text]:
            say(compress([word for word in text.split(",") if word]))
        case ["show", "job" | "jobs", *rest]:
            api = connect()
            found = jobs.by_number(api, rest[0]) if rest else api.items("/jobs")
            say("\n\n".join(_job(one, one_line) for one in found))
        case ["show", "node" | "nodes", *rest]:
            api = connect()
            found = [api.get(f"/nodes/{name}") for name in _expanded(rest[0])] if rest else api.items("/nodes")
            say("\n\n".join(_node(one, one_line) for one in found))
        case ["show", "partition" | "partitions", *rest]:
            found = connect().items("/queues")
            say("\n\n".join(_partition(one) for one in found if not rest or one["metadata"]["name"] == rest[0]))
        case ["requeue" | "requeuehold" as verb, ids]:
            _each(ids, "restart" if verb == "requeue" else "suspend")
        case ["hold" | "suspend" | "uhold", *ids] if ids:
            _each(",".join(ids), "suspend")
        case ["release" | "resume", *ids] if ids:
            _each(",".join(ids), "resume")
        case ["update", *fields] if fields:
            _update(fields)
        case ["ping"]:
            connect().get("/version")
            say("Slurmctld(primary) at muster is UP")
        case ["--version" | "-V" | "version"]:
            say("slurm commands of muster")
        case _:
            known = "show hostnames|hostlist|job|node|partition, requeue, hold, release, update, ping"
            raise Failure(
                f"scontrol: {' '.join(words) or 'nothing'} is not known here", code=Exit.USAGE, hint=f"known: {known}"
            )
    return Exit.OK


def _expanded(text: str) -> list[str]:
    try:
        return expand(text)
    except ValueError as error:
        raise Failure(f"{error}", code=Exit.USAGE) from None


def _each(ids: str, verb: str) -> None:
    api = connect()
    for word in ids.split(","):
        for job in jobs.by_number(api, word):
            jobs.act(api, job, verb)


def _update(fields: list[str]) -> None:
    """Fields that may change of a job: TimeLimit, Partition, QOS, Comment, JobName; of a node: State."""
    given = {key.lower(): value for key, _, value in (field.partition("=") for field in fields)}
    api = connect()
    if "nodename" in given:
        state = given.get("state", "").lower()
        verb = {"drain": "cordon", "down": "cordon", "resume": "uncordon", "idle": "uncordon"}.get(state)
        if verb is None:
            raise Failure(f"State={given.get('state')}: expected drain or resume", code=Exit.USAGE)
        for name in _expanded(given["nodename"]):
            api.act("Node", name, verb)
        return
    if "jobid" not in given:
        raise Failure("update: JobId= or NodeName= is missing", code=Exit.USAGE)
    known = {"jobid", "timelimit", "partition", "qos", "comment", "priority"}
    if unknown := set(given) - known:
        raise Failure(
            f"scontrol update: {sorted(unknown)[0]} cannot be changed here",
            code=Exit.USAGE,
            hint="TimeLimit, Partition, QOS, Comment",
        )
    for job in jobs.by_number(api, given["jobid"]):
        api.put(_path(job), _changed(job, given))


def _path(job: Object) -> str:
    return f"/namespaces/{job['metadata']['namespace']}/jobs/{job['metadata']['name']}"


def _changed(job: Object, given: dict[str, str]) -> Object:
    spec, metadata = dict(job["spec"]), dict(job["metadata"])
    if "timelimit" in given:
        seconds = minutes(given["timelimit"])
        spec.pop("timeLimit", None)
        spec |= {"timeLimit": format_duration(seconds)} if seconds else {}
    if "partition" in given:
        spec["queue"] = given["partition"]
    if "qos" in given:
        spec["priorityClass"] = given["qos"]
    if "comment" in given:
        metadata["annotations"] = metadata.get("annotations", {}) | {f"{LABEL}/comment": given["comment"]}
    return {"apiVersion": job["apiVersion"], "kind": "Job", "metadata": metadata, "spec": spec}


def _job(job: Object, one_line: bool) -> str:
    status, spec = job["status"], job["spec"]
    limit = jobs.limit(job)
    lines = [
        f"JobId={jobs.number(job)} JobName={jobs.title(job)}",
        f"UserId={jobs.user(job)} Account={jobs.label_of(job, 'account') or '(null)'} QOS={spec.get('priorityClass') or 'normal'}",
        f"JobState={jobs.state(job)[0]} Reason={jobs.reason(job).strip('()') or 'None' if not jobs.nodes(job) else 'None'}",
        f"Requeue=1 Restarts={status.get('restarts', 0)}",
        f"TimeLimit={'UNLIMITED' if limit is None else jobs.clock(limit)}",
        f"SubmitTime={job['metadata'].get('createdAt')} StartTime={status.get('startedAt') or 'Unknown'} EndTime={status.get('finishedAt') or 'Unknown'}",
        f"Partition={spec.get('queue')} NodeList={jobs.nodes(job) or '(null)'}",
        f"NumNodes={spec.get('workers', 1)} NumCPUs={jobs.cpus(job)} Gres=gpu:{jobs.gpus(job)}",
        f"WorkDir={spec.get('workdir')}",
        f"Comment={job['metadata'].get('annotations', {}).get(f'{LABEL}/comment', '')}",
    ]
    return " ".join(lines) if one_line else "\n   ".join(lines)


def _node(node: Object, one_line: bool) -> str:
    from cli.slurm.listing import gres, node_state

    status = node["status"]
    lines = [
        f"NodeName={node['metadata']['name']} NodeAddr={status.get('address')}",
        f"State={node_state(node).upper()} CPUTot={status.get('cpu')} RealMemory={status.get('memory')}",
        f"Gres={gres(node)}",
    ]
    return " ".join(lines) if one_line else "\n   ".join(lines)


def _partition(queue: Object) -> str:
    name = queue["metadata"]["name"]
    return f"PartitionName={name}\n   Default={'YES' if name == 'default' else 'NO'} State=UP"
