"""Rounds of the background wait for no row that another transaction holds: they lock many rows, so such a wait could deadlock.
The next round finds the rows that were left out. A save that must leave out no row locks them in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from django.db import connection

from base.clock import now_ms
from base.errors import InvalidRequest
from groups import upkeep
from groups.joining import JoinOptions, join
from push.upkeep import drop_old_failed
from push.webhooks import leases, webhooks
from push.webhooks.config import PutWebhook
from queues.due import refuse, set_back
from store.script import run
from tests.deadlines import DEADLINE
from tests.instances import until
from tests.log.test_eras import connected
from tests.scripts import create_session, put_topic, sweep_sessions
from topics.config import Config
from topics.models import ApiKey, Topic, WatchSession
from topics.upkeep import totals
from watch.sessions import Saved, Start, Watch, refresh, save
from wire.access.keys import NOTE_USE, OPEN

FAR = 9_000_000_000_000_000  # a time of a clock that was ahead
WAITS = f"""
INSERT INTO push_webhookwaiting (webhook_id, topic_id, seq, topic, attempts, first_ts, next_ts, set_ts)
SELECT id, 1, 1, 't', 0, 0, {FAR}, {FAR} FROM push_webhook
"""
SCHEDULES = """
INSERT INTO queues_schedule (topic_id, name, timezone, due_ts, try_ts, data)
SELECT id, 's' || n, 'UTC', 0, %s, '1' FROM topics_topic, generate_series(1, 2) n
"""
SAVE_WAITS = """
SELECT count(*) FROM pg_stat_activity
 WHERE wait_event_type = 'Lock' AND query LIKE '%topics_watchsession%' AND datname = current_database()
"""


class Round(NamedTuple):
    """`make` makes two rows of a table. `is_left`: which of them the round has to do."""

    make: Callable[[], object]
    table: str
    work: Callable[[], object]
    is_left: str


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def make_topics() -> None:
    for name in ("a", "b"):
        put_topic(name, Config(), now_ms())
    execute("UPDATE topics_topichead SET unsettled = false")  # as an earlier version left them


def make_groups() -> None:
    put_topic("t", Config(), now_ms())
    for name in ("a", "b"):
        run(join("t", name, JoinOptions(member="one", partitions=1), OPEN, now_ms()))


def make_sessions() -> None:
    put_topic("t", Config(), now_ms())
    for _ in range(2):
        create_session(Watch({"t": Start()}), OPEN, False, 0)


def wids() -> list[str]:
    return list(WatchSession.objects.order_by("wid").values_list("wid", flat=True))


def make_webhooks(*changes: str) -> None:
    for name in ("a", "b"):
        run(webhooks.put(name, PutWebhook(url="https://example.com/", topics=["t"]), OPEN, now_ms()))
    for change in changes:
        execute(change)


def make_schedules(try_ts: int) -> None:
    put_topic("q", Config(type="queue"), now_ms())
    execute("DELETE FROM queues_schedule")
    execute(SCHEDULES % try_ts)


def make_keys() -> None:
    for name in ("a", "b"):
        ApiKey.objects.create(name=name, secret_sha256=name.encode(), created_ts=0)


def note_use() -> None:
    ids = list(ApiKey.objects.values_list("id", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(NOTE_USE, [ids, [now_ms()] * len(ids)])


ROUNDS = {
    "missed heads": Round(make_topics, "topics_topichead", totals.correct, "NOT unsettled"),
    "hours of groups": Round(make_groups, "groups_group", lambda: run(upkeep.forget_idle(now_ms())), "counted_ts = 0"),
    "watch sessions": Round(make_sessions, "topics_watchsession", lambda: sweep_sessions(now_ms()), "true"),
    "seen times of watch sessions": Round(
        make_sessions, "topics_watchsession", lambda: run(refresh(wids(), now_ms())), "seen_ts = 0"
    ),
    "last use of keys": Round(make_keys, "topics_apikey", note_use, "last_used_ts IS NULL"),
    "webhooks of a clock ahead": Round(
        lambda: make_webhooks(f"UPDATE push_webhook SET retry_ts = {FAR}"),
        "push_webhook",
        lambda: run(leases.set_back()),
        "retry_ts > 0",
    ),
    "waiting records of a clock ahead": Round(
        lambda: make_webhooks(WAITS), "push_webhookwaiting", lambda: run(leases.set_back()), f"set_ts = {FAR}"
    ),
    "tries of a clock ahead": Round(
        lambda: make_schedules(FAR), "queues_schedule", lambda: run(set_back(now_ms())), f"try_ts = {FAR}"
    ),
    "refused schedules": Round(
        lambda: make_schedules(0),
        "queues_schedule",
        lambda: run(refuse(Topic.objects.get().pk, "q", InvalidRequest("no room"), now_ms())),
        "error IS NULL",
    ),
    "failed records": Round(
        lambda: make_webhooks("INSERT INTO push_webhookfailed SELECT id, 1, 1, 0 FROM push_webhook"),
        "push_webhookfailed",
        lambda: drop_old_failed(now_ms()),
        "true",
    ),
}


@pytest.fixture
def _impatient(transactional_db: None) -> Iterator[None]:
    """A wait for a lock ends with an error."""
    execute("SET lock_timeout = 1000")
    yield
    execute("RESET lock_timeout")


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("name", ROUNDS)
def test_a_round_leaves_out_a_row_that_another_transaction_holds(name: str) -> None:
    make, table, work, is_left = ROUNDS[name]
    make()

    def left() -> int:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {table} WHERE {is_left}")
            return int(cursor.fetchone()[0])

    assert left() == 2
    with connected() as other:
        other.execute(f"SELECT FROM {table} LIMIT 1 FOR UPDATE")
        work()
        assert left() == 1
    work()
    assert left() == 0


@pytest.mark.django_db(transaction=True)
def test_a_save_of_watch_sessions_locks_them_in_one_order() -> None:
    """It cannot leave out a row. The first session is the last one in the table, and in the save."""
    for _ in range(4):
        make_sessions()
    first, *others = wids()
    WatchSession.objects.filter(wid=first).update(open=True)
    rows = [Saved(wid, 0, "{}", False) for wid in (*others, first)]

    def work() -> None:
        try:
            run(save(rows, now_ms()))
        finally:
            connection.close()

    def is_waiting() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(SAVE_WAITS)
            return cursor.fetchone() == (1,)

    with ThreadPoolExecutor() as threads:
        with connected() as other:
            other.execute("SELECT FROM topics_watchsession WHERE wid = %s FOR UPDATE", [first])
            saving = threads.submit(work)
            until(is_waiting, "the save to wait for the first session")
            other.execute("SELECT FROM topics_watchsession WHERE wid = ANY (%s) FOR UPDATE NOWAIT", [others])
        saving.result(DEADLINE)
    assert set(WatchSession.objects.values_list("open", "spots")) == {(False, "{}")}
