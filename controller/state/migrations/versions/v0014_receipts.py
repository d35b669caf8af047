"""What finished jobs cost, kept also when they are gone."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_TEXTS = ("namespace", "name", "queue", "user", "accelerator", "outcome", "body")
_SUMS = ("queued", "suspended", "starting", "productive", "lost", "recovering", "stalled", "saving")


def upgrade() -> None:
    op.create_table(
        "receipts",
        sa.Column("uid", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _TEXTS),
        *(sa.Column(name, sa.Double(), nullable=False) for name in ("created_at", "finished_at", *_SUMS)),
        sa.Column("devices", sa.BigInteger(), nullable=False),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("uid", name="pk_receipts"),
    )
    op.create_index("ix_receipts_finished_at", "receipts", ["finished_at"])
    op.create_index("ix_receipts_namespace_finished_at", "receipts", ["namespace", "finished_at"])
