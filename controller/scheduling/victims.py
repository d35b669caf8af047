"""Who must go so that a gang fits: the domain first, then the cheapest set of victims with which the whole gang
really fits there on all resources, trimmed until none of them could stay.

Permitted are, in the gang's own queue, gangs of lower priority, and in one that shares its devices in time those whose turn it
is not; in other queues what those borrow: by a gang whose own
queue stays inside its nominal quota, or whose queue would, with the gang, have no larger share than theirs without the victim: so nobody evicts back. The
surplus of elastic gangs goes before any gang does. Nobody is chosen whose going does not help, and nobody at all
unless everything was planned to success.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

from msgspec import Struct

from controller.records import WorkerRecord
from controller.scheduling.book import demand_of
from controller.scheduling.crew import Crew
from controller.scheduling.crews import charge, occupy, vacate
from controller.scheduling.cycle import Cycle, give_back
from controller.scheduling.fabric import Bools
from controller.scheduling.placement import eligible
from controller.scheduling.room import Room
from controller.scheduling.types import Eviction, GangRequest, Victim, WorkerPlacement
from muster.quantity import parse_duration

DOMAINS = 32
EXACT = 24  # candidates up to which every single one and every pair is tried


class Candidate(Struct, frozen=True):
    """A gang that may go, or one worker that an elastic one may do without."""

    crew: Crew
    workers: tuple[WorkerRecord, ...]
    surplus: bool
    price: tuple[float, ...]


class Choice(Struct, frozen=True):
    """Victims with which the gang fits, and where it then lies."""

    victims: tuple[Candidate, ...]
    workers: tuple[WorkerPlacement, ...]

    @property
    def cost(self) -> tuple[object, ...]:
        """Who is hurt least: the highest priority among the evicted, how many, the work that is lost, the shrunk."""
        gone = [victim for victim in self.victims if not victim.surplus]
        return (
            max((victim.crew.request.priority for victim in gone), default=-(10**9)),
            len(gone),
            sum(victim.price[-1] for victim in gone),
            len(self.victims) - len(gone),
            sorted(victim.crew.request.name for victim in self.victims),
        )


def permitted(cycle: Cycle, request: GangRequest, sharing: bool = True) -> list[Candidate]:
    """Everything that may go for this gang, the cheapest first. Without `sharing` the rule of the shares is left
    out: all that other queues borrow."""
    if not request.preempts:
        return []
    demand = demand_of(request, 0, request.minimum)
    found = []
    for crew in _within_reach(cycle, request):
        victim = crew.request
        if crew.leaving or not victim.preemptible or victim.job_uid == request.job_uid:
            continue
        if _may(cycle, request, demand, crew, sharing):
            found += _parts(cycle, crew)
    return sorted(found, key=lambda part: (part.price, part.crew.request.name, -part.workers[0].index))


def _within_reach(cycle: Cycle, request: GangRequest) -> Iterable[Crew]:
    """Whoever may have to go for this gang by its queue and priority, or by the rule of its queue."""
    if request.queue not in cycle.sharing:
        yield from cycle.ranks(request.queue, request.priority)
    else:
        yield from cycle.ranks(request.queue)
    if cycle.book.counts(request.queue):
        for name in cycle.book.accounts:
            if name != request.queue and cycle.book.borrows(name):
                yield from cycle.ranks(name)


def _may(cycle: Cycle, request: GangRequest, demand: dict[str, int], crew: Crew, sharing: bool) -> bool:
    book, victim = cycle.book, crew.request
    if victim.queue == request.queue:
        turns = cycle.sharing.get(request.queue)
        return victim.priority < request.priority or (turns is not None and turns.outserves(request, victim))
    if not book.counts(request.queue) or not book.borrows(victim.queue):
        return False
    if not sharing or book.within_nominal(request.queue, demand):
        return True
    mine = book.share(request.queue, demand, beside=victim.queue)
    gone = {kind: -amount for kind, amount in charge(cycle.index, crew, crew.workers).items()}
    return mine <= book.share(victim.queue, gone, beside=request.queue)


def _parts(cycle: Cycle, crew: Crew) -> list[Candidate]:
    """A crew's surplus worker by worker, last rank first, then all of it."""
    request, book = crew.request, cycle.book
    share = -book.share(request.queue) if book.counts(request.queue) else 0.0
    parts = []
    staying = [worker for worker in crew.workers if worker.desired != "stop"]
    if crew.surplus and request.segment is None and not request.roles:
        stop = 0.0 if request.live else _lost(cycle, crew) / len(crew.workers)
        parts = [Candidate(crew, (worker,), True, (0.0, share, request.priority, stop)) for worker in reversed(staying)]
    if len(staying) == len(crew.workers) and not _protected(cycle, crew):
        parts.append(Candidate(crew, crew.workers, False, (1.0, share, request.priority, _lost(cycle, crew))))
    return parts


def _lost(cycle: Cycle, crew: Crew) -> float:
    """Device-seconds of work since its last checkpoint."""
    size = sum(max(1, len(worker.devices)) for worker in crew.workers)
    return max(0.0, cycle.now - crew.unsaved) * size


def _protected(cycle: Cycle, crew: Crew) -> bool:
    """Inside the time that its queue promises to whoever has begun."""
    queue = cycle.index.queues.get(crew.request.queue)
    least = queue.spec.get("minRuntime") if queue else None
    return least is not None and cycle.now < crew.since + parse_duration(least)


def find_victims(cycle: Cycle, request: GangRequest, candidates: Sequence[Candidate]) -> Choice | None:
    """The cheapest permitted victims over the domains in which the gang could lie."""
    search = _Search(cycle, request)
    if not candidates or search.attempt(candidates, None) is None:
        return None
    best: Choice | None = None
    for mask in _domains(cycle, request, candidates):
        near = [part for part in candidates if mask is None or _touches(cycle, part, mask)]
        found = search.cheapest(_spare(near), mask)
        if found is None and len(near) < len(candidates):
            found = search.cheapest(_spare([*near, *(part for part in candidates if part not in near)]), mask)
        if found is not None and (best is None or found.cost < best.cost):
            best = found
    return best


def eviction_of(request: GangRequest, choice: Choice) -> Eviction:
    """The decision, victim by victim."""
    victims: dict[str, Victim] = {}
    for part in choice.victims:
        job = part.crew.request.job_uid
        known = victims.get(job)
        if not part.surplus:
            victims[job] = Victim(job_uid=job, attempt_uid=part.crew.attempt.uid)
        elif known is None or known.workers:
            uids = (*(known.workers if known else ()), *(worker.uid for worker in part.workers))
            victims[job] = Victim(job_uid=job, attempt_uid=part.crew.attempt.uid, workers=uids)
    names = ", ".join(sorted({part.crew.request.name for part in choice.victims}))
    message = f"{names} makes room for {request.name}"
    return Eviction(job_uid=request.job_uid, victims=tuple(victims.values()), workers=choice.workers, message=message)


def _spare(parts: Iterable[Candidate]) -> list[Candidate]:
    """No more surplus of a crew than it has."""
    seen: Counter[str] = Counter()
    kept = []
    for part in parts:
        if part.surplus:
            seen[part.crew.attempt.uid] += 1
            if seen[part.crew.attempt.uid] > part.crew.surplus:
                continue
        kept.append(part)
    return kept


def _touches(cycle: Cycle, part: Candidate, mask: Bools) -> bool:
    places = cycle.fabric.positions
    return any(worker.node in places and mask[places[worker.node]] for worker in part.workers)


def _domains(cycle: Cycle, request: GangRequest, candidates: Sequence[Candidate]) -> list[Bools | None]:
    """Masks of the domains of the required level, those with the fewest candidates first; the whole cluster where
    nothing is required."""
    fabric = cycle.fabric
    depth = fabric.depth(request.required_level)
    if not depth:
        return [None]
    level = fabric.levels[depth]
    touched: Counter[int] = Counter()
    for part in candidates:
        for domain in {int(level.of[fabric.positions[w.node]]) for w in part.workers if w.node in fabric.positions}:
            touched[domain] += 1
    free = eligible(fabric, depth, (depth,))
    order = sorted((count, domain) for domain, count in touched.items() if free[domain])
    return [level.of == domain for _, domain in order[:DOMAINS]]


class _Search:
    """Trials of victims for one gang."""

    def __init__(self, cycle: Cycle, request: GangRequest) -> None:
        self._cycle, self._request = cycle, request
        self._room: Room | None = None
        self._gone: dict[str, WorkerRecord] = {}  # in the room

    def _without(self, going: dict[str, WorkerRecord], mask: Bools | None) -> Room:
        """The room without these workers: the one room of all trials, in which only what differs is changed."""
        index = self._cycle.index
        if self._room is None:
            self._room = self._cycle.for_whom(self._request).copy()
        occupy(index, self._room, [worker for uid, worker in self._gone.items() if uid not in going])
        vacate(index, self._room, [worker for uid, worker in going.items() if uid not in self._gone])
        self._gone = going
        if mask is not None:
            self._room.keep(mask)
        return self._room

    def attempt(self, parts: Sequence[Candidate], mask: Bools | None) -> tuple[WorkerPlacement, ...] | None:
        """Where the gang lies with these gone; None where it does not fit or the books do not allow it."""
        cycle, legal = self._cycle, self._legal(parts)
        going: dict[str, WorkerRecord] = {}
        for part in legal:
            going |= {worker.uid: worker for worker in part.workers}
        room = self._without(going, mask)
        booked = _charges(cycle, legal)
        for queue, demand in booked:
            cycle.book.add(queue, demand, -1)
        found = cycle.place(room, self._request, mask)
        for queue, demand in booked:
            cycle.book.add(queue, demand)
        if found is None:
            return None
        give_back(room, cycle.index, self._request, found[1])
        return found[1]

    def _legal(self, parts: Sequence[Candidate]) -> list[Candidate]:
        """A queue loses no more when it borrows no more."""
        book, legal = self._cycle.book, list[Candidate]()
        undone = []
        for part in parts:
            queue = part.crew.request.queue
            if queue != self._request.queue and not book.borrows(queue):
                continue
            legal.append(part)
            for name, demand in _charges(self._cycle, [part]):
                book.add(name, demand, -1)
                undone.append((name, demand))
        for name, demand in undone:
            book.add(name, demand)
        return _without_doubles(legal)

    def cheapest(self, parts: Sequence[Candidate], mask: Bools | None) -> Choice | None:
        """The shortest beginning of the list with which it fits, less all that is not needed; and better than that,
        where the list is short, any one or two."""
        if self.attempt(parts, mask) is None:
            return None
        low, high = 1, len(parts)
        while low < high:
            middle = (low + high) // 2
            if self.attempt(parts[:middle], mask) is not None:
                high = middle
            else:
                low = middle + 1
        found = self._trimmed(self._legal(parts[:high]), mask)
        surplus = [part for part in parts if part.surplus]
        whole = [part for part in parts if not part.surplus]
        if found is not None and found.cost[1] and len(whole) <= EXACT:
            for size in (1, 2):
                for few in combinations(whole, size):
                    found = self._better(found, [*surplus, *few], mask)
        return found

    def _better(self, known: Choice, parts: Sequence[Candidate], mask: Bools | None) -> Choice:
        gone = [part for part in parts if not part.surplus]
        if (max(part.crew.request.priority for part in gone), len(gone)) > known.cost[:2]:
            return known
        if self.attempt(parts, mask) is None:
            return known
        other = self._trimmed(self._legal(parts), mask)
        return other if other is not None and other.cost < known.cost else known

    def _trimmed(self, parts: Sequence[Candidate], mask: Bools | None) -> Choice | None:
        """Without whoever could stay, the dearest first."""
        kept = list(parts)
        workers = self.attempt(kept, mask)
        if workers is not None:
            nodes = {worker.node for worker in workers}
            near = [part for part in kept if any(worker.node in nodes for worker in part.workers)]
            if len(near) < len(kept) and self.attempt(near, mask) is not None:
                kept = near
        for part in sorted(kept, key=lambda part: part.price, reverse=True):
            fewer = [other for other in kept if other is not part]
            if fewer and self.attempt(fewer, mask) is not None:
                kept = fewer
        workers = self.attempt(kept, mask)
        return Choice(tuple(self._legal(kept)), workers) if workers is not None else None


def _charges(cycle: Cycle, parts: Iterable[Candidate]) -> list[tuple[str, dict[str, int]]]:
    """What the books get back, by queue, with no worker counted twice."""
    if not cycle.book.kinds():
        return []
    return [(part.crew.request.queue, charge(cycle.index, part.crew, part.workers)) for part in _without_doubles(parts)]


def _without_doubles(parts: Iterable[Candidate]) -> list[Candidate]:
    """Where all of a crew goes, its surplus is not named beside it."""
    known = list(parts)
    whole = {part.crew.attempt.uid for part in known if not part.surplus}
    return [part for part in known if not part.surplus or part.crew.attempt.uid not in whole]
