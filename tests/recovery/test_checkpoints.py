"""The newest complete checkpoint, and what is done twice."""

import pytest

from controller.records import CheckpointRecord, ResumePoint, Verdict
from controller.recovery.checkpoints import choose, redone_steps, spoiled
from tests.makers import make_attempt, make_job


def stock(*items):
    return [
        CheckpointRecord(
            uid=f"c{order}",
            job_uid="j",
            namespace="default",
            attempt_uid="a",
            epoch=1,
            path=path,
            step=step,
            format="dcp",
            complete=complete,
            created_at=float(order),
        )
        for order, (path, step, complete) in enumerate(items)
    ]


@pytest.mark.parametrize(
    ("items", "want"),
    [
        ([], None),
        ([("/c/step-10", 10, True)], "/c/step-10"),
        ([("/c/step-10", 10, True), ("/c/step-20", 20, True)], "/c/step-20"),
        ([("/c/step-10", 10, True), ("/c/step-20", 20, False)], "/c/step-10"),
        ([("/c/step-9", 9, True), ("/c/step-10", 10, True)], "/c/step-10"),
        ([("/c/step-10", 10, False)], None),
        ([("/c/a", 10, True), ("/c/b", 10, True)], "/c/b"),
        ([("/elsewhere/step-90", 90, True), ("/c/step-10", 10, True)], "/c/step-10"),
        ([("/cc/step-90", 90, True)], None),
    ],
)
def test_choice(items, want):
    chosen = choose(stock(*items), directory="/c/")
    assert (chosen.path if chosen else None) == want


@pytest.mark.parametrize(
    ("last", "resume", "want"), [(None, None, 0), (40, None, 40), (40, 30, 10), (40, 40, 0), (30, 40, 0)]
)
def test_steps_done_twice(last, resume, want):
    assert redone_steps(last, ResumePoint(path="/c", step=resume) if resume is not None else None) == want


def test_a_checkpoint_from_which_an_attempt_could_not_start_is_passed_over():
    job = make_job()
    broken = make_attempt(
        job,
        resume=ResumePoint(path="/c/step-20", step=20),
        verdict=Verdict(category="checkpoint_corrupt", action="previous_checkpoint", why="w"),
    )
    fine = make_attempt(
        job,
        2,
        resume=ResumePoint(path="/c/step-10", step=10),
        verdict=Verdict(category="crash", action="restart", why="w"),
    )
    avoid = spoiled([broken, fine, make_attempt(job, 3)])
    assert avoid == {"/c/step-20"}
    chosen = choose(stock(("/c/step-10", 10, True), ("/c/step-20", 20, True)), directory="/c", avoid=avoid)
    assert chosen is not None
    assert chosen.path == "/c/step-10"
