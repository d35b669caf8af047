"""`muster node check`, `muster node checks`: measure nodes by ordinary jobs, and what was measured so far."""

import secrets
import time
from collections.abc import Sequence
from typing import Any

import click

from cli.api import Api, connect, jobs_path, path_to
from cli.errors import Exit, Failure
from cli.group import Suggesting
from cli.output import Column, age, now, say, table, terminal_width

NAMESPACE = "muster-checks"
LABEL = "muster.dev/check"
MOST_NODES = 16
LOOK = 0.5
FINISHED = ("Succeeded", "Failed", "Cancelled")
Object = dict[str, Any]


@click.group(cls=Suggesting, no_args_is_help=True)
def node() -> None:
    """Look closer at nodes."""


@node.command(epilog="Example:  muster node check node-1 node-2")
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.option(
    "--peers", type=click.IntRange(0, MOST_NODES - 1), help="Idle nodes of the same kind to add (1 for one NODE)."
)
@click.option("--seconds", type=click.FloatRange(0.1, 3600), default=5.0, show_default=True, help="For each burn-in.")
@click.option("--backend", type=click.Choice(("auto", "torch", "numpy", "plain")), default="auto", show_default=True)
@click.option("--timeout", type=click.FloatRange(1), default=600.0, show_default=True, help="Seconds to wait at most.")
@click.option("--no-wait", is_flag=True, help="Only submit the job.")
def check(
    nodes: tuple[str, ...], peers: int | None, seconds: float, backend: str, timeout: float, no_wait: bool
) -> None:
    """Measure nodes: device memory and matrix products, the way to the devices, bandwidth of each pair and of all
    together.

    It is an ordinary job of low priority on all devices of the nodes: it waits until they are idle, and goes when others
    need them. Exit status 1 when something is wrong or far from what peers of the same kind gave."""
    api = connect()
    known = {one["metadata"]["name"]: one for one in api.get("/nodes")["items"]}
    chosen = _chosen(known, [name.removeprefix("node/") for name in nodes], peers)
    manifest = _manifest(known, chosen, seconds, backend)
    name, run = manifest["metadata"]["name"], manifest["metadata"]["labels"][LABEL]
    api.put(jobs_path(NAMESPACE, name), manifest)
    say(f"job/{name} in namespace {NAMESPACE} checks {', '.join(chosen)}")
    if no_wait:
        return
    phase = _wait(api, name, timeout)
    found = [one for each in chosen for one in _measured(api, each) if one["check"] == run]
    say(_table(found))
    wrong = [one for one in found if one["outlier"] or not one["ok"]]
    for one in wrong:
        say(f"! {one['node']} {_what(one)}: {one['outlier'] or one['message']}")
    if phase != "Succeeded" or wrong:
        raise Failure(
            f"the check {phase.lower()}" if phase != "Succeeded" else f"{len(wrong)} results are not as they should be"
        )
    say(f"{len(found)} result{'s' * (len(found) != 1)}, all as they should be")


@node.command(epilog="Example:  muster node checks node-1")
@click.argument("name", metavar="NODE")
def checks(name: str) -> None:
    """What checks have measured on a node so far, oldest first."""
    say(_table(_measured(connect(), name.removeprefix("node/"))))


def _chosen(known: dict[str, Object], wanted: Sequence[str], peers: int | None) -> list[str]:
    """The nodes of the gang: all of one kind of device."""
    for name in wanted:
        if name not in known:
            raise Failure(f"there is no node {name}", code=Exit.NOT_FOUND)
    kinds = {_kind(known[name]) for name in wanted}
    if len(kinds) > 1:
        raise Failure(
            f"nodes of one kind are measured together, found {', '.join(sorted(map(str, kinds)))}", code=Exit.REFUSED
        )
    more = [
        name
        for name, one in sorted(known.items())
        if name not in wanted and _kind(one) in kinds and one["status"]["phase"] == "Ready"
        and not one["spec"]["cordoned"] and not one["status"]["allocated"]
    ]  # fmt: skip
    count = peers if peers is not None else 1 if len(wanted) == 1 else 0
    return [*dict.fromkeys(wanted), *more[:count]][:MOST_NODES]


def _kind(one: Object) -> tuple[str, int]:
    """Type and number of the devices that work."""
    devices = [device for device in one["status"]["devices"] if device["healthy"]]
    return (devices[0]["type"], len(devices)) if devices else ("cpu", 0)


def _manifest(known: dict[str, Object], chosen: Sequence[str], seconds: float, backend: str) -> Object:
    run = secrets.token_hex(4)
    kind, count = _kind(known[chosen[0]])
    spec: Object = {
        "workers": len(chosen),
        "ranksPerWorker": 1,
        "nodes": {"include": list(chosen)},
        "priorityClass": "low",
        "preemption": {"allowed": True},
        "command": ["python3", "-m", "muster.nodecheck", "--seconds", f"{seconds:g}", "--backend", backend],
        "memory": "2Gi",
        "timeLimit": f"{int(60 * len(chosen) + 6 * seconds + 300)}s",
        "recovery": {"maxRestarts": 0},
    }
    if count:
        spec["accelerators"] = [{"type": kind, "count": count}]
    metadata = {"name": f"check-{chosen[0][:40]}-{run}", "namespace": NAMESPACE, "labels": {LABEL: run}}
    return {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _wait(api: Api, name: str, timeout: float) -> str:
    said, deadline = "", time.monotonic() + timeout
    while True:
        status = api.get(jobs_path(NAMESPACE, name))["status"]
        told = f"{status['phase']}: {status['message']}" if status["message"] else str(status["phase"])
        if told != said and status["phase"] not in FINISHED:
            say(f"  {told}")
        said = told
        if status["phase"] in FINISHED:
            return str(status["phase"])
        if time.monotonic() >= deadline:
            api.act("Job", name, "cancel", NAMESPACE)
            raise Failure(f"no result after {timeout:g} s, the check is cancelled; it was {told}", code=Exit.TIMEOUT)
        time.sleep(LOOK)


def _measured(api: Api, name: str) -> list[Object]:
    return api.items(path_to("nodes", name, "measurements"))


def _what(one: Object) -> str:
    where = f" device {one['device']}" if one["device"] is not None else f" with {one['peer']}" if one["peer"] else ""
    return f"{one['name']}{where}"


def _table(found: Sequence[Object]) -> str:
    at = now()
    columns = [
        Column("NODE", lambda one: one["node"]),
        Column("WHAT", _what),
        Column("VALUE", lambda one: f"{one['value']:.4g} {one['unit']}"),
        Column("RESULT", lambda one: "wrong" if not one["ok"] else "outlier" if one["outlier"] else "ok"),
        Column("AGE", lambda one: age(one["at"], at)),
        Column("NOTE", lambda one: one["outlier"] or one["message"], elastic=True),
    ]
    return table(columns, list(found), width=terminal_width()) if found else "nothing was measured"
