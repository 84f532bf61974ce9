"""Volatile records after a restart: lost with a tombstone, and everything else is as it was."""

from __future__ import annotations

import pytest
from django.db import connection

from tests.log.test_delete import NOW, head, read, write
from tests.log.test_reclaim import mirror, reclaim_all
from tests.scripts import delete_records, delete_topic, diff, put_topic
from topics.config import Config
from topics.read.diff import Diff
from topics.upkeep import recovery as restart
from topics.upkeep import retention

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_memory")]


def crash() -> None:
    """What a crash of PostgreSQL leaves of topics at rest: unlogged tables are empty."""
    retention.give_back_seqs(NOW + retention.REST_MS + 1)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM topics_record_volatile")
        cursor.execute("DELETE FROM topics_survived")
    restart.recover(connection)


def lost(name: str, from_seq: int = 0) -> tuple[str | None, int]:
    window = diff(name, Diff(from_seq=from_seq), NOW)
    return window.lost, window.gap_to


def configure(name: str, durability: str) -> None:
    put_topic(name, Config(durability=durability), NOW)  # type: ignore[arg-type]


@pytest.mark.guarantee("W4")
def test_memory_is_lost_with_a_crash() -> None:
    configure("t", "memory")
    write("t", *"abc")
    crash()
    assert lost("t") == ("restart", 3)
    assert lost("t", 3) == (None, 3)
    assert (head("t").head_seq, head("t").count, head("t").bytes) == (3, 0, 0)
    write("t", "d")
    assert read("t") == ([4], 4)


def test_a_database_that_was_copied_counts_as_crashed() -> None:
    write("t", *"abc")
    reserved = head("t").reserved_seq
    assert reserved > 3
    with connection.cursor() as cursor:
        cursor.execute("UPDATE topics_survived SET home = 'elsewhere'")
    for _ in range(2):  # the second finds nothing to do
        restart.recover(connection)
        assert lost("t", 3) == ("restart", reserved)
        assert read("t") == ([1, 2, 3], 3)


@pytest.mark.guarantee("W5")
def test_what_survived_stays() -> None:
    configure("t", "memory")
    write("t", *"abc")
    restart.recover(connection)
    assert lost("t") == (None, 0)
    assert read("t") == ([1, 2, 3], 3)


def test_logged_records_stay_around_what_is_lost() -> None:
    write("t", *"ab")
    configure("t", "memory")
    write("t", *"cd")
    configure("t", "disk")
    write("t", *"ef")
    crash()
    assert (head("t").count, head("t").bytes) == (4, 12)
    assert read("t") == ([1, 2], 2)
    assert lost("t", 2) == ("restart", 4)
    assert read("t", 2) == ([5, 6], 6)
    delete_records("t", 3, None, NOW)
    assert lost("t") == ("restart", 4)
    assert lost("t", 4) == (None, 4)


def test_deleted_records_are_not_lost() -> None:
    write("t", *"abab")
    delete_records("t", None, "b", NOW)
    reclaim_all()
    crash()
    assert lost("t") == (None, 0)
    assert read("t") == ([1, 3], 4)


@pytest.mark.guarantee("W4")
def test_a_copy_of_what_is_lost_is_lost() -> None:
    write("t", *"ab")
    configure("t", "memory")
    write("t", *"cd")
    mirror("t", "dest")
    write("dest", "x")
    crash()
    assert read("dest") == ([1, 2], 2)
    assert lost("dest", 2) == ("restart", 4)
    assert read("dest", 2) == ([5], 5)
    assert (head("dest").count, head("dest").bytes) == (3, 9)


def test_a_copy_is_lost_with_a_deleted_home_too() -> None:
    configure("t", "memory")
    write("t", *"ab")
    mirror("t", "dest")
    delete_topic("t", False, NOW)
    crash()
    assert lost("dest") == ("restart", 2)
    assert head("dest").count == 0


def test_ephemeral_is_empty_after_every_start() -> None:
    configure("t", "ephemeral")
    configure("kept", "memory")
    write("t", *"ab")
    write("kept", *"ab")
    mirror("t", "dest")
    assert restart.empty_ephemeral() == 2
    assert lost("t") == ("restart", 2)
    assert read("kept") == ([1, 2], 2)
    assert read("dest") == ([1, 2], 2)
    assert restart.empty_ephemeral() == 0
