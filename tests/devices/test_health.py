"""From what a node sees to what it says is wrong: the kernel's lines, the checks, and what is remembered of both."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.config import AgentConfig
from agents.devices import inventory
from agents.devices.known import Known
from agents.health import kernel_watch
from agents.health.book import Book
from agents.health.check import Check, Memory, Outcome, Scene, wrong
from agents.health.checks import devices, host, mounts, ports, site
from agents.health.kernel_watch import Line, Times, parse
from agents.health.monitor import Monitor
from agents.health.probe import run
from agents.runtime.children import Children
from muster import faults
from muster.clock import ManualClock
from muster.conditions import Condition, Remedy
from muster.evidence import Evidence
from muster.inspection import FoundDevice, FoundNic, Inspection
from muster.protocol import NodeTask

NOW = 1_700_000_000.0
KNOWN = (Known(index=0, vendor="nvidia", type="h100", bus="0000:3b:00.0"),)


def told(conditions: Any) -> list[tuple[str, str, int | None]]:
    return [(one.reason, one.severity, one.device) for one in conditions]


def scene(*found: FoundDevice, **more: Any) -> Scene:
    nics = more.pop("nics", [])
    return Scene(now=more.pop("now", NOW), found=Inspection(devices=list(found), nics=nics), **more)


def device(index: int = 0, **details: Any) -> FoundDevice:
    return FoundDevice(index=index, vendor="nvidia", memory_mib=81920, healthy=True, details=details)


# -- the kernel's lines --------------------------------------------------------------------------------


def test_a_record_of_the_kernel_has_its_own_time() -> None:
    line = parse("3,99,5000000,-;NVRM: Xid (PCI:0000:3b:00): 79", Times(now=NOW, since_boot=65.0))
    assert line == Line(NOW - 60.0, "NVRM: Xid (PCI:0000:3b:00): 79", "99")
    assert parse(" SUBSYSTEM=pci", Times(NOW, 65.0)) is None


def test_a_file_in_place_of_the_kernels_log_is_read_once_from_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("3,1,1000000,-;old\n")
    first = kernel_watch.File(path, None, times=lambda: Times(NOW, 10.0))
    assert first.cursor == str(path.stat().st_size), "known before anything came"
    assert list(first.lines()) == [], "what was there before anybody looked raises nothing"
    with path.open("a") as file:
        file.write("3,2,9000000,-;new\nhalf")
    lines = list(first.lines())
    assert [(one.at, one.text) for one in lines] == [(NOW - 1.0, "new")]
    with path.open("a") as file:
        file.write(" a line\n")
    again = kernel_watch.File(path, lines[-1].cursor, times=lambda: Times(NOW, 10.0))
    assert [one.text for one in again.lines()] == ["half a line"]
    assert list(again.lines()) == []


def test_a_follower_of_dmesg_skips_what_was_read_in_this_boot() -> None:
    ends: list[int] = []

    def start(command: tuple[str, ...], write: int) -> Callable[[], None]:
        assert command[1:] == ("--follow", "--raw")
        os.write(write, b"<3>[    4.000000] old\n<3>[    6.000000] new\n<3>[    7.5")
        return lambda: ends.append(1)

    def follow(cursor: str | None, fresh: bool) -> list[tuple[float, str]]:
        source = kernel_watch.Follower(
            cursor, fresh_boot=fresh, command=("dmesg",), start=start, times=lambda: Times(NOW, 10.0)
        )
        lines = [(one.at, one.text) for one in source.lines()]
        source.close()
        return lines

    assert follow("5.0", False) == [(NOW - 4.0, "new")]
    assert follow("5.0", True) == [(NOW - 6.0, "old"), (NOW - 4.0, "new")]
    assert follow(None, False) == []
    assert len(ends) == 3


def test_the_real_kernels_log_gives_each_line_once_and_no_old_one() -> None:
    def read(cursor: str | None, fresh: bool = False) -> tuple[list[int], str | None]:
        try:
            source = kernel_watch.Kmsg(cursor, fresh_boot=fresh)
        except OSError as error:
            pytest.skip(f"{error}")
        try:
            return [int(line.cursor) for line in source.lines()], source.cursor
        finally:
            source.close()

    every, _ = read(None, fresh=True)
    assert every == sorted(set(every))
    if not every:
        pytest.skip("the kernel has said nothing")
    new, cursor = read(None)
    assert new == [] or min(new) > every[-1], "what was there before anybody looked raises nothing"
    assert cursor is not None
    assert int(cursor) >= every[-1], "also when the agent ends before anything comes"
    later, _ = read(cursor)
    assert all(number > int(cursor) for number in later)


# -- checks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "seen", "wanted"),
    [
        (devices.recovery, device(recovery_action="GPU Reset"), [("GPUReset", "fatal", 0)]),
        (devices.recovery, device(recovery_action="Node Reboot"), [("NodeReboot", "fatal", 0)]),
        (devices.recovery, device(recovery_action="Drain P2P"), [("DrainP2P", "error", 0)]),
        (devices.recovery, device(recovery_action="None"), []),
        (devices.memory_errors, device(ecc_uncorr=2), [("EccUncorrected", "fatal", 0)]),
        (devices.memory_errors, device(ecc={"volatile_dram_uncorr": 1}), [("EccUncorrected", "fatal", 0)]),
        (devices.memory_errors, device(ecc={"aggregate_dram_uncorr": 9}), []),
        (devices.memory_errors, device(remap={"pending": True}), [("RowRemapPending", "error", 0)]),
        (devices.memory_errors, device(remap={"pending": True, "failure": True}), [("RowRemapFailed", "fatal", 0)]),
        (devices.links, device(inactive_links=1, link_count=18), [("LinkDown", "fatal", 0)]),
        (devices.links, device(fabric={"state": "Completed"}), []),
        (devices.count, device(), []),
    ],
)
def test_what_a_device_tells_becomes_a_condition(
    check: Callable[[Scene, Memory], list[Condition]], seen: FoundDevice, wanted: list[Any]
) -> None:
    assert told(check(scene(seen, known=KNOWN), {})) == wanted


def test_a_devices_own_port_is_not_the_devices_end() -> None:
    seen = FoundDevice(index=2, vendor="ascend", healthy=False, problems=["link down", "net health is Timeout"])
    assert told(devices.verdicts(scene(seen), {})) == [("PortDown", "error", 2)]
    seen.problems.append("health is Alarm")
    assert told(devices.verdicts(scene(seen), {})) == [("DeviceUnhealthy", "fatal", 2)]
    nic = FoundNic(name="npu2", state="DOWN", details={"device": 2})
    memory: Memory = {"npu2": {"seen_up": True}}
    assert ports.ports(scene(nics=[nic]), memory) == []


def test_a_device_that_is_gone_and_a_count_that_is_short() -> None:
    gone = devices.count(scene(known=KNOWN), {})
    assert [(one.reason, one.device, one.remedy) for one in gone] == [("DeviceMissing", 0, Remedy.REBOOT)]
    short = devices.count(scene(device(), known=KNOWN, expected=8), {})
    assert [(one.reason, one.device) for one in short] == [("DeviceCountShort", None)]


def test_what_lasts_only_a_moment_is_no_condition() -> None:
    slow = device(throttle_active=["hw_slowdown"], pcie={"width": 8, "width_max": 16})
    memory: Memory = {}
    rounds = [told(devices.speed(scene(slow), memory)) for _ in range(3)]
    assert rounds == [[], [("PcieNarrow", "error", 0)], [("ClocksThrottled", "warning", 0), ("PcieNarrow", "error", 0)]]
    assert devices.speed(scene(device()), memory) == []
    left: Memory = {}
    used = device(used_mib=4096, processes=[{"pid": 7}])
    assert devices.leftovers(scene(used, held=(0,)), left) == []
    assert devices.leftovers(scene(used), left) == []
    assert told(devices.leftovers(scene(used), left)) == [("DeviceMemoryInUse", "error", 0)]


def test_a_port_that_was_up_is_down_and_one_that_comes_and_goes_flaps() -> None:
    memory: Memory = {}

    def look(now: float, state: str, downed: int) -> list[tuple[str, str, int | None]]:
        nic = FoundNic(name="mlx5_0", state=state, details={"counters": {"link_downed": downed}})
        return told(ports.ports(scene(nics=[nic, FoundNic(name="unused", state="Down")], now=now), memory))

    assert look(0, "Active", 5) == []
    assert look(10, "Down", 6) == [("PortDown", "error", None)]
    assert look(20, "Active", 6) == [("PortLostLink", "warning", None)]
    assert look(100, "Active", 7) == [("PortFlapping", "error", None)]
    assert look(500, "Active", 7) == [("PortFlapping", "error", None)]
    assert look(900, "Active", 7) == []


def test_the_machine_itself(tmp_path: Path) -> None:
    def put(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    here = scene(sys=tmp_path, proc=tmp_path, folder=str(tmp_path))
    aer, edac, nvme, read_only, kills = Memory(), Memory(), Memory(), Memory(), Memory()
    put("bus/pci/devices/0000:3b:00.0/aer_dev_fatal", "TOTAL_ERR_FATAL 1\n")
    put("devices/system/edac/mc/mc0/ue_count", "0\n")
    put("class/nvme/nvme0/state", "live\n")
    put("self/mounts", "/dev/sda1 / ext4 rw,relatime 0 0\nproc /proc proc ro 0 0\n")
    put("vmstat", "nr_free_pages 1\noom_kill 3\n")
    checks = (
        (host.pcie_errors, aer), (host.memory_modules, edac), (host.nvme, nvme), (host.read_only, read_only),
        (host.out_of_memory, kills),
    )  # fmt: skip
    assert [told(check(here, memory)) for check, memory in checks] == [[]] * 5
    put("bus/pci/devices/0000:3b:00.0/aer_dev_fatal", "TOTAL_ERR_FATAL 2\n")
    put("devices/system/edac/mc/mc0/ue_count", "1\n")
    put("class/nvme/nvme0/state", "dead\n")
    put("self/mounts", "/dev/sda1 / ext4 ro,relatime 0 0\n")
    put("vmstat", "oom_kill 4\n")
    host.nvme(here, nvme)
    assert [told(check(here, memory)) for check, memory in checks] == [
        [("AerFatal", "fatal", None)],
        [("EdacUncorrected", "fatal", None)],
        [("NvmeNotLive", "error", None)],
        [("ReadOnlyRemount", "fatal", None)],
        [("OomKills", "warning", None)],
    ]
    assert told(host.judge_clock(5, worst_us=0, unsynchronised=True)) == [("ClockUnsynchronised", "info", None)]
    assert told(host.judge_clock(0, worst_us=3_000_000, unsynchronised=False)) == [("ClockSkew", "warning", None)]
    assert isinstance(host.clock(here, {}), list)


def test_processes_that_wait_in_the_kernel_at_every_look(tmp_path: Path) -> None:
    for pid, state in ((10, "D"), (11, "S")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (strange) name) {state} 1 1")
    (tmp_path / "10/wchan").write_text("rpc_wait")
    memory: Memory = {}
    rounds = [host.processes(scene(proc=tmp_path), memory) for _ in range(3)]
    assert [told(one) for one in rounds] == [[], [], [("StuckProcesses", "warning", None)]]
    assert "10 (a (strange) name in rpc_wait)" in rounds[2][0].message


def test_a_mount_that_hangs_is_left_alone_until_its_asker_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    hang = "import time, sys\nif sys.argv[1] == '/hangs': time.sleep(60)"
    monkeypatch.setattr(mounts, "_ASK", hang)
    memory: Memory = {}
    answers = mounts.ask(["/fine", "/hangs"], memory, within=1.0)
    assert answers["/fine"] == ""
    assert "does not answer within 1 s" in answers["/hangs"]
    memory["held"] = {"/hangs": os.getpid()}
    assert "hangs in it" in mounts.ask(["/hangs"], memory, within=0.1)["/hangs"]


def test_a_sites_own_checks(tmp_path: Path) -> None:
    def put(name: str, text: str, mode: int = 0o755) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(mode)

    put("fine.sh", "exit 0")
    put("licence-server.sh", "# muster: severity=error remedy=reboot kind=Licence\necho it is away; exit 1")
    put("slow.sh", "# muster: timeout=0.2\nsleep 30")
    put("broken.sh", "exit 7")
    put("open.sh", "exit 1", 0o777)
    put("not-a-check.txt", "exit 1", 0o644)
    found = {one.subject: one for one in site.site(scene(plugins=str(tmp_path)), {})}
    assert set(found) == {"licence-server.sh", "slow.sh", "broken.sh", "open.sh"}
    one = found["licence-server.sh"]
    assert (one.kind, one.reason, one.severity, one.remedy, one.message) == (
        "Licence", "LicenceServer", "error", Remedy.REBOOT, "it is away",
    )  # fmt: skip
    assert found["slow.sh"].reason == found["broken.sh"].reason == "SiteCheckFailed"
    assert "writable by everyone" in found["open.sh"].message


def test_a_check_that_hangs_or_fails_spoils_no_other() -> None:
    def hang(_scene: Scene, _memory: Memory) -> list[Condition]:
        asyncio.run(asyncio.sleep(30))
        return []

    def fail(_scene: Scene, memory: Memory) -> list[Condition]:
        memory["half"] = True
        raise ValueError("no")

    def fine(_scene: Scene, memory: Memory) -> list[Condition]:
        memory["seen"] = 1
        return [wrong("K", "R", "m")]

    checks = [Check("disk-space", 1, 0.2, hang), Check("clock", 1, 5, fail), Check("nvme", 1, 5, fine)]
    outcomes = run(checks, scene(), {"clock": {"before": 1}})
    assert "did not end within" in outcomes[0].trouble
    assert outcomes[1] == Outcome(check="clock", memory={"before": 1}, trouble="ValueError: no")
    assert (told(outcomes[2].conditions), outcomes[2].memory) == ([("R", "warning", None)], {"seen": 1})


def test_what_a_check_sees_only_once_is_held_for_a_while() -> None:
    book = Book()
    assert book.found("c", [wrong("K", "R", "m")], NOW, hold=60) != []
    assert book.found("c", [], NOW + 50, hold=60) == []
    assert told(book.conditions()) == [("R", "warning", None)]
    book.found("c", [], NOW + 61, hold=60)
    assert book.conditions() == ()


# -- the monitor ----------------------------------------------------------------------------------------


class Node:
    """The monitor of a node with virtual devices, in a folder that outlives it."""

    def __init__(self, folder: Path, boot: str = "boot-1") -> None:
        self.config = AgentConfig(
            server="http://127.0.0.1:1", token_file=folder / "t", node="n", directory=folder, virtual_devices="h100:4"
        )
        self.evidence: list[Evidence] = []
        self.held: dict[int, str] = {}
        have = inventory.take(self.config)
        self.clock = ManualClock()
        self.monitor = Monitor(
            self.config, have, boot, clock=self.clock, children=Children(), held=lambda: self.held,
            witness=self.evidence.append, changed=lambda: None,
        )  # fmt: skip

    def source(self) -> kernel_watch.File:
        return kernel_watch.File(self.config.directory / faults.KERNEL_LOG, self.monitor._kept.cursor)

    async def look(self) -> list[tuple[str, str, int | None]]:
        self.clock.advance(2.0)
        await self.monitor.check_due()
        return told(self.monitor.conditions())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def test_a_kernel_line_is_a_condition_evidence_and_a_device_less_and_only_once(node: Node) -> None:
    folder, monitor = node.config.directory, node.monitor
    monitor.greeted()
    source = node.source()
    faults.say(folder, f"NVRM: Xid (PCI:{faults.virtual_bus(2)[:-2]}): 79, GPU has fallen off the bus.")
    monitor._take(source)
    assert told(monitor.conditions()) == [("Xid79", "fatal", 2)]
    assert [one.healthy for one in monitor.inventory().devices] == [True, True, False, True]
    assert [(one.device, one.data["code"]) for one in node.evidence] == [(2, "Xid 79")]
    assert monitor.pending()
    have, conditions, results = monitor.news()
    assert have is not None
    assert conditions is not None
    monitor.told(have, conditions, results)
    assert not monitor.pending()
    after = Node(folder)
    after.monitor._take(after.source())
    assert told(after.monitor.conditions()) == [("Xid79", "fatal", 2)]
    assert after.evidence == [], "a line is read once, over the agent's end"
    rebooted = Node(folder, boot="boot-2")
    assert rebooted.monitor.conditions() == (), "a new boot forgets what the kernel of the last one said"


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("missing", ("DeviceMissing", "fatal", 1)),
        ("ecc", ("EccUncorrected", "fatal", 1)),
        ("remap-pending", ("RowRemapPending", "error", 1)),
        ("remap-failed", ("RowRemapFailed", "fatal", 1)),
        ("link-down", ("LinkDown", "fatal", 1)),
        ("recovery", ("GPUReset", "fatal", 1)),
        ("throttled", ("ClocksThrottled", "warning", 1)),
        ("leftover", ("DeviceMemoryInUse", "error", 1)),
    ],
)
async def test_a_fault_of_a_virtual_device_is_the_right_condition_and_a_reset_ends_it(
    node: Node, kind: str, wanted: tuple[str, str, int]
) -> None:
    assert await node.look() == []
    faults.write(node.config.directory, faults.Faults(devices={"1": [kind]}))
    for _ in range(3):
        found = await node.look()
    assert found == [wanted]
    node.held[1] = "worker"
    assert await node.monitor.reset((1,)) == "device 1 is held by a worker"
    node.held.clear()
    assert await node.monitor.reset((1,)) == ""
    assert await node.look() == []


async def test_ports_of_virtual_nodes(node: Node) -> None:
    for kind, wanted in (("port-down", "PortDown"), ("port-flapping", "PortFlapping")):
        faults.write(node.config.directory, faults.Faults(ports={"mlx5_0": kind}))
        reasons = set[str]()
        for _ in range(6):
            reasons |= {reason for reason, _, _ in await node.look()}
        assert wanted in reasons
        faults.write(node.config.directory, faults.Faults())
        await node.look()


async def test_a_task_is_done_once_whatever_happens_to_the_agent(node: Node) -> None:
    folder = node.config.directory
    faults.write(folder, faults.Faults(devices={"1": ["ecc"]}))
    await node.look()
    reset, check = NodeTask(uid="t1", do="reset", devices=(1,)), NodeTask(uid="t2", do="check")
    tasks = node.monitor.tasks
    node.monitor.do((reset, check))
    running = asyncio.create_task(tasks.run())
    while len(tasks.untold()) < 2:
        await asyncio.sleep(0.01)
    running.cancel()
    assert [(one.uid, one.ok) for one in tasks.untold()] == [("t1", True), ("t2", True)]
    again = Node(folder)
    again.monitor.do((reset, check))
    assert [(one.uid, one.ok) for one in again.monitor.tasks.untold()] == [("t1", True), ("t2", True)]
    again.monitor.do(())
    assert again.monitor.tasks.untold() == ()


async def test_a_task_in_whose_middle_the_agent_died_is_not_begun_again(node: Node) -> None:
    from muster.protocol import TaskResult

    node.monitor.keep_results({"t1": TaskResult(uid="t1", ok=False)})
    after = Node(node.config.directory)
    after.monitor.do((NodeTask(uid="t1", do="reset", devices=(0,)),))
    (one,) = after.monitor.tasks.untold()
    assert (one.ok, one.message) == (False, "the agent ended in the middle of it")


async def test_a_real_node_is_looked_at_by_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices by their tool, checks in their periods, a device that falls out, a tool that hangs: the agent goes on."""
    tool = tmp_path / "bin/nvidia-smi"
    tool.parent.mkdir()

    def gpus(count: int) -> None:
        rows = "".join(
            f"{n}, NVIDIA H100 80GB HBM3, GPU-{n}, 00000000:{n + 16:02X}:00.0, 81559 MiB\\n" for n in range(count)
        )
        head = "index, name, uuid, pci.bus_id, memory.total [MiB]\\n"
        tool.write_text(f"#!/bin/sh\n[ \"$1\" = topo ] || printf '{head}{rows}'\n")
        tool.chmod(0o755)

    gpus(2)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "weather.sh").write_text("#!/bin/sh\necho it rains; exit 1\n")
    (plugins / "weather.sh").chmod(0o755)
    config = AgentConfig(
        server="http://127.0.0.1:1", token_file=tmp_path / "t", node="n", directory=tmp_path, plugins=str(plugins)
    )
    clock, children = ManualClock(), Children()
    children.start()

    def monitor() -> Monitor:
        return Monitor(
            config, inventory.take(config), "boot-1", clock=clock, children=children, held=dict,
            witness=lambda _sight: None, changed=lambda: None,
        )  # fmt: skip

    first = monitor()
    try:
        await first.first_look()
        assert [(one.type, one.uuid, one.healthy) for one in first.inventory().devices] == [
            ("h100", "GPU-0", True),
            ("h100", "GPU-1", True),
        ]
        await first.check_due()
        assert ("Weather", "warning", None) in told(first.conditions())
        gpus(1)
        clock.advance(3600)
        await first.check_due()
        assert ("DeviceMissing", "fatal", 1) in told(first.conditions())
        assert [one.healthy for one in first.inventory().devices] == [True, False]
    finally:
        first.close()
    again = monitor()
    assert [one.uuid for one in again.inventory().devices] == ["GPU-0", "GPU-1"], "until it has looked, as before"
    again.close()
    asyncio.get_running_loop().remove_signal_handler(17)


async def test_a_look_that_hangs_is_left_behind_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.health.prober.command", lambda *_: ("/bin/sleep", "60"))
    monkeypatch.setattr("agents.health.monitor.PATIENCE", 0.3)
    config = AgentConfig(server="http://127.0.0.1:1", token_file=tmp_path / "t", node="n", directory=tmp_path)
    children = Children()
    children.start()
    monitor = Monitor(
        config, inventory.take(config), "boot-1", clock=ManualClock(), children=children, held=dict,
        witness=lambda _sight: None, changed=lambda: None,
    )  # fmt: skip
    await monitor.check_due()
    assert told(monitor.conditions()) == [("ChecksHang", "warning", None)]
    monitor.close()
    asyncio.get_running_loop().remove_signal_handler(17)


def test_a_clock_that_differs_by_more_than_the_way_of_the_answer_is_told(node: Node) -> None:
    now = node.clock.now()
    node.monitor.heard_time(now - 2.0, on_the_way=1.0)
    assert node.monitor.conditions() == (), "it may have been on its way for so long"
    node.monitor.heard_time(now - 5.0, on_the_way=1.0)
    assert told(node.monitor.conditions()) == [("ClockSkew", "warning", None)]
    node.monitor.heard_time(now, on_the_way=0.1)
    assert node.monitor.conditions() == ()


def test_the_journals_entries_have_their_own_time_and_cursor() -> None:
    def start(command: tuple[str, ...], write: int) -> Callable[[], None]:
        assert command[1:] == ("-k", "-f", "-o", "json", "--after-cursor=s=1;i=2")
        entry = b'{"__CURSOR":"s=1;i=3","__REALTIME_TIMESTAMP":"1700000000500000","MESSAGE":"NVRM: Xid"}\n'
        os.write(
            write, b"not json\n" + entry + b'{"MESSAGE":[104,105],"__CURSOR":"s=1;i=4","__REALTIME_TIMESTAMP":"1"}\n'
        )
        return lambda: None

    source = kernel_watch.Follower("s=1;i=2", fresh_boot=False, command=("/bin/journalctl",), start=start)
    assert list(source.lines()) == [Line(NOW + 0.5, "NVRM: Xid", "s=1;i=3"), Line(0.000001, "hi", "s=1;i=4")]
    source.close()


async def test_an_agent_that_ends_before_any_line_came_reads_no_old_one_later(node: Node) -> None:
    log = node.config.directory / faults.KERNEL_LOG
    faults.say(node.config.directory, f"NVRM: Xid (PCI:{faults.virtual_bus(1)[:-2]}): 48, old")
    node.monitor._take(node.source())
    after = Node(node.config.directory)
    after.monitor._take(after.source())
    assert after.monitor.conditions() == ()
    assert log.stat().st_size == int(after.monitor._kept.cursor or 0)
