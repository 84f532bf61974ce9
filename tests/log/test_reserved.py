"""No seq is given out twice: a crash of PostgreSQL may take the unflushed tail of the log, and topics go on above what
anybody may have seen of it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from django.db import connection

from tests import scripts
from tests.log.test_delete import NOW, head, read, write
from tests.log.test_reclaim import mirror, reclaim_all
from tests.log.test_restart import configure, lost
from tests.scripts import delete_records, delete_topic, diff, put_topic
from topics.append.copies import CopiedRecord, Copy, check_copy
from topics.config import Config
from topics.models import CrashLoss, TopicHead
from topics.read.diff import Diff, tombstone
from topics.upkeep import recovery as restart
from topics.upkeep import retention

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_memory")]
RESERVED = 8192  # seqs beyond the head that an append to a small topic reserves when it has to


def rest() -> None:
    retention.give_back_seqs(NOW + retention.REST_MS + 1)


def crash_without(name: str, last_seq: int) -> None:
    """What a crash of PostgreSQL leaves that came before this topic's records above `last_seq` were flushed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE topics_topichead SET head_seq = %(last)s, count = %(last)s - floor_seq, total = %(last)s * 3,"
            " bytes = (%(last)s - floor_seq) * 3 WHERE topic_id = %(id)s",
            {"last": last_seq, "id": head(name).pk},
        )
        cursor.execute("DELETE FROM topics_record WHERE topic_id = %s AND seq > %s", [head(name).pk, last_seq])
        cursor.execute("DELETE FROM topics_survived")
    restart.recover(connection)


def flushed_by(work: Callable[[], object]) -> bool:
    """Whether the work's commit waited until its log was on disk. Autovacuum and the like may write meanwhile: they only
    make this False."""
    with connection.cursor() as cursor:
        work()
        cursor.execute("SELECT pg_current_wal_insert_lsn() <= pg_current_wal_flush_lsn()")
        return bool(cursor.fetchone()[0])


@pytest.mark.guarantee("W5")
def test_a_topic_goes_on_above_what_anybody_may_have_seen() -> None:
    write("t", *"abcde")
    crash_without("t", 3)
    assert read("t") == ([1, 2, 3], 3)
    assert lost("t", 3) == ("restart", 5 + RESERVED)
    write("t", "f")
    assert read("t", 3) == ([6 + RESERVED], 6 + RESERVED)


def test_a_reader_that_was_ahead_gets_a_tombstone_and_continues() -> None:
    write("t", *"abcde")
    crash_without("t", 3)
    write("t", "f")
    newest = head("t").head_seq
    for seen in (3, 4, 5):  # with the last of the log, in the middle of what went, and at its end
        window = diff("t", Diff(from_seq=seen), NOW)
        assert (window.lost, window.gap_to) == ("restart", newest - 1)
        assert [read("t", seen)[1], window.next_from_seq] == [newest, newest]
    assert lost("t", newest)[0] is None


def lost_from(name: str, from_seq: int) -> int | None:
    told = tombstone(diff(name, Diff(from_seq=from_seq), NOW), from_seq)
    return None if told is None else told.get("lost_from")


@pytest.mark.guarantee("R1")
def test_a_tombstone_says_from_where_the_log_was_lost() -> None:
    write("t", *"abcde")
    crash_without("t", 3)
    assert [lost_from("t", seq) for seq in (2, 3, 4, 5, 4 + RESERVED)] == [None, 4, 4, 4, 4]
    assert lost_from("t", 5 + RESERVED) is None
    write("t", "f")
    assert [lost_from("t", seq) for seq in (3, 4, 5)] == [4, 4, 4]


def test_what_follows_the_loss_does_not_hide_where_it_begins() -> None:
    """Evicted, reclaimed, and a second crash: the reader was away all the time."""
    write("t", *"abcde")
    crash_without("t", 3)
    first = head("t").head_seq
    write("t", *"fg")
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM topics_survived")
    restart.recover(connection)
    write("t", "k")
    assert [lost_from("t", seq) for seq in (3, 5, first, first + 2, first + 4)] == [4, 4, None, first + 3, first + 3]
    put_topic("t", Config(cap_records=1), NOW)
    reclaim_all()
    windows = {seq: diff("t", Diff(from_seq=seq), NOW) for seq in (0, 5, first + 4)}
    assert {seq: (window.lost, window.lost_from) for seq, window in windows.items()} == {
        0: ("mixed", 1),
        5: ("mixed", 4),
        first + 4: ("restart", first + 3),
    }


def test_a_topic_of_which_nothing_is_left_says_where_its_loss_begins() -> None:
    write("t", *"abc")
    crash_without("t", 0)
    reclaim_all()
    assert [lost_from("t", seq) for seq in range(4)] == [1, 1, 1, 1]
    write("t", "d")
    assert [lost_from("t", seq) for seq in range(4)] == [1, 1, 1, 1]
    delete_topic("t", False, NOW)
    assert not CrashLoss.objects.exists()


def test_a_copy_says_where_its_loss_begins() -> None:
    mirror("t", "dest")
    write("t", *"abcde")
    assert read("dest")[0] == [1, 2, 3, 4, 5]
    with connection.cursor() as cursor:  # spans and cursors go with the records that they are of
        cursor.execute("UPDATE topics_span SET last_seq = 3, home_last_seq = 3")
        cursor.execute("UPDATE topics_cursor SET seq = 3")
        cursor.execute(
            "UPDATE topics_topichead SET head_seq = 3, holes_seq = 3, count = 3, bytes = 9 WHERE topic_id = %s",
            [head("dest").pk],
        )
    crash_without("t", 3)
    assert [lost_from("dest", seq) for seq in (3, 4, 5)] == [4, 4, 4]


def test_a_restart_that_takes_what_was_flushed_begins_behind_the_reader() -> None:
    configure("t", "ephemeral")
    write("t", *"abc")
    restart.empty_ephemeral()
    assert [lost_from("t", seq) for seq in (0, 1, 3)] == [1, 2, None]


def test_a_head_that_comes_to_what_is_reserved_is_on_disk() -> None:
    """A reader there could not be told: the numbering goes on right behind it."""
    write("t", "a")
    write("t", *"b" * RESERVED)
    assert head("t").reserved_seq == 2 * RESERVED + 1


def test_the_gap_counts_for_nothing() -> None:
    write("t", *"abcde")
    crash_without("t", 3)
    write("t", "f")
    assert (head("t").count, head("t").bytes) == (4, 12)
    assert delete_records("t", head("t").head_seq, None, NOW).deleted == 3
    assert (head("t").count, head("t").bytes) == (1, 3)
    reclaim_all()
    assert read("t")[0] == [head("t").head_seq]


def test_a_topic_that_lost_all_it_held_is_empty_and_says_so() -> None:
    write("t", *"abc")
    crash_without("t", 0)
    assert (head("t").count, head("t").floor_seq) == (0, head("t").head_seq)
    assert lost("t") == ("restart", head("t").head_seq)
    assert lost("t", 3) == ("restart", head("t").head_seq)
    write("t", "d")
    assert read("t")[0] == [head("t").head_seq]


def test_fsync_topics_have_no_gap() -> None:
    configure("t", "fsync")
    write("t", *"abc")
    crash_without("t", 3)
    write("t", "d")
    assert read("t") == ([1, 2, 3, 4], 4)
    assert lost("t") == (None, 0)


def test_topics_at_rest_have_no_gap() -> None:
    write("t", *"abc")
    rest()
    crash_without("t", 3)
    write("t", "d")
    assert read("t") == ([1, 2, 3, 4], 4)


def test_a_second_crash_leaves_a_second_gap() -> None:
    write("t", *"abc")
    crash_without("t", 2)
    write("t", "d")
    first = head("t").head_seq
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM topics_survived")
    restart.recover(connection)
    write("t", "e")
    second = head("t").head_seq
    assert second > first + 1
    assert read("t", lost("t", 2)[1]) == ([first], first)
    assert lost("t", first) == ("restart", second - 1)


def test_only_the_append_that_reserves_waits_for_the_disk() -> None:
    for _ in range(3):
        write("t", "a")
        assert head("t").reserved_seq == 1 + RESERVED
    write("t", *"a" * 10_000)
    assert head("t").reserved_seq == 10_003 + RESERVED


@pytest.mark.parametrize(
    ("seqs", "reserved"), [(10, RESERVED), (65_536, RESERVED), (800_000, 100_000), (10**9, 1_000_000)]
)
def test_a_large_topic_reserves_more(seqs: int, reserved: int) -> None:
    write("t", "a")
    TopicHead.objects.filter(topic__name="t").update(head_seq=seqs - 1, reserved_seq=0)
    write("t", "b")
    assert head("t").reserved_seq == seqs + reserved


@pytest.mark.guarantee("W5")
@pytest.mark.django_db(transaction=True)
def test_what_reserves_is_on_disk_before_it_is_seen() -> None:
    put_topic("t", Config(), NOW)
    mirror("t", "dest")
    assert reserves("t", lambda: write("t", "a"))
    assert reserves("dest", forward)
    assert head("dest").reserved_seq == head("t").head_seq + RESERVED


def forward() -> None:
    read("dest")  # a reader advances it


def reserves(name: str, work: Callable[[], object]) -> bool:
    """Whether a topic that has to reserve waits for the disk, in one of some tries: autovacuum may spoil one or another."""
    for _ in range(10):
        write("t", "b")
        TopicHead.objects.filter(topic__name=name).update(reserved_seq=0)
        if flushed_by(work):
            return True
    return False


def test_forwarding_reserves_as_appends_do() -> None:
    mirror("t", "plain")
    mirror("t", "stamped", guarantee="exactly_once")
    write("t", *"abc")
    assert [read(name)[0] for name in ("plain", "stamped")] == [[1, 2, 3]] * 2
    assert [head(name).reserved_seq for name in ("plain", "stamped")] == [3 + RESERVED] * 2


def test_a_dest_tells_of_the_gap_of_its_source() -> None:
    mirror("t", "dest")
    write("t", *"abcde")
    crash_without("t", 3)  # before anything was forwarded
    write("t", "f")
    assert read("dest")[0] == [1, 2, 3]
    reason, upto = lost("dest", 3)
    assert reason == "source_trim"
    assert read("dest", upto)[0] == [head("dest").head_seq]


def test_a_cursor_stays_where_it_was() -> None:
    write("t", *"abcde")
    scripts.move("t", "mine", 5, None, NOW)
    crash_without("t", 3)
    assert scripts.cursor("t", "mine", NOW).seq == 5
    assert scripts.move("t", "mine", 5, 5, NOW).made is False
    write("t", "f")
    assert read("t", 5)[0] == [head("t").head_seq]


# -- Sealed topics


def crash() -> None:
    """A crash of PostgreSQL that takes nothing of the log."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM topics_survived")
    restart.recover(connection)


def test_a_crash_does_not_move_the_head_of_a_sealed_topic() -> None:
    write("t", *"abcde")
    put_topic("t", Config(sealed=True), NOW)
    crash()
    assert (head("t").head_seq, lost("t", 5)[0]) == (5, None)
    put_topic("t", Config(sealed=False), NOW)
    write("t", "f")
    assert (read("t", 5), head("t").reserved_seq) == (([6], 6), 6 + RESERVED)


@pytest.mark.guarantee("W10")
def test_a_crash_moves_no_head_over_what_is_still_to_be_copied() -> None:
    put_topic("t", Config(sealed=True), NOW)

    def copy(*seqs: int) -> list[int]:
        records = [CopiedRecord(data=msgspec.Raw(b"1"), seq=seq, ts=NOW) for seq in seqs]
        wanted = Copy(copy=True, records=records)
        return list(scripts.copy("t", wanted, check_copy(wanted, NOW), NOW).seqs)

    assert copy(1, 2) == [1, 2]
    crash()
    assert copy(1, 2, 3, 5) == [3, 5]
    crash()
    assert (read("t"), lost("t", 0)[0]) == (([1, 2, 3, 5], 5), None)


def test_a_copy_is_on_disk_before_it_is_seen(transactional_db: None) -> None:
    """Whatever the topic's durability is: a reader may delete at the source what it sees here."""
    put_topic("copied", Config(sealed=True, durability="disk"), NOW)
    seqs = iter(range(1, 100))

    def copy() -> None:
        wanted = Copy(copy=True, records=[CopiedRecord(data=msgspec.Raw(b"1"), seq=next(seqs), ts=NOW)])
        scripts.copy("copied", wanted, check_copy(wanted, NOW), NOW)

    assert any(flushed_by(copy) for _ in range(20))
