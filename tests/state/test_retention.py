"""What finished jobs left goes by age and size, the oldest first; what is of a live job stays."""

import pytest

from controller.state import Actor
from controller.state.retention import DAY, EVENT_BYTES, Held, Keep, Retention, beyond, parse
from muster.evidence import Evidence, Source
from muster.states import AttemptPhase, JobPhase
from tests.state.makers import make_attempt, make_job


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
    limits = Retention(events=Keep(14, 10**9), evidence=Keep(30, 10**9))
    put(store, clock, "live")
    put(store, clock, "done", finished=clock.now())
    store.prune(limits)
    assert left(store, "live", "done") == {"live": (1, 1), "done": (1, 1)}
    clock.advance(14 * DAY + 1)
    store.prune(limits)
    assert left(store, "live", "done") == {"live": (1, 1), "done": (1, 0)}
    clock.advance(16 * DAY)
    store.prune(limits)
    assert left(store, "live", "done") == {"live": (1, 1), "done": (0, 0)}
    with store.read() as r:
        assert r.job("done") is not None


def test_beyond_the_size_the_job_that_finished_first_goes_first(store, clock):
    put(store, clock, "live", text="x" * 5000)
    for index, uid in enumerate(("old", "middle", "new")):
        put(store, clock, uid, finished=clock.now() + index, text="x" * 1000)
    clock.advance(10)
    store.prune(Retention(evidence=Keep(30, 3000)))
    kept = {uid: evidence for uid, (evidence, _) in left(store, "live", "old", "middle", "new").items()}
    assert kept == {"live": 1, "old": 0, "middle": 1, "new": 1}


def test_beyond_the_bytes_the_oldest_events_go_but_not_those_of_live_jobs(store, clock):
    put(store, clock, "live", events=3)
    put(store, clock, "old", finished=clock.now(), events=4)
    put(store, clock, "new", finished=clock.now(), events=4)
    store.prune(Retention(events=Keep(14, 5 * (EVENT_BYTES + 1))))
    kept = {uid: events for uid, (_, events) in left(store, "live", "old", "new").items()}
    assert kept == {"live": 3, "old": 1, "new": 4}


def wrote(store, *namespaces):
    for number, namespace in enumerate(namespaces):
        with store.write() as w:
            w.actor = Actor(name="ann", role="admin")
            w.insert_job(make_job(f"job-{number}", namespace=namespace, name=f"job-{number}"))


def test_each_namespace_keeps_its_own_audit_by_age_and_bytes(store, clock):
    wrote(store, "loud", "loud", "quiet", "loud")
    size = store.audit(limit=1)[0].size
    limits = Retention(audit=Keep(365, 2 * size), namespaces={"quiet": {"audit": Keep(1, 10**6)}})
    store.prune(limits)
    assert [(one.namespace, one.name) for one in store.audit()] == [
        ("loud", "job-1"),
        ("quiet", "job-2"),
        ("loud", "job-3"),
    ]
    clock.advance(2 * DAY)
    store.prune(limits)
    assert {one.namespace for one in store.audit()} == {"loud"}


def test_the_change_log_is_cut_by_age_but_never_to_nothing(store, clock):
    for number in range(3):
        put(store, clock, f"job-{number}")
        clock.advance(DAY)
    store.prune(Retention(changes=Keep(1.5, 10**9)))
    with store.read() as r:
        newest = r.revision()
        assert [change.name for change in r.changes(r.oldest_revision() - 1) if change.kind == "Job"] == [
            "name-of-job-2"
        ]
    clock.advance(100 * DAY)
    store.prune()
    with store.read() as r:
        assert (r.oldest_revision(), r.revision()) == (newest, newest)


@pytest.mark.parametrize(
    ("limit", "going"),
    [(100, []), (30, []), (25, ["a"]), (15, ["b", "a"]), (1, ["c", "b", "a", "z"])],
)
def test_each_namespace_has_its_own_measure(limit, going):
    held = [Held("n", uid, at, 10) for at, uid in enumerate("abc")] + [Held("m", "z", -1.0, 10)]
    assert beyond(held, dict.fromkeys("nm", Keep(30, limit)), now=10.0) == going


def test_age_alone_is_enough_to_go():
    held = [Held("n", "a", 1.0, 1), Held("n", "b", 2.0, 1)]
    assert beyond(held, {"n": Keep(1, 100)}, now=DAY + 1.5) == ["a"]


def test_the_setting_is_read_and_what_it_cannot_mean_is_refused():
    found = parse('{"audit": {"days": 730, "bytes": 5}, "namespaces": {"x": {"logs": {"days": 1, "bytes": 9}}}}')
    assert (found.of("audit", "x"), found.of("logs", "x"), found.of("logs", "y")) == (
        Keep(730, 5),
        Keep(1, 9),
        Retention().logs,
    )
    assert parse(None) == Retention()
    for text in (
        "[",
        '{"audits": {}}',
        '{"audit": {"days": 0, "bytes": 1}}',
        '{"namespaces": {"x": {"changes": {"days": 1, "bytes": 1}}}}',
    ):
        with pytest.raises(ValueError, match="MUSTER_RETENTION"):
            parse(text)
