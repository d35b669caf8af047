"""The planner run forward keeps what holds for a cluster, whatever it decides on the way."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.records import JobRecord, QueueRecord
from controller.scheduling.index import build
from controller.simulation.future import Future
from tests.makers import NOW, make_node
from tests.scheduling.cluster import gang

QUEUES: list[dict[str, Any]] = [
    {"quota": {"h100": 16}},
    {"quota": {"h100": 16}, "discipline": "timeSharing"},
    {"quota": {"h100": 8}, "weight": 2},
]
JOBS = st.lists(
    st.tuples(
        st.integers(0, 2),  # queue
        st.integers(1, 3),  # workers
        st.integers(1, 8),  # devices
        st.sampled_from([-100, 0, 100]),  # priority
        st.integers(1, 300),  # seconds
        st.integers(0, 200),  # submitted
        st.booleans(),  # elastic
    ),
    min_size=1,
    max_size=10,
)


def jobs_of(rows: list[tuple[Any, ...]]) -> list[tuple[float, JobRecord]]:
    found = []
    for number, (queue, workers, devices, priority, seconds, at, elastic) in enumerate(rows):
        spec = {"queue": f"q{queue}", "priority": priority, "checkpoint": {"directory": f"/c/{number}"}}
        spec |= {"minWorkers": 1} if elastic else {}
        job = gang(f"j{number}", workers, devices, max_per_node=1, spec=spec, queued_at=NOW + at)
        found.append((float(seconds), replace(job, priority=priority)))
    return sorted(found, key=lambda pair: pair[1].queued_at)


@settings(max_examples=40, deadline=None)
@given(JOBS)
def test_the_index_stays_whole_and_everything_that_may_run_ends(rows: list[tuple[Any, ...]]) -> None:
    pairs = jobs_of(rows)
    lengths = {job.uid: seconds for seconds, job in pairs}
    queues = [QueueRecord(name=f"q{number}", uid=f"q{number}", spec=spec) for number, spec in enumerate(QUEUES)]
    index = build([*(make_node(f"n{number}") for number in range(4)), *queues])
    future = Future(index, NOW, lambda job: lengths[job.uid], {})
    coming = [job for _, job in pairs][::-1]
    ended: set[str] = set()
    for _ in range(400):
        times = [future.next_at] if future.next_at is not None else []
        times += [coming[-1].queued_at] if coming else []
        if not times:
            break
        at = max(min(times), future.now)
        ended |= set(future.until(at))
        while coming and coming[-1].queued_at <= at:
            future.put(coming.pop())
        future.settle()
        future.index.check()
    left = {job.name for job in future.index.jobs.values()}
    possible = {job.name for _, job in pairs if job.spec["workers"] * job.spec["accelerators"][0]["count"] <= 8}
    assert not left & possible, f"{left & possible} never ended"
    assert not ended & set(future.index.jobs)
