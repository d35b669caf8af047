"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _changes()
    _events()
    _idempotency()
    _jobs()
    _leader()
    _leases()
    _nodes()
    _outbox()
    _queues()
    _revision()
    _tokens()
    _attempts()
    _checkpoints()
    _incidents()
    _evidence()
    _progress()
    _workers()
    _allocations()
    _ports()
    op.execute("INSERT INTO revision (id, value) VALUES (1, 0)")
    op.execute("INSERT INTO leader (id, epoch, holder, renewals, at) VALUES (1, 0, '', 0, 0)")


def _changes() -> None:
    op.create_table(
        "changes",
        sa.Column("revision", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_changes"),
    )


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("object_uid", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_events"),
        sa.UniqueConstraint("revision", name="uq_events_revision"),
    )
    op.create_index("ix_events_namespace_revision", "events", ["namespace", "revision"])
    op.create_index("ix_events_object_uid_revision", "events", ["object_uid", "revision"])


def _idempotency() -> None:
    op.create_table(
        "idempotency",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_idempotency"),
    )
    op.create_index("ix_idempotency_at", "idempotency", ["at"])


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("annotations", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("warnings", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("suspend", sa.Boolean(), nullable=False),
        sa.Column("cancel", sa.Boolean(), nullable=False),
        sa.Column("restart_requested", sa.Boolean(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("attempt_uid", sa.Text()),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.Column("no_progress", sa.BigInteger(), nullable=False),
        sa.Column("best_step", sa.BigInteger()),
        sa.Column("last_failure", sa.Text(), nullable=False),
        sa.Column("preferred", sa.Text(), nullable=False),
        sa.Column("excluded", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("queued_at", sa.Double(), nullable=False),
        sa.Column("recovering_since", sa.Double()),
        sa.Column("started_at", sa.Double()),
        sa.Column("finished_at", sa.Double()),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("stock_epoch", sa.BigInteger(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("uid", name="pk_jobs"),
    )
    op.create_index("ix_jobs_queue", "jobs", ["queue"])
    op.create_index(
        "uq_jobs_live_name",
        "jobs",
        ["namespace", "name"],
        unique=True,
        sqlite_where=sa.text("phase NOT IN ('Cancelled', 'Failed', 'Succeeded')"),
        postgresql_where=sa.text("phase NOT IN ('Cancelled', 'Failed', 'Succeeded')"),
    )
    op.create_index("ix_jobs_namespace_name_uid", "jobs", ["namespace", "name", "uid"])


def _leader() -> None:
    op.create_table(
        "leader",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("renewals", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_leader"),
        sa.CheckConstraint("id = 1", name=op.f("ck_leader_one_row")),
    )


def _leases() -> None:
    op.create_table(
        "leases",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("renewals", sa.BigInteger(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("renewed_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("node", name="pk_leases"),
    )


def _nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("cordoned", sa.Boolean(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("interface", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("cpu_milli", sa.BigInteger(), nullable=False),
        sa.Column("memory", sa.BigInteger(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("ephemeral_ports", sa.Text(), nullable=False),
        sa.Column("agent_version", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("observed", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("phase_since", sa.Double(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_nodes"),
        sa.UniqueConstraint("uid", name="uq_nodes_uid"),
    )


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("next_at", sa.Double(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("done_at", sa.Double()),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("key", name="uq_outbox_key"),
    )
    op.create_index("ix_outbox_state_next_at", "outbox", ["state", "next_at"])


def _queues() -> None:
    op.create_table(
        "queues",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_queues"),
        sa.UniqueConstraint("uid", name="uq_queues_uid"),
    )


def _revision() -> None:
    op.create_table(
        "revision",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_revision"),
        sa.CheckConstraint("id = 1", name=op.f("ck_revision_one_row")),
    )


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_tokens"),
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("job_uid", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("job_name", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("rendezvous", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("resume", sa.Text()),
        sa.Column("verdict", sa.Text()),
        sa.Column("first_step", sa.BigInteger()),
        sa.Column("last_step", sa.BigInteger()),
        sa.Column("loss", sa.Double()),
        sa.Column("redone_steps", sa.BigInteger(), nullable=False),
        sa.Column("placed_at", sa.Double(), nullable=False),
        sa.Column("launching_at", sa.Double()),
        sa.Column("running_at", sa.Double()),
        sa.Column("failed_at", sa.Double()),
        sa.Column("detected_at", sa.Double()),
        sa.Column("stopping_at", sa.Double()),
        sa.Column("ended_at", sa.Double()),
        sa.Column("decided_at", sa.Double()),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_attempts"),
        sa.ForeignKeyConstraint(["job_uid"], ["jobs.uid"], name="fk_attempts_job_uid", ondelete="CASCADE"),
        sa.UniqueConstraint("job_uid", "scope", "number", name="uq_attempts_job_uid_scope_number"),
        sa.UniqueConstraint("job_uid", "epoch", name="uq_attempts_job_uid_epoch"),
    )
    op.create_index(
        "uq_attempts_live_scope",
        "attempts",
        ["job_uid", "scope"],
        unique=True,
        sqlite_where=sa.text("phase NOT IN ('Ended')"),
        postgresql_where=sa.text("phase NOT IN ('Ended')"),
    )


def _checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("job_uid", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("attempt_uid", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_checkpoints"),
        sa.ForeignKeyConstraint(["job_uid"], ["jobs.uid"], name="fk_checkpoints_job_uid", ondelete="CASCADE"),
    )
    op.create_index("ix_checkpoints_job_uid", "checkpoints", ["job_uid"])


def _incidents() -> None:
    op.create_table(
        "incidents",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("job_uid", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("job_name", sa.Text(), nullable=False),
        sa.Column("attempt_uid", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.Column("closed_at", sa.Double()),
        sa.Column("cost", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_incidents"),
        sa.ForeignKeyConstraint(["job_uid"], ["jobs.uid"], name="fk_incidents_job_uid", ondelete="CASCADE"),
    )
    op.create_index("ix_incidents_job_uid", "incidents", ["job_uid"])
    op.create_index("ix_incidents_namespace_opened_at", "incidents", ["namespace", "opened_at"])


def _evidence() -> None:
    op.create_table(
        "evidence",
        sa.Column("attempt_uid", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("attempt_uid", "digest", name="pk_evidence"),
        sa.ForeignKeyConstraint(["attempt_uid"], ["attempts.uid"], name="fk_evidence_attempt_uid", ondelete="CASCADE"),
    )


def _progress() -> None:
    op.create_table(
        "progress",
        sa.Column("attempt_uid", sa.Text(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("loss", sa.Double()),
        sa.PrimaryKeyConstraint("attempt_uid", "step", "rank", "phase", name="pk_progress"),
        sa.ForeignKeyConstraint(["attempt_uid"], ["attempts.uid"], name="fk_progress_attempt_uid", ondelete="CASCADE"),
    )


def _workers() -> None:
    op.create_table(
        "workers",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("attempt_uid", sa.Text(), nullable=False),
        sa.Column("job_uid", sa.Text(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("index", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("ports", sa.Text(), nullable=False),
        sa.Column("cpu_milli", sa.BigInteger(), nullable=False),
        sa.Column("memory", sa.BigInteger(), nullable=False),
        sa.Column("template", sa.Text(), nullable=False),
        sa.Column("template_revision", sa.BigInteger(), nullable=False),
        sa.Column("desired", sa.Text(), nullable=False),
        sa.Column("grace", sa.Double(), nullable=False),
        sa.Column("stop_reason", sa.Text(), nullable=False),
        sa.Column("fence", sa.Double()),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("exits", sa.Text(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("busy_ports", sa.Text(), nullable=False),
        sa.Column("ready_at", sa.Double()),
        sa.Column("running_at", sa.Double()),
        sa.Column("ended_at", sa.Double()),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_workers"),
        sa.ForeignKeyConstraint(["attempt_uid"], ["attempts.uid"], name="fk_workers_attempt_uid", ondelete="CASCADE"),
        sa.UniqueConstraint("attempt_uid", "role", "index", name="uq_workers_attempt_uid_role_index"),
    )
    op.create_index("ix_workers_node", "workers", ["node"])
    op.create_index(
        "ix_workers_live_node",
        "workers",
        ["node"],
        sqlite_where=sa.text("phase NOT IN ('Exited', 'Lost')"),
        postgresql_where=sa.text("phase NOT IN ('Exited', 'Lost')"),
    )


def _allocations() -> None:
    op.create_table(
        "allocations",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("device", sa.BigInteger(), nullable=False),
        sa.Column("worker_uid", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node", "device", name="pk_allocations"),
        sa.ForeignKeyConstraint(["worker_uid"], ["workers.uid"], name="fk_allocations_worker_uid", ondelete="CASCADE"),
    )
    op.create_index("ix_allocations_worker_uid", "allocations", ["worker_uid"])


def _ports() -> None:
    op.create_table(
        "ports",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("port", sa.BigInteger(), nullable=False),
        sa.Column("worker_uid", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("host", "port", name="pk_ports"),
        sa.ForeignKeyConstraint(["worker_uid"], ["workers.uid"], name="fk_ports_worker_uid", ondelete="CASCADE"),
    )
    op.create_index("ix_ports_worker_uid", "ports", ["worker_uid"])
