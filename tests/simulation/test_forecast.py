"""When waiting jobs start, and what that rests on."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.records import JobRecord, Record
from controller.scheduling.index import ClusterIndex, build
from controller.simulation.forecast import forecast
from controller.simulation.spans import History, typical
from controller.simulation.types import Basis, Eta
from muster.states import AttemptPhase, JobPhase, WorkerPhase
from tests.makers import NOW, make_attempt, make_node, make_worker
from tests.scheduling.cluster import gang


def waits(name: str, pods: int = 1, devices: int = 8, after: float = 0.0, **spec: Any) -> JobRecord:
    return gang(name, pods, devices, spec=spec, queued_at=NOW + after)


def runs(name: str, node: str, since: float = 0.0, **spec: Any) -> list[Record]:
    """A job on all eight devices of a node, running since so many seconds."""
    job = replace(gang(name, 1, 8, spec=spec), phase=JobPhase.RUNNING)
    attempt = make_attempt(job, phase=AttemptPhase.RUNNING, placed_at=NOW - since, running_at=NOW - since)
    worker = make_worker(attempt, node=node, devices=tuple(range(8)), phase=WorkerPhase.RUNNING)
    return [replace(job, attempt_uid=attempt.uid), attempt, worker]


def over(name: str, seconds: float, **spec: Any) -> JobRecord:
    fields = {"phase": JobPhase.SUCCEEDED, "started_at": NOW - 9000, "finished_at": NOW - 9000 + seconds}
    return replace(gang(name, 1, 8, spec=spec), **fields)


def world(*records: Record, nodes: int = 2) -> ClusterIndex:
    return build([*(make_node(f"n{number}") for number in range(nodes)), *records], revision=7)


def told(index: ClusterIndex, *past: JobRecord, **limits: Any) -> dict[str, Eta]:
    found = forecast(index, NOW, History(past), **limits)
    assert found.revision == 7
    return {index.jobs[eta.job_uid].name: eta for eta in found.etas}


def test_what_fits_starts_now_and_the_rest_when_limits_end() -> None:
    index = world(
        *runs("a", "n0", since=100.0, timeLimit="10m"),
        waits("fits"),
        waits("next", after=1, timeLimit="20m"),
        waits("last", 2, after=2),
    )
    etas = told(index)
    assert (etas["fits"].at, etas["fits"].basis) == (NOW, Basis.NOW)
    assert etas["next"].basis is Basis.LIMITS
    assert abs(etas["next"].at - (NOW + 500)) < 15  # type: ignore[operator]
    # `fits` has no limit and no history, so a gang of both nodes has no date
    assert (etas["last"].at, etas["last"].basis) == (None, Basis.NONE)
    assert "fits has neither a time limit nor a history" in etas["last"].note


def test_history_is_nearer_to_the_truth_than_a_limit_and_the_job_nearer_than_its_queue() -> None:
    records = [*runs("a", "n0", since=60.0, timeLimit="10h"), *runs("b", "n1", since=60.0, command=["python", "b.py"])]
    index = world(*records, waits("one"), waits("two", after=1))
    past = [over("a", 300), over("b9", 600, command=["python", "b.py"]), over("other", 5000, command=["x"])]
    etas = told(index, *past)
    assert (etas["one"].basis, etas["two"].basis) == (Basis.HISTORY, Basis.HISTORY)
    assert abs(etas["one"].at - (NOW + 240)) < 8  # type: ignore[operator]
    assert abs(etas["two"].at - (NOW + 540)) < 20  # type: ignore[operator]
    etas = told(index, over("other", 5000, command=["x"]))
    assert etas["one"].basis is Basis.QUEUE


def test_a_run_that_outlasts_all_that_is_known_is_expected_to_end_soon() -> None:
    assert typical([10.0, 20.0, 40.0], 0.0) == 20.0
    assert typical([10.0, 20.0, 40.0], 25.0) == 40.0
    assert typical([10.0, 20.0, 40.0], 50.0) == 54.0
    history = History([over("a", 100.0)])
    long, limited = waits("a"), waits("a", timeLimit="60s")
    assert history.expected(long, 200.0).seconds == 210.0  # type: ignore[union-attr]
    assert history.expected(limited, 200.0).seconds == 200.0  # type: ignore[union-attr]


def test_what_stands_far_behind_has_a_bound_that_grows_along_the_queue() -> None:
    queue = [waits(f"w{n:02}", after=n, timeLimit="10m") for n in range(12)]
    etas = told(world(*runs("a", "n0", timeLimit="5m"), *queue), first=4)
    assert [etas[f"w{n:02}"].basis is Basis.BOUND for n in range(12)] == [False] * 4 + [True] * 8
    bounds = [etas[f"w{n:02}"].at or 0.0 for n in range(4, 12)]
    assert bounds == sorted(bounds)
    exact = told(world(*runs("a", "n0", timeLimit="5m"), *queue))
    assert all((etas[name].at or 0.0) <= (eta.at or 0.0) * 1.2 for name, eta in exact.items())


def test_an_impossible_gang_is_told_apart_from_one_without_a_date() -> None:
    etas = told(world(*runs("a", "n0", timeLimit="5m"), waits("huge", 9)))
    assert etas["huge"].note == "it would not start even when all that runs has ended"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 8), st.integers(1, 50), st.integers(0, 9)), min_size=1, max_size=12
    )
)
def test_everything_with_a_limit_has_a_date_and_nothing_overlaps(rows: list[tuple[int, int, int, int]]) -> None:
    """The planner itself asserts nothing of the future: replaying what it foretold must fit the cluster at all times."""
    jobs = [
        waits(f"j{number:02}", pods, devices, after=after, timeLimit=f"{minutes}m")
        for number, (pods, devices, minutes, after) in enumerate(rows)
    ]
    etas = told(world(*jobs, nodes=3))
    assert all(eta.at is not None for eta in etas.values())
    spans = []
    for (pods, devices, minutes, _), job in zip(rows, jobs, strict=True):
        at = etas[job.name].at or 0.0
        spans.append((at, at + minutes * 60, pods * devices))
    for begin, *_ in spans:
        assert sum(held for start, end, held in spans if start <= begin < end) <= 24
