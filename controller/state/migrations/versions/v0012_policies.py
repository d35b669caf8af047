"""Priority classes, reservations, maintenance windows; what a job takes from them, from its array and its dependencies."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    _declared("priority_classes")
    _declared("reservations", "starts_at", "ends_at")
    _declared("maintenance_windows", "starts_at", "ends_at")
    op.add_column("jobs", sa.Column("priority", sa.BigInteger(), nullable=True))
    op.add_column("jobs", sa.Column("preempts", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.add_column("jobs", sa.Column("met", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("jobs", sa.Column("parent", sa.Text(), nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("element", sa.BigInteger(), nullable=True))
    op.add_column("jobs", sa.Column("made", sa.BigInteger(), nullable=False, server_default="0"))


def _declared(table: str, *times: str) -> None:
    op.create_table(
        table,
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        *(sa.Column(time, sa.Double(), nullable=False) for time in times),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=f"pk_{table}"),
        sa.UniqueConstraint("uid", name=f"uq_{table}_uid"),
    )
