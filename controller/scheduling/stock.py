"""What the plans over one line of indexes remember between them. It never changes an answer, only its price: every
entry says for which state of the cluster it holds, and is brought up to the index that asks."""

from collections.abc import Callable, Hashable
from itertools import count
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from controller.scheduling.columns import Columns
from controller.scheduling.fabric import Fabric, Ints
from controller.scheduling.kinds import Kind, anybody, wish_of
from controller.scheduling.room import Room
from controller.scheduling.types import GangRequest
from muster.protocol import Device

Found = TypeVar("Found")


class Stock:
    """Shared by an index and all that are made from it by `apply`."""

    def __init__(self) -> None:
        self._stamps = count(1)
        self._kinds: WeakValueDictionary[GangRequest, Kind] = WeakValueDictionary()
        self._rooms: list[Room] = []
        self._facts: dict[Hashable, tuple[tuple[object, ...], Any]] = {}

    def stamp(self) -> int:
        """A number that nothing else in this line of indexes has."""
        return next(self._stamps)

    def kind(self, request: GangRequest) -> Kind:
        """The one kind of all requests like this one."""
        bare = anybody(request)
        found = self._kinds.get(bare)
        if found is None:
            wish = wish_of(bare)
            found = Kind(bare, None if wish == bare else self._interned(wish))
            self._kinds[bare] = found
        return found

    def room(
        self,
        fabric: Fabric,
        free: Columns,
        stamps: Ints,
        devices_of: Callable[[str], list[Device]],
        carded: frozenset[str],
    ) -> Room:
        """A room that is as free as an index says. The last plan's is brought up to that where it can be; only one plan
        at a time has it."""
        try:
            room = self._rooms.pop()
        except IndexError:
            return Room(fabric, free, devices_of, carded, stamps)
        return (
            room
            if room.renew(fabric, free, devices_of, carded, stamps)
            else Room(fabric, free, devices_of, carded, stamps)
        )

    def give_back(self, room: Room) -> None:
        """The plan that took it has ended."""
        self._rooms[:] = [room]

    def fact(self, name: Hashable, of: tuple[object, ...], find: Callable[[], Found]) -> Found:
        """What follows from these objects alone, which are never changed: found once for as long as they stay the same."""
        known = self._facts.get(name)
        if known is not None and len(known[0]) == len(of) and all(a is b for a, b in zip(known[0], of, strict=True)):
            found: Found = known[1]
            return found
        found = find()
        self._facts[name] = (of, found)
        return found

    def last(self, name: Hashable) -> Any:
        """What was found by this name before, from whatever objects; None without it."""
        known = self._facts.get(name)
        return known[1] if known is not None else None

    def _interned(self, wish: GangRequest) -> Kind:
        found = self._kinds.get(wish)
        if found is None:
            found = self._kinds[wish] = Kind(wish, None)
        return found
