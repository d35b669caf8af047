"""What a verdict means for the attempt and the job."""

import pytest

from controller.records import Verdict
from controller.recovery.outcome import FATE, HELD, outcome
from controller.recovery.policy import POLICIES
from controller.recovery.wording import does
from muster.reasons import End, Held
from muster.states import JOB_MOVES, JobPhase
from tests.recovery.case import Case

ROWS = [
    ("success", "record", End.SUCCEEDED, JobPhase.SUCCEEDED, ""),
    ("crash", "restart", End.RANK_FAILED, JobPhase.RECOVERING, ""),
    ("collective", "restart", End.RANK_FAILED, JobPhase.RECOVERING, ""),
    ("node_lost", "replace", End.NODE_LOST, JobPhase.RECOVERING, ""),
    ("worker_vanished", "restart", End.WORKER_VANISHED, JobPhase.RECOVERING, ""),
    ("port_in_use", "retry", End.LAUNCH_FAILED, JobPhase.RECOVERING, ""),
    ("checkpoint_corrupt", "previous_checkpoint", End.RANK_FAILED, JobPhase.RECOVERING, ""),
    ("user_error", "fail", End.USER_ERROR, JobPhase.FAILED, ""),
    ("gpu_oom", "fail", End.USER_ERROR, JobPhase.FAILED, ""),
    ("host_oom", "fail", End.RANK_FAILED, JobPhase.FAILED, ""),
    ("no_progress", "fail", End.NO_PROGRESS, JobPhase.FAILED, ""),
    ("launch_user_error", "fail", End.USER_ERROR, JobPhase.FAILED, ""),
    ("disk_full", "hold", End.HELD, JobPhase.SUSPENDED, Held.DISK_FULL),
    ("storage", "hold", End.HELD, JobPhase.SUSPENDED, Held.STORAGE),
    ("checkpoint_dir", "hold", End.HELD, JobPhase.SUSPENDED, Held.STORAGE),
]


@pytest.mark.parametrize(("category", "action", "end", "phase", "held"), ROWS, ids=[row[0] for row in ROWS])
def test_the_table(category, action, end, phase, held):
    follows = outcome(Verdict(category=category, action=action, why="because"), Case().build())
    assert (follows.end, follows.next, follows.held_reason) == (end, phase, held)


@pytest.mark.parametrize("action", sorted(FATE))
def test_every_action_has_a_fate_that_a_recovering_job_may_meet(action):
    follows = outcome(Verdict(category="x", action=action, why="because"), Case().build())
    assert follows.next is JobPhase.RECOVERING or follows.next in JOB_MOVES[JobPhase.RECOVERING]


@pytest.mark.parametrize("action", ["replace", "drain"])
def test_culprit_nodes_are_excluded_and_the_others_preferred(action):
    follows = outcome(Verdict(category="x", action=action, why="b", culprit_nodes=("n0",)), Case().build())
    assert (follows.excluded, follows.preferred) == (("n0",), ("n1",))


def test_a_suspected_node_is_not_excluded_when_the_gang_restarts_in_place():
    follows = outcome(Verdict(category="x", action="restart", why="b", culprit_nodes=("n0",)), Case().build())
    assert (follows.excluded, follows.preferred) == ((), ("n0", "n1"))


def test_every_policy_leads_to_an_action_with_a_fate_and_words():
    for category, policy in POLICIES.items():
        for action in filter(None, (policy.action, policy.again)):
            assert action in FATE
            assert does(action)
            assert action != "hold" or category in HELD
