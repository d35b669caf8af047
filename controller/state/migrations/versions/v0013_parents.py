"""An index for the elements of an array. Made without holding up who writes."""

import sqlalchemy as sa

revision = "0013"
down_revision = "0012"

NAME = "ix_jobs_parent"
BROKEN = """SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE NOT i.indisvalid AND c.relname = %(name)s"""


def online(connection: sa.Connection) -> None:
    """Concurrently on PostgreSQL, outside of any transaction. What was begun and cut off is begun again."""
    free = connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
    if free and connection.exec_driver_sql(BROKEN, {"name": NAME}).first():
        connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}")
    how = "CONCURRENTLY " if free else ""
    connection.exec_driver_sql(f"CREATE INDEX {how}IF NOT EXISTS {NAME} ON jobs (parent)")


def upgrade() -> None:
    """All of it is done online."""
