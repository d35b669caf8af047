"""What a job runs, and how much service it has had."""

import pytest

from controller.scheduling.discipline.programs import KEPT, learned, program_of, service, speeds_of
from tests.makers import make_job


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "--lr", "0.1"], "train.py"),
        (["python3.11", "-u", "/src/llm/train.py"], "train.py"),
        (["torchrun", "--nproc-per-node=8", "-m", "llm.train"], "llm.train"),
        (["python", "-m", "torch.distributed.run", "pretrain.py"], "pretrain.py"),
        (["env", "OMP_NUM_THREADS=1", "bash", "./go.sh"], "go.sh"),
        (["/opt/solver/bin/solve", "--deep"], "solve"),
        (["bash", "-c", "sleep 1"], ""),
    ],
)
def test_a_program_is_the_file_that_its_command_starts(command, name):
    assert program_of(make_job(spec={"command": command})) == name


def test_a_label_names_it_and_an_inline_script_has_no_name():
    assert program_of(make_job(labels={"muster.dev/program": "llm"}, spec={"command": ["true"]})) == "llm"
    assert program_of(make_job(spec={"command": None, "script": "python train.py"})) == ""


def test_service_counts_devices_and_of_a_known_throughput_the_work_done():
    assert service({"workers": 2}, 2, 16, 100.0) == 1600.0
    assert service({"workers": 2}, 2, 0, 100.0) == 200.0
    spec = {"workers": 2, "maxWorkers": 4, "throughput": {"1": 10, "2": 18, "4": 30}}
    assert speeds_of(spec) == (0.0, 10 / 18, 1.0, 24 / 18, 30 / 18)
    assert service(spec, 4, 4, 90.0) == pytest.approx(2 * 90 * 30 / 18)


def test_a_program_keeps_a_bounded_spread_of_its_sizes():
    job, record = make_job(spec={"command": ["python", "a.py"]}), None
    for size in range(1000):
        record = learned(record, job, float(size * 37 % 1000))
    assert record.runs == 1000
    assert len(record.sizes) == KEPT
    assert list(record.sizes) == sorted(record.sizes)
    assert record.sizes[0] < 100
    assert record.sizes[-1] > 900
    assert abs(sum(record.sizes) / KEPT - 500) < 120
