"""This machine, with stand-ins for what is not in it: a library, tools on PATH, a made-up /sys."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agents.devices import amd_kernel, live, nvml, sysfs
from agents.devices.inventory import compose, trimmed
from agents.devices.known import Known, settle
from agents.devices.vendor import Vendor, holders
from agents.devices.vendors import AMD, ASCEND, BY_NAME, NVIDIA
from muster.inspection import FoundDevice, Inspection
from muster.protocol import Inventory

GIB = 2**30
HERE = Inventory(address="127.0.0.1", host="h", cpu_milli=1000, memory=GIB)


class Refused(Exception):
    """What the library raises for a question that it does not answer."""


class Library:
    """A stand-in for pynvml: eight H100, of which some are broken. Calls that it lacks are absent."""

    def __init__(self, broken: dict[int, dict[str, Any]] | None = None) -> None:
        self.broken = broken or {}

    def _of(self, handle: int, name: str, fine: Any) -> Any:
        return self.broken.get(handle, {}).get(name, fine)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 8

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"550.54.15"

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if self._of(index, "lost", False):
            raise Refused("GPU is lost")
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return str(self._of(handle, "name", "NVIDIA H100 80GB HBM3"))

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}" if isinstance(handle, int) else f"MIG-{handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(total=80 * GIB, used=GIB // 4)

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(busId=f"00000000:{0x10 + handle:02X}:00.0".encode())

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=77, usedGpuMemory=GIB)] if handle == 1 else []

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[int]) -> list[Any]:  # noqa: N802
        action = self._of(handle, "recovery", 0)
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=action))]

    def nvmlDeviceGetRemappedRows(self, handle: int) -> list[int]:  # noqa: N802
        return list(self._of(handle, "rows", [0, 0, 0, 0]))

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, span: int) -> int:  # noqa: N802
        return int(self._of(handle, "ecc", 0)) if kind == 1 else 0

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:  # noqa: N802
        if link >= 18:
            raise Refused("no such link")
        return 0 if link in self._of(handle, "down", ()) else 1

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:  # noqa: N802
        return int(self._of(handle, "throttle", 0))

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:  # noqa: N802
        return [1, 1] if self._of(handle, "parts", 0) else [0, 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: int) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, number: int) -> str:  # noqa: N802
        if number >= self._of(handle, "parts", 0):
            raise Refused("not found")
        return f"{handle}-{number}"


def test_the_library_tells_devices_links_counters_health_and_parts() -> None:
    library = Library(
        {
            2: {"ecc": 4},
            3: {"rows": [0, 1, 1, 0]},
            4: {"down": (5,), "recovery": 2},
            5: {"lost": True},
            6: {"parts": 2},
            7: {"throttle": 0x48},
        }
    )
    found = nvml.read(library)
    by = {device.index: device for device in found.devices}
    assert [device.healthy for device in found.devices] == [True, True, False, True, False, False, True, True]
    assert (by[0].model, by[0].memory_mib, by[0].bus) == ("NVIDIA H100 80GB HBM3", 81920, "00000000:10:00.0")
    assert by[1].details["processes"] == [{"pid": 77, "used_mib": 1024}]
    assert by[3].details["remap"] == {"corr": 0, "uncorr": 1, "pending": True, "failure": False}
    assert (by[4].details["inactive_links"], by[4].details["recovery_action"]) == (1, "Node Reboot")
    assert [part["uuid"] for part in by[6].details["mig_devices"]] == ["MIG-6-0", "MIG-6-1"]
    assert by[7].details["throttle_active"] == ["hw_slowdown", "hw_thermal_slowdown"]
    assert not found.complete
    assert "GPU is lost" in found.problems[0]


def script(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def smi_xml(count: int) -> str:
    gpus = "".join(
        f'<gpu id="00000000:{0x10 + n:02X}:00.0"><product_name>NVIDIA H100 80GB HBM3</product_name>'
        f"<uuid>GPU-{n}</uuid><minor_number>{n}</minor_number>"
        "<fb_memory_usage><total>81559 MiB</total><used>0 MiB</used></fb_memory_usage></gpu>"
        for n in range(count)
    )
    head = f"<driver_version>550.54.15</driver_version><attached_gpus>{count}</attached_gpus>"
    return f"<?xml version='1.0' ?>\n<nvidia_smi_log>{head}{gpus}</nvidia_smi_log>"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_eight_devices_by_their_tool_in_under_a_second(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "q.xml").write_text(smi_xml(8))
    script(tools, "nvidia-smi", f'case "$1" in -q) cat {tmp_path}/q.xml;; *) exit 6;; esac')
    sys_ = tmp_path / "sys"
    for n in range(8):
        pci(sys_, f"pci0000:{n:02x}/0000:{n:02x}:01.0", f"0000:{0x10 + n:02x}:00.0", "0x10de", "0x030200", numa=n // 4)
        port(sys_, f"mlx5_{n}", f"pci0000:{n:02x}/0000:{n:02x}:01.0", f"0000:{0x50 + n:02x}:00.0", numa=n // 4)
    began = time.process_time()
    found = live.inspect(5.0, sys_=sys_, root=tmp_path)
    assert time.process_time() - began < 1.0
    assert [(d.index, d.model, d.numa, d.nearest_nics) for d in found.devices] == [
        (n, "NVIDIA H100 80GB HBM3", n // 4, [f"mlx5_{n}"]) for n in range(8)
    ]
    assert [nic.rail for nic in found.nics] == list(range(8))


def test_a_hung_tool_and_a_missing_driver_are_told_and_nothing_else_is_lost(tools: Path, tmp_path: Path) -> None:
    script(tools, "nvidia-smi", "sleep 60")
    script(tools, "npu-smi", "echo 'DrvMngGetConsoleLogLevel failed.'; exit 1")
    pci(tmp_path / "sys", "pci0000:00/0000:00:01.0", "0000:10:00.0", "0x1002", "0x038000")
    began = time.monotonic()
    found = live.inspect(0.5, sys_=tmp_path / "sys", root=tmp_path)
    assert time.monotonic() - began < 20
    told = "\n".join(found.problems)
    assert not found.complete
    assert not found.devices
    assert "nvidia-smi -q -x: hung for 0.5 s" in told
    assert "amd: on PCIe and told by no tool" in told


def pci(sys_: Path, above: str, address: str, vendor: str, kind: str, numa: int = 0) -> Path:
    """A device below a bridge, and its link in bus/pci/devices."""
    folder = sys_ / "devices" / above / address
    folder.mkdir(parents=True)
    for name, text in (("vendor", vendor), ("class", kind), ("numa_node", str(numa)), ("local_cpulist", "0-7")):
        (folder / name).write_text(text + "\n")
    link = sys_ / "bus/pci/devices" / address
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return folder


def port(sys_: Path, name: str, above: str, address: str, *, numa: int = 0, state: str = "4: ACTIVE") -> None:
    """An RDMA device with one port."""
    device = pci(sys_, above, address, "0x15b3", "0x020700", numa)
    folder = sys_ / "class/infiniband" / name
    (folder / "ports/1/counters").mkdir(parents=True)
    for file, text in (("state", state), ("rate", "400 Gb/sec (4X NDR)"), ("link_layer", "InfiniBand")):
        (folder / "ports/1" / file).write_text(text + "\n")
    (folder / "ports/1/counters/link_downed").write_text("3\n")
    (folder / "device").symlink_to(device)


def test_the_nearest_nic_hangs_below_the_same_switch_else_on_the_same_numa_node(tmp_path: Path) -> None:
    switch = "pci0000:10/0000:10:01.0/0000:11:00.0"
    pci(tmp_path, f"{switch}/0000:12:00.0", "0000:20:00.0", "0x10de", "0x030200", numa=0)
    pci(tmp_path, "pci0000:80/0000:80:01.0", "0000:90:00.0", "0x10de", "0x030200", numa=1)
    pci(tmp_path, "pci0000:a0/0000:a0:01.0", "0000:a1:00.0", "0x10de", "0x030200", numa=7)
    port(tmp_path, "mlx5_0", f"{switch}/0000:12:01.0", "0000:21:00.0", numa=0)
    port(tmp_path, "mlx5_1", "pci0000:10/0000:10:02.0", "0000:22:00.0", numa=0)
    port(tmp_path, "mlx5_2", "pci0000:c0/0000:c0:01.0", "0000:c1:00.0", numa=1)
    found = Inspection(nics=sysfs.nics(tmp_path))
    for index, bus in enumerate(("00000000:20:00.0", "00000000:90:00.0", "00000000:A1:00.0")):
        found.devices.append(FoundDevice(index=index, bus=bus, numa=(0, 1, 7)[index]))
    live.nearness.place(found, tmp_path)
    assert [device.nearest_nics for device in found.devices] == [["mlx5_0"], ["mlx5_2"], []]
    assert [(nic.name, nic.rail) for nic in found.nics] == [("mlx5_0", 0), ("mlx5_1", None), ("mlx5_2", 1)]
    assert found.nics[0].details["counters"] == {"link_downed": 3}


def test_amd_without_a_tool_is_read_from_the_kernel(tmp_path: Path) -> None:
    for n in range(2):
        card = pci(tmp_path, f"pci0000:{n:02x}/0000:{n:02x}:01.0", f"0000:{0x30 + n:02x}:00.0", "0x1002", "0x038000", n)
        facts = {"mem_info_vram_total": 192 * GIB, "mem_info_vram_used": GIB, "unique_id": f"{n:016x}",
                 "product_name": "AMD Instinct MI300X", "current_link_width": 16, "max_link_width": 16}  # fmt: skip
        for name, value in facts.items():
            (card / name).write_text(f"{value}\n")
        (card / "ras").mkdir()
        (card / "ras/umc_err_count").write_text(f"ue: {n}\nce: 0\n")
        (tmp_path / f"class/drm/card{n}").mkdir(parents=True)
        (tmp_path / f"class/drm/card{n}/device").symlink_to(card)
        node = tmp_path / f"class/kfd/kfd/topology/nodes/{n + 2}"
        (node / "io_links/0").mkdir(parents=True)
        (node / "properties").write_text(f"simd_count 1216\nlocation_id {(0x30 + n) << 8}\ndomain 0\n")
        (node / "io_links/0/properties").write_text(f"type 11\nnode_from {n + 2}\nnode_to {3 - n}\n")
        (node / "name").write_text("gfx942\n")
    found = amd_kernel.read_kernel(tmp_path)
    assert [(d.index, d.model, d.memory_mib, d.bus, d.numa, d.healthy) for d in found.devices] == [
        (0, "AMD Instinct MI300X", 196608, "0000:30:00.0", 0, True),
        (1, "AMD Instinct MI300X", 196608, "0000:31:00.0", 1, False),
    ]
    assert found.groups == [[0, 1]]
    assert found.devices[0].details["gfx"] == "gfx942"


def test_ascend_ports_are_asked_one_by_one_and_belong_to_their_device(tools: Path, tmp_path: Path) -> None:
    table = (Path(__file__).parent / "fixtures/ascend_npu_smi.txt").read_text()
    (tmp_path / "npu.txt").write_text(table)
    script(tools, "npu-smi", f'[ "$#" = 1 ] && cat {tmp_path}/npu.txt')
    answers = 'case "$3" in -ip) echo "ipaddr:10.0.$2.1"; echo "netmask:255.255.255.0";; '
    script(
        tools, "hccn_tool", answers + '-link) [ $2 = 9 ] && echo "link status: DOWN" || echo "link status: UP";; esac'
    )
    found = live.inspect(5.0, vendors=(ASCEND,), sys_=tmp_path, root=tmp_path)
    assert [(d.index, d.details["ip"], d.details["link"]) for d in found.devices] == [
        (8, "10.0.8.1", "UP"),
        (9, "10.0.9.1", "DOWN"),
    ]
    assert [(nic.name, nic.state) for nic in found.nics] == [("npu8", "UP"), ("npu9", "DOWN")]
    assert found.devices[1].healthy is False


def test_devices_keep_their_numbers_when_one_falls_out_and_a_replaced_one_takes_its_place() -> None:
    def saw(*uuids: str) -> Inspection:
        found = Inspection()
        for index, uuid in enumerate(uuids):
            bus = f"0000:{int(uuid[-1]) + 16:02x}:00.0"
            found.devices.append(
                FoundDevice(
                    index=index, vendor="nvidia", model="NVIDIA A100-SXM4-80GB", bus=bus, details={"uuid": uuid}
                )
            )
        return found

    known = settle(saw("a0", "a1", "a2"), ())
    assert [one.type for one in known] == ["a100"] * 3
    short = saw("a0", "a2")
    assert settle(short, known) == known
    assert [device.index for device in short.devices] == [0, 2]
    have = compose(HERE, short, known, (), False)
    assert [(one.index, one.healthy, one.problems) for one in have.devices] == [
        (0, True, ()), (1, False, ("DeviceMissing",)), (2, True, ()),
    ]  # fmt: skip
    new = saw("a0", "b1", "a2")
    assert [(one.index, one.uuid) for one in settle(new, known)] == [(0, "a0"), (1, "b1"), (2, "a2")]


def test_a_model_that_nobody_knows_is_offered_as_unknown_and_told() -> None:
    found = Inspection()
    found.devices.append(FoundDevice(index=0, vendor="nvidia", model="NVIDIA X999"))
    have = compose(HERE, found, settle(found, ()), (), False)
    assert [one.type for one in have.devices] == ["unknown"]
    assert have.problems == ("unknown model 'NVIDIA X999': no job can ask for it",)


def test_who_has_a_device_open_uses_it_where_no_tool_tells(tmp_path: Path) -> None:
    for pid, target in ((10, "/dev/cambricon_dev1"), (11, "/dev/cambricon_ctl"), (12, "/dev/null")):
        (tmp_path / f"{pid}/fd").mkdir(parents=True)
        (tmp_path / f"{pid}/fd/3").symlink_to(target)
    assert holders(BY_NAME["cambricon"], [FoundDevice(index=0)], tmp_path) == {0: [], 1: [10]}


@pytest.mark.parametrize(
    ("vendor", "wanted"),
    [
        (NVIDIA, ("nvidia-smi", "--gpu-reset", "-i", "GPU-5")),
        (AMD, ("amd-smi", "reset", "--gpureset", "--gpu", "5")),
        (ASCEND, ("npu-smi", "set", "-t", "reset", "-m", "1", "-i", "2", "-c", "1")),
        (Vendor(name="other"), None),
    ],
)
def test_a_reset_names_the_device_as_its_tool_does(vendor: Vendor, wanted: tuple[str, ...] | None) -> None:
    device = Known(index=5, vendor=vendor.name, type="t", uuid="GPU-5", card=2, chip=1)
    assert vendor.reset_command(device) == wanted


def test_who_expects_fewer_devices_forgets_those_that_are_gone() -> None:
    known = tuple(Known(index=n, vendor="nvidia", type="h100") for n in range(4))
    assert [one.index for one in trimmed(known, 3, {0, 2, 3})] == [0, 2, 3]
    assert trimmed(known, None, {0}) == known
    assert [one.index for one in trimmed(known, 1, {0, 1, 2})] == [0, 1, 2], "what is there is there"
    assert [one.index for one in trimmed(known, 2, ())] == [0, 1]
