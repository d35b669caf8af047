"""The matrix of expected x observed, cell by cell."""

import pytest

from controller.lifecycle import Next, advance, deadline
from muster.reasons import End
from muster.states import AttemptPhase, WorkerPhase
from tests.makers import NOW, exited, make_attempt, make_job, make_worker

A, W = AttemptPhase, WorkerPhase


def gang(attempt_phase, *phases, job=None, attempt=None, **worker_changes):
    job = job or make_job(spec={"workers": len(phases)})
    attempt = make_attempt(job, phase=attempt_phase, **(attempt or {}))
    return job, attempt, [make_worker(attempt, i, phase=p, **worker_changes) for i, p in enumerate(phases)]


@pytest.mark.parametrize(
    ("name", "case", "want"),
    [
        ("nothing has begun", gang(A.PLACED, W.ASSIGNED, W.ASSIGNED), Next.STAY),
        ("one has begun", gang(A.PLACED, W.PREPARING, W.ASSIGNED), Next.LAUNCH),
        ("one of two is ready: the barrier holds", gang(A.LAUNCHING, W.READY, W.PREPARING), Next.STAY),
        ("all ready: the barrier opens", gang(A.LAUNCHING, W.READY, W.READY), Next.GO),
        ("all ready at the first look", gang(A.PLACED, W.READY, W.READY), Next.GO),
        ("told to run, not yet seen running", gang(A.LAUNCHING, W.READY, W.READY, desired="run"), Next.STAY),
        ("one runs, one is still ready", gang(A.LAUNCHING, W.RUNNING, W.READY, desired="run"), Next.STAY),
        ("all run", gang(A.LAUNCHING, W.RUNNING, W.RUNNING, desired="run"), Next.RUN),
        ("running and healthy", gang(A.RUNNING, W.RUNNING, W.RUNNING, desired="run"), Next.STAY),
        ("stopping, one is not confirmed", gang(A.STOPPING, W.EXITED, W.RUNNING), Next.STAY),
        ("stopping, all confirmed", gang(A.STOPPING, W.EXITED, W.LOST), Next.END),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_matrix(name, case, want):
    assert advance(*case, NOW + 1).next is want


def test_a_quick_worker_that_has_already_succeeded_counts_as_started():
    job, attempt, (first, second) = gang(A.LAUNCHING, W.EXITED, W.RUNNING)
    first = make_worker(attempt, 0, phase=W.EXITED, exits=exited(0))
    assert advance(job, attempt, [first, second], NOW).next is Next.RUN


def test_all_exited_with_zero_is_success():
    job, attempt, workers = gang(A.RUNNING, W.EXITED, W.EXITED, exits=exited(0))
    step = advance(job, attempt, workers, NOW)
    assert (step.next, step.reason) == (Next.END, End.SUCCEEDED)


def test_exit_zero_after_a_stop_on_purpose_is_not_success():
    job, attempt, workers = gang(A.STOPPING, W.EXITED, exits=exited(0), attempt={"reason": End.SUSPENDED})
    assert advance(job, attempt, workers, NOW).reason is End.SUSPENDED


@pytest.mark.parametrize(
    "changes",
    [
        {"phase": W.EXITED, "exits": exited(1)},
        {"phase": W.EXITED, "exits": exited(None, signal=9)},
        {"phase": W.RUNNING, "exits": exited(1)},
        {"phase": W.LOST},
        {"phase": W.EXITED, "problem": "VANISHED"},
        {"phase": W.EXITED},
    ],
)
def test_the_first_bad_end_stops_the_gang_with_the_kill_grace(changes):
    job, attempt, (healthy, _) = gang(A.RUNNING, W.RUNNING, W.RUNNING)
    step = advance(job, attempt, [healthy, make_worker(attempt, 1, **changes)], NOW)
    assert (step.next, step.reason, step.grace) == (Next.STOP, None, 5.0)


def test_the_failure_is_dated_by_the_earliest_bad_exit():
    job, attempt, _ = gang(A.RUNNING, W.RUNNING, W.RUNNING)
    workers = [
        make_worker(attempt, 0, phase=W.EXITED, exits=exited(1, at=NOW + 7)),
        make_worker(attempt, 1, phase=W.EXITED, exits=exited(None, signal=9, at=NOW + 3)),
    ]
    assert advance(job, attempt, workers, NOW + 9).failed_at == NOW + 3


@pytest.mark.parametrize(
    ("wish", "reason"), [("cancel", End.CANCELLED), ("suspend", End.SUSPENDED), ("restart_requested", End.SUPERSEDED)]
)
def test_a_users_wish_stops_with_the_checkpoint_grace(wish, reason):
    job = make_job(spec={"checkpoint": {"directory": "/c", "grace": "45s"}}, **{wish: True})
    step = advance(*gang(A.RUNNING, W.RUNNING, job=job), NOW)
    assert (step.next, step.reason, step.grace) == (Next.STOP, reason, 45.0)


def test_a_taken_port_gets_new_ports_and_not_a_new_attempt():
    job, attempt, _ = gang(A.LAUNCHING, W.READY, W.READY)
    workers = [
        make_worker(attempt, 0, phase=W.READY),
        make_worker(attempt, 1, phase=W.PREPARING, problem="PORT_BUSY", busy_ports=(20000,)),
    ]
    assert advance(job, attempt, workers, NOW).next is Next.NEW_PORTS


def test_a_launch_that_takes_too_long_is_given_up_at_its_deadline_not_before():
    job = make_job(spec={"recovery": {"launchTimeout": "60s"}})
    case = gang(A.LAUNCHING, W.PREPARING, job=job)
    assert deadline(job, case[1]) == NOW + 60
    assert advance(*case, NOW + 59.9).next is Next.STAY
    step = advance(*case, NOW + 60)
    assert (step.next, step.reason) == (Next.STOP, End.LAUNCH_TIMEOUT)


def test_time_in_which_nobody_led_is_no_part_of_a_launch():
    """Also what a leader's clock is ahead of the one's before."""
    job = make_job(spec={"recovery": {"launchTimeout": "60s"}})
    case, taken = gang(A.LAUNCHING, W.PREPARING, job=job), NOW + 7200
    assert advance(*case, taken).next is Next.STOP
    assert advance(*case, taken, taken).next is Next.STAY
    assert deadline(job, case[1], taken) == taken + 60
    assert advance(*case, taken + 60, taken).reason is End.LAUNCH_TIMEOUT


def test_the_time_limit_counts_running_time():
    job = make_job(spec={"timeLimit": "1h"})
    case = gang(A.RUNNING, W.RUNNING, job=job, attempt={"running_at": NOW + 100})
    assert advance(*case, NOW + 3600).next is Next.STAY
    step = advance(*case, NOW + 3700)
    assert (step.next, step.reason) == (Next.STOP, End.TIME_LIMIT)
    assert deadline(job, case[1]) == NOW + 3700


def test_a_job_without_limits_has_no_deadline_while_it_runs():
    job, attempt, _ = gang(A.RUNNING, W.RUNNING)
    assert deadline(job, attempt) is None
