"""`make shop-demo`: a shop with topics in its own database, a consumer that counts its orders, and a worker that sends mails.

The shop listens on PORT (4200), topics on the port behind it. All data is in TOPICS_DATA (`.shop`): PostgreSQL and Redis, too.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import embedded
from base.refusal import Refusal
from base.signals import on_signals
from embedded.children import Child, stop_all
from embedded.folder import LEAST_SECRET, URL_SAFE, keep_secret, last_line, write
from examples.demo import (
    HOST,
    ROOT,
    folder,
    forget_settings,
    free_ports,
    keep_running,
    listen_on,
    say,
    shown,
    wait_until_ready,
)

SHOP = Path(__file__).parent
DATABASE, APPLICATION, OWNER = "shop", "shop", "shop_topics"
ROLES = ("topics_writer", "topics_reader", "topics_analyst", "topics_snapshot")
Settings = dict[str, str]


def main() -> None:
    """Run until Ctrl-C or SIGTERM. Raises Refusal."""
    stopping = on_signals()
    shop_port, topics_port = free_ports(4200, 2)
    forget_settings("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "TOPICS_API_KEYS", "TOPICS_KEY")
    with folder(".shop") as data:
        say("Starting PostgreSQL, Redis, topics and the shop …")
        with embedded.use(data) as servers:
            topics, shop = prepare(data, servers, topics_port)
            run(data, topics, shop, shop_port, topics_port, stopping)


def run(
    data: Path, topics: Settings, shop: Settings, shop_port: int, topics_port: int, stopping: threading.Event
) -> None:
    """Run all processes until `stopping`. Raises Refusal where one of them does not start."""
    server = Child("topics", [sys.executable, str(ROOT / "manage.py"), "run"], data / "topics.log", topics, patience=60)
    commands = {"shop": ["runserver", "--noreload", f"{HOST}:{shop_port}"], "tally": ["tally"], "mails": ["send_mails"]}
    children = [Child(name, manage(*each), data / f"{name}.log", shop) for name, each in commands.items()]
    try:
        server.start()
        wait_until_ready(server, topics_port, "/v0/ready", stopping)
        for command in ("migrate", "create_topics"):
            once(data, shop, command)
        for child in children:
            child.start()
        wait_until_ready(children[0], shop_port, "/totals", stopping)
        if not stopping.is_set():
            say(welcome(data, shop_port, topics_port))
        keep_running([server, *children], stopping)
    finally:
        stop_all(children)
        server.stop()


def prepare(data: Path, servers: embedded.Servers, port: int) -> tuple[Settings, Settings]:
    """Creates the database of the shop, with a schema for the shop and one for topics, each with its login.

    Returns the environments of topics and of the shop.
    """
    known = conninfo_to_dict(servers.database_url)
    passwords = {role: keep_secret(data / f"{role}-password", form=URL_SAFE) for role in (APPLICATION, OWNER)}
    with psycopg.connect(servers.database_url, autocommit=True) as admin:
        roles = {name for (name,) in admin.execute("SELECT rolname FROM pg_roles")}
        for role in {*ROLES, *passwords} - roles:
            admin.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        for role, password in passwords.items():
            name = sql.Identifier(role)
            admin.execute(sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(name, sql.Literal(password)))
            admin.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(name))
        admin.execute(f"GRANT topics_writer, topics_reader TO {APPLICATION}")
        if not admin.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).fetchall():
            admin.execute(f"CREATE DATABASE {DATABASE}")
    with psycopg.connect(servers.database_url, dbname=DATABASE, autocommit=True) as admin:
        admin.execute(f"CREATE SCHEMA IF NOT EXISTS {APPLICATION} AUTHORIZATION {APPLICATION}")
        admin.execute(f"CREATE SCHEMA IF NOT EXISTS topics AUTHORIZATION {OWNER}")
    server = f"{HOST}:{known['port']}/{DATABASE}"
    topics = {
        "TOPICS_DATA": str(data),
        "DATABASE_URL": f"postgresql://{OWNER}:{passwords[OWNER]}@{server}?options=-csearch_path%3Dtopics",
        "REDIS_URL": servers.redis_url,
        "SECRET_KEY": keep_secret(data / "secret-key", LEAST_SECRET),
        "WEB_WORKERS": os.environ.get("WEB_WORKERS", "1"),
        "WORKER_PROCESSES": "1",
        **listen_on(port),
    }
    shop = {
        "PGHOST": HOST,
        "PGPORT": str(known["port"]),
        "PGDATABASE": DATABASE,
        "PGUSER": APPLICATION,
        "PGPASSWORD": passwords[APPLICATION],
        "TOPICS_URL": f"http://{HOST}:{port}",
        "PYTHONPATH": "clients/python",
    }
    write(data / "env", "".join(f"{name}={value}\n" for name, value in shop.items()))
    return topics, shop | {"PYTHONPATH": str(ROOT / "clients" / "python")}


def manage(*arguments: str) -> list[str]:
    return [sys.executable, str(SHOP / "manage.py"), *arguments]


def once(data: Path, shop: Settings, command: str) -> None:
    """Runs a command of the shop to its end. Raises Refusal if it fails."""
    log = data / f"{command}.log"
    with log.open("wb") as output:
        done = subprocess.run(manage(command), env=os.environ | shop, stdout=output, stderr=output, check=False)
    if done.returncode:
        raise Refusal(f"{command} failed: {last_line(log)} ({log})")


def welcome(data: Path, shop: int, topics: int) -> str:
    return f"""\
A shop and topics are up, in one database. Ctrl-C stops all of them. The data stays.
  shop     http://{HOST}:{shop}   examples/shop/orders/views.py, log {data / "shop.log"}
  tally    counts each order once   examples/shop/orders/management/commands/tally.py, log {data / "tally.log"}
  mails    works on the queue `mails`   examples/shop/orders/management/commands/send_mails.py, log {data / "mails.log"}
  topics   http://{HOST}:{topics}   admin at /admin/, its password is in {data / "admin-password"}

Place two orders. See their events, and the work of tally and mails:

    curl localhost:{shop}/orders -d mail=ada@example.com -d cents=1990
    curl localhost:{shop}/orders -d mail=bob@example.com -d cents=500
    curl localhost:{topics}/v0/topics/orders/records
    curl localhost:{shop}/totals
    curl localhost:{topics}/v0/topics/orders/cursors

The same order with SQLAlchemy and Alembic (examples/shop_sqlalchemy/):

    export $(cat {shown(data / "env")})
    .venv/bin/alembic -c examples/shop_sqlalchemy/alembic.ini upgrade head
    .venv/bin/python examples/shop_sqlalchemy/shop.py place eve@example.com 700
    .venv/bin/python examples/shop_sqlalchemy/shop.py tally"""


if __name__ == "__main__":
    main()
