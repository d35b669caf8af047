"""What readers make of small recorded outputs of our own, whole and broken."""

import importlib
import random
import sys
from pathlib import Path

import pytest

from agents.devices import tool
from agents.devices.captures import KINDS, read_capture
from agents.health.kernel_log import KernelLog, read
from agents.health.xids import judge, judge_switch
from agents.inspecting import main
from muster.fabric.capture import import_from
from muster.fabric.hostlist import expand
from muster.inspection import Inspection
from muster.plaintext import clean

FIXTURES = Path(__file__).parent / "fixtures"
RECORDED = {path.stem: path.read_bytes() for path in sorted(FIXTURES.iterdir())}


def test_a_gpu_with_uncorrected_errors_is_not_healthy() -> None:
    found = read_capture("nvidia_smi", RECORDED["nvidia_smi"])
    assert found.complete
    assert [(d.index, d.memory_mib, d.bus, d.healthy) for d in found.devices] == [
        (0, 81559, "00000000:1B:00.0", True),
        (1, 81559, "00000000:43:00.0", False),
    ]


def test_the_nearest_nics_carry_the_names_of_the_legend() -> None:
    found = read_capture("nvidia_topo", RECORDED["nvidia_topo"])
    assert found.complete
    assert [(d.nearest_nics, d.numa, d.cpus, d.group) for d in found.devices] == [
        (["mlx5_2"], 0, "0-31", 0),
        (["mlx5_7"], 1, "32-63", 0),
    ]
    assert found.groups == [[0, 1]]


def test_two_dies_of_a_card_are_two_devices_by_their_own_numbers() -> None:
    found = read_capture("ascend_npu_smi", RECORDED["ascend_npu_smi"])
    assert found.complete, found.problems
    assert [(d.index, d.details["npu_id"], d.memory_mib, d.healthy) for d in found.devices] == [
        (8, 4, 65536, True),
        (9, 4, 65536, False),
    ]
    assert found.devices[1].details["processes"] == [{"pid": 77, "name": "python", "used_mib": 120}]


def test_a_port_that_is_down_says_why() -> None:
    found = read_capture("rdma", RECORDED["rdma"])
    assert [(n.name, n.state, n.rate_gbps) for n in found.nics] == [("mlx5_0", "Active", 400), ("mlx5_1", "Down", 10)]
    assert found.problems == ["mlx5_1: no cable or no peer"]


@pytest.mark.parametrize("kind", RECORDED)
def test_a_cut_output_never_invents_and_a_shorter_list_is_told(kind: str) -> None:
    text = RECORDED[kind].decode()
    reader = importlib.import_module(KINDS[kind]).read
    whole: Inspection = reader(text)
    known = {(d.index, d.bus) for d in whole.devices}
    for at in range(0, len(text), 7):
        part: Inspection = reader(text[:at])
        assert {(d.index, d.bus) for d in part.devices} <= known | {(d.index, None) for d in whole.devices}, at
        if kind != "rdma":  # a list of adapters tells nowhere how long it is
            assert len(part.devices) == len(whole.devices) or not part.complete, at


@pytest.mark.parametrize("kind", RECORDED)
def test_encodings_colours_and_line_ends_do_not_matter(kind: str) -> None:
    raw = RECORDED[kind]
    want = read_capture(kind, raw)
    for other in (
        raw.replace(b"\n", b"\r\n"),
        raw.decode().encode("utf-16"),
        b"\n".join(b"\x1b[32m" + line + b"\x1b[0m" for line in raw.split(b"\n")),
        raw.replace(b" ", b"\x00 ", 3),
    ):
        assert read_capture(kind, other) == want


@pytest.mark.parametrize("kind", KINDS)
def test_junk_is_no_device_and_is_told(kind: str) -> None:
    noise = random.Random(kind)
    for junk in (
        noise.randbytes(200_000),
        b"|\n" * 100_000,
        b"a" * 300_000,
        b"",
        b"{" * 5000,
        b"<nvidia_smi_log>" * 50,
    ):
        found = read_capture(kind, junk)
        assert not found.devices
        assert not found.nics
        assert not found.complete
        assert found.problems


@pytest.mark.parametrize("kind", RECORDED)
def test_wrapped_and_shuffled_lines_make_no_more_devices(kind: str) -> None:
    text = RECORDED[kind].decode()
    reader = importlib.import_module(KINDS[kind]).read
    most = len(reader(text).devices)
    lines = text.split("\n")
    wrapped = "\n".join(line[i : i + 40] for line in lines for i in range(0, max(1, len(line)), 40))
    assert len(reader(wrapped).devices) <= most
    for seed in range(20):
        assert len(reader("\n".join(random.Random(seed).sample(lines, len(lines)))).devices) <= most


def test_more_than_four_mebibytes_are_cut_and_told() -> None:
    plain = clean(b"x" * (10 << 20))
    assert len(plain.text) <= 4 << 20
    assert plain.problems


@pytest.mark.parametrize(
    ("number", "text", "severity"),
    [
        (79, "GPU has fallen off the bus", "fatal"),
        (13, "Graphics Exception", "warning"),
        (43, "Ch 8", "info"),
        (145, "RLW_CTRL Nonfatal XC0", "warning"),
        (145, "RLW_CTRL Fatal XC0", "fatal"),
        (154, "recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "fatal"),
        (9999, "what nobody knows", "warning"),
    ],
)
def test_an_xid_means_what_its_number_and_its_words_say(number: int, text: str, severity: str) -> None:
    assert judge(number, text).severity == severity


def test_an_error_of_the_whole_switch_fabric_is_fatal_though_it_says_non_fatal() -> None:
    assert judge_switch(22003, fatal=False).severity == "fatal"
    assert judge_switch(11012, fatal=False).severity == "warning"


def test_a_gpu_off_the_bus_in_three_lines_is_one_event_with_its_address_and_time() -> None:
    found = read(
        "[ 12.300000] NVRM: The NVIDIA GPU 0000:c3:00.0\n NVRM: (PCI ID: 10de:2330) installed in this system has\n"
        " NVRM: fallen off the bus and is not responding to commands.\n"
    )
    assert [(e.code, e.device, e.time, e.severity) for e in found.events] == [
        ("gpu-off-bus", "0000:c3:00.0", "12.300000", "fatal")
    ]


def test_a_kill_and_its_reaping_are_one_event() -> None:
    log = KernelLog()
    assert [
        e.device for e in log.feed("[1.000001] Memory cgroup out of memory: Killed process 9 (python) total-vm:1kB")
    ] == ["pid 9 (python)"]
    assert log.feed("[1.100001] oom_reaper: reaped process 9 (python), now anon-rss:0kB") == []


@pytest.mark.parametrize(
    ("line", "code", "device", "severity"),
    [
        (
            "amdgpu 0000:03:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block",
            "amdgpu-ras-uncorrectable",
            "0000:03:00.0",
            "fatal",
        ),
        (
            "amdgpu 0000:03:00.0: amdgpu: 1 correctable hardware errors detected in umc block",
            "amdgpu-ras-correctable",
            "0000:03:00.0",
            "warning",
        ),
        ("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "amdgpu-reset", "0000:03:00.0", "error"),
        ("nvme nvme3: I/O 12 QID 4 timeout, aborting", "nvme-timeout", "nvme3", "warning"),
        ("EXT4-fs (sda1): Remounting filesystem read-only", "read-only", "sda1", "fatal"),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s!", "soft-lockup", "3", "error"),
        ("EDAC MC1: 1 UE memory read error on DIMM", "edac-uncorrected", "MC1", "fatal"),
        (
            "nvidia-nvswitch2: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            "SXid 20034",
            "0000:86:00.0",
            "fatal",
        ),
    ],
)
def test_a_line_of_the_kernel_is_an_event(line: str, code: str, device: str, severity: str) -> None:
    [event] = KernelLog().feed(f"Mar  4 05:06:07 node-z kernel: [77.123456] {line}")
    assert (event.code, event.device, event.severity, event.time) == (code, device, severity, "Mar  4 05:06:07")


def test_host_lists_are_expanded_with_their_zeros() -> None:
    assert expand("a[08-10,12],b") == ["a08", "a09", "a10", "a12", "b"]
    for wrong in ("a[1-", "a[3-1]", "a[x]", "a[1-999999999]"):
        with pytest.raises(ValueError):
            expand(wrong)


def test_a_fabric_import_tells_what_does_not_fit() -> None:
    found = import_from("slurm", b"SwitchName=top Switches=l[1-2]\nSwitchName=l1 Nodes=n[1-2]\nSwitchName=l2\n")
    assert found.fabric.levels == ["spine", "leaf"]
    assert found.fabric.domains == {"spine": {"top": ["n1", "n2"]}, "leaf": {"l1": ["n1", "n2"]}}
    assert found.problems == ["switches without hosts: l2"]
    table = import_from("csv", b"node,block,leaf\nn1,b1,l1\nn2,,\nn3,b1\n")
    assert (table.fabric.unplaced, table.complete) == (["n2"], False)


def test_a_tool_that_hangs_is_killed_and_told(tmp_path: Path) -> None:
    answer = tool.ask((sys.executable, "-c", "import time; print('half', flush=True); time.sleep(60)"), timeout=1.0)
    assert answer is not None
    assert answer.problem is not None
    assert "hung for 1 s and was killed" in answer.problem
    assert tool.ask(("no-such-tool-here",), timeout=1.0) is None


def test_inspect_prints_json_of_a_capture_and_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--capture", "rdma", str(FIXTURES / "rdma.txt")]) == 0
    assert '"mlx5_1"' in capsys.readouterr().out
    assert main(["--capture", "abacus", "x"]) == 2
    assert main(["--capture", "rdma", "/no/such/file"]) == 2
