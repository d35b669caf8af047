"""Taints of nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("nodes", sa.Column("taints", sa.Text(), nullable=False, server_default="[]"))
