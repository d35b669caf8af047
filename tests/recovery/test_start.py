"""Workers that could not be started: the user's mistake, the storage's, or one machine's."""

import pytest

from controller.recovery.outcome import outcome
from muster.reasons import End
from tests.makers import NOW
from tests.recovery.case import Case


def refused(problem, index=1, **others):
    return Case().worker(index, problem=problem, message="/w/x", exits=(), **others)


@pytest.mark.parametrize("problem", ["NO_SUCH_COMMAND", "WORKDIR_MISSING", "PERMISSION", "DISK_FULL", "CHECKPOINT_DIR"])
def test_what_only_one_machine_lacks_is_that_machines_and_the_gang_goes_elsewhere(problem):
    case = refused(problem).worker(0, ready_at=NOW)
    verdict = case.decide()
    assert (verdict.action, verdict.culprit_nodes) == ("replace", ("n1",))
    follows = outcome(verdict, case.build())
    assert (follows.end, follows.excluded) == (End.LAUNCH_FAILED, ("n1",))


def test_the_second_machine_that_lacks_it_shows_that_it_is_the_jobs():
    first = refused("NO_SUCH_COMMAND").worker(0, ready_at=NOW).decide()
    assert refused("NO_SUCH_COMMAND").worker(0, ready_at=NOW).before(first).decide().action == "fail"


def test_a_program_that_cannot_be_executed_although_every_worker_was_ready_is_the_users():
    case = refused("NO_SUCH_COMMAND", ready_at=NOW).worker(0, ready_at=NOW)
    assert case.decide().action == "fail"


def test_a_failed_launch_is_tried_again_then_elsewhere_then_given_up():
    first = refused("LAUNCH_FAILED").decide()
    second = refused("LAUNCH_FAILED").before(first).decide()
    third = refused("LAUNCH_FAILED").before(second).before(first).decide()
    assert [first.action, second.action, third.action] == ["retry", "replace", "fail"]
    assert second.culprit_nodes == ("n1",)
    assert outcome(third, refused("LAUNCH_FAILED").build()).end is End.LAUNCH_FAILED


@pytest.mark.parametrize("problem", ["PORT_BUSY", "STALE_EPOCH"])
def test_races_between_attempts_are_simply_tried_again(problem):
    verdict = refused(problem).decide()
    assert (verdict.action, verdict.node_at_fault) == ("retry", None)


def test_the_first_refusal_is_the_one_that_is_told():
    case = refused("DISK_FULL", 1, ended_at=NOW + 1).worker(0, problem="CHECKPOINT_DIR", exits=(), ended_at=NOW)
    assert case.decide().category == "checkpoint_dir"


def test_an_unknown_problem_is_no_refusal():
    assert refused("SOMETHING_NEW").decide().action == "restart"
