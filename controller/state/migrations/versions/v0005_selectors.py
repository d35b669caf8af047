"""What jobs are selected by, and one live job a checkpoint directory.

The rows of `job_labels` are kept by the database itself, so that a process of the release before, which does not know
the table, keeps them too while both run.
"""

import json
import posixpath

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

FINISHED = ("Cancelled", "Failed", "Succeeded")
COPY = {
    "sqlite": "INSERT INTO job_labels (key, value, namespace, name, uid) "
    "SELECT l.key, l.value, j.namespace, j.name, j.uid FROM jobs j, json_each(j.labels) l WHERE j.labels <> '{}'",
    "postgresql": "INSERT INTO job_labels (key, value, namespace, name, uid) "
    "SELECT l.key, l.value, j.namespace, j.name, j.uid FROM jobs j, json_each_text(j.labels::json) l "
    "WHERE j.labels <> '{}' ON CONFLICT DO NOTHING",
}
SQLITE = (
    """CREATE TRIGGER job_labels_of_new AFTER INSERT ON jobs WHEN NEW.labels <> '{}' BEGIN
    INSERT INTO job_labels (key, value, namespace, name, uid)
    SELECT key, value, NEW.namespace, NEW.name, NEW.uid FROM json_each(NEW.labels); END""",
    """CREATE TRIGGER job_labels_of_changed AFTER UPDATE OF labels ON jobs WHEN NEW.labels <> OLD.labels BEGIN
    DELETE FROM job_labels WHERE uid = NEW.uid;
    INSERT INTO job_labels (key, value, namespace, name, uid)
    SELECT key, value, NEW.namespace, NEW.name, NEW.uid FROM json_each(NEW.labels); END""",
)
POSTGRESQL = (
    """CREATE FUNCTION muster_job_labels() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'UPDATE' THEN DELETE FROM job_labels WHERE uid = NEW.uid; END IF;
    INSERT INTO job_labels (key, value, namespace, name, uid)
    SELECT l.key, l.value, NEW.namespace, NEW.name, NEW.uid FROM json_each_text(NEW.labels::json) l;
    RETURN NULL; END $$""",
    """CREATE TRIGGER job_labels_of_new AFTER INSERT ON jobs FOR EACH ROW
    WHEN (NEW.labels <> '{}') EXECUTE FUNCTION muster_job_labels()""",
    """CREATE TRIGGER job_labels_of_changed AFTER UPDATE OF labels ON jobs FOR EACH ROW
    WHEN (NEW.labels IS DISTINCT FROM OLD.labels) EXECUTE FUNCTION muster_job_labels()""",
)


def upgrade() -> None:
    connection = op.get_bind()
    op.add_column("jobs", sa.Column("directory", sa.Text(), nullable=True))
    op.create_table(
        "job_labels",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", "value", "namespace", "name", "uid", name="pk_job_labels"),
        sa.ForeignKeyConstraint(["uid"], ["jobs.uid"], name="fk_job_labels_uid", ondelete="CASCADE"),
    )
    op.create_index("ix_job_labels_uid", "job_labels", ["uid"])
    for statement in SQLITE if connection.dialect.name == "sqlite" else POSTGRESQL:
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql(COPY[connection.dialect.name])
    _directories(connection)


def _directories(connection: sa.Connection) -> None:
    """Of live jobs only. Where two share one already, the older has it."""
    jobs = sa.table("jobs", *(sa.column(name) for name in ("uid", "spec", "phase", "created_at", "directory")))
    live = sa.select(jobs.c.uid, jobs.c.spec).where(jobs.c.phase.not_in(FINISHED), jobs.c.spec.like('%"checkpoint":{%'))
    taken: set[str] = set()
    for uid, spec in connection.execute(live.order_by(jobs.c.created_at, jobs.c.uid)).all():
        path = (json.loads(spec).get("checkpoint") or {}).get("directory") or ""
        normal = "/" + posixpath.normpath(path).lstrip("/")
        if path.startswith("/") and normal not in taken:
            taken.add(normal)
            connection.execute(sa.update(jobs).where(jobs.c.uid == uid).values(directory=normal))
