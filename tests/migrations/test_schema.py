"""From nothing, and from the schema of each release, the migrations give the same objects. They also run backwards.

`releases/` has a dump of each release's database (.ci/snapshot.py).
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.instances import ROOT
from tests.migrations.databases import database, dump, environment, migrate, objects, read_objects
from tests.migrations.test_frozen import APPS, RELEASES
from tests.preloaded import run

SCHEMAS = sorted(RELEASES.glob("*.sql"))
CREATED = re.compile(r"^CREATE (?:UNLOGGED )?(TABLE|INDEX) (\w+)", re.MULTILINE)
COMMAND = "run `.venv/bin/python .ci/snapshot.py`"


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
        assert differing(objects(url), objects(fresh)) == {}, COMMAND


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


def test_migrations_make_what_is_in_sql(fresh: str) -> None:
    """All files run again, in place of what they created, and the database stays the same."""
    files = {
        f"{app}/{file.parent.name}/{file.stem}": file for app in APPS for file in (ROOT / app / "sql").rglob("*.sql")
    }
    names = loaded()
    assert set(names) == files.keys(), COMMAND
    texts = [files[name].read_text() for name in names]
    with psycopg.connect(fresh) as connection:
        migrated = read_objects(connection)
        for kind, name in CREATED.findall("".join(texts)):
            connection.execute(f"DROP {kind} IF EXISTS {name} CASCADE")
        connection.execute("SET check_function_bodies = off")  # a function may use one of a later migration
        for text in texts:
            connection.execute(text)
        again = read_objects(connection)
        connection.rollback()
    assert differing(again, migrated) == {}, "a table needs a migration with the same ALTER TABLE"
    functions = [name.removeprefix("function ").partition("(")[0] for name in migrated if name.startswith("function ")]
    assert sorted(functions) == sorted(name.split("/")[2] for name in names if "/functions/" in name)


def loaded() -> list[str]:
    """The objects after all migrations, as APP/KIND/NAME, in the order of their creation."""
    names: list[str] = []
    for app in APPS:
        for file in sorted((ROOT / app / "migrations").glob("0*.py")):
            if made := getattr(importlib.import_module(f"{app}.migrations.{file.stem}"), "OBJECTS", None):
                names += [f"{app}/{name}" for name in made.creates]
                names = [name for name in names if name not in {f"{app}/{dropped}" for dropped in made.drops}]
    return names


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
