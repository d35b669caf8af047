"""The books of a job: every second is in one bucket, and only what was kept is productive."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.records import ResumePoint, Verdict
from controller.recovery.goodput import Bucket, books, ettr, mean_times, totals
from muster.protocol import ProgressPoint
from muster.reasons import End
from muster.states import AttemptPhase, JobPhase
from tests.makers import make_attempt, make_job

B = Bucket
JOB = make_job(created_at=0.0, queued_at=0.0, phase=JobPhase.SUCCEEDED, finished_at=1000.0)


def attempt(number=1, **fields):
    return make_attempt(JOB, number, **({"phase": AttemptPhase.ENDED} | fields))


def steps(begin, every, numbers, phase=""):
    return [ProgressPoint(step=step, at=begin + every * (index + 1), phase=phase) for index, step in enumerate(numbers)]


def book(job, attempts, progress=(), devices=8, now=1000.0):
    points = {one.uid: found for one, found in zip(attempts, progress, strict=False)}
    held = {one.uid: devices for one in attempts}
    return books(job, attempts, wanted=devices, devices=held, progress=points, now=now)


def shares(found):
    return {bucket: seconds / 8 for bucket, seconds in totals(found.slices).items() if seconds}


def test_a_job_that_just_runs():
    one = attempt(placed_at=100.0, running_at=110.0, ended_at=1000.0, reason=End.SUCCEEDED)
    found = book(JOB, [one], [steps(110.0, 10.0, range(1, 90))])
    assert shares(found) == {B.QUEUED: 100, B.STARTING: 20, B.PRODUCTIVE: 880}
    assert ettr(totals(found.slices)) == 880 / 900
    assert found.restarts == ()


def test_what_is_done_again_is_lost_and_the_way_back_is_recovering():
    verdict = Verdict(category="gpu_lost", action="replace", why="x")
    first = attempt(
        placed_at=0.0,
        running_at=0.0,
        failed_at=305.0,
        detected_at=310.0,
        ended_at=320.0,
        decided_at=321.0,
        reason=End.RANK_FAILED,
        verdict=verdict,
    )
    again = attempt(
        2,
        placed_at=330.0,
        running_at=350.0,
        ended_at=1000.0,
        reason=End.SUCCEEDED,
        resume=ResumePoint(path="/c", step=20),
    )
    found = book(JOB, [first, again], [steps(0.0, 10.0, range(1, 31)), steps(360.0, 10.0, range(21, 80))])
    assert shares(found) == {B.STARTING: 10, B.PRODUCTIVE: 190 + 630, B.LOST: 105, B.RECOVERING: 65}
    (restart,) = found.restarts
    assert (restart.cause, restart.detect, restart.stop, restart.decide) == ("gpu_lost", 5.0, 10.0, 1.0)
    assert (restart.place, restart.launch, restart.load, restart.redo) == (9.0, 20.0, 20.0, 105.0)
    assert mean_times(found.slices, found.restarts) == (925.0, 65.0)


def test_a_hang_is_stalled_from_the_step_that_did_not_come():
    hung = attempt(placed_at=0.0, running_at=0.0, detected_at=400.0, ended_at=410.0, reason=End.RANK_FAILED)
    again = attempt(
        2,
        placed_at=410.0,
        running_at=410.0,
        ended_at=1000.0,
        reason=End.SUCCEEDED,
        resume=ResumePoint(path="/c", step=10),
    )
    found = book(JOB, [hung, again], [steps(0.0, 10.0, range(1, 11)), steps(410.0, 10.0, range(11, 60))])
    assert shares(found)[B.STALLED] == 400 - 110
    assert shares(found)[B.LOST] == 10


def test_saves_are_seen_where_the_program_says_so():
    points = [*steps(0.0, 10.0, range(1, 6)), ProgressPoint(step=5, at=60.0, phase="save"), *steps(80.0, 10.0, (6, 7))]
    one = attempt(placed_at=0.0, running_at=0.0, ended_at=1000.0, reason=End.SUCCEEDED)
    assert shares(book(JOB, [one], [points]))[B.SAVING] == 30


def test_a_stop_on_purpose_is_no_failure_its_grace_is_saving():
    stopped = attempt(placed_at=0.0, running_at=0.0, stopping_at=300.0, ended_at=330.0, reason=End.PREEMPTED)
    again = attempt(
        2,
        placed_at=500.0,
        running_at=510.0,
        ended_at=1000.0,
        reason=End.SUCCEEDED,
        resume=ResumePoint(path="/c", step=30),
    )
    found = book(JOB, [stopped, again], [steps(0.0, 10.0, range(1, 31)), steps(510.0, 10.0, range(31, 80))])
    assert shares(found) == {B.STARTING: 10 + 20, B.PRODUCTIVE: 290 + 480, B.SAVING: 30, B.QUEUED: 170}
    assert found.restarts == ()


def test_suspended_is_neither_queued_nor_held():
    job = replace(JOB, queued_at=600.0)
    stopped = attempt(placed_at=0.0, running_at=0.0, stopping_at=300.0, ended_at=310.0, reason=End.SUSPENDED)
    again = attempt(2, placed_at=700.0, running_at=700.0, ended_at=1000.0, reason=End.SUCCEEDED)
    found = book(job, [stopped, again])
    assert (shares(found)[B.SUSPENDED], shares(found)[B.QUEUED]) == (290, 100)


def test_a_start_from_nothing_loses_all_that_was():
    first = attempt(placed_at=0.0, running_at=0.0, failed_at=100.0, ended_at=100.0, reason=End.NODE_LOST)
    again = attempt(2, placed_at=100.0, running_at=100.0, ended_at=1000.0, reason=End.SUCCEEDED)
    assert shares(book(JOB, [first, again], [steps(0.0, 10.0, range(1, 11))]))[B.LOST] == 90


def test_a_running_job_is_booked_up_to_now():
    job = replace(JOB, phase=JobPhase.RUNNING, finished_at=None)
    one = attempt(placed_at=10.0, running_at=20.0, phase=AttemptPhase.RUNNING)
    assert shares(book(job, [one], now=50.0)) == {B.QUEUED: 10, B.STARTING: 10, B.PRODUCTIVE: 30}


@st.composite
def lives(draw):
    """Attempts one after the other with whole-numbered times, any of which may be unknown, wrong or late."""
    times = iter(sorted(draw(st.lists(st.integers(0, 2000), min_size=24, max_size=24))))
    job = replace(JOB, created_at=float(next(times)), finished_at=None, phase=draw(st.sampled_from(list(JobPhase))))
    attempts, progress = [], []
    for number in range(1, draw(st.integers(0, 3)) + 1):
        placed, running, failed, detected, stopping, ended = (float(next(times)) for _ in range(6))
        maybe = lambda time: draw(st.sampled_from([time, None]))  # noqa: E731
        attempts.append(
            attempt(
                number,
                placed_at=placed,
                running_at=maybe(running),
                failed_at=maybe(failed),
                detected_at=maybe(detected),
                stopping_at=maybe(stopping),
                ended_at=ended,
                reason=draw(st.sampled_from(list(End))),
                resume=draw(st.sampled_from([None, ResumePoint(path="/c", step=draw(st.integers(0, 20)))])),
            )
        )
        moments = sorted(draw(st.lists(st.integers(int(placed), int(ended)), max_size=6)))
        phases = st.sampled_from(["", "save", "train"])
        progress.append([ProgressPoint(step=i, at=float(at), phase=draw(phases)) for i, at in enumerate(moments)])
    if draw(st.booleans()):
        job = replace(job, finished_at=float(draw(st.integers(0, 2500))))
    return job, attempts, progress, float(draw(st.integers(0, 2500)))


@given(lives())
def test_the_books_add_up_to_the_wall_time_exactly(life):
    job, attempts, progress, now = life
    found = book(job, attempts, progress, devices=3, now=now)
    end = max(job.finished_at if job.finished_at is not None else now, job.created_at)
    assert sum(one.ended - one.began for one in found.slices) == end - job.created_at
    assert all(a.ended == b.began for a, b in zip(found.slices, found.slices[1:], strict=False))
    assert sum(totals(found.slices).values()) == 3 * (end - job.created_at)
    share = ettr(totals(found.slices))
    assert share is None or 0 <= share <= 1
