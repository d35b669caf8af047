"""The reasons of a plan: one sentence for all that ask for the same, told to each when it is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from msgspec.structs import replace

from controller.scheduling.kinds import Kind
from controller.scheduling.types import GangRequest, Wait


class Waits(Sequence[Wait]):
    """A `Wait` for each gang that waits, in the order in which they were served. `entries` are the gangs, each
    with a reason of its own or with the kind whose reason it shares."""

    def __init__(self, entries: Sequence[tuple[GangRequest, Kind | Wait]], shared: Mapping[Kind, Wait]) -> None:
        self._entries, self._shared = entries, shared

    def each(self) -> Iterator[tuple[str, Wait]]:
        """(job uid, its reason): the same object for all that share it, whose `job_uid` is one of theirs."""
        shared = self._shared
        for request, reason in self._entries:
            yield request.job_uid, shared[reason] if isinstance(reason, Kind) else reason

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

    def _told(self, entry: tuple[GangRequest, Kind | Wait]) -> Wait:
        request, reason = entry
        return replace(self._shared[reason], job_uid=request.job_uid) if isinstance(reason, Kind) else reason
