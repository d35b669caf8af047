"""Whose database this is, and what agents run that it does not know; when a user's wish was made."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("wished_at", sa.Double(), nullable=True))
    op.add_column("jobs", sa.Column("epoch_floor", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("nodes", sa.Column("held", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "cluster",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("held_since", sa.Double(), nullable=True),
        sa.Column("held_why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_cluster"),
        sa.CheckConstraint("id = 1", name="ck_cluster_one_row"),
    )
    op.create_table(
        "strays",
        sa.Column("worker_uid", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("attempt_uid", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.Column("assignment", sa.Text(), nullable=True),
        sa.Column("discarded", sa.Boolean(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("worker_uid", name="pk_strays"),
    )
    op.create_index("ix_strays_node", "strays", ["node"])
    op.execute("INSERT INTO cluster (id, incarnation, held_since, held_why) VALUES (1, '', NULL, '')")
