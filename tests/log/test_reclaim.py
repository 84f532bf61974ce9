"""Rows go once nothing shows them, and no sooner (docs/routers.md)."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.db import connection

from routers.routers import RouterConfig
from tests import scripts
from tests.log.test_batch import locker  # noqa: F401  # a fixture
from tests.log.test_delete import NOW, read, write
from tests.scripts import delete_records, delete_router, delete_topic, known, look_up, put_router, put_topic
from topics import tasks
from topics.config import Config
from topics.models import DeletedTopic, IdempotencyKey
from topics.upkeep import reclaim, retention, usage

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_memory")]
YEAR_MS = 365 * 24 * 3_600_000


def reclaim_all(now: int = NOW) -> int:
    """When all topics have rested."""
    removed = 0
    while topics := reclaim.due(now + reclaim.REST_MS):
        removed += sum(reclaim.reclaim(id, now, limit=3).removed for id in topics)
    return removed


def stored(id: int) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT seq FROM topics_record WHERE topic_id = %s ORDER BY seq", [id])
        return [row[0] for row in cursor.fetchall()]


def mirror(source: str, dest: str, **options: object) -> int:
    """The dest's id, once it holds what the source does."""
    put_router(f"{source}>{dest}", RouterConfig(source=source, dest=dest, start="earliest", **options), NOW)  # type: ignore[arg-type]
    id = look_up(dest).id
    scripts.catch_up(id, NOW)
    return id


def test_rows_below_the_floor_go() -> None:
    write("t", *"abcdefghij")
    delete_records("t", 8, None, NOW)
    assert reclaim_all() == 7
    assert stored(known("t").id) == [8, 9, 10]
    delete_records("t", 10, None, NOW)
    assert reclaim_all() == 2


def test_few_rows_wait_until_the_topic_rests() -> None:
    write("t", *"abcdefghij")
    delete_records("t", 8, None, NOW)
    id, rested = known("t").id, NOW + reclaim.REST_MS
    assert reclaim.due(rested - 1) == []
    assert reclaim.due(rested) == [id]
    reclaim.reclaim(id, rested)
    delete_records("t", 10, None, NOW)
    assert reclaim.due(rested + 1) == []
    assert reclaim.due(rested + reclaim.REST_MS) == [id]


def test_few_rows_do_not_wait_for_a_clock_that_was_ahead() -> None:
    """A pass that took its time from such a clock would keep a topic's last rows until that time comes."""
    ahead = NOW + 3_600_000
    write("t", *"abcdefghij")
    delete_records("t", 8, None, NOW)
    id = known("t").id
    reclaim.reclaim(id, ahead)
    delete_records("t", 10, None, NOW)
    assert reclaim.due(NOW + reclaim.REST_MS) == [id]
    assert reclaim.reclaim(id, NOW + reclaim.REST_MS).removed == 2


def test_rows_that_are_held_do_not_wait_for_a_clock_that_was_ahead() -> None:
    ahead = NOW + 3_600_000
    write("t", *"abcd")
    mirror("t", "dest")
    delete_records("t", 5, None, NOW)
    id = known("t").id
    while reclaim.reclaim(id, ahead).more:
        pass
    delete_records("dest", 3, None, NOW)
    assert reclaim_all(NOW) == 2


def test_many_rows_go_at_once() -> None:
    write("t", *(str(n) for n in range(reclaim.FEW + 1)))
    delete_records("t", reclaim.FEW + 1, None, NOW)
    assert reclaim.due(NOW) == []
    delete_records("t", reclaim.FEW + 2, None, NOW)
    assert reclaim.due(NOW) == [known("t").id]


def test_rows_marked_deleted_go() -> None:
    write("t", *"abababababab")
    delete_records("t", None, "b", NOW)
    assert reclaim_all() == 6
    assert read("t") == ([1, 3, 5, 7, 9, 11], 12)
    delete_records("t", None, "a", NOW)
    assert reclaim_all() == 6


def test_rows_that_a_span_shows_stay() -> None:
    write("t", *"abcd")
    dest = mirror("t", "dest")
    delete_records("t", 5, None, NOW)
    assert reclaim_all() == 0
    assert read("dest") == ([1, 2, 3, 4], 4)
    assert usage.report().pinned == [("t", False, "dest", 4)]
    delete_records("dest", 3, None, NOW)
    delete_records("dest", None, "d", NOW)
    assert reclaim_all(NOW + 1) == 0  # what was held is not looked at again at once
    assert reclaim_all(NOW + reclaim.AGAIN_MS) == 3
    assert stored(known("t").id) == [3]
    assert read("dest") == ([3], 4)
    assert stored(dest) == []


def test_rows_that_a_router_left_behind_shows_stay() -> None:
    write("t", *"abcdef")
    mirror("t", "dest")
    delete_records("dest", None, "b", NOW)
    delete_router("t>dest")
    delete_records("t", 5, None, NOW)
    assert reclaim_all() == 1
    assert stored(known("t").id) == [1, 3, 4, 5, 6]
    assert read("dest") == ([1, 3, 4, 5, 6], 6)


def test_no_row_goes_while_an_advance_may_be_about_to_show_it(locker: psycopg.Connection[Any]) -> None:  # noqa: F811
    write("t", *"ab")
    delete_records("t", 2, None, NOW)
    locker.execute("SELECT pg_advisory_lock_shared(7001)")
    assert reclaim.reclaim(known("t").id, NOW) == reclaim.NOTHING
    locker.execute("SELECT pg_advisory_unlock_shared(7001)")
    assert reclaim.reclaim(known("t").id, NOW).removed == 1


def test_a_deleted_topic_goes_when_its_dests_have_let_go() -> None:
    write("t", *"abcd")
    mirror("t", "dest")
    id = known("t").id
    delete_topic("t", False, NOW)
    assert reclaim_all() == 0
    assert usage.report().pinned == [("t", True, "dest", 4)]
    assert DeletedTopic.objects.filter(pk=id).exists()
    delete_topic("dest", False, NOW)
    assert reclaim_all(NOW + reclaim.AGAIN_MS) == 5  # four records and a span
    assert reclaim_all(NOW + 2 * reclaim.AGAIN_MS) == 0
    assert not DeletedTopic.objects.exists()
    assert usage.report().held_records == 0


def test_a_deleted_topic_that_is_held_is_examined_less_often_the_older_it_is() -> None:
    write("t", *"abcd")
    mirror("t", "dest")
    id = known("t").id
    delete_topic("t", False, NOW)
    for age, wait in ((0, reclaim.AGAIN_MS), (YEAR_MS // 1000, YEAR_MS // 10_000), (YEAR_MS, reclaim.LONGEST_MS)):
        assert reclaim_all(NOW + age) == 0
        assert reclaim.due(NOW + age + wait - 1) == []
        assert reclaim.due(NOW + age + wait) == [id]
    assert reclaim.due(NOW) == [id]  # the clock was ahead


def test_deleted_topics_take_turns() -> None:
    ids = set()
    for name in "abc":
        write(name, *"123456")
        ids.add(known(name).id)
        delete_topic(name, False, NOW)
    seen = set()
    for now in range(NOW, NOW + 3):
        (id,) = reclaim.due(now, 1)
        assert reclaim.reclaim(id, now, limit=2).more
        seen.add(id)
    assert seen == ids


def test_spans_of_spans_hold_the_home() -> None:
    write("a", *"xyz")
    mirror("a", "b")
    mirror("b", "c")
    delete_topic("a", False, NOW)
    delete_topic("b", False, NOW)
    reclaim_all()
    assert read("c") == ([1, 2, 3], 3)


def test_a_cycle_remembers_what_it_has_deleted() -> None:
    write("a", *"xyz")
    b = mirror("a", "b", allow_cycle=True)
    mirror("b", "a", allow_cycle=True)
    delete_records("b", 4, None, NOW)
    reclaim_all()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM topics_span WHERE topic_id = %s", [b])
        assert cursor.fetchone()[0] == 1
    delete_router("a>b")
    mirror("a", "b", allow_cycle=True)
    assert read("b") == ([], 3)
    delete_records("a", 4, None, NOW)
    reclaim_all(NOW + reclaim.AGAIN_MS)  # the records
    reclaim_all(NOW + 2 * reclaim.AGAIN_MS)  # and then what remembered them
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM topics_span WHERE topic_id = %s", [b])
        assert cursor.fetchone()[0] == 0


def test_what_is_over_its_time_goes() -> None:
    put_topic("t", Config(ttl_ms=1000), NOW)
    write("t", *"abc")
    write("t", "d", now=NOW + 600)
    id = known("t").id
    assert retention.expired_topics(NOW + 1000) == []
    assert retention.expired_topics(NOW + 1001) == [id]
    assert [retention.expire(id, NOW + 1001) for _ in range(2)] == [3, 0]
    assert reclaim_all(NOW + 1001) == 3
    assert stored(id) == [4]


def test_old_idempotency_keys_go() -> None:
    put_topic("t", Config(idempotency_window_ms=1000), NOW)
    id = look_up("t").id
    for place in range(3):
        IdempotencyKey.objects.create(topic_id=id, key=f"k{place}", first_seq=1, last_seq=1, ts=NOW + place)
    assert retention.OldKeys().drop(NOW + 999) == 0
    assert retention.OldKeys().drop(NOW + 1001) == 2
    assert list(IdempotencyKey.objects.values_list("key", flat=True)) == ["k2"]


def test_a_sweep_forgets_by_the_window_of_each_topic() -> None:
    """A sweep continues where the last one ended. A topic with a shorter window loses its old keys within an hour."""
    old_keys, hour = retention.OldKeys(), retention.WHOLE_LOOK_MS
    ids = {}
    for name, window in (("short", 1000), ("long", 10 * hour), ("changed", 20 * hour)):
        put_topic(name, Config(idempotency_window_ms=window), NOW)
        ids[name] = look_up(name).id

    def keep(name: str, ts: int) -> None:
        IdempotencyKey.objects.create(topic_id=ids[name], key=f"{name} {ts - NOW}", first_seq=1, last_seq=1, ts=ts)

    def kept() -> set[str]:
        return set(IdempotencyKey.objects.values_list("key", flat=True))

    for name in ids:
        keep(name, NOW)
    assert old_keys.drop(NOW + 1001) == 1
    assert kept() == {"long 0", "changed 0"}
    keep("short", NOW + 900)  # written late
    keep("short", NOW + 2000)
    assert old_keys.drop(NOW + 1901) == 1
    assert [old_keys.drop(NOW + 3001 + n, limit=1) for n in range(2)] == [1, 0]
    assert kept() == {"long 0", "changed 0"}
    assert old_keys.drop(NOW + retention.LATE_MS + 5000) == 0
    put_topic("changed", Config(idempotency_window_ms=1000), NOW)
    assert old_keys.drop(NOW + retention.LATE_MS + 5001) == 0
    assert old_keys.drop(NOW + 2 * hour) == 1
    assert old_keys.drop(NOW + 10 * hour + 1) == 1
    assert kept() == set()


def test_a_round_looks_for_topics_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look reads every head, and a large topic takes many steps."""
    looks = []
    due, step = reclaim.due, reclaim.reclaim
    monkeypatch.setattr(reclaim, "due", lambda now: looks.append(now) or due(now))
    monkeypatch.setattr(reclaim, "reclaim", lambda id, now: step(id, now, limit=3))
    monkeypatch.setattr(tasks, "ROUND_SECONDS", 60)
    for topic in ("t", "other"):
        write(topic, *"abcdefghij")
        delete_records(topic, 11, None, NOW)
    assert [stored(known(topic).id) for topic in ("t", "other")] == [[*range(1, 11)]] * 2
    tasks.reclaim_rows()
    assert [stored(known(topic).id) for topic in ("t", "other")] == [[], []]
    assert len(looks) == 1
