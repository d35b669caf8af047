"""Verdicts: who was at fault, and the cheapest action that works."""

import msgspec
import pytest

from controller.records import Verdict
from controller.recovery.decide import decide
from controller.recovery.outcome import outcome
from controller.recovery.types import FailureCase
from muster.evidence import Evidence, Source
from muster.protocol import RankExit
from muster.reasons import End, Held
from muster.states import AttemptPhase, JobPhase, WorkerPhase
from tests.makers import NOW, make_attempt, make_job, make_node, make_worker
from tests.recovery.logs import lost_peer, raised, torchrun_summary

STOPPED = NOW + 10


class Case:
    """Two workers on n0 and n1, each with one rank unless a launcher's log says otherwise."""

    def __init__(self, *, best_step=None, last_step=None, restarts=0, **recovery):
        self.job = make_job(spec={"workers": 2, "recovery": recovery}, best_step=best_step, restarts=restarts)
        self.attempt = make_attempt(self.job, 3, phase=AttemptPhase.STOPPING, stopping_at=STOPPED, last_step=last_step)
        self.workers = [
            make_worker(self.attempt, i, phase=WorkerPhase.EXITED, exits=(RankExit(process=0, rank=i, code=0, at=NOW),))
            for i in (0, 1)
        ]
        self.evidence = []
        self.history = []

    def worker(self, index, **changes):
        self.workers[index] = msgspec.structs.replace(self.workers[index], **changes)
        return self

    def ends(self, index, code=None, signal=None, at=NOW, oom=False, rank="own"):
        rank = index if rank == "own" else rank
        return self.worker(index, exits=(RankExit(process=0, rank=rank, code=code, signal=signal, at=at, oom=oom),))

    def log(self, index, text, rank="own"):
        rank = index if rank == "own" else rank
        self.evidence.append(Evidence(source=Source.LOG, at=NOW, role="worker", worker=index, rank=rank, text=text))
        return self

    def before(self, verdict, **changes):
        number = self.attempt.number - 1 - len(self.history)
        self.history.append(
            make_attempt(self.job, number, phase=AttemptPhase.ENDED, verdict=verdict, reason=End.RANK_FAILED, **changes)
        )
        return self

    def build(self):
        return FailureCase(
            job=self.job,
            attempt=self.attempt,
            workers=tuple(self.workers),
            nodes={name: make_node(name) for name in ("n0", "n1")},
            evidence=tuple(self.evidence),
            history=tuple(self.history),
        )

    def decide(self):
        return decide(self.build(), NOW + 20)


def test_a_killed_rank_is_the_culprit_and_the_gang_restarts_in_place():
    verdict = Case().ends(1, signal=9).ends(0, code=1, at=NOW + 1).log(0, lost_peer(0)).decide()
    assert (verdict.action, verdict.category, verdict.culprit_rank) == ("restart", "crash", 1)
    assert "rank 1 on n1" in verdict.why
    assert "SIGKILL" in verdict.why


def test_victims_that_ended_first_do_not_hide_the_culprit():
    verdict = Case().ends(0, code=1, at=NOW - 1).log(0, lost_peer(0)).ends(1, signal=11, at=NOW).decide()
    assert verdict.culprit_rank == 1
    assert "SIGSEGV" in verdict.why


def test_torchrun_names_the_killed_rank_among_those_it_ended_itself():
    case = Case().ends(0, code=1, rank=None).ends(1, code=1, rank=None, at=NOW + 3)
    case.log(0, torchrun_summary((1, 1, -9), (0, 0, -15)), rank=None).log(0, lost_peer(0), rank=0)
    case.log(1, torchrun_summary((2, 0, 1), (3, 1, 1)), rank=None).log(1, lost_peer(2), rank=2).log(
        1, lost_peer(3), rank=3
    )
    verdict = case.decide()
    assert (verdict.action, verdict.culprit_rank) == ("restart", 1)
    assert "rank 1 on n0" in verdict.why


def test_torchrun_with_a_raised_error_is_the_users_even_when_the_other_node_saw_only_lost_peers():
    case = Case().ends(0, code=1, rank=None, at=NOW + 3).ends(1, code=1, rank=None)
    case.log(0, torchrun_summary((0, 0, 1), (1, 1, -15)), rank=None).log(0, lost_peer(0), rank=0)
    case.log(1, torchrun_summary((3, 1, 1), (2, 0, -15)), rank=None).log(1, raised(3), rank=3)
    verdict = case.decide()
    assert (verdict.action, verdict.category, verdict.culprit_rank) == ("fail", "user_error", 3)
    assert "KeyError: 'lr'" in verdict.why


@pytest.mark.parametrize(
    "line",
    [
        "ModuleNotFoundError: No module named 'torhc'",
        "SyntaxError: invalid syntax",
        "NameError: name 'x' is not defined",
        "TypeError: forward() missing 1 required positional argument: 'x'",
        "AssertionError",
        "mypackage.errors.ValueError: bad config",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x10 and 12x3)",
        "train.py: error: unrecognized arguments: --lrr",
        "python: can't open file '/w/tran.py': [Errno 2] No such file or directory",
        "/bin/sh: 1: trainn: not found",
    ],
)
def test_user_errors_are_recognised_by_kind(line):
    verdict = Case().ends(0, code=1).log(0, f"Traceback (most recent call last):\n{line}\n").decide()
    assert (verdict.action, verdict.node_at_fault) == ("fail", False)
    assert outcome(verdict, Case().build()).end is End.USER_ERROR


@pytest.mark.parametrize(("code", "says"), [(126, "cannot be executed"), (127, "was not found")])
def test_a_shells_own_words_for_a_missing_program(code, says):
    verdict = Case().ends(0, code=code).decide()
    assert verdict.action == "fail"
    assert says in verdict.why


def test_a_signal_is_no_user_error_even_when_a_harmless_traceback_was_logged_before():
    verdict = Case().ends(0, signal=9).log(0, "ValueError: caught and handled\n").decide()
    assert verdict.action == "restart"


def test_the_later_word_decides_between_an_own_error_and_lost_peers():
    own = Case().ends(0, code=1).log(0, lost_peer(0) + "retrying\n" + raised(0)).decide()
    lost = Case().ends(0, code=1).log(0, raised(0) + "handled\n" + lost_peer(0)).decide()
    assert (own.category, lost.category) == ("user_error", "collective")


@pytest.mark.parametrize(
    "text", ["OSError: [Errno 28] No space left on device", "OSError: [Errno 122] Disk quota exceeded"]
)
def test_a_full_disk_holds_the_job(text):
    case = Case().ends(0, code=1).log(0, f"Traceback (most recent call last):\n{text}\n")
    verdict = case.decide()
    assert verdict.action == "hold"
    follows = outcome(verdict, case.build())
    assert (follows.next, follows.end, follows.held_reason) == (JobPhase.SUSPENDED, End.HELD, Held.DISK_FULL)


def test_sigkill_without_proof_is_not_called_out_of_memory():
    assert Case().ends(0, signal=9).decide().category == "crash"


def test_out_of_memory_with_proof_restarts_once_and_fails_the_second_time():
    first = Case().ends(0, signal=9, oom=True).decide()
    assert (first.category, first.action) == ("host_oom", "restart")
    again = Case().ends(0, signal=9, oom=True).before(first).decide()
    assert again.action == "fail"
    assert "more memory" in again.why


def test_a_lost_node_is_replaced_and_not_used_again_for_the_next_attempt():
    case = Case().worker(0, phase=WorkerPhase.LOST, exits=()).ends(1, signal=15, at=STOPPED + 1)
    verdict = case.decide()
    assert (verdict.action, verdict.culprit_nodes, verdict.node_at_fault) == ("replace", ("n0",), True)
    follows = outcome(verdict, case.build())
    assert (follows.end, follows.preferred, follows.excluded) == (End.NODE_LOST, ("n1",), ("n0",))


def test_a_worker_that_vanished_restarts_the_gang():
    verdict = Case().worker(0, problem="VANISHED", exits=()).ends(1, signal=15, at=STOPPED + 1).decide()
    assert (verdict.category, verdict.action) == ("worker_vanished", "restart")


def test_ranks_that_a_fence_killed_are_not_called_crashed():
    case = Case().worker(0, problem="FENCED").ends(0, signal=9, at=NOW - 1).ends(1, signal=15, at=STOPPED + 1)
    verdict = case.decide()
    assert (verdict.category, verdict.action) == ("worker_vanished", "restart")
    assert "lost its lease" in verdict.why
    assert outcome(verdict, case.build()).end is End.WORKER_VANISHED


@pytest.mark.parametrize(
    ("problem", "action", "end", "phase"),
    [
        ("NO_SUCH_COMMAND", "fail", End.USER_ERROR, JobPhase.FAILED),
        ("WORKDIR_MISSING", "fail", End.USER_ERROR, JobPhase.FAILED),
        ("PERMISSION", "fail", End.USER_ERROR, JobPhase.FAILED),
        ("DISK_FULL", "hold", End.HELD, JobPhase.SUSPENDED),
        ("CHECKPOINT_DIR", "hold", End.HELD, JobPhase.SUSPENDED),
        ("PORT_BUSY", "retry", End.LAUNCH_FAILED, JobPhase.RECOVERING),
    ],
)
def test_what_an_agent_could_not_start(problem, action, end, phase):
    case = Case().worker(1, problem=problem, message="/w/x", exits=())
    verdict = case.decide()
    follows = outcome(verdict, case.build())
    assert (verdict.action, follows.end, follows.next) == (action, end, phase)
    assert "worker-1 on n1" in verdict.why


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


def test_a_spent_budget_fails_and_says_both():
    verdict = Case(restarts=5, maxRestarts=5).ends(0, signal=9).decide()
    assert (verdict.category, verdict.action) == ("budget_spent", "fail")
    assert "SIGKILL" in verdict.why
    assert "maxRestarts" in verdict.why


def test_nothing_known_still_gives_a_reason():
    verdict = Case().worker(0, exits=()).worker(1, exits=()).decide()
    assert verdict.action == "restart"
    assert verdict.why


def test_every_action_has_a_fate():
    for action in (
        "record",
        "retry",
        "restart",
        "replace",
        "drain",
        "hold",
        "fail",
        "previous_checkpoint",
        "original_world_size",
    ):
        follows = outcome(Verdict(category="x", action=action, why="because"), Case().build())
        assert follows.next in (JobPhase.RECOVERING, JobPhase.SUSPENDED, JobPhase.FAILED)
