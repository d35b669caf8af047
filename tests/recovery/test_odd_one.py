"""Ranks that stand elsewhere: flight recorders and stacks."""

import os
import pickle
import subprocess
import sys

import pytest

from controller.diagnose import examine, files, listed, recorders
from controller.recovery.diagnosis.flight import flight, odd_one
from controller.recovery.diagnosis.stacks import main_stack, odd_rank

IN_COLLECTIVE = (
    "all_reduce (torch/distributed/distributed_c10d.py:3252)",
    "train (train.py:9)",
    "<module> (train.py:20)",
)
IN_LOOP = ("spin (data.py:4)", "train (train.py:8)", "<module> (train.py:20)")


def entry(number, name="nccl:all_reduce", sizes=((4,),), group="0"):
    return {
        "pg_id": 0,
        "process_group": (group, "default"),
        "collective_seq_id": number,
        "profiling_name": name,
        "input_sizes": sizes,
    }


def dump(*entries):
    return pickle.dumps({"version": "2.10", "entries": list(entries)})


def odd(*dumps):
    return odd_one({rank: flight(one) for rank, one in enumerate(dumps)})


def py_spy(frames):
    body = "".join(f"    {frame}\n" for frame in frames)
    return f'Process 7: python train.py\nPython v3.11.2\n\nThread 9 (idle): "loader"\n    wait (threading.py:1)\nThread 7 (active): "MainThread"\n{body}'


def test_the_rank_that_did_not_reach_the_newest_collective_is_behind():
    found = odd(dump(entry(1), entry(2)), dump(entry(1)), dump(entry(1), entry(2)))
    assert (found.desync, found.rank) == (False, 1)


@pytest.mark.parametrize("other", [entry(2, "nccl:broadcast"), entry(2, sizes=((5,),))])
def test_the_first_collective_in_which_ranks_disagree_is_the_programs(other):
    found = odd(dump(entry(1), entry(2)), dump(entry(1), entry(2)), dump(entry(1), other))
    assert (found.desync, found.rank) == (True, 2)
    assert "collective 2" in found.why


@pytest.mark.parametrize(
    "dumps", [(), (dump(entry(1)),), (dump(entry(1)), dump(entry(1))), (dump(entry(1)), dump(entry(2)))]
)
def test_no_rank_is_odd_where_all_agree_or_two_could_each_be_it(dumps):
    assert odd(*dumps) is None


def test_uneven_sizes_are_no_disagreement_where_they_are_allowed():
    name = "nccl:all_to_all"
    assert odd(dump(entry(1, name, ((3,),))), dump(entry(1, name, ((9,),)))) is None


def test_a_dump_from_the_job_can_call_nothing(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    assert flight(pickle.dumps({"entries": [Evil()]})) is None
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "junk", [b"", b"\x80", b"text", pickle.dumps(3), pickle.dumps({"entries": [{}]}), dump(entry(1))[:-9]]
)
def test_what_is_no_dump_is_passed_over(junk):
    assert flight(junk) is None


def test_the_main_threads_innermost_frames_are_read_without_line_numbers():
    assert main_stack(py_spy(IN_LOOP))[0] == "spin (data.py)"
    assert main_stack("step 1 loss 0.1\n") == ()


def test_one_of_many_stacks_is_odd_and_one_of_two_is_not():
    here, there = main_stack(py_spy(IN_COLLECTIVE)), main_stack(py_spy(IN_LOOP))
    assert odd_rank({0: here, 1: here, 2: there, 3: here}) == (2, "spin (data.py)")
    assert odd_rank({0: here, 1: there}) is None
    assert odd_rank({0: here, 1: here, 2: there, 3: there}) is None


def test_a_folder_of_stacks_names_the_rank_that_loops(tmp_path):
    for rank in range(4):
        (tmp_path / f"stack-rank-{rank}.txt").write_text(py_spy(IN_LOOP if rank == 3 else IN_COLLECTIVE))
    found = examine(files(listed([str(tmp_path)])))
    assert (found.culprit_rank, found.category, found.action) == (3, "rank_hung", "restart")


def test_a_folder_of_flight_recorders_names_the_rank_that_is_behind(tmp_path):
    for rank in range(3):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(dump(entry(1)) if rank == 0 else dump(entry(1), entry(2)))
    found = examine([], recorders(listed([str(tmp_path)])))
    assert (found.culprit_rank, found.category, found.node_at_fault) == (0, "rank_behind", None)


REAL = """
import os, sys, torch, torch.distributed as d
from torch._C._distributed_c10d import _dump_fr_trace
d.init_process_group('gloo', store=d.HashStore(), rank=0, world_size=1)
d.all_reduce(torch.ones(4)); d.broadcast(torch.ones(2), 0)
sys.stdout.buffer.write(_dump_fr_trace())
"""


@pytest.mark.torch
@pytest.mark.processes
def test_a_dump_of_the_installed_pytorch_is_read():
    pytest.importorskip("torch")
    environment = {**os.environ, "TORCH_FR_BUFFER_SIZE": "64"}
    done = subprocess.run([sys.executable, "-c", REAL], capture_output=True, env=environment, timeout=150)
    if b"_dump_fr_trace" in done.stderr:
        pytest.skip("this PyTorch has no flight recorder without NCCL")
    found = flight(done.stdout)
    assert [call.name for call in found.calls.values()] == ["gloo:all_reduce", "gloo:broadcast"]
