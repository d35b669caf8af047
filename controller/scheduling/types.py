"""The planner's data: requests and placements in, decisions and reasons out.

    index = apply(index, changes)        (controller.scheduling.index)
    plan  = plan(index, now) -> Plan     (controller.scheduling.planner)

Both are pure: no clock, no randomness, no I/O. The same input in any order gives the same plan; ties
break by name.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from controller.records import Claim, Unmet
from muster.reasons import Waiting


class DeviceRequest(Struct, frozen=True, gc=False):
    """Devices of each worker: a catalogue type and a count. `joined`: all of one intra-node domain. `rails`: every
    worker of the gang has devices of the same rails."""

    type: str
    count: int
    joined: bool = False
    rails: bool = False


class Segment(Struct, frozen=True, gc=False):
    """Every `size` consecutive ranks share one domain of this level. `remainder`: what is left over at the end does, too."""

    size: int
    level: str
    remainder: bool = False


class Role(Struct, frozen=True, kw_only=True, gc=False):
    """One shape of a gang of several: so many workers, with a level that these alone must share."""

    name: str
    workers: int
    device: DeviceRequest | None
    cpu_milli: int
    memory: int
    required_level: str | None = None


class GangRequest(Struct, frozen=True, kw_only=True, gc=False):
    """One restart scope that wants to start, all workers or none. `options` are the acceptable accelerator
    kinds in order (empty: no devices needed), each with its own number of workers; `roles`, where there are any,
    stand for them. `minimum`: of an elastic gang, the workers without which it does not run. `preferred` nodes are
    taken where they still fit; `excluded` (after a failure there) are never taken, nor are nodes that `selector`,
    `included` (empty: all) and `barred` do not allow. `limit` in seconds. Order: repairs first, then priority
    (high first), then `queued_at`, then name."""

    job_uid: str
    namespace: str
    name: str
    scope: str = "gang"
    queue: str = "default"
    priority: int = 0
    queued_at: float = 0.0
    repair: bool = False
    options: tuple[tuple[DeviceRequest | None, int], ...] = ()
    roles: tuple[Role, ...] = ()
    minimum: int | None = None
    speeds: tuple[float, ...] = ()
    """How fast the whole gang is on each of its kinds, relative to each other; 0 where it is not said."""
    cpu_milli: int = 0
    memory: int = 0
    max_per_node: int = 1
    required_level: str | None = None
    preferred_level: str | None = None
    segment: Segment | None = None
    balanced: bool = False
    selector: tuple[tuple[str, str], ...] = ()
    included: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    tolerates: tuple[tuple[str, str | None], ...] = ()
    preferred: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    limit: float | None = None
    preemptible: bool = True
    preempts: bool = True
    migratable: bool = False
    saves: bool = False
    """It goes on from a checkpoint after a stop."""
    live: bool = False
    """It gains and loses workers while it runs; any other elastic gang is restarted in its new size."""
    charge: int | None = None
    after: tuple[Unmet, ...] = ()
    claim: Claim | None = None


class WorkerPlacement(Struct, frozen=True, gc=False):
    """One worker's node and devices. The order of the workers is the rank order along the fabric."""

    node: str
    devices: tuple[int, ...] = ()
    role: str = "worker"


class Start(Struct, frozen=True, kw_only=True, gc=False):
    """Start this gang here."""

    job_uid: str
    scope: str
    device_type: str | None
    workers: tuple[WorkerPlacement, ...]
    domain: str = ""  # the tightest fabric domain that holds them all, for people
    note: str = ""  # what its user should know of this placement


class DecisionGroup(Struct, frozen=True, kw_only=True, gc=False):
    """Committed whole or dropped whole. `reads` are the nodes whose state the decision rests on."""

    start: Start
    reads: tuple[str, ...] = ()


class Victim(Struct, frozen=True, kw_only=True, gc=False):
    """An attempt that must go, or an elastic one that gives these workers up (`workers` are uids, none: all go)."""

    job_uid: str
    attempt_uid: str
    workers: tuple[str, ...] = ()


class Eviction(Struct, frozen=True, kw_only=True, gc=False):
    """The victims whose going makes room for the beneficiary, and where it will lie: one transaction stops them all
    and gives it its claim, or does nothing. `awaited` are workers (uids) that are on their way out already."""

    job_uid: str
    victims: tuple[Victim, ...]
    workers: tuple[WorkerPlacement, ...]
    awaited: tuple[str, ...] = ()
    message: str = ""


class Migration(Struct, frozen=True, kw_only=True, gc=False):
    """A running gang goes elsewhere, so that the beneficiary finds a domain whole (`room` is where it will lie), or for
    its own good (then it is its own beneficiary). The destination is bound first."""

    job_uid: str
    attempt_uid: str
    workers: tuple[WorkerPlacement, ...]
    beneficiary: str
    room: tuple[WorkerPlacement, ...] = ()


class Growth(Struct, frozen=True, kw_only=True, gc=False):
    """More workers for an elastic gang that runs, out of what nobody waits for."""

    job_uid: str
    attempt_uid: str
    workers: tuple[WorkerPlacement, ...]


class Stop(Struct, frozen=True, kw_only=True, gc=False):
    """A gang that is to go from where it runs and be queued again; nobody in particular gains by it."""

    job_uid: str
    attempt_uid: str
    message: str


class Turnover(Struct, frozen=True, kw_only=True, gc=False):
    """The devices of a time-sharing queue, divided anew: who stops, who goes on in another size and place, and what those who wait
    claim of it. One transaction does all of it or nothing."""

    queue: str
    stops: tuple[Victim, ...] = ()
    moves: tuple[Migration, ...] = ()
    claims: tuple[Eviction, ...] = ()

    def places(self) -> tuple[tuple[str, tuple[WorkerPlacement, ...]], ...]:
        """(job uid, where it will lie) of all that move or claim."""
        moves = tuple((one.job_uid, one.workers) for one in self.moves)
        return (*moves, *((one.job_uid, one.workers) for one in self.claims))


class Reservation(Struct, frozen=True, kw_only=True, gc=False):
    """The first blocked gang whose start can be dated: when, UTC seconds, and where."""

    job_uid: str
    at: float
    nodes: tuple[str, ...]


class Wait(Struct, frozen=True, kw_only=True, gc=False):
    """Why a job is not running: the binding code first, a sentence with the numbers, what would help (hints, parted by
    semicolons), and the numbers by name."""

    job_uid: str
    code: Waiting
    message: str
    others: tuple[Waiting, ...] = ()
    helps: str = ""
    numbers: Mapping[str, int] = {}


class Plan(Struct, frozen=True):
    groups: tuple[DecisionGroup, ...] = ()
    waits: Sequence[Wait] = ()
    evictions: tuple[Eviction, ...] = ()
    migrations: tuple[Migration, ...] = ()
    growths: tuple[Growth, ...] = ()
    turnovers: tuple[Turnover, ...] = ()
    stops: tuple[Stop, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    released: tuple[str, ...] = ()
    """Jobs whose claim no longer serves."""
    alerts: tuple[str, ...] = ()
    charges: Mapping[str, int] = {}
    """Devices that waiting jobs are charged for: what was vacated for a claim, all of a gang that is being repaired."""
    again: float | None = None
    """When the plan may come out otherwise although nothing has changed, UTC seconds."""
