"""What finished jobs left goes by age and size, the oldest first; what is of a live job stays."""

import pytest

from controller.state import retention
from controller.state.limits import EVENT_SECONDS, EVIDENCE_SECONDS
from controller.state.retention import Held, beyond
from muster.evidence import Evidence, Source
from muster.states import AttemptPhase, JobPhase
from tests.state.makers import make_attempt, make_job

DAY = 24 * 3600.0


def put(store, clock, uid, *, finished=None, text="x", events=1):
    phase = JobPhase.QUEUED if finished is None else JobPhase.SUCCEEDED
    with store.write() as w:
        w.insert_job(make_job(uid, phase=phase, finished_at=finished))
        w.insert_attempt(make_attempt(f"a-{uid}", uid, phase=AttemptPhase.ENDED))
        w.add_evidence([Evidence(source=Source.LOG, at=clock.now(), attempt=f"a-{uid}", text=text)])
        for number in range(events):
            w.add_event(
                namespace="default",
                kind="Job",
                object_uid=uid,
                name=uid,
                reason="R",
                message="m",
                uid=f"e-{uid}-{number}",
            )


def left(store, *uids):
    with store.read() as r:
        return {uid: (len(r.evidence(f"a-{uid}")), len(r.events(object_uid=uid))) for uid in uids}


def test_by_age_only_what_finished_jobs_left_goes(store, clock):
    put(store, clock, "live")
    put(store, clock, "done", finished=clock.now())
    store.prune()
    assert left(store, "live", "done") == {"live": (1, 1), "done": (1, 1)}
    clock.advance(EVENT_SECONDS + 1)
    store.prune()
    assert left(store, "live", "done") == {"live": (1, 1), "done": (1, 0)}
    clock.advance(EVIDENCE_SECONDS - EVENT_SECONDS)
    store.prune()
    assert left(store, "live", "done") == {"live": (1, 1), "done": (0, 0)}
    with store.read() as r:
        assert r.job("done") is not None


def test_beyond_the_size_the_job_that_finished_first_goes_first(store, clock, monkeypatch):
    monkeypatch.setattr(retention, "EVIDENCE_BYTES_OF_NAMESPACE", 3000)
    put(store, clock, "live", text="x" * 5000)
    for index, uid in enumerate(("old", "middle", "new")):
        put(store, clock, uid, finished=clock.now() + index, text="x" * 1000)
    clock.advance(10)
    store.prune()
    kept = {uid: evidence for uid, (evidence, _) in left(store, "live", "old", "middle", "new").items()}
    assert kept == {"live": 1, "old": 0, "middle": 1, "new": 1}


def test_beyond_the_number_the_oldest_events_go_but_not_those_of_live_jobs(store, clock, monkeypatch):
    monkeypatch.setattr(retention, "EVENTS_OF_NAMESPACE", 5)
    put(store, clock, "live", events=3)
    put(store, clock, "old", finished=clock.now(), events=4)
    put(store, clock, "new", finished=clock.now(), events=4)
    store.prune()
    kept = {uid: events for uid, (_, events) in left(store, "live", "old", "new").items()}
    assert kept == {"live": 3, "old": 1, "new": 4}


@pytest.mark.parametrize(
    ("limit", "going"),
    [(100, []), (30, []), (25, ["a"]), (15, ["b", "a"]), (0, ["c", "b", "a", "z"])],
)
def test_each_namespace_has_its_own_measure(limit, going):
    held = [Held("n", uid, at, 10) for at, uid in enumerate("abc")] + [Held("m", "z", -1.0, 10)]
    assert beyond(held, limit, oldest=-10.0) == going


def test_age_alone_is_enough_to_go():
    assert beyond([Held("n", "a", 1.0, 1), Held("n", "b", 2.0, 1)], 100, oldest=1.5) == ["a"]
