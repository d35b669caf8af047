"""Many rows at once are written as single ones are: the same values, moves, refusals and changes."""

from typing import Any

import pytest

from controller.records import Claim
from controller.state import IllegalMove, NotFound, Store, Taken
from muster.states import JobPhase
from tests.makers import make_attempt, make_job, make_node, make_worker

NAMES = ("a", "b", "c")
JOBS = {name: make_job(name, uid=name, claim=Claim(nodes=("n0",), vacating=())) for name in NAMES}
ATTEMPTS = {name: make_attempt(JOBS[name], uid=f"t{name}") for name in NAMES}


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as w:
        w.insert_jobs(JOBS.values())
        for name in ("n0", "n1"):
            w.put_node(make_node(name))
    return store


def test_gangs_start_together(filled: Store) -> None:
    fields = {"message": 'a "word" é', "epoch": 1, "claim": None, "started_at": 1.5}
    with filled.write() as w:
        held = w.hold_jobs([*NAMES, "nobody"])
        assert (sorted(held), w.job("a"), sorted(w.hold_nodes(["n1", "n0"]))) == ([*NAMES], held["a"], ["n0", "n1"])
        w.insert_attempts(list(ATTEMPTS.values()))
        w.insert_workers(
            [make_worker(ATTEMPTS[name], 0, "n0", devices=(n,), ports=(n,)) for n, name in enumerate(NAMES)]
        )
        w.move_jobs(JobPhase.STARTING, [(name, {**fields, "attempt_uid": f"t{name}"}) for name in NAMES])
        assert w.job("a").phase == JobPhase.STARTING  # type: ignore[union-attr]
    with filled.read() as r:
        jobs = {job.name: job for job in r.jobs()}
        for name, job in jobs.items():
            assert (job.phase, job.message, job.claim, job.started_at) == ("Starting", 'a "word" é', None, 1.5)
            assert job.attempt_uid == f"t{name}"
        assert r.ports_by_host(["machine", "other"]) == {"machine": {0, 1, 2}, "other": set()}
        assert {name: [one.uid for one in found] for name, found in r.attempts_by_job(NAMES).items()} == {
            name: [f"t{name}"] for name in NAMES
        }
        changes = r.changes(5)
        assert [change.revision for change in changes] == list(range(6, 6 + 3 * len(NAMES)))
        assert {job.revision for job in jobs.values()} == {one.revision for one in changes if one.kind == "Job"}


@pytest.mark.parametrize(("bad", "error"), [("b", IllegalMove), ("nobody", NotFound)])
def test_one_that_may_not_move_lets_none_move(filled: Store, bad: str, error: type[Exception]) -> None:
    with filled.write() as w:
        w.move_job("b", JobPhase.CANCELLED)

    def act(w: Any) -> None:
        w.move_jobs(JobPhase.STARTING, [("a", {"message": ""}), (bad, {"message": ""})])

    with pytest.raises(error):
        filled.transact(act)
    with filled.read() as r:
        assert [job.phase for job in r.jobs()] == ["Queued", "Cancelled", "Queued"]


def test_a_device_that_is_taken_lets_none_start(filled: Store) -> None:
    with filled.write() as w:
        w.insert_attempts([ATTEMPTS["a"]])
        w.insert_workers([make_worker(ATTEMPTS["a"], 0, "n0", devices=(0,))])

    def act(w: Any) -> None:
        w.insert_attempts([ATTEMPTS["b"], ATTEMPTS["c"]])
        w.insert_workers([make_worker(ATTEMPTS[name], 0, "n0", devices=(n,)) for n, name in enumerate("bc")])

    with pytest.raises(Taken, match="device 0 of n0 belongs to worker ta-w0"):
        filled.transact(act)
    with filled.read() as r:
        assert [one.uid for one in r.live_workers()] == ["ta-w0"]


def test_patches_of_many_are_told_one_by_one(filled: Store) -> None:
    with filled.write() as w:
        w.patch_jobs([(name, {"reason": "CAPACITY", "message": name * 2}) for name in NAMES])
    with filled.read() as r:
        assert [(job.reason, job.message) for job in r.jobs()] == [("CAPACITY", name * 2) for name in NAMES]
        assert [(one.kind, one.name) for one in r.changes(5)] == [("Job", name) for name in NAMES]
