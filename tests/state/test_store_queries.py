"""Selectors and pages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.records import QueueRecord
from controller.state import Store
from muster.states import AttemptPhase, JobPhase, WorkerPhase
from tests.state.makers import make_attempt, make_job, make_worker


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as w:
        w.insert_job(make_job("1", name="a", namespace="x", labels={"team": "nlp", "tier": "1"}))
        w.insert_job(make_job("2", name="b", namespace="x", phase=JobPhase.SUCCEEDED, queue="fast"))
        w.insert_job(make_job("3", name="a", namespace="y", phase=JobPhase.RUNNING, labels={"team": "NLP"}))
        w.insert_job(make_job("4", name="a", namespace="x", phase=JobPhase.FAILED, labels={"atier": "1"}))
    return store


@pytest.mark.parametrize(
    ("selectors", "uids"),
    [
        ({}, ["1", "4", "2", "3"]),
        ({"namespace": "x"}, ["1", "4", "2"]),
        ({"live_only": True}, ["1", "3"]),
        ({"phases": [JobPhase.FAILED, JobPhase.RUNNING]}, ["4", "3"]),
        ({"queue": "fast"}, ["2"]),
        ({"labels": {"team": "nlp"}}, ["1"]),
        ({"labels": {"tier": "1", "team": "nlp"}}, ["1"]),
        ({"labels": {"tier": "2"}}, []),
        ({"labels": {"ier": "1"}}, []),
        ({"limit": 2}, ["1", "4"]),
        ({"after": ("x", "a", "4"), "limit": 1}, ["2"]),
        ({"after": ("y", "a", "3")}, []),
        ({"phases": []}, []),
    ],
)
def test_jobs_are_selected_and_paged(filled: Store, selectors: dict[str, Any], uids: list[str]) -> None:
    with filled.read() as r:
        assert [job.uid for job in r.jobs(**selectors)] == uids


def test_a_job_moves_to_another_queue_with_its_spec(filled: Store) -> None:
    with filled.write() as w:
        w.patch_job("1", spec={"queue": "fast"}, generation=2)
    with filled.read() as r:
        assert [job.uid for job in r.jobs(queue="fast")] == ["1", "2"]


def test_attempts_and_workers_of_several_come_in_one_query(filled: Store) -> None:
    with filled.write() as w:
        w.insert_attempt(make_attempt("a1", job="1", phase=AttemptPhase.ENDED))
        w.insert_attempt(make_attempt("a2", job="1", number=2))
        w.insert_attempt(make_attempt("a3", job="3"))
        w.insert_workers([make_worker(f"w{n}", attempt="a2", index=n, role="r") for n in (11, 2, 0)])
        w.insert_worker(make_worker("v", attempt="a2", index=5, role="head", phase=WorkerPhase.LOST, node="node-2"))
        w.insert_worker(make_worker("u", attempt="a3", node="node-2"))
    with filled.read() as r:
        assert [a.uid for a in r.attempts("1")] == ["a1", "a2"]
        assert [a.uid for a in r.live_attempts()] == ["a2", "a3"]
        assert set(r.attempts_of(["a1", "a3", "none"])) == {"a1", "a3"}
        assert [w.uid for w in r.workers("a2")] == ["v", "w0", "w2", "w11"]
        by_attempt = r.workers_of(["a2", "a3", "none"])
        assert {uid: [w.uid for w in found] for uid, found in by_attempt.items()} == {
            "a2": ["v", "w0", "w2", "w11"],
            "a3": ["u"],
        }
        assert [w.uid for w in r.workers_of_node("node-2")] == ["u"]
        assert [w.uid for w in r.workers_of_node("node-2", live_only=False)] == ["u", "v"]
        assert [w.uid for w in r.live_workers()] == ["u", "w0", "w11", "w2"]
        assert r.attempts_of([]) == {}


def test_more_uids_than_fit_one_query_are_all_found(sqlite_store: Store) -> None:
    with sqlite_store.write() as w:
        w.insert_job(make_job("1"))
        w.insert_attempt(make_attempt("a1", job="1"))
    with sqlite_store.read() as r:
        assert list(r.attempts_of([f"no-{n}" for n in range(2500)] + ["a1"])) == ["a1"]


def test_queues_are_put_replaced_and_deleted(store: Store) -> None:
    with store.write() as w:
        w.put_queue(QueueRecord(name="b", uid="u1", spec={"weight": 2}, created_at=1.0))
        w.put_queue(QueueRecord(name="a", uid="u2"))
    with store.write() as w:
        w.put_queue(QueueRecord(name="b", uid="u3", spec={"weight": 3}, generation=2))
        w.delete_queue("a")
    with store.read() as r:
        (queue,) = r.queues()
        assert r.queue("b") == queue
        assert (queue.uid, queue.spec, queue.generation, queue.created_at) == ("u1", {"weight": 3}, 2, 1.0)
        assert [(c.name, c.op) for c in r.changes(2)] == [("b", "put"), ("a", "delete")]


LABEL = st.dictionaries(st.sampled_from(["a", "ab", "b.c/a"]), st.sampled_from(["a", "b", "", "a_b", "A", "a.b"]))


@given(st.lists(LABEL, max_size=6), LABEL)
def test_labels_select_as_a_dictionary_comparison_would(
    label_store: Store, have: list[dict[str, str]], want: dict[str, str]
) -> None:
    with label_store.write() as w:
        for job in w.jobs():
            w.delete_job(job.uid)
        for number, labels in enumerate(have):
            w.insert_job(make_job(str(number), name=f"n{number}", labels=labels, phase=JobPhase.FAILED))
        found = {job.uid for job in w.jobs(labels=want)}
    assert found == {str(n) for n, labels in enumerate(have) if want.items() <= labels.items()}


@pytest.fixture(scope="module")
def label_store(sqlite_template: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    import shutil

    from controller.state import open_store
    from muster.clock import ManualClock

    path = tmp_path_factory.mktemp("labels") / "muster.db"
    shutil.copy(sqlite_template, path)
    store = open_store(f"sqlite:///{path}", clock=ManualClock(), new_id=str)
    yield store
    store.close()
