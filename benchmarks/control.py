"""How fast the control plane is, beside what its rows cost as plain INSERTs: `./run bench control [--database sqlite]`.

One API process on a PostgreSQL with fsync on (or SQLite), real HTTP by threads of this process, everything on this
machine. Whatever else runs on it makes the figures worse; the load is printed with them.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import create_engine, text

from controller.state import open_store
from muster.client import Client, MusterError
from muster.clock import SystemClock

ROOT = Path(__file__).parents[1]
CLIENTS = 16
SPEC = {"command": ["true"], "workers": 1}


def plain_inserts(url: str, seconds: float) -> float:
    """Transactions a second of one connection that inserts the rows of one submission (job, event, two changes)."""
    engine = create_engine(url)
    body = "x" * 600
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS plain (a BIGINT, b TEXT)"))
    end, count = time.monotonic() + seconds, 0
    with engine.connect() as connection:
        while time.monotonic() < end:
            for size in (600, 200, 60, 60):
                connection.execute(text("INSERT INTO plain VALUES (:a, :b)"), {"a": count, "b": body[:size]})
            connection.commit()
            count += 1
    engine.dispose()
    return count / seconds


def submissions(url: str, token: str, seconds: float) -> list[float]:
    """Milliseconds of each acknowledged submission by 16 clients, each with one connection that it keeps."""
    took: list[float] = []
    end = time.monotonic() + seconds

    def submit(index: int) -> None:
        client, number = Client(url, token, retries=0), 0
        while time.monotonic() < end:
            job = {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": f"bench-{index}-{number}"}}
            began = time.monotonic()
            client.create(job | {"spec": SPEC})
            took.append((time.monotonic() - began) * 1000)
            number += 1

    threads = [threading.Thread(target=submit, args=(index,)) for index in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def pages(url: str, token: str, rounds: int) -> list[float]:
    """Milliseconds of a page of 100 jobs."""
    client, took = Client(url, token), []
    for _ in range(rounds):
        began = time.monotonic()
        client.http.json("GET", "/api/v1/jobs", {"limit": 100})
        took.append((time.monotonic() - began) * 1000)
    return took


def serve(folder: Path, database: str) -> tuple["subprocess.Popen[bytes]", str, str]:
    """An API process, its URL and its token."""
    from tests.chaos.soak.cluster import free_ports

    (port,) = free_ports(1)
    env = os.environ | {
        "PYTHONPATH": str(ROOT),
        "MUSTER_DATABASE_URL": database,
        "MUSTER_LOG_STORE": str(folder / "logs"),
        "MUSTER_API_PORT": str(port),
        "MUSTER_ADMIN_TOKEN_FILE": str(folder / "token"),
        "MUSTER_AGENT_TOKEN_FILE": str(folder / "agent-token"),
        "MUSTER_SECRET_FILE": str(folder / "secret"),
    }
    with (folder / "api.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-P", "-m", "api.main"], env=env, stdout=log, stderr=log)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with suppress(OSError, MusterError):
            token = (folder / "token").read_text().strip()
            Client(f"http://127.0.0.1:{port}", token, retries=0).http.json("GET", "/api/v1/version")
            return process, f"http://127.0.0.1:{port}", token
        time.sleep(0.1)
    process.kill()
    raise SystemExit((folder / "api.log").read_text(errors="replace")[-2000:])


def percentile(samples: list[float], share: float) -> float:
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * share))]


def main() -> int:
    asked = argparse.ArgumentParser(prog="./run bench control", description=__doc__)
    asked.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    asked.add_argument("--seconds", type=float, default=10.0, help="of each measurement (10)")
    given = asked.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    server: Any = None
    url = f"sqlite:///{folder}/muster.db"
    if given.database == "postgresql":
        from tests.chaos.soak.postgres import Postgres

        server = Postgres(Path(tempfile.mkdtemp(prefix="muster-bench-postgres-")))
        url = server.url
    try:
        measure(folder, url, given.seconds)
    finally:
        if server is not None:
            server.close()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def measure(folder: Path, database: str, seconds: float) -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start; {database.partition(':')[0]}")
    store = open_store(database, clock=SystemClock(), new_id=str)
    store.migrate()
    store.close()
    limit = plain_inserts(database, seconds / 2)
    process, url, token = serve(folder, database)
    try:
        took = submissions(url, token, seconds)
        listed = pages(url, token, 30)
    finally:
        process.terminate()
        process.wait(30)
    rate = len(took) / seconds
    rows = [
        ("submissions acknowledged, 16 clients", f"{rate:.0f} /s", ">= 300 /s"),
        ("  median, p99", f"{statistics.median(took):.0f} ms, {percentile(took, 0.99):.0f} ms", "p99 < 150 ms"),
        ("  the same rows as plain INSERTs, 1 connection", f"{limit:.0f} /s", "beside it"),
        (f"a page of 100 of {len(took)} jobs, median", f"{statistics.median(listed):.0f} ms", "< 50 ms"),
    ]
    for name, value, wanted in rows:
        print(f"{name:<50} {value:>18}   {wanted}")
    print(f"load {os.getloadavg()[0]:.1f} at the end; clients, API and database share these cores")
    print("Slurm 22.05 on a machine like this one: 144 to 270 sbatch a second with 8 clients")


if __name__ == "__main__":
    sys.exit(main())
