"""A Node object becomes a machine: what is told, what is taken, what is missing."""

from decimal import Decimal
from typing import Any

import pytest

from controller.executors.kubernetes.devices import devices, vendor_of
from controller.executors.kubernetes.inventory import Rules, places, read_node
from controller.executors.kubernetes.quantity import quantity
from controller.executors.kubernetes.usage import sums, takes


def node(labels: dict[str, str] | None = None, **status: Any) -> dict[str, Any]:
    status.setdefault("conditions", [{"type": "Ready", "status": "True"}])
    return {"metadata": {"name": "n", "uid": "u", "labels": labels or {}}, "spec": {}, "status": status}


@pytest.mark.parametrize(
    ("text", "value"),
    [("95690m", "95.69"), ("1167634920Ki", "1195658158080"), ("288764809146", "288764809146"), ("1e3", "1000"),
     ("1E", "1e18"), ("0.5", "0.5"), (2, "2"), ("1Gi", "1073741824"), ("12e6", "12000000"), ("5M", "5000000")],
)  # fmt: skip
def test_quantities_are_read_as_kubernetes_writes_them(text: str, value: str) -> None:
    assert quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "ten", "1KiB", "1 Gi", "--1", "1e", None])
def test_what_is_no_quantity_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="quantity"):
        quantity(text)


@pytest.mark.parametrize(
    ("resource", "vendor"),
    [
        ("nvidia.com/gpu", "nvidia"),
        ("nvidia.com/gpu.shared", "nvidia"),
        ("nvidia.com/mig-1g.5gb", "nvidia"),
        ("amd.com/gpu", "amd"),
        ("huawei.com/Ascend910", "ascend"),
        ("huawei.com/Ascend310P-VPro", "ascend"),
        ("cambricon.com/mlu", "cambricon"),
        ("cambricon.com/mlu370", "cambricon"),
        ("habana.ai/gaudi", "gaudi"),
        ("metax-tech.com/gpu", "metax"),
        ("mthreads.com/gpu", "mthreads"),
        ("hygon.com/dcu", "hygon"),
        ("cambricon.com/mlu.smlu.vcore", None),
        ("rdma/hca_shared_devices_a", None),
        ("vpc.amazonaws.com/efa", None),
        ("cpu", None),
    ],
)
def test_a_device_plugin_is_known_by_its_resource(resource: str, vendor: str | None) -> None:
    assert vendor_of(resource) == vendor


@pytest.mark.parametrize(
    ("labels", "resource", "type_"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "nvidia.com/gpu", "h100"),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"}, "nvidia.com/gpu", "nvidia.com/gpu"),
        ({"nvidia.com/gpu.product": "A100-SXM4-40GB-MIG-1g.5gb"}, "nvidia.com/gpu", "mig-1g.5gb"),
        ({"nvidia.com/gpu.product": "A100-SXM4-40GB"}, "nvidia.com/mig-2g.10gb", "mig-2g.10gb"),
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, "nvidia.com/gpu", "h100"),
        ({"node.kubernetes.io/instance-type": "p4d.24xlarge"}, "nvidia.com/gpu", "a100-40gb"),
        ({"node.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5"}, "nvidia.com/gpu", "h100"),
        ({"node.kubernetes.io/instance-type": "BM.GPU.MI300X.8"}, "amd.com/gpu", "mi300x"),
        ({"node.kubernetes.io/instance-type": "a3-highgpu-8g"}, "nvidia.com/gpu", "h100"),
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, "amd.com/gpu", "mi300x"),
        ({"node.kubernetes.io/npu.chip.name": "910B3"}, "huawei.com/Ascend910", "910b3"),
        ({"accelerator": "huawei-Ascend910", "accelerator-type": "module"}, "huawei.com/Ascend910", "910a"),
        ({}, "huawei.com/Ascend310P-V", "310p"),
        ({}, "nvidia.com/gpu", "nvidia.com/gpu"),
    ],
)
def test_the_kind_is_told_by_labels_or_not_at_all(labels: dict[str, str], resource: str, type_: str) -> None:
    found, problems = devices(labels, {}, {resource: "2"}, {resource: "2"}, {})
    assert [one.type for one in found] == [type_] * 2
    assert bool(problems) is ("/" in type_ or type_.startswith("mig-"))


def test_a_site_may_say_what_a_resource_is() -> None:
    [one], problems = devices({}, {}, {"amd.com/gpu": "1"}, {"amd.com/gpu": "1"}, {}, types={"amd.com/gpu": "mi210"})
    assert (one.type, one.vendor, problems) == ("mi210", "amd", [])


@pytest.mark.parametrize(
    ("given", "used", "held", "free"),
    [
        (8, 0, (), [0, 1, 2, 3, 4, 5, 6, 7]),
        (8, 4, (), [0, 1, 2, 3]),
        (8, 4, (6, 7), [0, 1, 6, 7]),
        (7, 0, (), [0, 1, 2, 3, 4, 5, 6]),
        (7, 2, (7,), [0, 1, 2, 3, 7]),
        (8, 8, (0, 1), [0, 1]),
        (0, 0, (), []),
    ],
)
def test_others_take_the_last_devices_and_none_that_ours_hold(
    given: int, used: int, held: tuple[int, ...], free: list[int]
) -> None:
    found, _ = devices(
        {}, {}, {"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": str(given)}, {"nvidia.com/gpu": Decimal(used)}, held
    )
    assert [one.index for one in found if one.healthy] == free


def test_unhealthy_chips_stand_in_annotations_only() -> None:
    notes = {"huawei.com/Ascend910-Unhealthy": "Ascend910-3", "huawei.com/Ascend910-NetworkUnhealthy": "Ascend910-6"}
    found, _ = devices({}, notes, {"huawei.com/Ascend910": "8"}, {"huawei.com/Ascend910": "7"}, {})
    assert {one.index: one.problems[0] for one in found if not one.healthy} == {
        3: "not healthy, says its plugin",
        6: "its network is not healthy",
    }


@pytest.mark.parametrize(
    ("labels", "block", "leaf"),
    [
        ({f"topology.k8s.aws/network-node-layer-{n}": f"l{n}" for n in (1, 2, 3)}, "l2", "l3"),
        ({f"topology.k8s.aws/network-node-layer-{n}": f"l{n}" for n in (1, 2, 3, 4)}, "l3", "l4"),
        ({"cloud.google.com/gce-topology-block": "b", "cloud.google.com/gce-topology-subblock": "s",
          "cloud.google.com/gce-topology-host": "h"}, "b", "s"),
        ({"oci.oraclecloud.com/rdma.hpc_island_id": "i", "oci.oraclecloud.com/rdma.network_block_id": "n",
          "oci.oraclecloud.com/rdma.local_block_id": "l", "oci.oraclecloud.com/rdma.host_id": "h"}, "n", "l"),
        ({"network.topology.nvidia.com/core": "c", "network.topology.nvidia.com/spine": "s",
          "network.topology.nvidia.com/leaf": "l"}, "s", "l"),
        ({"fabric.topograph.run/tier-0": "near", "fabric.topograph.run/tier-1": "mid",
          "fabric.topograph.run/tier-10": "far"}, "mid", "near"),
        ({"topology.kubernetes.io/zone": "eastus-1", "kubernetes.azure.com/agentpool": "h100"}, "eastus-1", "h100"),
        ({"muster.dev/block": "b0", "muster.dev/leaf": "l0", "network.topology.nvidia.com/leaf": "x"}, "b0", "l0"),
        ({"topology.kubernetes.io/zone": "eu-1"}, None, None),
    ],
)  # fmt: skip
def test_the_two_innermost_levels_of_switches_are_block_and_leaf(
    labels: dict[str, str], block: str | None, leaf: str | None
) -> None:
    found = labels | places(labels, {})
    assert (found.get("muster.dev/block"), found.get("muster.dev/leaf")) == (block, leaf)


def test_a_site_chooses_the_labels_of_its_levels() -> None:
    labels = {"rack": "r1", "topology.kubernetes.io/zone": "z1", "topology.k8s.aws/network-node-layer-1": "x"}
    chosen = {"block": "topology.kubernetes.io/zone", "leaf": "rack"}
    assert places(labels, chosen) == {"muster.dev/block": "z1", "muster.dev/leaf": "r1"}
    assert read_node(node(labels), rules=Rules(levels=chosen)).labels["muster.dev/leaf"] == "r1"


def test_a_node_is_read_whole() -> None:
    one = node(
        {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.clique": "uuid.7"},
        capacity={"cpu": "96", "memory": "1176300008Ki", "nvidia.com/gpu": "8"},
        allocatable={"cpu": "95690m", "memory": "1167634920Ki", "nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "2"},
        addresses=[{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.9"}],
        conditions=[
            {"type": "Ready", "status": "True"},
            {"type": "DiskPressure", "status": "True", "message": "full"},
            {"type": "MemoryPressure", "status": "False"},
        ],
        nodeInfo={"bootID": "boot", "kubeletVersion": "v1.34.0"},
    )
    one["spec"] = {
        "unschedulable": True,
        "taints": [
            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
            {"key": "soft", "effect": "PreferNoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        ],
    }
    found = read_node(one, used={"cpu": Decimal("0.435"), "memory": Decimal(470 * 2**20), "nvidia.com/gpu": Decimal(4)})
    assert (found.cpu_milli, found.memory) == (95255, 1167634920 * 1024 - 470 * 2**20)
    assert [(device.type, device.healthy) for device in found.devices] == [("h100", True)] * 4 + [("h100", False)] * 4
    assert [(taint.key, taint.value) for taint in found.taints] == [("nvidia.com/gpu", "present")]
    assert (found.address, found.boot_id, found.ready, found.cordoned) == ("10.0.0.9", "boot", True, True)
    assert [(one.reason, one.message) for one in found.conditions] == [("DiskPressure", "full")]
    assert [nic.name for nic in found.nics] == ["efa0", "efa1"]
    assert found.labels["muster.dev/nvlink-domain"] == "uuid.7"


def test_only_an_operators_or_an_agents_word_proves_that_a_node_is_gone() -> None:
    silent = node(conditions=[{"type": "Ready", "status": "Unknown"}])
    assert (read_node(silent).ready, read_node(silent).gone) == (False, "")
    out = silent | {"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}
    assert "out-of-service" in read_node(out).gone
    fenced = node(conditions=[{"type": "Ready", "status": "Unknown"}, {"type": "MusterFenced", "status": "True"}])
    assert "agent" in read_node(fenced).gone


def test_a_pod_takes_the_larger_of_its_steps_and_its_containers() -> None:
    def asks(**wanted: str) -> dict[str, Any]:
        return {"resources": {"requests": wanted}}

    pod = {
        "spec": {
            "initContainers": [asks(cpu="4"), {**asks(cpu="1"), "restartPolicy": "Always"}, asks(cpu="2")],
            "containers": [
                asks(cpu="500m", memory="1Gi"),
                {"resources": {"limits": {"cpu": "1", "nvidia.com/gpu": 2}}},
            ],
            "overhead": {"cpu": "100m"},
        },
        "status": {"phase": "Running"},
    }
    assert takes(pod) == {"cpu": Decimal("4.1"), "memory": 2**30, "nvidia.com/gpu": 2}
    assert takes({**pod, "status": {"phase": "Failed"}}) == {}
    assert sums([takes(pod), takes(pod)])["nvidia.com/gpu"] == 4


@pytest.mark.parametrize(
    "broken", [{}, {"metadata": {}}, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "many"}}}]
)
def test_an_odd_node_hides_nothing_and_breaks_nothing(broken: dict[str, Any]) -> None:
    assert read_node(broken).cpu_milli == 0
