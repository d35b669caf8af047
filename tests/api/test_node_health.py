"""Conditions, drains, repairs and measurements of nodes over the wire."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

from api.services import Services
from controller.records import MeasurementRecord, RepairRecord
from muster.conditions import Condition, Remedy
from muster.protocol import Desired, Device, Nic, TaskResult
from muster.states import RepairPhase
from tests.api.agent import FakeAgent, connected, hello, inventory
from tests.api.conftest import eventually

NODE = "/api/v1/nodes/n0"
XID = Condition(
    kind="Xid", reason="Xid95", message="Uncontained", severity="fatal", remedy=Remedy.RESET, device=3, since=5.0, seen=6.0
)  # fmt: skip


@pytest.fixture
def agent(admin: TestClient, agent_headers: dict[str, str]) -> Iterator[FakeAgent]:
    with connected(admin, agent_headers, hello(conditions=())) as joined:
        yield joined


def shown(client: TestClient, path: str = NODE) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def reasons(here: Services) -> list[str]:
    with here.store.read() as r:
        return [event.reason for event in r.events(namespace="")]


def test_a_condition_is_in_the_node_with_its_times_and_its_begin_and_end_are_events(
    agent: FakeAgent, admin: TestClient, here: Services
) -> None:
    bad = inventory(devices=(Device(index=3, type="h100", healthy=False, problems=("Xid95",)),))
    agent.report(conditions=(XID,), inventory=replace(bad, nics=(Nic(name="mlx5_0", rail=0),), problems=("no driver",)))
    status = shown(admin)["status"]
    (condition,) = status["conditions"]
    assert condition == {
        "kind": "Xid", "reason": "Xid95", "message": "Uncontained", "severity": "fatal", "remedy": "reset", "device": 3,
        "subject": "", "since": "1970-01-01T00:00:05.000Z", "seen": "1970-01-01T00:00:06.000Z", "count": 1,
    }  # fmt: skip
    assert (status["devices"][0]["healthy"], status["nics"][0]["name"], status["problems"]) == (
        False, "mlx5_0", ["no driver"],
    )  # fmt: skip
    agent.report(conditions=(replace(XID, count=5, seen=9.0),))
    agent.report(conditions=())
    assert shown(admin)["status"]["conditions"] == []
    assert reasons(here) == ["Registered", "Xid95", "Xid95Over"], "that it is still so is no event"


def test_a_condition_of_any_size_is_kept_within_bounds(agent: FakeAgent, admin: TestClient) -> None:
    wild = replace(XID, message="x" * 10_000, subject="y" * 1000, since=-5.0, seen=1e300)
    agent.report(conditions=tuple(replace(wild, device=None, reason=f"R{n}") for n in range(1000)))
    found = shown(admin)["status"]["conditions"]
    assert len(found) == 256
    assert len(found[0]["message"]) == 1000
    assert found[0]["since"] is not None


def test_a_repairs_task_is_told_to_its_agent_and_its_result_kept_once(
    agent: FakeAgent, admin: TestClient, here: Services
) -> None:
    repair = RepairRecord(uid="r1", node="n0", phase=RepairPhase.WAITING, conditions=(XID,), devices=(3,))
    here.write(lambda w: w.insert_repair(repair))
    here.write(lambda w: w.move_repair("r1", RepairPhase.DRAINING))
    here.write(lambda w: w.move_repair("r1", RepairPhase.RESETTING, task="t1"))
    wanted = agent.receive(Desired)
    while not wanted.tasks:
        wanted = agent.receive(Desired)
    assert [(one.uid, one.do, one.devices) for one in wanted.tasks] == [("t1", "reset", (3,))]
    agent.report(results=(TaskResult(uid="t1", ok=True, message="done", at=7.0), TaskResult(uid="other", ok=False)))
    agent.report(results=(TaskResult(uid="t1", ok=False, at=8.0),))
    with here.store.read() as r:
        found = r.repair("r1")
    assert found is not None
    assert found.answer == TaskResult(uid="t1", ok=True, message="done", at=7.0)
    (one,) = shown(admin, f"{NODE}/repairs")["items"]
    assert (one["phase"], one["devices"]) == ("Resetting", [3])


def test_a_drain_cordons_says_by_whom_and_is_taken_back_by_an_uncordon(
    agent: FakeAgent, admin: TestClient, here: Services
) -> None:
    spec = admin.post(f"{NODE}/drain", params={"reason": "new cable"}).json()["spec"]
    assert (spec["cordoned"], spec["cordonedBy"], spec["cordonReason"]) == (True, "admin", "new cable")
    assert (spec["drain"]["policy"], spec["drain"]["reason"]) == ("now", "new cable")
    admin.post(f"{NODE}/drain", params={"reason": "new cable"})
    assert reasons(here).count("Draining") == 1
    assert shown(admin, f"{NODE}/workers")["items"] == []
    spec = admin.post(f"{NODE}/uncordon").json()["spec"]
    assert (spec["cordoned"], spec["drain"], spec["cordonedBy"]) == (False, None, "")
    with here.store.read() as r:
        node = r.node("n0")
    assert node is not None
    assert node.uncordoned_at is not None
    assert admin.post("/api/v1/nodes/none/drain").status_code == 404
    assert admin.post(f"{NODE}/drain", params={"policy": "never"}).status_code == 422


def test_measurements_have_history(agent: FakeAgent, admin: TestClient, here: Services) -> None:
    one = MeasurementRecord(uid="m1", node="n0", check="c", name="memory", value=3.5, unit="GB/s", at=here.clock.now())
    here.write(lambda w: w.insert_measurements([one]))
    items = eventually(lambda: shown(admin, f"{NODE}/measurements")["items"])
    assert [(each["name"], each["value"], each["ok"], each["outlier"]) for each in items] == [("memory", 3.5, True, "")]
