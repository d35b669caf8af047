"""The index follows the change log: incremental equals cold, and nothing that is held counts as free."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from controller.records import Change, EventRecord, NodeRecord, Record
from controller.scheduling.columns import MOST
from controller.scheduling.index import ClusterIndex, apply, build
from muster.protocol import Device
from muster.states import AttemptPhase, JobPhase, NodePhase, WorkerPhase
from tests.makers import NOW, make_attempt, make_job, make_node, make_worker
from tests.scheduling.cluster import LEVELS, kind_of, queue, racks

ATTEMPT = make_attempt(make_job())


def change(revision: int, record: Record, op: Any = "put") -> Change:
    body = replace(record, revision=revision) if op == "put" else None
    return Change(revision=revision, kind=kind_of(record), uid=record.uid, op=op, record=body)


def free(index: ClusterIndex, node: str) -> tuple[int, int, dict[str, int]]:
    row = index.fabric.positions[node]
    devices = {kind: int(column[row]) for kind, column in index.free.devices.items() if column[row]}
    return int(index.free.cpu[row]), int(index.free.memory[row]), devices


@pytest.mark.parametrize("phase", [p for p in WorkerPhase if p not in (WorkerPhase.EXITED, WorkerPhase.LOST)])
def test_a_worker_occupies_its_node_in_every_phase_before_its_end(phase: WorkerPhase) -> None:
    node = make_node("n0", cpu_milli=8000, memory=100)
    worker = make_worker(ATTEMPT, node="n0", devices=(0, 5), cpu_milli=3000, memory=60, phase=phase)
    assert free(build([node, worker]), "n0") == (5000, 40, {"h100": 6})


@pytest.mark.parametrize("phase", [WorkerPhase.EXITED, WorkerPhase.LOST])
def test_a_worker_gives_its_node_back_when_it_is_released(phase: WorkerPhase) -> None:
    worker = make_worker(ATTEMPT, node="n0", devices=(0, 5))
    index = apply(build([make_node("n0"), worker]), [change(5, replace(worker, phase=phase, released=True))])
    assert free(index, "n0")[2] == {"h100": 8}
    index.check()


def test_an_end_alone_gives_nothing_back() -> None:
    """The devices of a gang that failed are its next attempt's until its last worker is dead."""
    worker = make_worker(ATTEMPT, node="n0", devices=(0, 5))
    index = apply(build([make_node("n0"), worker]), [change(5, replace(worker, phase=WorkerPhase.EXITED))])
    assert free(index, "n0")[2] == {"h100": 6}


def test_a_worker_that_is_known_before_its_node_occupies_it_when_it_comes() -> None:
    index = build([make_worker(ATTEMPT, node="n0", devices=(0,))])
    index = apply(index, [change(2, make_node("n0"))])
    assert free(index, "n0")[2] == {"h100": 7}


def test_unhealthy_devices_are_neither_free_nor_there() -> None:
    devices = (Device(index=0, type="h100"), Device(index=1, type="h100", healthy=False), Device(index=2, type="a100"))
    index = build([make_node("n0", devices=0, labels={}), make_node("n1")])
    index = apply(index, [change(1, replace(index.nodes["n0"], devices=devices))])
    assert free(index, "n0")[2] == {"h100": 1, "a100": 1}
    assert index.total.devices["h100"][index.fabric.positions["n0"]] == 1


def test_a_device_that_falls_ill_while_it_is_held_is_not_free_afterwards() -> None:
    node, worker = make_node("n0", devices=1), make_worker(ATTEMPT, node="n0", devices=(0,))
    index = build([node, worker])
    ill = (replace(node.devices[0], healthy=False),)
    index = apply(
        index,
        [change(1, replace(node, devices=ill)), change(2, replace(worker, phase=WorkerPhase.EXITED, released=True))],
    )
    assert free(index, "n0")[2] == {}


def test_a_node_that_shrinks_below_what_it_holds_has_nothing_free() -> None:
    worker = make_worker(ATTEMPT, node="n0", devices=(6, 7), cpu_milli=9000, memory=90)
    index = build([make_node("n0", devices=4, cpu_milli=4000, memory=50), worker])
    assert free(index, "n0") == (0, 0, {"h100": 4})


def test_absurd_capacities_are_cut_so_that_sums_stay_exact() -> None:
    index = build([make_node(f"n{i}", memory=2**62) for i in range(3)])
    assert int(index.free.memory.sum()) == 3 * MOST


def test_repeats_and_old_records_change_nothing() -> None:
    node, worker = make_node("n0", revision=7), make_worker(ATTEMPT, node="n0", devices=(0,), revision=9)
    index = build([node, worker])
    again = apply(
        index, [change(3, replace(node, cordoned=True)), change(4, replace(worker, devices=())), change(9, worker)]
    )
    assert again.free.same(index.free)
    assert again.revision == 9


def test_a_deleted_node_of_an_earlier_life_does_not_take_its_successor_along() -> None:
    old = make_node("n0", uid="first")
    index = apply(build([old]), [change(1, make_node("n0", uid="second")), change(2, old, "delete")])
    assert index.nodes["n0"].uid == "second"
    index.check()


def test_a_change_whose_record_is_gone_already_is_a_deletion() -> None:
    job = make_job()
    index = apply(build([job]), [Change(revision=4, kind="Job", uid=job.uid, op="put", record=None)])
    assert (index.jobs, index.gangs, index.revision) == ({}, {}, 4)


def test_what_places_nothing_is_passed_over() -> None:
    event = EventRecord(uid="e", namespace="d", kind="Job", object_uid="j", name="n", reason="R", message="m", at=NOW)
    assert apply(build([make_node()]), [change(1, event)]).revision == 1


@pytest.mark.parametrize("phase", list(JobPhase))
def test_only_queued_and_recovering_jobs_want_to_start(phase: JobPhase) -> None:
    index = build([make_job(phase=phase)])
    assert bool(index.requests()) == (phase in (JobPhase.QUEUED, JobPhase.RECOVERING))


def test_a_job_with_a_live_attempt_is_not_asked_for_until_the_attempt_has_ended() -> None:
    job = make_job(phase=JobPhase.RECOVERING)
    index = build([job, ATTEMPT])
    assert index.requests() == []
    index = apply(index, [change(1, replace(ATTEMPT, phase=AttemptPhase.ENDED))])
    assert [request.job_uid for request in index.requests()] == [job.uid]


def test_an_index_is_a_value_and_stays_as_it_was_when_it_is_applied_to() -> None:
    index = build([make_node("n0")])
    apply(index, [change(1, make_worker(ATTEMPT, node="n0", devices=(0,))), change(2, make_node("n1"))])
    assert free(index, "n0")[2] == {"h100": 8}
    assert list(index.nodes) == ["n0"]
    index.check()


def test_the_check_finds_a_device_that_is_held_twice() -> None:
    twice = [make_worker(ATTEMPT, index, "n0", devices=(3,)) for index in range(2)]
    with pytest.raises(AssertionError, match="held twice"):
        build([make_node("n0"), *twice]).check()


def test_the_check_finds_columns_that_do_not_follow_from_the_records() -> None:
    index = build([make_node("n0")])
    index.free.cpu[0] += 1
    with pytest.raises(AssertionError, match="what is free"):
        index.check()


# -- incremental equals cold -------------------------------------------------------------------------

NODES = racks({"b0/r0": {"n0": 4, "n1": 4}, "b0/r1": {"n2": 4}, "": {"n3": 2}})
node_states = st.builds(
    lambda node, phase, cordoned, labels, devices: replace(
        node, phase=phase, cordoned=cordoned, labels=labels, devices=node.devices[:devices]
    ),
    st.sampled_from(NODES),
    st.sampled_from(NodePhase),
    st.booleans(),
    st.sampled_from([node.labels for node in NODES]),
    st.integers(0, 4),
)
worker_states = st.builds(
    lambda slot, phase: make_worker(
        ATTEMPT, slot, NODES[slot % 4].name, devices=(slot // 4,), cpu_milli=500, memory=1000 * slot, phase=phase
    ),
    st.integers(0, 7),
    st.sampled_from(WorkerPhase),
)
job_states = st.builds(
    lambda name, phase, suspend: make_job(name, phase=phase, suspend=suspend),
    st.sampled_from(["a", "b", "train"]),
    st.sampled_from(JobPhase),
    st.booleans(),
)
attempt_states = st.builds(lambda phase: replace(ATTEMPT, phase=phase), st.sampled_from(AttemptPhase))
queue_states = st.builds(lambda name, stopped: queue(name, stopped=stopped), st.sampled_from(["x", "y"]), st.booleans())
steps = st.lists(
    st.tuples(
        st.one_of(node_states, worker_states, job_states, attempt_states, queue_states),
        st.sampled_from(["put", "put", "put", "delete"]),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps, st.lists(st.booleans(), max_size=30))
def test_however_changes_come_the_incremental_index_equals_a_cold_one(steps: Any, cuts: list[bool]) -> None:
    index, batch = build(NODES[:2], levels=LEVELS), []
    for revision, (record, op) in enumerate(steps, start=1):
        batch.append(change(revision, record, op))
        if revision < len(cuts) and cuts[revision]:
            index, batch = apply(index, batch), []
            index.check()
    index = apply(index, batch)
    index.check()
    assert index.revision == len(steps)


@settings(max_examples=30, deadline=None)
@given(st.permutations([*NODES, make_worker(ATTEMPT, 0, "n0", devices=(0,)), make_job(), ATTEMPT, queue("q")]))
def test_a_cold_build_does_not_depend_on_the_order_of_the_records(records: list[Record]) -> None:
    index, usual = build(records, levels=LEVELS), build(sorted(records, key=lambda r: r.uid), levels=LEVELS)
    assert index.fabric.nodes == usual.fabric.nodes
    assert index.free.same(usual.free)
    assert index.requests() == usual.requests()


def test_a_node_record_with_every_kind_of_device_is_counted_by_kind() -> None:
    devices = tuple(Device(index=i, type=kind) for i, kind in enumerate(["h100", "h200", "h100", "ascend910b"]))
    node: NodeRecord = make_node("n0", devices=0)
    assert free(build([replace(node, devices=devices)]), "n0")[2] == {"h100": 2, "h200": 1, "ascend910b": 1}
