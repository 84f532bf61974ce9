"""Counts the rows that statements touch, and gives the planner chosen statistics: for the plans of the log and the routers.

Read off PostgreSQL's own counters of this transaction, so what the functions run inside is counted, too; with
statistics as wrong as they get (tables filled and never analyzed), and with good ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction

from store.database import prepared
from tests.scripts import look_up, put_topic
from topics.cache import forget_all
from topics.config import Config

NOW = 1_748_470_000_000
RECORDS = 100_000
TABLES = (
    "topics_record_logged",
    "topics_record_volatile",
    "topics_span",
    "routers_router",
    "topics_cursor",
    "topics_topichead",
    "topics_topic",
    "topics_lasthead",
    "topics_expiry",
    "topics_idempotencykey",
    "queues_lease_logged",
    "queues_lease_unlogged",
    "queues_queue_logged",
    "queues_queue_unlogged",
    "groups_group",
    "groups_member",
    "groups_share",
)

COUNTERS = """
SELECT relname, seq_scan, coalesce(idx_tup_fetch, 0) + seq_tup_read,
       pg_stat_get_xact_blocks_fetched(relid)
       + (SELECT sum(pg_stat_get_xact_blocks_fetched(indexrelid)) FROM pg_index WHERE indrelid = relid)
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
INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,
                          keep_tag, path, stamp_router, stamp_source, stamp_source_id, stamp_first_seq)
SELECT %(id)s, n + 1, n + %(length)s, %(home)s, n + 1, n + %(length)s, %(now)s + n, true, true, true, '{r}',
       %(stamp)s, 'home', %(home)s, n + 1
  FROM generate_series(0, %(records)s - 1, %(length)s) n;
UPDATE topics_topichead SET head_seq = %(records)s, holes_seq = %(records)s, count = %(records)s, bytes = %(records)s * 10,
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
ANALYZE = "ANALYZE " + ", ".join(TABLES)
EMPTY = """
TRUNCATE topics_record, topics_span, topics_topichead, topics_total, topics_topic, topics_lasthead, topics_auditentry,
         topics_expiry, topics_clockstep, topics_idempotencykey, queues_lease, queues_queue
 CASCADE
"""
AUTOVACUUM = "".join(f"ALTER TABLE {table} {{}};" for table in TABLES)
OTHERS = """
INSERT INTO topics_topic (name, type, ttl_ms, cap_records, cap_bytes, discard, durability, auto_priority, auto_create,
                          idempotency_window_ms, dedupe_node, lease_ms, claim_jitter_ms, max_deliveries, leases_durable,
                          created_ts)
SELECT 'other' || n, 'log', 0, 0, 0, 'old', 'disk', true, true, 0, true, 0, 0, 0, false, 0 FROM generate_series(1, 3000) n;
INSERT INTO topics_topichead (topic_id, head_seq, floor_seq, cap_lost_seq, ttl_lost_seq, restart_lost_seq,
                              source_lost_seq, holes_seq, count, bytes, total, last_ts, last_read_ts, version)
SELECT id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 FROM topics_topic;
INSERT INTO topics_lasthead (name, head_seq) SELECT 'gone' || n, n FROM generate_series(1, 3000) n;
INSERT INTO topics_record_volatile (topic_id, seq, ts, total, size, volatile, data)
SELECT id, n, 0, n * 10, 10, true, '"23456789"' FROM topics_topic, generate_series(1, %(each)s) n
"""
SPANS_OF_OTHERS = """
INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, data) SELECT id, 1, 0, 10, 10, '"23456789"' FROM topics_topic;
INSERT INTO topics_span (topic_id, first_seq, last_seq, home_id, home_first_seq, home_last_seq, ts, shown, keep_node,
                          keep_tag, path)
SELECT id + 1, 1, 1, id, 1, 1, 0, true, true, true, '{r}' FROM topics_topic
"""
ROUTERS = """
INSERT INTO topics_cursor (topic_id, kind, name, seq, forwarded_total, updated_ts)
SELECT source.id, 'router', pair.source || '>' || pair.dest, head.head_seq, 0, 0
  FROM unnest(%(sources)s::text[], %(dests)s::text[]) AS pair (source, dest)
  JOIN topics_topic source ON source.name = pair.source JOIN topics_topichead head ON head.topic_id = source.id;
INSERT INTO routers_router (name, source_id, dest_id, cursor_id, preserve_node, preserve_tag, allow_cycle, allow_fan_in,
                            cyclic, guarantee, state, errors_total, retry_ts, retry_ms, created_ts)
SELECT c.name, c.topic_id, dest.id, c.id, true, true, false, false, false, 'at_least_once', 'running', 0, 0, 0, 0
  FROM topics_cursor c JOIN topics_topic dest ON dest.name = split_part(c.name, '>', 2)
 WHERE split_part(c.name, '>', 2) = ANY (%(dests)s);
UPDATE topics_topichead SET routed = true WHERE topic_id IN (SELECT id FROM topics_topic WHERE name = ANY (%(sources)s));
UPDATE topics_topichead SET derived = true WHERE topic_id IN (SELECT id FROM topics_topic WHERE name = ANY (%(dests)s))
"""


def run(sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
    """Runs a statement as the server does: prepared, so that its plan can be one for all values (check_planned)."""
    return prepared(sql, arguments)


def counted() -> dict[str, tuple[int, int, int]]:
    """Sequential scans, rows fetched and pages read by this transaction, by table. The pages include those of its indexes."""
    return {table: (int(scans), int(rows), int(pages)) for table, scans, rows, pages in run(COUNTERS, list(TABLES))}


def check(most: int, work: Callable[[], Any], *, pages: int | None = None, whole: bool = False) -> None:
    """It touches no more rows and pages than that, and goes by index unless it is about `whole` tables.

    An index scan can pass many entries and return few rows. That shows in `pages`: by default six for each row, and 50. For whole
    tables there is no default.
    """
    before = counted()
    work()
    after = {table: [n - b for n, b in zip(now, before[table], strict=True)] for table, now in counted().items()}
    scans, rows, read = (sum(figures) for figures in zip(*after.values(), strict=True))
    told = f"scans, rows and pages: {after}"
    assert rows <= most, told
    assert whole or scans == 0, told
    assert read <= pages if pages is not None else whole or read <= 6 * most + 50, told


def check_planned(
    most: int, work: Callable[[], Any], *, given: str = "", pages: int | None = None, whole: bool = False
) -> None:
    """Checks it with plans for these values, as a connection begins, and with plans for all values, as it ends up.

    `given` is what is changed before. Both are rolled back.
    """
    for plans in ("force_custom_plan", "force_generic_plan"):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL plan_cache_mode = {plans}; {given}")
            check(most, work, pages=pages, whole=whole)
            transaction.set_rollback(True)


def make(name: str, fill: str = "", **arguments: Any) -> int:
    """A topic, filled; its id."""
    put_topic(name, Config(), NOW)
    id = look_up(name).id
    if fill:
        with connection.cursor() as cursor:
            cursor.execute(fill, {"id": id, "now": NOW, "records": RECORDS, "stamp": None} | arguments)
    return id


def route(pairs: Iterable[tuple[str, str]]) -> None:
    """Routers from source to dest that have caught up, named source>dest. A dest has one."""
    sources, dests = zip(*pairs, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(ROUTERS, {"sources": list(sources), "dests": list(dests)})


def make_others(each: int = 5) -> None:
    """3,000 topics of so many records; a hundred of them lead to 29 each."""
    with connection.cursor() as cursor:
        cursor.execute(OTHERS, {"each": each})
    route((f"other{n - n % 30}", f"other{n}") for n in range(31, 3001) if n % 30)


def believing(*statistics: str) -> pytest.MarkDecorator:
    """Run a test with a planner that believes each of these, in a module that imports the fixtures `topics` and `rolled_back`."""
    return pytest.mark.parametrize("topics", statistics, indirect=True, scope="module")


@contextmanager
def believed(statistics: str, fill: Callable[[], dict[str, int]]) -> Iterator[dict[str, int]]:
    """Tables that hold others and what `fill` makes, and a planner that believes what it is told; empty again afterwards."""
    forget_all()
    with connection.cursor() as cursor:
        cursor.execute(AUTOVACUUM.replace("{}", "SET (autovacuum_enabled = false)"))
        cursor.execute(EMPTY)  # what tests before left in the files of tables and indexes counts with the planner, too
        if (
            connection.pg_version >= 180_000
        ):  # older ones have no statistics in a first test, and others can only be replaced
            cursor.execute(FORGET, [list(TABLES)])
        elif statistics == "of emptied tables":
            pytest.skip("before version 18, statistics cannot be set")
        if statistics == "of one record a topic":
            make_others(each=1)
            cursor.execute(SPANS_OF_OTHERS)
            cursor.execute(ANALYZE)
            cursor.execute(EMPTY)
        elif statistics == "of one topic":
            make("only", FILL_HOME, records=1000)
            route([("only", "only")])
            cursor.execute(ANALYZE)
            cursor.execute(EMPTY)
        make_others()
        filled = fill()
        if statistics == "of emptied tables":  # after the fill, which would take half a minute with such plans
            cursor.execute(EMPTIED, [list(TABLES)])
        elif statistics == "good":
            cursor.execute(ANALYZE)
        forget_all()
        yield filled
        cursor.execute(AUTOVACUUM.replace("{}", "RESET (autovacuum_enabled)"))
        cursor.execute(EMPTY)
    forget_all()


@pytest.fixture(scope="module")
def topics(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, int]]:
    """The ids that `fill` of the module returns. The planner believes what the parameter says. Tests change and roll back."""
    with django_db_blocker.unblock(), believed(request.param, request.module.fill) as ids:
        yield ids


@pytest.fixture
def rolled_back(topics: dict[str, int], db: None) -> None:
    """The module's rows first, then the test's transaction."""
