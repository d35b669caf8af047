"""The reasons of a plan: one sentence for all that ask for the same, told to each when it is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from msgspec.structs import replace

from controller.scheduling.kinds import Asked, Kind
from controller.scheduling.types import GangRequest, Wait

Entry = Asked | tuple[GangRequest, Wait]
"""A gang that shares the reason of its kind, or one with a reason of its own."""


class Waits(Sequence[Wait]):
    """A `Wait` for each gang that waits, in the order in which they were served. `shared` are the reasons
    of the kinds."""

    def __init__(self, entries: Sequence[Entry], shared: Mapping[Kind, Wait]) -> None:
        self._entries, self._shared = entries, shared

    def each(self) -> Iterator[tuple[str, Wait]]:
        """(job uid, its reason): the same object for all that share it, whose `job_uid` is one of theirs."""
        shared = self._shared
        for entry in self._entries:
            if isinstance(entry, Asked):
                yield entry.request.job_uid, shared[entry.kind]
            else:
                yield entry[0].job_uid, entry[1]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Wait]:
        return map(self._told, self._entries)

    @overload
    def __getitem__(self, at: int) -> Wait: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Wait]: ...
    def __getitem__(self, at: int | slice) -> Wait | Sequence[Wait]:
        if isinstance(at, slice):
            return tuple(map(self._told, self._entries[at]))
        return self._told(self._entries[at])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Waits({list(self)!r})"

    def _told(self, entry: Entry) -> Wait:
        if isinstance(entry, Asked):
            return replace(self._shared[entry.kind], job_uid=entry.request.job_uid)
        return entry[1]
