"""Complete a launch template with what only the node knows. Pure.

The result is what the shim is given: for each process its argv, its whole environment, its folder and the
log stream it prints into.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from muster.launch import LaunchTemplate
from muster.protocol import Assignment

INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE"),
    *("LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)
"""What the processes take over from the agent's own environment."""

_PLACEHOLDER = re.compile(r"(%?)%\{(\w*)\}?")


class Site(Struct, frozen=True, kw_only=True):
    """This worker's place on this node. `python` is the interpreter on the worker's PATH."""

    python: str
    interface: str
    address: str
    dir: str
    logs: str
    report: str
    resume: str = ""

    def values(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in self.__struct_fields__} | {"hostfile": f"{self.dir}/hostfile"}


class ProcessLaunch(Struct, frozen=True, kw_only=True):
    """`rank` is global; None when the process holds several ranks. `stream` is the name of its log stream."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    stream: str
    rank: int | None
    ulimits: dict[str, int] = {}
    cpus: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    user: dict[str, object] | None = None


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace `%{name}`; `%%{` is a literal `%{`. Raises ValueError for an unknown name."""

    def one(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        if match[2] not in values or not match[0].endswith("}"):
            raise ValueError(f"the launch template asks for {match[0]!r}, which this agent does not know")
        return values[match[2]]

    return _PLACEHOLDER.sub(one, text)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in INHERITED if name in environ}


def path_of(template: LaunchTemplate, base: Mapping[str, str]) -> str:
    """The PATH on which the worker's program is looked for."""
    return template.env.get("PATH") or base.get("PATH") or "/usr/local/bin:/usr/bin:/bin"


def complete(assignment: Assignment, site: Site, base: Mapping[str, str], workdir: str) -> tuple[ProcessLaunch, ...]:
    """`base` is the environment below the template's. Raises ValueError for an unknown placeholder."""
    template, values = assignment.template, site.values()
    common = {
        "PYTHONUNBUFFERED": "1",
        **base,
        **{name: expand(value, values) for name, value in template.env.items()},
        "MUSTER_WORKER_UID": assignment.worker_uid,
        "MUSTER_TOKEN": assignment.token,
    }
    return tuple(
        ProcessLaunch(
            argv=tuple(expand(word, values) for word in argv),
            env={**common, **{name: expand(value, values) for name, value in _own(template, i).items()}},
            cwd=workdir,
            stream="worker" if (rank := rank_of(template, i)) is None else f"rank-{rank}",
            rank=rank,
        )
        for i, argv in enumerate(template.processes)
    )


def rank_of(template: LaunchTemplate, process: int) -> int | None:
    """The global rank of a first-level process; None when the framework makes the ranks below it."""
    if template.log_pattern is not None or len(template.processes) != template.ranks:
        return None
    return template.first_rank + process


def launch_file(
    assignment: Assignment,
    processes: tuple[ProcessLaunch, ...],
    boot_id: str,
    deadline: float | None,
    denied: tuple[str, ...] = (),
    removals: tuple[tuple[str, ...], ...] = (),
) -> Any:
    """launch.json. `deadline` is on CLOCK_BOOTTIME; `denied` are files of devices that are not the worker's, `removals`
    the commands that end its containers."""
    how = assignment.template.how
    return {
        "limits": {"cpu": how.cpu, "memory": how.memory},
        "denied": denied,
        "removals": removals,
        "worker": assignment.worker_uid,
        "attempt": assignment.attempt,
        "epoch": assignment.epoch,
        "revision": assignment.revision,
        "boot_id": boot_id,
        "deadline": deadline,
        "grace": assignment.grace,
        "log_limit": assignment.log_limit,
        "processes": processes,
    }


def _own(template: LaunchTemplate, process: int) -> dict[str, str]:
    return template.process_env[process] if process < len(template.process_env) else {}
