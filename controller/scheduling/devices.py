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


def choose_devices(
    free: Iterable[Device], count: int, joined: bool = False, rails: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """Indexes of `count` devices out of `free`: from one interconnect group where one has room, the one that fits
    tightest; else from the fewest groups (`joined`: never). Whole cards only, so that it may be more than `count`;
    with `rails` exactly the devices of these. Lowest indexes first. Empty when that cannot be."""
    devices = list(free)
    if rails:
        return tuple(sorted(device.index for device in devices if device.nic in rails))
    indexes = [] if joined else [device.index for device in devices if device.group is None and device.card is None]
    if len(indexes) == len(devices):
        return tuple(sorted(indexes)[:count]) if len(indexes) >= count else ()
    holes = sorted(_holes(devices), key=lambda hole: (sum(map(len, hole)), hole[0]))
    cards = [sum(map(len, hole)) for hole in holes]
    if joined:
        cards = [size if size >= count else 0 for size in cards]
        best = next((place for place, size in enumerate(cards) if size), None)
        cards = [size if place == best else 0 for place, size in enumerate(cards)]
    if sum(cards) < count:
        return ()
    chosen: list[int] = []
    for hole, part in zip(holes, fewest(cards, count), strict=True):
        taken: list[int] = []
        for card in hole:
            if len(taken) >= part:
                break
            taken += card
        chosen += taken
    return tuple(sorted(chosen))


def worker_units(free: Iterable[Device], count: int, joined: bool, rails: tuple[int, ...]) -> int:
    """How many workers of `count` devices each the free devices of one kind hold."""
    devices = list(free)
    if rails:
        return int(set(rails) <= {device.nic for device in devices})
    holes = _holes(devices)
    if joined:
        return sum(_workers(hole, count) for hole in holes)
    return _workers([card for hole in holes for card in hole], count)


def _workers(cards: Sequence[Sequence[int]], count: int) -> int:
    """Each worker takes whole cards."""
    size = max((len(card) for card in cards), default=1)
    return len(cards) // -(-count // size)


def _holes(devices: Iterable[Device]) -> list[list[list[int]]]:
    """The free devices by interconnect group, in cards. Devices without a card are cards of their own; a card of
    which a part is taken is of no use."""
    groups: dict[int | None, dict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    size: dict[tuple[int, int], int] = {}
    for device in devices:
        key = (0, device.card) if device.card is not None else (1, device.index)
        groups[device.group][key].append(device.index)
        size[key] = len(groups[device.group][key])
    whole = max((size[key] for key in size if key[0] == 0), default=1)
    holes = []
    for cards in groups.values():
        hole = sorted(sorted(card) for key, card in cards.items() if key[0] == 1 or len(card) == whole)
        if hole:
            holes.append(hole)
    return holes
