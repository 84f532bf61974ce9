"""Topics in the application's own database: a schema of its own, with rights on that schema alone."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from base.processes import die_with_parent
from embedded import programs
from tests.door.shop import DRAIN, as_role, manage
from tests.instances import ROOT, free_port, until
from tests.migrations.databases import database
from topics.schema import ENTER

pytestmark = pytest.mark.deep(40)


READ = "SELECT seq, data::text, reason FROM topics.read('orders')"
DUMP, UNDUMP = re.findall(r"^    (pg_(?:dump|restore) .*)$", (ROOT / "docs/guides/backup.md").read_text(), re.MULTILINE)
BOUNCER = """
[databases]
shop = host=127.0.0.1 port={port} dbname={name} user={user} password=secret
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 1
"""


class Shop(NamedTuple):
    """An application's database. `url` is that of topics, `app` that of the application."""

    admin: str
    url: str
    app: str

    def topics(self, *arguments: str, at: str = "") -> subprocess.CompletedProcess[str]:
        return manage(at or self.url, *arguments)

    def drain(self) -> None:
        done = self.topics("shell", "-c", DRAIN)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    """The owner of the schema has no other right, and the application is a login of the roles."""
    owner, app = (f"{kind}_{uuid.uuid4().hex[:8]}" for kind in ("owner", "app"))
    with database() as url:
        with psycopg.connect(url, autocommit=True) as admin:
            known = {name for (name,) in admin.execute("SELECT rolname FROM pg_roles")}
            for role in {
                "topics_writer",
                "topics_reader",
                "topics_analyst",
                "topics_snapshot",
            } - known:  # the owner may not create them
                admin.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
            for role in (owner, app):
                admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(sql.Identifier(role)))
                admin.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(role)))
            admin.execute(sql.SQL("REVOKE CREATE ON SCHEMA public FROM PUBLIC"))
            admin.execute(sql.SQL("CREATE SCHEMA topics AUTHORIZATION {}").format(sql.Identifier(owner)))
            admin.execute("CREATE TABLE orders (id int PRIMARY KEY)")
            admin.execute(sql.SQL("GRANT ALL ON orders TO {}").format(sql.Identifier(app)))
        made = Shop(url, as_role(url, owner, query="options=-csearch_path%3Dtopics"), as_role(url, app))
        try:
            done = made.topics("prepare")
            assert done.returncode == 0, done.stderr
            with psycopg.connect(url, autocommit=True) as admin:
                for role in ("topics_writer", "topics_reader"):
                    admin.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(app)))
            yield made
        finally:
            with psycopg.connect(url, autocommit=True) as admin:
                for role in (app, owner):
                    admin.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(role)))
                    admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@pytest.fixture
def app(shop: Shop) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(shop.app, autocommit=True) as session:
        yield session


def test_everything_is_in_its_own_schema(shop: Shop, app: psycopg.Connection[Any]) -> None:
    placed = "SELECT DISTINCT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relname LIKE 'topics%'"
    assert app.execute(placed).fetchall() == [("topics",)]
    assert shop.topics("prepare").returncode == 0  # an upgrade without anything to do
    assert shop.topics("migrate", "--check").returncode == 0
    # The application keeps the rights that a server of our own would revoke.
    app.execute("SELECT pg_advisory_lock(1), pg_advisory_unlock(1)")
    app.execute("CREATE TEMPORARY TABLE mine (n int)")


def test_the_row_and_its_event_are_one_commit(app: psycopg.Connection[Any]) -> None:
    with app.transaction(force_rollback=True):
        app.execute("INSERT INTO orders VALUES (1)")
        app.execute("SELECT topics.append('orders', '[{\"data\": 1}]')")
    with app.transaction():
        app.execute("INSERT INTO orders VALUES (2)")
        app.execute("SELECT topics.append('orders', '[{\"data\": 2}]')")
    assert app.execute(READ).fetchall() == [(1, "2", None)]


def test_an_emitted_record_arrives(shop: Shop, app: psycopg.Connection[Any]) -> None:
    with app.transaction(force_rollback=True):
        app.execute("INSERT INTO orders VALUES (3)")
        app.execute("SELECT topics.emit('emitted', '1')")
    with app.transaction():
        app.execute("INSERT INTO orders VALUES (3)")
        app.execute(
            "SELECT topics.emit('emitted', '2'), topics.emit('emitted', '3', meta => '{\"_topics_router\": 1}')"
        )
        app.execute("SELECT topics.emit_many('emitted', '[{\"data\": 4}]')")
    assert '"records":3,' in shop.topics("topics", "outbox", "list", "--json").stdout
    shop.drain()
    assert [data for (data,) in app.execute("SELECT data FROM topics.read('emitted')")] == [2, 3, 4]
    assert shop.topics("topics", "outbox", "list", "--json").stdout == ""


def test_a_login_captures_its_own_table_alone(shop: Shop, app: psycopg.Connection[Any]) -> None:
    """Somebody who may write the table alone needs no role of topics."""
    writer, owner = sql.Identifier(f"writer_{uuid.uuid4().hex[:8]}"), sql.Identifier(app.info.user)
    with psycopg.connect(shop.admin, autocommit=True) as admin:
        made = "CREATE SCHEMA sales AUTHORIZATION {0} CREATE TABLE sold (id int PRIMARY KEY)"
        admin.execute(sql.SQL(made).format(owner))
        with pytest.raises(psycopg.Error, match="is not the owner of") as refused:
            app.execute("SELECT topics.capture('orders', 'orders-changes')")
        assert refused.value.sqlstate == "TP004"
        capture = "SELECT topics.capture('sales.sold', 'sold', snapshot => true)"
        with pytest.raises(psycopg.Error, match=r"; GRANT SELECT ON sales\.sold TO owner_") as refused:
            app.execute(capture)
        app.execute(str(refused.value.diag.message_primary).partition("run ")[2].encode())
        with pytest.raises(
            psycopg.Error, match="if you trust the owner of the table, run GRANT topics_snapshot TO app_"
        ) as refused:
            app.execute(capture)
        admin.execute(str(refused.value.diag.message_primary).rpartition("run ")[2].encode())
        app.execute("INSERT INTO sales.sold VALUES (1)")
        app.execute(capture)
        may = "GRANT {0} TO CURRENT_USER; GRANT USAGE ON SCHEMA sales TO {0}; GRANT INSERT ON sales.sold TO {0}"
        admin.execute(sql.SQL(f"CREATE ROLE {{0}} NOLOGIN; {may}; SET ROLE {{0}}").format(writer))
        admin.execute("INSERT INTO sales.sold VALUES (2)")
        admin.execute(sql.SQL("RESET ROLE; DROP OWNED BY {0}; DROP ROLE {0}").format(writer))
    shop.drain()
    found = app.execute("SELECT tag, data FROM topics.read('sold')").fetchall()
    assert found == [(str(id), {"op": op, "new": {"id": id}}) for id, op in ((2, "insert"), (1, "read"), (2, "read"))]
    states = 'SELECT "table", topic, state FROM topics.captures'
    assert app.execute(states).fetchall() == [("sales.sold", "sold", "live")]
    for forbidden in ("SELECT * FROM topics.outbox_capture", "INSERT INTO topics.emitted (topic) VALUES ('t')"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            app.execute(forbidden)


def test_rights_are_granted_and_revoked_at_a_shell(shop: Shop, app: psycopg.Connection[Any]) -> None:
    user = app.info.user
    append = "SELECT topics.append('rights.a', '[{\"data\": 1}]')"
    with psycopg.connect(shop.admin, autocommit=True) as admin:
        made = "CREATE SCHEMA kept AUTHORIZATION {} CREATE TABLE t (id int PRIMARY KEY)"
        admin.execute(sql.SQL(made).format(sql.Identifier(user)))
    app.execute("SELECT topics.capture('kept.t', 'rights.t')")
    granted = shop.topics("topics", "rights", "grant", user, "--prefix", "rights.", "--scope", "write")
    assert (granted.returncode, "kept.t" in granted.stderr) == (0, False)
    app.execute(append)
    with pytest.raises(psycopg.Error, match="lacks the scope 'read'"):
        app.execute("SELECT topics.read('rights.a')")
    assert '"scopes": ["write"]' in shop.topics("topics", "rights", "list", user, "--json").stdout
    revoked = shop.topics("topics", "rights", "revoke", user, "--prefix", "rights.")
    assert revoked.returncode == 0
    with pytest.raises(psycopg.Error, match="lacks the scope 'write'"):
        app.execute(append)
    # The capture outlives the right, and the command says so.
    assert "the changes of kept.t still go to rights.t: SELECT topics.uncapture('kept.t') ends it" in revoked.stderr
    app.execute("INSERT INTO kept.t VALUES (1)")
    app.execute("SELECT topics.uncapture('kept.t')")
    app.execute("INSERT INTO kept.t VALUES (2)")
    assert shop.topics("topics", "rights", "forget", user).stdout == f"deleted 1 rights of {user}.\n"
    app.execute(append)
    shop.drain()
    assert app.execute("SELECT tag FROM topics.read('rights.t')").fetchall() == [("1",)]
    app.execute("DROP SCHEMA kept CASCADE")
    for wrong in (("grant", "nobody-has-this-name"), ("grant", user, "--prefix", " "), ("revoke", user)):
        done = shop.topics("topics", "rights", *wrong)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr


def test_it_continues_after_a_dump_of_the_whole_database(
    shop: Shop, app: psycopg.Connection[Any], tmp_path: Path
) -> None:
    app.execute("INSERT INTO orders VALUES (7)")
    app.execute("INSERT INTO sales.sold VALUES (7)")  # it is captured
    app.execute("SELECT topics.append('kept', '[{\"data\": 1}, {\"data\": 2}]')")
    app.execute("SELECT topics.commit_cursor('kept', 'billing', 1)")
    done = shop.topics("topics", "create", "kept-jobs", "--type", "queue", "--leases-durable")
    assert done.returncode == 0, done.stderr
    app.execute("SELECT topics.append('kept-jobs', '[{\"data\": 1}]')")
    assert len(app.execute("SELECT * FROM topics.claim('kept-jobs', 'w', 1, 60000)").fetchall()) == 1
    folder = programs.postgres().path.parent
    with database() as copy:
        urls = {"SHOP_URL": shop.admin, "NEW_SHOP_URL": copy, "PATH": f"{folder}:{os.environ['PATH']}"}
        for command in (DUMP, UNDUMP):
            subprocess.run(command, shell=True, check=True, cwd=tmp_path, env=os.environ | urls)
        name = urlsplit(copy).path
        with psycopg.connect(copy, autocommit=True) as there:
            there.execute("INSERT INTO sales.sold VALUES (8)")
        done = shop.topics("prepare", at=urlsplit(shop.url)._replace(path=name).geturl())
        assert done.returncode == 0, done.stderr
        with psycopg.connect(urlsplit(shop.app)._replace(path=name).geturl(), autocommit=True) as there:
            assert (7,) in there.execute("SELECT id FROM orders").fetchall()
            there.execute("INSERT INTO sales.sold VALUES (9)")
            assert shop.topics("shell", "-c", DRAIN, at=urlsplit(shop.url)._replace(path=name).geturl()).returncode == 0
            sold = "SELECT tag FROM topics.read('sold', 3) WHERE reason IS NULL"
            assert [tag for (tag,) in there.execute(sold)] == ["7", "8", "9"]
            assert there.execute("SELECT state FROM topics.captures").fetchall() == [("live",)]
            there.execute("SELECT topics.uncapture('sales.sold')")
            there.execute("INSERT INTO sales.sold VALUES (10)")
            assert there.execute("SELECT * FROM pg_trigger WHERE tgname LIKE 'topics%'").fetchall() == []
            there.execute("SELECT topics.commit_cursor('kept', 'billing', 2, 1)")  # the cursor came along
            assert there.execute("SELECT * FROM topics.claim('kept-jobs', 'other')").fetchall() == []  # the lease, too
            assert there.execute("SELECT settled FROM topics.ack('kept-jobs', 'w', '{1}')").fetchall() == [(True,)]
            ((first,),) = there.execute("SELECT first_seq FROM topics.append('kept', '[{\"data\": 3}]')").fetchall()
            assert first > 3  # above every seq that a reader can have seen after the dump
            rows = there.execute("SELECT seq, data::text, reason FROM topics.read('kept', 2)").fetchall()
            assert rows == [(first - 1, None, "restart"), (first, "3", None)]


def test_a_backup_has_the_schema_alone(shop: Shop, app: psycopg.Connection[Any], tmp_path: Path) -> None:
    app.execute("SELECT topics.append('backed-up', '[{\"data\": 1}]')")
    file = str(tmp_path / "shop.dump")
    done = shop.topics("topics", "backup", file)
    assert done.returncode == 0, done.stderr
    app.execute("SELECT topics.append('backed-up', '[{\"data\": 2}]')")
    app.execute("INSERT INTO orders VALUES (8)")
    app.close()
    done = shop.topics("topics", "restore", file, "--force")
    assert done.returncode == 0, done.stderr
    with psycopg.connect(shop.app, autocommit=True) as again:
        assert again.execute("SELECT data::text FROM topics.read('backed-up')").fetchall() == [("1",)]
        assert (8,) in again.execute("SELECT id FROM orders").fetchall()


@pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="NOT TRIED: there is no pgbouncer here")
def test_the_functions_work_through_a_pool_of_transactions(shop: Shop, tmp_path: Path) -> None:
    parts, listen, parent = conninfo_to_dict(shop.app), free_port(), os.getpid()
    file = tmp_path / "pgbouncer.ini"
    file.write_text(BOUNCER.format(port=parts["port"], name=parts["dbname"], user=parts["user"], listen=listen))
    os.chmod(tmp_path, 0o755)
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    with (tmp_path / "log").open("wb") as log, contextlib.ExitStack() as stack:
        process = subprocess.Popen(
            ["pgbouncer", *user, str(file)], stdout=log, stderr=log, preexec_fn=lambda: die_with_parent(parent)
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        pooled = f"postgresql://anybody@127.0.0.1:{listen}/shop"
        enter: Callable[[], Any] = lambda: psycopg.connect(pooled, autocommit=True, prepare_threshold=None)  # noqa: E731
        until(lambda: reachable(enter), "PgBouncer to listen")
        with enter() as one, enter() as other:  # both share one session of PostgreSQL
            for number in range(3):
                for session in (one, other):
                    with session.transaction():
                        session.execute("SELECT topics.append('pooled', %s)", [f'[{{"data": {number}}}]'])
                        session.execute("SELECT topics.emit('pooled.emits', %s)", [str(number)])
                        session.execute(
                            "SELECT topics.emit('pooled.emits', '[]', meta => '{\"_\": 1}')"
                        )  # a whole check
            assert [data for (data,) in one.execute("SELECT data FROM topics.read('pooled')")] == [0, 0, 1, 1, 2, 2]
            other.execute("SELECT topics.commit_cursor('pooled', 'c', 6)")
            shop.drain()
            emits = [data for (data,) in one.execute("SELECT data FROM topics.read('pooled.emits')")]
            assert emits == [each for number in (0, 0, 1, 1, 2, 2) for each in (number, [])]
            # Nothing of a call is left in the session: neither a path nor a commit that waits.
            assert one.execute("SHOW search_path").fetchone() == ("public",)


def reachable(enter: Callable[[], Any]) -> bool:
    with contextlib.suppress(psycopg.OperationalError), enter():
        return True
    return False


def test_an_uninstall_leaves_the_application_as_it_was(shop: Shop) -> None:
    with psycopg.connect(shop.admin, autocommit=True) as admin:
        admin.execute("CREATE TABLE captured (id int PRIMARY KEY)")
        admin.execute("INSERT INTO captured VALUES (1)")
        admin.execute("SELECT topics.capture('public.captured', 'captured')")
        admin.execute("CREATE VIEW report AS SELECT count(*) FROM topics.topic_heads")
        refused = shop.topics("topics", "uninstall", "--yes")
        assert (refused.returncode, refused.stderr) == (1, "topics: public.report.count uses topics: drop it first.\n")
        admin.execute("DROP VIEW report")
        admin.execute("CREATE TABLE topics.theirs (n int)")
        assert "theirs" in shop.topics("topics", "uninstall", "--yes").stderr
        admin.execute("DROP TABLE topics.theirs")
        asked = shop.topics("topics", "uninstall")  # nobody answers
        assert asked.returncode == 1
        assert "in the schema topics of the database" in asked.stderr
        assert admin.execute("SELECT to_regclass('topics.topics_topic') IS NOT NULL").fetchone() == (True,)
        done = shop.topics("topics", "uninstall", "--yes")
        assert (done.returncode, done.stderr) == (0, "")
        assert admin.execute("SELECT to_regnamespace('topics')").fetchone() == (None,)
        admin.execute("INSERT INTO captured VALUES (2)")  # without its triggers
        assert admin.execute("SELECT id FROM captured").fetchall() == [(1,), (2,)]


def test_an_uninstall_leaves_what_others_have_in_the_schema_of_the_functions() -> None:
    """Our tables are in another schema, and PostgreSQL would drop what is in `topics` with the functions."""
    with database() as url, psycopg.connect(url, autocommit=True) as admin:
        at = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3Devents"
        assert manage(at, "prepare").returncode == 0
        function = ("FUNCTION", "() RETURNS int RETURN 7")
        types = ("TYPE", "AS ENUM ()"), ("TYPE", "AS (n int)"), ("DOMAIN", "AS int")
        for kind, made in (("TABLE", "(n int)"), ("VIEW", "AS SELECT 1"), ("SEQUENCE", ""), function, *types):
            admin.execute(f"CREATE {kind} topics.theirs {made}".encode())
            assert "somebody else (topics.theirs)" in manage(at, "topics", "uninstall", "--yes").stderr
            admin.execute(f"DROP {kind} topics.theirs".encode())  # it is still there
        done = manage(at, "topics", "uninstall", "--yes")
        assert done.returncode == 0
        assert done.stdout.startswith("dropped the schemas events and topics. ")
        assert admin.execute("SELECT to_regnamespace('topics'), to_regnamespace('events')").fetchone() == (None, None)


def test_a_session_that_is_older_than_the_schema_stays_with_our_tables() -> None:
    """Two hosts prepare one database as the role `topics`: one of them connects before the other has made the schema `topics`."""
    with database() as url, psycopg.connect(url, autocommit=True) as session:
        assert session.info.user == "topics"  # the role of the tests' servers
        session.execute("""SET search_path = "$user", public""")  # PostgreSQL's default
        session.execute(ENTER)
        session.execute("CREATE SCHEMA topics")
        assert session.execute("SELECT current_schema()").fetchone() == ("public",)


def test_a_server_in_public_is_not_uninstalled(shop: Shop) -> None:
    refused = shop.topics("topics", "uninstall", "--yes", at=shop.admin)
    assert refused.returncode == 1
    assert refused.stderr.startswith("topics: the tables of topics are in the schema public")
