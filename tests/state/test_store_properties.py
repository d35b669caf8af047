"""Invariants under any sequence of writes: only legal moves, terminal is final, nothing allocated twice."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.state import IllegalMove, Store, Taken, open_store, tables
from muster import states
from muster.clock import ManualClock
from muster.states import AttemptPhase, JobPhase, NodePhase, WorkerPhase
from tests.state.makers import make_attempt, make_job, make_node, make_worker

TABLES: list[tuple[str, Any, dict[Any, frozenset[Any]], Any, str]] = [
    ("job-1", JobPhase, states.JOB_MOVES, lambda w: w.move_job, "job"),
    ("attempt-1", AttemptPhase, states.ATTEMPT_MOVES, lambda w: w.move_attempt, "attempt"),
    ("worker-1", WorkerPhase, states.WORKER_MOVES, lambda w: w.move_worker, "worker"),
    ("node-1", NodePhase, states.NODE_MOVES, lambda w: w.move_node, "node"),
]


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One SQLite store for all examples of a test, emptied by each."""
    path = tmp_path_factory.mktemp("properties") / "muster.db"
    shutil.copy(request.getfixturevalue("sqlite_template"), path)
    store = open_store(f"sqlite:///{path}", clock=ManualClock(), new_id=str)
    yield store
    store.close()


def _begin(store: Store) -> None:
    with store._plain() as connection:
        for table in (tables.jobs, tables.nodes):
            connection.execute(table.delete())
    with store.write() as w:
        w.put_node(make_node())
        w.insert_job(make_job())
        w.insert_attempt(make_attempt())
        w.insert_worker(make_worker())


def _walk(store: Store, uid: str, moves: dict[Any, frozenset[Any]], move: Any, read: str, targets: list[Any]) -> None:
    with store.read() as r:
        phase = getattr(r, read)(uid).phase
    for target in targets:
        if target in moves[phase]:
            with store.write() as w:
                assert move(w)(uid, target).phase == target
            phase = target
        else:
            with pytest.raises(IllegalMove, match=f"from {phase} to {target}"), store.write() as w:
                move(w)(uid, target)
        with store.read() as r:
            assert getattr(r, read)(uid).phase == phase


@pytest.mark.parametrize(("uid", "phases", "moves", "move", "read"), TABLES, ids=[row[4] for row in TABLES])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_no_sequence_of_moves_leaves_the_legal_graph(
    shared: Store, uid: str, phases: Any, moves: dict[Any, frozenset[Any]], move: Any, read: str, data: st.DataObject
) -> None:
    _begin(shared)
    _walk(shared, uid, moves, move, read, data.draw(st.lists(st.sampled_from(list(phases)), max_size=8)))


@pytest.mark.parametrize(("uid", "phases", "moves", "move", "read"), TABLES, ids=[row[4] for row in TABLES])
def test_every_move_between_any_two_phases_is_as_the_table_says(
    store: Store, uid: str, phases: Any, moves: dict[Any, frozenset[Any]], move: Any, read: str
) -> None:
    """All pairs, each begun by writing the phase directly."""
    table = {"job": tables.jobs, "attempt": tables.attempts, "worker": tables.workers, "node": tables.nodes}[read]
    _begin(store)
    for source in phases:
        for target in phases:
            with store._plain() as connection:
                connection.execute(table.update().values(phase=source))
            _walk(store, uid, moves, move, read, [target])


CLAIM = st.tuples(
    st.sampled_from(["place", "exit", "release", "ports"]),
    st.integers(0, 5),  # worker
    st.sets(st.integers(0, 5), max_size=3),  # devices, or ports
)


@given(st.lists(CLAIM, max_size=25))
@settings(max_examples=60, deadline=None)
def test_no_device_and_no_port_is_ever_held_twice(shared: Store, steps: list[tuple[str, int, set[int]]]) -> None:
    """Against a model: what was placed and not released is held, by exactly one."""
    _begin(shared)
    devices: dict[int, int] = {}
    ports: dict[int, int] = {}
    exited: set[int] = set()
    placed: set[int] = set()
    for verb, worker, wanted in steps:
        uid = f"w-{worker}"
        if verb == "place" and worker not in placed:
            free = not (wanted & (devices.keys() | ports.keys()))
            record = make_worker(uid, index=worker + 1, devices=tuple(wanted), ports=tuple(wanted))
            if _taken(shared, lambda w, record=record: w.insert_worker(record)):
                assert not free
            else:
                assert free
                placed.add(worker)
                devices |= dict.fromkeys(wanted, worker)
                ports |= dict.fromkeys(wanted, worker)
        elif verb == "ports" and worker in placed - exited:
            others = {port for port, owner in ports.items() if owner != worker}
            if _taken(shared, lambda w, uid=uid, wanted=wanted: w.replace_ports(uid, tuple(wanted))):
                assert wanted & others
            else:
                assert not wanted & others
                ports = {port: owner for port, owner in ports.items() if owner != worker}
                ports |= dict.fromkeys(wanted, worker)
        elif verb == "exit" and worker in placed - exited:
            shared.transact(lambda w, uid=uid: w.move_worker(uid, WorkerPhase.EXITED))
            exited.add(worker)
        elif verb == "release" and worker in exited:
            shared.transact(lambda w, uid=uid: w.release_worker(uid))
            devices = {device: owner for device, owner in devices.items() if owner != worker}
            ports = {port: owner for port, owner in ports.items() if owner != worker}
        with shared.read() as r:
            assert r.devices_in_use() == {("node-1", device): f"w-{owner}" for device, owner in devices.items()}
            assert r.ports_in_use() == {("host-1", port) for port in ports}


def _taken(store: Store, write: Callable[[Any], Any]) -> bool:
    try:
        store.transact(write)
    except Taken:
        return True
    return False


@given(st.lists(st.tuples(st.sampled_from(["insert", "cancel", "delete"]), st.sampled_from("ab")), max_size=15))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_log_alone_rebuilds_the_table(shared: Store, steps: list[tuple[str, str]]) -> None:
    """A follower that applies changes knows exactly what a reader sees; revisions have no gap."""
    _begin(shared)
    with shared.read() as r:
        start = r.revision()
    for number, (verb, name) in enumerate(steps):
        job = _named(shared, name)
        if verb == "insert":
            record = make_job(f"{name}-{start}-{number}", name=name, namespace="n")
            _taken(shared, lambda w, record=record: w.insert_job(record))
        elif verb == "cancel" and job is not None and job.phase == JobPhase.QUEUED:
            shared.transact(lambda w, uid=job.uid: w.move_job(uid, JobPhase.CANCELLED))
        elif verb == "delete" and job is not None and job.phase == JobPhase.CANCELLED:
            shared.transact(lambda w, uid=job.uid: w.delete_job(uid))
    with shared.read() as r:
        changes = r.changes(start)
        assert [c.revision for c in changes] == list(range(start + 1, r.revision() + 1))
        followed: dict[str, Any] = {}
        for change in changes:
            followed[change.uid] = change.record if change.op == "put" else None
        assert {job.uid: job for job in r.jobs("n")} == {uid: job for uid, job in followed.items() if job is not None}


def _named(store: Store, name: str) -> Any:
    with store.read() as r:
        return r.job_named("n", name)
