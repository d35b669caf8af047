"""What is broken, drawn from a seed. A fault is done and, where it lasts, undone by itself."""

import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

from tests.chaos.soak.cluster import LEASE, Cluster

SERVERS = ("api-0", "api-1", "controller-0", "controller-1", "worker", "redis")


class Faults:
    """`restart_database` is there where a database server is."""

    def __init__(self, cluster: Cluster, chance: random.Random, restart_database: Callable[[], None] | None) -> None:
        self._cluster, self._chance, self._restart_database = cluster, chance, restart_database
        self._timers: list[threading.Timer] = []
        self.done: dict[str, int] = {}
        kinds = [self.kill] * 5 + [self.pause] * 3 + [self.kill_below] * 4 + [self.pause_below] * 2
        kinds += [self.network] * 4 + [self.flush] + [self.clock] * 2
        kinds += [self.disk] * 2 if cluster.disks else []
        kinds += [self.cable] * 2 if cluster.cable else []
        kinds += [self.database] if restart_database else []
        self._kinds = kinds

    def one(self) -> None:
        name = self._chance.choice(self._kinds)()
        self.done[name] = self.done.get(name, 0) + 1

    def heal(self) -> None:
        """Everything that lasts is over."""
        for timer in self._timers:
            timer.join()
        self._cluster.network.heal()

    def kill(self) -> str:
        name = self._anyone()
        self._cluster.signal(name, signal.SIGKILL)
        return f"SIGKILL {name.partition('-')[0]}"

    def pause(self) -> str:
        """Controllers long enough to be replaced; an agent never past the fence."""
        name = self._anyone()
        longest = 5.0 if name.startswith("controller") else 2.0
        pid = self._cluster.processes[name].pid
        self._send(pid, signal.SIGSTOP)
        self._later(self._chance.uniform(0.2, longest), lambda: self._send(pid, signal.SIGCONT))
        return f"SIGSTOP {name.partition('-')[0]}"

    def kill_below(self) -> str:
        what, pid = self._below()
        self._send(pid, signal.SIGKILL)
        return f"SIGKILL {what}"

    def pause_below(self) -> str:
        """A shim for less than the margin, for it keeps the fence."""
        what, pid = self._below()
        self._send(pid, signal.SIGSTOP)
        self._later(self._chance.uniform(0.1, 0.8), lambda: self._send(pid, signal.SIGCONT))
        return f"SIGSTOP {what}"

    def network(self) -> str:
        node = self._chance.choice(sorted(self._cluster.network.links))
        state = self._chance.choice(["slow", "silent", "cut", "unruly", "unruly"])
        lost = state in ("silent", "cut") and self._chance.random() < 0.2
        self._cluster.network.become(node, state)
        longest = 10.0 if state == "unruly" else 4.0
        seconds = LEASE["fence"] + LEASE["margin"] + 2 if lost else self._chance.uniform(0.3, longest)
        self._later(seconds, lambda: self._cluster.network.become(node, "whole"))
        return f"network {state}" + (" past the fence" if lost else "")

    def cable(self) -> str:
        """The packets themselves stay away: neither side is told."""
        cable = self._cluster.cable
        assert cable is not None
        lost = self._chance.random() < 0.2
        cable.pull()
        self._later(LEASE["fence"] + LEASE["margin"] + 2 if lost else self._chance.uniform(0.3, 4.0), cable.plug)
        return "cable pulled" + (" past the fence" if lost else "")

    def disk(self) -> str:
        disk = self._chance.choice(self._cluster.disks)
        disk.fill()
        self._later(self._chance.uniform(0.5, 5.0), disk.free)
        return "disk full"

    def clock(self) -> str:
        """By hours forward, by less than a deadline's slack back: a row that was written then would seem overdue."""
        seconds = self._chance.choice([-60.0, -15.0, 15.0, 90.0, 7200.0])
        self._cluster.clock.jump(seconds)
        self._later(self._chance.uniform(1.0, 8.0), lambda: self._cluster.clock.jump(0.0))
        return f"clock jumps {'forward' if seconds > 0 else 'back'}"

    def flush(self) -> str:
        self._cluster.flush_redis()
        return "FLUSHALL"

    def database(self) -> str:
        assert self._restart_database is not None
        self._restart_database()
        return "restart database"

    def _anyone(self) -> str:
        names = [name for name in self._cluster.parts if name in SERVERS or name.startswith("agent")]
        return self._chance.choice(names)

    def _below(self) -> tuple[str, int | None]:
        what = self._chance.choice(["rank", "shim"])
        pids = self._cluster.found(what)
        return what, self._chance.choice(pids) if pids else None

    def _later(self, seconds: float, undo: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, undo)
        self._timers.append(timer)
        timer.start()

    @staticmethod
    def _send(pid: int | None, number: int) -> None:
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
