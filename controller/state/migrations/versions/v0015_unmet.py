"""The jobs that a job still waits for."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("unmet", sa.Text(), nullable=True))
