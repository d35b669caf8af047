"""Writing what was promised to the outside: side effects to come, answers given, tokens handed out."""

from typing import Any

from sqlalchemy import delete, update

from controller.records import ReceiptRecord
from controller.state import tables
from controller.state.errors import Taken
from controller.state.statements import insert_or
from controller.state.transaction import Transaction
from controller.state.types import OutboxItem, Remembered, SessionRecord, TokenRecord


class PromiseWriter(Transaction):
    def enqueue(self, kind: str, payload: dict[str, Any], key: str) -> None:
        """A side effect that will happen, at least once, if this transaction commits. A key that was used before
        changes nothing."""
        now = self._clock.now()
        item = OutboxItem(id=self._new_id(), key=key, kind=kind, payload=payload, next_at=now, created_at=now)
        keep = insert_or(self._dialect, tables.outbox, ("key",))
        self._connection.execute(keep, {name: getattr(item, name) for name in item.__struct_fields__})

    def remember(self, key: str, body_hash: str, response: Any) -> None:
        """The answer to the request with this Idempotency-Key. Taken when the key has one already."""
        item = Remembered(key=key, body_hash=body_hash, response=response, at=self._clock.now())
        keep = insert_or(self._dialect, tables.idempotency, ("key",))
        row = {name: getattr(item, name) for name in item.__struct_fields__}
        if self._connection.execute(keep, row).rowcount != 1:
            self._spoil(Taken(f"the idempotency key {key} has been used already"))

    def insert_session(self, session: SessionRecord) -> None:
        """Open until it is deleted by who inserted it, or older than `limits.SESSION_SECONDS`."""
        self._connection.execute(
            tables.sessions.insert(), {name: getattr(session, name) for name in session.__struct_fields__}
        )

    def delete_session(self, uid: str) -> None:
        """None of this uid: nothing happens."""
        self._connection.execute(delete(tables.sessions).where(tables.sessions.c.uid == uid))

    def put_receipt(self, receipt: ReceiptRecord) -> None:
        """What a finished job cost. The first one stays."""
        keep = insert_or(self._dialect, tables.receipts, ("uid",))
        self._connection.execute(keep, {name: getattr(receipt, name) for name in receipt.__struct_fields__})

    def delete_token(self, hash: str) -> None:  # noqa: A002
        self._connection.execute(delete(tables.tokens).where(tables.tokens.c.hash == hash))

    def used_token(self, hash: str, at: float) -> None:  # noqa: A002
        self._connection.execute(update(tables.tokens).where(tables.tokens.c.hash == hash).values(last_used_at=at))

    def put_token(self, token: TokenRecord) -> None:
        """Insert or replace by hash."""
        put = insert_or(self._dialect, tables.tokens, ("hash",), ("role", "name"))
        self._connection.execute(put, {name: getattr(token, name) for name in token.__struct_fields__})
