"""Starts the parts, keeps them running, ends them all. One thread, one select: children's deaths, control, time."""

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

from cli.up import processes
from cli.up.layout import Layout
from cli.up.parts import Part
from cli.up.refusal import CannotStart
from cli.up.watchdog import end_shims

STABLE = 5.0  # seconds after which a restart counts as good
LONGEST_PAUSE = 5.0  # seconds between restarts of a part that keeps dying
HOPELESS = 5  # deaths in a row, each within STABLE: before the cluster was ready the end, later worth its last words
READY_WITHIN = 180.0  # seconds after which a cluster that is not ready is given up
PATIENCE = 4.0  # seconds for each group of processes at the end


class LastWords(TypedDict):
    """Of a part that died: how a refusal shows them."""

    details: list[str]
    hint: str


@dataclass(slots=True)
class Child:
    """A part and its process. `off` parts are not started again."""

    part: Part
    process: subprocess.Popen[bytes] | None = None
    since: float = 0.0
    start_at: float = 0.0
    restarts: int = 0
    quick_deaths: int = 0
    off: bool = False

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process and self.process.returncode is None else None


class Supervisor:
    """`say` prints a line for people. `ready` names the parts that do their work (asked until all of them do)."""

    def __init__(
        self,
        layout: Layout,
        parts: list[Part],
        *,
        about: dict[str, Any],
        say: Callable[[str], None],
        ready: Callable[[], frozenset[str]],
    ) -> None:
        self._layout, self._about, self._say, self._is_ready = layout, about, say, ready
        self._children = {part.name: Child(part) for part in parts}
        self._stop = False
        self._ready_at: float | None = None
        self._told: set[str] = set()
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        self._began = time.monotonic()

    def run(self, on_ready: Callable[[float], None]) -> None:
        """Until told to stop; then everything that was started is gone. Raises CannotStart."""
        processes.become_subreaper()
        self._take_signals()
        control = self._listen()
        try:
            while not self._stop:
                self._start_due()
                self._look_ready(on_ready)
                self._wait()
                self._reap()
        finally:
            control.close()
            self._layout.control.unlink(missing_ok=True)
            self._end_all()
            self._layout.state.unlink(missing_ok=True)

    # -- starting and restarting ---------------------------------------------------------------------

    def _start_due(self) -> None:
        now = time.monotonic()
        due = [child for child in self._children.values() if self._wanted(child) and now >= child.start_at]
        for child in due:
            try:
                self._start(child)
            except OSError as error:
                self._not_started(child, error)
        if due:
            self._write_state()

    def _wanted(self, child: Child) -> bool:
        """It does not run and should, now or when its pause is over."""
        held = child.process is None and child.part.after and child.part.after not in self._told
        return not child.off and child.pid is None and not held

    def _start(self, child: Child) -> None:
        part = child.part
        path = self._layout.log(part.name)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        parent = os.getpid()
        env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        env.update(part.env, PYTHONUNBUFFERED="1")
        with path.open("ab") as log:
            child.process = subprocess.Popen(
                part.argv,
                stdin=subprocess.PIPE if part.stdin else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                preexec_fn=lambda: processes.die_with(parent),  # noqa: PLW1509 - one thread only
                start_new_session=True,
            )
        if part.stdin and child.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                child.process.stdin.write(part.stdin.encode())
                child.process.stdin.close()
        child.since = time.monotonic()

    def _not_started(self, child: Child, error: OSError) -> None:
        """No process could be made, or no log file: the machine is short of something."""
        why = f"{child.part.name} cannot be started: {error.strerror or error}"
        if self._ready_at is None:
            raise CannotStart(why, hint="`muster doctor` tells what this machine lacks") from None
        self._say(f"{why}; trying again")
        child.start_at = time.monotonic() + LONGEST_PAUSE

    def _reap(self) -> None:
        now = time.monotonic()
        changed = False
        for child in self._children.values():
            if child.process is None or child.process.poll() is None or child.start_at > child.since:
                continue
            changed = True
            self._died(child, now)
        self._reap_orphans()
        if changed:
            self._write_state()

    def _died(self, child: Child, now: float) -> None:
        assert child.process
        code = child.process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        child.quick_deaths = child.quick_deaths + 1 if now - child.since < STABLE else 1
        hopeless = child.quick_deaths == HOPELESS
        if self._ready_at is None and hopeless:
            raise CannotStart(f"{child.part.name} {how}, {HOPELESS} times", **self._last_words(child.part))
        growth = 0 if code < 0 else child.quick_deaths - 1  # who was killed from outside is not to blame
        pause = min(child.part.restart_after * 2**growth, LONGEST_PAUSE)
        child.start_at = max(now + pause, child.since + 1e-6)
        child.restarts += 1
        if child.off:
            return
        self._say(f"{child.part.name} {how}; starting it again")
        if hopeless:
            words = CannotStart(f"{child.part.name} keeps dying", **self._last_words(child.part))
            self._say("\n".join(words.lines()))

    def _last_words(self, part: Part) -> LastWords:
        path = self._layout.log(part.name)
        try:
            with path.open("rb") as log:
                log.seek(max(0, path.stat().st_size - 2**16))
                lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        return {"details": lines[-5:], "hint": f"see {path}"}

    def _reap_orphans(self) -> None:
        """Shims whose agent died, and what is left of theirs, are our children now; take their exit statuses."""
        known = {child.process.pid for child in self._children.values() if child.process}
        for pid in processes.children(os.getpid()):
            if pid not in known:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    # -- waiting -------------------------------------------------------------------------------------

    def _take_signals(self) -> None:
        for fd in (self._wake_read, self._wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, lambda: os.read(self._wake_read, 4096))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._told_to_stop)

    def _told_to_stop(self, *_: object) -> None:
        self._stop = True

    def _wait(self) -> None:
        pause = 0.05 if self._ready_at is None else 1.0
        now = time.monotonic()
        for child in self._children.values():
            if self._wanted(child):
                pause = min(pause, max(0.0, child.start_at - now))
        for key, _ in self._selector.select(pause):
            key.data()

    def _look_ready(self, on_ready: Callable[[float], None]) -> None:
        """Each part is told once, the cluster when the last of them is there."""
        if self._ready_at is not None:
            return
        now = time.monotonic()
        alive = {name for name, child in self._children.items() if child.pid is not None}
        for name in sorted((self._is_ready() & alive) - self._told, key=list(self._children).index):
            self._told.add(name)
            self._say(f"  {name:<14} ready  {now - self._began:5.1f} s  pid {self._children[name].pid}")
        missing = self._children.keys() - self._told
        if not missing:
            self._ready_at = now
            self._write_state()
            on_ready(now - self._began)
        elif now - self._began > READY_WITHIN:
            names = [name for name in self._children if name in missing]
            words = self._last_words(self._children[names[0]].part)
            raise CannotStart(f"not ready after {READY_WITHIN:g} s: {', '.join(names)}", **words)

    # -- control -------------------------------------------------------------------------------------

    def _listen(self) -> socket.socket:
        """Requests are one JSON object a connection: {"do": "stop" | "lose" | "return" | "status", "node": NAME}."""
        self._layout.control.unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX)
        here = os.open(self._layout.folder, os.O_PATH)
        old = os.umask(0o177)
        try:
            server.bind(f"/proc/self/fd/{here}/{self._layout.control.name}")  # short, whatever the folder's name
        finally:
            os.umask(old)
            os.close(here)
        server.listen(8)
        self._selector.register(server, selectors.EVENT_READ, lambda: self._answer(server))
        return server

    def _answer(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(1.0)
            try:
                request = json.loads(connection.recv(65536))
                answer = self._do(request)
            except (OSError, ValueError, KeyError, TypeError) as error:
                answer = {"error": str(error)}
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(answer).encode())

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        match request.get("do"):
            case "stop":
                self._stop = True
                return {"pid": os.getpid()}
            case "status":
                return self._state()
            case "lose":
                return self._lose(self._agent(request.get("node")))
            case "return":
                return self._return(self._agent(request.get("node")))
            case other:
                raise ValueError(f"unknown request {other!r}")

    def _agent(self, node: str | None) -> Child:
        for child in self._children.values():
            if child.part.node and child.part.node == node:
                return child
        raise ValueError(
            f"there is no node {node}; nodes: {', '.join(c.part.node for c in self._children.values() if c.part.node)}"
        )

    def _lose(self, child: Child) -> dict[str, Any]:
        """As if the machine had lost power: agent, shims and ranks die at once, and nothing is started again."""
        child.off = True
        frozen = processes.freeze([] if child.pid is None else [child.pid])  # it starts no further shim
        doomed = processes.freeze([*frozen, *processes.shim_pids(self._layout.agent(child.part.node))])
        processes.kill(doomed)
        processes.end(doomed, 0.0)
        self._write_state()
        return {"node": child.part.node, "killed": sorted(doomed)}

    def _return(self, child: Child) -> dict[str, Any]:
        child.off, child.start_at, child.quick_deaths = False, 0.0, 0
        return {"node": child.part.node}

    # -- state and end -------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        return {
            **self._about,
            "pid": os.getpid(),
            "ready": self._ready_at is not None,
            "processes": {
                name: {"pid": child.pid, "restarts": child.restarts, "off": child.off}
                for name, child in self._children.items()
            },
        }

    def _write_state(self) -> None:
        try:
            self._layout.write_state(self._state())
        except OSError as error:
            self._say(f"cannot write {self._layout.state}: {error}")

    def _end_all(self) -> None:
        """Agents first, so that nothing is started any more; then the shims with their ranks; then the servers."""
        agents = [child for child in self._children.values() if child.part.node]
        servers = [child for child in self._children.values() if not child.part.node]
        self._end_group(agents)
        end_shims(self._layout, PATIENCE)
        self._end_group([child for child in servers if child.part.name != "redis"])
        self._end_group([child for child in servers if child.part.name == "redis"])
        processes.end(processes.descendants(os.getpid()), 0.0)

    def _end_group(self, group: list[Child]) -> None:
        pids = [child.pid for child in group if child.pid is not None]
        processes.kill(pids, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        for child in group:
            if child.process is None:
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.01, deadline - time.monotonic()))
            if child.process.poll() is None:
                child.process.kill()
                child.process.wait()
