"""Which reason binds, found in what is left at the end of a plan and after every permitted victim is gone in thought."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from controller.scheduling.book import demand_of
from controller.scheduling.columns import takes_work
from controller.scheduling.consolidation import movables
from controller.scheduling.crew import Crew
from controller.scheduling.crews import charge, vacate
from controller.scheduling.cycle import BOUNDED, Cycle
from controller.scheduling.fabric import NODE, path_of
from controller.scheduling.index import ClusterIndex
from controller.scheduling.kinds import Kind
from controller.scheduling.reasons import ORDER, Scene, explain, scene
from controller.scheduling.room import Room
from controller.scheduling.types import Eviction, GangRequest, Migration, Wait
from controller.scheduling.victims import Candidate, permitted
from controller.scheduling.waits import Entry, Waits
from muster.reasons import Waiting

LISTED = 8


class Why:
    """The reasons of one plan. What asks for the same has the same reason."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._scene: Scene | None = None

    # -- gangs for which something is on its way --------------------------------------------------------

    def vacating(self, request: GangRequest, leaving: Sequence[str]) -> Wait:
        nodes = sorted({self._cycle.index.homes[uid] for uid in leaving})
        text, claim = f"{_list(nodes)} is being vacated for it", request.claim
        if claim is not None and claim.deadline is not None and self._cycle.now >= claim.deadline:
            text += "; that should be done by now: it takes other room as soon as there is some"
        return _wait(request, Waiting.CAPACITY, text)

    def evicting(self, request: GangRequest, decided: Eviction) -> Wait:
        return _wait(request, Waiting.CAPACITY, decided.message)

    def turn(self, request: GangRequest, claimed: bool) -> Wait:
        if claimed:
            return _wait(request, Waiting.CAPACITY, "its place is being vacated")
        return _wait(
            request, Waiting.FAIR_SHARE, f"the devices of queue {request.queue} are worth more to others for now"
        )

    def moving(self, request: GangRequest, moves: Sequence[Migration]) -> Wait:
        jobs = self._cycle.index.jobs
        names = sorted(jobs[move.job_uid].name for move in moves)
        return _wait(request, Waiting.TOPOLOGY_FRAGMENTED, f"{_list(names)} moves to make a domain whole for it")

    # -- gangs that wait --------------------------------------------------------------------------------

    def all(self, waiting: Sequence[Entry], kinds: Mapping[Kind, GangRequest]) -> Waits:
        """The reasons of all that wait; those that are given have one already, the others share that of their kind."""
        return Waits(waiting, {kind: self._find(request) for kind, request in kinds.items()})

    def by_room(self, request: GangRequest) -> bool:
        """Whether it is room that a gang waits for, and not its queue's turn."""
        return any(
            self._cycle.book.short(request.queue, demand_of(request, option, request.minimum)) is None
            for option in range(len(request.options))
        )

    def _find(self, request: GangRequest) -> Wait:
        cycle = self._cycle
        mask = cycle.mask(request)
        if self._scene is None:
            self._scene = scene(cycle.index, cycle.room)
        plain = self._scattered(request, explain(self._scene, request, mask))
        plain = replace(plain, numbers={**plain.numbers, **self._books(request)})
        others = [plain.code, *plain.others]
        text, quota = plain.message, self._quota(request)
        if request.job_uid in cycle.bounded:
            text += f"; {BOUNDED}"
        code = self._binding(request, plain.code)
        if code is Waiting.QUOTA:
            return replace(plain, code=code, message=f"{quota}; {text}", others=_ordered(others, code))
        extra = {
            Waiting.FAIR_SHARE: self._shares,
            Waiting.RESERVED_FOR_OTHER: self._holders,
            Waiting.BACKFILL_WOULD_DELAY: self._delay,
            Waiting.NO_VICTIM_SET: self._no_victims,
        }.get(code)
        said = [extra(request)] if extra else []
        message = "; ".join(part for part in (*said, text, quota) if part)
        return replace(plain, code=code, message=message, others=_ordered(others, code))

    def _scattered(self, request: GangRequest, plain: Wait) -> Wait:
        """Where gangs may be moved, what they hold is not lacking: it lies in the wrong places."""
        movable = movables(self._cycle, request) if plain.code is Waiting.CAPACITY else []
        if not movable:
            return plain
        room = self._without(movable)
        code = explain(scene(self._cycle.index, room), request, self._cycle.mask(request)).code
        fits = self._cycle.place(room, request, quota=False) is not None
        return replace(plain, code=Waiting.TOPOLOGY_FRAGMENTED if fits else code)

    def _binding(self, request: GangRequest, plain: Waiting) -> Waiting:
        cycle = self._cycle
        candidates = permitted(cycle, request)
        if not self._allowed_in_thought(request):
            return Waiting.QUOTA
        if cycle.kept is not None and cycle.place(cycle.room.copy(), request) is not None:
            return Waiting.BACKFILL_WOULD_DELAY
        if self._set_aside(request):
            return Waiting.RESERVED_FOR_OTHER
        if cycle.held and cycle.place(cycle.unheld(request.job_uid), request, quota=False) is not None:
            return Waiting.RESERVED_FOR_OTHER
        if request.repair and request.preferred:
            return Waiting.NODE_REPAIR
        if self._others_hold_it(request, candidates):
            return Waiting.FAIR_SHARE
        if any(_serves(part, request) for part in candidates):
            return Waiting.NO_VICTIM_SET
        return plain

    def _set_aside(self, request: GangRequest) -> bool:
        """Whether it would fit on nodes that are set aside."""
        if not self._cycle.bars(request):
            return False
        self._cycle.lifted = True
        fits = self._cycle.place(self._cycle.room.copy(), request, quota=False) is not None
        self._cycle.lifted = False
        return fits

    def _allowed_in_thought(self, request: GangRequest) -> bool:
        """Whether the quota would do if all that others borrow were reclaimed and all of the own queue's victims
        were gone."""
        cycle, book = self._cycle, self._cycle.book
        if not book.counts(request.queue):
            return True
        undone = [
            (request.queue, charge(cycle.index, part.crew, part.workers))
            for part in permitted(cycle, request)
            if part.crew.request.queue == request.queue and not part.surplus
        ]
        undone += [(request.queue, charge(cycle.index, crew, crew.workers)) for crew in self._passed_by(request)]
        mine = set(book.line(request.queue))
        for name in book.accounts:
            over = {kind: book.borrowed(name, kind) for kind in book.kinds() if book.borrowed(name, kind)}
            if over and name not in mine and not book.has_children(name):
                undone.append((name, over))
        for queue, demand in undone:
            book.add(queue, demand, -1)
        allowed = self.by_room(request)
        for queue, demand in undone:
            book.add(queue, demand)
        return allowed

    def _passed_by(self, request: GangRequest) -> list[Crew]:
        """Gangs of its own queue that run although they came later: had it fitted, it would have had their quota, so it is
        not quota that it waits for. One that begins again had its quota, and gave up what they were given."""
        if request.repair:
            return []
        return [
            crew
            for crew in self._cycle.ranks(request.queue)
            if crew.request.priority == request.priority and crew.request.queued_at > request.queued_at
        ]

    def _others_hold_it(self, request: GangRequest, candidates: Sequence[Candidate]) -> bool:
        """Whether it would fit if other queues gave back what they borrow, which the rule of the shares forbids."""
        all_of_them = permitted(self._cycle, request, sharing=False)
        legal = {(part.crew.attempt.uid, part.surplus) for part in candidates}
        if all((part.crew.attempt.uid, part.surplus) in legal for part in all_of_them):
            return False
        room = self._without(all_of_them)
        return self._cycle.place(room, request, quota=False) is not None

    def _without(self, parts: Iterable[Candidate]) -> Room:
        room, workers = self._cycle.room.copy(), {}
        for part in parts:
            workers.update({worker.uid: worker for worker in part.workers})
        vacate(self._cycle.index, room, workers.values())
        return room

    def _books(self, request: GangRequest) -> dict[str, int]:
        """What the gang's queue uses of each kind that counts, and what is its own."""
        book = self._cycle.book
        if not book.counts(request.queue):
            return {}
        kinds = [kind for kind in demand_of(request, 0, request.minimum) if kind in book.kinds()]
        used = {f"quota.{kind}.used": book.used(request.queue, kind) for kind in kinds}
        return used | {f"quota.{kind}.own": book.nominal(request.queue, kind) for kind in kinds}

    # -- sentences --------------------------------------------------------------------------------------

    def _quota(self, request: GangRequest) -> str:
        """The sum, whichever way it comes out."""
        book = self._cycle.book
        if not book.counts(request.queue):
            return ""
        said = []
        for option in range(1 if request.roles else len(request.options)):
            demand = demand_of(request, option, request.minimum)
            short = book.short(request.queue, demand)
            for kind, amount in demand.items():
                if kind not in book.kinds():
                    continue
                if short is not None and short[1] == kind:
                    name = short[0] or "all queues"
                    used = book.used(request.queue, kind)
                    said.append(
                        f"queue {request.queue} uses {used} {kind}; with {amount} more {name} would use {short[2]}"
                        f" of {short[3]}"
                    )
                else:
                    used, limit = book.used(request.queue, kind), book.nominal(request.queue, kind)
                    borrowing = "" if used + amount <= limit else ", by borrowing"
                    relation = "<=" if used + amount <= limit else ">"
                    said.append(f"quota ok ({used}+{amount} {relation} {limit}{borrowing})")
        return "; ".join(said)

    def _shares(self, request: GangRequest) -> str:
        book, demand = self._cycle.book, demand_of(request, 0, request.minimum)
        told = []
        for kind in demand:
            borrowers = sorted(n for n in book.accounts if n and not book.has_children(n) and book.borrowed(n, kind))
            told += [
                f"{name} borrows {book.borrowed(name, kind)} {kind}" for name in borrowers if name != request.queue
            ]
            told.insert(0, f"{request.queue} already borrows {book.borrowed(request.queue, kind)} {kind}")
        smaller = [name for name in sorted(book.accounts) if name and name != request.queue and book.borrows(name)]
        return (
            f"{', '.join(told)}; with it the share of {request.queue} would be no smaller than that of {_list(smaller)}"
        )

    def _holders(self, request: GangRequest) -> str:
        off = self._cycle.bars(request)
        if off and self._set_aside(request):
            return "; ".join(self._cycle.aside[place].told(self._cycle, request.limit) for place in off)
        names = sorted({held.name for held, _ in self._cycle.held if held.job_uid != request.job_uid})
        nodes = sorted({worker.node for held, workers in self._cycle.held for worker in workers})
        return f"{_list(nodes)} is kept for {_list(names)}"

    def _delay(self, request: GangRequest) -> str:
        minutes = (self._cycle.kept_until - self._cycle.now) / 60
        limit = "it has no time limit" if request.limit is None else f"its limit is {request.limit / 60:g} min"
        return f"what is free is reserved in {minutes:g} min for a larger gang, and {limit}"

    def _no_victims(self, request: GangRequest) -> str:
        """What the best domain would hold after every permitted eviction."""
        cycle = self._cycle
        room = self._without(permitted(cycle, request))
        after = explain(scene(cycle.index, room), request, cycle.mask(request)).message
        device = request.options[0][0] if request.options else None
        if device is not None:
            column = room.free.kind(device.type)
            best = int(column.argmax()) if len(column) else 0
            has = f"{int(column[best])} of {device.count} {device.type}" if len(column) else "none"
            name = cycle.fabric.nodes[best] if cycle.fabric.nodes else NODE
            return f"after all permitted evictions the best node, {name}, would have {has} free; {after}"
        return f"after all permitted evictions: {after}"


def alerts(index: ClusterIndex) -> tuple[str, ...]:
    """What the people who run the cluster should know: quota that no node backs, nodes that lack a level's label."""
    found = []
    quota: dict[str, int] = {}
    for queue in index.queues.values():
        for kind, amount in (queue.spec.get("quota") or {}).items():
            quota[kind] = quota.get(kind, 0) + amount
    for kind, amount in sorted(quota.items()):
        nodes = (node for node in index.nodes.values() if takes_work(node))
        backed = sum(device.type == kind and device.healthy for node in nodes for device in node.devices)
        if amount > backed:
            found.append(f"quota unbacked by nodes: {kind} {amount - backed}")
    for level in index.fabric.levels[1:-1]:
        bare = np.flatnonzero(~level.labelled[level.of]) if index.fabric.nodes else ()
        if 0 < len(bare) < len(index.fabric.nodes):
            names = sorted(index.fabric.nodes[int(position)] for position in bare)
            found.append(f"nodes without a {level.name}: {_list(names)}")
    return (*found, *(_astray(index, uid) for uid in sorted(index.astray)))


def _astray(index: ClusterIndex, attempt: str) -> str:
    job = index.attempts[attempt].job_uid
    level = index.asks[job].required_level or NODE
    depth = index.fabric.depth(level)
    nodes = (node for uid, node in index.homes.items() if index.workers[node][uid].attempt_uid == attempt)
    labels = sorted({path_of(index.nodes[node].labels, index.level_names)[depth - 1] or "-" for node in nodes})
    return f"{index.jobs[job].name} requires one {level} and lies in {_list(labels)} since labels changed; it runs on"


def _serves(part: Candidate, request: GangRequest) -> bool:
    """Whether a victim holds anything of a kind that the gang could use."""
    kinds = {device.type for device, _ in request.options if device} | {
        r.device.type for r in request.roles if r.device
    }
    return not kinds or any(worker.devices for worker in part.workers)


def _wait(request: GangRequest, code: Waiting, message: str) -> Wait:
    return Wait(job_uid=request.job_uid, code=code, message=message)


def _ordered(codes: Iterable[Waiting], but: Waiting) -> tuple[Waiting, ...]:
    return tuple(sorted(set(codes) - {but}, key=ORDER.__getitem__))


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
