"""The Pollux set-up: a made-up program whose speed can be computed by hand, and the published seconds where the data is."""

from pathlib import Path

import pytest

pytest.importorskip("scipy")

from benchmarks import applications, training
from benchmarks.common import BadInput
from benchmarks.training_planned import Planned
from benchmarks.training_policies import Tiresias, best_fit, emptiest, fifo, packed

SHARED = Path(__file__).parents[3] / "shared" / "traces" / "pollux"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> applications.Application:
    """One epoch of 100 iterations at batch 10; a step takes 1 s on one GPU whatever the local batch, 2 s on more."""
    monkeypatch.setitem(applications.EPOCHS, "toy", 1)
    folder = tmp_path / "toy"
    folder.mkdir()
    folder.joinpath("validation-10.csv").write_text("progress,iteration,metric,grad_sqr,grad_var\n600,600,0.5,1,0\n")
    folder.joinpath("validation-40.csv").write_text("progress,iteration,metric,grad_sqr,grad_var\n600,600,0.5,1,0\n")
    rows = [
        f"{place},{local},{step},0.5"
        for place, step in (("1", 1), ("2", 2), ("4", 2), ("44", 2), ("11", 2))
        for local in (1, 40)
    ]
    folder.joinpath("placements.csv").write_text("placement,local_bsz,step_time,sync_time\n" + "\n".join(rows) + "\n")
    folder.joinpath("scalability.csv").write_text("num_nodes,num_replicas,local_bsz,step_time,sync_time\n8,8,1,2,1\n")
    return applications.Application(folder)


def job(program: applications.Application, name: str, submitted: int = 0, replicas: int = 1) -> training.Job:
    return training.Job(name, program, submitted, replicas, 10)


def test_a_job_alone_takes_its_stall_and_its_work(program: applications.Application) -> None:
    outcome = training.simulate([job(program, "a", 50)], Tiresias())
    assert outcome.durations == (60 + 30 + 600 - 50,)  # noticed at 60, stalled 30, 600 iterations of 1 s
    assert outcome.restarts == 0


def test_more_gpus_than_the_cluster_has_wait_their_turn(program: applications.Application) -> None:
    jobs = [job(program, f"job-{number}", replicas=8) for number in range(9)]
    outcome = training.simulate(jobs, fifo)
    assert sorted(outcome.durations)[:8] == [60 + 30 + 1200] * 8
    assert max(outcome.durations) > 2 * 1200


@pytest.mark.parametrize("policy", [Tiresias, Planned, lambda: Planned(named=False), lambda: Planned(elastic=True)])
def test_every_policy_ends_every_job(program: applications.Application, policy) -> None:
    jobs = [job(program, f"job-{number}", 97 * number, (1, 2, 4, 8)[number % 4]) for number in range(40)]
    assert len(training.simulate(jobs, policy()).durations) == 40


@pytest.mark.parametrize("policy", [Tiresias, Planned, lambda: Planned(elastic=True)])
def test_the_same_input_gives_the_same_outcome(program: applications.Application, policy) -> None:
    def run() -> training.Outcome:
        return training.simulate(
            [job(program, f"job-{number}", 31 * number, 1 + number % 2) for number in range(30)], policy()
        )

    assert run() == run()


def test_tiresias_demotes_after_16_gpu_hours(program: applications.Application) -> None:
    old, new = job(program, "old", replicas=8), job(program, "new", replicas=64)
    policy = Tiresias()
    old.allocation = policy([old], 60)["old"]
    assert set(policy([old, new], 60 + 7199)) == {"old"}
    assert set(policy([old, new], 60 + 7200)) == {"new"}


def test_best_fit_takes_the_tightest_node_and_spreads_from_the_emptiest() -> None:
    free = [4, 2, 3, *[0] * 13]
    assert best_fit(free, 2) == (1, 1)
    assert best_fit(free, 3) == (2, 2, 2)
    assert best_fit(free, 6) == (0, 0, 0, 0, 1, 1)
    assert emptiest(free, 2) == (0, 0)
    assert packed(6) == (4, 2)


def test_a_policy_that_gives_a_gpu_away_twice_is_found_out(program: applications.Application) -> None:
    with pytest.raises(AssertionError, match="twice"):
        training.simulate([job(program, "a", replicas=8)], lambda jobs, now: {"a": (0,) * 8})


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a,0,unknown,1,10", "no profile"),
        ("a,x,toy,1,10", "time is 'x'"),
        ("a,0,toy,0,10", "num_replicas"),
        ("a,0,toy,65,10", "more than the 64"),
        ("a,0,toy", "too short"),
        ("a,0,toy,1,10\na,0,toy,1,10", "same name"),
    ],
)
def test_broken_rows_are_named(tmp_path: Path, program: applications.Application, row: str, words: str) -> None:
    path = tmp_path / "workload.csv"
    path.write_text(f"name,time,application,num_replicas,batch_size\n{row}\n")
    with pytest.raises(BadInput, match=words):
        training.read(path, {"toy": program})


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public traces are not beside the project")
def test_tiresias_takes_the_published_seconds() -> None:
    known = applications.load(SHARED / "profiles")
    outcome = training.simulate(training.read(SHARED / "workloads" / "workload-3.csv", known), Tiresias())
    assert sum(outcome.durations) / len(outcome.durations) == pytest.approx(3876.26, rel=1e-3)
