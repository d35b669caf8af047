"""The Lingjun set-up: spans and their minimum, the order of service, and the planner's placement with kept tables."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.common import BadInput
from benchmarks.fabric import POLICIES, summary
from benchmarks.gangs import Arrival, Expected, Job, Planned, Run, fewest, read_fabric, read_jobs, split
from controller.scheduling.fabric import Fabric, weave


def clos(leaves: int = 4, hosts: int = 3) -> Fabric:
    paths: dict[str, tuple[str | None, ...]] = {
        f"{leaf}-{host}": (f"a{leaf % 2}", f"l{leaf // 2}") for leaf in range(leaves) for host in range(hosts)
    }
    return weave(paths, ("aggregation", "leaf"))


def job(number: int, arrives: float, seconds: float, hosts: int = 1, gpus: int = 8, program: str = "") -> Job:
    return Job(number, arrives, seconds, hosts, gpus, program)


jobs = st.lists(
    st.tuples(
        st.floats(0, 100), st.floats(0, 50), st.integers(1, 12), st.sampled_from([1, 2, 6, 8]), st.sampled_from("xy")
    ),
    max_size=30,
).map(lambda rows: [job(number, *row) for number, row in enumerate(sorted(rows))])


@settings(max_examples=15, deadline=None)
@given(jobs, st.sampled_from(sorted(POLICIES)))
def test_every_job_runs_and_no_gpu_is_given_away_twice(rows: list[Job], name: str) -> None:
    fabric = clos()
    run = Run(fabric, *POLICIES[name](fabric, 1))
    ledger = run.run(rows)
    assert len(ledger.waits) == len(rows)
    assert min(ledger.waits, default=0) >= 0
    assert run.free.tolist() == [8] * 12
    assert all(row[0] >= row[2] >= row[1] and row[3] >= row[5] >= row[4] for row in ledger.spans)


@settings(max_examples=15, deadline=None)
@given(jobs)
def test_kept_tables_place_as_new_ones_would(rows: list[Job]) -> None:
    fabric = clos()
    kept = Planned(fabric)

    def both(free: np.ndarray, one: Job) -> np.ndarray | None:
        chosen, anew = kept(free, one), Planned(fabric)(free, one)
        assert (chosen is None and anew is None) or (
            chosen is not None and anew is not None and chosen.tolist() == anew.tolist()
        )
        return chosen

    Run(fabric, both, Arrival()).run(rows)


def test_a_gang_lies_in_one_leaf_where_one_is_free() -> None:
    fabric = clos()
    ledger = Run(fabric, Planned(fabric), Arrival()).run([job(0, 0, 10, gpus=1), job(1, 1, 10, hosts=3)])
    assert ledger.spans == [(1, 1, 1, 1, 1, 1)]
    assert summary(ledger)["share_in_one_leaf"] == 1


def test_first_come_is_first_served() -> None:
    fabric = clos(1, 1)
    ledger = Run(fabric, Planned(fabric), Arrival()).run([job(0, 0, 10), job(1, 1, 100), job(2, 2, 1)])
    assert ledger.waits == [0, 9, 108]


def test_what_does_not_fit_is_passed_over() -> None:
    fabric = clos(1, 2)
    ledger = Run(fabric, Planned(fabric), Arrival()).run([job(0, 0, 10), job(1, 1, 1, hosts=2), job(2, 2, 1)])
    assert ledger.waits == [0, 0, 9]


def test_a_program_known_to_be_short_is_served_first() -> None:
    fabric = clos(1, 1)
    order = Expected()
    for number in range(3):
        order.ended(job(90 + number, 0, 1000, program="long"))
        order.ended(job(95 + number, 0, 1, program="short"))
    ledger = Run(fabric, Planned(fabric), order).run(
        [job(0, 0, 10), job(1, 1, 1000, program="long"), job(2, 2, 1, program="short")]
    )
    assert ledger.waits == [0, 8, 10]


@pytest.mark.parametrize(
    ("gpus", "parts"),
    [(1, (1, 1)), (8, (1, 8)), (12, (2, 6)), (16, (2, 8)), (24, (3, 8)), (128, (16, 8)), (11, (11, 1))],
)
def test_gpus_are_shared_evenly_by_as_few_hosts_as_can_be(gpus: int, parts: tuple[int, int]) -> None:
    assert split(gpus) == parts


@pytest.mark.parametrize(("hosts", "enough"), [(1, 1), (4, 1), (5, 2), (7, 2), (8, 3)])
def test_the_fewest_domains_are_the_largest(hosts: int, enough: int) -> None:
    assert fewest(np.array([1, 4, 3]), hosts) == enough


def test_arrivals_are_scaled_to_the_load(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("timestamp,duration,num_gpus\n2017-10-09 07:00:00,80,8\n2017-10-09 06:00:00,80,8\n")
    first, second = read_jobs(path, 2, 0.5)
    assert (first.arrives, second.arrives) == (0, pytest.approx(160))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("yesterday,1,1", "timestamp is 'yesterday'"),
        ("2017-10-09,-1,1", "duration"),
        ("2017-10-09,1,0", "num_gpus"),
        ("2017-10-09,1,80", "more than"),
    ],
)
def test_broken_jobs_are_named(tmp_path: Path, row: str, words: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(f"timestamp,duration,num_gpus\n{row}\n")
    with pytest.raises(BadInput, match=words):
        read_jobs(path, 2, 0.9)


def test_a_host_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "topo.csv"
    path.write_text("ip,DSW,PSW,ASW\nx,d,p,a\nx,d,p,b\n")
    with pytest.raises(BadInput, match="twice"):
        read_fabric(path)
