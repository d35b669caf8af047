"""When and where a waiting job starts at the latest."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("promise", sa.Text(), nullable=True))
