"""What every writing method is made of: insert, move, patch, with the moves of `muster.states` in the WHERE."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, NoReturn

from sqlalchemy import Connection, exc, select

from controller.state import trail
from controller.state.appending import Buffer
from controller.state.changes import Reading
from controller.state.columns import rows_json
from controller.state.engine import meaning
from controller.state.errors import Conflict, IllegalMove, NotFound, StoreError, Taken
from controller.state.kinds import Kind, R
from controller.state.statements import batches, changing_all, insert_rows, moving, patching, select_by
from controller.state.types import Actor
from muster.clock import Clock

_FIXED = frozenset({"uid", "revision"})


class Transaction(Reading):
    """One transaction that may write. Reading a single record locks it until the end, so read, decide, patch is
    safe. A record that a method returns carries its new revision only after the commit (`revision_of`)."""

    locking = True
    revision: int
    """After the commit: the highest revision that was taken. 0 before, and when nothing in the log changed."""

    def __init__(self, connection: Connection, clock: Clock, new_id: Callable[[], str]) -> None:
        super().__init__(connection)
        self._clock, self._new_id = clock, new_id
        self._buffer = Buffer()
        self._spoilt: StoreError | None = None
        self.revision = 0
        self._revisions: dict[str, int] = {}
        self._born: set[str] = set()
        self._held: dict[tuple[str, str], Any] = {}

    @property
    def actor(self) -> Actor | None:
        """Who asked; what is written while it is set goes into the audit trail in his name."""
        return self._buffer.actor

    @actor.setter
    def actor(self, actor: Actor | None) -> None:
        self._buffer.actor = actor

    def revision_of(self, uid: str) -> int | None:
        """After the commit: the revision that this transaction gave to a record; None when it did not touch it."""
        return self._revisions.get(uid)

    def _finish(self) -> None:
        """The last statements before the commit."""
        if self._spoilt is not None:
            raise self._spoilt
        now = self._clock.now()
        trail.append(self._connection, trail.entries(self._buffer.touched(), now, self._new_id))
        self._revisions = self._buffer.write(self._connection, now)

    def _committed(self) -> None:
        self.revision = max(self._revisions.values(), default=0)

    def _spoil(self, refusal: StoreError, cause: BaseException | None = None) -> NoReturn:
        """Raise, and let nothing of this transaction commit even when someone catches it."""
        self._spoilt = refusal
        raise refusal from cause

    def _one(self, kind: Kind[R], **by: Any) -> R | None:
        """What this transaction holds nobody else can have changed."""
        if len(by) == 1 and (held := self._held.get((kind.name, by.get(kind.key, "")))) is not None:
            return held  # type: ignore[no-any-return]
        return super()._one(kind, **by)

    def _hold(self, kind: Kind[R], keys: Iterable[str]) -> dict[str, R]:
        """Lock these rows in one query, in one order for all transactions; reading one of them later asks no more."""
        found: dict[str, R] = {}
        for batch in batches(sorted(keys)):
            lock = self._dialect == "postgresql"
            statement = select_by(kind, kind.key, order=(kind.key,), lock=lock, many=True)
            found |= {getattr(one, kind.key): one for one in self._read(kind, statement, {kind.key: batch})}
        self._held |= {(kind.name, key): one for key, one in found.items()}
        return found

    def _insert(self, kind: Kind[R], records: Sequence[R], taken: str, **more: Any) -> None:
        """`taken` is what to say when a unique row stands in the way; `more` are columns beside the record's."""
        rows = [kind.values(record) | more for record in records]
        try:
            insert_rows(self._connection, kind.table, rows)
        except exc.IntegrityError as error:
            found = meaning(error)
            self._spoil(Taken(taken) if isinstance(found, Taken) else found, error)
        for record in records:
            self._born.add(record.uid)  # type: ignore[attr-defined]
            self._buffer.put(kind, record)

    def _patch(self, kind: Kind[R], key: str, fields: dict[str, Any], expect_revision: int | None = None) -> R:
        _check(kind, fields)
        if not fields:
            raise TypeError("nothing to patch")
        values = fields | {"the_key": key}
        if expect_revision is not None:
            values["the_revision"] = expect_revision
        row = self._connection.execute(patching(kind, expect_revision is not None), values).first()
        if row is None:
            self._refuse_patch(kind, key, expect_revision)
        return self._put(kind, kind.read(row), fields)

    def _replace(self, kind: Kind[R], record: R) -> R:
        """All columns of the row with the record's key."""
        key = getattr(record, kind.key)
        self._connection.execute(patching(kind, False), kind.values(record) | {"the_key": key})
        spec = getattr(record, "spec", None)
        return self._put(kind, record, {} if spec is None else {"spec": spec})

    def _move(self, kind: Kind[R], key: str, target: StrEnum, fields: dict[str, Any]) -> R:
        _check(kind, fields)
        row = self._connection.execute(moving(kind, target), fields | {"phase": target, "the_key": key}).first()
        if row is None:
            found = self._connection.execute(select(kind.table.c.phase).where(kind.table.c[kind.key] == key)).scalar()
            if found is None:
                raise NotFound(f"there is no {kind.name} {key}")
            raise IllegalMove(kind.name, key, str(found), str(target))
        return self._put(kind, kind.read(row), fields | {"phase": target})

    def _change_all(
        self, kind: Kind[R], rows: Sequence[tuple[str, dict[str, Any]]], target: StrEnum | None = None
    ) -> None:
        """The same fields of many rows, and their move to `target`, in one trip to a PostgreSQL."""
        if self._dialect != "postgresql" or len(rows) < 2:
            for key, fields in rows:
                _ = self._patch(kind, key, fields) if target is None else self._move(kind, key, target, fields)
            return
        names = tuple(rows[0][1])
        for _, fields in rows:
            _check(kind, fields)
        more = {} if target is None else {"phase": target}
        data = rows_json(kind.table, [fields | more for _, fields in rows], [{"the_key": key} for key, _ in rows])
        statement = changing_all(kind, names if target is None else (*names, "phase"), target)
        changed = self._connection.execute(statement, {"rows": data})
        found = {getattr(record, kind.key): record for record in map(kind.read, changed)}
        for key, fields in rows:
            if key not in found:
                self._refuse(kind, key, target)
            self._put(kind, found[key], fields | more)

    def _refuse(self, kind: Kind[Any], key: str, target: StrEnum | None) -> NoReturn:
        """A row that should have changed did not. The others did, so nothing of this transaction may commit."""
        found = self._connection.execute(select(kind.table.c.phase).where(kind.table.c[kind.key] == key)).scalar()
        if found is None:
            self._spoil(NotFound(f"there is no {kind.name} {key}"))
        self._spoil(IllegalMove(kind.name, key, str(found), str(target)))

    def _put(self, kind: Kind[R], record: R, change: dict[str, Any]) -> R:
        held = (kind.name, getattr(record, kind.key))
        if held in self._held:
            self._held[held] = record
        self._buffer.put(kind, record, change=change)
        return record

    def _refuse_patch(self, kind: Kind[Any], key: str, expected: int | None) -> NoReturn:
        found = self._connection.execute(select(kind.table.c.revision).where(kind.table.c[kind.key] == key)).scalar()
        if found is None:
            raise NotFound(f"there is no {kind.name} {key}")
        raise Conflict(f"{kind.name} {key} is at revision {found}, not {expected}: it was changed meanwhile")


def _check(kind: Kind[Any], fields: dict[str, Any]) -> None:
    for name in fields:
        if name not in kind.fields or name in _FIXED or name == kind.key or (name == "phase" and kind.moves):
            raise TypeError(f"{kind.name} has no field {name!r} that may be written here")
