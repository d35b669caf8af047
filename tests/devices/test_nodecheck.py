"""The program that measures nodes, really run; what becomes of what it tells; who is far from its peers."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from agents.runtime.reportfile import parse_line
from controller.acts.measurements import LABEL, NAMESPACE, measured, outlier
from controller.records import MeasurementRecord
from muster.evidence import Evidence, Source
from tests.makers import make_job, make_node

ROOT = Path(__file__).parents[2]


def ranks(count: int, folder: Path, backend: str) -> list[list[dict]]:
    """What each rank wrote into its report file."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "MUSTER_NODE_ADDRESSES": ",".join(["127.0.0.1"] * count),
    }
    command = [sys.executable, "-m", "muster.nodecheck", "--seconds", "0.05", "--backend", backend]
    running = [
        subprocess.Popen(
            command,
            env=env | {"RANK": str(rank), "MUSTER_NODE": f"n{rank}", "MUSTER_REPORT": str(folder / str(rank))},
            stdout=subprocess.DEVNULL,
        )
        for rank in range(count)
    ]
    assert [process.wait(120) for process in running] == [0] * count
    files = [(folder / str(rank)).read_bytes().splitlines() for rank in range(count)]
    told = [[parse_line(line, json.loads(line)["time"]) for line in lines] for lines in files]
    return [[said.measurement for said in lines if said and said.measurement] for lines in told]


def test_three_nodes_by_plain_sockets_measure_themselves_each_pair_and_all_together(tmp_path: Path) -> None:
    told = ranks(3, tmp_path, "plain")
    assert [[(one["name"], one.get("peer")) for one in lines] for lines in told] == [
        [("memory", None), ("pair", "n1"), ("pair", "n2"), ("allreduce", None)],
        [("memory", None), ("pair", "n2"), ("allreduce", None)],
        [("memory", None), ("allreduce", None)],
    ]
    assert all(one["ok"] and one["value"] > 0 for lines in told for one in lines)


def test_one_node_with_numpy(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    (told,) = ranks(1, tmp_path, "numpy")
    assert [one["name"] for one in told] == ["memory", "matmul"]


def value(node: str, amount: float, device: int | None = 0, at: float = 0.0, **more) -> MeasurementRecord:
    fields = {"name": "matmul", "unit": "TFLOP/s", "device_type": "h100", **more}
    return MeasurementRecord(
        uid=f"{node}{device}{at}", node=node, check="c", value=amount, device=device, at=at, **fields
    )


def test_who_is_far_below_peers_of_the_same_kind_is_an_outlier() -> None:
    peers = [value(f"n{n}", 700 + n) for n in range(5)]
    assert outlier(value("slow", 400), peers) == "57% of the median of 5 peers (702 TFLOP/s)"
    assert outlier(value("fine", 690), peers) == ""
    assert outlier(value("fast", 900), peers) == ""
    assert outlier(value("slow", 400), peers[:2]) == "", "two say nothing"
    others = [replace(one, device_type="a100") for one in peers]
    assert outlier(value("slow", 400), others) == "", "another kind is no peer"
    wide = [value(f"n{n}", amount) for n, amount in enumerate((100, 300, 500, 700, 900))]
    assert outlier(value("slow", 400), wide) == "", "where all differ nobody is far"


def test_only_the_newest_value_of_a_peer_counts_and_devices_of_one_node_are_peers() -> None:
    old = [value(f"n{n}", 100, at=1.0) for n in range(3)]
    new = [value(f"n{n}", 700, at=2.0) for n in range(3)]
    assert outlier(value("x", 400), [*new, *old]) != ""
    devices = [value("x", 700, device=n) for n in range(1, 4)]
    assert outlier(value("x", 400, device=0), devices) != ""


def test_what_ranks_report_is_taken_as_far_as_it_makes_sense() -> None:
    job = make_job(namespace=NAMESPACE, labels={LABEL: "run"})
    nodes = {"n0": make_node("n0")}

    def sight(node: str = "n0", source: Source = Source.DEVICE, **told) -> Evidence:
        return Evidence(source=source, at=5.0, attempt="a", node=node, data={"measurement": told} if told else {})

    good = {"name": "memory", "value": 3.5, "unit": "GB/s", "device": 2}
    items = [
        sight(**good),
        sight(**{**good, "value": float("nan")}),
        sight(**{**good, "value": "fast"}),
        sight(**{**good, "name": 7}),
        sight(node="elsewhere", **good),
        sight(source=Source.LOG, **good),
        sight(),
    ]
    (one,) = measured(items, nodes, job, "run", iter("abcdefg").__next__)
    assert (one.node, one.name, one.value, one.unit, one.device, one.device_type, one.ok, one.check) == (
        "n0", "memory", 3.5, "GB/s", 2, "h100", True, "run",
    )  # fmt: skip
