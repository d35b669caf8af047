"""What the leader tells of the attempts that go by."""

import structlog

from controller.picture import Picture
from controller.records import Change
from controller.telemetry.chronicle import Chronicle
from controller.telemetry.spans import Span
from muster.reasons import End
from muster.states import AttemptPhase
from tests.makers import make_attempt, make_job, make_worker

JOB = make_job()


def change(record, revision):
    kind = type(record).__name__.removesuffix("Record")
    return Change(
        revision=revision, kind=kind, uid=record.uid, namespace="default", name="x", op="put", at=0.0, record=record
    )


def test_each_move_is_one_line_and_running_ranks_one_trace():
    traces: list[list[Span]] = []
    chronicle, picture = Chronicle([], lambda spans: traces.append(list(spans))), Picture([JOB])
    launching = make_attempt(JOB, phase=AttemptPhase.LAUNCHING, launching_at=2.0)
    running = make_attempt(JOB, phase=AttemptPhase.RUNNING, launching_at=2.0, running_at=3.0)
    ended = make_attempt(JOB, phase=AttemptPhase.ENDED, reason=End.RANK_FAILED, message="rank 3 exited with 1")
    worker = make_worker(running, running_at=3.0)
    with structlog.testing.capture_logs() as lines:
        for revision, batch in enumerate(([launching, worker], [launching], [running], [ended])):
            changes = [change(record, revision) for record in batch]
            picture.apply(changes)
            chronicle.take(changes, picture)
    assert [line["event"] for line in lines] == ["attempt launching", "attempt running", "attempt ended"]
    assert {line["job"] for line in lines} == {f"{JOB.namespace}/{JOB.name}"}
    assert {line["attempt"] for line in lines} == {running.uid}
    assert lines[-1]["why"] == "rank 3 exited with 1"
    (spans,) = traces
    assert [span.name for span in spans] == ["attempt", "wait", "prepare", "spawn", "worker worker-0"]


def test_a_successor_tells_nothing_twice():
    running = make_attempt(JOB, phase=AttemptPhase.RUNNING)
    chronicle, picture = Chronicle([running], None), Picture([JOB, running])
    with structlog.testing.capture_logs() as lines:
        chronicle.take([change(running, 1)], picture)
    assert lines == []
