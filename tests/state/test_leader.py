"""One leader at a time, whatever the wall clocks say, and no write by one that has lost."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.state import LeadershipLost, Store, StoreUnavailable, Writer, open_store
from controller.state.leader import Election
from controller.state.types import LeaderLease
from muster.clock import ManualClock, SystemClock
from tests.state.makers import make_job

LEASE = 10.0


def _candidate(store: Store, name: str, boottime: float = 0.0) -> tuple[Election, ManualClock]:
    """Each candidate lives on a machine of its own: another boot, another wall clock."""
    clock = ManualClock(now=boottime * 1e6, boottime=boottime)
    return Election(store, name, clock, LEASE), clock


def test_a_free_row_is_taken_at_once_with_the_next_epoch(store: Store) -> None:
    first, _ = _candidate(store, "a")
    second, _ = _candidate(store, "b")
    lease = first.campaign()
    assert lease == LeaderLease("a", 1)
    assert first.renew(lease)
    first.resign(lease)
    assert not first.renew(lease)
    assert second.campaign() == LeaderLease("b", 2)


def test_a_candidate_waits_a_whole_lease_from_its_own_last_sight_of_a_renewal(store: Store) -> None:
    leader, leader_clock = _candidate(store, "a", boottime=5.0)
    other, clock = _candidate(store, "b", boottime=1e6)
    lease = leader.campaign()
    assert lease is not None
    for _ in range(3):
        assert other.campaign() is None
        clock.advance(LEASE - 0.1)
        assert other.campaign() is None
        leader_clock.advance(LEASE / 2)
        assert leader.renew(lease)
    assert other.campaign() is None
    clock.advance(LEASE)
    assert other.campaign() == LeaderLease("b", 2)


@pytest.mark.parametrize(("ahead", "again"), [(0.0, False), (7200.0, True), (-7200.0, True)])
def test_a_term_after_a_break_or_by_another_clock_counts_from_its_own_begin(
    store: Store, ahead: float, again: bool
) -> None:
    clock, other = ManualClock(now=1e9), ManualClock(now=1e9 + ahead)
    first, second = Election(store, "a", clock, LEASE), Election(store, "b", other, LEASE)
    assert first.campaign() is not None
    assert second.campaign() is None
    other.advance(LEASE)
    assert second.campaign() is not None
    assert second.attended == (other.now() if again else 0.0)


def test_a_clock_that_is_hours_ahead_agrees_with_the_database(store: Store) -> None:
    clock = SystemClock()
    clock.agree(time.time() + 7200.0)
    told = store.time()
    if told is None:  # the database is a file of this machine
        return
    assert clock.agree(told) == pytest.approx(-7200.0, abs=30.0)
    assert clock.now() == pytest.approx(time.time(), abs=30.0)


def test_a_leader_without_renewal_gives_up_before_anybody_may_take_over(store: Store) -> None:
    leader, clock = _candidate(store, "a")
    lease = leader.campaign()
    assert lease is not None
    clock.advance(LEASE - 0.01)
    assert leader.holds(lease)
    clock.advance(0.01)
    assert not leader.holds(lease)
    assert not leader.renew(lease)


def test_a_restarted_process_of_the_same_name_does_not_walk_into_the_old_lease(store: Store) -> None:
    first, _ = _candidate(store, "a")
    assert first.campaign() == LeaderLease("a", 1)
    again, clock = _candidate(store, "a")
    assert again.campaign() is None
    clock.advance(LEASE)
    assert again.campaign() == LeaderLease("a", 2)


def test_of_two_who_see_the_same_dead_leader_one_wins(store: Store) -> None:
    dead, _ = _candidate(store, "dead")
    dead.campaign()
    others = [_candidate(store, name) for name in "abcd"]
    for election, clock in others:
        assert election.campaign() is None
        clock.advance(LEASE)
    barrier, won = threading.Barrier(len(others)), []

    def campaign(election: Election) -> None:
        barrier.wait()
        won.append(election.campaign())

    threads = [threading.Thread(target=campaign, args=(election,)) for election, _ in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    leases = [lease for lease in won if lease is not None]
    assert [lease.epoch for lease in leases] == [2]


def test_a_leader_that_was_replaced_learns_it_at_its_next_renewal_and_cannot_resign_the_new_one(store: Store) -> None:
    old, _ = _candidate(store, "a")
    new, clock = _candidate(store, "b")
    old_lease = old.campaign()
    assert old_lease is not None
    new.campaign()
    clock.advance(LEASE)
    new_lease = new.campaign()
    assert new_lease is not None
    assert not old.renew(old_lease)
    old.resign(old_lease)
    assert new.renew(new_lease)


def test_a_guarded_write_of_a_leader_that_was_replaced_writes_nothing(store: Store) -> None:
    old, _ = _candidate(store, "a")
    new, clock = _candidate(store, "b")
    old_lease = old.campaign()
    with store.write(old_lease) as w:
        w.insert_job(make_job("job-1"))
    new.campaign()
    clock.advance(LEASE)
    new_lease = new.campaign()
    assert new_lease is not None
    with pytest.raises(LeadershipLost, match="a led with epoch 1; now it is epoch 2 of b"), store.write(old_lease) as w:
        w.insert_job(make_job("job-2"))
    assert store.transact(lambda w: w.insert_job(make_job("job-3")), guard=new_lease).uid == "job-3"
    with store.read() as r:
        assert [job.uid for job in r.jobs()] == ["job-1", "job-3"]


def test_an_unreachable_database_costs_the_leadership_only_when_the_lease_is_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, clock = _candidate(store, "a")
    lease = leader.campaign()
    assert lease is not None

    def gone() -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(store, "_plain", gone)
    clock.advance(LEASE - 1)
    assert leader.renew(lease)
    clock.advance(1)
    assert not leader.renew(lease)


def test_nobody_becomes_leader_between_the_check_and_the_commit(
    database_url: str, clock: ManualClock, new_id: Callable[[], str]
) -> None:
    """The guard's row stays locked: the other candidate's compare-and-set comes after the commit."""
    ours, theirs = (open_store(database_url, clock=clock, new_id=new_id) for _ in range(2))
    leader, _ = _candidate(ours, "a")
    other, other_clock = _candidate(theirs, "b")
    lease = leader.campaign()
    other.campaign()
    other_clock.advance(LEASE)
    order: list[str] = []

    def take_over() -> None:
        assert other.campaign() is not None
        order.append("taken")

    thread = threading.Thread(target=take_over)
    with ours.write(lease) as w:
        w.insert_job(make_job())
        thread.start()
        thread.join(timeout=0.3)
        order.append("committing")
    thread.join()
    assert order == ["committing", "taken"]
    ours.close()
    theirs.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(0, 2), st.floats(0.1, 6.0)),
        st.tuples(st.sampled_from(["campaign", "renew", "write"]), st.integers(0, 2), st.just(0.0)),
    ),
    max_size=60,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_epochs_only_grow_and_an_older_leader_never_writes(
    sqlite_store: Store, steps: list[tuple[str, int, float]]
) -> None:
    """Clocks of the candidates run at will; their leases may be wrong, the epoch guard never is."""
    with sqlite_store._plain() as connection:
        connection.exec_driver_sql("UPDATE leader SET epoch = 0, holder = '', renewals = 0")
    candidates = [_candidate(sqlite_store, name) for name in "abc"]
    held: dict[int, LeaderLease] = {}
    newest = 0
    for verb, who, seconds in steps:
        election, clock = candidates[who]
        if verb == "pass":
            clock.advance(seconds)
        elif verb == "campaign" and who not in held:
            lease = election.campaign()
            if lease is not None:
                assert lease.epoch == newest + 1
                held[who], newest = lease, lease.epoch
        elif verb == "renew" and who in held and not election.renew(held[who]):
            del held[who]
        elif verb == "write" and who in held:
            try:
                with sqlite_store.write(held[who]):
                    pass
                assert held[who].epoch == newest
            except LeadershipLost:
                assert held[who].epoch < newest


def test_a_leader_that_stands_still_within_a_transaction_holds_nobody_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite leader and standbys share a machine, and a lock of the file that only its death ends."""
    if store.time() is None:
        return
    monkeypatch.setattr("controller.state.store.IDLE", "300ms")
    leader, _ = _candidate(store, "a")
    other, clock = _candidate(store, "b", boottime=1e6)
    lease = leader.campaign()
    assert other.campaign() is None
    clock.advance(LEASE)
    job = make_job()

    def write(w: Writer) -> None:
        w.insert_job(job)
        with ThreadPoolExecutor(1) as standby:
            taken = standby.submit(other.campaign).result()
        assert taken == LeaderLease("b", 2), "as soon as the database has ended the transaction"

    with pytest.raises(StoreUnavailable):
        store.transact(write, guard=lease)
    with store.read() as r:
        assert r.job(job.uid) is None
