"""The first start on a PostgreSQL of somebody else: what is missing is one line with the remedy, and no table is left behind."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.deadlines import DEADLINE
from tests.docs.printed import snippets
from tests.instances import ROOT, free_port, until
from tests.migrations.databases import environment
from tests.own_postgres import Own, own_postgres
from tests.preloaded import begin, run
from tests.processes import child_process

pytestmark = pytest.mark.deep(41)


# A Django project without an app of its own, so each of its tables has a name of ours. The role may not read them.
PROJECT = """
CREATE TABLE django_migrations (id serial PRIMARY KEY, app text, name text, applied timestamptz DEFAULT now());
CREATE TABLE django_content_type (id serial PRIMARY KEY, app_label text, model text);
CREATE TABLE auth_user (id serial PRIMARY KEY, username text);
INSERT INTO django_migrations (app, name) VALUES ('contenttypes', '0001_initial'), ('auth', '0001_initial');
"""
OWNER = "GRANT CREATE ON SCHEMA public TO {0}; GRANT CREATE ON DATABASE {0} TO {0};"
GRANTED = "GRANT CREATE ON SCHEMA public TO {0}; CREATE SCHEMA topics AUTHORIZATION {0}"
TABLES = "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'S') AND oid >= 16384 ORDER BY 1"
OWN_SCHEMA = "options=-csearch_path%3Dtopics"
NO_SCHEMA = "the search_path of {0} names no schema for tables: add options=-csearch_path%3Dtopics to DATABASE_URL (docs/sql.md)."
FOREIGN = (
    "the schema public has the tables of another Django project: run `CREATE SCHEMA topics AUTHORIZATION {0}` and add "
    "options=-csearch_path%3Dtopics to DATABASE_URL (docs/sql.md), or name a database for topics alone."
)


@pytest.fixture(scope="module")
def own() -> Iterator[Own]:
    with own_postgres() as made:
        made.serve("data")
        yield made


class Site:
    """A database with a role of the same name, which has no right in it."""

    def __init__(self, own: Own, name: str, folder: Path, prepared: str = "") -> None:
        self.own, self.name, self.folder = own, name, folder
        self.execute("CREATE ROLE {0} LOGIN", at="postgres")
        self.execute("CREATE DATABASE {0}", at="postgres")
        self.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC;" + prepared)  # the default since PostgreSQL 15

    def execute(self, statements: str, at: str = "") -> list[Any]:
        """Runs the statements as a superuser. Returns the rows of the last."""
        with psycopg.connect(self.own.url.replace("/postgres", f"/{at or self.name}"), autocommit=True) as admin:
            done = admin.execute(statements.format(self.name).encode())
            return done.fetchall() if done.description else []

    def manage(self, *arguments: str, query: str = "") -> subprocess.CompletedProcess[str]:
        url = f"postgresql://{self.name}@127.0.0.1:{self.own.port}/{self.name}?{query}"
        return manage(url, self.folder, *arguments)


def manage(url: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    place = {"TOPICS_DATA": str(folder / "data"), "PORT": str(free_port())}
    return run([sys.executable, "manage.py", *arguments], {**environment(url), **place}, ROOT)


@pytest.mark.parametrize(
    ("name", "prepared", "query", "line"),
    [
        (
            "no_rights",
            "",
            "",
            f"{{0}} may not create what topics needs: run `{GRANTED}` as the owner of the database {{0}}.",
        ),
        (
            "in_public_only",
            "GRANT CREATE ON SCHEMA public TO {0}",
            "",
            "{0} may not create what topics needs: run `CREATE SCHEMA topics AUTHORIZATION {0}` as the owner of the "
            "database {0}.",
        ),
        (
            "of_another",
            "CREATE SCHEMA topics; GRANT USAGE ON SCHEMA topics TO {0}",
            OWN_SCHEMA,
            "{0} may not create what topics needs: run `GRANT CREATE ON SCHEMA topics TO {0}` as the owner of the database {0}.",
        ),
        (
            "missing",
            "",
            OWN_SCHEMA,
            "the schema topics is missing, and {0} may not create it: run `CREATE SCHEMA topics AUTHORIZATION {0}` as the "
            "owner of the database.",
        ),
        (
            "hidden",
            "CREATE SCHEMA topics",
            OWN_SCHEMA,
            "{0} may not use the schema topics: run `GRANT USAGE, CREATE ON SCHEMA topics TO {0}` as its owner.",
        ),
        ("no_path", OWNER, "options=-csearch_path%3D", NO_SCHEMA),
        ("of_the_role", OWNER + "ALTER ROLE {0} SET search_path = pg_catalog", "", NO_SCHEMA),
        ("a_shop", OWNER + PROJECT, "", FOREIGN),
        ("our_shop", OWNER + "SET ROLE {0};" + PROJECT, "", FOREIGN),
    ],
)
def test_what_is_missing_is_one_line_and_no_table(
    own: Own, tmp_path: Path, name: str, prepared: str, query: str, line: str
) -> None:
    site = Site(own, name, tmp_path, prepared)
    before = site.execute(TABLES)
    for command in ("prepare", "migrate", "run"):
        done = site.manage(command, query=query)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"topics: {line.format(name)}\n")
    assert site.execute(TABLES) == before
    for statements in re.findall("`(.*?)`", line):
        site.execute(statements)
    if line in (NO_SCHEMA, FOREIGN):
        query = OWN_SCHEMA
    assert site.manage("migrate", "--plan", query=query).returncode == 0  # nothing is missing now


def test_a_first_start_that_was_ended_half_way_continues(own: Own, tmp_path: Path) -> None:
    """Django's own tables come first. They have the names of every other project's."""
    site = Site(own, "half", tmp_path, GRANTED)
    assert site.manage("migrate", "auth").returncode == 0
    assert site.execute("SELECT to_regclass('auth_user'), to_regclass('topics_topic')") == [("auth_user", None)]
    assert site.manage("prepare").returncode == 0
    site.execute("REVOKE CREATE ON SCHEMA public FROM {0}")
    assert site.manage("prepare").returncode == 0  # a later start creates nothing, so it needs no rights


@pytest.mark.parametrize(
    ("number", "url"), [(0, "topics_server@{}/topics"), (1, f"shop_topics@{{}}/shop?{OWN_SCHEMA}")]
)
def test_the_printed_statements_are_enough(own: Own, tmp_path: Path, number: int, url: str) -> None:
    if number:
        Site(own, "shop", tmp_path, PROJECT)
    with psycopg.connect(own.url.replace("/postgres", "/shop") if number else own.url, autocommit=True) as admin:
        for statement in snippets("docs/deploy.md", "sql")[number].split(";\n"):
            admin.execute(statement.encode())
    done = manage("postgresql://" + url.format(f"127.0.0.1:{own.port}"), tmp_path, "prepare")
    assert (done.returncode, done.stderr) == (0, "")


def test_prepare_waits_for_a_postgresql_that_is_away(own: Own, tmp_path: Path) -> None:
    Site(own, "late", tmp_path, GRANTED)
    url = f"postgresql://late@127.0.0.1:{own.port}/"
    refused = manage(url + "nothing", tmp_path, "prepare")
    assert refused.returncode == 1  # a wait would not help
    assert re.fullmatch('topics: the database does not answer: .*"nothing" does not exist\n', refused.stderr)
    own.stop()
    argv, output = [sys.executable, "manage.py", "prepare"], tmp_path / "output"
    env = {**environment(url + "late"), "TOPICS_DATA": str(tmp_path / "data")}
    try:
        process = begin(argv, env, ROOT, output)
        until(lambda: output.exists() and output.read_text(), "the line of a wait")
    finally:
        own.serve("data")
    assert process.wait(DEADLINE) == 0
    said = output.read_text().splitlines()
    assert said[0].startswith("waiting for PostgreSQL, which does not answer: ")
    assert said[-1] == "the database is ready."


def test_systemd_prepares_as_soon_as_it_can(own: Own, tmp_path: Path) -> None:
    """The processes require its unit, so they would stay down after a failure of it."""
    site, log = Site(own, "systemd", tmp_path), tmp_path / "log"
    unit = (ROOT / "deploy" / "systemd" / "topics-prepare.service").read_text()
    (command,) = re.findall("^ExecStart=(.*)$", unit, re.M)
    words = shlex.split(command.replace("/opt/topics/.venv/bin/python", sys.executable))
    url = f"postgresql://systemd@127.0.0.1:{own.port}/systemd"
    given = {**environment(url), "TOPICS_DATA": str(tmp_path / "data")}
    with log.open("wb") as output, child_process(words, env=given, cwd=ROOT, stdout=output, stderr=output) as process:
        until(lambda: "may not create what topics needs" in log.read_text(), "the refusal")
        site.execute(OWNER)
    assert process.returncode == 0
    assert log.read_text().splitlines()[-1] == "the database is ready."
