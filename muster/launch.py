"""The launch template: what `controller.launch` decides for one worker and its agent completes.

Values may hold placeholders that only the node can know. They are written `%{name}`; `%%{` is a literal
`%{`. The names: `python` (the interpreter found on the worker's PATH), `interface` (network interface of
this node's address), `address` (this node's address), `dir` (private folder of this worker in this
attempt), `logs` (folder of per-rank log files), `report` (the file named by MUSTER_REPORT), `hostfile`,
`resume` (path of the checkpoint to resume from, empty when none).
"""

import msgspec


class LogPattern(msgspec.Struct, frozen=True, rename="camel"):
    """Where a framework writes per-rank logs: a regular expression over paths below `%{logs}` with groups
    `rank` (local rank) and `stream`."""

    regex: str


class LaunchTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One worker's launch. `processes` holds one argv per process that the shim itself starts, each with
    the environment that differs from `env`; `ranks` counts the framework's processes inside the worker
    (global ranks first_rank .. first_rank+ranks-1)."""

    framework: str
    processes: tuple[tuple[str, ...], ...]
    process_env: tuple[dict[str, str], ...] = ()
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    workdir: str = "."
    first_rank: int = 0
    ranks: int = 1
    ports: tuple[int, ...] = ()
    listens: tuple[int, ...] = ()  # those of `ports` that this worker itself will bind; tested by its agent
    log_pattern: LogPattern | None = None
    progress_regex: str | None = None
    script: str | None = None  # its text; written to `%{dir}/script`, executable
    resume: str = ""  # the checkpoint to resume from, which `%{resume}` stands for
