"""One worker as a pod: what is asked for, and what can be read from one.

The pod is on its node's network, so that the addresses and ports that were planned are the real ones. It holds one
container for each process of the template. Which devices a container gets is left to the vendor's device plugin.
Not done yet: files, host files and scripts of a template; `%{interface}` is the name from the settings, the same on
all nodes.
"""

import math
import re
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from controller.executors.base import Intent
from controller.records import JobRecord, WorkerRecord
from muster.accelerators import canonical, catalogue
from muster.launch import LaunchTemplate
from muster.protocol import RankExit

JOB, ATTEMPT, WORKER, EPOCH = "muster.dev/job", "muster.dev/attempt", "muster.dev/worker", "muster.dev/epoch"
GO: Final = "muster.dev/go"
GO_FILE: Final = "/etc/muster/go"
SCHEDULER: Final = "muster"
FOLDER: Final = "/muster"

BARRIER: Final = (
    "trap 'exit 143' TERM; until [ -s \"$0\" ]; do sleep 0.2; done; trap - TERM; "
    'mkdir -p "$1" && cd "$2" && shift 2 && exec "$@"'
)
"""Run with `sh -c`: waits until the file $0 has something in it, then becomes the command. A first process of a
container ignores SIGTERM unless it says otherwise."""

_PLACEHOLDER: Final = re.compile(r"%%\{|%\{([a-z]+)\}")


class Site(Struct, frozen=True, kw_only=True):
    """What this cluster's pods have in common. `namespace` is the Kubernetes namespace of all of them."""

    namespace: str = "default"
    image: str
    interface: str = "eth0"


class Pod(Struct, frozen=True, kw_only=True):
    """What is read from a pod. `exits` are those of its ended containers; `ended` when that is all of them."""

    name: str
    uid: str
    job: str
    attempt: str
    worker: str
    epoch: int
    node: str = ""
    deleting: bool = False
    go: bool = False
    running: bool = False
    ended: bool = False
    exits: tuple[RankExit, ...] = ()
    problem: str = ""
    message: str = ""


def pod_name(worker: WorkerRecord) -> str:
    """The same for every try, so that a repeated creation is refused by Kubernetes."""
    return f"muster-{worker.uid}".lower()


def unsupported(template: LaunchTemplate) -> str:
    """What this executor cannot do for this worker; empty when all is well."""
    words = [word for argv in template.processes for word in argv]
    if template.files or any("%{hostfile}" in word for word in words):
        return "files and host files are not supported on Kubernetes yet"
    if template.script is not None:
        return "scripts are not supported on Kubernetes yet; use command"
    return ""


def manifest(intent: Intent, worker: WorkerRecord, site: Site) -> dict[str, Any]:
    """The pod of this worker, without a node: it is bound in a second step."""
    labels = {JOB: worker.job_uid, ATTEMPT: worker.attempt_uid, WORKER: worker.uid, EPOCH: str(worker.epoch)}
    field = {"fieldRef": {"fieldPath": f"metadata.annotations['{GO}']"}, "path": "go"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod_name(worker), "labels": labels},
        "spec": {
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "hostNetwork": True,
            "dnsPolicy": "ClusterFirstWithHostNet",
            "terminationGracePeriodSeconds": math.ceil(worker.grace),
            "containers": [
                _container(intent.job, worker, site, process) for process in range(len(worker.template.processes))
            ],
            "volumes": [
                {"name": "barrier", "downwardAPI": {"items": [field]}},
                {"name": "worker", "emptyDir": {}},
            ],
        },
    }


def _container(job: JobRecord, worker: WorkerRecord, site: Site, process: int) -> dict[str, Any]:
    template = worker.template
    own = template.process_env[process] if process < len(template.process_env) else {}
    address = {"name": "MUSTER_ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    hidden = {kind.visible_devices for kind in catalogue().values()}
    env = [
        {"name": name, "value": complete(value, template, site)}
        for name, value in {**template.env, **own}.items()
        if name not in hidden
    ]
    argv = [complete(word, template, site) for word in template.processes[process]]
    workdir = template.workdir if template.workdir.startswith("/") else f"{FOLDER}/{template.workdir}"
    return {
        "name": f"process-{process}",
        "image": site.image,
        "command": ["/bin/sh", "-c", BARRIER, GO_FILE, f"{FOLDER}/logs", workdir, *argv],
        "env": [address, *env],
        "resources": {"limits": _limits(job, worker, len(template.processes), process)},
        "volumeMounts": [
            {"name": "barrier", "mountPath": "/etc/muster", "readOnly": True},
            {"name": "worker", "mountPath": FOLDER},
        ],
    }


def complete(text: str, template: LaunchTemplate, site: Site) -> str:
    """Placeholders of the template become Kubernetes' own or fixed values; `$(` of the user stays what it is."""
    values = {
        "python": "python3",
        "interface": site.interface,
        "address": "$(MUSTER_ADDRESS)",
        "dir": FOLDER,
        "logs": f"{FOLDER}/logs",
        "report": f"{FOLDER}/report",
        "resume": template.resume,
    }

    def value(found: re.Match[str]) -> str:
        return "%{" if found[1] is None else values.get(found[1], found[0])

    return _PLACEHOLDER.sub(value, text.replace("$(", "$$("))


def _limits(job: JobRecord, worker: WorkerRecord, processes: int, process: int) -> dict[str, str]:
    """Kubernetes limits containers, Muster workers: CPU and memory are shared evenly, devices too when they can be."""
    limits = {}
    if worker.cpu_milli:
        limits["cpu"] = f"{max(worker.cpu_milli // processes, 1)}m"
    if worker.memory:
        limits["memory"] = str(worker.memory // processes)
    resource = _device_resource(job)
    if worker.devices and resource:
        share, rest = divmod(len(worker.devices), processes)
        limits[resource] = str(share + (process < rest))
    return limits


def _device_resource(job: JobRecord) -> str:
    """By the first kind of the job's list: kinds that are alternatives to each other are of one vendor here."""
    for wanted in job.spec.get("accelerators") or ():
        kind = catalogue().get(canonical(wanted["type"]) or "")
        if kind is not None:
            return kind.kubernetes_resource
    return ""


def read_pod(item: dict[str, Any]) -> Pod | None:
    """A pod from the API server's answer; None when it is not one of ours."""
    meta, spec, status = item["metadata"], item.get("spec", {}), item.get("status", {})
    labels = meta.get("labels") or {}
    if not all(name in labels for name in (JOB, ATTEMPT, WORKER, EPOCH)) or not labels[EPOCH].isdigit():
        return None
    states = [(index, one.get("state") or {}) for index, one in _statuses(status)]
    ends = [(index, state["terminated"]) for index, state in states if "terminated" in state]
    waiting = [state["waiting"] for _, state in states if "waiting" in state]
    problem, message = _problem(status, [end for _, end in ends], waiting)
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        job=labels[JOB],
        attempt=labels[ATTEMPT],
        worker=labels[WORKER],
        epoch=int(labels[EPOCH]),
        node=spec.get("nodeName") or "",
        deleting=bool(meta.get("deletionTimestamp")),
        go=(meta.get("annotations") or {}).get(GO) == "run",
        running=status.get("phase") == "Running" and any("running" in state for _, state in states),
        ended=status.get("phase") in ("Succeeded", "Failed"),
        exits=tuple(_exit(index, end) for index, end in ends),
        problem=problem,
        message=message,
    )


def _statuses(status: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Container statuses by the number of their process; Kubernetes promises no order."""
    found = status.get("containerStatuses") or []
    return sorted(((int(one["name"].rpartition("-")[2]), one) for one in found), key=lambda pair: pair[0])


def _exit(process: int, end: dict[str, Any]) -> RankExit:
    at = datetime.fromisoformat(end["finishedAt"].replace("Z", "+00:00")).timestamp() if end.get("finishedAt") else 0.0
    return RankExit(
        process=process,
        code=end["exitCode"],
        signal=end.get("signal") or None,
        oom=end.get("reason") == "OOMKilled",
        at=at,
    )


def _problem(status: dict[str, Any], ends: list[dict[str, Any]], waiting: list[dict[str, Any]]) -> tuple[str, str]:
    """A code and a sentence when Kubernetes says why it did not go on. An image may still come, so no code then."""
    for end in ends:
        if end.get("reason") in ("StartError", "ContainerCannotRun"):
            return "NO_SUCH_COMMAND", str(end.get("message") or end["reason"])
    if status.get("phase") == "Failed" and not ends:
        return (
            "VANISHED",
            f"{status.get('reason') or 'Failed'}: {status.get('message') or 'no container ended by itself'}",
        )
    for wait in waiting:
        if wait.get("message"):
            return "", f"{wait.get('reason', 'waiting')}: {wait['message']}"
    return "", ""
