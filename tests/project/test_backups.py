"""`topics backup` and `topics restore`: an instance is backed up while it serves, damaged, and restored."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import connection

import embedded
from base.refusal import Refusal
from embedded.programs import clients
from tests.docs.process import environment
from tests.instances import ROOT, Instance
from tests.preloaded import run
from tests.project.test_two_hosts import joining
from tests.watch.wire import Api
from topics_project.operations.backups import check_unused

pytestmark = pytest.mark.deep(105)


class Desk:
    """An operator at a shell, beside an instance."""

    def __init__(self, instance: Instance, folder: Path) -> None:
        self.instance, self.folder = instance, folder

    def topics(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "manage.py"), "topics", *arguments]
        return run(command, environment(self.instance.data, **settings), self.folder)

    def done(self, *arguments: str) -> str:
        done = self.topics(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: str, **settings: str) -> str:
        done = self.topics(*arguments, **settings)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        return done.stderr

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops the instance. Its PostgreSQL and Redis run within the block, so that no command has to start and stop them."""
        assert self.instance.stop() == 0
        with embedded.use(self.instance.data):
            yield

    def values(self, topic: str) -> str:
        return self.done("export", topic).replace("\n", " ").strip()


@pytest.fixture
def desk(instances: Callable[..., Instance], tmp_path: Path) -> Desk:
    """An instance with a topic, a router, a cursor and a queue of records, and a backup of it."""
    instance = instances()
    desk, api = Desk(instance, tmp_path), Api(instance.port)
    api.append("orders", 1, 2, 3)
    api.done("PUT", "/v0/routers/r", {"source": "orders", "dest": "audit", "from": "earliest"})
    api.done("PUT", "/v0/topics/orders/cursors/billing", {"seq": 2})
    assert api.done("POST", "/v0/topics/audit/diff", {"from_seq": 0})["head_seq"] == 3
    said = desk.done("backup", "a.dump")
    assert "2 topics with 6 records" in said
    assert "Each table has its rows in the file." in said
    assert (tmp_path / "a.dump").stat().st_mode & 0o777 == 0o600
    api.append("orders", 4)
    return desk


@pytest.mark.django_db
def test_a_client_that_leaves_is_not_in_the_way() -> None:
    where = {**connection.get_connection_params(), "dbname": "postgres"}
    with psycopg.connect(**where, autocommit=True) as session, psycopg.connect(**where) as other:
        with pytest.raises(Refusal, match="the database is in use"):
            check_unused(session)
        leaving = threading.Timer(0.3, other.close)
        leaving.start()
        check_unused(session)
        assert other.closed
        leaving.join()


def test_everything_comes_back(desk: Desk) -> None:
    assert "exists: choose another name" in desk.refused("backup", "a.dump")
    said = desk.refused("restore", "a.dump", "--force")
    assert "the database is in use (" in said
    assert "topics web" in said
    with desk.stopped():
        assert "the database holds 2 topics with 7 records: --force deletes them" in desk.refused("restore", "a.dump")
        assert desk.values("orders") == "1 2 3 4"
        said = desk.done("restore", "a.dump", "--force")
        assert "2 topics with 6 records. Each table has the rows of the file" in said
        assert desk.values("orders") == desk.values("audit") == "1 2 3"
    desk.instance.start()
    api = Api(desk.instance.port)
    assert api.done("GET", "/v0/topics/orders/cursors/billing")["seq"] == 2
    assert api.append("orders", 5) > 4  # no seq that a reader can have seen of the lost record
    assert desk.values("audit") == "1 2 3 5"
    with desk.instance.connect() as connection:
        rights = connection.execute(
            "SELECT has_table_privilege('topics_analyst', 'topic_log', 'SELECT'),"
            " has_function_privilege('topics_writer', oid, 'EXECUTE'), has_function_privilege('public', oid, 'EXECUTE')"
            " FROM pg_proc WHERE proname = 'pipeline_append'"
        ).fetchall()
    assert rights == [(True, True, False)]


def test_a_plain_dump_gives_no_seq_twice(desk: Desk) -> None:
    """An operator of the database dumps and restores it with all tables, as every night."""
    url = desk.instance.servers.database_url
    with desk.stopped():
        with psycopg.connect(url) as session:
            folder = clients(session.info.server_version // 10_000)
        dump = [str(folder / "pg_dump"), "--format=custom", "--file=plain.dump", url]
        subprocess.run(dump, cwd=desk.folder, check=True)
    desk.instance.start()
    seen = Api(desk.instance.port).append("orders", 5)
    with desk.stopped():
        with psycopg.connect(url) as session:
            session.execute("DROP SCHEMA public, topics CASCADE; CREATE SCHEMA public")
        restore = [str(folder / "pg_restore"), "--exit-on-error", f"--dbname={url}", "plain.dump"]
        subprocess.run(restore, cwd=desk.folder, check=True)
    desk.instance.start()
    assert Api(desk.instance.port).append("orders", 6) > seen
    assert desk.values("orders") == "1 2 3 4 6"


def test_a_backup_fills_a_new_instance(desk: Desk, instances: Callable[..., Instance]) -> None:
    other = instances()
    assert other.stop() == 0
    new = Desk(other, desk.folder)
    assert "restored" in new.done("restore", "a.dump")
    assert new.values("orders") == "1 2 3"
    other.start()
    assert Api(other.port).append("orders", 4) > 3


def test_a_restore_takes_nothing_of_others_with_it(desk: Desk) -> None:
    def execute(statement: str) -> None:
        with psycopg.connect(desk.instance.servers.database_url) as session:
            session.execute(statement.encode())

    strange = "the schema public has tables or views of somebody else, for example public.theirs"
    with desk.stopped():
        execute("DROP SCHEMA public, topics CASCADE; CREATE SCHEMA public")
        for kind, made in (("TABLE", "(n int)"), ("VIEW", "AS SELECT 1")):
            execute(f"CREATE {kind} public.theirs {made}")
            assert strange in desk.refused("restore", "a.dump")
            execute(f"DROP {kind} public.theirs")  # it is still there
        desk.done("restore", "a.dump")
        execute("CREATE TABLE public.theirs (n int)")
        assert strange in desk.refused("restore", "a.dump", "--force")
        execute("DROP TABLE public.theirs; CREATE SCHEMA shop")
        execute("CREATE VIEW shop.report AS SELECT count(*) FROM public.topic_heads")
        assert "shop.report.count uses topics: drop it" in desk.refused("restore", "a.dump", "--force")
        execute("DROP VIEW shop.report; CREATE TABLE shop.orders (topic bigint REFERENCES public.topics_topic)")
        assert "shop.orders.orders_topic_fkey uses topics" in desk.refused("restore", "a.dump", "--force")
        execute("ALTER TABLE shop.orders DROP CONSTRAINT orders_topic_fkey")
        execute("CREATE FUNCTION public.own_id() RETURNS int RETURN 7; CREATE SEQUENCE public.numbers")
        execute("ALTER TABLE shop.orders ADD id int DEFAULT own_id(), ADD n int DEFAULT nextval('numbers')")
        execute("CREATE TABLE public.topics_later (n int)")  # of a later version, which is taken back
        desk.done("restore", "a.dump", "--force")
        execute("INSERT INTO shop.orders (topic) SELECT 1 WHERE own_id() = 7 AND nextval('numbers') = 1")
        with psycopg.connect(desk.instance.servers.database_url) as session:
            assert session.execute("SELECT id, n FROM shop.orders").fetchall() == [(7, 2)]
        execute("CREATE TABLE public.topics_later ()")
        assert desk.values("orders") == "1 2 3"


def test_a_file_that_is_damaged_or_does_not_fit_changes_nothing(desk: Desk) -> None:
    later = "INSERT INTO django_migrations (app, name, applied) VALUES ('topics', '9999_later', now())"
    low, none = "UPDATE topics_topichead SET head_seq = 1", "DELETE FROM topics_topichead"
    with desk.instance.connect() as connection:
        for name, change in (("later", later), ("low", low), ("none", none)):
            connection.execute(change)
            desk.done("backup", f"{name}.dump")
            connection.execute("DELETE FROM django_migrations WHERE name = '9999_later'")
    whole = (desk.folder / "a.dump").read_bytes()
    (desk.folder / "short.dump").write_bytes(whole[: len(whole) * 3 // 4])
    (desk.folder / "other.dump").write_text("CREATE TABLE a (b int);\n")
    with desk.stopped():
        desk.done("restore", "a.dump", "--force")
        for name, told in (
            ("short", "is no complete backup"),
            ("other", "is no complete backup"),
            ("missing", "No such file"),
            ("later", "a newer version of topics"),
            ("low", "a record above its head"),
            ("none", "a record above its head"),
        ):
            said = desk.refused("restore", f"{name}.dump", "--force")
            assert told in said
            assert ("nothing was restored" in said) == (name in ("later", "low", "none"))
        assert desk.values("orders") == "1 2 3"  # no file could have brought back what another one took


def test_a_file_of_another_schema_is_refused_with_both_names(desk: Desk) -> None:
    with desk.instance.connect() as connection:
        connection.execute("CREATE DATABASE shop")
    there = joining(desk.instance)
    there["DATABASE_URL"] = there["DATABASE_URL"].replace("@/topics?", "@/shop?options=-csearch_path%3Devents&")
    said = desk.refused("restore", "a.dump", **there)
    assert "a.dump has topics in the schema public, and here topics has the schema events: name public as" in said


def test_a_restore_brings_back_the_functions_for_applications(desk: Desk) -> None:
    """A later version replaced one. The dump does not have their schema, and has the rows that say which texts were applied."""
    definition = "SELECT pg_get_functiondef('topics.lag'::regproc)"
    with desk.instance.connect() as connection:
        before = connection.execute(definition).fetchall()
        connection.execute("ALTER FUNCTION topics.lag COST 7")
        connection.execute("UPDATE store_object SET digest = 'later' WHERE name = 'door/functions/topics.lag'")
    with desk.stopped():
        desk.done("restore", "a.dump", "--force")
    desk.instance.start()
    with desk.instance.connect() as connection:
        assert connection.execute(definition).fetchall() == before


def test_a_backup_may_take_longer_than_a_limit_of_its_role(desk: Desk) -> None:
    """The session with the snapshot is idle while pg_dump reads."""
    with desk.instance.connect() as connection:
        connection.execute("ALTER ROLE CURRENT_USER SET idle_in_transaction_session_timeout = '1ms'")
        try:
            desk.done("backup", "b.dump")
        finally:
            connection.execute("ALTER ROLE CURRENT_USER RESET idle_in_transaction_session_timeout")


def test_a_failed_backup_leaves_no_file(desk: Desk) -> None:
    with desk.instance.connect() as connection:
        connection.execute("REVOKE SELECT ON routers_router FROM CURRENT_USER")
        said = desk.refused("backup", "b.dump")
    assert "pg_dump failed" in said
    assert [each.name for each in desk.folder.iterdir()] == ["a.dump"]
    assert "No such file" in desk.refused("backup", "none/b.dump")
