"""The background, and the looks at all topics together, read what changed, however many topics there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from django.db import transaction

from base.clock import now_ms
from console import limits
from console.history import samples
from routers.advance import behind_unsettled
from routers.routers import RouterConfig
from store.script import run as drive
from tests.instances import ROOT
from tests.log.test_eras import PACKAGES
from tests.plans import believed, run
from tests.scripts import delete_records, delete_seqs, delete_topic, put_router, put_topic
from tests.shell.writing import put
from topics import metrics
from topics.append.statements import MOVES
from topics.config import Config
from topics.tasks import expire, reclaim_rows
from topics.upkeep import reclaim, retention, totals
from wire.access.keys import OPEN

pytestmark = pytest.mark.deep


MORE = 6_000  # topics beside the 3,000 of believed()
# Without the index of unsettled heads: until a VACUUM, it has 16 to 25 pages with dead entries of the heads that settled, and a
# sample reads it twice. A head that does not settle shows in the pages of heads.
PAGES = """
SELECT relname, pg_stat_get_xact_blocks_fetched(oid) FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relname <> 'topics_head_unsettled'
"""
MAKE_MORE = """
WITH made AS (
    INSERT INTO topics_topic (name, type, ttl_ms, cap_records, cap_bytes, discard, durability, auto_priority, auto_create,
                              idempotency_window_ms, dedupe_node, lease_ms, claim_jitter_ms, max_deliveries, leases_durable,
                              created_ts)
    SELECT 'more' || n, 'log', CASE WHEN n %% 2 = 0 THEN %s ELSE 0 END, 0, 0, 'old', 'disk', true, true,
           3600000 * (1 + n %% 3), true, 0, 0, 0, false, 0
      FROM generate_series(1, %s) n
    RETURNING id),
filled AS (
    INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, data)
    SELECT id, n, %s, n * 10, 10, '"23456789"' FROM made, generate_series(1, 5) n),
kept AS (
    INSERT INTO topics_idempotencykey (topic_id, key, first_seq, last_seq, ts) SELECT id, 'k', 1, 5, %s FROM made)
INSERT INTO topics_topichead (topic_id, head_seq, reserved_seq, floor_seq, cap_lost_seq, ttl_lost_seq, restart_lost_seq,
                              source_lost_seq, holes_seq, count, bytes, total, last_ts, last_read_ts, version)
SELECT id, 5, 8000, 0, 0, 0, 0, 0, 0, 5, 50, 50, 0, 0, 1 FROM made
RETURNING topic_id
"""
HOUR_MS = 3_600_000
LEFT = "SELECT count(*) FROM topics_topichead WHERE unsettled"
SUMS = "SELECT count(*), sum(count)::bigint, sum(bytes)::bigint FROM topics_topichead"
TOTALS = "SELECT * FROM topic_totals()"
SAMPLE = {"console_sample", "console_sample_pkey"}

minutes = (
    minute * samples.MINUTE_MS for minute in count(30_000_000) if minute % 60
)  # the sampler looks at all once an hour


old_keys = retention.OldKeys()
IDLE: dict[str, Callable[[], Any]] = {
    "reclaim": lambda: reclaim.due(now_ms()),
    "expire": lambda: retention.expired_topics(now_ms()),
    "forget keys": lambda: old_keys.drop(now_ms()),
    "give back seqs": lambda: retention.give_back_seqs(now_ms()),
    "set clocks": lambda: retention.set_clocks(now_ms()),
    "sweep routers": lambda: behind_unsettled(now_ms()),
    "sample": lambda: samples.sample(next(minutes)),
    "metrics": lambda: drive(metrics.collect(OPEN)),
    "limits": lambda: limits.limits(now_ms()),
}


def settle() -> None:
    """Does what the background does, until nothing is left."""
    while run(LEFT) != [(0,)]:
        samples.sample(next(minutes))
        while retention.give_back_seqs(now_ms() + 60_000):
            pass
        expire()
        reclaim_rows()


def pages_of_each() -> dict[str, Counter[str]]:
    """The pages of each look by relation, when it looks again: the first look marks the entries of old versions in the index."""
    found = {}
    for _ in range(2):
        for name, look in IDLE.items():
            with transaction.atomic():  # between transactions, PostgreSQL sets its counters back once a second
                before = Counter(dict(run(PAGES)))
                look()
                found[name] = Counter(dict(run(PAGES))) - before
    return found


@pytest.mark.parametrize("statistics", ["good", "of one record a topic", "of one topic", "of emptied tables"])
def test_idle_work_does_not_grow_with_the_topics(transactional_db: None, statistics: str) -> None:
    with believed(statistics, dict):
        run("DELETE FROM routers_router RETURNING id")
        settle()
        few = pages_of_each()
        run(MAKE_MORE, HOUR_MS, MORE, now_ms(), now_ms() - HOUR_MS // 2)
        settle()
        many = pages_of_each()
        grown = {
            name: (few[name].total(), pages.total(), pages - few[name])
            for name, pages in many.items()
            if pages.total() > 1.1 * few[name].total() + 30
        }
        assert grown == {}
        assert run(TOTALS) == run(SUMS)


def test_totals_are_exact_before_and_after_a_count(transactional_db: None) -> None:
    for name in ("a", "b"):
        put_topic(name, Config(), now_ms())
        put(name, "1", "2", "3")
    for change in (
        lambda: None,
        lambda: samples.sample(next(minutes)),
        lambda: put("a", "4"),
        lambda: delete_records("a", 3, None, now_ms()),
        lambda: delete_topic("b", False, now_ms()),
        lambda: samples.sample(next(minutes)),
    ):
        change()
        assert run(TOTALS) == run(SUMS)
    assert run(TOTALS) == [(1, 2, 2)]


def test_what_an_earlier_version_changed_and_deleted_is_counted_within_the_hour(transactional_db: None) -> None:
    for name in ("a", "b"):
        put_topic(name, Config(), now_ms())
        put(name, "1", "2", "3")
    settle()
    of = "WHERE topic_id = (SELECT id FROM topics_topic WHERE name = %s) RETURNING 1"
    run(f"UPDATE topics_topichead SET count = count + 7 {of}", "a")
    run(f"DELETE FROM topics_topichead {of}", "b")
    assert run(TOTALS) != run(SUMS)
    totals.correct()
    assert run(TOTALS) == run(SUMS) == [(1, 10, 3)]


def test_a_delete_of_a_settled_topic_is_reclaimed(transactional_db: None) -> None:
    put_topic("a", Config(), now_ms())
    put("a", "1", "2", "3")
    settle()
    delete_seqs("a", [2], now_ms())
    for _ in range(2):  # the topic is at rest
        (topic_id,) = reclaim.due(now_ms() + 2 * reclaim.REST_MS)
        reclaim.reclaim(topic_id, now_ms())
    assert run("SELECT seq FROM topics_record WHERE topic_id = %s ORDER BY seq", topic_id) == [(1,), (3,)]


def due_topics(now: int) -> list[str]:
    return [name for (name,) in run("SELECT name FROM topics_topic WHERE id = ANY (%s)", retention.expired_topics(now))]


def test_a_topic_expires_after_it_settled_empty_or_full(transactional_db: None) -> None:
    now = now_ms()
    put_topic("a", Config(ttl_ms=HOUR_MS), now)
    settle()
    put("a", "1")
    settle()
    assert due_topics(now + HOUR_MS - 1) == []
    assert due_topics(now + HOUR_MS + 60_000) == ["a"]
    (topic_id,) = retention.expired_topics(now + HOUR_MS + 60_000)
    assert retention.expire(topic_id, now + HOUR_MS + 60_000) == 1
    assert run("SELECT count(*) FROM topics_expiry") == [(0,)]
    put("a", "2")
    assert due_topics(now + 2 * HOUR_MS) == ["a"]


def test_a_settled_topic_expires_by_its_new_ttl(transactional_db: None) -> None:
    now = now_ms()
    for name, ttl_ms in (("longer", HOUR_MS), ("shorter", 100 * HOUR_MS), ("first", 0), ("none", HOUR_MS)):
        put_topic(name, Config(ttl_ms=ttl_ms), now)
        put(name, "1")
    settle()
    for name, ttl_ms in (("longer", 100 * HOUR_MS), ("shorter", HOUR_MS), ("first", HOUR_MS), ("none", 0)):
        put_topic(name, Config(ttl_ms=ttl_ms), now)
    expire()
    assert sorted(due_topics(now + 2 * HOUR_MS)) == ["first", "shorter"]
    for topic_id, _ in run("SELECT id, 0 FROM topics_topic"):
        retention.expire(topic_id, now + 2 * HOUR_MS)
    assert due_topics(now + 2 * HOUR_MS) == []
    assert run("SELECT name FROM topics_expiry JOIN topics_topic ON id = topic_id") == [("longer",)]
    delete_topic("longer", False, now)
    assert run("SELECT count(*) FROM topics_expiry") == [(0,)]


def test_a_ttl_that_an_earlier_version_set_is_noted_within_the_hour(transactional_db: None) -> None:
    put_topic("a", Config(), now_ms())
    put("a", "1")
    settle()
    run("UPDATE topics_topic SET ttl_ms = 1 RETURNING 1")
    assert due_topics(now_ms() + 60_000) == []
    totals.correct()
    assert due_topics(now_ms() + 60_000) == ["a"]


def test_a_topic_that_settled_while_the_clock_was_ahead_gets_its_step_within_the_hour(transactional_db: None) -> None:
    put_topic("a", Config(), now_ms())
    put("a", "1")
    settle()
    run("UPDATE topics_topichead SET last_ts = %s RETURNING 1", now_ms() + 60_000)
    assert retention.set_clocks(now_ms()) == 0
    totals.correct()
    samples.sample(next(minutes))
    assert retention.set_clocks(now_ms()) == 1


def test_a_topic_whose_router_lags_stays_unsettled(transactional_db: None) -> None:
    for name in ("a", "b"):
        put_topic(name, Config(), now_ms())
    put_router("a-b", RouterConfig(source="a", dest="b"), now_ms())
    put("a", "1")
    samples.sample(next(minutes))
    retention.give_back_seqs(now_ms() + 60_000)
    assert len(behind_unsettled(now_ms())) == 1


def test_topics_whose_routers_lag_keep_no_other_unsettled(transactional_db: None) -> None:
    """However many of them a step finds before the others."""
    for name in ("a", "b", "c"):
        put_topic(name, Config(), now_ms())
    put_router("a-b", RouterConfig(source="a", dest="b", paused=True), now_ms())
    put("a", "1")
    put("c", "1")
    assert retention.give_back_seqs(now_ms() + 60_000, limit=1) == 1
    assert retention.give_back_seqs(now_ms() + 60_000, limit=1) == 0


def test_a_second_sampler_of_a_minute_looks_for_its_row_alone(transactional_db: None) -> None:
    for name in ("a", "b"):
        put_topic(name, Config(), now_ms())
    put_router("a-b", RouterConfig(source="a", dest="b"), now_ms())
    minute = next(minutes)
    assert samples.sample(minute)
    with transaction.atomic():
        before = Counter(dict(run(PAGES)))
        assert not samples.sample(minute + 30_000)
        assert {name for name, pages in (Counter(dict(run(PAGES))) - before).items() if pages} <= SAMPLE


def test_each_statement_that_changes_what_is_due_unsettles_its_head() -> None:
    """Only the background settles a head: it releases seqs, counts, or notes that nothing is left to reclaim."""
    changes = re.compile(r"UPDATE topics_topichead(?: head| dest)?\s+SET (?P<set>.*?)\s(?:FROM|WHERE) ", re.DOTALL)
    due = re.compile(r"\b(?:head_seq|floor_seq|reserved_seq|count|bytes)\b(?:, \w+\))? = |\{what_moves\}")
    found = [
        (f"{file.relative_to(ROOT)}", change["set"])
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*"))
        if file.suffix in (".py", ".sql") and "migrations" not in file.parts
        for change in changes.finditer(file.read_text())
        if due.search(change["set"])
    ]
    assert len(found) >= 14
    forgets = [(where, text) for where, text in found if not re.search(r"unsettled|\{what_moves\}", text)]
    assert [where for where, _ in forgets] == ["topics/config.py"]  # SEAL releases seqs, and the next count settles
    assert MOVES["unsettled"] == "true"
