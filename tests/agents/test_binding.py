"""Ranks near their devices; ports that are near these; other workers' devices out of reach."""

from pathlib import Path

import pytest

from agents.runtime.binding import Place, cpu_list, places, variables
from agents.runtime.isolation import denied
from muster.protocol import Device, Nic

CPUS = {0: (0, 1, 2, 3), 1: (4, 5, 6, 7)}
ALL = set(range(8))


def device(index: int, numa: int | None = 0, *nics: str, vendor: str = "nvidia", bus: str | None = None) -> Device:
    return Device(index=index, type="h100", vendor=vendor, numa=numa, nics=nics, bus=bus)


@pytest.mark.parametrize(
    ("numas", "processes", "cores", "have", "expected"),
    [
        ((0, 1), 2, 2, ALL, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ((0, 0), 1, 4, ALL, [(0, 1, 2, 3)]),
        ((0, 1), 1, 2, ALL, [()]),  # both nodes: the whole machine
        ((0, 0), 1, 6, ALL, [()]),  # more cores reserved than are near
        ((0, 1), 2, 8, ALL, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ((0, 1), 2, 2, {0, 1, 4}, [(0, 1), (4,)]),  # in the agent's own cores only
        ((0, None), 1, 1, ALL, [()]),
        ((-1, -1), 1, 1, ALL, [()]),
        ((), 3, 1, ALL, [(), (), ()]),
        ((0, 0, 1, 1), 2, 2, ALL, [(), ()]),
    ],
)
def test_a_process_is_near_its_device(
    numas: tuple[int | None, ...], processes: int, cores: int, have: set[int], expected: list[tuple[int, ...]]
) -> None:
    devices = [device(index, numa) for index, numa in enumerate(numas)]
    found = places(devices, processes, cores * 1000, lambda node: CPUS.get(node, ()), have)
    assert [one.cpus for one in found] == expected
    assert all(one == Place() or one.nodes for one in found)


NICS = (
    Nic(name="mlx5_0", state="active"),
    Nic(name="mlx5_1", state="down"),
    Nic(name="mlx5_2/2", state="active"),
)


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([device(0, 0, "mlx5_0"), device(1, 0, "mlx5_2/2")], {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_2:2"}),
        ([device(0, 0, "mlx5_0"), device(1, 0, "mlx5_0")], {"NCCL_IB_HCA": "=mlx5_0:1"}),
        ([device(0, 0, "mlx5_1")], {}),  # its port is down: the library finds another
        ([device(0, 0, "mlx5_0", vendor="amd")], {"NCCL_IB_HCA": "=mlx5_0:1"}),
        ([device(0, 0, "mlx5_0", vendor="ascend")], {"HCCL_SOCKET_IFNAME": "eth0"}),
        ([device(0), device(1, vendor="amd")], {}),
        ([], {}),
    ],
)
def test_the_collective_library_is_told_the_nearest_ports(devices: list[Device], expected: dict[str, str]) -> None:
    assert variables(devices, NICS, "eth0") == expected


def test_a_list_of_cores() -> None:
    assert cpu_list("0-2,8,10-11\n") == (0, 1, 2, 8, 10, 11)


def test_the_files_of_the_others_by_the_kernels_word(tmp_path: Path) -> None:
    devices = [device(index, bus=f"00000000:{0x17 + index:02X}:00.0") for index in range(3)]
    for index, minor in ((0, 5), (1, 6)):
        folder = tmp_path / f"0000:{0x17 + index:02x}:00.0"
        folder.mkdir()
        (folder / "information").write_text(f"Model: \t H100\nDevice Minor: \t {minor}\n")
    assert denied(devices, {0}, tmp_path) == ("/dev/nvidia6",)  # nothing is said of the third
    assert denied([device(0, vendor="amd", bus="1")], set(), tmp_path) == ()
