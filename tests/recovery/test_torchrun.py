"""What torchrun (PyTorch 2.13.0, two launchers with two ranks each, gloo) really printed, read back."""

from pathlib import Path

import pytest

from controller.recovery.torchrun import Failure, failures
from muster.protocol import RankExit
from tests.makers import NOW
from tests.recovery.case import STOPPED, Case
from tests.recovery.logs import torchrun_summary

CAPTURED = Path(__file__).parent / "captured"


def text(name):
    path = CAPTURED / f"{name}.log"
    return path.read_text() if path.exists() else ""  # a killed rank says nothing


def scene(what, at=(NOW + 1, NOW + 2)):
    """Rank 1, on n0, is the one that failed."""
    case = Case()
    for worker in (0, 1):
        case.launcher(worker, text(f"{what}-worker-{worker}"), at=at[worker])
        for rank in (2 * worker, 2 * worker + 1):
            case.log(worker, text(f"{what}-rank-{rank}"), rank=rank, stream="stderr")
    return case


@pytest.mark.parametrize("at", [(NOW + 1, NOW + 2), (NOW + 2, NOW + 1)], ids=["n0 first", "n1 first"])
@pytest.mark.parametrize(
    ("what", "category", "action", "says"),
    [
        ("kill", "crash", "restart", "SIGKILL"),
        ("segv", "crash", "restart", "SIGSEGV"),
        ("exit", "unknown", "restart", "exited with 7"),
        ("user", "user_error", "fail", "KeyError: 'lr'"),
    ],
)
def test_the_rank_that_failed_is_found_whichever_launcher_ended_first(what, category, action, says, at):
    verdict = scene(what, at).decide()
    assert (verdict.category, verdict.action, verdict.culprit_rank) == (category, action, 1)
    assert "rank 1 on n0" in verdict.why
    assert says in verdict.why


def test_proof_of_memory_at_the_launchers_worker_is_the_killed_ranks():
    case = scene("kill")
    case.worker(0, exits=(RankExit(process=0, code=1, oom=True, at=NOW + 1),))
    verdict = case.decide()
    assert (verdict.category, verdict.culprit_rank) == ("host_oom", 1)


def test_the_summary_names_the_root_cause_first():
    assert failures(text("kill-worker-0"), 0)[:2] == [
        Failure(1, -9, True, "Signal 9 (SIGKILL) received by PID 22230"),
        Failure(0, -15, False, "Signal 15 (SIGTERM) received by PID 22228"),
    ]


def test_a_victim_that_crashed_while_it_ended_does_not_become_the_culprit():
    """Both died on one node within torchrun's whole seconds; the launcher saw the exit with 7 first."""
    case = Case().launcher(0, torchrun_summary((1, 1, 7), (0, 0, -11)))
    assert case.decide().culprit_rank == 1


def test_a_launcher_that_was_stopped_in_the_middle_leaves_one_line():
    log = text("kill-worker-0").partition("Traceback")[0]
    assert "exitcode: -9" in log
    assert failures(log, 4) == [Failure(5, -9, True)]


def test_a_launcher_that_was_told_to_end_is_a_victim_and_its_ranks_logs_still_count():
    told = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 71 got signal: 15\n"
    case = scene("user").launcher(0, told, at=STOPPED + 1)
    case.evidence = [item for item in case.evidence if item.rank is not None or item.text == told or item.worker == 1]
    verdict = case.decide()
    assert (verdict.category, verdict.culprit_rank) == ("user_error", 1)


def test_a_traceback_that_torchrun_repeats_in_its_summary_is_read_when_the_rank_left_no_log():
    summary = torchrun_summary((0, 0, 1)).replace(
        "traceback : To enable traceback see: https://pytorch.org",
        'traceback : Traceback (most recent call last):\n    File "train.py", line 3, in main\n      go()\n  ImportError: no x',
    )
    assert Case().launcher(0, summary).decide().action == "fail"


@pytest.mark.parametrize("log", ["", "Root Cause (first observed failure):\n", "Failures:\n[1]:\n  rank : x\n"])
def test_a_torn_summary_is_no_summary(log):
    assert failures(log, 0) == []
