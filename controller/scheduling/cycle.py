"""One plan in the making: what is left of the room and of the quotas, and how a gang is placed in it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from controller.scheduling.allowed import Wish, mask_of, wish_of
from controller.scheduling.aside import Aside, asides, bars
from controller.scheduling.book import Book, demand_of
from controller.scheduling.caps import Caps
from controller.scheduling.crew import Crew
from controller.scheduling.crews import usage
from controller.scheduling.fabric import Bools, Fabric
from controller.scheduling.gangs import choose_roles, shapes_of, take_roles
from controller.scheduling.index import ClusterIndex, empty_room
from controller.scheduling.layers import Layers
from controller.scheduling.placement import choose, rail_shapes, ranked
from controller.scheduling.requests import turn
from controller.scheduling.room import Room, Shape, shape_of
from controller.scheduling.tables import positions
from controller.scheduling.types import GangRequest, Start, WorkerPlacement
from muster.states import JobPhase

if TYPE_CHECKING:
    from controller.scheduling.sharing import Sharing

Rank = tuple[str, int]
"""A queue and a priority."""

BOUNDED = "the search for a mixed gang ended at its bound"


class Cycle:
    """The state of one plan. `room` is what nobody holds, has claimed or has been given; `kept`, where there is a
    reservation, what those may use who do not end before it."""

    def __init__(self, index: ClusterIndex, now: float) -> None:
        self.index, self.now = index, now
        self.fabric: Fabric = index.fabric
        self.room = index.stock.room(index.fabric, index.free, index.stamps, index.free_devices, index.carded)
        self.kept: Room | None = None
        self.kept_until = 0.0
        self._crews: Layers[str, Crew] | None = None
        self.book = Book(index.queues)
        self.held: list[tuple[GangRequest, tuple[WorkerPlacement, ...]]] = []
        self.started: list[tuple[GangRequest, tuple[WorkerPlacement, ...]]] = []
        self.bounded: set[str] = set()
        self._masks: dict[tuple[Wish | None, tuple[int, ...]], Bools | None] = {}
        self._lists: dict[Wish, Bools | None] = index.stock.fact("masks", (index.fabric, index.nodes), dict)
        self._ranks: dict[Rank, list[Crew]] | None = None
        self.uncharged: set[str] = set()  # gangs to be repaired whose quota others use by now
        self.promised: set[str] = set()  # workers on their way out whose room is somebody's
        self.sharing: dict[str, Sharing] = {}  # of queues that share their devices in time
        self.caps = Caps(self)
        self.lifted = False  # whether what is set aside is free for all, in thought
        self.aside: tuple[Aside, ...] = asides(self) if index.reservations or index.windows or index.tainted else ()
        if self.book.kinds():
            for queue, demand in usage(index, self.crews):
                self.book.add(queue, demand)
            for request in sorted(self.recovering(), key=turn):
                self._charge(request)

    def _charge(self, request: GangRequest) -> None:
        """A gang that is being repaired stays charged, but for what others were given of it since: then it waits like all."""
        demand = demand_of(request, 0)
        if self.book.short(request.queue, demand) is None:
            self.book.add(request.queue, demand)
        else:
            self.uncharged.add(request.job_uid)

    @property
    def crews(self) -> Layers[str, Crew]:
        """What runs, by job uid, with what this plan has told to go."""
        if self._crews is None:
            self._crews = Layers.of(self.index.crews).branch()
        return self._crews

    def ranks(self, queue: str | None = None, below: int | None = None) -> Iterator[Crew]:
        """What runs: all of it, or in one queue, or there with a lower priority only."""
        known = self.index.priorities
        if not any((queue is None or rank[0] == queue) and (below is None or rank[1] < below) for rank in known):
            return
        if self._ranks is None:
            self._ranks = {}
            for crew in self.crews.values():
                self._ranks.setdefault((crew.request.queue, crew.request.priority), []).append(crew)
        for rank, crews in self._ranks.items():
            if (queue is None or rank[0] == queue) and (below is None or rank[1] < below):
                yield from crews

    def recovering(self) -> list[GangRequest]:
        """Gangs that lost their place and stay charged for it."""
        return [
            request
            for uid, request in self.index.gangs.items()
            if request.repair and self.index.jobs[uid].phase is JobPhase.RECOVERING and uid not in self.crews
        ]

    def empty(self) -> Room:
        """What would be free if nothing ran."""
        return empty_room(self.index)

    def mask(self, request: GangRequest) -> Bools | None:
        """The nodes that the gang's manifest allows, and that are not set aside for others."""
        wish, off = wish_of(request), self.bars(request)
        if wish is None and not off:
            return None
        key = (wish, off)
        if key not in self._masks:
            mask = self._listed(wish, request)
            if off:
                mask = np.ones(len(self.fabric.nodes), dtype=np.bool_) if mask is None else mask.copy()
                for place in off:
                    mask &= ~self.aside[place].nodes
            self._masks[key] = None if mask is None else self.room.keep(mask)
        return self._masks[key]

    def _listed(self, wish: Wish | None, request: GangRequest) -> Bools | None:
        """The nodes that a manifest allows: the same for as long as no node changes."""
        if wish is None:
            return None
        if wish not in self._lists:
            self._lists[wish] = mask_of(self.fabric, self.index.nodes, request)
        return self._lists[wish]

    def bars(self, request: GangRequest) -> tuple[int, ...]:
        """What is set aside, by its place, and not for this gang now."""
        return bars(self, request, self.aside) if self.aside and not self.lifted else ()

    def for_whom(self, request: GangRequest) -> Room:
        """The room that a gang may use: all of it where it ends before what is reserved."""
        if self.kept is None or (request.limit is not None and self.now + request.limit <= self.kept_until):
            return self.room
        return self.kept

    def start(self, request: GangRequest, mask: Bools | None = None) -> Start | None:
        """Place it now, out of the room and the books; None changes nothing."""
        room = self.for_whom(request)
        found = self.place(room, request, mask)
        if found is None:
            return None
        option, workers, note = found
        self.took(room, request, workers)
        return self._started(request, option, workers, note)

    def begin(self, request: GangRequest, workers: tuple[WorkerPlacement, ...]) -> Start:
        """Start it on exactly these devices, which are free."""
        remove(self.room, request, workers)
        self.took(self.room, request, workers)
        return self._started(request, 0, workers, "")

    def _started(self, request: GangRequest, option: int, workers: tuple[WorkerPlacement, ...], note: str) -> Start:
        demand = demand_of(request, option, len(workers))
        self.book.add(request.queue, demand)
        self.caps.add(request, demand)
        self.started.append((request, workers))
        device = request.options[option][0] if not request.roles else request.roles[0].device
        return Start(
            job_uid=request.job_uid,
            scope=request.scope,
            device_type=device.type if device else None,
            workers=workers,
            domain=self.fabric.shared(self.fabric.positions[worker.node] for worker in workers),
            note=note,
        )

    def took(self, room: Room, request: GangRequest, workers: Iterable[WorkerPlacement]) -> None:
        """Carry what was taken out of one of the two rooms into the other."""
        if self.kept is None:
            return
        if room is self.kept:
            remove(self.room, request, workers)
        else:
            rows = sorted({self.fabric.positions[worker.node] for worker in workers})
            self.kept.limit(self.room, rows)

    def place(
        self, room: Room, request: GangRequest, mask: Bools | None = None, quota: bool = True
    ) -> tuple[int, tuple[WorkerPlacement, ...], str] | None:
        """(which kind, its workers, a note) taken out of `room`, or None. An elastic gang is as large as it can be.
        Kinds in order, or by their speeds; first those with which it goes back to where it was."""
        own = self.mask(request)
        if own is not None:
            mask = own if mask is None else own & mask
        for keep in (True, False) if request.preferred and not request.roles else (False,):
            for option in self._ranked(request):
                workers = self._option(room, request, option, mask, keep, quota)
                if workers:
                    return option, workers, self._note(request, workers)
        return None

    def _option(
        self, room: Room, request: GangRequest, option: int, mask: Bools | None, keep: bool, quota: bool
    ) -> tuple[WorkerPlacement, ...]:
        if request.roles:
            if quota and not self.allowed(request, demand_of(request, option)):
                return ()
            answer = choose_roles(room, request, mask)
            if answer.bounded:
                self.bounded.add(request.job_uid)
            return take_roles(room, request, answer.spreads) if answer.spreads is not None else ()
        device, most = request.options[option]
        for shape in rail_shapes(room, shape_of(request, device)):

            def fit(workers: int, shape: Shape = shape) -> dict[int, int] | None:
                if quota and not self.allowed(request, demand_of(request, option, workers)):
                    return None
                return choose(room, request, shape, workers, mask, keep)

            chosen = largest(fit, most, request)
            if chosen:
                return ranked(room.fabric, request, room.take(shape, chosen))
        return ()

    def allowed(self, request: GangRequest, demand: Mapping[str, int]) -> bool:
        """Whether the books and the limit of its user leave it so much."""
        if self.book.short(request.queue, demand) is not None:
            return False
        return not self.caps or self.caps.allows(request, demand)

    def _ranked(self, request: GangRequest) -> Iterable[int]:
        """The acceptable kinds in the order in which they are tried."""
        if request.roles:
            return range(1)
        options = range(len(request.options))
        if not any(request.speeds) or len(options) == 1:
            return options
        queue = self.index.queues.get(request.queue)
        if queue is None or queue.spec.get("kinds") != "goodput":
            return options
        return sorted(options, key=lambda option: -request.speeds[option])

    def _note(self, request: GangRequest, workers: tuple[WorkerPlacement, ...]) -> str:
        """Cards are given out whole."""
        wish = request.options[0][0] if request.options else None
        held = len(workers[0].devices)
        if wish is None or held <= wish.count:
            return ""
        what = "a pair" if held == 2 else f"whole cards, {held} devices"
        return f"{wish.count} {wish.type} rounded up to {what}"

    def depart(self, uids: Iterable[str]) -> None:
        """These workers are told to go in this plan."""
        going = set(uids)
        self._ranks = None
        homes, workers_of = self.index.homes, self.index.workers
        for job in sorted({workers_of[homes[uid]][uid].job_uid for uid in going if uid in homes}):
            if (crew := self.crews.get(job)) is not None:
                workers = tuple(replace(w, desired="stop") if w.uid in going else w for w in crew.workers)
                leaving = crew.leaving or all(worker.desired == "stop" for worker in workers)
                self.crews.put(job, replace(crew, workers=workers, leaving=leaving))

    def hold(self, request: GangRequest, nodes: Iterable[str]) -> tuple[WorkerPlacement, ...]:
        """Keep for a gang what is free of its place on these nodes (one name for each worker)."""
        wanted = Counter(self.fabric.positions[node] for node in nodes if node in self.fabric.positions)
        shapes = shapes_of(request) if request.roles else [shape_of(request, device) for device, _ in request.options]
        taken: list[WorkerPlacement] = []
        for position, count in sorted(wanted.items()):
            left = count
            for shape in shapes:
                part = min(left, int(self.room.table(shape).units[-1][position]))
                if part:
                    taken += self.room.take(shape, {position: part})
                    left -= part
        self.took(self.room, request, taken)
        self.held.append((request, tuple(taken)))
        return tuple(taken)

    def unheld(self, but: str) -> Room:
        """The room as it would be without what is kept for others."""
        room = self.room.copy()
        for request, workers in self.held:
            if request.job_uid != but:
                give_back(room, self.index, request, workers)
        return room


def largest(fit: Callable[[int], dict[int, int] | None], most: int, request: GangRequest) -> dict[int, int] | None:
    """The answer for the most workers for which there is one, down to the gang's minimum."""
    found = fit(most)
    if found is not None or request.minimum is None or request.minimum >= most:
        return found
    step = request.segment.size if request.segment and not request.segment.remainder else 1
    low, high = -(-request.minimum // step), (most - 1) // step
    found = fit(low * step)
    if found is None:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        larger = fit(middle * step)
        if larger is None:
            high = middle - 1
        else:
            low, found = middle, larger
    return found


def needs_of(request: GangRequest, worker: WorkerPlacement) -> tuple[int, int]:
    """CPU and memory of one placed worker."""
    for role in request.roles:
        if role.name == worker.role:
            return role.cpu_milli, role.memory
    return request.cpu_milli, request.memory


def remove(room: Room, request: GangRequest, workers: Iterable[WorkerPlacement]) -> None:
    """Take exactly these workers out of a room."""
    for worker in workers:
        cpu, memory = needs_of(request, worker)
        position = room.fabric.positions[worker.node]
        mine = [device for device in room.devices(position) if device.index in worker.devices]
        room.lose(position, cpu, memory, mine)


def give_back(room: Room, index: ClusterIndex, request: GangRequest, workers: Iterable[WorkerPlacement]) -> None:
    """The opposite of `remove`."""
    for worker in workers:
        cpu, memory = needs_of(request, worker)
        devices = [device for device in index.nodes[worker.node].devices if device.index in worker.devices]
        room.give(worker.node, cpu, memory, devices)


def only_nodes(fabric: Fabric, nodes: Iterable[str]) -> Bools:
    mask = np.zeros(len(fabric.nodes), dtype=np.bool_)
    mask[positions(fabric, nodes)] = True
    return mask
