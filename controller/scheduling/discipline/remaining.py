"""Time-sharing by expected remaining work, learned from past runs of the same program.

A discipline that a queue may choose: what is expected to end soonest is served first, so that short jobs do not
wait behind long ones. Work is attained service in device-seconds (devices held x seconds), the one measure that
needs no promise of the user. Sizes of one program are alike; and a program that has not ended yet is at least as
large as the most that any of its runs has attained, which keeps a long newcomer from looking short.
Jobs whose program has no name are ordered by the service that they have attained.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from msgspec import Struct

RESTART = 30.0  # seconds that a start costs a job, by default
LEVELS = (2.5 * 3600, 20 * 3600)  # device-seconds: where a job without history falls to the next level
OVERDUE = 0.1  # of the largest known size: what is expected beyond it
SETTLED, LASTING, SMALL = 300.0, 600.0, 4  # seconds since the last change; seconds left; devices


class Work(Struct, frozen=True, kw_only=True):
    """One live job as the discipline sees it. `attained` is in device-seconds, over all its attempts; `program`
    names what it runs, the same for all runs of it ("" when nobody knows)."""

    job: str
    program: str
    devices: int
    attained: float
    running: bool
    submitted: float


class Served(Struct, frozen=True):
    """A job, and what it is expected to need yet, in device-seconds."""

    job: str
    remaining: float


def by_remaining(works: Sequence[Work], sizes: Mapping[str, Sequence[float]], restart: float = RESTART) -> list[Served]:
    """The order of service. `sizes` are the attained device-seconds of completed runs, ascending, by program.

    A running job counts half of what it has left, so that jobs of one size do not take turns; a waiting one counts
    the restart as well.
    """
    most: dict[str, float] = {}
    for work in works:
        most[_program(work)] = max(most.get(_program(work), 0.0), work.attained)
    rows = []
    for work in works:
        known = sizes.get(work.program, ()) if work.program else ()
        left = remaining(work.attained, known, most[_program(work)])
        index = left / 2 if work.running else left + restart * work.devices
        rows.append((index, not work.running, work.submitted, work.job, left))
    return [Served(job, left) for *_, job, left in sorted(rows)]


def by_attained(works: Sequence[Work], levels: Sequence[float] = LEVELS) -> list[Served]:
    """The order of service where nothing can be learned: levels of attained service, the least first; within a level
    who has most is nearest to its end."""
    rows = [
        (bisect_right(levels, work.attained), -work.attained, not work.running, work.submitted, work.job)
        for work in works
    ]
    return [Served(job, -attained) for _, attained, *_, job in sorted(rows)]


def remaining(attained: float, sizes: Sequence[float], most: float) -> float:
    """Expected device-seconds to the end of a run that has attained so many, of a program with these completed sizes
    (ascending), of which some run, live ones included, has attained `most`."""
    longer = sizes[bisect_right(sizes, attained) :]
    if longer:
        return sum(longer) / len(longer) - attained
    if sizes:
        return attained - sizes[-1] + OVERDUE * sizes[-1]
    return 2 * max(most, attained) - attained


def worth_moving(devices: int, remaining: float, since_change: float) -> bool:
    """Whether a small job that lies on more nodes than it needs shall be moved: it has settled, and what it gains
    outlasts the restart."""
    return devices <= SMALL and since_change >= SETTLED and remaining > LASTING * devices


def _program(work: Work) -> str:
    return work.program or f"\0{work.job}"
