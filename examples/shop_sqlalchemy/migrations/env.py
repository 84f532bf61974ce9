"""Alembic runs the migrations on the database of the shop. Topics has its own schema and migrations, and Alembic does not see them."""

from alembic import context
from sqlalchemy import create_engine

with create_engine("postgresql+psycopg://").begin() as connection:
    context.configure(connection=connection, version_table="invoice_version")
    context.run_migrations()
