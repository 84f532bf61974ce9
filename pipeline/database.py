"""Parses the address of the database and formats the address for libpq and for JDBC.

The module imports no Django, because analysts import the module into notebooks.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from base.database_url import database_url, parsed, tcp_timeout
from base.refusal import Refusal
from base.secret import secret
from store.session import RELIED_ON

DRIVER = "org.postgresql.Driver"
JDBC = "jdbc:postgresql://"
# Parameters of libpq that the JDBC driver supports, each with the driver's name of the parameter.
JDBC_NAMES = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "connect_timeout": "connectTimeout",
    "options": "options",
    "target_session_attrs": "targetServerType",
}
PATIENCE = tcp_timeout(60_000)


class Database(NamedTuple):
    """A PostgreSQL database. `dsn` is a connection string of libpq."""

    dsn: str

    def connect(self) -> psycopg.Connection[Any]:
        """Opens a connection in autocommit mode. Raises psycopg.OperationalError."""
        opened = psycopg.connect(self.conninfo, autocommit=True)
        opened.execute(RELIED_ON)
        return opened

    @property
    def conninfo(self) -> str:
        """Returns `dsn` with the name of the pipeline, and with PATIENCE where `dsn` says nothing else."""
        return make_conninfo("", **{**PATIENCE, **conninfo_to_dict(self.dsn), "application_name": "topics pipeline"})

    @property
    def jdbc(self) -> dict[str, str]:
        """Returns the options of Spark's JDBC reader and writer: url, driver, user and password.

        JDBC uses TCP only. For a server with a socket path, the URL names 127.0.0.1, so the server must also listen on
        loopback.
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
    """Returns a port for each host, by libpq's rules for lists of hosts. The default is 5432."""
    named, count = (given or "5432").split(","), len(hosts.split(","))
    return named * count if len(named) == 1 else named


def database(dsn: str | None = None, **login: str) -> Database:
    """Parses a connection string of libpq, a URL, or a JDBC URL.

    The default is DATABASE_URL. `login`: user and password, instead of those in `dsn`.

    Raises Refusal if `dsn` is invalid, or if no database is configured.
    """
    dsn = dsn or database_url(secret("DATABASE_URL"), secret("DATABASE_PASSWORD"))
    if not dsn:
        raise Refusal("no database is named: give a dsn, or set DATABASE_URL.")
    dsn = dsn.removeprefix("jdbc:")
    parsed("dsn", dsn)
    return Database(make_conninfo(dsn, **login))
