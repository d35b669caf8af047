"""Verdicts: who was at fault, and the cheapest action that works."""

import pytest

from controller.recovery.outcome import outcome
from muster.protocol import RankExit
from muster.reasons import End, Held
from muster.states import JobPhase, WorkerPhase
from tests.makers import NOW
from tests.recovery.case import STOPPED, Case
from tests.recovery.logs import lost_peer, raised, torchrun_summary


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


def test_a_spent_budget_fails_and_says_both():
    verdict = Case(restarts=5, maxRestarts=5).ends(0, signal=9).decide()
    assert (verdict.category, verdict.action) == ("crash", "fail")
    assert "SIGKILL" in verdict.why
    assert "maxRestarts" in verdict.why


def test_nothing_known_still_gives_a_reason():
    verdict = Case().worker(0, exits=()).worker(1, exits=()).decide()
    assert verdict.action == "restart"
    assert verdict.why


def test_no_restart_is_allowed_when_the_budget_is_zero():
    verdict = Case(maxRestarts=0).ends(0, signal=9).decide()
    assert verdict.action == "fail"
    assert "maxRestarts is 0" in verdict.why


def test_a_lost_node_keeps_its_end_when_the_budget_is_spent():
    case = Case(restarts=1, maxRestarts=1).worker(0, phase=WorkerPhase.LOST, exits=())
    verdict = case.decide()
    assert (verdict.action, outcome(verdict, case.build()).end) == ("fail", End.NODE_LOST)


def test_success_is_terminal_even_when_a_node_is_lost_after_its_ranks_had_ended():
    case = Case().worker(0, phase=WorkerPhase.LOST)
    verdict = case.decide()
    follows = outcome(verdict, case.build())
    assert (verdict.action, follows.end, follows.next) == ("record", End.SUCCEEDED, JobPhase.SUCCEEDED)


def test_a_lost_node_with_one_rank_not_yet_done_is_no_success():
    case = Case().worker(0, phase=WorkerPhase.LOST)
    template = case.workers[0].template
    case.worker(0, template=type(template)(framework="command", processes=(("true",), ("true",)), ranks=2))
    assert case.decide().category == "node_lost"


@pytest.mark.parametrize(
    ("number", "name"), [(6, "SIGABRT"), (7, "SIGBUS"), (9, "SIGKILL"), (11, "SIGSEGV"), (4, "SIGILL"), (63, "63")]
)
def test_a_rank_that_a_signal_ended_restarts_in_place(number, name):
    case = Case().ends(1, signal=number)
    verdict = case.decide()
    assert (verdict.category, verdict.action, verdict.culprit_rank) == ("crash", "restart", 1)
    assert name in verdict.why
    assert outcome(verdict, case.build()).preferred == ("n0", "n1")


def test_an_abort_of_a_runtime_that_lost_its_peer_is_a_victims():
    abort = "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [Rank 0] Watchdog caught collective operation timeout\n"
    verdict = Case().ends(0, signal=6, at=NOW - 1).log(0, abort).ends(1, signal=11, at=NOW).decide()
    assert verdict.culprit_rank == 1


def test_a_broken_pipe_is_a_victims():
    verdict = Case().ends(0, signal=13, at=NOW - 1).ends(1, code=5, at=NOW).decide()
    assert verdict.culprit_rank == 1


def test_a_program_that_answers_the_stop_with_an_exit_code_of_its_own_is_no_culprit():
    case = Case().ends(0, code=1).log(0, lost_peer(0)).ends(1, code=1, at=STOPPED + 1).log(1, "saving and leaving\n")
    assert case.decide().culprit_rank == 0


@pytest.mark.parametrize("code", [143, 130])
def test_exit_codes_of_those_who_were_told_to_end_are_victims(code):
    assert Case().ends(0, code=code, at=NOW - 1).ends(1, code=3, at=NOW).decide().culprit_rank == 1


def test_a_kill_is_the_culprits_own_although_its_nodes_clock_is_a_little_ahead():
    case = Case().ends(1, signal=9, at=STOPPED + 0.5).ends(0, code=1, at=NOW).log(0, lost_peer(0))
    assert case.decide().culprit_rank == 1


def test_a_kill_after_the_grace_is_musters():
    case = Case().ends(1, signal=9, at=STOPPED + 30).ends(0, code=1, at=NOW).log(0, lost_peer(0))
    assert (case.decide().culprit_rank, case.decide().category) == (0, "collective")


def test_the_named_cause_of_a_rank_outranks_a_silent_rank_of_the_same_instant():
    verdict = Case().ends(0, code=1).ends(1, code=1).log(1, raised(1)).decide()
    assert (verdict.culprit_rank, verdict.category) == (1, "user_error")


def test_proof_of_the_kernel_outranks_everything_of_the_same_instant():
    verdict = Case().ends(0, signal=11).ends(1, signal=9, oom=True).decide()
    assert (verdict.culprit_rank, verdict.category) == (1, "host_oom")


@pytest.mark.parametrize(
    "usage",
    [
        "usage: train.py [-h] [--lr LR]\ntrain.py: error: argument --lr: invalid float value: 'fast'\n",
        "Usage: train [OPTIONS]\nTry 'train --help' for help.\n\nError: No such option: --lrr\n",
    ],
)
def test_an_argument_parsers_refusal_is_the_users(usage):
    verdict = Case().ends(0, code=2).log(0, usage).decide()
    assert (verdict.category, verdict.action) == ("user_error", "fail")
    assert "rror: " in verdict.why


def test_exit_code_2_without_a_usage_message_says_nothing():
    assert Case().ends(0, code=2).log(0, "odd\n").decide().action == "restart"


def test_what_a_rank_printed_to_stdout_last_does_not_hide_its_traceback_on_stderr():
    case = Case().ends(0, code=1)
    case.log(0, raised(0), stream="stderr", at=NOW - 2).log(0, "epoch 3\nflushed late\n", stream="stdout", at=NOW - 1)
    assert case.decide().category == "user_error"


def test_of_one_file_only_the_newest_tail_counts():
    case = Case().ends(0, code=1).log(0, raised(0), at=NOW - 9).log(0, lost_peer(0), at=NOW)
    assert case.decide().category == "collective"


KINDS = [
    ("OSError: [Errno 28] No space left on device", "hold", None),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.", "fail", "smaller batch"),
    (
        "OutOfMemoryError: CUDA out of memory. GPU 0 has 90 GiB. Process 71 has 71.62 GiB memory in use.",
        "restart",
        None,
    ),
    ("MemoryError", "restart", None),
    (
        "RuntimeError: DataLoader worker (pid 5) is killed by signal: Bus error. out of shared memory",
        "fail",
        "/dev/shm",
    ),
    ("OSError: [Errno 98] Address already in use", "retry", None),
    ("RuntimeError: PytorchStreamReader failed reading zip archive", "previous_checkpoint", None),
    ("RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for w", "fail", "world size"),
    ("OSError: [Errno 116] Stale file handle", "restart", None),
    ("OSError: [Errno 5] Input/output error: '/data/x'", "restart", None),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "replace", None),
    ("RuntimeError: CUDA error: an illegal memory access was encountered", "restart", None),
    ("RuntimeError: CUDA error: device-side assert triggered", "fail", None),
    ("RuntimeError: Detected mismatch between collectives on ranks", "fail", None),
    ("AssertionError: found NaN in local grad norm in backward pass", "restart", None),
    ("RuntimeError: The size of tensor a (3) must match the size of tensor b (4)", "fail", None),
    ("RuntimeError: something nobody has seen", "restart", None),
]


@pytest.mark.parametrize(("line", "action", "advice"), KINDS, ids=[line[:40] for line, _, _ in KINDS])
def test_kinds_of_causes_lead_to_their_actions(line, action, advice):
    log = f'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    step()\n{line}\n'
    verdict = Case().ends(0, code=1).log(0, log).decide()
    assert verdict.action == action
    assert verdict.why.startswith("rank 0 on n0")
    assert line.partition("\n")[0][:60] in verdict.why
    assert advice is None or advice in verdict.why


def test_a_faulty_device_names_its_node_and_the_next_attempt_goes_without_it():
    case = Case().ends(1, code=1).log(1, "RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    verdict = case.decide()
    assert (verdict.culprit_nodes, verdict.node_at_fault) == (("n1",), True)
    assert outcome(verdict, case.build()).excluded == ("n1",)


def test_a_storage_failure_restarts_once_and_holds_the_second_time():
    def case():
        return Case().ends(0, code=1).log(0, "OSError: [Errno 116] Stale file handle\n")

    first = case().decide()
    again = case().before(first)
    assert (first.action, again.decide().action) == ("restart", "hold")
    assert outcome(again.decide(), again.build()).held_reason == Held.STORAGE


def test_out_of_memory_after_new_steps_is_a_leak_and_restarts_again():
    first = Case().ends(0, signal=9, oom=True).decide()
    case = Case(best_step=10, last_step=20).ends(0, signal=9, oom=True).before(first, last_step=10)
    assert case.decide().action == "restart"


def test_what_was_seen_of_a_lost_node_is_quoted():
    case = Case().worker(0, phase=WorkerPhase.LOST, exits=())
    verdict = case.node_says(0, "node n0 stopped renewing its lease").decide()
    assert verdict.decided_by == ("node n0 stopped renewing its lease",)
    assert "worker-0" in verdict.why


def test_every_verdict_says_what_is_done_in_one_sentence():
    for case in (
        Case().ends(0, signal=9),
        Case().ends(0, code=1).log(0, raised(0)),
        Case().worker(1, problem="VANISHED"),
    ):
        verdict = case.decide()
        assert "; " in verdict.why
        assert "\n" not in verdict.why
        assert not verdict.why.endswith((";", "."))


def test_two_processes_of_one_worker_are_told_apart_by_their_ranks():
    exits = (RankExit(process=0, rank=0, code=0, at=NOW), RankExit(process=1, rank=1, signal=11, at=NOW))
    verdict = Case().worker(0, exits=exits).decide()
    assert verdict.culprit_rank == 1
