"""Settings and inventory: what an agent says of its node."""

from pathlib import Path

import pytest

from agents.config import from_environment
from agents.devices import host
from agents.devices.virtual import virtual_devices

GOOD = {
    "MUSTER_SERVER": "http://127.0.0.1:8080/",
    "MUSTER_TOKEN_FILE": "/t",
    "MUSTER_NODE": "n1",
    "MUSTER_AGENT_DIR": "/a",
}


def test_a_whole_environment() -> None:
    config = from_environment(
        {**GOOD, "MUSTER_NODE_LABELS": "a=1, b=2", "MUSTER_NODE_CPU": "500m", "MUSTER_NODE_MEMORY": "1Gi"}
    )
    assert config.stream_url == "ws://127.0.0.1:8080/agent/v1/stream"
    assert (config.labels, config.cpu_milli, config.memory) == ({"a": "1", "b": "2"}, 500, 2**30)
    assert config.address == "127.0.0.1"


@pytest.mark.parametrize(
    ("changes", "mentions"),
    [
        ({"MUSTER_SERVER": ""}, ["MUSTER_SERVER is not set"]),
        ({"MUSTER_SERVER": "localhost:8080"}, ["MUSTER_SERVER: expected http://HOST:PORT", "localhost:8080"]),
        ({"MUSTER_NODE": "Node 1"}, ["MUSTER_NODE", "Node 1"]),
        ({"MUSTER_NODE_LABELS": "a"}, ["MUSTER_NODE_LABELS", "NAME=VALUE"]),
        ({"MUSTER_NODE_CPU": "many"}, ["MUSTER_NODE_CPU", "many"]),
        ({"MUSTER_NODE_MEMORY": "1X"}, ["MUSTER_NODE_MEMORY", "1X"]),
        ({"MUSTER_NODE": "", "MUSTER_AGENT_DIR": ""}, ["MUSTER_NODE is not set", "MUSTER_AGENT_DIR is not set"]),
    ],
)
def test_everything_that_is_wrong_is_named_at_once(changes: dict[str, str], mentions: list[str]) -> None:
    with pytest.raises(ValueError) as raised:
        from_environment({**GOOD, **changes})
    assert all(mention in str(raised.value) for mention in mentions)


def test_virtual_devices_come_from_the_catalogue() -> None:
    devices = virtual_devices("h100:4,a100:4")
    assert [device.index for device in devices] == list(range(8))
    assert [device.type for device in devices] == ["h100"] * 4 + [
        "a100-80gb" if devices[4].type == "a100-80gb" else devices[4].type
    ] * 4
    assert all(device.virtual and device.vendor == "nvidia" and device.memory_mib for device in devices)
    assert virtual_devices("") == ()


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("h100", "TYPE:COUNT"),
        ("h100:x", "TYPE:COUNT"),
        ("h100:0", "TYPE:COUNT"),
        ("h1000:8", "did you mean"),
        ("h100:99999", "TYPE:COUNT"),
    ],
)
def test_devices_that_do_not_exist_are_refused(text: str, mentions: str) -> None:
    with pytest.raises(ValueError, match=mentions):
        virtual_devices(text)


def test_the_machine_is_read_from_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("abc\n")
    (tmp_path / "sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "sys/net/ipv4/ip_local_port_range").write_text("32768\t60999\n")
    (tmp_path / "meminfo").write_text("MemTotal:       1024 kB\nMemFree: 1 kB\n")
    assert host.boot_id(proc=tmp_path) == "abc"
    assert host.boot_id("2", tmp_path) == "abc-2"
    assert host.ephemeral_ports(tmp_path) == (32768, 60999)
    assert host.memory(tmp_path) == 2**20


def test_this_machine_has_something() -> None:
    assert host.cpu_milli() >= 1000
    assert host.memory() > 2**20
    assert host.interface_of("127.0.0.1") == "lo"
    assert host.network_id() == host.network_id()
