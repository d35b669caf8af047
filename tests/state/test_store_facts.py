"""Checkpoints, events, evidence, progress, outbox, remembered answers, tokens: bounded, and harmless when repeated."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.state import OutboxItem, Store, Taken, TokenRecord, limits
from controller.state.types import Remembered
from muster.clock import ManualClock
from muster.evidence import Evidence, Source
from muster.protocol import CheckpointItem, ProgressPoint
from muster.states import JobPhase
from tests.state.makers import make_attempt, make_incident, make_job, make_verdict


@pytest.fixture(autouse=True)
def _one_job(store: Store) -> None:
    with store.write() as w:
        w.insert_job(make_job())
        w.insert_attempt(make_attempt())


def _item(step: int, **fields: Any) -> CheckpointItem:
    given: dict[str, Any] = {
        "path": f"/ckpt/{step}",
        "step": step,
        "format": "dcp",
        "complete": True,
        "modified_at": 5.0,
    }
    return CheckpointItem(**given | fields)


def _exit(rank: int, at: float = 1.0, **fields: Any) -> Evidence:
    return Evidence(source=Source.EXIT, at=at, attempt="attempt-1", rank=rank, data={"signal": 9}, **fields)


def test_a_stock_replaces_the_one_before_and_only_differences_are_logged(store: Store) -> None:
    with store.write() as w:
        assert w.put_checkpoints("job-1", "attempt-1", 1, [_item(10), _item(20, complete=False, why="no .metadata")])
    with store.read() as r:
        before = r.checkpoints("job-1")
    assert [(c.step, c.complete, c.why, c.epoch) for c in before] == [(10, True, "", 1), (20, False, "no .metadata", 1)]
    with store.write() as w:
        assert w.put_checkpoints("job-1", "attempt-2", 2, [_item(20), _item(30), _item(10)])
    with store.read() as r:
        after = r.checkpoints("job-1")
        assert [(c.kind, c.name, c.op) for c in r.changes(before[-1].revision)] == [
            ("Checkpoint", "/ckpt/20", "put"),
            ("Checkpoint", "/ckpt/30", "put"),
        ]
    assert [(c.step, c.complete, c.epoch, c.attempt_uid) for c in after] == [
        (10, True, 1, "attempt-1"),
        (20, True, 2, "attempt-2"),
        (30, True, 2, "attempt-2"),
    ]
    assert [c.uid for c in after[:2]] == [c.uid for c in before]


def test_a_checkpoint_that_is_gone_from_the_disk_is_gone(store: Store) -> None:
    with store.write() as w:
        w.put_checkpoints("job-1", "attempt-1", 1, [_item(10), _item(20)])
    with store.write() as w:
        w.put_checkpoints("job-1", "attempt-1", 1, [_item(20)])
    with store.read() as r:
        assert [c.step for c in r.checkpoints("job-1")] == [20]
        assert [(c.name, c.op) for c in r.changes(w.revision - 1)] == [("/ckpt/10", "delete")]


def test_a_stock_of_an_older_epoch_is_ignored_even_after_an_empty_newer_one(store: Store) -> None:
    with store.write() as w:
        assert w.put_checkpoints("job-1", "attempt-2", 2, [])
        assert not w.put_checkpoints("job-1", "attempt-1", 1, [_item(10)])
        assert not w.put_checkpoints("gone", "attempt-1", 3, [_item(10)])
    with store.read() as r:
        assert r.checkpoints("job-1") == []


def test_an_unchanged_stock_writes_no_change(store: Store) -> None:
    for expected in (3, 0):
        with store.write() as w:
            w.put_checkpoints("job-1", "attempt-1", 1, [_item(10, manifest={"a": 1})])
        assert w.revision == expected


def test_incidents_by_job_and_namespace(store: Store) -> None:
    with store.write() as w:
        w.insert_job(make_job("job-2", namespace="other"))
        w.insert_incident(make_incident("i2", opened_at=2.0))
        w.insert_incident(make_incident("i1", opened_at=1.0))
        w.insert_incident(make_incident("i3", job_uid="job-2", namespace="other"))
    with store.write() as w:
        w.patch_incident("i1", closed_at=9.5, cost={"detect": 0.5}, verdict=make_verdict(culprit_rank=3))
    with store.read() as r:
        assert [i.uid for i in r.incidents(job_uid="job-1")] == ["i1", "i2"]
        assert [i.uid for i in r.incidents("other")] == ["i3"]
        assert len(r.incidents()) == 3
        first = r.incidents("default")[0]
    assert (first.closed_at, first.cost, first.verdict.culprit_rank) == (9.5, {"detect": 0.5}, 3)


def _say(store: Store, number: int, **fields: Any) -> None:
    given: dict[str, Any] = {"namespace": "default", "kind": "Job", "object_uid": "job-1", "name": "x"}
    with store.write() as w:
        w.add_event(**given | fields, reason="R", message=str(number))


def test_events_are_paged_forward_and_the_newest_come_without_a_mark(store: Store) -> None:
    for number in range(5):
        _say(store, number, object_uid="job-1" if number % 2 else "job-2", namespace="n" if number == 4 else "default")
    with store.read() as r:
        assert [e.message for e in r.events(limit=2)] == ["3", "4"]
        first = r.events()[0]
        assert [e.message for e in r.events(after=first.revision, limit=2)] == ["1", "2"]
        assert [e.message for e in r.events(object_uid="job-1")] == ["1", "3"]
        assert [e.message for e in r.events("n")] == ["4"]


def test_an_object_keeps_its_newest_events_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(limits.EVENTS + 3):
        _say(store, number)
    _say(store, 0, object_uid="job-2")
    with store.read() as r:
        kept = r.events(object_uid="job-1")
        assert [kept[0].message, kept[-1].message, len(kept)] == ["3", str(limits.EVENTS + 2), limits.EVENTS]
        assert len(r.events(object_uid="job-2")) == 1


def test_evidence_is_kept_once_and_read_earliest_first(store: Store) -> None:
    late, early = _exit(0, at=2.0), _exit(1, at=1.0, text="traceback")
    for expected in (2, 0):
        with store.write() as w:
            assert w.add_evidence([late, early, late]) == expected
    with store.read() as r:
        assert r.evidence("attempt-1") == [early, late]


def test_evidence_of_an_attempt_is_bounded_in_number_and_bytes(store: Store) -> None:
    with store.write() as w:
        assert w.add_evidence([_exit(rank) for rank in range(limits.EVIDENCE_ITEMS + 5)]) == limits.EVIDENCE_ITEMS
        assert w.add_evidence([_exit(9999)]) == 0
    with store.write() as w:
        w.insert_attempt(make_attempt("attempt-2", number=2, scope="other"))
        big = [
            msgspec.structs.replace(_exit(rank), attempt="attempt-2", text="x" * limits.EVIDENCE_TEXT + "end")
            for rank in range(40)
        ]
        assert w.add_evidence(big) == 15
    with store.read() as r:
        texts = [one.text for one in r.evidence("attempt-2")]
        assert {len(text) for text in texts} == {limits.EVIDENCE_TEXT}
        assert all(text.endswith("xend") for text in texts)


def test_facts_of_an_unknown_attempt_are_dropped_and_the_rest_is_kept(store: Store) -> None:
    unknown = msgspec.structs.replace(_exit(1), attempt="gone")
    with store.write() as w:
        assert w.add_evidence([unknown, _exit(2)]) == 1
        w.add_progress("gone", [ProgressPoint(step=1, at=1.0)])
    with store.read() as r:
        assert (r.evidence("gone"), r.progress("gone")) == ([], [])


def test_progress_is_read_newest_last_and_a_repeat_replaces(store: Store) -> None:
    points = [ProgressPoint(step=step, at=float(step), rank=0, loss=1.0 / step) for step in range(1, 6)]
    with store.write() as w:
        w.add_progress("attempt-1", points)
        w.add_progress("attempt-1", [ProgressPoint(step=5, at=6.0, rank=0, loss=0.1), ProgressPoint(step=6, at=7.0)])
    with store.read() as r:
        assert r.progress("attempt-1", 3) == [
            points[3],
            ProgressPoint(step=5, at=6.0, rank=0, loss=0.1),
            ProgressPoint(step=6, at=7.0),
        ]


def test_progress_is_thinned_but_begins_and_ends_where_it_did(store: Store) -> None:
    steps = limits.PROGRESS_POINTS + 500
    for start in range(1, steps + 1, 100):
        with store.write() as w:
            w.add_progress("attempt-1", [ProgressPoint(step=s, at=float(s)) for s in range(start, start + 100)])
    with store.read() as r:
        kept = [point.step for point in r.progress("attempt-1", limit=10_000)]
    assert limits.PROGRESS_POINTS // 2 < len(kept) <= limits.PROGRESS_POINTS
    assert kept[0] == 1
    assert kept[-900:] == list(range(steps - 899, steps + 1))


@given(st.integers(0, 10 * limits.PROGRESS_POINTS))
def test_thinning_keeps_the_first_and_the_newest_half_and_comes_below_the_limit(count: int) -> None:
    dropped = set(limits.thin(count))
    assert 0 not in dropped
    assert all(index < count / 2 for index in dropped)
    assert bool(dropped) == (count > limits.PROGRESS_POINTS)


def test_an_outbox_item_exists_only_with_its_transaction_and_once_a_key(store: Store, clock: ManualClock) -> None:
    def enqueue_and_fail() -> None:
        with store.write() as w:
            w.enqueue("webhook", {"n": 1}, "k1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        enqueue_and_fail()
    assert store.outbox_due(clock.now()) == []
    for number in (2, 3):
        with store.write() as w:
            w.enqueue("webhook", {"n": number}, "k2")
    (item,) = store.outbox_due(clock.now())
    assert (item.key, item.payload, item.tries) == ("k2", {"n": 2}, 0)
    assert store.outbox_item(item.id) == item
    assert store.outbox_item("unknown") is None


def test_an_outbox_item_comes_again_until_it_is_done(store: Store, clock: ManualClock) -> None:
    with store.write() as w:
        w.enqueue("webhook", {}, "k")
    (item,) = store.outbox_due(clock.now())
    store.outbox_postpone(item.id, clock.now() + 30)
    assert store.outbox_due(clock.now() + 29) == []
    assert not store.outbox_failed(item.id, "refused", clock.now() + 60)
    (again,) = store.outbox_due(clock.now() + 61)
    assert (again.tries, again.error, again.id) == (1, "refused", item.id)
    store.outbox_done(item.id)
    store.outbox_done(item.id)
    assert not store.outbox_failed(item.id, "too late", 0.0)
    done = store.outbox_item(item.id)
    assert done is not None
    assert (done.state, done.done_at, store.outbox_due(clock.now() + 1e6)) == ("done", clock.now(), [])


def test_an_outbox_item_that_a_clock_which_was_ahead_put_off_for_hours_is_due(store: Store, clock: ManualClock) -> None:
    store.transact(lambda w: w.enqueue("webhook", {}, "key"))
    (item,) = store.outbox_due(clock.now())
    store.outbox_postpone(item.id, clock.now() + 600)
    assert store.outbox_due(clock.now()) == []
    store.outbox_postpone(item.id, clock.now() + 7200 + 60)
    assert [one.id for one in store.outbox_due(clock.now())] == [item.id]


def test_an_outbox_item_is_dead_after_its_last_failure(store: Store, clock: ManualClock) -> None:
    with store.write() as w:
        w.enqueue("webhook", {}, "k")
    (item,) = store.outbox_due(clock.now())
    verdicts = [store.outbox_failed(item.id, f"failure {n}", clock.now()) for n in range(limits.OUTBOX_TRIES)]
    assert verdicts == [False] * (limits.OUTBOX_TRIES - 1) + [True]
    assert store.outbox_due(clock.now() + 1e6) == []
    dead = store.outbox_item(item.id)
    assert isinstance(dead, OutboxItem)
    assert (dead.state, dead.error) == ("dead", f"failure {limits.OUTBOX_TRIES - 1}")


def test_the_longest_due_item_comes_first(store: Store, clock: ManualClock) -> None:
    for key in "abc":
        with store.write() as w:
            w.enqueue("webhook", {}, key)
        clock.advance(1)
    assert [item.key for item in store.outbox_due(clock.now(), limit=2)] == ["a", "b"]


def test_an_answer_is_remembered_once(store: Store, clock: ManualClock) -> None:
    with store.write() as w:
        assert w.remembered("k") is None
        w.remember("k", "hash", {"status": 201, "body": {"a": [1, None]}})
    with store.read() as r:
        expected = Remembered(
            key="k", body_hash="hash", response={"status": 201, "body": {"a": [1, None]}}, at=clock.now()
        )
        assert r.remembered("k") == expected
    with pytest.raises(Taken, match="idempotency key k"), store.write() as w:
        w.remember("k", "other", {})


def test_old_answers_and_finished_items_are_pruned_and_due_ones_are_not(store: Store, clock: ManualClock) -> None:
    with store.write() as w:
        w.remember("k", "hash", {})
        w.enqueue("webhook", {}, "done")
        w.enqueue("webhook", {}, "due")
    done, due = sorted(store.outbox_due(clock.now()), key=lambda item: item.key != "done")
    store.outbox_done(done.id)
    store.prune()
    assert store.outbox_item(done.id) is not None
    clock.advance(limits.OUTBOX_SECONDS + 1)
    store.prune()
    assert (store.outbox_item(done.id), store.outbox_item(due.id) is not None) == (None, True)
    with store.read() as r:
        assert r.remembered("k") is None


def test_a_token_is_found_by_its_hash_alone(store: Store) -> None:
    with store.write() as w:
        w.put_token(TokenRecord(hash="h1", role="admin", name="ada", created_at=1.0))
        w.put_token(TokenRecord(hash="h1", role="agent", name="bob", created_at=2.0))
    with store.read() as r:
        assert r.token("h1") == TokenRecord(hash="h1", role="agent", name="bob", created_at=1.0)
        assert r.token("h2") is None


def test_text_that_a_database_cannot_hold_is_mended_not_refused(store: Store) -> None:
    with store.write() as w:
        w.move_job("job-1", JobPhase.FAILED, message="a\0b\ud800c\U0001f600")
    with store.read() as r:
        job = r.job("job-1")
    assert job is not None
    assert job.message == "a\ufffdb\ufffdc\U0001f600"
