"""A released migration never changes: databases were made by it. Objects in sql/ change freely (store/objects.py)."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from store.objects import ordered
from tests.instances import ROOT
from topics_project import __version__

APPS = ("topics", "queues", "door", "outbox", "groups", "mirrors", "routers", "push", "pipeline")
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
    assert [name for name in names if not re.fullmatch(r"(topics\.)?[a-z_]+(_\d+)?\.sql", name)] == []
    assert len(names) > 50


def test_functions_and_views_can_be_replaced() -> None:
    texts = {file: file.read_text() for app in APPS for file in (ROOT / app / "sql").rglob("*.sql")}
    assert [file for file, text in texts.items() if re.search(r"^CREATE (FUNCTION|VIEW)", text, re.MULTILINE)] == []


def test_the_version_is_not_before_the_last_release() -> None:
    def numbers(version: str) -> list[int]:
        return [int(part) for part in version.removeprefix("v").split(".")]

    assert all(numbers(release.stem) <= numbers(__version__) for release in DIGESTS)


def test_an_object_comes_after_those_that_it_uses() -> None:
    texts = {"a/functions/f": "g() -- h", "a/functions/g": "1", "b/functions/h": "SELECT f()"}
    assert list(ordered(texts)) == ["a/functions/g", "a/functions/f", "b/functions/h"]
    with pytest.raises(ValueError, match="a/functions/f, a/functions/g"):
        ordered(texts | {"a/functions/g": "f()"})
