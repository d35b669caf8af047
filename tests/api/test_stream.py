"""Agents at their stream: hello, renewals, reports, logs, and what is desired of them."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from api.services import Services
from controller.records import AttemptRecord, JobRecord, WorkerRecord
from controller.state import StoreUnavailable
from muster.clock import ManualClock
from muster.evidence import Evidence, Source
from muster.protocol import (
    CheckpointItem,
    Desired,
    LogAck,
    LogChunk,
    ProgressPoint,
    RankExit,
    Refused,
    Renew,
    Renewed,
    Welcome,
    decode_down,
)
from muster.states import AttemptPhase, JobPhase, NodePhase, WorkerPhase
from tests.api.agent import STREAM, FakeAgent, connected, hello, inventory, report_of
from tests.api.conftest import eventually
from tests.makers import make_attempt, make_job, make_worker


@pytest.fixture
def agent(anybody: TestClient, agent_headers: dict[str, str]) -> Iterator[FakeAgent]:
    with connected(anybody, agent_headers) as made:
        yield made


def place(here: Services, nodes: tuple[str, ...] = ("n0",), **changes: Any) -> list[WorkerRecord]:
    """A job with a worker on each node, as the loop would write it."""
    spec = changes.pop("spec", {})
    job: JobRecord = make_job(phase=JobPhase.STARTING, epoch=1, attempt_uid="job-train-a1", spec=spec)
    attempt: AttemptRecord = make_attempt(job)
    workers = [make_worker(attempt, index, node, **changes) for index, node in enumerate(nodes)]
    here.write(lambda w: (w.insert_job(job), w.insert_attempt(attempt), w.insert_workers(workers)))
    return workers


def worker_now(here: Services, worker: WorkerRecord) -> WorkerRecord:
    with here.store.read() as r:
        found = r.worker(worker.uid)
    assert found is not None
    return found


def attempt_now(here: Services) -> AttemptRecord:
    with here.store.read() as r:
        found = r.attempt("job-train-a1")
    assert found is not None
    return found


class TestHello:
    def test_registers_the_node_and_its_first_lease(self, agent: FakeAgent, here: Services) -> None:
        with here.store.read() as r:
            node, (lease,) = r.node("n0"), r.leases()
            (event,) = r.events(namespace="")
        assert node is not None
        assert (node.phase, node.boot_id, node.host, len(node.devices)) == (NodePhase.READY, "boot-1", "machine", 8)
        assert node.labels["muster.dev/leaf"] == "l0"
        assert (lease.node, lease.boot_id, lease.renewals) == ("n0", "boot-1", 1)
        assert (event.reason, event.message) == ("Registered", "n0 joined with 8 h100")

    def test_is_welcomed_with_the_clusters_lease_before_anything_else(
        self, anybody: TestClient, agent_headers: dict[str, str], here: Services
    ) -> None:
        with anybody.websocket_connect(STREAM, headers=agent_headers) as session:
            FakeAgent(session).send(hello())
            first, second = decode_down(session.receive_text()), decode_down(session.receive_text())
        assert isinstance(first, Welcome)
        assert first.lease == here.settings.lease
        assert isinstance(second, Desired)
        assert second.assignments == ()

    def test_again_changes_nothing_that_has_not_changed(
        self, anybody: TestClient, agent_headers: dict[str, str], here: Services
    ) -> None:
        with connected(anybody, agent_headers):
            pass
        here.write(lambda w: w.patch_node("n0", cordoned=True))
        with here.store.read() as r:
            before = r.node("n0")
        with connected(anybody, agent_headers), here.store.read() as r:
            assert r.node("n0") == before
        moved = hello(inventory=inventory(address="10.0.0.1"))
        with connected(anybody, agent_headers, moved), here.store.read() as r:
            after = r.node("n0")
        assert after is not None
        assert (after.address, after.cordoned, before is not None and after.uid == before.uid) == (
            "10.0.0.1",
            True,
            True,
        )

    @pytest.mark.parametrize(
        ("greeting", "code", "words"),
        [
            (hello(v=0), "VERSION", "protocol 1 to 2"),
            (hello(v=99), "VERSION", "speaks 99"),
            (hello("Bad_Name"), "NAME", "'Bad_Name'"),
            (hello("../../etc"), "NAME", "cannot be the name"),
            (hello(boot_id=""), "VERSION", "boot id"),
        ],
    )
    def test_that_cannot_be_is_refused_with_the_reason(
        self, anybody: TestClient, agent_headers: dict[str, str], here: Services, greeting: Any, code: str, words: str
    ) -> None:
        with anybody.websocket_connect(STREAM, headers=agent_headers) as session:
            agent = FakeAgent(session)
            agent.send(greeting)
            refused = agent.receive(Refused)
            with pytest.raises(WebSocketDisconnect):
                session.receive_text()
        assert refused.code == code
        assert words in refused.message
        with here.store.read() as r:
            assert r.nodes() == []

    @pytest.mark.parametrize("frame", ["{", '{"type":"renew","seq":1,"sent":1}', '{"type":"nonsense"}', ""])
    def test_that_is_none_is_refused(self, anybody: TestClient, agent_headers: dict[str, str], frame: str) -> None:
        with anybody.websocket_connect(STREAM, headers=agent_headers) as session:
            session.send_text(frame)
            assert FakeAgent(session).receive(Refused).message.startswith("expected a hello")

    def test_from_a_newer_agent_by_one_version_is_answered_in_ours(
        self, anybody: TestClient, agent_headers: dict[str, str]
    ) -> None:
        with anybody.websocket_connect(STREAM, headers=agent_headers) as session:
            agent = FakeAgent(session)
            agent.send(hello(v=2))
            assert agent.receive(Welcome).v == 1

    @pytest.mark.parametrize("token", [None, "wrong"])
    def test_without_an_agents_token_is_not_heard(self, anybody: TestClient, token: str | None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with pytest.raises(Exception) as refused, anybody.websocket_connect(STREAM, headers=headers):
            pass
        assert getattr(refused.value, "status_code", 401) == 401

    def test_with_an_administrators_token_is_forbidden(self, admin: TestClient) -> None:
        with pytest.raises(Exception) as refused, admin.websocket_connect(STREAM):
            pass
        assert getattr(refused.value, "status_code", 403) == 403


class TestTwoStreams:
    def test_the_newer_of_one_boot_replaces_the_older(
        self, anybody: TestClient, agent_headers: dict[str, str], agent: FakeAgent
    ) -> None:
        with connected(anybody, agent_headers) as newer:
            assert agent.receive(Refused).code == "NODE_TAKEN"
            assert newer.renew().sent == 12.5

    def test_another_machine_of_this_name_waits_until_the_first_is_silent(
        self, anybody: TestClient, agent_headers: dict[str, str], agent: FakeAgent, clock: ManualClock, here: Services
    ) -> None:
        other = hello(boot_id="boot-2")
        with anybody.websocket_connect(STREAM, headers=agent_headers) as session:
            FakeAgent(session).send(other)
            assert FakeAgent(session).receive(Refused).code == "NODE_TAKEN"
        clock.advance(here.settings.lease.unknown)
        with connected(anybody, agent_headers, other), here.store.read() as r:
            node = r.node("n0")
        assert node is not None
        assert node.boot_id == "boot-2"


class TestRenewals:
    def test_are_acknowledged_after_the_commit(self, agent: FakeAgent, here: Services) -> None:
        assert agent.renew().sent == 12.5
        with here.store.read() as r:
            assert [one.renewals for one in r.leases()] == [2]

    def test_are_not_acknowledged_when_they_cannot_be_committed(
        self, agent: FakeAgent, here: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, away = here.store.transact, [True]

        def transact(*args: Any) -> Any:
            if away[0]:
                raise StoreUnavailable("disk I/O error")
            return real(*args)

        monkeypatch.setattr(here.store, "transact", transact)
        agent.send(Renew(seq=1, sent=1.0))
        eventually(lambda: not here.metrics.renewals._value.get())
        away[0] = False
        agent.send(Renew(seq=2, sent=2.0))
        assert {agent.receive(Renewed).seq} <= {1, 2}
        with here.store.read() as r:
            assert [one.renewals for one in r.leases()] == [2]

    def test_of_many_agents_are_one_transaction(
        self, anybody: TestClient, agent_headers: dict[str, str], here: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:

        with ExitStack() as stack:
            agents = [stack.enter_context(connected(anybody, agent_headers, hello(f"n{i}"))) for i in range(5)]
            calls = []
            real = here.store.transact
            monkeypatch.setattr(here.store, "transact", lambda *args: calls.append(1) or real(*args))
            for one in agents:
                one.send(Renew(seq=1, sent=1.0))
            for one in agents:
                one.receive(Renewed)
        assert len(calls) < 5

    def test_never_enter_the_change_log(self, agent: FakeAgent, here: Services) -> None:
        with here.store.read() as r:
            before = r.revision()
        agent.renew()
        with here.store.read() as r:
            assert r.revision() == before


class TestDesired:
    def test_a_commit_of_the_loop_reaches_the_agent(self, agent: FakeAgent, here: Services) -> None:
        (worker,) = place(here, spec={"checkpoint": {"directory": "/c", "format": "dcp"}}, devices=(0, 1), fence=5.0)
        told = agent.receive(Desired)
        (one,) = told.assignments
        assert (one.worker_uid, one.desired, one.revision, one.devices) == (worker.uid, "prepare", 1, (0, 1))
        assert (one.job, one.namespace, one.scope, one.number, one.epoch) == ("train", "default", "gang", 1, 1)
        assert (one.checkpoint_directory, one.checkpoint_format, one.fence) == ("/c", "dcp", 5.0)
        assert one.template == worker.template
        here.write(lambda w: w.patch_worker(worker.uid, desired="run"))
        later = agent.receive(Desired)
        assert later.generation > told.generation
        assert agent.wanted() == {worker.uid: "run"}

    def test_only_the_node_that_it_is_about_is_told(
        self, anybody: TestClient, agent_headers: dict[str, str], agent: FakeAgent, here: Services
    ) -> None:
        with connected(anybody, agent_headers, hello("n1")) as other:
            place(here, ("n1",))
            other.receive(Desired)
            assert agent.renew()
            assert agent.wanted() == {}

    def test_the_attempts_token_opens_self(self, anybody: TestClient, agent: FakeAgent, here: Services) -> None:
        place(here)
        token = agent.receive(Desired).assignments[0].token
        answer = anybody.get("/api/v1/self", headers={"Authorization": f"Bearer {token}"})
        assert answer.json()["attempt"]["uid"] == "job-train-a1"

    def test_an_agent_that_joins_while_changes_are_read_is_told_all_the_same(
        self, agent: FakeAgent, here: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nodes, before = here.hub.nodes, [frozenset[str]()]
        monkeypatch.setattr(here.hub, "nodes", lambda: before.pop() if before else nodes())
        place(here)
        assert len(agent.receive(Desired).assignments) == 1

    def test_what_has_ended_is_not_listed(self, agent: FakeAgent, here: Services) -> None:
        (worker,) = place(here)
        agent.receive(Desired)
        here.write(lambda w: w.move_worker(worker.uid, WorkerPhase.LOST))
        agent.receive(Desired)
        assert agent.wanted() == {}

    def test_a_zombie_of_an_old_attempt_is_not_listed_so_it_stops(
        self, anybody: TestClient, agent_headers: dict[str, str], here: Services
    ) -> None:
        (worker,) = place(here, phase=WorkerPhase.LOST)
        with connected(anybody, agent_headers, hello(workers=(report_of(worker, "Running"),))) as agent:
            assert agent.wanted() == {}
        assert worker_now(here, worker).phase is WorkerPhase.LOST

    def test_is_said_again_only_when_it_differs(self, agent: FakeAgent, here: Services) -> None:
        (worker,) = place(here)
        first = agent.receive(Desired)
        agent.report(workers=(report_of(worker, "Preparing"),))
        agent.report(workers=(report_of(worker, "Ready"),))
        agent.renew()
        assert agent.desired == first


class TestReports:
    def test_move_workers_and_keep_how_their_ranks_ended(self, agent: FakeAgent, here: Services) -> None:
        (worker,) = place(here)
        for phase in ("Preparing", "Ready", "Running"):
            agent.report(workers=(report_of(worker, phase),))
            assert worker_now(here, worker).phase == phase
        exits = (RankExit(process=0, rank=0, code=None, signal=9, at=1_700_000_002.0),)
        agent.report(workers=(report_of(worker, "Exited", exits=exits, message="killed"),))
        found = worker_now(here, worker)
        assert (found.phase, found.exits, found.message) == (WorkerPhase.EXITED, exits, "killed")
        assert (found.running_at, found.ended_at) == (1_700_000_001.0, 1_700_000_001.0)

    def test_repeated_change_nothing(self, agent: FakeAgent, here: Services) -> None:
        (worker,) = place(here)
        agent.report(workers=(report_of(worker, "Ready"),))
        before = worker_now(here, worker)
        agent.report(workers=(report_of(worker, "Ready"),))
        assert worker_now(here, worker) == before

    @pytest.mark.parametrize(
        ("changes", "phase"),
        [
            ({"epoch": 2}, "Running"),
            ({"attempt": "other"}, "Running"),
            ({"worker_uid": "unknown"}, "Running"),
            ({}, "Assigned"),
            ({}, "Exploded"),
        ],
        ids=["another epoch", "another attempt", "an unknown worker", "a move back", "an unknown phase"],
    )
    def test_that_do_not_fit_are_acknowledged_and_ignored(
        self, agent: FakeAgent, here: Services, changes: dict[str, Any], phase: str
    ) -> None:
        (worker,) = place(here, phase=WorkerPhase.READY)
        agent.report(workers=(report_of(worker, phase, **changes),))
        assert worker_now(here, worker).phase is WorkerPhase.READY

    def test_about_another_nodes_worker_are_ignored(self, agent: FakeAgent, here: Services) -> None:
        (worker,) = place(here, ("n1",))
        agent.report(
            workers=(report_of(worker, "Exited"),),
            evidence=(Evidence(source=Source.EXIT, at=1.0, attempt="job-train-a1"),),
            progress={"job-train-a1": (ProgressPoint(step=1, at=1.0),)},
            checkpoints={"job-train-a1": (CheckpointItem(path="/c", step=1, format="dcp", complete=True),)},
        )
        assert worker_now(here, worker).phase is WorkerPhase.ASSIGNED
        assert attempt_now(here).last_step is None
        with here.store.read() as r:
            assert r.evidence("job-train-a1") == []
            assert r.checkpoints("job-train") == []

    def test_bring_evidence_in_the_nodes_own_name(self, agent: FakeAgent, here: Services) -> None:
        place(here)
        agent.report(evidence=(Evidence(source=Source.LOG, at=5.0, attempt="job-train-a1", node="other", text="Traceback"),))  # fmt: skip
        with here.store.read() as r:
            (found,) = r.evidence("job-train-a1")
        assert (found.node, found.text) == ("n0", "Traceback")

    def test_bring_progress_that_only_grows(self, agent: FakeAgent, here: Services) -> None:
        place(here)
        points = (ProgressPoint(step=3, at=1.0, loss=0.9), ProgressPoint(step=4, at=2.0, loss=0.8))
        agent.report(progress={"job-train-a1": points})
        agent.report(progress={"job-train-a1": (ProgressPoint(step=2, at=3.0, loss=5.0),)})
        agent.report(progress={"job-train-a1": (ProgressPoint(step=6, at=4.0),)})
        found = attempt_now(here)
        assert (found.first_step, found.last_step, found.loss) == (3, 6, 0.8)
        with here.store.read() as r:
            assert [point.step for point in r.progress("job-train-a1")] == [3, 4, 2, 6]

    def test_bring_the_whole_stock_of_checkpoints(self, agent: FakeAgent, here: Services) -> None:
        place(here)
        items = tuple(CheckpointItem(path=f"/c/{n}", step=n, format="dcp", complete=n < 3) for n in (1, 2, 3))
        agent.report(checkpoints={"job-train-a1": items})
        agent.report(checkpoints={"job-train-a1": items[1:]})
        with here.store.read() as r:
            assert [(one.step, one.complete) for one in r.checkpoints("job-train")] == [(2, True), (3, False)]

    def test_with_a_value_that_cannot_be_kept_lose_only_that(self, agent: FakeAgent, here: Services) -> None:
        (worker,) = place(here)
        exits = (RankExit(process=0, rank=0, code=2**70, at=1.0),)
        agent.report(
            workers=(report_of(worker, "Running", exits=exits),),
            progress={"job-train-a1": (ProgressPoint(step=2**70, at=1.0), ProgressPoint(step=1, at=1.0, rank=2**70))},
            checkpoints={"job-train-a1": (CheckpointItem(path="/c", step=2**70, format="dcp", complete=True),)},
            evidence=(Evidence(source=Source.LOG, at=1.0, attempt="job-train-a1", text="a nul \0"),),
        )
        assert worker_now(here, worker).phase is WorkerPhase.RUNNING
        assert attempt_now(here).last_step is None

    def test_bring_a_changed_inventory(self, agent: FakeAgent, here: Services) -> None:
        agent.report(inventory=inventory(devices=()))
        with here.store.read() as r:
            node = r.node("n0")
        assert node is not None
        assert node.devices == ()

    def test_are_acknowledged_only_when_the_database_has_them(
        self, agent: FakeAgent, here: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (worker,) = place(here)
        real, failures = here.store.transact, iter([StoreUnavailable("away")] * 2)

        def transact(*args: Any) -> Any:
            if (failure := next(failures, None)) is not None:
                raise failure
            return real(*args)

        monkeypatch.setattr("api.stream.RETRY_SECONDS", 0.01)
        monkeypatch.setattr(here.store, "transact", transact)
        agent.report(workers=(report_of(worker, "Ready"),))
        assert worker_now(here, worker).phase is WorkerPhase.READY

    def test_of_news_wake_the_controller_and_progress_alone_does_not(self, agent: FakeAgent, here: Services) -> None:
        (worker,) = place(here)
        hints: list[int] = []
        here.hints.listen(lambda: hints.append(1))
        agent.report(progress={"job-train-a1": (ProgressPoint(step=1, at=1.0),)})
        assert hints == []
        agent.report(workers=(report_of(worker, "Ready"),))
        assert hints == [1]


class TestReboot:
    def test_a_new_boot_id_is_proof_that_its_workers_are_dead(
        self, anybody: TestClient, agent_headers: dict[str, str], here: Services, clock: ManualClock
    ) -> None:
        with connected(anybody, agent_headers):
            pass
        running, ready, assigned = place(here, ("n0", "n0", "n0"))
        here.write(
            lambda w: (w.move_worker(running.uid, WorkerPhase.RUNNING), w.move_worker(ready.uid, WorkerPhase.READY))
        )
        clock.advance(60)
        with connected(anybody, agent_headers, hello(boot_id="boot-2")) as agent:
            assert agent.wanted() == {assigned.uid: "prepare"}
        for worker in (running, ready):
            found = worker_now(here, worker)
            assert (found.phase, found.problem) == (WorkerPhase.EXITED, "VANISHED")
            assert "booted anew" in found.message
        with here.store.read() as r:
            assert [one.reason for one in r.events(namespace="")] == ["Registered", "Rebooted"]

    def test_the_same_boot_leaves_them_to_their_agent(
        self, anybody: TestClient, agent_headers: dict[str, str], here: Services
    ) -> None:
        """An agent that lost its folder may still have ranks under a shim: it finds out, and says so."""
        with connected(anybody, agent_headers):
            pass
        (worker,) = place(here, phase=WorkerPhase.RUNNING, desired="run")
        with connected(anybody, agent_headers) as agent:
            assert agent.wanted() == {worker.uid: "run"}
        assert worker_now(here, worker).phase is WorkerPhase.RUNNING

    def test_what_the_agent_says_in_its_hello_is_taken_at_once(
        self, anybody: TestClient, agent_headers: dict[str, str], here: Services
    ) -> None:
        (worker,) = place(here, phase=WorkerPhase.READY, desired="run")
        with connected(anybody, agent_headers, hello(workers=(report_of(worker, "Running"),))):
            pass
        assert worker_now(here, worker).phase is WorkerPhase.RUNNING

    def test_an_end_in_a_hello_waits_for_the_report_that_brings_its_evidence(
        self, anybody: TestClient, agent_headers: dict[str, str], here: Services
    ) -> None:
        """A verdict rests on what the ranks wrote last: the attempt may not be over before that is here."""
        (worker,) = place(here, phase=WorkerPhase.RUNNING, desired="run")
        ended = report_of(worker, "Exited", exits=(RankExit(process=0, rank=0, code=3, at=1.0),))
        with connected(anybody, agent_headers, hello(workers=(ended,))) as agent:
            assert agent.wanted() == {worker.uid: "run"}
            assert worker_now(here, worker).phase is WorkerPhase.RUNNING
            said = Evidence(source=Source.LOG, at=1.0, attempt=worker.attempt_uid, text="ImportError")
            agent.report(workers=(ended,), evidence=(said,))
        assert worker_now(here, worker).phase is WorkerPhase.EXITED


class TestLogs:
    def test_are_appended_where_the_database_says(self, agent: FakeAgent, here: Services) -> None:
        (worker,) = place(here)
        assert agent.log(worker, 0, "hällo\n", rank=0).offset == 7
        assert agent.log(worker, 7, "welt\n", rank=0).offset == 12
        agent.log(worker, 0, "launcher\n")
        folder = here.settings.log_store / "default" / "job-train" / "job-train-a1" / "worker-0"
        assert (folder / "rank-0.log").read_text() == "hällo\nwelt\n"
        assert (folder / "worker.log").read_text() == "launcher\n"

    @pytest.mark.parametrize(
        "changes", [{"rank": 7}, {"rank": -1}, {"worker_uid": "../../x"}, {"offset": -5}, {"rank": 2**70}]
    )
    def test_that_are_not_this_nodes_are_thrown_away(
        self, agent: FakeAgent, here: Services, changes: dict[str, Any]
    ) -> None:
        (worker,) = place(here)
        chunk = LogChunk(worker_uid=worker.uid, attempt=worker.attempt_uid, rank=0, offset=0, data="x")
        agent.send(replace(chunk, **changes))
        agent.receive(LogAck)
        assert [path for path in here.settings.log_store.rglob("*") if path.is_file()] == []

    def test_wait_for_a_disk_that_is_full_and_hold_up_no_renewal(
        self, agent: FakeAgent, here: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (worker,) = place(here)
        full = [True]
        real = here.logs.append

        def append(*args: Any) -> None:
            if full[0]:
                raise OSError(28, "No space left on device")
            real(*args)

        monkeypatch.setattr("api.stream.RETRY_SECONDS", 0.01)
        monkeypatch.setattr(here.logs, "append", append)
        agent.send(LogChunk(worker_uid=worker.uid, attempt=worker.attempt_uid, rank=0, offset=0, data="x\n"))
        assert agent.renew()
        full[0] = False
        assert agent.receive(LogAck).offset == 2


def test_a_frame_that_is_not_understood_ends_the_stream(agent: FakeAgent) -> None:
    agent.session.send_text("{")
    with pytest.raises(WebSocketDisconnect):
        agent.receive(Refused)


def test_the_attempt_that_ended_is_over_for_its_node(agent: FakeAgent, here: Services) -> None:
    (worker,) = place(here)
    agent.receive(Desired)
    here.write(
        lambda w: (
            w.move_worker(worker.uid, WorkerPhase.EXITED),
            w.move_attempt("job-train-a1", AttemptPhase.ENDED),
        )
    )
    agent.receive(Desired)
    assert agent.wanted() == {}
