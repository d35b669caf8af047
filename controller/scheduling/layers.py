"""A table of which another version costs what differs, not what there is."""

from collections.abc import Hashable, ItemsView, Iterator, Mapping, ValuesView
from typing import Any, Final, TypeVar, overload

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Other = TypeVar("Other")

LARGE = 1024
"""Differences from which on a version becomes a table of its own."""

_GONE: Final[Any] = object()
_NONE: Final[Any] = object()


class Layers(Mapping[Key, Value]):
    """A table that nobody changes any more, and what is different from it. A version is written only by who made it
    with `branch`, until it is handed on."""

    __slots__ = ("_base", "_over", "_size")

    def __init__(self, base: dict[Key, Value] | None = None) -> None:
        self._base: dict[Key, Value] = {} if base is None else base
        self._over: dict[Key, Value] = {}
        self._size = len(self._base)

    @staticmethod
    def of(table: Mapping[Key, Value]) -> "Layers[Key, Value]":
        """A table as one that has versions."""
        return table if isinstance(table, Layers) else Layers(dict(table))

    def branch(self) -> "Layers[Key, Value]":
        """Another version, to be written."""
        other: Layers[Key, Value] = Layers.__new__(Layers)
        other._base, other._over, other._size = self._base, dict(self._over), self._size
        return other

    def settled(self) -> "Layers[Key, Value]":
        """The same, as a table of its own where much differs."""
        much = len(self._over) > min(LARGE, len(self._base))
        return Layers(dict(self.items())) if much else self

    def put(self, key: Key, value: Value) -> None:
        self._size += key not in self
        self._over[key] = value

    def drop(self, key: Key) -> Value | None:
        """Take out what is there, if anything is."""
        found = self.get(key)
        if key in self:
            self._size -= 1
            if key in self._base:
                self._over[key] = _GONE
            else:
                del self._over[key]
        return found

    def __getitem__(self, key: Key) -> Value:
        found: Value = self._over.get(key, _NONE)
        if found is _NONE:
            return self._base[key]
        if found is _GONE:
            raise KeyError(key)
        return found

    @overload
    def get(self, key: Key, /) -> Value | None: ...
    @overload
    def get(self, key: Key, /, default: Value | Other) -> Value | Other: ...
    def get(self, key: Key, /, default: Any = None) -> Any:
        found = self._over.get(key, _NONE)
        if found is _NONE:
            return self._base.get(key, default)
        return default if found is _GONE else found

    def __contains__(self, key: object) -> bool:
        found = self._over.get(key, _NONE)  # type: ignore[arg-type]
        return key in self._base if found is _NONE else found is not _GONE

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Key]:
        if not self._over:
            return iter(self._base)
        return self._merged()

    def _merged(self) -> Iterator[Key]:
        over, base = self._over, self._base
        for key in base:
            if over.get(key, _NONE) is not _GONE:
                yield key
        for key in over:
            if key not in base:
                yield key

    def items(self) -> ItemsView[Key, Value]:
        return self._base.items() if not self._over else self._alive().items()

    def values(self) -> ValuesView[Value]:
        return self._base.values() if not self._over else self._alive().values()

    def _alive(self) -> dict[Key, Value]:
        found = {**self._base, **self._over}
        for key, value in self._over.items():
            if value is _GONE:
                del found[key]
        return found
