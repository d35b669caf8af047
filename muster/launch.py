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


class Mount(msgspec.Struct, frozen=True, rename="camel"):
    """A folder of the node inside the container."""

    source: str
    target: str
    read_only: bool = False


class Container(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`pull` is missing, always or never; `shm` in bytes, 0 for the node's own."""

    image: str
    pull: str = "missing"
    mounts: tuple[Mount, ...] = ()
    shm: int = 0


class Running(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the processes run. `cpu` (thousandths of a core) and `memory` (bytes) are what the kernel is to enforce, 0 for
    nothing; `ulimits` are of each process, -1 for unlimited; `bind` keeps the ranks near their devices."""

    cpu: int = 0
    memory: int = 0
    ulimits: dict[str, int] = {}
    bind: bool = True
    login_shell: bool = False
    container: Container | None = None


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
    running: Running | msgspec.UnsetType = msgspec.UNSET

    @property
    def how(self) -> Running:
        return PLAINLY if self.running is msgspec.UNSET else self.running


PLAINLY = Running()
"""As an older controller has it."""
