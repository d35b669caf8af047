"""The same end again and again, and what counts as progress."""

import msgspec
import pytest

from controller.records import ResumePoint
from controller.recovery.decide import PATIENCE
from controller.recovery.repetition import LONG_RUN
from muster.reasons import End
from tests.makers import NOW
from tests.recovery.case import Case


def odd(code=3, log="odd\n", **fields):
    return Case(**fields).ends(0, code=code).log(0, log)


def killed(**fields):
    return Case(**fields).ends(0, signal=9)


def test_an_unrecognised_end_restarts_once_and_stops_at_the_second_without_progress():
    first = Case().ends(0, code=3).log(0, "step failed at 0x7f12 pid 991\n").decide()
    assert first.action == "restart"
    second = Case().ends(0, code=3).log(0, "step failed at 0x9a00 pid 1204\n").before(first).decide()
    assert (second.category, second.action) == ("no_progress", "fail")


def test_progress_between_two_equal_ends_earns_another_try():
    first = Case().ends(0, code=3).log(0, "odd\n").decide()
    verdict = Case(best_step=10, last_step=20).ends(0, code=3).log(0, "odd\n").before(first).decide()
    assert verdict.action == "restart"


def test_the_limit_of_no_progress_is_the_jobs_to_set():
    first = Case().ends(0, code=3).log(0, "odd\n").decide()
    case = Case(noProgressLimit=3).ends(0, code=3).log(0, "odd\n").before(first)
    assert case.decide().action == "restart"
    assert case.before(first).decide().action == "fail"


def test_other_kinds_of_ends_do_not_count_as_the_same():
    first = Case().ends(0, signal=9).decide()
    assert Case().ends(0, code=3).log(0, "odd\n").before(first).decide().action == "restart"


def test_two_kills_from_outside_are_no_end_of_the_programs_own():
    first = killed().decide()
    verdict = killed().before(first).before(first).decide()
    assert (verdict.category, verdict.action) == ("crash", "restart")


def test_kills_from_outside_between_steps_never_stop_a_job_that_goes_on():
    case = killed(best_step=40, last_step=50)
    for step in (40, 30, 20, 10, 5, 3):
        case.before(killed().decide(), last_step=step)
    assert case.decide().action == "restart"


def test_no_new_step_in_many_attempts_stops_the_job_whatever_ended_them():
    ends = [killed().decide(), odd(3).decide(), odd(4).decide(), Case().ends(0, signal=11).decide()]
    case = killed(last_step=40, best_step=50)
    for index, verdict in enumerate(ends):
        case.before(verdict, last_step=50 if index == 3 else 40)
    assert case.decide().action == "restart"
    case = killed(last_step=40, best_step=50)
    for verdict in ends:
        case.before(verdict, last_step=40)
    assert len(ends) + 1 == 2 + PATIENCE
    verdict = case.before(ends[0], last_step=50).decide()
    assert (verdict.category, verdict.action) == ("no_progress", "fail")
    assert "no new step was made in 5 attempts" in verdict.why


@pytest.mark.parametrize(("seconds", "action"), [(LONG_RUN, "restart"), (LONG_RUN - 1, "fail")])
def test_a_job_that_reports_no_steps_shows_progress_by_running_long(seconds, action):
    case = odd().before(odd().decide())
    case.attempt = msgspec.structs.replace(case.attempt, running_at=NOW, failed_at=NOW + seconds)
    assert case.decide().action == action


def test_a_long_run_is_no_progress_of_a_job_that_reports_steps():
    case = odd(last_step=10, best_step=10).before(odd().decide(), last_step=10)
    case.attempt = msgspec.structs.replace(case.attempt, running_at=NOW, failed_at=NOW + 10 * LONG_RUN)
    assert case.decide().action == "fail"


def test_the_same_end_at_the_same_step_after_a_replay_is_the_programs():
    """The first attempt got to step 50, the second one from the checkpoint at 40 to the same step 50."""
    case = odd(last_step=50, best_step=50).before(odd().decide(), last_step=50)
    assert case.decide().category == "no_progress"


@pytest.mark.parametrize("reason", [End.NODE_LOST, End.WORKER_VANISHED, End.PREEMPTED, End.DRAINED])
def test_what_befell_the_machines_in_between_neither_counts_nor_hides_a_repeat(reason):
    case = odd().before(None, reason=reason).before(odd().decide())
    assert case.decide().category == "no_progress"
    assert odd().before(None, reason=reason).before(None, reason=reason).decide().action == "restart"


@pytest.mark.parametrize("reason", [End.SUSPENDED, End.SUPERSEDED, End.HELD])
def test_after_its_user_came_in_a_job_begins_anew(reason):
    case = odd().before(None, reason=reason).before(odd().decide())
    assert case.decide().action == "restart"


def test_lost_nodes_never_count_as_a_lack_of_progress():
    case = Case().worker(0, problem="VANISHED", exits=())
    for _ in range(9):
        case.before(case.decide(), reason=End.WORKER_VANISHED)
    assert case.decide().action == "restart"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("failed at 0x7f12 pid 991", "failed at 0x9a00 pid 1204"),
        ("cannot reach 10.0.0.4:29500", "cannot reach 10.1.2.3:31007"),
        ("2026-12-01 01:51:05,319 lost step 17 of epoch 3", "2027-01-31 23:00:00,001 lost step 99 of epoch 12"),
        ("no /var/lib/a/attempts/123abc/x", "no /var/lib/a/attempts/987fed/x"),
        ("loss 1.3e-05 is odd", "loss 2.75 is odd"),
        ("run 01f9c2d4e5 broke", "run 77aa00bb11 broke"),
    ],
)
def test_addresses_times_pids_and_paths_do_not_tell_two_ends_apart(one, other):
    assert odd(log=one).decide().fingerprint == odd(log=other).decide().fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (odd(3), odd(4)),
        (odd(log="cannot open the door"), odd(log="cannot open the window")),
        (killed(), Case().ends(0, signal=11)),
        (odd(3), killed()),
    ],
)
def test_other_words_codes_or_signals_make_another_end(one, other):
    assert one.decide().fingerprint != other.decide().fingerprint


def test_what_a_killed_rank_printed_last_is_chance():
    first = Case().ends(0, signal=11).log(0, "loading shard a\n").decide()
    assert Case().ends(0, signal=11).log(0, "warming up\n").before(first).decide().category == "no_progress"


def test_a_port_that_is_fixed_in_the_program_is_tried_twice():
    def case():
        return Case().ends(0, code=1).log(0, "OSError: [Errno 98] Address already in use\n")

    first = case().decide()
    assert (first.action, case().before(first).decide().category) == ("retry", "no_progress")


def broken(resume):
    case = Case().ends(0, code=1).log(0, "RuntimeError: PytorchStreamReader failed reading zip archive\n")
    case.attempt = msgspec.structs.replace(case.attempt, resume=ResumePoint(path=resume, step=1))
    return case


def test_each_broken_checkpoint_is_passed_over_once():
    first = broken("/c/step-30").decide()
    again = broken("/c/step-20").before(first, resume=ResumePoint(path="/c/step-30", step=1)).decide()
    same = broken("/c/step-30").before(first, resume=ResumePoint(path="/c/step-30", step=1)).decide()
    assert (first.action, again.action, same.action) == ("previous_checkpoint", "previous_checkpoint", "fail")
