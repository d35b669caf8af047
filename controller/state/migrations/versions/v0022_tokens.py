"""Whose tokens are, how long they are good, when they were used."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    for name in ("uid", "namespace", "created_by"):
        op.add_column("tokens", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    for name in ("expires_at", "last_used_at"):
        op.add_column("tokens", sa.Column(name, sa.Double()))
