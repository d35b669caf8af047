"""How fast jobs are taken in: one by one from many clients, and in lists."""

import argparse
import asyncio
import time

from sqlalchemy import create_engine, text

from benchmarks.figures import Figure, at_least, below, beside, percentile
from benchmarks.lab import Lab
from benchmarks.wires import Http

CLIENTS = 16
LIST = 500
BULK_CLIENTS = 3
SPEC = {"command": ["true"], "workers": 1}
JOBS = "/api/v1/namespaces/default/jobs"
ROWS = (1100, 250, 500, 60, 60)
"""Bytes of what one submission writes, about: the job, its event, its entry in the audit trail, two changes."""


def plain_inserts(url: str, seconds: float, jobs: int) -> float:
    """Jobs a second of one connection that inserts the rows of `jobs` submissions in each transaction, into a table
    without any index."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS plain (a BIGINT, b TEXT)"))
    end, count = time.monotonic() + seconds, 0
    insert = text("INSERT INTO plain VALUES (:a, :b)")
    with engine.connect() as connection:
        while time.monotonic() < end:
            for size in ROWS:
                connection.execute(insert, [{"a": count, "b": "x" * size}] * jobs)
            connection.commit()
            count += jobs
    engine.dispose()
    return count / seconds


async def submit(lab: Lab, given: argparse.Namespace) -> list[Figure]:
    """Each client sends the next job when the last is acknowledged."""
    url = lab.database("bench_submit")
    limit = plain_inserts(url, given.seconds / 3, 1)
    took: list[float] = []
    with lab.site(url) as site:
        end = time.monotonic() + given.seconds

        async def client(index: int) -> None:
            http, number = Http(site.urls[0], site.token), 0
            while (began := time.monotonic()) < end:
                job = {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": f"b-{index}-{number}"}}
                await http.json("POST", JOBS, job | {"spec": SPEC})
                took.append((time.monotonic() - began) * 1000)
                number += 1
            http.close()

        begun = time.monotonic()
        await asyncio.gather(*(client(index) for index in range(CLIENTS)))
        rate = len(took) / (time.monotonic() - begun)
    return [
        at_least("submit", f"submissions acknowledged, {CLIENTS} clients", rate, "/s", 300),
        below("submit", "  99th percentile", percentile(took, 0.99), "ms", 150),
        beside("submit", "  median", percentile(took, 0.5), "ms"),
        beside("submit", "  the same rows as plain INSERTs, one connection", limit, "/s"),
    ]


async def bulk(lab: Lab, given: argparse.Namespace) -> list[Figure]:
    url = lab.database("bench_bulk")
    limit = plain_inserts(url, given.seconds / 3, LIST)
    made = 0
    with lab.site(url) as site:
        end = time.monotonic() + given.seconds

        async def client(index: int) -> None:
            nonlocal made
            http, number = Http(site.urls[0], site.token), 0
            while time.monotonic() < end:
                items = [{"metadata": {"name": f"b-{index}-{number}-{n}"}, "spec": SPEC} for n in range(LIST)]
                answer = await http.send(
                    http.prepared("POST", JOBS, {"apiVersion": "muster.dev/v1", "kind": "JobList", "items": items})
                )
                made += answer[1].count(b'"status":201')
                number += 1
            http.close()

        begun = time.monotonic()
        await asyncio.gather(*(client(index) for index in range(BULK_CLIENTS)))
        rate = made / (time.monotonic() - begun)
    return [
        at_least("bulk", f"jobs in lists of {LIST}, {BULK_CLIENTS} clients", rate, "/s", 3000),
        beside("bulk", f"  the same rows as plain INSERTs, {LIST} jobs a transaction", limit, "/s"),
    ]
