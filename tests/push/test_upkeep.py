"""What an idle bus writes, what stays of a subscriber that left, and counts at their end."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from base.errors import Throttled
from push.bus.clients import add_client
from push.bus.publish import Event, publish
from push.bus.subscriptions import Wanted, subscribe, unsubscribe
from push.delivery.batches import take
from push.models import Counter, Subscriber
from push.reports import counters, reporters
from push.upkeep import DAY_MS, LEFT_DAYS, forget_left
from routers.advance import advance
from store.script import run
from topics import limits
from topics.models import Topic
from topics.read.totals import BYTES

NOW = 1_764_000_000_000
pytestmark = pytest.mark.django_db(transaction=True)


def subscribed(name: str, *topics: str) -> int:
    client = run(add_client(name, f"{name}--{'0' * 32}", NOW))
    run(subscribe(client.id, name, Wanted(topics=list(topics), callback="https://example.org/x"), NOW))
    return client.id


def published(topic: str, client_id: int) -> None:
    run(publish(topic, Event(type="create", url="https://example.org/1"), client_id, NOW))


def rows() -> list[tuple[Any, ...]]:
    """Each counter with what a write would change, even a write of the same values."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT ctid::text, xmin::text, xmax::text, name, tags, total FROM push_counter ORDER BY id")
        return list(cursor.fetchall())


@pytest.fixture
def _empty() -> None:
    Counter.objects.all().delete()
    reporters.print_changes.cache_clear()


@pytest.mark.usefixtures("_empty")
def test_an_idle_bus_writes_and_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    published("orders", subscribed("billing", "orders"))
    reporters.report(NOW)
    before = rows()
    printed = capsys.readouterr().out
    assert "counter events.published:1 (topic:orders)" in printed
    assert "gauge subscriber.queue.events:" in printed
    reporters.report(NOW)
    assert rows() == before
    changed = capsys.readouterr().out.splitlines()
    assert all("redis.used_cpu" in line for line in changed), changed
    published("orders", Subscriber.objects.get().client_id)
    reporters.report(NOW)
    assert "counter events.published:1 (topic:orders)" in capsys.readouterr().out


@pytest.mark.usefixtures("_empty")
def test_none_reports_nothing(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings.METRIC_COLLECTION_SERVICE = "none"
    reporters.check("none")
    published("orders", subscribed("billing", "orders"))
    reporters.report(NOW)
    assert (capsys.readouterr().out, rows()) == ("", [])


@pytest.mark.usefixtures("_empty")
def test_a_subscriber_that_left_is_forgotten_with_its_counters() -> None:
    """After a week if it got its events, and otherwise after a month."""
    publisher, gone, other = (
        run(add_client("shop", None, NOW)).id,
        subscribed("gone", "orders"),
        subscribed("kept", "orders"),
    )
    published("orders", publisher)
    for tags in (f"queue:{gone}", f"status:success,queue:{gone}", f"status:failure,queue:{gone}", f"queue:{other}"):
        counters.add("delivery.batches", tags)
    counters.flush()
    reporters.report(NOW)
    assert Counter.objects.filter(tags=f"subscriber:gone.{gone}").exists()
    queue = Subscriber.objects.get(client_id=gone).queue
    run(unsubscribe(gone, None, NOW))
    assert forget_left(NOW + (LEFT_DAYS - 1) * DAY_MS) == 0
    assert forget_left(NOW + (LEFT_DAYS + 1) * DAY_MS) == 1
    assert list(Subscriber.objects.values_list("client_id", flat=True)) == [other]
    assert not Topic.objects.filter(name=queue).exists()
    left = set(Counter.objects.values_list("tags", flat=True))
    assert f"queue:{other}" in left
    assert not [tags for tags in left if tags.endswith((f"queue:{gone}", f"gone.{gone}"))]


def test_the_attempts_of_a_batch_stop_at_their_end() -> None:
    """One more would be no integer of PostgreSQL, and the subscriber would get nothing."""
    most = 2**31 - 1
    subscriber = subscribed("tried", "tries")
    published("tries", subscriber)
    advance(Topic.objects.get(name="bus:tries").id, NOW)
    assert run(take(subscriber)).attempt == 1
    Subscriber.objects.filter(client_id=subscriber).update(batch_attempts=most, leased_until_ts=0)
    assert run(take(subscriber)).attempt == most


def test_events_count_in_the_cap_on_all_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = subscribed("shop")
    published("orders", publisher)
    with connection.cursor() as cursor:
        cursor.execute(BYTES)
        ((held,),) = cursor.fetchall()
    monkeypatch.setattr(limits, "MOST_TOTAL_BYTES", held + 10)
    monkeypatch.setattr(limits, "_total", [0.0, 0])
    for topic in ("orders", "new"):
        with pytest.raises(Throttled, match=f"hold {held} of at most {held + 10} bytes"):
            published(topic, publisher)
    assert not Topic.objects.filter(name="bus:new").exists()
    monkeypatch.setattr(limits, "MOST_TOTAL_BYTES", held + 1000)
    published("orders", publisher)
