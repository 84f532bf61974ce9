"""Record deletes that arrive together share a transaction: as if they had come one after the other."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import msgspec
import psycopg
import pytest
from django.db import connection, connections
from django.db.transaction import atomic
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import InvalidRequest
from routers.routers import RouterConfig
from store import loop
from store.database import prepared
from store.script import run
from tests import reference, scripts
from tests.deadlines import DEADLINE
from tests.examples import examples
from tests.log.test_batch import lock, locker  # noqa: F401  # a fixture
from tests.log.test_delete import NOW, head, read, write
from tests.log.test_reserved import crash_without, lost
from tests.scripts import delete_records, look_up, put_router, put_topic
from tests.steps import held_and_passing, together
from topics.cache import CachedTopic, forget_all
from topics.config import Config
from topics.delete.records import Deleted, Deletion
from topics.delete.records import delete_records as deleting
from topics.models import Record

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _topics() -> Iterator[None]:
    anew()
    yield
    forget_all()


def anew() -> None:
    """Two empty topics, and one that others come behind."""
    forget_all()
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE topics_topic, topics_topichead, topics_record, topics_span CASCADE")
    for name in ("t", "other", "busy"):
        put_topic(name, Config(), NOW)


def tagged(topic: str, tag: str, before_seq: int | None = None, *, now: int = NOW) -> Deletion:
    return Deletion(look_up(topic), before_seq, tag, now)


def below(topic: str, before_seq: int, *, now: int = NOW) -> Deletion:
    return Deletion(look_up(topic), before_seq, None, now)


def deleted(*deletions: Deletion) -> list[Any]:
    """What comes of deletions of one kind that arrive together."""
    busy = look_up("busy")
    return together(Deletion(busy, 0, deletions[0].tag, NOW), *deletions)


def transactions(*names: str) -> int:
    """By how many the heads of these topics were moved last."""
    with connection.cursor() as cursor:
        ids = [look_up(name).id for name in names]
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM topics_topichead WHERE topic_id = ANY (%s)", [ids])
        return int(cursor.fetchone()[0])


def test_tags_of_several_topics_go_in_one_transaction() -> None:
    write("t", *"abcab")
    write("other", *"ab")
    done = deleted(tagged("t", "a"), tagged("other", "a"), tagged("t", "b", 3), tagged("t", "none"))
    assert [each.deleted for each in done] == [2, 1, 1, 0]
    assert (read("t")[0], read("other")[0]) == ([3, 5], [2])
    assert (head("t").floor_seq, head("t").count, head("t").bytes) == (2, 2, 6)
    assert (head("other").floor_seq, head("other").count, head("other").bytes) == (1, 1, 3)
    assert transactions("t", "other") == 1


def test_each_is_told_what_the_topic_held_then() -> None:
    write("t", *"abcd")
    done = deleted(tagged("t", "b"), tagged("t", "a"), tagged("t", "c"), tagged("t", "x"))
    assert done == [(1, 1, 4, 2, 6), (1, 4, 4, 1, 3), (1, 1, 4, 3, 9), (0, 1, 4, 4, 12)]


def test_of_those_with_one_tag_the_one_that_goes_farthest_is_first() -> None:
    write("t", *"aaab")
    done = deleted(tagged("t", "a", 2), tagged("t", "a", 4), tagged("t", "a", 3))
    assert done == [(0, 4, 4, 1, 3), (3, 4, 4, 1, 3), (0, 4, 4, 1, 3)]


def test_two_deletes_between_which_the_topic_reached_another_era_are_of_one_topic() -> None:
    """A process remembers the era of a topic anew when an append crosses a multiple of 256 seqs."""
    write("t", *"axbx")
    before = look_up("t")
    after = msgspec.structs.replace(before, era=before.era - 1)
    done = deleted(*(Deletion(topic, None, "x", NOW) for topic in (before, after)))
    assert sorted(done) == [(0, 1, 4, 2, 6), (2, 1, 4, 2, 6)]
    assert (read("t")[0], head("t").count) == ([1, 3], 2)
    done = deleted(*(Deletion(topic, seq, None, NOW) for topic, seq in ((before, 2), (after, 4))))
    assert [each.deleted for each in done] == [0, 2]
    assert (read("t")[0], head("t").count) == ([], 0)


def test_below_a_seq_the_one_that_goes_farthest_is_first() -> None:
    write("t", *"aaab")
    write("other", "a")
    done = deleted(below("t", 2), below("t", 4), below("other", 2), below("t", 0))
    assert done == [(0, 4, 4, 1, 3), (3, 4, 4, 1, 3), (1, 2, 1, 0, 0), (0, 4, 4, 1, 3)]
    assert transactions("t", "other") == 1


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_what_is_over_its_time_was_lost(durability: str) -> None:
    put_topic("t", Config(ttl_ms=1000, durability=durability), NOW)
    write("t", *"ab")
    write("t", *"ab", now=NOW + 900)
    assert deleted(tagged("t", "a", now=NOW + 1500)) == [(1, 4, 4, 1, 3)]
    assert lost("t")[0] == "ttl"
    assert deleted(below("t", 4, now=NOW + 1950)) == [(0, 5, 4, 0, 0)]
    assert lost("t", 3)[0] == "ttl"


def test_a_topic_that_was_configured_anew_is_looked_up_again() -> None:
    for name in ("t", "other"):
        write(name, *"ab")
    old = [tagged("t", "a"), below("t", 2)]
    put_topic("t", Config(cap_records=5), NOW)
    assert deleted(old[0], tagged("other", "a")) == [None, (1, 2, 2, 1, 3)]
    assert deleted(old[1], below("other", 3)) == [None, (1, 3, 2, 0, 0)]
    assert head("t").count == 2
    assert delete_records("t", None, "a", NOW).deleted == 1


def test_two_that_know_a_topic_by_different_versions_share_a_transaction() -> None:
    write("t", *"ab")
    old = [tagged("t", "a"), below("t", 2)]
    put_topic("t", Config(cap_records=5), NOW)
    assert deleted(old[0], tagged("t", "b")) == [None, (1, 1, 2, 1, 3)]
    assert deleted(old[1], below("t", 3)) == [None, (1, 3, 2, 0, 0)]


def test_what_came_through_a_router_is_for_the_other_way() -> None:
    write("t", *"ab")
    put_router("r", RouterConfig(source="t", dest="dest", start="earliest"), NOW)
    assert read("dest")[0] == [1, 2]
    write("other", "a")
    assert deleted(tagged("dest", "a"), tagged("other", "a")) == [None, (1, 2, 1, 0, 0)]
    assert delete_records("dest", None, "a", NOW) == (1, 2, 2, 1, 3)
    scripts.delete_router("r")  # from here on nobody could tell but by its spans
    assert not look_up("dest").derived
    assert delete_records("dest", None, "b", NOW) == (1, 3, 2, 0, 0)


def test_a_loss_is_told_of_all_the_same() -> None:
    write("t", *"abcde")
    crash_without("t", 3)
    write("t", "f")
    last = head("t").head_seq
    assert deleted(tagged("t", "a"), tagged("t", "b"), tagged("t", "c"))[2].deleted == 1
    assert (head("t").floor_seq, head("t").count) == (last - 1, 1)
    assert lost("t") == ("restart", last - 1)


def test_very_many_records_are_for_the_other_way() -> None:
    write("t", *["a"] * 5_001, "b")
    write("other", "a")
    assert deleted(tagged("t", "a"), tagged("other", "b")) == [None, (0, 1, 1, 1, 3)]
    assert (head("t").count, Record.objects.filter(deleted=True).count()) == (5_002, 0)

    async def main() -> list[Deleted]:
        try:
            each = [loop.here().drive(deleting(name, None, "a", NOW)) for name in ("t", "other")]
            return await asyncio.wait_for(asyncio.gather(*each), 60)
        finally:
            await loop.close()

    assert asyncio.run(main()) == [(5_001, 5_002, 5_002, 1, 3), (1, 2, 1, 0, 0)]


@pytest.mark.parametrize("kind", ["tag", "seq"])
def test_a_locked_head_holds_up_no_other_topic(kind: str, locker: psycopg.Connection[Any]) -> None:  # noqa: F811
    for name in ("t", "other"):
        write(name, *"ab")
    lock(locker, look_up("t"))
    both = [tagged(name, "a") if kind == "tag" else below(name, 2) for name in ("t", "other")]
    assert held_and_passing(*both, let_go=locker.rollback) == ((1, 2, 2, 1, 3),) * 2


def test_a_delete_under_way_in_a_topic_holds_up_no_other_topic(locker: psycopg.Connection[Any]) -> None:  # noqa: F811
    for name in ("t", "other"):
        write(name, *"ab")
    locker.execute("SELECT topic_delete_match(%s, 1, NULL, 'Glob', '', NULL, NULL)", [look_up("t").id])
    held, passed = held_and_passing(tagged("t", "a"), tagged("other", "a"), let_go=locker.commit)
    assert (held, passed) == ((0, 3, 2, 0, 0), (1, 2, 2, 1, 3))


def test_what_an_eviction_drops_after_it_was_marked_is_counted_once(locker: psycopg.Connection[Any]) -> None:  # noqa: F811
    write("t", *"abab")
    write("other", "a")
    t = look_up("t")
    lock(locker, t)  # the marks are made, and wait for it

    def evict() -> None:
        locker.execute("SELECT topic_evict(%s, 2, 0)", [t.id])
        locker.commit()

    held, _ = held_and_passing(tagged("t", "a"), tagged("other", "a"), let_go=evict)
    assert held == (1, 4, 4, 1, 3)
    assert (head("t").count, head("t").bytes, read("t")[0]) == (1, 3, [4])


def test_what_is_wrong_with_one_is_no_others_trouble() -> None:
    write("t", "a")
    good, wrong = deleted(tagged("t", "a"), Deletion(look_up("other"), None, "\0", NOW))
    assert isinstance(wrong, InvalidRequest)
    assert good == (1, 2, 1, 0, 0)


def test_two_processes_that_delete_in_the_same_topics_do_not_wait_for_each_other_for_ever() -> None:
    names = [f"n{n}" for n in range(20)]
    for name in names:
        put_topic(name, Config(), NOW)
        write(name, *"abcdefgh")
    topics = [look_up(name) for name in names]
    begin = threading.Barrier(2)
    counts: list[int] = []

    def delete(batches: list[list[Deletion]]) -> None:
        prepared("SELECT 1", ())
        begin.wait(DEADLINE)
        for batch in batches:
            with atomic():
                for sql, arguments, *_ in Deletion.transaction(batch).statements:
                    rows = prepared(sql, arguments)
            counts.extend(row[1] for row in rows)
        connections.close_all()

    by_tag = [
        [Deletion(topic, None, tag, NOW) for topic in topics for tag in pair] for pair in ("ab", "cd", "ef", "gh")
    ]
    below = [[Deletion(topic, seq, None, NOW) for topic in topics[::-1]] for seq in range(2, 10)]
    threads = [threading.Thread(target=delete, args=[batches]) for batches in (by_tag + below, by_tag[::-1] + below)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert sum(counts) == 8 * len(names)
    assert {(head(name).count, head(name).bytes, head(name).floor_seq) for name in names} == {(0, 0, 8)}


DELETIONS = st.lists(
    st.tuples(
        st.sampled_from(["t", "t", "other"]),
        st.sampled_from([None, 0, 1, 3, 5, 20]),
        st.sampled_from(["a", "a", "b", "c"]),
    ),
    min_size=1,
    max_size=6,
)
RECORDS = st.lists(st.tuples(st.sampled_from(["t", "other"]), st.sampled_from("aabbcd")), max_size=12)
ROUNDS = st.lists(st.tuples(RECORDS, DELETIONS, st.booleans(), st.sampled_from([0, 0, 400])), min_size=1, max_size=3)


@settings(max_examples=examples(8))
@given(ROUNDS, st.sampled_from([0, 500]))
def test_whatever_comes_together(
    rounds: list[tuple[list[tuple[str, str]], list[tuple[str, int | None, str]], bool, int]], ttl_ms: int
) -> None:
    """Of each topic there is an order in which its deletes, one after the other, come to the same (tests/reference.py)."""
    anew()
    logs = {}
    for name in ("t", "other"):
        put_topic(name, Config(ttl_ms=ttl_ms), NOW)
        logs[name] = reference.Log(reference.Config(ttl_ms=ttl_ms))
    now = NOW
    for records, deletions, by_tag, pause in rounds:
        now += pause
        for name, tag in records:
            write(name, tag, now=now)
            logs[name].append([('"x"', tag, None, 3)], now)
        steps = [
            tagged(name, tag, before_seq, now=now) if by_tag else below(name, before_seq or 0, now=now)
            for name, before_seq, tag in deletions
        ]
        done = deleted(*steps)
        for name in {each.topic.name for each in steps}:
            its = [(each, found) for each, found in zip(steps, done, strict=True) if each.topic.name == name]
            log = next(filter(None, (explained(order, logs[name], now) for order in permutations(its))))
            assert (head(name).count, read(name, now=now)[0]) == (log.count, [record.seq for record in log.live])
            logs[name] = log


def explained(order: tuple[tuple[Deletion, Deleted], ...], log: reference.Log, now: int) -> reference.Log | None:
    """The log after these deletes in this order; None where that does not come to what was found."""
    log = copy.deepcopy(log)
    for each, found in order:
        gone = log.delete(now, each.before_seq, each.tag)
        if found != (gone, log.earliest_seq, log.head_seq, log.count, log.bytes):
            return None
    return log


def test_a_thread_does_the_same() -> None:
    write("t", *"aab")
    t: CachedTopic = look_up("t")
    assert run(Deletion(t, None, "a", NOW).alone()) == (2, 3, 3, 1, 3)
    assert run(Deletion(t, 4, None, NOW).alone()) == (1, 4, 3, 0, 0)
