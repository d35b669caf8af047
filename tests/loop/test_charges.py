"""Who is charged for what, through random lives of jobs: what the planner's books say is what the rows say.

The rules: a worker is charged in full from its placement until its end is confirmed; one that ended well is released at
once and counts towards the minimum; who claims room is charged for what has been vacated of it; a gang that recovers is
charged in full until `recoveryTimeout`, then for nothing; what waits or is suspended is charged for nothing; what has
finished holds nothing, and has not finished before its last worker is confirmed dead.
"""

import shutil
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from controller.lifecycle import ended_badly
from controller.records import QueueRecord
from controller.scheduling.cycle import Cycle
from controller.scheduling.index import build
from controller.scheduling.planner import plan
from controller.state import NotFound
from muster.resources.parse import parse
from muster.states import JOB_TERMINAL, WORKER_TERMINAL, AttemptPhase, JobPhase, WorkerPhase
from tests.loop.world import LEAVES, World

TIMEOUT = 60.0
KIND = "h100"


class Life:
    """A world with two queues, and what may happen in it."""

    def __init__(self, folder, quota=16):
        self.world = World(folder)
        self.jobs = []
        for name in ("a", "b"):
            document = {"apiVersion": "muster.dev/v1", "kind": "Queue", "metadata": {"name": name}}
            spec = parse(document | {"spec": {"quota": {KIND: quota}}}).wire()["spec"]
            record = QueueRecord(name=name, uid=f"queue-{name}", spec=spec)
            self.world.store.transact(lambda w, record=record: w.put_queue(record))

    def submit(self, queue, workers, count, priority, elastic):
        more = {"minWorkers": 1, "checkpoint": {"directory": f"/c/{len(self.jobs)}"}} if elastic else {}
        job = self.world.submit(
            f"j{len(self.jobs)}",
            workers=workers,
            queue=queue,
            priorityClass=priority,
            accelerators=[{"type": KIND, "count": count}],
            topology={},
            recovery={"maxRestarts": 50, "noProgressLimit": 50, "recoveryTimeout": f"{TIMEOUT:.0f}s"},
            **more,
        )
        self.jobs.append(job)

    def end(self, which, code, signal):
        """One running worker of one job ends."""
        running = [
            worker
            for job in self.jobs
            for attempt in self.world.attempts(job)[-1:]
            for worker in self.world.workers(attempt)
            if worker.phase is WorkerPhase.RUNNING
        ]
        if running:
            self.world.exit(running[which % len(running)], code=code, signal=signal)

    def wish(self, which, word):
        if not self.jobs:
            return
        job = self.world.job(self.jobs[which % len(self.jobs)])
        if job.phase not in JOB_TERMINAL:
            fields = {"resume": {"suspend": False}}.get(word, {word: True})
            self.world.wish(job, **fields, wished_at=self.world.clock.now())

    def node(self, which, word):
        name = sorted(LEAVES)[which % len(LEAVES)]
        if word == "silent":
            self.world.silent ^= {name}
        elif word == "deaf":
            self.world.deaf ^= {name}
        else:
            self.world.store.transact(lambda w: w.patch_node(name, cordoned=word == "cordon"))

    def check(self):
        now = self.world.clock.now()
        with self.world.store.read() as r:
            revision, records = r.snapshot()
            held = Counter(r.devices_in_use().values())
            jobs = {job.uid: job for job in r.jobs()}
            attempts = {uid: r.attempts(uid) for uid in jobs}
            workers = {one.uid: r.workers(one.uid) for found in attempts.values() for one in found}
        index = build(records, revision=revision)
        self._workers(attempts, workers, held)
        expected = Counter()
        cycle = Cycle(index, now)
        for job in jobs.values():
            live = [one for one in attempts[job.uid] if one.phase is not AttemptPhase.ENDED]
            mine = sum(held[one.uid] for attempt in attempts[job.uid] for one in workers[attempt.uid])
            expected[job.spec["queue"]] += mine
            self._job(job, live, mine, cycle, expected, now)
        for queue in ("a", "b"):
            assert cycle.book.used(queue, KIND) == expected[queue], queue
        self._claims(jobs, plan(index, now), held)

    def _workers(self, attempts, workers, held):
        for found in attempts.values():
            for attempt in found:
                for one in workers[attempt.uid]:
                    well = one.phase is WorkerPhase.EXITED and not ended_badly(one)
                    if attempt.phase is AttemptPhase.ENDED:
                        assert one.phase in WORKER_TERMINAL
                        assert (held[one.uid], one.released) == (0, True)
                    elif well and attempt.phase is not AttemptPhase.STOPPING:
                        assert (held[one.uid], one.released) == (0, True)
                    elif not one.released:
                        assert held[one.uid] == len(one.devices)
                if attempt.phase is not AttemptPhase.ENDED:
                    assert attempt.succeeded == sum(one.released for one in workers[attempt.uid])

    def _job(self, job, live, mine, cycle, expected, now):
        demand = job.spec["workers"] * job.spec["accelerators"][0]["count"]
        if job.phase is JobPhase.RECOVERING and not live:
            assert now <= job.recovering_since + TIMEOUT + 1.0
            expected[job.spec["queue"]] += 0 if job.uid in cycle.uncharged else demand
        elif not live:
            assert mine == 0, job.phase
        if job.phase in JOB_TERMINAL:
            assert not live
            assert mine == 0

    def _claims(self, jobs, planned, held):
        starting = {group.start.job_uid for group in planned.groups}
        for uid, charged in planned.charges.items():
            job = jobs[uid]
            demand = job.spec["workers"] * job.spec["accelerators"][0]["count"]
            assert uid not in starting
            assert charged <= demand
            if job.claim is not None:
                nodes = Counter(job.claim.nodes)
                assert charged <= sum(min(8, count * job.spec["accelerators"][0]["count"]) for count in nodes.values())
            else:
                assert job.phase is JobPhase.RECOVERING

    def step(self, seconds):
        self.world.step()
        self.check()
        self.world.step(seconds)
        self.check()


EVENTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("submit"),
            st.sampled_from("ab"),
            st.integers(1, 4),
            st.sampled_from([2, 4, 8]),
            st.sampled_from(["low", "normal", "high"]),
            st.booleans(),
        ),
        st.tuples(st.just("end"), st.integers(0, 9), st.just(0), st.none()),
        st.tuples(st.just("end"), st.integers(0, 9), st.sampled_from([1, None]), st.sampled_from([None, 9])),
        st.tuples(st.just("wish"), st.integers(0, 9), st.sampled_from(["cancel", "suspend", "resume", "restart_requested"])),
        st.tuples(st.just("node"), st.integers(0, 3), st.sampled_from(["silent", "deaf", "cordon", "uncordon"])),
        st.tuples(st.just("step"), st.sampled_from([0.1, 1.0, 4.0, 8.0, TIMEOUT])),
    ),
    min_size=8,
    max_size=25,
)  # fmt: skip


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(EVENTS)
def test_the_books_say_what_the_rows_say(sqlite_template, tmp_path_factory, events):
    folder = tmp_path_factory.mktemp("life")
    shutil.copy(sqlite_template, folder / "world.db")
    life = Life(folder)
    life.submit("a", 2, 4, "normal", False)
    life.step(0.1)
    for word, *rest in events:
        getattr(life, word)(*rest)
        life.step(0.1)
    life.world.store.close()
    shutil.rmtree(folder)


def test_the_place_of_a_worker_that_succeeded_is_anothers_while_its_gang_goes_on(tmp_path):
    life = Life(tmp_path, quota=32)
    life.submit("a", 2, 8, "normal", False)
    life.submit("a", 2, 8, "normal", False)
    first, second = (life.world.run(job) for job in life.jobs)
    life.submit("a", 1, 8, "normal", False)
    life.step(0.1)
    waiting = life.jobs[-1]
    assert life.world.job(waiting).phase is JobPhase.QUEUED
    life.world.exit(first[0], code=0)
    assert [worker.node for worker in life.world.run(waiting)] == [first[0].node]
    assert life.world.job(life.jobs[0]).phase is JobPhase.RUNNING
    life.world.exit(second[1], signal=9)
    life.world.deaf = {second[0].node}
    life.submit("a", 1, 8, "normal", False)
    for _ in range(5):
        life.step(0.1)
    assert life.world.job(life.jobs[-1]).phase is JobPhase.QUEUED, "a failed gang keeps its place until it is dead"
    with pytest.raises(NotFound):
        life.world.store.transact(lambda w: w.release_worker("nobody"))
