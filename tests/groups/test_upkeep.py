"""Groups that no stream looks after: sessions of killed members, idle groups, lags without members, and caps by key."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections, transaction

from base.errors import Throttled
from groups import groups, metrics, upkeep
from groups.joining import Joined, JoinOptions, join
from groups.sessions import look
from store.script import run
from tests.deadlines import DEADLINE
from tests.instances import until
from tests.log.test_eras import connected
from tests.scripts import put_topic
from topics.append.appending import append
from topics.append.records import Append, check_rows
from topics.config import Config
from topics.delete.records import delete_records
from topics.delete.topic import delete_topic
from topics.models import AuditEntry
from wire.access.keys import OPEN, open_to
from wire.request.parse import parse

NOW = 1_790_000_000_000
HOUR = 3_600_000


@pytest.fixture(autouse=True)
def _topic(transactional_db: None) -> None:
    put_topic("t", Config(), NOW)


def joined(group: str = "billing", address: str = "192.0.2.1", **options: Any) -> Joined:
    return run(join("t", group, JoinOptions(member="one", partitions=2, **options), open_to(address), NOW))


def state(group: str = "billing") -> groups.GroupState:
    return run(groups.state("t", group, NOW))


def kill_members() -> None:
    """As if their sessions had timed out long ago."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE groups_member SET seen_ts = seen_ts - session_ms - 1000")


def members_by_metrics() -> list[float]:
    return [sample.value for sample in run(metrics.collect(OPEN))[0].samples]


def test_a_killed_last_member_leaves_without_a_stream() -> None:
    joined(session_ms=4000)
    assert ([each.name for each in state().members], members_by_metrics()) == (["one"], [1])
    assert {share.member for share in state().shares} == {"one"}
    kill_members()
    assert (state().members, members_by_metrics()) == ([], [0])
    assert {share.member for share in state().shares} == {None}
    run(upkeep.end_sessions())
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM groups_member")
        assert cursor.fetchone() == (0,)
    session = joined(session_ms=4000).session
    assert [each.share for each in run(look([session], []))[session].shares] == [0, 1]


def test_the_lag_without_members_shrinks_when_unread_records_are_deleted() -> None:
    joined()
    wanted = parse(
        b'{"records":[{"data":1,"tag":"a"},{"data":2,"tag":"a"},{"data":3,"tag":"b"},{"data":4,"tag":"c"}]}', Append
    )
    run(append("t", wanted, check_rows(wanted), NOW))
    kill_members()

    def lags() -> tuple[int, set[float]]:
        return state().lag, {sample.value for sample in run(metrics.collect(OPEN))[1].samples}

    for tag, lag in ((None, 4), ("a", 2), ("c", 2), ("b", 0)):
        if tag is not None:
            run(delete_records("t", None, tag, NOW))
        assert lags() == (lag, {lag}), tag


def test_a_group_without_members_and_commits_is_forgotten(settings: Any) -> None:
    settings.TOPICS_GROUP_DAYS = 1
    joined("idle"), joined("used"), joined("alive")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE groups_member m SET seen_ts = 0 FROM groups_group g WHERE g.id = group_id AND g.name <> 'alive'"
        )
    run(upkeep.end_sessions())
    now = NOW
    for _ in range(25):  # the creation was in the first hour
        assert run(upkeep.forget_idle(now)) == 0
        assert run(upkeep.forget_idle(now + HOUR - 1)) == 0  # an hour counts once
        now += HOUR
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE groups_share s SET updated_ts = %s FROM groups_group g WHERE g.id = group_id AND g.name = 'used'",
                [now],
            )
    now += 1000 * 24 * HOUR  # the server was down, or came back from an old backup
    assert run(upkeep.forget_idle(now)) == 1
    found, _ = run(groups.page_of_groups("t", "", 9, now))
    assert [each.group.name for each in found] == ["alive", "used"]
    assert AuditEntry.objects.filter(kind="group", action="delete").values_list("name", flat=True).get() == "t/idle"


def test_a_member_that_joins_while_its_group_is_forgotten_gets_a_new_group() -> None:
    first = joined()
    kill_members()
    run(upkeep.end_sessions())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE groups_group SET counted_ts = %s, idle_hours = 10000", [NOW])

    def join_again() -> Joined:
        try:
            return joined()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            assert run(upkeep.forget_idle(NOW)) == 1
            joining = pool.submit(join_again)
            until(waits_for_a_lock, "the member that waits")
        again = joining.result(DEADLINE)
    assert again.group_id != first.group_id
    assert [each.session for each in state().members] == [again.session]


@pytest.mark.parametrize(
    ("delete", "table", "key"),
    [
        (lambda: groups.delete("t", "b"), "groups_member", "id"),
        (lambda: delete_topic("t", False, NOW), "groups_share", "group_id"),
    ],
    ids=["group", "topic"],
)
def test_a_delete_locks_in_the_order_of_other_statements(delete: Callable[[], Any], table: str, key: str) -> None:
    """The first row by its key is the last one by name, and in its table. A commit holds it, and then wants the next one."""
    for group, member in (("b", "z"), ("b", "y"), ("a", "z")):
        run(join("t", group, JoinOptions(member=member, partitions=1), open_to("192.0.2.1"), NOW))

    def work() -> Any:
        try:
            return run(delete())
        finally:
            connections.close_all()

    with connected() as other, ThreadPoolExecutor(1) as pool:
        ((first, second),) = other.execute(
            f"SELECT {key}, lead({key}) OVER (ORDER BY {key}) FROM {table} ORDER BY {key} LIMIT 1"
        ).fetchall()
        for moved in ("groups_group", "groups_member"):
            other.execute(f"UPDATE {moved} SET name = name WHERE id = (SELECT min(id) FROM {moved})")
        other.commit()
        lock = f"SELECT FROM {table} WHERE {key} = %s FOR NO KEY UPDATE"
        other.execute(lock, (first,))
        deleting = pool.submit(work)
        until(waits_for_a_lock, "the delete that waits")
        other.execute(lock, (second,))
        other.commit()
        assert deleting.result(DEADLINE)[0] is True


def waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # else the transaction would see the first look again
        cursor.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
        return cursor.rowcount > 0


def test_a_key_has_a_cap_of_its_own(settings: Any) -> None:
    settings.TOPICS_MAX_GROUPS_PER_KEY = 2
    joined("a"), joined("b"), joined("a")
    with pytest.raises(Throttled) as refused:
        joined("c")
    assert refused.value.detail == {"limit": "groups_per_key", "max": 2}
    joined("c", address="192.0.2.2")
