"""Sums for monitoring are the same on both databases."""

from msgspec.structs import replace

from controller.records import Verdict
from controller.state.tallies import JobTally
from muster.states import JobPhase
from tests.state.makers import make_attempt, make_incident, make_job, make_node, make_worker


def test_live_jobs_are_counted_by_queue_phase_and_reason(store, clock):
    with store.write() as w:
        for number, (phase, reason) in enumerate(
            [(JobPhase.QUEUED, "CAPACITY"), (JobPhase.QUEUED, "CAPACITY"), (JobPhase.RUNNING, "")]
        ):
            w.insert_job(make_job(f"j{number}", phase=phase, reason=reason, queued_at=100.0 + number))
        w.insert_job(make_job("done", phase=JobPhase.SUCCEEDED))
    with store.read() as r:
        assert sorted(r.job_tallies(), key=lambda one: one.phase) == [
            JobTally("default", "Queued", "CAPACITY", 2, 100.0),
            JobTally("default", "Running", "", 1, 102.0),
        ]


def test_incidents_devices_outbox_and_leader(store, clock):
    verdict = Verdict(category="cuda_error", action="restart", why="x")
    with store.write() as w:
        w.put_node(make_node("n0"))
        w.insert_job(make_job("j"))
        w.insert_attempt(make_attempt("a", "j"))
        w.insert_worker(replace(make_worker("w", "a"), node="n0", devices=(0, 1)))
        w.insert_incident(replace(make_incident("i1", job_uid="j", attempt_uid="a"), verdict=verdict))
        w.insert_incident(replace(make_incident("i2", job_uid="j", attempt_uid="a"), verdict=verdict))
        w.enqueue("webhook", {}, "k")
    with store.read() as r:
        assert r.incident_tallies() == [("cuda_error", "restart", 2)]
        assert r.allocated_devices() == {"n0": 2}
        assert [(one.state, one.count, one.oldest) for one in r.outbox_tallies()] == [("due", 1, clock.now())]
        assert r.leader().epoch == 0
