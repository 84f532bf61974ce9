"""The database: a connection string of libpq, and a password in a setting of its own.

Errors of a connection name the host, the port or the database. If a password is not percent-encoded, its end counts as one of
them. So such a URL is refused before its use, and no message repeats a part of it.
"""

from __future__ import annotations

import re
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from base.refusal import Refusal

ENCODE = "percent-encode the password (%40 for @, %2F for /, %23 for #, %3F for ?, %25 for %)"
# For libpq the first @ ends the password. After it, an @ is plausible in the query alone (`?user=me@server`).
READABLE = re.compile(r"(?!postgres(ql)?://)|\w+://([^@/]*@)?[^@?]*(\?|$)")


def database_url(url: str, password: str) -> str:
    """Returns DATABASE_URL, with DATABASE_PASSWORD added if there is one. Raises Refusal."""
    parts = parsed("DATABASE_URL", url)
    if not (url and password):
        return url
    if parts.get("password"):
        raise Refusal("DATABASE_PASSWORD is set, and DATABASE_URL also contains a password: remove one of the two.")
    return make_conninfo(url, password=password)


def tcp_timeout(ms: int) -> dict[str, int]:
    """Returns libpq's options for the loss of a connection after `ms` without an answer. `ms` is at least 3,000.

    Linux sends two probes to a silent server: after a third of the time, and after two thirds. Its own default for the first
    probe is two hours.
    """
    third = ms // 3000
    return {
        "tcp_user_timeout": ms,
        "keepalives_idle": third,
        "keepalives_interval": third,
        "keepalives_count": 2,
    }


def parsed(name: str, url: str) -> dict[str, Any]:
    """Returns the parts of a connection string of libpq. Raises Refusal."""
    refusal = Refusal(f"Invalid {name}: expected a PostgreSQL URL, postgresql://USER:PASSWORD@HOST/DATABASE: {ENCODE}.")
    if not READABLE.match(url):
        raise refusal
    try:
        return conninfo_to_dict(url)
    except ProgrammingError:  # its message has the part that it cannot read
        raise refusal from None
