"""What nodes have and what is free on them, as one number for each node in fabric order."""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from controller.records import NodeRecord, WorkerRecord
from controller.scheduling.fabric import Fabric, Ints
from muster.protocol import Device
from muster.states import NodePhase

MOST: Final = 2**48
"""Of CPU or memory in one place (256 TiB): sums over 30,000 nodes stay inside 63 bits."""

Workers = Mapping[str, WorkerRecord]


class Columns(Struct, frozen=True):
    """CPU in thousandths of a core, memory in bytes, devices counted by type (no column is all zero)."""

    cpu: Ints
    memory: Ints
    devices: Mapping[str, Ints]

    def kind(self, name: str) -> Ints:
        found = self.devices.get(name)
        return np.zeros_like(self.cpu) if found is None else found

    def same(self, other: "Columns") -> bool:
        return (
            np.array_equal(self.cpu, other.cpu)
            and np.array_equal(self.memory, other.memory)
            and self.devices.keys() == other.devices.keys()
            and all(np.array_equal(column, other.devices[name]) for name, column in self.devices.items())
        )


def empty_columns(size: int) -> Columns:
    return Columns(np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64), {})


def takes_work(node: NodeRecord) -> bool:
    return node.phase is NodePhase.READY and not node.cordoned and not node.held


def free_devices(node: NodeRecord, workers: Workers) -> list[Device]:
    """Healthy devices of a node that none of its workers holds."""
    held = {device for worker in workers.values() for device in worker.devices}
    return [device for device in node.devices if device.healthy and device.index not in held]


def count_free(columns: Columns, fabric: Fabric, rows: Iterable[tuple[NodeRecord, Workers]]) -> Columns:
    """The free columns with these nodes' rows counted anew: nothing is free on a node that takes no work."""
    return _counted(
        columns,
        fabric,
        (
            (
                node.name,
                node.cpu_milli - sum(worker.cpu_milli for worker in workers.values()),
                node.memory - sum(worker.memory for worker in workers.values()),
                free_devices(node, workers),
            )
            if takes_work(node)
            else (node.name, 0, 0, [])
            for node, workers in rows
        ),
    )


def count_total(columns: Columns, fabric: Fabric, nodes: Iterable[NodeRecord]) -> Columns:
    """The columns of what there would be if nothing ran: all but lost nodes, all but unhealthy devices."""
    return _counted(
        columns,
        fabric,
        (
            (node.name, 0, 0, [])
            if node.phase is NodePhase.LOST
            else (node.name, node.cpu_milli, node.memory, free_devices(node, {}))
            for node in nodes
        ),
    )


def carried(columns: Columns, before: Fabric, after: Fabric) -> Columns:
    """The columns in the order of another fabric; zero for nodes that it brings."""
    kept = [name for name in after.nodes if name in before.positions]
    sources = np.array([before.positions[name] for name in kept], dtype=np.int64)
    targets = np.array([after.positions[name] for name in kept], dtype=np.int64)

    def carry(column: Ints) -> Ints:
        moved = np.zeros(len(after.nodes), dtype=np.int64)
        moved[targets] = column[sources]
        return moved

    return _without_empty(
        carry(columns.cpu), carry(columns.memory), {name: carry(column) for name, column in columns.devices.items()}
    )


def _counted(columns: Columns, fabric: Fabric, rows: Iterable[tuple[str, int, int, list[Device]]]) -> Columns:
    cpu, memory = columns.cpu.copy(), columns.memory.copy()
    devices = {name: column.copy() for name, column in columns.devices.items()}
    for name, cpu_milli, size, free in rows:
        position = fabric.positions[name]
        cpu[position], memory[position] = min(max(0, cpu_milli), MOST), min(max(0, size), MOST)
        for column in devices.values():
            column[position] = 0
        for device in free:
            if device.type not in devices:
                devices[device.type] = np.zeros(len(fabric.nodes), dtype=np.int64)
            devices[device.type][position] += 1
    return _without_empty(cpu, memory, devices)


def _without_empty(cpu: Ints, memory: Ints, devices: dict[str, Ints]) -> Columns:
    return Columns(cpu, memory, {name: column for name, column in devices.items() if column.any()})
