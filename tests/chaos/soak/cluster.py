"""A cluster with two of each server, whose processes are started again when they end, as an init system would."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from cli.up.checks import redis_binary
from cli.up.layout import Layout
from cli.up.parts import Part, Plan, parts
from muster.client import Client
from tests.chaos.soak.machine import CLOCK, Cable, SmallDisk, WallClock, is_root
from tests.chaos.soak.proxy import Network

ROOT = Path(__file__).parents[3]
LEASE = {"renew": 0.5, "unknown": 3.0, "fence": 8.0, "margin": 3.0}
NODES = 4


def free_ports(count: int) -> list[int]:
    with_ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [one.getsockname()[1] for one in with_ports]
    for one in with_ports:
        one.close()
    return found


class Cluster:
    """`database_url` is of a database that is there already; SQLite in `folder` without it. `each`: how many API
    servers and how many controllers. `machine`: the last node is at the end of a cable, the disks of the one before and
    of the log store are small, and the wall clock can be set wrong. Cable and disks are only there for root."""

    def __init__(
        self,
        folder: Path,
        database_url: str | None = None,
        *,
        each: int = 2,
        nodes: int = NODES,
        seed: int = 0,
        machine: bool = False,
    ) -> None:
        self.folder = folder
        self.layout = Layout(folder)
        self.layout.log("x").parent.mkdir(parents=True)
        self.database_url = database_url or f"sqlite:///{self.layout.database}"
        self._each = each
        *self.api_ports, redis_port = free_ports(each + 1)
        self.redis = (redis_port, "soak")
        plan = Plan(
            layout=self.layout,
            host="127.0.0.1",
            port=0,
            agents=nodes,
            devices="h100:4",
            nodes_per_leaf=2,
            redis_binary=redis_binary(),
            redis_port=redis_port,
            redis_password="soak",
        )
        names = plan.nodes()
        self.clock = WallClock(folder)
        root = machine and is_root()
        self.cable = Cable(self.api_ports[0]) if root else None
        self.disks = [SmallDisk(self.layout.agent(names[-2])), SmallDisk(folder / "logs")] if root else []
        hosts = {names[-1]: self.cable.host} if self.cable else {}
        self.network = Network(names, self.api_ports, seed=seed, hosts=hosts)
        self.parts = {part.name: part for part in self._parts(plan)}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock, self._ending = threading.Lock(), threading.Event()
        for name in self.parts:
            self._start(name)
            if name == "api-0":
                self._await_api()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def _parts(self, plan: Plan) -> list[Part]:
        """Two of each server, and agents that reach them through the network that can be broken."""
        made = []
        for part in parts(plan):
            env = {
                **part.env,
                **self.clock.env,
                "MUSTER_LEASE": json.dumps(LEASE),
                "MUSTER_DATABASE_URL": self.database_url,
            }
            env |= {"MUSTER_WEBHOOK_BACKOFF": "0.3"}
            if part.name == "api":
                ports = enumerate(self.api_ports)
                made += [replace(part, name=f"api-{i}", env=env | {"MUSTER_API_PORT": str(port)}) for i, port in ports]
            elif part.name == "controller":
                made += [replace(part, name=f"controller-{index}", env=env) for index in range(self._each)]
            elif part.name == "worker" and self._each == 1:
                continue  # a small cluster has no web hooks
            elif part.node:
                link = self.network.links[part.node]
                env |= {"MUSTER_SERVER": f"http://{link.host}:{link.port}"}
                cut_off = self.cable is not None and part.node == plan.nodes()[-1]
                argv = self.cable.within(part.argv) if self.cable is not None and cut_off else part.argv
                made.append(replace(part, argv=argv, env=env))
            else:
                made.append(replace(part, env=env))
        return made

    def _start(self, name: str) -> None:
        part = self.parts[name]
        env = {**os.environ, **part.env, "PYTHONPATH": f"{CLOCK}{os.pathsep}{ROOT}"}
        with self.layout.log(name).open("ab") as log:
            process = subprocess.Popen(
                part.argv, env=env, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(part.stdin.encode())
            process.stdin.close()
        self.processes[name] = process

    def _await_api(self) -> None:
        """The first API makes tables and tokens."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.api_ports[0]), 1):
                return
            time.sleep(0.1)
        raise AssertionError(self.layout.log("api-0").read_text(errors="replace")[-2000:])

    def _keep(self) -> None:
        while not self._ending.wait(0.2):
            with self._lock:
                for name, process in self.processes.items():
                    if process.poll() is not None and not self._ending.is_set():
                        self._start(name)

    @contextmanager
    def down(self, *names: str) -> Iterator[None]:
        """These are killed, and started again only afterwards."""
        with self._lock:
            for name in names:
                self.signal(name, signal.SIGKILL)
                self.processes[name].wait(30)
            yield

    def servers(self) -> list[str]:
        """Everything that has the database open."""
        return [name for name in self.parts if name.startswith(("api", "controller", "worker"))]

    def client(self, index: int = 0) -> Client:
        token = self.layout.token.read_text().strip()
        return Client(f"http://127.0.0.1:{self.api_ports[index]}", token, timeout=10.0, retries=20)

    def signal(self, name: str, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.processes[name].pid, number)

    def flush_redis(self) -> None:
        import redis

        port, password = self.redis
        with suppress(redis.RedisError):
            redis.Redis(port=port, password=password, socket_timeout=2).flushall()

    def found(self, what: str) -> list[int]:
        """Living `shim`s or `rank`s of this cluster by pid, as /proc shows them."""
        mark = os.fsencode(self.layout.agents)
        pids = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    shim = b"agents/shim.py" in (entry / "cmdline").read_bytes()
                    environ = (entry / "environ").read_bytes()
                    ours = mark in environ or mark in (entry / "cmdline").read_bytes()
                    if ours and (shim if what == "shim" else b"MUSTER_REPORT=" in environ and not shim):
                        pids.append(int(entry.name))
        return sorted(pids)

    def close(self) -> None:
        """Ends every process that this cluster started, of whatever generation."""
        self._ending.set()
        self._keeper.join(10)
        with self._lock:
            for name, process in self.processes.items():
                self.signal(name, signal.SIGKILL)
                process.wait(30)
        for what in ("rank", "shim", "rank"):
            for pid in self.found(what):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for disk in self.disks:
            disk.close()
        if self.cable is not None:
            self.cable.close()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
