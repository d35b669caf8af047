"""The shim's main thread: commands, output, signals and deadlines in one poll loop.

It never touches the disk once ranks run, so a hung disk delays no kill.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from _socket import AF_UNIX, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET, socket  # the C class alone

from agents.shims.cgroup import Groups
from agents.shims.diary import Diary, boottime
from agents.shims.plain import loads
from agents.shims.processes import Process, descendants, start_time
from agents.shims.removal import Removals
from agents.shims.sessions import Sessions
from agents.shims.streams import LogWriter, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal  # `signal` itself would bring `enum`

READ = 256 * 1024
FLUSH = 2.0
"""Seconds that the end waits for output to reach a slow disk."""
FENCED = "fenced"
MSG_CMSG_CLOEXEC, PASSED = 0x40000000, 64
"""The flag of recvmsg(2), and room for the descriptors that come with a command."""


class Shim:
    """Waiting, running, stopping, dead: `_started`, `_kill_at` and `_dead` say which. `launch` is launch.json."""

    def __init__(self, launch: dict[str, Any]) -> None:
        self._launch = launch
        self._deadline: float | None = launch["deadline"]
        self._wake_read, self._wake_write = os.pipe()
        for fd in (self._wake_read, self._wake_write):
            os.set_blocking(fd, False)
        self._diary = Diary("diary.jsonl", 256 * (2 * len(launch["processes"]) + 16), self._wake)
        self._logs = LogWriter(self._log_failed)
        self._poll = select.poll()
        self._clients: dict[int, tuple[socket, bytearray, list[int]]] = {}
        self._outputs: dict[int, Process] = {}
        self._processes: list[Process] = []
        self._groups, self._oom_kills = Groups(launch["worker"]), 0
        self._removals = Removals(launch.get("removals") or (), launch["worker"])
        self._sessions = Sessions(self._poll, self._groups)
        self._told, self._why = 0, ""
        self._kill_at: float | None = None
        self._kill_pause = 0.02
        self._started = self._dead = self._log_error = self._terminate = False
        self._listener = _listen("shim.sock")

    def run(self) -> None:
        """Until every process is dead and the diary says so."""
        self._take_signals()
        start = {key: self._launch[key] for key in ("worker", "attempt", "epoch", "revision", "boot_id")}
        self._diary.append("shim", pid=os.getpid(), start=start_time(os.getpid()), **start)
        self._poll.register(self._listener.fileno(), select.POLLIN)
        self._poll.register(self._wake_read, select.POLLIN)
        while not (self._dead and self._diary.settled()):
            for fd, _ in self._poll.poll(self._timeout()):
                self._handle(fd)
            self._tick()
        self._diary.close()
        self._tell()

    def _take_signals(self) -> None:
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._told_to_end)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _told_to_end(self, *_: object) -> None:
        self._terminate = True

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b".")

    def _log_failed(self, error: OSError) -> None:
        if not self._log_error:
            self._log_error = True
            self._diary.append("log_error", errno=error.errno, why=error.strerror)

    def _timeout(self) -> float | None:
        """Milliseconds. A second at most, since poll's clock stands still while the machine sleeps."""
        moments = (self._deadline, self._kill_at, self._sessions.next_kill())
        times = [moment for moment in moments if moment is not None]
        if not times:
            return None
        return max(0.0, min(1.0, min(times) - boottime())) * 1000

    def _handle(self, fd: int) -> None:
        if fd == self._listener.fileno():
            self._accept()
        elif fd == self._wake_read:
            with contextlib.suppress(OSError):
                os.read(fd, 4096)
        elif fd in self._outputs:
            self._pump(fd)
        elif fd in self._clients:
            self._commands(fd)
        elif self._sessions.owns(fd):
            self._sessions.hung_up(fd)

    def _tick(self) -> None:
        now = boottime()
        if self._terminate:
            self._terminate = False
            self._stop(self._launch["grace"], "the shim was told to end")
        if self._deadline is not None and now >= self._deadline:
            self._deadline, self._why = None, FENCED
            self._kill()
            self._diary.append(FENCED)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill()
        self._sessions.tick(now)
        self._reap()
        if self._told < self._diary.durable:
            self._tell()

    # -- the agent -----------------------------------------------------------------------------------

    def _accept(self) -> None:
        fd, _ = self._listener._accept()  # type: ignore[attr-defined]  # what socket.accept is made of
        client = socket(fileno=fd)
        credentials = client.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)  # struct ucred: pid, uid, gid
        if int.from_bytes(credentials[4:8], sys.byteorder) not in (0, os.geteuid()):
            client.close()
            return
        client.setblocking(False)
        self._clients[fd] = (client, bytearray(), [])
        self._poll.register(fd, select.POLLIN)
        _ring(client)

    def _tell(self) -> None:
        self._told = self._diary.durable
        for client, *_ in self._clients.values():
            _ring(client)

    def _commands(self, fd: int) -> None:
        client, pending, passed = self._clients[fd]
        try:
            data, more, _, _ = client.recvmsg(65536, PASSED, MSG_CMSG_CLOEXEC)
            for _, _, packed in more:
                passed += memoryview(packed).cast("i").tolist()
        except BlockingIOError:
            return
        except OSError:
            data = b""
        pending += data
        try:
            while b"\n" in pending:
                line, _, rest = bytes(pending).partition(b"\n")
                pending[:] = rest
                self._obey(loads(line), passed)
        except (ValueError, KeyError, TypeError):
            data = b""  # whoever this is, it does not speak our language
        if not data or len(pending) > 65536:
            self._poll.unregister(fd)
            del self._clients[fd]
            client.close()
            for each in passed:
                os.close(each)

    def _obey(self, command: dict[str, Any], passed: list[int]) -> None:
        """`passed` are descriptors that came with it; a command takes as many as are its own."""
        if command["do"] == "deadline":
            if self._why != FENCED:
                self._deadline = None if command["at"] is None else float(command["at"])
        elif command["do"] == "stop":
            self._stop(float(command["grace"]), str(command["why"]))
        elif command["do"] == "go" and not self._started and self._kill_at is None and not self._dead:
            self._go()
        elif command["do"] == "exec":
            fds, passed[:] = passed[:4], passed[4:]
            if self._started and not self._dead:
                self._sessions.start(self._launch["processes"][command["process"]], command, fds)
            else:
                for each in fds:
                    os.close(each)

    # -- the processes -------------------------------------------------------------------------------

    def _go(self) -> None:
        """`go` is durable before anything runs: who reads the diary later knows that there may be something to kill."""
        if self._deadline is not None and boottime() >= self._deadline:
            return
        self._started = True
        self._diary.append("go", **self._enforce())
        self._diary.wait()
        streams: dict[str, Stream] = {}
        for index, spec in enumerate(self._launch["processes"]):
            name = spec["stream"]
            stream = streams.setdefault(name, Stream(name, self._launch["log_limit"]))
            process = Process(index, spec, stream)
            process.start(self._groups)
            self._processes.append(process)
            self._outputs[process.output] = process
            self._poll.register(process.output, select.POLLIN)
        for process in self._processes:
            start = start_time(process.pid)
            self._diary.append(
                "started", process=process.index, rank=process.spec["rank"], pid=process.pid, start=start
            )

    def _enforce(self) -> dict[str, list[str]]:
        """What of the limits cannot be enforced here, for whoever reads the diary."""
        limits = self._launch.get("limits") or {}
        failed = self._groups.limit(limits.get("cpu", 0), limits.get("memory", 0))
        if self._launch.get("denied"):
            from agents.shims import access  # most workers need none of it

            denied = [found for path in self._launch["denied"] if (found := access.numbers(path))]
            if not access.deny(self._groups.by_kind, denied):
                failed.append("devices")
        return {"unenforced": failed} if failed else {}

    def _pump(self, fd: int) -> None:
        try:
            data = os.read(fd, READ)
        except BlockingIOError:
            return
        if data:
            self._logs.put(self._outputs[fd].stream, data)
            return
        self._poll.unregister(fd)
        del self._outputs[fd]
        os.close(fd)

    def _stop(self, grace: float, why: str) -> None:
        """SIGTERM now, SIGKILL for everything below after `grace` seconds. A repeat can only shorten the grace."""
        until = boottime() + max(0.0, grace)
        if self._dead or (self._kill_at is not None and self._kill_at <= until):
            return
        first, self._kill_at = self._kill_at is None, until
        self._why = self._why or why
        self._diary.append("stop", grace=grace, why=why)
        self._sessions.hang_up_all()
        for process in self._processes if first else ():
            if process.exit is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)

    def _kill(self) -> None:
        """One round: freeze until nobody new appears, which no fork bomb outruns, then kill. `_tick` repeats it."""
        seen: set[int] = set()
        self._removals.start(boottime())
        spared = self._removals.own()
        while new := (descendants(os.getpid()) | self._removals.marked()) - seen - spared:
            seen |= new
            for pid in new:
                _send(pid, signal.SIGSTOP)
        for pid in seen:
            _send(pid, signal.SIGKILL)
        self._groups.kill()
        self._kill_at = boottime() + self._kill_pause
        self._kill_pause = min(1.0, self._kill_pause * 2)

    def _reap(self) -> None:
        """Collects the dead. A subreaper has no child left exactly when no descendant is left: ECHILD is the proof."""
        by_pid = {process.pid: process for process in self._processes if process.exit is None}
        while not self._dead:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                if self._started and self._removals:
                    self._removals.start(boottime())
                    self._kill_at = boottime() + self._kill_pause
                elif self._started or self._kill_at is not None:
                    self._all_dead()
                return
            if pid == 0:
                break
            if process := by_pid.pop(pid, None):
                self._diary.append("exit", **process.ended(status), **self._oom(status))
            else:
                self._sessions.ended(pid, status)
                self._removals.ended(pid, status, boottime())
        if self._started and self._kill_at is None and not by_pid:
            self._kill()  # what a finished worker has left behind

    def _oom(self, status: int) -> dict[str, bool]:
        """SIGKILL is called want of memory only when the kernel has counted one more such kill in this worker."""
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL or self._groups.oom_kills() <= self._oom_kills:
            return {}
        self._oom_kills += 1
        return {"oom": True}

    def _all_dead(self) -> None:
        self._dead, self._kill_at, self._deadline = True, None, None
        self._groups.close()
        for fd in list(self._outputs):
            while fd in self._outputs:
                self._pump(fd)
        until = boottime() + FLUSH
        while not self._logs.settled() and boottime() < until:
            time.sleep(0.001)
        self._diary.append("dead", why=self._why, exits=[process.exit for process in self._processes])


def _listen(path: str) -> socket:
    """Raises OSError. `path` is relative: an absolute one may be longer than the 108 bytes of a sockaddr_un."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket(AF_UNIX, SOCK_STREAM)
    listener.bind(path)
    listener.listen(4)
    listener.setblocking(False)
    return listener


def _ring(client: socket) -> None:
    with contextlib.suppress(OSError):
        client.send(b".")


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
