"""Writing whose database this is, and what agents run that it does not know. Beside the change log: no resource."""

from collections.abc import Iterable

from sqlalchemy import delete, update

from controller.state import tables
from controller.state.statements import insert_into
from controller.state.transaction import Transaction
from controller.state.types import ClusterRecord, StrayRecord

_cluster, _strays = tables.cluster, tables.strays


class HoldWriter(Transaction):
    def put_cluster(self, record: ClusterRecord, *, before: str) -> bool:
        """False, and nothing is written, when the incarnation is not `before` any more."""
        values = {name: getattr(record, name) for name in record.__struct_fields__}
        statement = update(_cluster).where(_cluster.c.incarnation == before).values(values)
        return self._connection.execute(statement).rowcount == 1

    def replace_strays(self, node: str, strays: Iterable[StrayRecord]) -> None:
        """All of one node, in place of what was known of it."""
        self._connection.execute(delete(_strays).where(_strays.c.node == node))
        rows = [{name: getattr(one, name) for name in one.__struct_fields__} for one in strays]
        if rows:
            uids = [row["worker_uid"] for row in rows]
            self._connection.execute(delete(_strays).where(_strays.c.worker_uid.in_(uids)))
            self._connection.execute(insert_into(_strays), rows)

    def forget_strays(self, attempt_uid: str) -> None:
        """They are restored: workers like any others."""
        self._connection.execute(delete(_strays).where(_strays.c.attempt_uid == attempt_uid))

    def discard_strays(self) -> int:
        """All that are left are to be stopped. How many there were."""
        return self._connection.execute(update(_strays).values(discarded=True)).rowcount
