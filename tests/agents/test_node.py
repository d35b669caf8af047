"""The node's side of the protocol, without sockets and processes where none are needed."""

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agents.config import AgentConfig
from agents.node import Node
from agents.runtime.children import Children
from agents.runtime.folder import Folder
from muster.clock import ManualClock
from muster.protocol import Assignment, Desired, Inventory
from tests.agents.cluster import AgentProcess, FakeApi, alive, make_assignment, until
from tests.agents.test_life import run


def make_node(tmp_path: Path) -> Node:
    config = AgentConfig(server="http://127.0.0.1:1", token_file=tmp_path / "t", node="n1", directory=tmp_path)
    inventory = Inventory(address="127.0.0.1", host="h", cpu_milli=1000, memory=2**30)
    return Node(config, inventory, "boot", clock=ManualClock(), children=Children(), environ={"PATH": "/bin:/usr/bin"})


def on_node(tmp_path: Path, scenario: Callable[[Node], Awaitable[None]]) -> None:
    async def main() -> None:
        node = make_node(tmp_path)
        node.adopt()
        await scenario(node)
        await node.close()

    asyncio.run(main())


def wanted(*assignments: Assignment, generation: int = 1) -> Desired:
    return Desired(generation=generation, assignments=assignments)


async def told(node: Node, uid: str, phase: str) -> None:
    while not any(w.worker_uid == uid and w.phase == phase for w in node.hello().workers):
        await asyncio.sleep(0.005)


def test_a_full_disk_refuses_a_new_worker_and_harms_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Node) -> None:
        node.apply(wanted(make_assignment("w1")))
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "save", _no_space)
            node.apply(wanted(make_assignment("w1"), make_assignment("w2", attempt="a2", job_uid="j2"), generation=2))
        assert node.urgent()
        report = node.next_report()
        assert report is not None
        refused = {worker.worker_uid: worker for worker in report.workers}["w2"]
        assert (refused.phase, refused.problem, refused.attempt) == ("Exited", "DISK_FULL", "a2")
        assert node.acked(report.seq)
        assert [worker.worker_uid for worker in node.hello().workers] == ["w1"]
        assert node.generation == 2

    on_node(tmp_path, scenario)


def _no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "assignment.json")


def test_epochs_are_remembered_over_restarts(tmp_path: Path) -> None:
    async def first(node: Node) -> None:
        node.apply(wanted(make_assignment("w2", epoch=2)))

    async def second(node: Node) -> None:
        node.apply(wanted(make_assignment("w1", epoch=1), make_assignment("w2", epoch=2)))
        await told(node, "w1", "Exited")
        reports = {worker.worker_uid: worker for worker in node.hello().workers}
        assert (reports["w1"].problem, reports["w2"].problem) == ("STALE_EPOCH", "")

    on_node(tmp_path, first)
    on_node(tmp_path, second)


def test_epochs_of_other_scopes_do_not_matter(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.apply(wanted(make_assignment("w1", epoch=9), make_assignment("w2", epoch=1, job_uid="other")))
        await asyncio.sleep(0)
        assert {worker.problem for worker in node.hello().workers} == {""}

    on_node(tmp_path, scenario)


def test_damaged_state_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"epochs": {"j1/ga')
    with pytest.raises(ValueError, match="damaged"):
        make_node(tmp_path)


def test_a_prepare_that_was_cut_short_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "attempts" / "w1" / "work").mkdir(parents=True)

    async def scenario(node: Node) -> None:
        assert node.hello().workers == ()

    on_node(tmp_path, scenario)
    assert not (tmp_path / "attempts" / "w1").exists()


def test_a_report_is_the_same_until_it_is_acknowledged(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.apply(wanted(make_assignment("w1", desired="stop")))
        first = node.next_report()
        await told(node, "w1", "Exited")
        assert first is not None
        assert node.next_report() == first
        assert not node.acked(first.seq - 1)
        assert node.acked(first.seq)
        second = node.next_report()
        assert second is not None
        assert second.seq == first.seq + 1
        assert [worker.phase for worker in second.workers] == ["Exited"]
        assert node.acked(second.seq)
        assert node.next_report() is None

    on_node(tmp_path, scenario)


def test_a_forgotten_worker_is_not_told_any_more(tmp_path: Path) -> None:
    """Else every hello would name all workers that were ever here."""

    async def scenario(node: Node) -> None:
        node.apply(wanted(make_assignment("w1", desired="stop")))
        await told(node, "w1", "Exited")
        while (report := node.next_report()) is not None:
            assert node.acked(report.seq)
        node.apply(wanted(generation=2))
        async with asyncio.timeout(30):
            while node.hello().workers:
                await asyncio.sleep(0.005)
        assert node.next_report() is None

    on_node(tmp_path, scenario)


@pytest.mark.processes
def test_the_diary_of_a_forgotten_worker_is_kept(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "exit 3"))
    api.reaches("Exited")
    api.want()
    until(lambda: not agent.folder().exists())
    lines = (agent.directory / "diaries" / "w1.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["shim", "go", "started", "exit", "dead"]


@pytest.mark.processes
def test_a_held_lock_names_the_living_shim(api: FakeApi, agent: AgentProcess) -> None:
    api.want(make_assignment("w1"))
    api.reaches("Ready")
    pid = int((agent.folder() / "shim.lock").read_text())
    assert pid == agent.event("shim")["pid"]
    assert alive(pid)


@pytest.mark.processes
def test_an_expression_that_never_ends_is_told_and_costs_nothing_else(api: FakeApi, agent: AgentProcess) -> None:
    text = f"echo {'a' * 60}!; exec sleep 1000"
    run(api, make_assignment("w1", text, template={"progress_regex": r"(?P<step>(a+)+)$"}))
    until(lambda: [e for e in api.evidence() if e.data.get("code") == "PROGRESS_REGEX"])
    assert api.worker().phase == "Running"  # type: ignore[union-attr]


def test_what_was_overtaken_by_something_newer_is_out_of_date_until_the_database_is_another_one(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.welcomed("first")
        node.apply(wanted(make_assignment("w1"), make_assignment("w2", attempt="a2", job_uid="j2"), generation=8))
        node.apply(wanted(make_assignment("w1"), generation=7))
        assert {each.assignment.worker_uid for each in node.stock().workers} == {"w1", "w2"}
        assert (node.generation, node.hello().cluster) == (8, "first")
        node.welcomed("second")
        node.apply(wanted(make_assignment("w3", attempt="a3", job_uid="j3", epoch=5), generation=2))
        assert (node.generation, node.hello().cluster) == (2, "second")
        assert node.stock().epochs == {"j1/gang": 1, "j2/gang": 1, "j3/gang": 5}

    on_node(tmp_path, scenario)
    assert json.loads((tmp_path / "state.json").read_text())["cluster"] == "second"


def test_the_end_of_a_worker_that_was_forgotten_is_told_again_out_of_its_diary(tmp_path: Path) -> None:
    events = [
        {"event": "shim", "t": 1, "at": 1, "pid": 1, "boot_id": "boot", "revision": 1, "attempt": "a1", "epoch": 1},
        {"event": "go", "t": 2, "at": 2},
        {"event": "started", "t": 2, "at": 2, "process": 0, "rank": 0, "pid": 2, "start": 3},
        {"event": "exit", "t": 3, "at": 3, "process": 0, "rank": 0, "code": 0},
        {"event": "dead", "t": 3, "at": 3},
    ]
    (tmp_path / "diaries").mkdir()
    (tmp_path / "diaries" / "w1.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))

    async def scenario(node: Node) -> None:
        node.apply(wanted(make_assignment("w1", desired="run")))
        await told(node, "w1", "Exited")
        (report,) = node.hello().workers
        assert [(each.code, each.at) for each in report.exits] == [(0, 3)]
        assert report.problem == ""

    on_node(tmp_path, scenario)
