"""From nothing, and from the schema of each release, `migrate` gives the same objects. Migrations also run backwards.

`releases/` has the schemas of releases, their functions without bodies (.ci/release.py).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import ProgrammingError, connections

from base.refusal import Refusal
from store import objects as sqlobjects
from tests.deadlines import DEADLINE
from tests.instances import ROOT, until
from tests.migrations.databases import database, dump, environment, migrate, objects, read_objects
from tests.migrations.test_frozen import APPS, RELEASES
from tests.preloaded import run

pytestmark = pytest.mark.deep(47)


SCHEMAS = sorted(RELEASES.glob("*.sql"))
CREATED = re.compile(r"^CREATE (?:UNLOGGED )?(TABLE|INDEX) (\w+)", re.MULTILINE)


@pytest.fixture(scope="module")
def fresh() -> Iterator[str]:
    """A database that was migrated from nothing. It also made the role that the dumps grant to."""
    with database() as url:
        migrate(url)
        yield url


def differing(one: dict[str, str], other: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
    return {name: (one.get(name), other.get(name)) for name in {*one, *other} if one.get(name) != other.get(name)}


@pytest.mark.parametrize("release", [None, *SCHEMAS], ids=lambda path: path.stem if path else "now")
def test_every_release_can_be_upgraded(release: Path | None, fresh: str) -> None:
    """`now` would be the dump of a release at this commit."""
    with database() as url:
        with psycopg.connect(url) as connection:
            connection.execute(release.read_text() if release else dump(fresh))
        migrate(url)
        assert differing(objects(url), objects(fresh)) == {}


FUNCTIONS = """
SELECT proname, proargtypes::regtype[]::text[], pronargs - pronargdefaults,
       ARRAY(SELECT name FROM unnest(proargnames, proargmodes::text[]) AS argument (name, mode) WHERE mode IN ('o', 't'))
  FROM pg_proc WHERE pronamespace = 'public'::regnamespace
"""


def functions(url: str) -> dict[str, tuple[list[str], int, list[str]]]:
    """The types of the arguments of each function, how many of them a call must have, and the columns of the result."""
    with psycopg.connect(url) as connection:
        return {name: rest for name, *rest in connection.execute(FUNCTIONS)}  # type: ignore[misc]


def test_a_process_of_the_last_release_finds_its_functions(fresh: str) -> None:
    """It serves during the upgrade, and after a way back: its calls have its arguments, and read the columns that it knows."""
    with database() as url:
        with psycopg.connect(url) as connection:
            connection.execute(SCHEMAS[-1].read_text())
        before = functions(url)
    now = functions(fresh)
    assert sorted(before.keys() - now.keys()) == []
    for name, (types, _, columns) in before.items():
        known, least, told = now[name]
        assert known[: len(types)] == types, name
        assert least <= len(types), name
        assert set(columns) <= set(told), name


def test_migrations_make_the_tables_of_sql(fresh: str) -> None:
    """The files of sql/tables run again, in place of what they created, and the tables stay the same."""
    texts = [file.read_text() for app in APPS for file in sorted((ROOT / app / "sql" / "tables").glob("*.sql"))]
    with psycopg.connect(fresh) as connection:
        migrated = tables(connection)
        for kind, name in CREATED.findall("".join(texts)):
            connection.execute(f"DROP {kind} IF EXISTS {name} CASCADE")
        for text in texts:
            connection.execute(text)
        again = tables(connection)
        connection.rollback()
    assert differing(again, migrated) == {}, "a table needs a migration with the same ALTER TABLE"


def tables(connection: psycopg.Connection[Any]) -> dict[str, str]:
    kinds = ("table ", "column ", "index ", "constraint ")
    found = {name: text for name, text in read_objects(connection).items() if name.startswith(kinds)}
    views = ("column topic_", "column push_queues", "column groups_alive", "column door_mine")
    return {name: text for name, text in found.items() if not name.startswith(views)}


DOUBLES = r"""
SELECT indexname FROM pg_indexes
 WHERE schemaname = 'public' AND indexdef ~ '(varchar|text|bpchar)_pattern_ops' AND tablename ~ %s ORDER BY indexname
"""


def test_no_index_for_like_doubles_an_index_of_ours(fresh: str) -> None:
    """Django makes one beside each unique text column, named …_like. The migration of such a column has to drop it."""
    with psycopg.connect(fresh) as connection:
        assert connection.execute(DOUBLES, [f"^({'|'.join([*APPS, 'console', 'watch'])})_"]).fetchall() == []
        assert connection.execute(DOUBLES, ["^auth_"]).fetchall() != []  # Django's own stay


def test_functions_and_views_are_those_of_sql(fresh: str) -> None:
    names = {
        f"{kind[:-1]} {file.stem}"
        for app in APPS
        for kind in ("functions", "views")
        for file in (ROOT / app / "sql" / kind).glob("*.sql")
    }
    made = {name.partition("(")[0] for name in objects(fresh) if name.startswith(("function ", "view "))}
    assert made == names


class Changing(NamedTuple):
    url: str
    apply: Callable[[dict[str, str]], list[str]]


@pytest.fixture
def changing(fresh: str, django_db_blocker: Any) -> Iterator[Changing]:
    """A database, and what applies another version's texts to it: those of sql/, except the given ones. "" leaves an object out."""
    alias = "other"
    with database() as url:
        migrate(url)
        connections.databases[alias] = connections.databases["default"] | {"NAME": urlsplit(url).path[1:]}

        def apply(texts: dict[str, str]) -> list[str]:
            mixed = {name: text for name, text in (sqlobjects.current() | texts).items() if text}
            with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock():
                patch.setattr(sqlobjects, "current", lambda: mixed)
                return sqlobjects.apply(alias)

        try:
            yield Changing(url, apply)
        finally:
            connections[alias].close()
            del connections[alias], connections.databases[alias]


def test_only_what_differs_is_applied(changing: Changing) -> None:
    before = objects(changing.url)
    assert changing.apply({}) == []
    older = {
        "topics/functions/topic_era": "CREATE OR REPLACE FUNCTION topic_era(p_head_seq bigint) RETURNS bigint\n"
        "LANGUAGE sql IMMUTABLE AS $$ SELECT 7::bigint $$;"
    }
    assert changing.apply(older) == ["topics/functions/topic_era"]
    assert differing(objects(changing.url), before).keys() == {"function topic_era(bigint)"}
    assert changing.apply({}) == ["topics/functions/topic_era"]
    assert differing(objects(changing.url), before) == {}


def test_an_older_version_applies_its_own_texts_and_the_newer_one_too(changing: Changing) -> None:
    """The older one lacks an object, has one more, and has others with other arguments, results and columns."""
    before = objects(changing.url)
    function = "CREATE OR REPLACE FUNCTION {}({}) RETURNS {} LANGUAGE sql AS $$ SELECT NULL::{} $$;"
    older = {
        "topics/functions/topic_next_ts": function.format(
            "topic_next_ts", "p_topic_id bigint, p_seq bigint, p_more int DEFAULT 0", "bigint", "bigint"
        ),
        "topics/functions/topic_era": function.format("topic_era", "p_head_seq bigint", "integer", "integer"),
        "topics/views/topic_heads": "CREATE OR REPLACE VIEW topic_heads AS SELECT head_seq, topic_id FROM topics_topichead;",
        "topics/functions/topic_before": function.format("topic_before", "", "text", "text"),
        "queues/functions/queue_now": "",
        "outbox/functions/topics.emit_many": function.format("topics.emit_many", "topic text", "bigint", "bigint")
        + "COMMENT ON FUNCTION topics.emit_many IS 'Older.';",
    }
    changing.apply(older)
    between = objects(changing.url)
    assert "function topic_before()" in between
    assert not [name for name in between if name.startswith("function queue_now")]
    assert [name for name in between if name.startswith("function topic_next_ts")] == [
        "function topic_next_ts(bigint,bigint,integer)"
    ]
    assert "topic_next_ts" in between["view push_queues"]
    assert [name for name in between if name.startswith("function topics.emit_many(")] == [
        "function topics.emit_many(text)"
    ]
    changing.apply({})
    assert differing(objects(changing.url), before) == {}


def test_a_failed_text_changes_nothing(changing: Changing) -> None:
    before = objects(changing.url)
    with pytest.raises(ProgrammingError):
        changing.apply(
            {"topics/functions/topic_era": "", "topics/views/topic_heads": "CREATE OR REPLACE VIEW topic_heads AS"}
        )
    assert differing(objects(changing.url), before) == {}


def test_somebody_elses_view_on_an_object_is_never_dropped(changing: Changing) -> None:
    with psycopg.connect(changing.url) as connection:
        connection.execute("CREATE VIEW report AS SELECT head_seq FROM topic_heads")
    before = objects(changing.url)
    other = {
        "topics/views/topic_heads": "CREATE OR REPLACE VIEW topic_heads AS SELECT head_seq, topic_id FROM topics_topichead;"
    }
    with pytest.raises(Refusal, match=r"objects that report\.head_seq uses: drop it, run"):
        changing.apply(other)
    assert differing(objects(changing.url), before) == {}


def test_a_dropped_object_comes_again(changing: Changing) -> None:
    before = objects(changing.url)
    with psycopg.connect(changing.url) as connection:
        connection.execute("DROP VIEW topic_heads")
        connection.execute("DROP FUNCTION topic_era")
    assert changing.apply({}) == ["topics/functions/topic_era", "topics/views/topic_heads"]
    changing.apply({"topics/roles/topics_analyst": "SELECT 1"})
    assert changing.apply({}) == ["topics/roles/topics_analyst"]
    assert differing(objects(changing.url), before) == {}


WAITS = """
SELECT FROM pg_stat_activity
 WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'ALTER TABLE%'
"""


def test_migrations_go_back_to_nothing_and_forward_again(fresh: str) -> None:
    whole = objects(fresh)
    migrate(fresh, "topics", "zero")  # this also takes back the apps that depend on it
    left = {
        name
        for name in objects(fresh)
        if any(ours in name for ours in ("topic", "groups_member", "groups_share", "router", "span", "reclaim", "push"))
    }
    assert left == set()
    migrate(fresh)
    assert differing(objects(fresh), whole) == {}


def test_requests_pass_a_migration_that_waits_for_a_transaction(fresh: str) -> None:
    """Such as that of a backup. A change of a table waits for it, and everything else for the change."""
    with database() as url:
        migrate(url)
        migrate(url, "topics", "0021")
        with psycopg.connect(url) as backup, psycopg.connect(url, autocommit=True) as other:
            backup.execute("SELECT FROM topics_idempotencykey")
            command = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
            with subprocess.Popen(
                command, env=environment(url), cwd=ROOT, stderr=subprocess.PIPE, text=True
            ) as process:
                try:
                    until(lambda: other.execute(WAITS).fetchall(), "the migration to wait")
                    other.execute(f"SET lock_timeout = '{DEADLINE}s'")
                    other.execute("SELECT FROM topics_idempotencykey")
                    assert process.poll() is None
                finally:
                    backup.rollback()
                said = process.communicate(timeout=DEADLINE)[1]
        assert (process.returncode, said.count("\n")) == (0, 1)
        assert said.startswith("a transaction uses a table that is to change")
        assert differing(objects(url), objects(fresh)) == {}


def test_a_database_from_before_the_first_release_is_refused_in_one_line() -> None:
    with database() as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE topics_topichead (topic_id bigint PRIMARY KEY)")
        command = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
        done = run(command, environment(url), ROOT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("topics: a version before 0.2.0 made this database")
    assert "docs/guides/upgrading.md" in done.stderr
    assert done.stderr.count("\n") == 1
