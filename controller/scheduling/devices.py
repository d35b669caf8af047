"""Which holes to use: of domains inside a domain, and of devices inside a node."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate

from muster.protocol import Device


def fewest(rooms: Sequence[int], need: int) -> list[int]:
    """How much to take from each of `rooms`, sizes in ascending order: from the fewest of them, and of those the
    smallest that still do, so that large ones stay whole. The last and largest one taken gives only the rest.
    Needs `sum(rooms) >= need > 0`."""
    size = len(rooms)
    largest = [0, *accumulate(reversed(rooms))]  # largest[k]: the sum of the k largest
    left = next(count for count in range(size + 1) if largest[count] >= need)
    taken = []
    for room in rooms:
        part = min(room, need) if left and room + largest[left - 1] >= need else 0
        taken.append(part)
        need -= part
        left -= part > 0
    return taken


def choose_devices(free: Iterable[Device], count: int) -> tuple[int, ...]:
    """Indexes of `count` devices out of `free` (at least so many): from one interconnect group where one has room,
    the one that fits tightest; else from the fewest groups. Lowest indexes first."""
    groups: dict[int | None, list[int]] = defaultdict(list)
    for device in free:
        groups[device.group].append(device.index)
    holes = sorted((sorted(indexes) for indexes in groups.values()), key=lambda hole: (len(hole), hole[0]))
    parts = fewest([len(hole) for hole in holes], count)
    return tuple(sorted(index for hole, part in zip(holes, parts, strict=True) for index in hole[:part]))
