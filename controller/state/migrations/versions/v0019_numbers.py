"""A number for each job, for those who are used to numbers. The database itself gives it, so that jobs of a process of the
release before have one, too: on PostgreSQL from a sequence, on SQLite, where one writes at a time, above every number and
revision so far. No number comes twice.
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

SQLITE = (
    "UPDATE jobs SET number = revision",
    """CREATE TRIGGER job_number AFTER INSERT ON jobs WHEN NEW.number = 0 BEGIN
    UPDATE jobs SET number = 1 + max((SELECT max(value) FROM revision), (SELECT max(number) FROM jobs)) WHERE uid = NEW.uid;
    END""",
)
POSTGRESQL = (
    "CREATE SEQUENCE job_numbers OWNED BY jobs.number",
    "UPDATE jobs SET number = nextval('job_numbers')",
    """CREATE FUNCTION muster_job_number() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    NEW.number := nextval('job_numbers'); RETURN NEW; END $$""",
    """CREATE TRIGGER job_number BEFORE INSERT ON jobs FOR EACH ROW
    WHEN (NEW.number = 0) EXECUTE FUNCTION muster_job_number()""",
)


def upgrade() -> None:
    op.add_column("jobs", sa.Column("number", sa.BigInteger(), nullable=False, server_default="0"))
    connection = op.get_bind()
    for statement in SQLITE if connection.dialect.name == "sqlite" else POSTGRESQL:
        connection.exec_driver_sql(statement)
    op.create_index("ix_jobs_number", "jobs", ["number"])
