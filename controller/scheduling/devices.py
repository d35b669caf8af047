"""Inside a node: which devices a worker gets."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from muster.protocol import Device


def fewest(rooms: Sequence[int], need: int) -> dict[int, int]:
    """How much to take from each of `rooms` (sizes in order of preference among equals): the fewest of them, and
    of those the smallest, so that large ones stay whole; the last and largest one gives only the rest.
    `sum(rooms) >= need > 0` is the caller's to know."""
    order = sorted((index for index, room in enumerate(rooms) if room > 0), key=lambda index: rooms[index])
    running = [0]
    for index in order:
        running.append(running[-1] + rooms[index])
    total, size = running[-1], len(order)
    left = next(count for count in range(1, size + 1) if total - running[size - count] >= need)
    taken: dict[int, int] = {}
    for index in order:
        if left and rooms[index] + total - running[size - left + 1] >= need:
            taken[index] = min(rooms[index], need)
            need -= taken[index]
            left -= 1
    return taken


def choose_devices(free: Iterable[Device], count: int) -> tuple[int, ...]:
    """Indexes of `count` devices out of `free`: from one interconnect group where one has room, the one that fits
    tightest, lowest indexes first; else from the fewest groups."""
    groups: dict[int, list[int]] = defaultdict(list)
    for device in free:
        groups[device.group if device.group is not None else -1].append(device.index)
    if not count:
        return ()
    names = sorted(groups, key=lambda name: (len(groups[name]), min(groups[name])))
    taken = fewest([len(groups[name]) for name in names], count)
    return tuple(sorted(index for name, part in taken.items() for index in sorted(groups[names[name]])[:part]))
