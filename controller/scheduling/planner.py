"""The planner: one pure function from the picture of the cluster to what starts, who makes room, and why the rest
waits.

Every waiting gang in turn is placed whole on what is left after those before it. A gang that does not fit first looks
for permitted victims; what it is promised is kept for it. One that neither fits nor may evict changes nothing for those
after it, save that the first whose start can be dated is not delayed by them. What has not fitted once does not fit
later in the same plan, since room only shrinks: gangs that ask for the same share one answer, and the reasons speak
of what is left at the end.
"""

import heapq
from collections.abc import Iterator

from msgspec.structs import replace

from controller.scheduling.again import next_date
from controller.scheduling.allowed import mask_of
from controller.scheduling.aside import stops
from controller.scheduling.backfill import reserve
from controller.scheduling.book import demand_of
from controller.scheduling.claims import bind, of_claim, take_over
from controller.scheduling.consolidation import migrations_for
from controller.scheduling.cycle import Cycle, only_nodes
from controller.scheduling.elastic import grow
from controller.scheduling.gathering import gather
from controller.scheduling.index import ClusterIndex, empty_room
from controller.scheduling.kinds import Asked, Kind
from controller.scheduling.reasons import explain, fits_some, refusal, scene
from controller.scheduling.sharing import in_turn, sharings
from controller.scheduling.turnover import turn_over
from controller.scheduling.types import (
    DecisionGroup,
    Eviction,
    GangRequest,
    Migration,
    Plan,
    Reservation,
    Start,
    Turnover,
    Wait,
)
from controller.scheduling.usage import past_share
from controller.scheduling.victims import eviction_of, find_victims, permitted
from controller.scheduling.waits import Entry
from controller.scheduling.why import Why, alerts
from muster.reasons import Waiting

DATED = 8
"""Blocked gangs for which a date is looked for in one plan."""


def plan(index: ClusterIndex, now: float, *, reasons: bool = True) -> Plan:
    """What starts now, and why the rest waits (unless nobody asks for `reasons`), in the order of service. `now` is UTC
    seconds."""
    if not index.asks:
        return Plan(alerts=alerts(index))
    planner = _Planner(index, now)
    decided = planner.run(reasons)
    index.stock.give_back(planner.cycle.room)
    return decided


def fits_empty(index: ClusterIndex, request: GangRequest) -> Wait | None:
    """None when the gang would fit if nothing ran (or names a level that does not exist); else the warning
    STRUCTURAL with what the cluster has. Nodes may come."""
    empty = empty_room(index)
    mask = mask_of(index.fabric, index.nodes, request)
    if refusal(index, request) is not None or fits_some(empty, request, mask):
        return None
    wait = explain(scene(index, empty), request, mask)
    return replace(wait, code=Waiting.STRUCTURAL, others=())


class _Planner:
    """One plan: the cycle, and what has been decided so far."""

    def __init__(self, index: ClusterIndex, now: float) -> None:
        self.cycle = Cycle(index, now)
        self.index, self.now = index, now
        self.why = Why(self.cycle)
        self.groups: list[DecisionGroup] = []
        self.evictions: list[Eviction] = []
        self.migrations: list[Migration] = []
        self.reservations: list[Reservation] = []
        self.released: list[str] = []
        self.waiting: list[Entry] = []
        self.kinds: dict[Kind, GangRequest] = {}  # of those that wait and share a reason, with one of each
        self.claims: list[GangRequest] = []
        self.refused: dict[object, set[Kind]] = {}  # by what else decides: whether they end before what is reserved
        self.refused_to_all = self.refused.setdefault(False, set())
        self.refusals: dict[Kind, Wait | None] = {}
        self.dated = 0
        self.charges: dict[str, int] = {}
        self.turnovers: dict[str, Turnover] = {}

    def run(self, reasons: bool) -> Plan:
        self.cycle.sharing = sharings(self.cycle)
        bind(self.cycle)
        self._serve_all()
        for queue in sorted(self.cycle.sharing):
            self._turn_over(queue)
        growths = grow(self.cycle) if self.index.elastic else ()
        if self.cycle.sharing:
            self.migrations += gather(self.cycle, self.cycle.sharing)
        return Plan(
            groups=tuple(self.groups),
            waits=self.why.all(self.waiting, self.kinds) if reasons else (),
            evictions=tuple(self.evictions),
            migrations=tuple(self.migrations),
            growths=growths,
            stops=stops(self.cycle) if self.index.windows else (),
            turnovers=tuple(one for one in self.turnovers.values() if one.stops or one.moves or one.claims),
            reservations=tuple(self.reservations),
            released=tuple(self.released),
            alerts=alerts(self.index),
            charges=self.charges,
            again=next_date(self.cycle, self.claims, bool(self.waiting)),
        )

    def _serve_all(self) -> None:
        """In turn. Most of those that wait ask for what was refused already: they cost next to nothing."""
        refused, kinds, waits = self.refused_to_all, self.kinds, self.waiting.append
        alike = not self.cycle.aside
        for asked in self._turns():
            kind = asked.kind
            if alike and kind.wish in refused and kind in kinds and kind.plain and self.cycle.kept is None:
                waits(asked)
            elif self._known(asked):
                self._waits(asked)
            else:
                self._serve(asked)

    def _turns(self) -> Iterator[Asked]:
        """Repairs first; then queues in which somebody has a claim, of whom only his betters come before him; then the
        queue that would have the smallest share, or has had the least of late; in a queue by the order of service. A queue's share is looked at
        again after each of its turns. Who asks for what was refused already is not waited for."""
        order = in_turn(self.index.order, self.cycle.sharing)
        if not self.cycle.book.kinds():
            yield from order
            return
        lanes: dict[str, list[Asked]] = {}
        for asked in reversed(order):
            lane = asked.request.queue if self.cycle.book.counts(asked.request.queue) else ""
            lanes.setdefault(lane, []).append(asked)
        claims = {lane: sum(asked.request.claim is not None for asked in line) for lane, line in lanes.items()}
        heap = [(*self._turn(lane, line[-1].request, claims[lane]), lane) for lane, line in lanes.items()]
        heapq.heapify(heap)
        while heap:
            lane = heap[0][-1]
            line = lanes[lane]
            asked = line.pop()
            claims[lane] -= asked.request.claim is not None
            yield asked
            while line and self._known(line[-1]):
                self._waits(line.pop())
            if line:
                heapq.heapreplace(heap, (*self._turn(lane, line[-1].request, claims[lane]), lane))
            else:
                heapq.heappop(heap)

    def _turn(self, lane: str, head: GangRequest, claims: int) -> tuple[bool, bool, float, float, int, float, str, str]:
        share = self.cycle.book.share(lane, demand_of(head, 0, head.minimum)) if lane else 0.0
        past = past_share(self.index.queues.get(lane), self.cycle.book.kinds(), self.now)
        return not head.repair, not claims, share, past, -head.priority, head.queued_at, head.namespace, head.name

    def _known(self, asked: Asked) -> bool:
        """Whether what decides about a gang was refused to another already."""
        kind, cycle = asked.kind, self.cycle
        if not kind.plain:
            return False
        if cycle.kept is None and not cycle.aside:
            return kind.wish in self.refused_to_all
        return kind.wish in self._refused(asked.request)

    def _refused(self, request: GangRequest) -> set[Kind]:
        """What was refused to others who stand as this gang does to what is reserved and set aside."""
        before = self._before(request)
        key = (before, self.cycle.bars(request)) if self.cycle.aside else before
        return self.refused.setdefault(key, set())

    def _before(self, request: GangRequest) -> bool:
        """Whether a gang ends before what is reserved."""
        cycle = self.cycle
        return cycle.kept is not None and request.limit is not None and cycle.now + request.limit <= cycle.kept_until

    def _refusal(self, asked: Asked) -> Wait | None:
        """What keeps a gang from being planned at all; the same for all of a kind that wait for nobody."""
        if asked.request.after:
            return refusal(self.index, asked.request)
        if asked.kind not in self.refusals:
            self.refusals[asked.kind] = refusal(self.index, asked.request)
        known = self.refusals[asked.kind]
        return replace(known, job_uid=asked.request.job_uid) if known else None

    def _serve(self, asked: Asked) -> None:
        request = asked.request
        unplanned = self._refusal(asked)
        if unplanned is not None:
            self.waiting.append((request, unplanned))
            return
        if request.claim is not None:
            self.claims.append(request)
            request = self._by_claim(request)
            if request.claim is not None:
                return
        capped = self.cycle.caps.refusal(request) if self.cycle.caps else None
        if capped is not None:
            self.waiting.append((request, capped))
            return
        sharing = self.cycle.sharing.get(request.queue)
        if sharing is not None and sharing.sizes is not None and not request.repair:
            self._turn_over(request.queue)
            return
        if request.repair and request.job_uid not in self.cycle.uncharged:
            self.cycle.book.add(request.queue, demand_of(request, 0), -1)
        elif asked.kind.wish in self._refused(request):
            self._waits(asked)
            return
        start = self.cycle.start(request)
        if start is not None:
            self._start(start)
        elif not self._make_room(request):
            self._blocked(asked, request)

    def _turn_over(self, queue: str) -> None:
        """Divide the queue's devices, once in a plan: when the first of its gangs is served, or at the end."""
        sharing, cycle = self.cycle.sharing[queue], self.cycle
        if sharing.sizes is None or queue in self.turnovers:
            return
        crews = [crew for crew in cycle.crews.values() if crew.request.queue == queue and not crew.leaving]
        asked = [one.request for one in self.index.order if one.request.queue == queue]
        waiting = [request for request in asked if request.claim is None and not request.repair]
        made, starts = turn_over(cycle, queue, sharing.sizes, crews, waiting)
        self.turnovers[queue] = made
        for request, workers in starts:
            self._start(cycle.begin(request, workers))
        gone = {one.job_uid for one in made.stops} | {one.job_uid for one in made.moves}
        uids = {worker.uid for uid in gone for worker in cycle.crews[uid].workers}
        cycle.depart(uids)
        cycle.promised |= uids
        for uid, placed in made.places():
            cycle.hold(self.index.asks[uid], [worker.node for worker in placed])
        claimed = {one.job_uid for one in made.claims} | {request.job_uid for request, _ in starts}
        for request in waiting:
            if request.job_uid not in {started.job_uid for started, _ in starts}:
                self.waiting.append((request, self.why.turn(request, request.job_uid in claimed)))

    def _waits(self, asked: Asked) -> None:
        self.waiting.append(asked)
        if asked.kind not in self.kinds:
            self.kinds[asked.kind] = asked.request

    def _start(self, start: Start) -> None:
        reads = tuple(dict.fromkeys(worker.node for worker in start.workers))
        self.groups.append(DecisionGroup(start=start, reads=reads))

    def _by_claim(self, request: GangRequest) -> GangRequest:
        """Start on what was claimed, or wherever there is room by now; else keep what is vacated already. A claim that
        nobody is left to vacate, or that a better one has taken over, is void: the gang is planned anew. Past its deadline it
        is bound to another place, where there is one without a second signal."""
        claim = request.claim
        assert claim is not None
        bare = of_claim(request)
        start = self.cycle.start(bare, only_nodes(self.cycle.fabric, claim.nodes)) or self.cycle.start(bare)
        if start is not None:
            self._start(start)
            return request
        leaving = [uid for uid in claim.vacating if uid in self.index.homes and uid not in self.cycle.promised]
        if not leaving:
            self.released.append(request.job_uid)
            return replace(request, claim=None)
        if claim.deadline is not None and self.now >= claim.deadline:
            other = take_over(self.cycle, bare, but=leaving)
            if other is not None:
                self._claim(bare, other)
                return request
        self.cycle.promised.update(leaving)
        held = self.cycle.hold(request, claim.nodes)
        self.cycle.book.add(request.queue, demand_of(request, 0, len(held)))
        self.charges[request.job_uid] = sum(demand_of(request, 0, len(held)).values())
        self.waiting.append((request, self.why.vacating(request, leaving)))
        return request

    def _make_room(self, request: GangRequest) -> bool:
        """Evict, or move. True when something was decided for the gang."""
        if self.cycle.bounded and request.job_uid in self.cycle.bounded:
            return False
        choice = find_victims(self.cycle, request, permitted(self.cycle, request))
        if choice is None:
            return self._move(request, migrations_for(self.cycle, request))
        decided = take_over(self.cycle, request)
        if decided is None:
            decided = eviction_of(request, choice)
            self.cycle.depart(worker.uid for part in choice.victims for worker in part.workers)
        self._claim(request, decided)
        return True

    def _claim(self, request: GangRequest, decided: Eviction) -> None:
        self.evictions.append(decided)
        self.cycle.promised.update(decided.awaited)
        held = self.cycle.hold(request, [worker.node for worker in decided.workers])
        self.cycle.book.add(request.queue, demand_of(request, 0, len(held)))
        self.waiting.append((request, self.why.evicting(request, decided)))

    def _move(self, request: GangRequest, moves: tuple[Migration, ...]) -> bool:
        if not moves:
            return False
        self.migrations += moves
        for move in moves:
            crew = self.cycle.crews[move.job_uid]
            self.cycle.depart(worker.uid for worker in crew.workers)
            self.cycle.promised.update(worker.uid for worker in crew.workers)
            self.cycle.hold(crew.request, [worker.node for worker in move.workers])
        self.cycle.hold(request, [worker.node for worker in moves[0].room])
        self.waiting.append((request, self.why.moving(request, moves)))
        return True

    def _blocked(self, asked: Asked, request: GangRequest) -> None:
        self._waits(asked)
        self._refused(request).add(asked.kind.wish)
        if request.repair and request.preferred and request.job_uid not in self.cycle.uncharged:
            self.cycle.book.add(request.queue, demand_of(request, 0))
            self.cycle.hold(request, request.preferred)
            self.charges[request.job_uid] = sum(demand_of(request, 0).values())
            return
        if self.cycle.kept is None and self.dated < DATED and self.why.by_room(request):
            self.dated += 1
            reservation = reserve(self.cycle, request)
            if reservation is not None:
                self.reservations.append(reservation)
