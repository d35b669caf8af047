"""What is wrong with nodes, how they are repaired, and what active checks measured."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for name in ("nics", "conditions", "problems"):
        op.add_column("nodes", sa.Column(name, sa.Text(), nullable=False, server_default="[]"))
    for name in ("cordoned_by", "cordon_reason"):
        op.add_column("nodes", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    op.add_column("nodes", sa.Column("uncordoned_at", sa.Double(), nullable=True))
    op.add_column("nodes", sa.Column("drain", sa.Text(), nullable=True))
    _repairs()
    _measurements()


def _repairs() -> None:
    op.create_table(
        "repairs",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("conditions", sa.Text(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("tried", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("steps", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("phase_since", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_repairs"),
    )
    op.create_index(
        "uq_repairs_live_node",
        "repairs",
        ["node"],
        unique=True,
        sqlite_where=sa.text("phase NOT IN ('Dropped', 'Returned')"),
        postgresql_where=sa.text("phase NOT IN ('Dropped', 'Returned')"),
    )
    op.create_index("ix_repairs_node_created_at", "repairs", ["node", "created_at"])


def _measurements() -> None:
    op.create_table(
        "measurements",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("check", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("ok", sa.Boolean(), nullable=False),
        sa.Column("device", sa.BigInteger(), nullable=True),
        sa.Column("device_type", sa.Text(), nullable=False),
        sa.Column("peer", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("outlier", sa.Text(), nullable=False),
        sa.Column("job_uid", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_measurements"),
    )
    op.create_index("ix_measurements_node_at", "measurements", ["node", "at"])
    op.create_index("ix_measurements_check", "measurements", ["check"])
