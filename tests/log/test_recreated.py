"""Numbering goes on under a name: a topic that is created again continues above its predecessor, and its readers are told."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest
from django.db import connection, transaction

from base.errors import HeadMismatch
from tests.deadlines import DEADLINE
from tests.instances import until
from tests.log.test_delete import NOW, head, read, write
from tests.scripts import append, delete_records, delete_topic, diff, look_up, put_topic
from topics.append.first import First
from topics.append.records import Append, NewRecord, check_rows
from topics.config import Config, Creation, creating
from topics.models import LastHead, Topic
from topics.read.diff import Diff, Window, tombstone
from topics.upkeep import recovery

pytestmark = pytest.mark.django_db


def recreated(**config: Any) -> None:
    """An empty topic, whose predecessor had three records."""
    write("t", *"abc")
    delete_topic("t", False, NOW)
    put_topic("t", Config(**config), NOW)


def at(from_seq: int, **wanted: Any) -> Window:
    return diff("t", Diff(from_seq=from_seq, **wanted), NOW)


def expecting(head_seq: int) -> tuple[int, bool]:
    wanted = Append([NewRecord(msgspec.Raw(b"1"))], expected_head=head_seq)
    done = append("t", wanted, check_rows(wanted), NOW)
    return done.first_seq, done.created


def test_the_first_append_continues_above_the_last_head() -> None:
    write("t", *"abc")
    delete_topic("t", False, NOW)
    write("t", *"de")
    assert read("t") == ([4, 5], 5)
    made = head("t")
    assert (made.floor_seq, made.recreated_seq, made.count, made.reserved_seq > 5) == (3, 3, 2, True)


@pytest.mark.guarantee("W5")
@pytest.mark.parametrize("seq", [0, 1, 2, 3])
def test_a_reader_of_the_predecessor_is_told_before_the_first_record(seq: int) -> None:
    write("t", *"abc")
    delete_topic("t", False, NOW)
    write("t", *"de")
    window = at(seq)
    assert (window.lost, window.gap_to, window.next_from_seq, window.scanned) == ("recreated", 3, 5, 2)
    told = tombstone(window, seq)
    assert told is not None
    assert (told["gap_from"], told["gap_to"], told["missed_estimate"]) == (seq + 1, 3, 3 - seq)
    assert at(window.next_from_seq).lost is None
    assert at(4).lost is None


def test_an_empty_topic_has_the_head_of_its_predecessor() -> None:
    recreated()
    made = head("t")
    assert (made.head_seq, made.floor_seq, made.reserved_seq, made.recreated_seq) == (3, 3, 3, 3)
    behind, there = at(1), at(3)
    assert (behind.lost, behind.next_from_seq, behind.earliest_seq, behind.caught_up) == ("recreated", 3, 4, True)
    assert (there.lost, there.next_from_seq, there.tells(3)) == (None, 3, False)  # a long poll waits
    write("t", "d")
    assert (at(3).lost, at(3).gap_to, at(3).next_from_seq) == ("recreated", 3, 4)


def test_a_reader_from_a_time_is_told_of_no_predecessor() -> None:
    recreated()
    write("t", "d")
    window = diff("t", Diff(from_ts=NOW), NOW)
    assert (window.lost, window.next_from_seq) == (None, 4)


def test_a_cursor_above_the_head_reads_from_the_beginning() -> None:
    recreated()
    write("t", "d")
    told = tombstone(at(50), 50)
    assert told is not None
    assert (told["reason"], told["gap_from"], told["gap_to"], told["missed_estimate"]) == ("recreated", 4, 3, 0)


def test_the_head_that_a_new_topic_is_expected_to_have() -> None:
    write("t", *"abc")
    delete_topic("t", False, NOW)
    for wrong in (0, 2, 4):
        with pytest.raises(HeadMismatch) as refused:
            expecting(wrong)
        assert refused.value.detail["head_seq"] == 3
    assert not Topic.objects.filter(name="t").exists()
    assert expecting(3) == (4, True)


def test_an_append_with_a_key_or_a_config_continues_too() -> None:
    write("t", *"abc")
    delete_topic("t", False, NOW)
    wanted = Append([NewRecord(msgspec.Raw(b"1"))], idempotency_key="k", config=Config(cap_records=5))
    assert append("t", wanted, check_rows(wanted), NOW).first_seq == 4
    delete_topic("t", False, NOW)
    assert append("t", wanted, check_rows(wanted), NOW).first_seq == 5


def test_a_topic_that_never_had_a_record_leaves_nothing() -> None:
    put_topic("t", Config(), NOW)
    delete_topic("t", False, NOW)
    assert not LastHead.objects.exists()
    write("t", "a")
    assert (read("t"), at(0).lost) == (([1], 1), None)


def test_a_topic_that_is_deleted_again_and_again_tells_the_latest() -> None:
    recreated()
    delete_topic("t", False, NOW)  # empty: its head is its predecessor's
    write("t", "d")
    delete_topic("t", False, NOW)
    write("t", "e")
    assert LastHead.objects.get(name="t").head_seq == 4
    assert [at(seq).lost for seq in range(6)] == ["recreated"] * 5 + [None]
    assert at(2).gap_to == 4


def test_a_new_topic_that_lost_records_itself_says_recreated() -> None:
    recreated(cap_records=1)
    write("t", *"def")
    assert [(at(seq).lost, at(seq).gap_to) for seq in (2, 3, 4, 5)] == [("recreated", 5)] * 2 + [("cap", 5), (None, 5)]
    delete_records("t", 7, None, NOW)
    assert (at(3).lost, at(3).next_from_seq, at(6).lost) == ("recreated", 6, None)


def test_a_crash_right_behind_the_predecessor_holds_nobody_up() -> None:
    """A loss begins with the first seq, so nothing could be shown between the two tombstones."""
    put_topic("t", Config(), NOW)
    write("t", *"abc")
    delete_topic("t", False, NOW)
    write("t", *"de")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, "
            "keep_node, keep_tag, path) SELECT topic_id, 4, 5, NULL, 0, 0, 0, false, true, true, '{}' FROM topics_topichead"
        )
        cursor.execute(
            "DELETE FROM topics_record_logged WHERE seq IN (4, 5) AND topic_id IN (SELECT id FROM topics_topic)"
        )
        cursor.execute("UPDATE topics_topichead SET holes_seq = 5, count = 0")
    write("t", "f")
    window = at(3)
    assert (window.lost, window.gap_to, window.next_from_seq, window.scanned) == ("recreated", 5, 6, 1)


def test_an_ephemeral_topic_keeps_the_head_over_a_restart() -> None:
    recreated(durability="ephemeral")
    write("t", *"de")
    recovery.empty(look_up("t").id)
    assert [at(seq).lost for seq in (3, 4, 5)] == ["recreated", "restart", None]
    delete_topic("t", False, NOW)
    write("t", "f")
    assert read("t") == ([6], 6)


@pytest.mark.guarantee("W5")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", [Creation, First])
def test_a_statement_that_waited_sees_what_lived_meanwhile(kind: type[Creation] | type[First]) -> None:
    """`b` is created, written and deleted while a statement that creates `a` and `b` waits for `a`."""
    rows = check_rows(Append([NewRecord(msgspec.Raw(b"1"))]))
    if kind is Creation:
        statement = creating([Creation(name, {}, NOW, noted=False) for name in "ab"])
    else:
        (statement,) = First.transaction([First(name, rows, NOW) for name in "ab"]).statements

    def create() -> None:
        from store.database import prepared

        prepared(statement.sql, statement.arguments)
        connection.close()

    def waits() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            return bool(cursor.fetchone()[0])

    creator = threading.Thread(target=create)
    blocker = threading.Event()
    held = threading.Event()

    def hold() -> None:
        with transaction.atomic():
            put_topic("a", Config(), NOW)
            held.set()
            blocker.wait(DEADLINE)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(DEADLINE)
    creator.start()
    until(waits, "the creation waits for the name")
    write("b", *"xyz")
    delete_topic("b", False, NOW)
    blocker.set()
    holder.join()
    creator.join()
    assert head("b").head_seq == (3 if kind is Creation else 4)
