"""A node with something wrong on its way back to work, in the real loop on a real store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from controller.acts.repair import lemons
from controller.acts.repair_policy import RepairPolicy, from_environment
from controller.records import IncidentRecord, NodeRecord, RepairRecord, Verdict
from controller.tasks.hooks import run_hook
from muster.conditions import Condition, Remedy
from muster.protocol import Device, TaskResult
from muster.reasons import End
from muster.states import JobPhase, RepairPhase
from tests.loop.world import World

P = RepairPhase
XID = Condition(kind="Xid", reason="Xid95", message="Uncontained", severity="fatal", remedy=Remedy.RESET, device=0)
PANIC = Condition(kind="Kernel", reason="KernelBug", message="BUG", severity="fatal", remedy=Remedy.REBOOT)
DISK = Condition(kind="Disk", reason="DiskGone", message="sda is gone", severity="error", remedy=Remedy.REPLACE)


class Clinic(World):
    """Nodes that fall ill; their agents do what repairs ask, and answer with `ok`."""

    def __init__(self, folder: Path, policy: RepairPolicy) -> None:
        self.policy = policy
        self.answers = True
        self.cured_by: set[str] = {"reset"}
        super().__init__(folder)

    def lead(self) -> None:
        super().lead()
        self.loop._repair = self.policy

    def ill(self, name: str, *conditions: Condition) -> None:
        """What its agent says is wrong with it now, since now; a device that is not well is not offered."""
        found = tuple(replace(one, since=self.clock.now(), seen=self.clock.now()) for one in conditions)
        bad = {one.device for one in found if one.device is not None}
        devices = tuple(Device(index=i, type="h100", virtual=True, healthy=i not in bad) for i in range(8))
        self.store.transact(lambda w: w.patch_node(name, conditions=found, devices=devices))

    def act(self) -> None:
        super().act()
        with self.store.read() as r:
            live = r.repairs(live_only=True)
        for repair in live:
            if repair.phase in (P.RESETTING, P.CHECKING) and repair.answer is None and self.answers:
                self._answer(repair)

    def _answer(self, repair: RepairRecord) -> None:
        ok = True
        if repair.phase is P.RESETTING:
            ok = "reset" in self.cured_by
            if ok:
                self.ill(repair.node)
        result = TaskResult(uid=repair.task, ok=ok, message="done" if ok else "in use", at=self.clock.now())
        self.store.transact(lambda w: w.patch_repair(repair.uid, answer=result))

    def boot(self, name: str, boot_id: str) -> None:
        self.ill(name)
        self.store.transact(lambda w: w.patch_node(name, boot_id=boot_id))

    def node(self, name: str) -> NodeRecord:
        with self.store.read() as r:
            found = r.node(name)
        assert found is not None
        return found

    def repairs(self, name: str | None = None) -> list[RepairRecord]:
        with self.store.read() as r:
            return r.repairs(name)

    def phases(self, name: str) -> list[str]:
        """Of the newest repair, each once."""
        return list(dict.fromkeys(step.phase for step in self.repairs(name)[-1].steps))

    def reach(self, name: str, phase: RepairPhase) -> None:
        self.until(lambda: bool(self.repairs(name)) and self.repairs(name)[-1].phase is phase)


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[Clinic]:
    made = Clinic(tmp_path, RepairPolicy(patience=1.0, reboot="/bin/true", ticket="https://tickets.test/"))
    yield made
    made.store.close()


def test_a_device_is_freed_reset_checked_and_back_and_its_node_works_on(clinic: Clinic) -> None:
    job = clinic.submit(workers=1, accelerators=[{"type": "h100", "count": 8}])
    clinic.run(job)
    name = clinic.workers(clinic.attempts(job)[0])[0].node
    clinic.ill(name, XID)
    clinic.reach(name, P.RETURNED)
    assert clinic.phases(name) == ["Waiting", "Draining", "Resetting", "Checking", "Returned"]
    assert not clinic.node(name).cordoned
    first = clinic.attempts(job)[0]
    assert first.reason is End.DRAINED
    clinic.until(lambda: clinic.job(job).phase is JobPhase.RUNNING)
    assert clinic.job(job).restarts == 0, "a drain is nobody's failure"


def test_a_device_of_others_is_reset_without_touching_who_does_not_have_it(clinic: Clinic) -> None:
    job = clinic.submit(workers=1)
    clinic.run(job)
    worker = clinic.workers(clinic.attempts(job)[0])[0]
    other = next(i for i in range(8) if i not in worker.devices)
    clinic.ill(worker.node, replace(XID, device=other))
    clinic.reach(worker.node, P.RETURNED)
    assert clinic.job(job).phase is JobPhase.RUNNING
    assert len(clinic.attempts(job)) == 1


def test_what_a_reset_does_not_help_takes_the_whole_node_out_and_is_rebooted_and_then_a_ticket(clinic: Clinic) -> None:
    clinic.cured_by = set()
    clinic.ill("n0", XID)
    clinic.reach("n0", P.REBOOTING)
    node = clinic.node("n0")
    assert node.cordoned
    assert node.cordoned_by == f"repair/{clinic.repairs('n0')[0].uid}"
    (item,) = [one for one in clinic.store.outbox_due(1e12, 10) if one.kind == "repair"]
    assert (item.payload["hook"], item.payload["node"]) == ("reboot", "n0")
    failed = TaskResult(uid=clinic.repairs("n0")[0].task, ok=False, message="no power", at=clinic.clock.now())
    clinic.store.transact(lambda w: w.patch_repair(clinic.repairs("n0")[0].uid, answer=failed))
    clinic.reach("n0", P.TICKETED)
    assert "no power" in clinic.repairs("n0")[0].message
    clinic.boot("n0", "boot-2")
    clinic.reach("n0", P.RETURNED)
    assert not clinic.node("n0").cordoned
    assert clinic.node("n0").drain is None


def test_a_node_is_drained_rebooted_once_by_its_hook_and_back_only_with_a_new_boot(clinic: Clinic) -> None:
    job = clinic.submit(workers=2, accelerators=[{"type": "h100", "count": 8}])
    clinic.run(job)
    clinic.ill("n0", PANIC)
    clinic.reach("n0", P.REBOOTING)
    (item,) = [one for one in clinic.store.outbox_due(1e12, 10) if one.kind == "repair"]
    calls: list[int] = []

    def hook(request: httpx2.Request) -> httpx2.Response:
        calls.append(1)
        return httpx2.Response(200)

    policy = replace(clinic.policy, reboot="https://power.test/")
    with httpx2.Client(transport=httpx2.MockTransport(hook)) as client:
        for _ in range(3):
            run_hook(clinic.store, client, item.id, item.next_at, clock=clinic.clock, policy=policy)
    assert len(calls) == 1
    for _ in range(5):
        clinic.step()
    assert clinic.repairs("n0")[0].phase is P.REBOOTING, "a hook that says yes is no proof of a boot"
    clinic.boot("n0", "boot-2")
    clinic.reach("n0", P.RETURNED)


def test_a_hook_whose_task_died_after_its_claim_is_not_called_again_and_the_deadline_decides(clinic: Clinic) -> None:
    clinic.ill("n0", PANIC)
    clinic.reach("n0", P.REBOOTING)
    repair = clinic.repairs("n0")[0]
    claim = TaskResult(uid=repair.task, ok=False, message="the hook is being called")
    clinic.store.transact(lambda w: w.patch_repair(repair.uid, answer=claim))
    (item,) = [one for one in clinic.store.outbox_due(1e12, 10) if one.kind == "repair"]

    def never(request: httpx2.Request) -> httpx2.Response:
        raise AssertionError("called a second time")

    with httpx2.Client(transport=httpx2.MockTransport(never)) as client:
        run_hook(clinic.store, client, item.id, item.next_at, clock=clinic.clock, policy=clinic.policy)
    clinic.later(clinic.clock.now() + clinic.policy.reboot_timeout + 30)
    clinic.reach("n0", P.TICKETED)
    assert "was called, and there is no new boot" in clinic.repairs("n0")[0].message


def test_the_breaker_lets_no_more_of_the_fleet_go_and_goes_on_when_one_is_back(clinic: Clinic) -> None:
    for name in ("n0", "n1", "n2"):
        clinic.ill(name, DISK)
    clinic.clock.advance(2.0)
    clinic.renew()
    clinic.until(lambda: sum(clinic.node(name).cordoned for name in ("n0", "n1", "n2")) == 1)
    for _ in range(10):
        clinic.step(1.0)
    held = [name for name in ("n0", "n1", "n2") if clinic.node(name).cordoned]
    assert len(held) == 1, "a share of 0.3 of four nodes is one"
    waiting = [one for one in clinic.repairs() if one.phase is P.WAITING]
    assert len(waiting) == 2
    assert "breaker" in waiting[0].message
    clinic.reach(held[0], P.TICKETED)
    clinic.boot(held[0], "boot-2")
    clinic.reach(held[0], P.RETURNED)
    clinic.until(lambda: sum(clinic.node(name).cordoned for name in ("n0", "n1", "n2")) == 1)


def test_a_persons_uncordon_ends_the_repair_and_what_was_wrong_until_then_opens_none(clinic: Clinic) -> None:
    clinic.ill("n0", DISK)
    clinic.clock.advance(2.0)
    clinic.renew()
    clinic.reach("n0", P.TICKETED)
    fields: dict[str, Any] = {"cordoned": False, "cordoned_by": "", "drain": None}
    clinic.clock.advance(1.0)
    clinic.renew()
    clinic.store.transact(lambda w: w.patch_node("n0", uncordoned_at=clinic.clock.now(), **fields))
    clinic.reach("n0", P.DROPPED)
    for _ in range(20):
        clinic.step(1.0)
    assert len(clinic.repairs("n0")) == 1
    assert not clinic.node("n0").cordoned
    clinic.ill("n0", DISK)
    clinic.until(lambda: len(clinic.repairs("n0")) == 2)


def test_what_is_over_before_anything_was_done_is_dropped_and_an_error_must_last(clinic: Clinic) -> None:
    clinic.ill("n0", DISK)
    clinic.step()
    clinic.ill("n0")
    for _ in range(10):
        clinic.step(0.5)
    assert clinic.repairs("n0") == []


def test_one_mount_on_many_nodes_is_no_nodes_fault(clinic: Clinic) -> None:
    mount = Condition(kind="Mount", reason="StaleMount", message="/ckpt", severity="error", subject="/ckpt")
    for name in ("n0", "n1", "n2"):
        clinic.ill(name, mount)
    for _ in range(10):
        clinic.step(0.5)
    assert not any(clinic.node(name).cordoned for name in ("n0", "n1", "n2"))
    assert "nobody is evicted" in clinic.repairs("n0")[0].message


def test_a_dry_run_only_says_what_it_would_do(tmp_path: Path) -> None:
    clinic = Clinic(tmp_path, RepairPolicy(mode="dry-run"))
    job = clinic.submit(workers=1, accelerators=[{"type": "h100", "count": 8}])
    clinic.run(job)
    name = clinic.workers(clinic.attempts(job)[0])[0].node
    clinic.ill(name, PANIC)
    for _ in range(10):
        clinic.step()
    (repair,) = clinic.repairs(name)
    assert (repair.phase, repair.dry_run) == (P.WAITING, True)
    assert "dry run" in repair.message
    assert "what runs is stopped (1 workers)" in repair.message
    assert clinic.job(job).phase is JobPhase.RUNNING
    assert not clinic.node(name).cordoned
    clinic.ill(name)
    clinic.reach(name, P.DROPPED)
    clinic.store.close()


def test_a_new_leader_goes_on_where_the_old_one_was(clinic: Clinic) -> None:
    clinic.answers = False
    clinic.ill("n0", XID)
    clinic.reach("n0", P.RESETTING)
    task = clinic.repairs("n0")[0].task
    clinic.lead()
    for _ in range(3):
        clinic.step()
    assert clinic.repairs("n0")[0].task == task, "the same task: an agent that has done it does not do it again"
    clinic.answers = True
    clinic.reach("n0", P.RETURNED)


def test_several_jobs_that_fail_on_one_node_make_it_a_lemon(clinic: Clinic) -> None:
    now = clinic.clock.now()

    def incident(
        number: int, job: str, node: str = "n1", at_fault: bool | None = True, age: float = 60
    ) -> IncidentRecord:
        verdict = Verdict(category="x", action="replace", why="", culprit_nodes=(node,), node_at_fault=at_fault)
        return IncidentRecord(
            uid=f"i{number}", job_uid=job, namespace="d", job_name=job, attempt_uid="a", verdict=verdict,
            opened_at=now - age,
        )  # fmt: skip

    several = [incident(1, "a"), incident(2, "a"), incident(3, "b")]
    assert set(lemons(several, clinic.policy, now)) == {"n1"}
    for few in (
        several[:2],
        [incident(n, "a") for n in range(5)],
        [replace(one, opened_at=now - 90000) for one in several],
        [incident(n, f"j{n}", at_fault=False) for n in range(5)],
    ):
        assert lemons(few, clinic.policy, now) == {}


def test_settings_that_are_wrong_say_what() -> None:
    assert from_environment({}).mode == "on"
    assert from_environment({"MUSTER_REPAIR": '{"mode": "dry-run", "breaker": 0.1}'}).breaker == 0.1
    for text in ('{"mode": "maybe"}', '{"braker": 1}', "{", '{"breaker": 2}'):
        with pytest.raises(ValueError, match="MUSTER_REPAIR"):
            from_environment({"MUSTER_REPAIR": text})


def test_a_port_that_comes_back_brings_its_node_back_without_a_boot(clinic: Clinic) -> None:
    port = Condition(kind="RdmaPort", reason="PortDown", message="down", severity="error", subject="mlx5_0")
    clinic.ill("n0", port)
    clinic.clock.advance(2.0)
    clinic.renew()
    clinic.reach("n0", P.TICKETED)
    clinic.ill("n0")
    clinic.reach("n0", P.RETURNED)
    assert not clinic.node("n0").cordoned


def test_what_others_left_on_a_device_resets_nothing(clinic: Clinic) -> None:
    left = Condition(kind="Leftover", reason="DeviceMemoryInUse", message="4 GiB", severity="error", device=1)
    clinic.ill("n0", left)
    for _ in range(10):
        clinic.step(1.0)
    assert clinic.repairs("n0") == []
