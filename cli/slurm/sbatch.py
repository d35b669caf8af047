"""`sbatch`, `salloc`, and `srun` where it begins a job of its own."""

import getpass
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.api import Api, NotThere, connect
from cli.errors import Exit, Failure
from cli.options import default_namespace
from cli.slurm import header, jobs
from cli.slurm.bundle import RUN, program
from cli.slurm.getopt import Table, parse
from cli.slurm.manifest import LABEL, Made, make
from cli.slurm.options import ALLOCATE, BATCH, STEP
from muster.client import path_of

Object = dict[str, Any]
TRIES = 100


def sbatch(words: Sequence[str]) -> int:
    given, rest = parse(words, BATCH, command="sbatch")
    if "help" in given:
        return usage("sbatch [OPTIONS] SCRIPT [ARGUMENTS]", BATCH)
    script, source, arguments = _script(given, rest)
    options = _environment(BATCH, "SBATCH") | header.options(script, source) | given
    made = prepared(script, options, arguments, "wrap" if "wrap" in given else Path(source).name)
    told(options, BATCH)
    if "test-only" in options:
        submit(made, dry_run=True)
        sys.stderr.write("sbatch: the job is sound; nothing was submitted\n")
        return Exit.OK
    job = submit(made)
    number = jobs.number(job)
    print(number if "parsable" in options else f"Submitted batch job {number}", flush=True)
    return wait_for(connect(), job) if "wait" in options else Exit.OK


def _script(given: dict[str, str], rest: list[str]) -> tuple[str, str, list[str]]:
    if "wrap" in given:
        if rest:
            raise Failure("--wrap and a script do not go together", code=Exit.USAGE)
        return f"#!/bin/sh\n{given['wrap']}\n", "--wrap", []
    if not rest or rest[0] == "-":
        text, source = sys.stdin.read(), "stdin"
    else:
        source = rest[0]
        try:
            text = Path(source).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise Failure(f"{source}: {error.strerror}") from None
    return header.checked(text, source), source, rest[1:]


def _environment(table: Table, prefix: str) -> dict[str, str]:
    """SBATCH_PARTITION and the like: options that the command line and the script may overrule."""
    names = {
        one.name: f"{prefix}_{one.name.upper().replace('-', '_')}" for one in table.values() if one.takes == "value"
    }
    names |= {"time": f"{prefix}_TIMELIMIT", "array": f"{prefix}_ARRAY_INX"}
    return {option: os.environ[name] for option, name in names.items() if os.environ.get(name)}


def prepared(script: str, options: dict[str, str], arguments: Sequence[str], default_name: str) -> Made:
    import json

    return make(
        script,
        options,
        arguments=arguments,
        program=program(),
        run=RUN,
        step_options=json.dumps({word: [one.name, one.takes] for word, one in STEP.items()}),
        environ=os.environ,
        user=getpass.getuser(),
        host=socket.gethostname(),
        folder=os.getcwd(),
        default_name=default_name,
    )


def told(options: dict[str, str], table: Table) -> None:
    """What an option does not do here."""
    for one in dict.fromkeys(table.values()):
        if one.note and one.name in options:
            sys.stderr.write(f"warning: --{one.name}: {one.note}\n")


def submit(made: Made, *, dry_run: bool = False) -> Object:
    """The job as it is now. Names of Muster's are unique among what is live: a second `train` becomes `train-2`."""
    api, where = connect(), default_namespace()
    document = _complete(api, made, where)
    name = document["metadata"]["name"]
    for turn in range(1, TRIES):
        own = name if turn == 1 else f"{name}-{turn}"
        body = document | {"metadata": document["metadata"] | {"name": own, "namespace": where}}
        try:
            answer = api.post(f"/namespaces/{where}/jobs", body, **({"dryRun": True} if dry_run else {}))
        except Failure as failure:
            if "live job" in failure.message:  # the name is in use
                continue
            raise
        return answer if dry_run else api.get(f"/namespaces/{where}/jobs/{answer['metadata']['name']}")
    raise Failure(f"{TRIES} live jobs are called {name}", code=Exit.REFUSED)


def _complete(api: Api, made: Made, where: str) -> Object:
    spec = dict(made.document["spec"])
    after = [{"job": _name(api, number), "condition": condition} for condition, number in made.after]
    if made.singleton:
        after += _namesakes(api, made, where)
    if after:
        spec["after"] = after
    if spec.get("accelerators", [{}])[0].get("type") == "any":
        spec["accelerators"] = [{"type": kind, "count": spec["accelerators"][0]["count"]} for kind in _kinds(api)]
    return made.document | {"spec": spec}


def _name(api: Api, number: str) -> str:
    try:
        (job,) = jobs.by_number(api, number)
    except NotThere:
        raise Failure(f"--dependency: there is no job {number}", code=Exit.NOT_FOUND) from None
    return str(job["metadata"]["name"])


def _namesakes(api: Api, made: Made, where: str) -> list[Object]:
    labels = made.document["metadata"]["labels"]
    wanted = ",".join(f"{key}={labels[key]}" for key in (f"{LABEL}/name", f"{LABEL}/user"))
    found = api.items(f"/namespaces/{where}/jobs", labelSelector=wanted)
    names = [one["metadata"]["name"] for one in found if one["status"]["phase"] in jobs.LIVE]
    return [{"job": name, "condition": "finished"} for name in names]


def _kinds(api: Api) -> list[str]:
    """Every kind of device of the cluster, the most frequent first."""
    counts: dict[str, int] = {}
    for node in api.items("/nodes"):
        for device in node["status"].get("devices", ()):
            counts[device["type"]] = counts.get(device["type"], 0) + 1
    if not counts:
        raise Failure("no node of this cluster has devices", code=Exit.REFUSED)
    return sorted(counts, key=lambda kind: (-counts[kind], kind))


def wait_for(
    api: Api, job: Object, *, phases: Sequence[str] = ("Succeeded", "Failed", "Cancelled"), pause: float = 0.5
) -> int:
    """Until it has ended. 0 when it ended well, else 1."""
    path = path_of("Job", job["metadata"]["name"], job["metadata"]["namespace"]).removeprefix("/api/v1")
    while True:
        found = api.get(path)
        if found["status"]["phase"] in phases or found["metadata"]["uid"] != job["metadata"]["uid"]:
            return Exit.OK if found["status"]["phase"] == "Succeeded" else Exit.ERROR
        time.sleep(pause)


# -- allocations ----------------------------------------------------------------------------------------

HOLD = "#!/bin/sh\nsleep 2147483647 &\nwait\n"


def allocate(options: dict[str, str], name: str) -> tuple[Api, Object]:
    """A job that holds its nodes and does nothing; it runs when this returns. Ctrl-C meanwhile gives it up."""
    made = prepared(HOLD, options | {"output": "/dev/null"}, (), name)
    job = submit(made)
    api, number = connect(), jobs.number(job)
    sys.stderr.write(f"salloc: Pending job allocation {number}\n")
    path = path_of("Job", job["metadata"]["name"], job["metadata"]["namespace"]).removeprefix("/api/v1")
    try:
        while job["status"]["phase"] != "Running":
            if job["status"]["phase"] not in jobs.LIVE:
                raise Failure(f"job {number} ended before it ran: {job['status'].get('message')}")
            time.sleep(0.3)
            job = api.get(path)
    except KeyboardInterrupt:
        jobs.act(api, job, "cancel")
        raise
    sys.stderr.write(f"salloc: Granted job allocation {number}\nsalloc: Nodes {jobs.nodes(job)} are ready for job\n")
    return api, job


def salloc(words: Sequence[str]) -> int:
    import subprocess

    options, command = parse(words, ALLOCATE, command="salloc")
    if "help" in options:
        return usage("salloc [OPTIONS] [COMMAND...]", ALLOCATE)
    told(options, ALLOCATE)
    api, job = allocate(options, "interactive")
    number = str(jobs.number(job))
    if "no-shell" in options:
        return Exit.OK
    env = os.environ | {
        "SLURM_JOB_ID": number,
        "SLURM_JOBID": number,
        "SLURM_JOB_NODELIST": jobs.nodes(job),
        "SLURM_NNODES": str(len({worker["node"] for worker in job["status"]["workers"]})),
        "MUSTER_ALLOCATION": f"{job['metadata']['namespace']}/{job['metadata']['name']}",
    }
    try:
        return subprocess.run(command or [os.environ.get("SHELL") or "/bin/sh"], env=env, check=False).returncode
    finally:
        jobs.act(api, job, "cancel")
        sys.stderr.write(f"salloc: Relinquishing job allocation {number}\n")


def srun(words: Sequence[str]) -> int:
    """Outside of any job: an allocation for this one step. With salloc's: a step of that."""
    options, command = parse(words, STEP, command="srun")
    if "help" in options:
        return usage("srun [OPTIONS] COMMAND [ARGUMENTS]", STEP)
    if not command:
        raise Failure("no command to run", code=Exit.USAGE)
    told(options, STEP)
    held = os.environ.get("MUSTER_ALLOCATION")
    if held:
        where, _, name = held.partition("/")
        return _step(where, name, words if "pty" not in options else command, pty="pty" in options)
    api, job = allocate(options, options.get("job-name") or Path(command[0]).name)
    try:
        place = job["metadata"]["namespace"], job["metadata"]["name"]
        inner = command if "pty" in options else [*_step_words(options), *command]
        return _step(*place, inner, pty="pty" in options)
    finally:
        jobs.act(api, job, "cancel")


def _step_words(options: dict[str, str]) -> list[str]:
    """What of the command line is the step's own, not the allocation's."""
    own = ("label", "output", "error", "kill-on-bad-exit", "unbuffered")
    return [f"--{name}={options[name]}" if options[name] else f"--{name}" for name in own if name in options] + ["--"]


_ENTER = """
folder="${TMPDIR:-/tmp}/muster-slurm-$MUSTER_ATTEMPT_UID-0" turn=0
until [ -S "$folder/socket" ]; do
    turn=$((turn + 1))
    if [ $turn -gt 600 ]; then echo "the job's first node is not ready" >&2; exit 1; fi
    sleep 0.1
done
export MUSTER_SLURM_SOCKET="$folder/socket" PATH="$folder/bin:$PATH" SLURM_JOB_ID="$MUSTER_JOB_NUMBER"
exec "$@"
"""
"""Waits for the station of the first worker, and goes on with its commands on the PATH."""


def _step(namespace: str, name: str, words: Sequence[str], *, pty: bool) -> int:
    """By a session beside the first worker, where the commands of the job are."""
    import shutil

    from cli import talking
    from cli.api import client_of
    from cli.options import terminal_kind

    script = ["sh", "-c", _ENTER, "sh"]
    columns, rows = shutil.get_terminal_size()
    query: dict[str, Any] = {"stdin": True, "tty": pty, "columns": columns, "rows": rows}
    query["command"] = (*script, *words) if pty else (*script, "srun", *words)
    if pty:
        query["term"] = terminal_kind()
    with talking.session(client_of(), f"{path_of('Job', name, namespace)}/exec", **query) as session:
        return talking.Console(session, interactive=True, terminal=pty).run()


def usage(line: str, table: Table) -> int:
    print(f"usage: {line}\n\nOptions:")
    for one in dict.fromkeys(table.values()):
        value = {"value": f"--{one.name}=VALUE", "maybe": f"--{one.name}[=VALUE]", "nothing": f"--{one.name}"}[
            one.takes
        ]
        print(f"  {f'-{one.short}, ' if one.short else '    '}{value}" + (f"  ({one.note})" if one.note else ""))
    return Exit.OK
