"""Where the store is, as libpq and as JDBC are told it. Knows nothing of Django: analysts import it into a notebook."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from base.database_url import database_url
from base.refusal import Refusal
from base.secret import secret

DRIVER = "org.postgresql.Driver"
JDBC = "jdbc:postgresql://"
# Of libpq's parameters those that the JDBC driver knows, by its names for them.
JDBC_NAMES = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "connect_timeout": "connectTimeout",
    "options": "options",
    "target_session_attrs": "targetServerType",
}


class Database(NamedTuple):
    """A PostgreSQL, by a connection string of libpq's."""

    dsn: str

    def connect(self) -> psycopg.Connection[Any]:
        """A connection in which each statement is a transaction of its own. Raises psycopg.OperationalError."""
        return psycopg.connect(self.dsn, autocommit=True, application_name="topics pipeline")

    @property
    def jdbc(self) -> dict[str, str]:
        """What Spark's JDBC reader and writer want to know: url, driver, user and password.

        JDBC speaks TCP only: a server that libpq finds by its socket is taken to listen on this machine's loopback, too.
        """
        parts = {name: str(value) for name, value in conninfo_to_dict(self.dsn).items() if value is not None}
        host = parts.get("host") or parts.get("hostaddr") or "localhost"
        if host.startswith("/"):
            host = "127.0.0.1"
        name = parts.get("dbname") or parts.get("user", "")
        known = {JDBC_NAMES[each]: parts[each] for each in JDBC_NAMES if each in parts}
        query = urlencode({**known, "ApplicationName": "topics pipeline"})
        hosts = ",".join(
            f"{each}:{port}" for each, port in zip(host.split(","), ports(parts.get("port"), host), strict=True)
        )
        found = {"url": f"{JDBC}{hosts}/{quote(name)}?{query}", "driver": DRIVER}
        return found | {each: parts[each] for each in ("user", "password") if each in parts}


def ports(given: str | None, hosts: str) -> list[str]:
    """A port for each of the hosts, as libpq understands a list of them."""
    named, count = (given or "5432").split(","), len(hosts.split(","))
    return named * count if len(named) == 1 else named


def database(dsn: str | None = None) -> Database:
    """The database of a connection string: libpq's, a URL, or a JDBC URL; DATABASE_URL where none is given. Raises Refusal."""
    dsn = dsn or database_url(secret("DATABASE_URL"), secret("DATABASE_PASSWORD"))
    if not dsn:
        raise Refusal("no database is named: give a dsn, or set DATABASE_URL.")
    dsn = dsn.removeprefix("jdbc:")
    try:
        return Database(make_conninfo(dsn))
    except psycopg.ProgrammingError as error:
        raise Refusal(f"the dsn is no connection string of PostgreSQL: {str(error).strip()}") from error
