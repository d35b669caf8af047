"""Why a job waits, when it will start, and how good such predictions were."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("wait", sa.Text(), nullable=True))
    op.create_table(
        "forecasts",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("maker", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.Column("checked_at", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_forecasts_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_forecasts")),
    )
    op.create_table(
        "predictions",
        sa.Column("job_uid", sa.Text(), nullable=False),
        sa.Column("made_at", sa.Double(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("predicted", sa.Double(), nullable=False),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("job_uid", "made_at", name=op.f("pk_predictions")),
    )
    op.create_index(op.f("ix_predictions_started_at"), "predictions", ["started_at"])
