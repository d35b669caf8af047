"""From a kernel event to a condition: how bad, what mends it, which device."""

import pytest

from agents.devices.known import Known
from agents.health.book import Book
from agents.health.judging import device_of, judge
from agents.health.kernel_log import KernelLog
from muster.conditions import Condition, Remedy
from muster.inspection import FoundEvent

KNOWN = (
    Known(index=0, vendor="nvidia", type="h100", bus="00000000:3B:00.0"),
    Known(index=1, vendor="nvidia", type="h100", bus="0008:01:00.0"),
    Known(index=2, vendor="nvidia", type="h100", bus="0009:01:00.0"),
    Known(index=3, vendor="ascend", type="ascend-910b", bus="0000:c1:00.0"),
)
XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=77, name=python, {}"


def condition(line: str) -> Condition | None:
    events = KernelLog().feed(line)
    judged = judge(events[0], 1000.0, KNOWN) if events else None
    return judged.condition if judged else None


@pytest.mark.parametrize(
    ("line", "reason", "severity", "remedy", "device"),
    [
        (XID.format(79, "GPU has fallen off the bus."), "Xid79", "fatal", Remedy.REBOOT, 0),
        (XID.format(48, "DBE"), "Xid48", "fatal", Remedy.RESET, 0),
        (XID.format(63, "Row Remapper: New row marked"), "Xid63", "error", Remedy.RESET, 0),
        (XID.format(92, "High single-bit ECC error rate"), "Xid92", "error", Remedy.REPLACE, 0),
        (XID.format(31, "Ch 00000010, MMU Fault"), "Xid31", "warning", Remedy.NONE, 0),
        (XID.format(149, "NETIR_LINK_DOWN Nonfatal"), "Xid149", "warning", Remedy.NONE, 0),
        (XID.format(149, "NETIR_LINK_DOWN Fatal"), "Xid149", "fatal", Remedy.RESET, 0),
        ("EXT4-fs (sda1): Remounting filesystem read-only", "ReadOnly", "fatal", Remedy.REPLACE, None),
        ("Out of memory: Killed process 4242 (python) total-vm:1kB", "OomKill", "warning", Remedy.NONE, None),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s!", "SoftLockup", "warning", Remedy.REBOOT, None),
    ],
)
def test_a_line_becomes_a_condition(line: str, reason: str, severity: str, remedy: Remedy, device: int | None) -> None:
    found = condition(line)
    assert found is not None
    assert (found.reason, found.severity, found.device) == (reason, severity, device)
    if severity != "warning":
        assert found.remedy is remedy


@pytest.mark.parametrize("number", [43, 45])
def test_what_only_follows_from_something_else_is_no_condition(number: int) -> None:
    assert condition(XID.format(number, "")) is None


def test_a_device_is_known_by_domain_and_slot_whatever_zeros_stand_before() -> None:
    def named(device: str, code: str = "Xid 79") -> int | None:
        return device_of(FoundEvent(code=code, device=device), KNOWN)

    assert named("0000:3b:00") == 0
    assert named("3b:00.0") == 0
    assert named("0008:01:00") == 1
    assert named("0009:01:00") == 2
    assert named("0001:01:00") is None
    assert named("3", "ascend-0x40F84E00") == 3
    assert named("3", "soft-lockup") is None
    assert named("mlx5_0") is None


def test_what_may_happen_once_is_an_error_at_the_third_time_within_the_hour() -> None:
    book = Book()
    for at, severity in ((0.0, "warning"), (100.0, "warning"), (200.0, "error")):
        judged = judge(KernelLog().feed("watchdog: BUG: soft lockup - CPU#3 stuck for 22s!")[0], at, ())
        assert judged is not None
        book.say(judged)
        assert [one.severity for one in book.conditions()] == [severity]
    (held,) = book.conditions()
    assert (held.since, held.seen, held.count) == (0.0, 200.0, 3)
    book.expire(1e6)
    assert book.conditions() == (held,), "what blocks stays until somebody acts"


def test_a_warning_is_forgotten_after_an_hour_and_a_device_after_its_reset() -> None:
    book = Book()
    for line in (XID.format(31, "MMU Fault"), XID.format(48, "DBE")):
        judged = judge(KernelLog().feed(line)[0], 0.0, KNOWN)
        assert judged is not None
        book.say(judged)
    book.expire(3601.0)
    assert [one.reason for one in book.conditions()] == ["Xid48"]
    book.forget((1,))
    assert [one.reason for one in book.conditions()] == ["Xid48"]
    book.forget((0,))
    assert book.conditions() == ()
