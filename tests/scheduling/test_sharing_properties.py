"""Queues that share their devices in time, through random lives of jobs: plans settle, hold the invariants, and do not depend on the order
in which anything was read."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.records import JobRecord
from controller.scheduling.index import build
from controller.scheduling.planner import plan
from controller.simulation.world import Habits, World, node_of, queue_of
from muster.protocol import Device
from muster.states import JobPhase

KIND, DEVICES = "h100", 4
PROGRAMS = ("short", "long", "")


def world() -> World:
    devices = tuple(Device(index=index, type=KIND, virtual=True) for index in range(DEVICES))
    nodes = [node_of(f"n{number}", devices=devices, cpu_milli=10**6, memory=2**40) for number in range(3)]
    return World([*nodes, queue_of("default", discipline="timeSharing")], ())


def job(number: int, program: str, workers: int, priority: int, form: str) -> JobRecord:
    spec: dict[str, Any] = {
        "workers": workers,
        "maxPerNode": DEVICES,
        "accelerators": [{"type": KIND, "count": 1}],
        "cpu": "1m",
        "memory": "1Mi",
        "priority": priority,
    }
    if form != "fixed":
        spec["checkpoint"] = {"directory": f"/{number}"}
    if form == "elastic":
        spec |= {"minWorkers": 1, "maxWorkers": 2 * workers}
        spec["throughput"] = {str(count): count**0.8 for count in range(1, 2 * workers + 1)}
    labels = {"muster.dev/program": program} if program else {}
    return JobRecord(uid=f"job-{number}", namespace="default", name=f"job-{number}", spec=spec, labels=labels)


submissions = st.tuples(
    st.sampled_from(PROGRAMS),
    st.integers(1, 6),
    st.integers(0, 1),
    st.sampled_from(["rigid", "rigid", "elastic", "fixed"]),
)
steps = st.lists(st.one_of(submissions, st.integers(0, 7), st.floats(1, 4000)), min_size=4, max_size=24)


@settings(max_examples=40, deadline=None)
@given(steps, st.randoms(use_true_random=False))
def test_time_sharing_settles_and_does_not_depend_on_order(lives: list[Any], random: Any) -> None:
    made, number = world(), 0
    for step in lives:
        if isinstance(step, tuple):
            made.submit(job(number, *step), Habits())
            number += 1
        elif isinstance(step, int):
            running = [name for name, one in sorted(made.jobs.items()) if one.phase is JobPhase.RUNNING]
            if running:
                made.finish(running[step % len(running)])
        else:
            made.pass_time(made.now + step)
        made.settle()
        made.index.check()
        records = list(made.index.records())
        random.shuffle(records)
        again = plan(build(records, levels=()), made.now)
        assert (again.groups, again.evictions, again.turnovers, again.migrations) == (
            made.plan.groups,
            made.plan.evictions,
            made.plan.turnovers,
            made.plan.migrations,
        )
        waiting = [one for one in made.jobs.values() if one.phase is JobPhase.QUEUED]
        free = sum(len(made.index.free_devices(node)) for node in made.index.nodes)
        assert not waiting or free < DEVICES * 3, "nobody waits in an empty cluster"
