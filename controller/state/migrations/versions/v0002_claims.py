"""A job's claim on room that others vacate for it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("claim", sa.Text(), nullable=True))
