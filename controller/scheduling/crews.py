"""What running gangs are charged for, and what would be free without them."""

from collections import Counter
from collections.abc import Iterable, Mapping

from controller.records import WorkerRecord
from controller.scheduling.columns import takes_work
from controller.scheduling.crew import Crew
from controller.scheduling.index import ClusterIndex
from controller.scheduling.room import Room
from muster.protocol import Device


def held_devices(index: ClusterIndex, worker: WorkerRecord) -> list[Device]:
    node = index.nodes.get(worker.node)
    return [device for device in node.devices if device.index in worker.devices] if node and worker.devices else []


def charge(index: ClusterIndex, crew: Crew, workers: Iterable[WorkerRecord]) -> dict[str, int]:
    """Devices by kind that these of its workers are charged for."""
    some = list(workers)
    found: Counter[str] = Counter()
    for worker in some:
        found.update(device.type for device in held_devices(index, worker))
    if crew.request.charge is not None:
        return {kind: crew.request.charge * len(some) // len(crew.workers) for kind in found}
    return dict(found)


def vacate(index: ClusterIndex, room: Room, workers: Iterable[WorkerRecord]) -> None:
    """Give a room what these workers hold, where the node takes work."""
    for worker in workers:
        node = index.nodes.get(worker.node)
        if node is not None and takes_work(node):
            devices = [device for device in held_devices(index, worker) if device.healthy]
            room.give(worker.node, worker.cpu_milli, worker.memory, devices)


def occupy(index: ClusterIndex, room: Room, workers: Iterable[WorkerRecord]) -> None:
    """The opposite of `vacate`."""
    for worker in workers:
        node = index.nodes.get(worker.node)
        if node is not None and takes_work(node):
            devices = [device for device in held_devices(index, worker) if device.healthy]
            room.lose(room.fabric.positions[worker.node], worker.cpu_milli, worker.memory, devices)


def usage(index: ClusterIndex, crews: Mapping[str, Crew]) -> Iterable[tuple[str, dict[str, int]]]:
    """(queue, devices by kind) of every gang that holds something."""
    for crew in crews.values():
        yield crew.request.queue, charge(index, crew, crew.workers)
