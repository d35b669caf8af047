"""Proof from the kernel or a device beats what ranks printed, when it is near and not the program's own doing."""

import pytest

from muster.evidence import Evidence, Source
from tests.makers import NOW
from tests.recovery.case import Case
from tests.recovery.logs import lost_peer

OFF_BUS = "NVRM: Xid (PCI:0000:3b:00): 79, pid=77, name=python, GPU has fallen off the bus."


def failed() -> Case:
    """Rank 0 printed a user's error first; rank 1 lost its peer."""
    case = (
        Case().ends(0, code=1).log(0, "Traceback (most recent call last):\nRuntimeError: CUDA error: unknown error\n")
    )
    return case.ends(1, code=1, at=NOW + 1).log(1, lost_peer(1))


def sight(case: Case, at: float, code: str, severity: str = "fatal", text: str = OFF_BUS, **more) -> Case:
    fields = {"source": Source.KERNEL, "node": "n1", "device": 3, "data": {"code": code, "severity": severity}, **more}
    case.evidence.append(Evidence(at=at, text=text, **fields))
    return case


def test_a_gpu_off_the_bus_of_the_other_node_is_the_cause_and_its_node_leaves() -> None:
    verdict = sight(failed(), NOW - 2, "Xid 79").decide()
    assert (verdict.action, verdict.culprit_nodes, verdict.node_at_fault) == ("replace", ("n1",), True)
    assert verdict.category == "gpu_fallen_off_bus"
    assert verdict.certainty == "confirmed"
    assert verdict.decided_by[0] == OFF_BUS


def test_a_devices_own_counter_is_proof_too() -> None:
    case = sight(failed(), NOW, "EccUncorrected", text="3 uncorrected memory errors", source=Source.DEVICE)
    assert (case.decide().category, case.decide().culprit_nodes) == ("device_fault", ("n1",))


@pytest.mark.parametrize("number", [13, 31, 43, 45, 94])
def test_what_programs_cause_is_no_proof_against_the_node(number: int) -> None:
    verdict = sight(failed(), NOW, f"Xid {number}", "error", text=f"NVRM: Xid (PCI:0000:3b:00): {number}, x").decide()
    assert verdict.node_at_fault is not True


@pytest.mark.parametrize("at", [NOW - 601, NOW + 301])
def test_what_is_far_from_the_failure_did_not_cause_it(at: float) -> None:
    assert sight(failed(), at, "Xid 79").decide().node_at_fault is not True


def test_the_earliest_sight_wins_and_mere_warnings_do_not_count() -> None:
    case = sight(failed(), NOW + 5, "Xid 79", node="n0")
    sight(case, NOW - 5, "Xid 48", text="NVRM: Xid (PCI:0000:3b:00): 48, DBE")
    sight(case, NOW - 9, "nfs-not-responding", "warning", text="nfs: server not responding", device=None)
    assert case.decide().culprit_nodes == ("n1",)
    assert case.decide().category == "gpu_ecc_uncorrectable"


def test_a_success_and_a_kill_for_want_of_memory_stay_what_they_are() -> None:
    done = sight(Case(), NOW, "Xid 79")
    assert done.decide().category == "success"
    killed = sight(Case().ends(0, signal=9, oom=True), NOW, "soft-lockup", text="soft lockup", device=None)
    assert killed.decide().category == "host_oom"


def test_the_same_device_twice_does_not_end_the_job_as_the_programs_own_fault() -> None:
    first = sight(failed(), NOW, "Xid 79").decide()
    case = sight(failed(), NOW, "Xid 79")
    for _ in range(3):
        case.before(first)
    assert case.decide().action == "replace"


def test_what_many_nodes_have_at_once_is_the_fault_of_none() -> None:
    case = failed()
    for node in ("n0", "n1", "n2"):
        sight(case, NOW, "PortDown", "error", text="port mlx5_0 is Down", device=None, node=node, source=Source.DEVICE)
    verdict = case.decide()
    assert (verdict.category, verdict.action, verdict.node_at_fault) == ("shared_incident", "restart", False)
    assert verdict.culprit_nodes == ()


def test_a_mount_that_does_not_answer_is_its_servers() -> None:
    case = sight(failed(), NOW, "StaleMount", "error", text="/ckpt: Stale file handle", device=None)
    assert case.decide().node_at_fault is not True
