"""What queues have used lately."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("queues", sa.Column("usage", sa.Text(), nullable=False, server_default="{}"))
    op.add_column("queues", sa.Column("usage_at", sa.Double(), nullable=False, server_default="0"))
