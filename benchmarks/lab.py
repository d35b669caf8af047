"""The control plane to be measured: a PostgreSQL with fsync on (or SQLite), a Redis, API processes and a controller, all
on this machine and all of this program's own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from controller.records import NodeRecord
from controller.state import Store, open_store
from muster.client import Client, MusterError
from muster.clock import SystemClock
from muster.protocol import Device, Lease
from muster.states import NodePhase

ROOT = Path(__file__).parents[1]

NODE = NodeRecord(
    name="there-is-one",
    uid="there-is-one",
    phase=NodePhase.LOST,
    cpu_milli=64_000,
    memory=2**39,
    devices=tuple(Device(index=index, type="h100", virtual=True) for index in range(8)),
)
"""So that jobs are accepted without the warning that no cluster like this could run them. Nothing starts on it."""


def free_ports(count: int) -> list[int]:
    from tests.chaos.soak.cluster import free_ports as found

    return found(count)


class Lab:
    """Ends everything it started when it is closed."""

    def __init__(self, database: str) -> None:
        self.kind = database
        self.folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
        self._postgres: Any = None
        self._redis: subprocess.Popen[bytes] | None = None
        self.redis_url = self._start_redis()
        if database == "postgresql":
            from tests.chaos.soak.postgres import Postgres

            self._postgres = Postgres(Path(tempfile.mkdtemp(prefix="muster-bench-postgres-")))

    def database(self, name: str) -> str:
        """The URL of a new, migrated database."""
        if self._postgres is None:
            url = f"sqlite:///{self.folder / name}.db"
        else:
            engine = create_engine(self._postgres.url, isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.execute(text(f"CREATE DATABASE {name}"))
            engine.dispose()
            url = make_url(self._postgres.url).set(database=name).render_as_string(hide_password=False)
        with self.store(url) as store, store.write() as w:
            w.put_node(NODE)
        return url

    def store(self, url: str) -> "Opened":
        return Opened(url)

    def site(self, url: str, *, apis: int = 1, lease: Lease | None = None) -> "Site":
        return Site(self, url, apis=apis, lease=lease or Lease())

    def close(self) -> None:
        if self._redis is not None:
            self._redis.kill()
            self._redis.wait()
        if self._postgres is not None:
            self._postgres.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_redis(self) -> str:
        """Empty where there is none: everything polls then."""
        from cli.up.checks import redis_binary

        binary = redis_binary()
        if binary is None:
            return ""
        (port,) = free_ports(1)
        words = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._redis = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return f"redis://127.0.0.1:{port}/0"


class Opened:
    """A store on a database of its own making, for the length of a block."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> Store:
        self._store = open_store(self._url, clock=SystemClock(), new_id=lambda: uuid.uuid4().hex)
        self._store.migrate()
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.close()


class Site:
    """API processes on one database, and a controller when asked for; for the length of a block."""

    def __init__(self, lab: Lab, database: str, *, apis: int, lease: Lease) -> None:
        self._lab, self._folder = lab, Path(tempfile.mkdtemp(prefix="site-", dir=lab.folder))
        self._ports = free_ports(apis)
        self.urls = [f"http://127.0.0.1:{port}" for port in self._ports]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._env = os.environ | {
            "PYTHONPATH": str(ROOT),
            "MUSTER_DATABASE_URL": database,
            "MUSTER_REDIS_URL": lab.redis_url,
            "MUSTER_LOG_STORE": str(self._folder / "logs"),
            "MUSTER_LOG_LEVEL": "warning",
            "MUSTER_LEASE": json.dumps(
                {"renew": lease.renew, "unknown": lease.unknown, "fence": lease.fence, "margin": lease.margin}
            ),
            "MUSTER_ADMIN_TOKEN_FILE": str(self._folder / "token"),
            "MUSTER_AGENT_TOKEN_FILE": str(self._folder / "agent-token"),
            "MUSTER_SECRET_FILE": str(self._folder / "secret"),
        }

    def __enter__(self) -> "Site":
        for number, port in enumerate(self._ports):
            self._start(f"api-{number}", "api.main", MUSTER_API_PORT=str(port))
            self._await_api(number)
        self.token, self.agent_token = ((self._folder / name).read_text().strip() for name in ("token", "agent-token"))
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            with suppress(OSError):
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def client(self) -> Client:
        return Client(self.urls[0], self.token)

    def lead(self) -> None:
        """From now on there is a controller."""
        self._start("controller", "controller.main")

    def memory(self, name: str) -> float:
        """Resident memory of a process in MiB."""
        pages = int(Path(f"/proc/{self.processes[name].pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def _start(self, name: str, module: str, **env: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", module], env={**self._env, **env}, stdout=log, stderr=log
            )

    def _await_api(self, number: int) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.processes[f"api-{number}"].poll() is None:
            with suppress(OSError, MusterError):
                token = (self._folder / "token").read_text().strip()
                Client(self.urls[number], token, retries=0).version()
                return
            time.sleep(0.1)
        raise SystemExit((self._folder / f"api-{number}.log").read_text(errors="replace")[-2000:])
