"""Workers that have given up their place before their gang ended, and how many of a gang have succeeded."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("workers", sa.Column("released", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("attempts", sa.Column("succeeded", sa.BigInteger(), nullable=False, server_default="0"))
