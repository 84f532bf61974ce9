"""How long the server waits for PostgreSQL and Redis, and the connections that follow from it."""

import re
from typing import Any

from psycopg.conninfo import conninfo_to_dict
from redis.connection import parse_url

from base import redis_client
from base.database_url import ENCODE, tcp_timeout
from base.refusal import Refusal
from topics_project.environment import timeouts
from topics_project.settings.address import DATABASE_URL, REDIS_URL

# Timeouts for PostgreSQL, in milliseconds. PostgreSQL enforces the lock, idle transaction, statement and worker statement
# timeouts; 0 is no limit. These timeouts hold on connections of web and worker processes (store/timeouts.py), not for
# migrations and commands. A write holds a head only while its own statements run, a few ms. A write that holds a head for
# seconds hangs.
TOPICS_LOCK_TIMEOUT_MS: int = timeouts.number(
    "TOPICS_LOCK_TIMEOUT_MS", 5_000, "Longest wait of a request for a lock", "large deletes run"
)
# A burst opens connections to PostgreSQL, which nobody needs afterwards.
TOPICS_IDLE_CONNECTION_SECONDS: int = timeouts.number(
    "TOPICS_IDLE_CONNECTION_SECONDS",
    60,
    "A connection without use is closed after this time",
    "connections are scarce",
    most=86_400,
)
# A process that is stopped, or cut off, in the middle of a transaction holds heads. A healthy process is idle in a transaction
# only while the process makes and sends the next statement: seconds for a body of 64 MiB on a busy machine, otherwise no time.
# After this timeout PostgreSQL rolls the transaction back, so the topics can be written again.
TOPICS_IDLE_TRANSACTION_TIMEOUT_MS: int = timeouts.number(
    "TOPICS_IDLE_TRANSACTION_TIMEOUT_MS",
    10_000,
    "PostgreSQL undoes a write after this silence of its process",
    "the machine is very slow",
)
# Few clients wait longer. The longest known statement, a delete of a million records by tag, took 18 s on a busy machine.
TOPICS_STATEMENT_TIMEOUT_MS: int = timeouts.number(
    "TOPICS_STATEMENT_TIMEOUT_MS", 60_000, "Longest statement of a request through Django", "large deletes get 503"
)
# A worker's steps have a bounded number of rows, and no client waits for a step. A timeout would undo the step's work, so the
# limit is much longer.
TOPICS_WORKER_STATEMENT_TIMEOUT_MS: int = timeouts.number(
    "TOPICS_WORKER_STATEMENT_TIMEOUT_MS", 300_000, "Longest statement of a worker", "upkeep is cut off"
)
# Appends and reads take milliseconds. A connection without an answer for this long is closed and replaced.
TOPICS_ANSWER_TIMEOUT_MS: int = timeouts.number(
    "TOPICS_ANSWER_TIMEOUT_MS",
    10_000,
    "Longest statement of a request through the event loop, as most go",
    "PostgreSQL is slow",
    least=1000,
)
# A healthy PostgreSQL accepts within milliseconds. libpq counts in seconds, from two on.
TOPICS_CONNECT_TIMEOUT_MS: int = timeouts.number(
    "TOPICS_CONNECT_TIMEOUT_MS", 3_000, "Longest wait for a new connection", "PostgreSQL is far away", least=2000
)
TOPICS_TCP_TIMEOUT_MS: int = timeouts.number(
    "TOPICS_TCP_TIMEOUT_MS",
    15_000,
    "Time after which a silent network counts as broken",
    "the network has pauses",
    least=3000,
)


def database(url: str) -> dict[str, Any]:
    parts = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", ""),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        "OPTIONS": {
            "connect_timeout": -(-TOPICS_CONNECT_TIMEOUT_MS // 1000),
            **tcp_timeout(TOPICS_TCP_TIMEOUT_MS),
            **parts,
        },
        "CONN_MAX_AGE": None,  # a new connection costs more than most requests, so connections are kept and checked
        "CONN_HEALTH_CHECKS": True,
    }


DATABASES = {"default": database(DATABASE_URL)}


def redis_options(url: str) -> dict[str, Any]:
    """Returns the arguments of redis.Redis for a Redis URL. Raises Refusal for an invalid URL."""
    refusal = Refusal(f"Invalid REDIS_URL: expected redis://USER:PASSWORD@HOST:PORT/NUMBER: {ENCODE}.")
    # A `/`, `?` or `#` of a password ends the host for Redis, so the @ that belongs to the host comes behind it.
    if re.match(r"\w+://[^/?#]*[/?#].*@", url):
        raise refusal
    try:
        options: dict[str, Any] = dict(parse_url(url))
    except ValueError:  # its message has the part that it cannot read
        raise refusal from None
    options["ssl"] = url.startswith("rediss:")
    options["unix_socket_path"] = options.pop("path", None)
    options.pop("connection_class", None)
    defaults = {
        "socket_connect_timeout": 2,
        "health_check_interval": 10,
        **redis_client.tcp_timeout(TOPICS_TCP_TIMEOUT_MS),
    }
    return {**defaults, **options}


# The connection of django-eventstream (watch/wakes.py, watch/eventstream.py).
EVENTSTREAM_REDIS = redis_options(REDIS_URL)
