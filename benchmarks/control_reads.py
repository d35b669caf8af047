"""What reading costs: pages out of very many jobs, and watchers of one change."""

import argparse
import asyncio
import time
from collections.abc import Callable
from urllib.parse import quote

from sqlalchemy import create_engine, text

from benchmarks.control_jobs import JOBS, SPEC
from benchmarks.figures import Figure, below, beside, percentile
from benchmarks.lab import Lab
from benchmarks.wires import Address, Events, Http

ROUNDS = 40
SELECTORS = {
    "all": "",
    "a namespace": "namespace=ns-7",
    "a phase that many have": "phase=Succeeded",
    "a phase that few have": "phase=Running",
    "two phases": "phase=Queued&phase=Failed",
    "a queue": "queue=q-3",
    "a label that half have": "labelSelector=" + quote("half=yes"),
    "a label that few have": "labelSelector=" + quote("rare=r-17"),
    "a label and another": "labelSelector=" + quote("team=t-3,half=yes"),
    "a field": "fieldSelector=" + quote("status.phase=Failed,spec.queue=q-5"),
    "a name": "fieldSelector=" + quote("metadata.name=j-000123"),
}


async def pages(lab: Lab, given: argparse.Namespace) -> list[Figure]:
    url = lab.database("bench_pages")
    with lab.site(url) as site:
        http = Http(site.urls[0], site.token)
        await http.json(
            "POST", JOBS, {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": SPEC}
        )
        multiply(url, given.jobs)
        http.close()  # it has been silent for so long that the server has closed it
        http = Http(site.urls[0], site.token)
        slowest: dict[str, float] = {}
        for name, query in SELECTORS.items():
            slowest[name] = await _page(http, query)
        http.close()
    worst = max(slowest, key=lambda name: slowest[name])
    return [
        below("pages", f"a page of 100 out of {given.jobs:,} jobs, any selector, 95th %", slowest[worst], "ms", 50),
        *(beside("pages", f"  by {name}", value, "ms") for name, value in slowest.items()),
    ]


async def _page(http: Http, query: str) -> float:
    """Milliseconds of a page, the first and those that follow."""
    place = "/api/v1/jobs"
    if query.startswith("namespace="):
        place, query = f"/api/v1/namespaces/{query.partition('=')[2]}/jobs", ""
    took, after = [], ""
    for _ in range(ROUNDS):
        began = time.monotonic()
        page = await http.json("GET", f"{place}?limit=100&{query}{after}")
        took.append((time.monotonic() - began) * 1000)
        more = page["metadata"].get("continue")
        after = f"&continue={quote(more)}" if more else ""
    return percentile(took, 0.95)


def multiply(url: str, count: int) -> None:
    """Many jobs like the one that is there, of many kinds."""
    engine = create_engine(url)
    postgresql = engine.dialect.name == "postgresql"
    with engine.begin() as connection:
        columns = [row[0] for row in connection.execute(text("SELECT * FROM jobs LIMIT 0")).cursor.description]
        made = {
            "uid": "'u-' || i",
            "namespace": "'ns-' || (i % 20)",
            "name": f"'j-' || {'lpad(CAST(i AS text), 6, ' + chr(39) + '0' + chr(39) + ')' if postgresql else 'printf(' + chr(39) + '%06d' + chr(39) + ', i)'}",
            "queue": "'q-' || (i % 10)",
            "phase": "CASE WHEN i % 1000 = 0 THEN 'Running' WHEN i % 100 < 10 THEN 'Queued' "
            "WHEN i % 100 < 30 THEN 'Failed' ELSE 'Succeeded' END",
            "labels": "'{\"team\":\"t-' || (i / 20 % 5) || '\"' || "
            "CASE WHEN i / 100 % 2 = 0 THEN ',\"half\":\"yes\"' ELSE '' END || "
            "CASE WHEN i / 20 % 40 = 0 THEN ',\"rare\":\"r-' || (i / 800 % 50) || '\"' ELSE '' END || '}'",
        }
        chosen = ", ".join(made.get(column, f'j."{column}"') for column in columns)
        names = ", ".join(f'"{column}"' for column in columns)
        numbers = (
            f"generate_series(1, {count}) i"
            if postgresql
            else f"(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n)"
        )
        connection.execute(text(f"INSERT INTO jobs ({names}) SELECT {chosen} FROM jobs j, {numbers}"))
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql("ANALYZE")
    engine.dispose()


class Watched:
    """When each of many watchers first heard of the change at hand."""

    def __init__(self, count: int) -> None:
        self._count, self._word, self._turn = count, b"", 0
        self.heard: list[float] = []
        self.missing = self.opened = 0

    def begin(self, word: bytes) -> None:
        self._word, self.heard = word, []
        self._turn += 1

    def ear(self) -> Callable[[bytes], None]:
        known = -1

        def hear(data: bytes) -> None:
            nonlocal known
            if known < 0:
                known = 0
                self.opened += 1
            if known < self._turn and self._word in data:
                known = self._turn
                self.heard.append(time.monotonic())

        return hear

    async def all(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while len(self.heard) < self._count and time.monotonic() < end:
            await asyncio.sleep(0.01)
        self.missing += self._count - len(self.heard)


async def watch(lab: Lab, given: argparse.Namespace) -> list[Figure]:
    url = lab.database("bench_watch")
    with lab.site(url) as site:
        http = Http(site.urls[0], site.token)
        begun = await http.json("GET", "/api/v1/jobs")
        request = http.prepared("GET", f"/api/v1/changes?after={begun['metadata']['resourceVersion']}")
        watched = Watched(given.watchers)
        at, loop = Address(site.urls[0]), asyncio.get_running_loop()
        watchers = [
            (await loop.create_connection(lambda: Events(request, watched.ear()), at.host, at.port))[1]
            for _ in range(given.watchers)
        ]
        while watched.opened < given.watchers:
            await asyncio.sleep(0.1)
        http.close()  # the server may have done so already: opening the watchers takes longer than it keeps a silent one
        latest = []
        for turn in range(10):
            watched.begin(f'"name":"watched-{turn}"'.encode())
            job = {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": f"watched-{turn}"}, "spec": SPEC}
            began = time.monotonic()
            await http.json("POST", JOBS, job)
            await watched.all(20)
            latest.append((max(watched.heard, default=began + 20) - began) * 1000)
        for watcher in watchers:
            watcher.transport.close()
        http.close()
    missing = watched.missing
    return [
        below(
            "watch", f"a change is seen by the last of {given.watchers} watchers", percentile(latest, 0.95), "ms", 1000
        ),
        beside("watch", "  median of ten changes", percentile(latest, 0.5), "ms"),
        beside("watch", "  watchers that missed one", missing, ""),
    ]
