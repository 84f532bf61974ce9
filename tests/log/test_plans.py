"""Hot statements find their rows by index and touch no more than they show, whatever the planner believes.

Read off PostgreSQL's own counters of this transaction, so what the functions run inside is counted, too; with
statistics as wrong as they get (tables filled and never analyzed), and with good ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from django.db import connection

from topics import reclaim
from topics.append import APPEND_LOGGED, Append, NewRecord, check_rows, parameters
from topics.config import Config, put_topic
from topics.diff import DIFF
from topics.known import look_up, remembered

pytestmark = pytest.mark.usefixtures("_rolled_back")
NOW = 1_748_470_000_000
RECORDS = 100_000
TABLES = ("topics_record_logged", "topics_record_volatile", "routers_span", "topics_topichead")

COUNTERS = """
SELECT coalesce(sum(seq_scan), 0), coalesce(sum(idx_tup_fetch + seq_tup_read), 0)
  FROM pg_stat_xact_user_tables WHERE relname = ANY (%s)
"""
FILL_HOME = """
INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, node, tag, data)
SELECT %(id)s, n, %(now)s + n, n * 10, 10, 'n', CASE WHEN n %% 2000 = 0 THEN 'rare:' || n ELSE 'common' END, '"23456789"'
  FROM generate_series(1, %(records)s) n;
UPDATE topics_topichead SET head_seq = %(records)s, count = %(records)s, bytes = %(records)s * 10, total = %(records)s * 10,
       last_ts = %(now)s + %(records)s
 WHERE topic_id = %(id)s
"""
FILL_DEST = """
INSERT INTO routers_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,
                          keep_tag, path)
SELECT %(id)s, n + 1, n + %(length)s, %(home)s, n + 1, n + %(length)s, %(now)s + n, true, true, true, '{r}'
  FROM generate_series(0, %(records)s - 1, %(length)s) n;
UPDATE topics_topichead SET head_seq = %(records)s, ragged_seq = %(records)s, count = %(records)s, bytes = %(records)s * 10,
       last_ts = %(now)s + %(records)s
 WHERE topic_id = %(id)s
"""
FORGET = """
SELECT pg_clear_relation_stats('public', relname), pg_clear_attribute_stats('public', relname, attname, false)
  FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 WHERE relname = ANY (%s)
"""
EMPTIED = """
SELECT pg_restore_relation_stats('schemaname', 'public', 'relname', relname::text, 'relpages', 10, 'reltuples', 0::real)
  FROM pg_class WHERE relname = ANY (%s)
"""
ANALYZE = "ANALYZE topics_topic, " + ", ".join(TABLES)
EMPTY = "TRUNCATE topics_record, routers_span, topics_topichead; DELETE FROM topics_topic"
SPANS_OF_OTHERS = """
INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, data) SELECT id, 1, 0, 10, 10, '"23456789"' FROM topics_topic;
INSERT INTO routers_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,
                          keep_tag, path)
SELECT id + 1, 1, 1, id, 1, 1, 0, true, true, true, '{r}' FROM topics_topic
"""
AUTOVACUUM = "".join(f"ALTER TABLE {table} {{}};" for table in TABLES)
OTHERS = """
INSERT INTO topics_topic (name, type, ttl_ms, cap_records, cap_bytes, discard, durability, auto_priority, auto_create,
                          idempotency_window_ms, dedupe_node, lease_ms, claim_jitter_ms, max_deliveries, leases_durable,
                          created_ts)
SELECT 'other' || n, 'log', 0, 0, 0, 'old', 'disk', true, true, 0, true, 0, 0, 0, false, 0 FROM generate_series(1, 3000) n;
INSERT INTO topics_topichead (topic_id, head_seq, floor_seq, cap_lost_seq, ttl_lost_seq, restart_lost_seq,
                              source_lost_seq, ragged_seq, count, bytes, total, last_ts, last_read_ts, version)
SELECT id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 FROM topics_topic;
INSERT INTO topics_record_volatile (topic_id, seq, ts, total, size, volatile, data)
SELECT id, n, 0, n * 10, 10, true, '"23456789"' FROM topics_topic, generate_series(1, 5) n
"""


def run(sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, arguments)
        return cursor.fetchall()


def touched(work: Callable[[], Any]) -> tuple[int, int]:
    """Sequential scans and rows fetched by this work."""
    scans, rows = run(COUNTERS, list(TABLES))[0]
    work()
    scans_after, rows_after = run(COUNTERS, list(TABLES))[0]
    return int(scans_after - scans), int(rows_after - rows)


def make(name: str, fill: str, **arguments: Any) -> int:
    put_topic(name, Config(), NOW)
    id = look_up(name).id
    with connection.cursor() as cursor:
        cursor.execute(fill, {"id": id, "now": NOW, "records": RECORDS} | arguments)
    return id


@pytest.fixture(scope="module")
def topics(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, int]]:
    """A topic of own records, and two that show them through spans of 1 and of 10,000; the planner believes what the
    parameter says. Tests change and roll back.
    """
    remembered.clear()
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(AUTOVACUUM.replace("{}", "SET (autovacuum_enabled = false)"))
        cursor.execute(FORGET, [list(TABLES)])
        if request.param == "of one record a topic":
            cursor.execute(OTHERS.replace("generate_series(1, 5)", "generate_series(1, 1)"))
            cursor.execute(SPANS_OF_OTHERS)
            cursor.execute(ANALYZE)
            cursor.execute(EMPTY)
        elif request.param == "of one topic":
            make("only", FILL_HOME, records=1000)
            cursor.execute(ANALYZE)
            cursor.execute(EMPTY)
        elif request.param == "of emptied tables":
            cursor.execute(EMPTIED, [list(TABLES)])
        cursor.execute(OTHERS)
        home = make("home", FILL_HOME)
        ids = {
            "home": home,
            "short": make("short", FILL_DEST, home=home, length=1),
            "long": make("long", FILL_DEST, home=home, length=10_000),
        }
        if request.param == "good":
            cursor.execute(ANALYZE)
        remembered.clear()
        yield ids
        cursor.execute(AUTOVACUUM.replace("{}", "RESET (autovacuum_enabled)"))
        cursor.execute(EMPTY)
    remembered.clear()


@pytest.fixture
def _rolled_back(topics: dict[str, int], db: None) -> None:
    """The module's rows first, then the test's transaction."""


def read(topic: int, from_seq: int, limit: int) -> None:
    (window,) = run(DIFF, topic, 1, from_seq, limit, None, None, None, True, True, 10**6, None)
    assert window[1] == min(limit, RECORDS - from_seq)


CASES: dict[str, tuple[int, Callable[[dict[str, int]], Any]]] = {
    # what it does: rows it may touch
    "diff": (270, lambda t: read(t["home"], 50_000, 256)),
    "diff at the tail": (10, lambda t: read(t["home"], RECORDS, 256)),
    "diff of short spans": (530, lambda t: read(t["short"], 50_000, 256)),
    "diff of long spans": (530, lambda t: read(t["long"], 50_000, 256)),
    "seq at a time": (60, lambda t: run("SELECT topic_seq_at(%s, 0, %s, %s)", t["home"], RECORDS, NOW + 70_000)),
    "seq at a time, spans": (
        60,
        lambda t: run("SELECT topic_seq_at(%s, 0, %s, %s)", t["short"], RECORDS, NOW + 70_000),
    ),
    "before_seq": (10, lambda t: run("SELECT topic_trim(%s, 90000, 'delete')", t["home"])),
    "before_seq in long spans": (60, lambda t: run("SELECT topic_trim(%s, 85000, 'delete')", t["long"])),
    "expire": (70, lambda t: run("SELECT topic_expire(%s, %s)", t["home"], NOW + 80_000)),
    "expire nothing": (10, lambda t: run("SELECT topic_expire(%s, %s)", t["home"], NOW)),
    "evict by count": (20, lambda t: run("SELECT topic_evict(%s, %s, 0)", t["home"], RECORDS - 3)),
    "evict by bytes": (70, lambda t: run("SELECT topic_evict(%s, 0, %s)", t["home"], RECORDS * 10 - 35)),
    "evict short spans": (150, lambda t: run("SELECT topic_evict(%s, %s, 0)", t["short"], RECORDS - 3)),
    "evict short spans by bytes": (150, lambda t: run("SELECT topic_evict(%s, 0, %s)", t["short"], RECORDS * 10 - 35)),
    "evict long spans": (60, lambda t: run("SELECT topic_evict(%s, %s, 0)", t["long"], RECORDS - 3)),
    "delete by tag": (30, lambda t: delete(t["home"], "Eq", "rare:4000", None)),
    "delete by prefix": (400, lambda t: delete(t["home"], "Glob", "rare:", "rare;")),
    "delete by tag in long spans": (80, lambda t: delete(t["long"], "Eq", "rare:4000", None)),
    "delete by prefix in long spans": (600, lambda t: delete(t["long"], "Glob", "rare:", "rare;")),
    "reclaim": (16_000, lambda t: forget_and_reclaim(t["home"])),
    "topic_log_range": (1_000, lambda t: run("SELECT * FROM topic_log_range('home', 501, 700)")),
    "topic_log_range of short spans": (1_000, lambda t: run("SELECT * FROM topic_log_range('short', 50001, 50200)")),
    "topic_log_range of long spans": (1_000, lambda t: run("SELECT * FROM topic_log_range('long', 50001, 50200)")),
}


def delete(topic: int, op: str, tag: str, end: str | None) -> None:
    assert run("SELECT topic_delete_match(%s, 1, NULL, %s, %s, %s, NULL)", topic, op, tag, end)[0][0] > 0


def forget_and_reclaim(topic: int) -> None:
    run("SELECT topic_trim(%s, 50000, 'delete')", topic)
    run("DELETE FROM routers_span WHERE home_id = %s AND home_last_seq = 3 RETURNING 1", topic)
    reclaim.reclaim(topic, NOW)


def believing(*statistics: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("topics", statistics, indirect=True, scope="module")


@pytest.mark.parametrize("what", CASES)
@believing("never", "of one record a topic", "of one topic", "good")
def test_it_goes_by_index(topics: dict[str, int], what: str) -> None:
    check(topics, *CASES[what])


@pytest.mark.parametrize("what", [what for what in CASES if what.startswith(("diff", "reclaim"))])
@believing("of emptied tables")
def test_the_hottest_hold_when_all_plans_seem_to_cost_the_same(topics: dict[str, int], what: str) -> None:
    """As long as tables seem empty, which is until autovacuum looks at them again."""
    check(topics, *CASES[what])


@believing("good")
def test_the_view_goes_by_index(topics: dict[str, int]) -> None:
    """A view is planned as a whole, with what the planner believes."""
    check(topics, 1_000, lambda t: run("SELECT * FROM topic_log WHERE topic = 'home' AND seq > 500 AND seq <= 700"))


def check(topics: dict[str, int], most: int, work: Callable[[dict[str, int]], Any]) -> None:
    scans, rows = touched(lambda: work(topics))
    assert scans == 0
    assert rows <= most


@believing("never", "of one record a topic", "of one topic", "of emptied tables", "good")
def test_an_append_touches_its_head(topics: dict[str, int]) -> None:
    wanted = Append([NewRecord(msgspec.Raw(b'"x"')) for _ in range(100)])
    arguments = parameters([(look_up("home"), check_rows(wanted))], NOW + RECORDS)
    with connection.cursor() as cursor:
        scans, rows = touched(lambda: cursor.execute(APPEND_LOGGED, arguments))
    assert (scans, rows <= 5) == (0, True)
