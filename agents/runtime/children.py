"""The agent's own child processes: shims and short helpers, and nobody else's.

The agent is a subreaper: when a shim dies, what it leaves behind becomes the agent's child. So all waiting is
done here, in one place, and a child that was not started here is such an orphan.
"""

import asyncio
import ctypes
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

PR_SET_CHILD_SUBREAPER = 36
NULL = Path("/dev/null")
MINIMAL = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
AT_HOME = (
    *("HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "REGISTRY_AUTH_FILE"),
    *("DOCKER_HOST", "DOCKER_CONFIG", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERD_ADDRESS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)


class Children:
    """Starts and reaps. `start` must have been called inside the running loop."""

    def __init__(self) -> None:
        self._exits: dict[int, asyncio.Future[int]] = {}

    def start(self) -> None:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self.reap)

    def known(self) -> set[int]:
        return set(self._exits)

    def spawn(
        self,
        argv: Sequence[str],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: Path = NULL,
        together: bool = False,
        home: bool = False,
        extra: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[int, asyncio.Future[int]]:
        """In a session of its own, with a minimal environment (`extra`: and these; `home`: and what programs need that keep files of their
        user, or reach out); what is not given is /dev/null. `together` sends stderr where stdout goes. The future is the
        exit status as os.waitstatus_to_exitcode gives it. Raises OSError."""
        appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        actions: list[tuple[object, ...]] = [
            (os.POSIX_SPAWN_OPEN, 0, str(NULL), os.O_RDONLY, 0) if stdin is None else (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(NULL), appending, 0) if stdout is None else (os.POSIX_SPAWN_DUP2, stdout, 1),
            (os.POSIX_SPAWN_DUP2, 1, 2) if together else (os.POSIX_SPAWN_OPEN, 2, str(stderr), appending, 0o600),
        ]
        names = (*MINIMAL, *(AT_HOME if home else ()))
        env = {name: os.environ[name] for name in names if name in os.environ} | dict(extra)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        pid = os.posix_spawn(argv[0], list(argv), env, file_actions=actions, setsid=True, setsigdef=[signal.SIGPIPE])
        self._exits[pid] = future
        return pid, future

    def reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                future = self._exits.pop(pid, None)
                if future is not None and not future.done():
                    future.set_result(os.waitstatus_to_exitcode(status))

    async def output(self, argv: Sequence[str], *, timeout: float, limit: int = 16 * 2**20) -> bytes:
        """What the command prints. Raises TimeoutError (it is killed then) and OSError."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        try:
            pid, exited = self.spawn(argv, stdout=write)
        except OSError:
            os.close(read)
            raise
        finally:
            os.close(write)
        try:
            async with asyncio.timeout(timeout):
                return await _read_all(read, limit)
        finally:
            os.close(read)
            if not exited.done():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


async def _read_all(descriptor: int, limit: int) -> bytes:
    loop, data, ended = asyncio.get_running_loop(), bytearray(), asyncio.Event()

    def ready() -> None:
        try:
            piece = os.read(descriptor, 65536)
        except BlockingIOError:
            return
        data.extend(piece)
        if not piece or len(data) > limit:
            ended.set()

    loop.add_reader(descriptor, ready)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
    return bytes(data)
