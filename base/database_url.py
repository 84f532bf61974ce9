"""The database: a connection string of libpq, and a password in a setting of its own."""

from __future__ import annotations

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from base.refusal import Refusal


def database_url(url: str, password: str) -> str:
    """Returns DATABASE_URL, with DATABASE_PASSWORD added if there is one. Raises Refusal."""
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError as error:
        raise Refusal(f"Invalid DATABASE_URL: expected a PostgreSQL URL ({str(error).strip()})") from error
    if not (url and password):
        return url
    if parts.get("password"):
        raise Refusal("DATABASE_PASSWORD is set, and DATABASE_URL also contains a password: remove one of the two.")
    return make_conninfo(url, password=password)
