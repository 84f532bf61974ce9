"""Old versions of a head, which PostgreSQL keeps while any transaction is open (topics/sql/functions/topic_era.sql)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import psycopg
import pytest
from django.db import connection

from base.clock import now_ms
from store.codec import dump, numbered
from store.planner import SESSION
from store.script import Statement
from tests.instances import ROOT, until
from tests.plans import run
from tests.scripts import put_topic
from tests.shell.writing import put
from topics import cache, heads
from topics.append.judged import JUDGE, parameters
from topics.append.records import Append, NewRecord, check_rows
from topics.append.statements import MAKE_ROOM, appending, expecting, room
from topics.cache import CachedTopic
from topics.config import Config
from topics.delete.records import DELETE_MATCH, DELETE_SEQS, Deletion
from topics.read import describe
from topics.read.diff import Diff, statement
from watch import hub

VERSIONS = 3_000  # on some 80 pages
ERA = 256  # seqs, which are some seven pages of versions
MORE = 30  # pages
MORE_OF = {"delete by seq": 75, "delete below of any topic": 75}  # they look at the head eight times
PACKAGES = ("topics", "routers", "push", "pipeline")


ONE_RECORD = Append([NewRecord(msgspec.Raw(b'"x"'))])


def append_one(topic: CachedTopic) -> Statement:
    return Statement(*appending([(topic, check_rows(ONE_RECORD))], now_ms()))


def append_many(topic: CachedTopic) -> Statement:
    return Statement(*expecting([(topic, check_rows(ONE_RECORD), None)], now_ms()))


def append_judged(topic: CachedTopic) -> Statement:
    return Statement(JUDGE, parameters([(topic, ONE_RECORD, check_rows(ONE_RECORD))], now_ms()))


def delete_below(topic: CachedTopic) -> Sequence[Statement]:
    return Deletion.transaction([Deletion(topic, VERSIONS - 5, None, now_ms())]).statements


APPENDS = {"one": append_one, "many": append_many, "judged": append_judged}
# What requests do again and again for a topic that is written.
STATEMENTS: dict[str, Callable[[CachedTopic], Statement]] = {
    **{f"append {kind}": make for kind, make in APPENDS.items()},
    "make room": lambda topic: Statement(MAKE_ROOM, room(msgspec.structs.replace(topic, cap_records=1), [], now_ms())),
    "diff": lambda topic: statement(topic, Diff(from_seq=VERSIONS - 5), now_ms()),
    "matches": lambda topic: statement(topic, Diff(window="matches", tail=5), now_ms()),
    "describe": lambda topic: Statement(describe.ONE, (None, topic.id, topic.version)),
    "look up": lambda topic: Statement(cache.LOOKUP, (topic.name,)),
    "head": lambda topic: Statement(heads.HEAD, (topic.id,)),
    "lock": lambda topic: Statement(heads.LOCK_HEAD, (topic.id,)),
    "heads of the hub": lambda topic: Statement(hub.HEADS, ([topic.id],)),
    "names of the hub": lambda topic: Statement(hub.BY_NAME, ([topic.name],)),
    "delete by seq": lambda topic: Statement(DELETE_SEQS, (topic.id, topic.version, [VERSIONS - 5], None)),
    "delete by match": lambda topic: Statement(DELETE_MATCH, (topic.id, topic.version, None, "Eq", "t", None, None)),
    "delete by tag": lambda topic: Deletion.transaction([Deletion(topic, None, "t", now_ms())]).statements[-1],
    "delete below": lambda topic: delete_below(topic)[1],
    "delete below of any topic": lambda topic: Statement(
        "SELECT topic_delete_below(%s, %s, NULL, %s)", (topic.id, topic.version, VERSIONS - 5)
    ),
    "lock for a delete": lambda topic: delete_below(topic)[0],
}


@pytest.fixture
def topic(transactional_db: None) -> CachedTopic:
    put_topic("t", Config(), now_ms())
    put("t", "1", "2", "3")
    return remembered()


@pytest.fixture
def opened(topic: CachedTopic) -> Iterator[psycopg.ClientCursor[Any]]:
    """A connection of its own, with the settings of an event loop."""
    with connected() as made:
        made.autocommit = True
        made.execute(SESSION)
        yield psycopg.ClientCursor(made)


def remembered() -> CachedTopic:
    known = cache.cached("t")
    assert known is not None
    return known


def connected() -> psycopg.Connection[Any]:
    return psycopg.connect(**connection.get_connection_params())


def pages(cursor: psycopg.ClientCursor[Any], step: Statement) -> int:
    """Runs the statement by a plan for all values, as the product does, and takes back what it changed.

    Returns how many pages PostgreSQL looked at.
    """
    values = [None if value is None else value.decode() for value in dump(step.sql, step.arguments)]
    with cursor.connection.transaction(force_rollback=True):
        cursor.execute(f"PREPARE step AS {numbered(step.sql)[0].decode()}")
        cursor.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE step ({', '.join('%s' for _ in values)})", values
        )
        (((plan,),),) = cursor.fetchall()
        cursor.execute("DEALLOCATE step")
    found: int = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    return found


def pages_of_each(cursor: psycopg.ClientCursor[Any], topic: CachedTopic) -> dict[str, int]:
    """What pages() finds for each statement when it runs again. At first, a function also reads the catalog."""
    cursor.execute("ANALYZE topics_topichead, topics_topic")  # which forgets the plans
    for make in STATEMENTS.values():
        pages(cursor, make(topic))
    return {kind: pages(cursor, make(topic)) for kind, make in STATEMENTS.items()}


def test_no_statement_reads_the_versions_that_a_transaction_keeps(
    topic: CachedTopic, opened: psycopg.ClientCursor[Any]
) -> None:
    before = pages_of_each(opened, topic)
    with connected() as other:
        other.execute("SELECT pg_current_xact_id()")
        for _ in range(VERSIONS):
            step = append_one(remembered())
            ((_, base, *_),) = opened.execute(step.sql, step.arguments).fetchall()
            cache.reached(topic, base + 1)
        after = pages_of_each(opened, remembered())
    assert {
        kind: (before[kind], most) for kind, most in after.items() if most > before[kind] + MORE_OF.get(kind, MORE)
    } == {}


@pytest.mark.parametrize("kind", APPENDS)
def test_an_append_that_waits_for_one_that_ends_an_era_follows_it(
    topic: CachedTopic, opened: psycopg.ClientCursor[Any], kind: str
) -> None:
    put("t", *["0"] * (ERA - 5))
    first, second = append_many(topic), APPENDS[kind](topic)
    with connected() as other, ThreadPoolExecutor(1) as thread:
        for _ in range(3):
            psycopg.ClientCursor(other).execute(first.sql, first.arguments)
        following = thread.submit(opened.execute, second.sql, second.arguments)
        waits = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        until(lambda: run(waits, opened.connection.info.backend_pid) == [(1,)], "the append to wait")
        other.commit()
        following.result()
    assert run("SELECT head_seq, era FROM topics_topichead WHERE topic_id = %s", topic.id) == [(ERA + 2, -1)]


def test_an_era_that_the_head_has_not_reached_is_forgotten(topic: CachedTopic) -> None:
    """A database that was put back to an earlier time under a running process."""
    cache.reached(topic, 1_000_000)
    put("t", "4")
    assert run("SELECT head_seq FROM topics_topichead WHERE topic_id = %s", topic.id) == [(4,)]


def test_both_sides_mean_the_same_era(topic: CachedTopic) -> None:
    for head_seq in (255, 256, 511, 512, 2**40):
        cache.reached(topic, head_seq)
        assert run("SELECT topic_era(%s)", head_seq) == [(remembered().era,)]


def test_appends_within_an_era_are_hot_updates(topic: CachedTopic, opened: psycopg.ClientCursor[Any]) -> None:
    hot = "SELECT pg_stat_get_xact_tuples_hot_updated('topics_topichead'::regclass)"
    with opened.connection.transaction():
        for _ in range(2 * ERA):
            step = append_one(topic)
            opened.execute(step.sql, step.arguments)
        ((updates,),) = opened.execute(hot).fetchall()
    assert updates >= 1.9 * ERA


def test_each_statement_that_advances_a_head_sets_its_era() -> None:
    advances = re.compile(
        r"(?<!DO UPDATE )SET head_seq = (?P<to>[^;]*?),\s*(?:era = topic_era\((?P<of>[^;]*?)\),)?\s*\w+ = "
    )
    found = {
        f"{file.relative_to(ROOT)}": advance
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*"))
        if file.suffix in (".py", ".sql") and "migrations" not in file.parts
        for advance in advances.finditer(file.read_text())
    }
    assert {*found} >= {
        "topics/append/copies.py",
        "routers/sql/functions/router_forward.sql",
        "push/sql/functions/push_fill.sql",
    }
    assert {where: each[0] for where, each in found.items() if each["of"] != each["to"]} == {}
