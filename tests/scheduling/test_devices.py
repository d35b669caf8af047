"""Which devices inside a node, and what a job's spec becomes."""

from typing import Any

import pytest

from controller.scheduling.devices import choose_devices, fewest
from controller.scheduling.requests import request_of
from controller.scheduling.types import DeviceRequest
from muster.protocol import Device
from muster.states import JobPhase
from tests.makers import NOW, make_job
from tests.scheduling.cluster import Cluster, gang, pending, racks


def devices(groups: dict[int | None, list[int]]) -> list[Device]:
    return [Device(index=i, type="h100", group=group) for group, indexes in groups.items() for i in indexes]


@pytest.mark.parametrize(
    ("groups", "count", "chosen"),
    [
        ({0: [0, 1, 2, 3, 4, 5], 1: [14, 15]}, 2, (14, 15)),
        ({0: [0, 1, 2, 3, 4, 5], 1: [14, 15]}, 6, (0, 1, 2, 3, 4, 5)),
        ({0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}, 4, (0, 1, 2, 3)),
        ({1: [4, 5, 6, 7], 0: [0, 1, 2, 3]}, 1, (0,)),
        ({0: [0, 1, 2, 3], 1: [4, 5, 6]}, 3, (4, 5, 6)),
        ({0: [0, 1, 2], 1: [4, 5, 6], 2: [8, 9]}, 5, (0, 1, 2, 8, 9)),
        ({None: [7, 3, 5]}, 2, (3, 5)),
        ({0: [0, 1], 1: [2, 3]}, 4, (0, 1, 2, 3)),
    ],
)
def test_the_tightest_group_then_the_lowest_indexes(
    groups: dict[int | None, list[int]], count: int, chosen: tuple[int, ...]
) -> None:
    assert choose_devices(devices(groups), count) == chosen
    assert choose_devices(reversed(devices(groups)), count) == chosen


@pytest.mark.parametrize(
    ("rooms", "need", "taken"),
    [
        ([1, 2, 3, 3], 7, [1, 0, 3, 3]),
        ([3, 4, 5], 8, [3, 0, 5]),
        ([4, 4, 6, 8], 8, [0, 0, 0, 8]),
        ([4, 4, 6, 8], 10, [4, 0, 6, 0]),
        ([1, 1, 1, 1], 3, [1, 1, 1, 0]),
        ([2, 5], 1, [1, 0]),
    ],
)
def test_the_fewest_holes_and_of_those_the_smallest(rooms: list[int], need: int, taken: list[int]) -> None:
    assert fewest(rooms, need) == taken


def test_gangs_of_one_node_get_disjoint_devices_in_whole_groups() -> None:
    node = racks({"b0/r0": {"n0": 0}})[0]
    cluster = Cluster([node])
    cluster.node("n0", devices=tuple(devices({0: [0, 1, 2, 3], 1: [4, 5, 6, 7]})))
    cluster.submit(gang("two", 1, 2), gang("four", 1, 4), gang("more", 1, 2))
    cluster.settle()
    held = {job: cluster.workers(job)[0].devices for job in ("two", "four", "more")}
    assert held == {"two": (0, 1), "four": (4, 5, 6, 7), "more": (2, 3)}


def test_acceptable_kinds_are_tried_in_order_each_with_its_own_number_of_workers() -> None:
    cluster = Cluster([*racks({"b0/r0": {"n0": 8}}, kind="h200"), *racks({"b0/r1": {"n1": 8, "n2": 8}}, kind="h100")])
    kinds = [{"type": "h200", "count": 8, "workers": 1}, {"type": "h100", "count": 8, "workers": 2}]
    cluster.submit(gang("first", 9, spec={"accelerators": kinds}), gang("second", 9, spec={"accelerators": kinds}))
    assert not cluster.settle().waits
    assert cluster.placed() == {"first": {"n0": 1}, "second": {"n1": 1, "n2": 1}}


def test_a_kind_that_the_job_did_not_name_is_never_taken() -> None:
    cluster = Cluster([*racks({"b0/r0": {"n0": 2}}), *racks({"b0/r0": {"n1": 8}}, kind="ascend910b")])
    cluster.submit(gang("job", 1, 4))
    assert pending(cluster.settle()) == {"job": "CAPACITY"}


@pytest.mark.parametrize(
    ("written", "canonical"),
    [("h100", "h100"), ("H100", "h100"), ("NVIDIA H100 80GB HBM3", "h100"), (" Strange-NPU ", "strange-npu")],
)
def test_accelerators_are_known_by_all_their_names(written: str, canonical: str) -> None:
    request = request_of(make_job(spec={"accelerators": [{"type": written, "count": 4}]}))
    assert request.options == ((DeviceRequest(canonical, 4), 1),)


def test_a_job_without_accelerators_needs_only_cpu_and_memory() -> None:
    request = request_of(make_job(spec={"workers": 3, "cpu": "500m", "memory": "1Gi"}))
    assert (request.options, request.cpu_milli, request.memory) == (((None, 3),), 500, 2**30)


def test_a_whole_spec_becomes_a_request() -> None:
    spec: dict[str, Any] = {
        "queue": "research",
        "priorityClass": "high",
        "workers": 4,
        "maxPerNode": 2,
        "topology": {"required": "block", "preferred": "leaf"},
    }
    job = make_job(
        spec=spec, phase=JobPhase.RECOVERING, preferred=("n0",), excluded=("n1",), queued_at=NOW + 5, namespace="nlp"
    )
    request = request_of(job)
    assert (request.queue, request.priority, request.max_per_node) == ("research", 100, 2)
    assert (request.required_level, request.preferred_level) == ("block", "leaf")
    assert (request.preferred, request.excluded, request.repair) == (("n0",), ("n1",), True)
    assert (request.namespace, request.queued_at) == ("nlp", NOW + 5)


def test_what_a_spec_leaves_out_takes_the_defaults_of_the_manifest() -> None:
    request = request_of(make_job(spec={}))
    assert (request.queue, request.priority, request.max_per_node) == ("default", 0, 1)
    assert (request.required_level, request.preferred_level, request.repair) == (None, None, False)
