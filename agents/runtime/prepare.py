"""Make a worker ready to be launched, or say in plain words why it cannot be.

Blocking: it runs in a thread, so that a mount that does not answer holds up this worker alone.
"""

import errno
import os
import shutil
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from agents.runtime import binding
from agents.runtime.complete import ProcessLaunch, Site, complete, expand, inherited, launch_file, path_of
from agents.runtime.containers import boxes
from agents.runtime.containers.contract import Engine
from agents.runtime.folder import Folder, replace
from agents.runtime.isolation import denied
from agents.runtime.users import User, Users
from muster.launch import Container, LaunchTemplate
from muster.protocol import Assignment, Device, Inventory

LOGIN = ("/bin/bash", "-l", "-c", 'exec "$@"', "muster")
"""Reads the profile, then becomes the program."""


class Refusal(Exception):
    """This worker cannot be launched here. `code` is a problem of WorkerReport; PORT_BUSY may be mended by another
    template, everything else ends the worker."""

    def __init__(self, code: str, message: str, busy_ports: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.code, self.message, self.busy_ports = code, message, busy_ports


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """What preparing has to know of the node. `environ` is the agent's own environment; `inventory` what it has now."""

    address: str
    interface: str
    server: str
    boot_id: str
    environ: dict[str, str]
    inventory: Callable[[], Inventory]
    users: Users
    engine: Engine | None = None


def prepare(folder: Folder, assignment: Assignment, node: Node, deadline: float | None) -> None:
    """Leaves everything in place for the shim. `deadline` (CLOCK_BOOTTIME) is its first. Raises Refusal."""
    template = assignment.template
    try:
        user = _user(assignment.namespace, node)
        folder.create()
        base = inherited(node.environ) | {"MUSTER_SERVER": node.server} | (user.environment() if user else {})
        base |= _near(assignment, node)
        site = _site(folder, template, node, base)
        workdir = _workdir(template.workdir, folder)
        _write_files(template, site, folder)
        processes = _placed(complete(assignment, site, base, workdir), assignment, node, user)
        removals: tuple[tuple[str, ...], ...] = ()
        if (container := template.how.container) is not None:
            processes, removals = _boxed(processes, assignment, container, node, folder, user)
        for process in processes:
            find_program(process.argv[0], process.env.get("PATH", ""), process.cwd)
        if user is not None:
            _give(folder, user)
        if busy := busy_ports(template.listens):
            raise Refusal("PORT_BUSY", f"in use on this node: port {', '.join(map(str, busy))}", busy)
        foreign = denied(node.inventory().devices, assignment.devices)
        launch = launch_file(assignment, processes, node.boot_id, deadline, foreign, removals)
        replace(folder.launch, msgspec.json.encode(launch))
    except ValueError as error:
        raise Refusal("LAUNCH_FAILED", str(error)) from error
    except OSError as error:
        raise storage_refusal(error, "the worker's folder") from error


def _user(namespace: str, node: Node) -> User | None:
    """Raises Refusal."""
    try:
        return node.users.of(namespace)
    except LookupError as error:
        raise Refusal("PERMISSION", str(error.args[0])) from None


def _devices(assignment: Assignment, node: Node) -> list[Device]:
    return [device for device in node.inventory().devices if device.index in assignment.devices]


def _near(assignment: Assignment, node: Node) -> dict[str, str]:
    """What tells the collective library which ports to use; the manifest's own values win."""
    if not assignment.template.how.bind:
        return {}
    return binding.variables(_devices(assignment, node), node.inventory().nics, node.interface)


def _placed(
    processes: tuple[ProcessLaunch, ...], assignment: Assignment, node: Node, user: User | None
) -> tuple[ProcessLaunch, ...]:
    """Each with its limits, its user, its shell, and near its devices."""
    how = assignment.template.how
    places = (
        binding.places(
            _devices(assignment, node),
            len(processes),
            assignment.cpu_milli,
            binding.cpus_of_node,
            os.sched_getaffinity(0),
        )
        if how.bind
        else (binding.Place(),) * len(processes)
    )
    return tuple(
        msgspec.structs.replace(
            one,
            argv=LOGIN + one.argv if how.login_shell else one.argv,
            ulimits=how.ulimits,
            cpus=place.cpus,
            nodes=place.nodes,
            user=user.credentials() if user is not None else None,
        )
        for one, place in zip(processes, places, strict=True)
    )


def _boxed(
    processes: tuple[ProcessLaunch, ...],
    assignment: Assignment,
    container: Container,
    node: Node,
    folder: Folder,
    user: User | None,
) -> tuple[tuple[ProcessLaunch, ...], tuple[tuple[str, ...], ...]]:
    """In their containers, and what removes these. Raises Refusal."""
    if node.engine is None:
        raise Refusal(
            "NO_CONTAINER_ENGINE", "no container engine is installed on this node (podman, docker, nerdctl, apptainer)"
        )
    for mount in container.mounts:
        if not Path(mount.source).exists():
            raise Refusal("WORKDIR_MISSING", f"mounts: there is no {mount.source} on this node")
    folder.report.touch(mode=0o600)
    names = [boxes.name_of(assignment.worker_uid, number) for number in range(len(processes))]
    removals = tuple(node.engine.remove(name) for name in names) if node.engine.daemon else ()
    devices = _devices(assignment, node)
    return boxes.boxed(processes, assignment, container, node.engine, devices, folder, user), removals


def _give(folder: Folder, user: User) -> None:
    """The worker's own folders and its report file; what else is there stays the agent's. Raises OSError."""
    folder.path.chmod(0o711)
    folder.report.touch(mode=0o600)
    user.own(folder.work, folder.logs, folder.report)
    for at, folders, files in os.walk(folder.work):
        user.own(*(Path(at, name) for name in (*folders, *files)))


def storage_refusal(error: OSError, what: str) -> Refusal:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Refusal("DISK_FULL", f"{what}: {os.strerror(error.errno)} ({error.filename})")
    return Refusal("PERMISSION" if isinstance(error, PermissionError) else "LAUNCH_FAILED", f"{what}: {error}")


def busy_ports(ports: Iterable[int]) -> tuple[int, ...]:
    """Those of `ports` on which somebody listens, on any address of this network stack."""
    return tuple(port for port in ports if not _free(port))


def find_program(name: str, path: str, workdir: str) -> str:
    """The program that execvpe would run. Raises Refusal."""
    if "/" not in name:
        found = shutil.which(name, path=path)
        if found is None:
            raise Refusal("NO_SUCH_COMMAND", f"there is no program {name!r} on the worker's PATH ({path})")
        return found
    program = Path(workdir, name)
    if not program.exists():
        raise Refusal("NO_SUCH_COMMAND", f"there is no file {program}")
    if program.is_dir() or not os.access(program, os.X_OK):
        raise Refusal("PERMISSION", f"{program} cannot be executed")
    return str(program)


def find_python(path: str) -> str:
    """The interpreter on `path`, as `%{python}`; the bare name when there is none, so that the refusal names it."""
    return shutil.which("python3", path=path) or shutil.which("python", path=path) or "python3"


def _site(folder: Folder, template: LaunchTemplate, node: Node, base: Mapping[str, str]) -> Site:
    return Site(
        python="python3" if template.how.container else find_python(path_of(template, base)),
        interface=node.interface,
        address=node.address,
        dir=str(folder.work),
        logs=str(folder.logs),
        report=str(folder.report),
        resume=template.resume,
    )


def _workdir(workdir: str, folder: Folder) -> str:
    path = folder.work / workdir
    try:
        is_folder = path.is_dir()
    except PermissionError as error:
        raise Refusal("PERMISSION", f"workdir {path}: {error.strerror}") from error
    if not is_folder:
        raise Refusal("WORKDIR_MISSING", f"there is no folder {path} on this node")
    if not os.access(path, os.X_OK):
        raise Refusal("PERMISSION", f"workdir {path} may not be entered")
    return str(path)


def _write_files(template: LaunchTemplate, site: Site, folder: Folder) -> None:
    """The template's files, below `%{dir}` only. Raises ValueError, OSError."""
    for name, text in template.files.items():
        path = Path(os.path.normpath(folder.work / name))
        if folder.work not in path.parents:
            raise ValueError(f"file {name!r} lies outside of the worker's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, expand(text, site.values()).encode())
    if template.script is not None:
        replace(folder.work / "script", template.script.encode(), mode=0o700)


def _free(port: int) -> bool:
    """With SO_REUSEADDR a bind fails when somebody listens, and does not when old connections merely linger."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("0.0.0.0", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True
