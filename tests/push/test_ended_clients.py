"""What many clients of the bus leave after their end: nothing that grows with their number."""

from __future__ import annotations

import os

import pytest
from django.db import connection

from push.bus.clients import add_client, delete_client
from push.bus.publish import Event, publish
from push.bus.subscriptions import Wanted, subscribe, unsubscribe
from push.models import BusClient, Counter, Delivery, Subscriber
from push.reports import counters, reporters
from push.reports.metrics import collect
from push.upkeep import DAY_MS, drop_old_deliveries, forget_clients, forget_left
from routers.advance import advance
from store.script import run
from topics.models import Topic
from topics.tasks import reclaim_rows
from wire.access.keys import OPEN

NOW = 1_764_000_000_000
LATE = NOW + 200 * DAY_MS
MANY = int(os.environ.get("MANY_CLIENTS", "40"))
# A deleted name keeps its head for ever (topics/models.py), and each change has an entry in the audit log for a year.
GROW = {"topics_lasthead", "topics_auditentry"}
COUNTED = ("batches", "events", "time", "time2")
pytestmark = pytest.mark.django_db(transaction=True)


def rows() -> dict[str, int]:
    """The number of rows of each table that has some."""
    found = {}
    with connection.cursor() as cursor:
        for table in set(connection.introspection.table_names(cursor)) - GROW:
            cursor.execute(f'SELECT count(*) FROM "{table}"')
            found[table] = cursor.fetchone()[0]
    return {table: count for table, count in found.items() if count}


def series() -> int:
    return sum(len(metric.samples) for metric in run(collect(OPEN)))


def added(name: str) -> tuple[int, str]:
    """A client that subscribes to `orders`. Returns its id and its token."""
    token = f"{name}--{'0' * 32}"
    client = run(add_client(name, token, NOW))
    run(subscribe(client.id, name, Wanted(topics=["orders"], callback="https://example.org/x"), NOW))
    return client.id, token


def worked(client_id: int) -> None:
    """Counts as a dispatcher does."""
    for status in ("success", "failure"):
        for what in COUNTED:
            counters.add(f"delivery.{what}", f"status:{status},queue:{client_id}")
    counters.add("latency.batches.count", f"queue:{client_id}")
    Delivery.objects.create(
        subscriber_id=client_id, ts=NOW, batch_id="b", attempt=1, duration_ms=1, events=1, bytes=1
    )  # fmt: skip


def upkeep() -> None:
    while drop_old_deliveries(LATE):
        pass
    forget_left(LATE)
    forget_clients(LATE)
    reclaim_rows()


def test_what_many_ended_clients_leave() -> None:
    Counter.objects.all().delete()
    reporters.print_changes.cache_clear()
    publisher, kept = run(add_client("shop", None, NOW)).id, added("kept")[0]
    run(publish("orders", Event(type="create", url="https://example.org/1"), publisher, NOW))
    advance(Topic.objects.get(name="bus:orders").id, NOW)
    worked(kept)
    counters.flush()
    reporters.report(NOW)
    upkeep()
    before, shown = rows(), series()
    clients = [added(f"client-{number}") for number in range(MANY)]
    run(publish("orders", Event(type="create", url="https://example.org/2"), publisher, NOW))
    advance(Topic.objects.get(name="bus:orders").id, NOW)
    for client_id, _ in clients:
        worked(client_id)
    counters.flush()
    reporters.report(NOW)
    assert series() > shown + 9 * MANY
    for client_id, token in clients:
        run(unsubscribe(client_id, None, NOW))
        run(delete_client(token, NOW))
    upkeep()
    for client_id, _ in clients:  # a count that a process writes late
        counters.add("delivery.batches", f"status:failure,queue:{client_id}")
    counters.flush()
    upkeep()
    left = rows()
    print({table: (count, before.get(table, 0)) for table, count in left.items()})
    assert series() == shown
    assert left.keys() == before.keys()


def test_a_deleted_client_stays_while_its_token_could_restore_something() -> None:
    publisher = run(add_client("shop", "shop--1", NOW)).id
    subscriber, token = added("reader")
    run(publish("orders", Event(type="create", url="https://example.org/1"), publisher, NOW))
    ended = run(add_client("ended", "ended--1", NOW)).id
    for each in ("shop--1", token, "ended--1"):
        assert run(delete_client(each, NOW))
    living = run(add_client("living", "living--1", NOW)).id
    assert forget_clients(NOW + 90 * DAY_MS) == 0
    assert forget_clients(LATE) == 1
    assert set(BusClient.objects.values_list("id", flat=True)) == {publisher, subscriber, living}
    assert ended not in {publisher, subscriber, living}
    assert run(add_client("reader", token, NOW)).id == subscriber
    assert Subscriber.objects.get().client_id == subscriber
