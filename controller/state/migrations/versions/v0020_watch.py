"""How attempts get on, looks at workers that the loop asks for, and ranks' own seconds of a step."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("watch", sa.Text()))
    op.add_column("workers", sa.Column("examine", sa.Text(), nullable=False, server_default=""))
    op.add_column("workers", sa.Column("examined", sa.Text(), nullable=False, server_default=""))
    op.add_column("progress", sa.Column("seconds", sa.Double()))
