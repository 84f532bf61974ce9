"""Where the server listens, where its data lies, and which PostgreSQL and Redis it uses."""

from pathlib import Path

from base.database_url import database_url
from base.refusal import Refusal
from embedded.folder import data_dir
from topics_project.environment import address

HOST: str = address.text(
    "HOST",
    "127.0.0.1",
    "Address to listen on. An address beyond loopback needs API keys",
    "others have to reach the port",
    values="address",
)
PORT: int = address.number("PORT", 4000, "Port to listen on", "the port is taken", least=1, most=65535)
# The embedded servers need these three before any setting is read (embedded/folder.py, embedded/programs.py).
TOPICS_DATA: Path = data_dir()
address.elsewhere(
    "TOPICS_DATA",
    "Data of the embedded servers, logs, generated secrets",
    "you run a second instance",
    values="folder",
    shown="`.data` beside `manage.py`, or, installed, `~/.local/share/topics`",
)
address.elsewhere(
    "TOPICS_POSTGRESQL",
    "Programs of the embedded PostgreSQL, 14 or later. Searched on `PATH`, in `/usr/lib/postgresql/`, then in the "
    "wheel",
    "the wrong version is found",
    values="folder",
    shown="searched",
)
address.elsewhere(
    "TOPICS_REDIS",
    "`redis-server` or `valkey-server` to embed, 6.2 or later. Searched on `PATH`, then in the wheel",
    "the wrong version is found",
    values="path",
    shown="searched",
)
# Any connection string of libpq. The password can be separate: then the file of PostgreSQL's own container works.
DATABASE_URL: str = database_url(
    address.hidden(
        "DATABASE_URL", "PostgreSQL. A connection string of libpq", "you have a PostgreSQL", shown="the embedded server"
    ),
    address.hidden(
        "DATABASE_PASSWORD", "Password for `DATABASE_URL`, if the URL has none", "the password lies in a file"
    ),
)
REDIS_URL: str = address.hidden(
    "REDIS_URL", "`redis://…` or `rediss://…`", "you have a Redis", shown="the embedded server"
)
if not DATABASE_URL or not REDIS_URL:
    missing = "REDIS_URL" if DATABASE_URL else "DATABASE_URL"
    raise Refusal(f"{missing} is not set: set it, or start with manage.py, which starts its own servers.")
if not REDIS_URL.startswith(("redis://", "rediss://")):
    raise Refusal("Invalid REDIS_URL: expected redis://… or rediss://…")
