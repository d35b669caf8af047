"""What the plans over one line of indexes remember between them. It never changes an answer, only its price: every
entry says for which state of the cluster it holds, and is brought up to the index that asks."""

from itertools import count
from weakref import WeakValueDictionary

from controller.scheduling.kinds import Kind, anybody, wish_of
from controller.scheduling.types import GangRequest


class Stock:
    """Shared by an index and all that are made from it by `apply`."""

    def __init__(self) -> None:
        self._stamps = count(1)
        self._kinds: WeakValueDictionary[GangRequest, Kind] = WeakValueDictionary()

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

    def _interned(self, wish: GangRequest) -> Kind:
        found = self._kinds.get(wish)
        if found is None:
            found = self._kinds[wish] = Kind(wish, None)
        return found
