"""What attempts ran, and restarts from a step."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("fingerprint", sa.Text(), nullable=False, server_default="{}"))
    op.add_column("jobs", sa.Column("restart_from", sa.Text()))
