"""What every gang that has a limit gives back at its end, in the order of the ends: the room of any later time at once."""

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from controller.records import WorkerRecord
from controller.scheduling.columns import takes_work
from controller.scheduling.crews import held_devices
from controller.scheduling.cycle import Cycle, needs_of
from controller.scheduling.room import Room
from controller.scheduling.types import GangRequest, WorkerPlacement
from muster.protocol import Device

Given = tuple[int, int, int, list[Device]]
"""Of one worker: the position of its node, CPU, memory, devices."""


class Endings:
    """`times` are the ends, ascending, each once. This plan's own starts are among them."""

    def __init__(self, cycle: Cycle) -> None:
        self._room = cycle.room
        ends = sorted(_ends(cycle), key=lambda end: end[0])
        self.times = list(dict.fromkeys(time for time, _ in ends))
        self._after: list[int] = []  # how many rows are given back up to each of the times
        rows: list[Given] = []
        for number, (time, given) in enumerate(ends):
            rows += given
            if number + 1 == len(ends) or ends[number + 1][0] != time:
                self._after.append(len(rows))
        self._positions = np.array([row[0] for row in rows], dtype=np.int64)
        self._cpu = np.array([row[1] for row in rows], dtype=np.int64)
        self._memory = np.array([row[2] for row in rows], dtype=np.int64)
        self._counts = _counted(rows)
        self._at: dict[int, list[tuple[int, list[Device]]]] = {}  # by position: (row, devices)
        for number, (position, _, _, devices) in enumerate(rows):
            if devices:
                self._at.setdefault(position, []).append((number, devices))

    def room(self, time: float) -> Room:
        """A copy of the plan's room, with all that has ended by then given back."""
        room, place = self._room.copy(), bisect_right(self.times, time)
        if not place:
            return room
        rows = self._after[place - 1]

        def devices(position: int) -> list[Device]:
            return [device for row, some in self._at.get(position, ()) if row < rows for device in some]

        counts = {kind: column[:rows] for kind, column in self._counts.items()}
        room.give_many(self._positions[:rows], self._cpu[:rows], self._memory[:rows], counts, devices)
        return room


def _ends(cycle: Cycle) -> Iterator[tuple[float, list[Given]]]:
    """(when, what it gives back) of everything that has a limit."""
    crews = cycle.crews.values() if cycle.index.limited else ()
    for crew in crews:
        if crew.ends is not None:
            yield max(crew.ends, cycle.now), list(_of_crew(cycle, crew.workers))
    for request, workers in cycle.started:
        if request.limit is not None:
            yield cycle.now + request.limit, list(_of_start(cycle, request, workers))


def _of_crew(cycle: Cycle, workers: tuple[WorkerRecord, ...]) -> Iterator[Given]:
    """Where its node takes work."""
    for worker in workers:
        node = cycle.index.nodes.get(worker.node)
        if node is not None and takes_work(node):
            devices = [device for device in held_devices(cycle.index, worker) if device.healthy]
            yield cycle.fabric.positions[worker.node], worker.cpu_milli, worker.memory, devices


def _of_start(cycle: Cycle, request: GangRequest, workers: tuple[WorkerPlacement, ...]) -> Iterator[Given]:
    for worker in workers:
        cpu, memory = needs_of(request, worker)
        node = cycle.index.nodes[worker.node]
        devices = [device for device in node.devices if device.index in worker.devices]
        yield cycle.fabric.positions[worker.node], cpu, memory, devices


def _counted(rows: list[Given]) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """By kind: how many devices of it each row gives back."""
    counts: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
    for number, (_, _, _, devices) in enumerate(rows):
        for device in devices:
            if device.type not in counts:
                counts[device.type] = np.zeros(len(rows), dtype=np.int64)
            counts[device.type][number] += 1
    return counts
