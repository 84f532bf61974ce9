"""A released migration never changes: databases were made by it. Objects in sql/ change freely (.ci/snapshot.py)."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from store.objects import signature, text, undo
from tests.instances import ROOT
from topics_project import __version__

APPS = ("topics", "queues", "groups", "mirrors", "routers", "push", "pipeline")
RELEASES = ROOT / "tests" / "migrations" / "releases"
DIGESTS = sorted(RELEASES.glob("*.sha256"))


@pytest.mark.parametrize("release", DIGESTS, ids=lambda file: file.stem)
def test_released_migrations_are_unchanged(release: Path) -> None:
    for line in release.read_text().splitlines():
        digest, name = line.split("  ")
        found = ROOT / name
        assert found.exists(), f"{release.stem} has {name}: put it back"
        changed = hashlib.sha256(found.read_bytes()).hexdigest() != digest
        assert not changed, f"{release.stem} has {name}: put its text back, and write a new migration"


def test_no_name_has_a_version() -> None:
    """A version in a name is for processes of two releases that run side by side: `topic_append_2`."""
    names = [file.name for app in APPS for file in (ROOT / app / "sql").rglob("*.sql")]
    assert [name for name in names if not re.fullmatch(r"[a-z_]+(_\d+)?\.sql", name)] == []
    assert len(names) > 50


def test_functions_and_views_can_be_replaced() -> None:
    texts = {file: file.read_text() for app in APPS for file in (ROOT / app / "sql").rglob("*.sql")}
    assert [file for file, text in texts.items() if re.search(r"^CREATE (FUNCTION|VIEW)", text, re.MULTILINE)] == []


def test_the_version_is_not_before_the_last_release() -> None:
    def numbers(version: str) -> list[int]:
        return [int(part) for part in version.removeprefix("v").split(".")]

    assert all(numbers(release.stem) <= numbers(__version__) for release in DIGESTS)


def test_a_migration_loads_the_text_of_its_time(tmp_path: Path) -> None:
    current = tmp_path / "sql" / "functions" / "f.sql"
    superseded = tmp_path / "migrations" / "superseded"
    current.parent.mkdir(parents=True)
    superseded.mkdir(parents=True)
    current.write_text("third")
    (superseded / "f.0002.sql").write_text("first")
    (superseded / "f.0010.sql").write_text("second")
    migrations = tmp_path / "migrations"
    assert [text(migrations, "functions/f", number) for number in (1, 2, 9, 10, 11)] == [
        "first", "second", "second", "third", "third",
    ]  # fmt: skip


def test_what_undoes_an_object() -> None:
    assert (
        undo("-- CREATE TABLE b\nCREATE UNLOGGED TABLE a (b int);\nCREATE TABLE a_of PARTITION OF a") == "DROP TABLE a"
    )
    assert undo("CREATE OR REPLACE VIEW a AS SELECT 1") == "DROP VIEW a"
    assert undo("CREATE OR REPLACE FUNCTION a(b int) RETURNS int") == "DROP FUNCTION a"
    assert undo("ALTER TABLE a SET UNLOGGED") == ""


def test_only_another_signature_drops_a_function() -> None:
    one = "CREATE OR REPLACE FUNCTION a(\n    b int, OUT c int) -- text\nLANGUAGE sql AS $$ SELECT 1 $$"
    assert signature(one) == signature(
        "CREATE OR REPLACE FUNCTION a( b int, OUT c int) LANGUAGE plpgsql STABLE AS $$ $$"
    )
    assert signature(one) != signature("CREATE OR REPLACE FUNCTION a( b int, OUT d int) LANGUAGE sql AS $$ SELECT 1 $$")
