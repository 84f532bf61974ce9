"""Creates the tables of shop.py."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "invoice",
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("mail", sa.Text, nullable=False),
        sa.Column("cents", sa.Integer, nullable=False),
        sa.Column("placed_on", sa.Date, nullable=False, server_default=sa.func.current_date()),
    )
    op.create_table(
        "total",
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("orders", sa.Integer, nullable=False),
        sa.Column("cents", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("total")
    op.drop_table("invoice")
