"""Jobs run, things break, and what must be true is looked at all the time and at the end."""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from controller.invariants import broken, observe
from controller.state import StoreError, open_store
from muster.client import ApiError, Unreachable
from muster.clock import SystemClock
from muster.states import JOB_TERMINAL, JobPhase
from tests.chaos.diaries import Life, lives, overlaps
from tests.chaos.soak.cluster import NODES, Cluster
from tests.chaos.soak.faults import Faults
from tests.chaos.soak.receiver import Receiver

LIVE_JOBS = 4
RANKS = 2
STEPS = 50

# Each rank counts on from where it was in an earlier attempt, so that a job that is broken again and again ends.
RANK = """
import os, pathlib, time
base = pathlib.Path(os.environ["SOAK"])
mine = base / ("rank-" + os.environ["RANK"])
step = int(mine.read_text()) if mine.exists() else 0
while step < int(os.environ["STEPS"]):
    time.sleep(0.1)
    step += 1
    new = mine.with_name(mine.name + "-" + os.environ["MUSTER_EPOCH"])
    new.write_text(str(step))
    new.replace(mine)
    if os.environ["RANK"] == "0":
        with open(os.environ["MUSTER_REPORT"], "a") as report:
            report.write('{"progress": {"step": %d}}\\n' % step)
with open(base / "done", "a") as done:
    done.write(os.environ["MUSTER_EPOCH"] + " " + os.environ["RANK"] + "\\n")
"""


@dataclass
class Report:
    """`problems` is empty when every promise was kept."""

    seed: int
    faults: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    resumed: int = 0
    webhooks: int = 0
    lives: int = 0
    audits: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


class Soak:
    """`steps` of progress are what a job needs to succeed."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        seed: int,
        steps: int = STEPS,
        restart_database: Callable[[], None] | None = None,
        say: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._cluster, self._chance, self._steps, self._say = cluster, random.Random(seed), steps, say
        self._receiver = Receiver(seed)
        self._faults = Faults(cluster, self._chance, restart_database)
        self._store = open_store(cluster.database_url, clock=SystemClock(), new_id=str)
        self._clock = SystemClock()
        self._accepted: dict[str, str] = {}
        self._cancelled: set[str] = set()
        self.report = Report(seed)

    def run(self, enough: Callable[[int, float], bool], *, patience: float = 300.0) -> Report:
        """Break until `enough(faults, seconds)`; then everything heals, and all jobs must end within `patience` s."""
        began, count = time.monotonic(), 0
        self._until(lambda: len(self._nodes()) == NODES, patience, "all nodes are there")
        while not enough(count, time.monotonic() - began):
            self._refill()
            together = self._chance.choice([1, 1, 1, 2, 3])
            for _ in range(together):
                self._faults.one()
            count += together
            self._audit()
            time.sleep(self._chance.uniform(0.02, 0.5))
            if count % 25 < together:
                self._say(f"{count} faults, {len(self._accepted)} jobs, {len(self.report.problems)} problems")
        self._faults.heal()
        self._until(self._all_ended, patience, "all jobs have ended")
        self._until(lambda: not self._due(), 120, "every web hook has been called")
        self._last_look()
        self.report.faults = dict(sorted(self._faults.done.items()))
        self.report.seconds = time.monotonic() - began
        links = self._cluster.network.links.values()
        self.report.messages = dict(sum((link.mischief for link in links), Counter()))
        self._store.close()
        self._receiver.close()
        return self.report

    def _all_ended(self) -> bool:
        self._resume_held()
        return not self._live()

    def _due(self) -> bool:
        with self._store.read() as r:
            return bool(r.outbox_items("due", 1))

    # -- jobs ----------------------------------------------------------------------------------------

    def _refill(self) -> None:
        self._resume_held()
        live = self._live()
        if len(live) < LIVE_JOBS:
            self._submit()
        elif self._chance.random() < 0.04:
            self._cancel(self._chance.choice(live))

    def _resume_held(self) -> None:
        """A full disk holds a job until somebody says that there is room again."""
        try:
            with self._store.read() as r:
                held = [job.name for job in r.jobs(phases=[JobPhase.SUSPENDED]) if not job.suspend]
            for name in held:
                self._cluster.client(self._chance.randrange(2)).act("Job", name, "resume")
                self.report.resumed += 1
        except (StoreError, Unreachable, ApiError):
            return

    def _submit(self) -> None:
        name = f"job-{len(self._accepted)}"
        base = self._cluster.folder / "jobs" / name
        base.mkdir(parents=True, exist_ok=True)
        spec = {
            "framework": "command",
            "workers": RANKS,
            "accelerators": [{"type": "h100", "count": 1}],
            "command": [sys.executable, "-c", RANK],
            "env": {"SOAK": str(base), "STEPS": str(self._steps)},
            "recovery": {"maxRestarts": 10_000, "noProgressLimit": 10_000, "killGrace": "1s"},
            "notify": {"webhook": self._receiver.url, "events": ["succeeded", "failed", "cancelled", "restarted"]},
        }
        job = {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        try:
            made = self._cluster.client(self._chance.randrange(2)).create(job)
        except (Unreachable, ApiError) as error:
            if getattr(error, "status", 503) not in (409, 503):  # 409: accepted, but the answer was lost
                self.report.problems.append(f"{name} was refused: {error}")
            return
        self._accepted[name] = made["metadata"]["uid"]

    def _cancel(self, name: str) -> None:
        try:
            self._cluster.client(self._chance.randrange(2)).act("Job", name, "cancel")
        except (Unreachable, ApiError):
            return
        self._cancelled.add(name)

    def _live(self) -> list[str]:
        """Accepted jobs that have not ended; all of them while the database is away."""
        try:
            with self._store.read() as r:
                ended = {job.uid for job in r.jobs(phases=JOB_TERMINAL)}
        except StoreError:
            return list(self._accepted)
        return [name for name, uid in self._accepted.items() if uid not in ended]

    def _nodes(self) -> list[Any]:
        try:
            with self._store.read() as r:
                return r.nodes()
        except StoreError:
            return []

    # -- looking -------------------------------------------------------------------------------------

    def _audit(self) -> None:
        try:
            with self._store.read() as r:
                seen = observe(r)
        except StoreError:
            return
        self.report.audits += 1
        for one in broken(seen, self._clock.now()):
            self._problem(one)

    def _last_look(self) -> None:
        self._until(lambda: not self._cluster.found("rank"), 60, "no rank is left")
        self._audit()
        self._ask_the_api()
        by_job: dict[str, list[Life]] = {}
        scopes = {}
        with self._store.read() as r:
            seen = observe(r)
            for name, uid in self._accepted.items():
                attempts = r.attempts(uid)
                scopes |= {attempt.uid: uid for attempt in attempts}
                self.report.attempts = dict(
                    Counter(self.report.attempts) + Counter(str(one.reason) for one in attempts)
                )
                job = r.job(uid)
                self._judge(name, job, attempts)
        for held in ("devices", "ports", "attempts", "left_behind"):
            if getattr(seen, held):
                self._problem(f"left over: {held} {getattr(seen, held)}")
        for life in lives(self._cluster.layout.agents):
            self.report.lives += 1
            by_job.setdefault(scopes.get(life.attempt, ""), []).append(life)
        self._all_that_succeeded_lived(by_job)
        for uid, found in by_job.items():
            if not uid:
                self._problem(f"ranks of an attempt that nobody knows: {found}")
            for one in overlaps(found):
                self._problem(f"{uid}: {one}")

    def _all_that_succeeded_lived(self, by_job: dict[str, list[Life]]) -> None:
        """Every worker of an attempt that succeeded left its diary, or the look for overlaps would miss it."""
        told = Counter(life.attempt for found in by_job.values() for life in found)
        with self._store.read() as r:
            attempts = [one for uid in self._accepted.values() for one in r.attempts(uid) if one.reason == "Succeeded"]
        for attempt in attempts:
            if told[attempt.uid] != RANKS:
                self._problem(f"attempt {attempt.uid} succeeded, but {told[attempt.uid]} of its workers have a diary")

    def _ask_the_api(self) -> None:
        """Every acknowledged submission is there, and the cluster says of itself that it is sound."""
        client = self._cluster.client()
        there = {job["metadata"]["uid"] for page in client.pages("/api/v1/jobs") for job in page["items"]}
        for name in (name for name, uid in self._accepted.items() if uid not in there):
            self._problem(f"{name} was accepted, and the API does not list it")
        check = client.http.json("GET", "/api/v1/admin/check")
        if not check["ok"]:
            self._problem(f"the cluster says of itself: {check}")

    def _judge(self, name: str, job: Any, attempts: list[Any]) -> None:
        if job is None:
            self._problem(f"{name} was accepted and is not there")
            return
        self.report.jobs[str(job.phase)] = self.report.jobs.get(str(job.phase), 0) + 1
        right = ("Succeeded", "Cancelled") if name in self._cancelled else ("Succeeded",)
        if job.phase not in right:
            self._problem(f"{name} is {job.phase}: {job.reason} {job.message}")
        succeeded = [one.epoch for one in attempts if one.reason == "Succeeded"]
        if succeeded != ([attempts[-1].epoch] if job.phase == "Succeeded" else []):
            self._problem(f"{name} is {job.phase}, and its attempts {succeeded} succeeded")
        for event in ("succeeded", "cancelled"):
            told = self._receiver.taken[f"{job.uid}:{event}:{job.epoch}"]
            self.report.webhooks += told
            if bool(told) != (job.phase.lower() == event):
                self._problem(f"{name} is {job.phase}, and its web hook for {event} was called {told} times")
        if job.phase == "Succeeded":
            done = (self._cluster.folder / "jobs" / name / "done").read_text().split("\n")
            missing = [rank for rank in range(RANKS) if f"{attempts[-1].epoch} {rank}" not in done]
            if missing:
                self._problem(f"{name} succeeded in epoch {attempts[-1].epoch}, but its ranks {missing} did not end")

    def _problem(self, text: str) -> None:
        if text not in self.report.problems:
            self.report.problems.append(text)
            self._say(f"PROBLEM {text}")

    def _until(self, true: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                self._problem(f"after {seconds:.0f} s it is not so that {what}: {self._phases()}")
                return
            self._audit()
            time.sleep(0.3)

    def _phases(self) -> str:
        with self._store.read() as r:
            return json.dumps([[job.name, job.phase, job.message] for job in r.jobs(live_only=True)])
