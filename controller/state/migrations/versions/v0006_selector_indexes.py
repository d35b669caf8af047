"""Indexes for what jobs are selected by, in the order of their pages. Made without holding up who writes."""

import sqlalchemy as sa

revision = "0006"
down_revision = "0005"

LIVE = "phase NOT IN ('Cancelled', 'Failed', 'Succeeded')"
INDEXES = {
    "ix_jobs_phase_namespace_name_uid": "INDEX {} ON jobs (phase, namespace, name, uid)",
    "ix_jobs_queue_namespace_name_uid": "INDEX {} ON jobs (queue, namespace, name, uid)",
    "uq_jobs_live_directory": "UNIQUE INDEX {} ON jobs (directory) WHERE " + LIVE,
}
BROKEN = """SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE NOT i.indisvalid AND c.relname = ANY (%(names)s)"""


def online(connection: sa.Connection) -> None:
    """Concurrently on PostgreSQL, outside of any transaction. What was begun and cut off is begun again."""
    free = connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
    if free:
        for (name,) in connection.exec_driver_sql(BROKEN, {"names": list(INDEXES)}).all():
            connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    for name, rest in INDEXES.items():
        how = f"{'CONCURRENTLY ' if free else ''}IF NOT EXISTS {name}"
        connection.exec_driver_sql("CREATE " + rest.format(how))
    connection.exec_driver_sql(f"DROP INDEX {'CONCURRENTLY ' if free else ''}IF EXISTS ix_jobs_queue")


def upgrade() -> None:
    """All of it is done online."""
