"""Clocks that were an hour ahead and are right again: nobody is delivered to an hour later for that."""

from __future__ import annotations

import pytest
from django.db import connection

from base.clock import now_ms
from push.bus import clients, publish, subscriptions
from push.delivery.batches import LEASE_MS, LONGEST_PAUSE_MS, due_within, overdue, set_back, take
from push.models import Subscriber, Webhook
from push.webhooks import leases, sources, webhooks
from push.webhooks.config import PutWebhook
from routers.advance import advance
from store.script import run
from tests.push.bus import new_topic, url
from topics.models import Topic
from wire.access.keys import OPEN

HOUR_MS = 3_600_000
pytestmark = pytest.mark.django_db(transaction=True)


def subscribed(ahead_ms: int) -> Subscriber:
    """A subscriber to whom an event is due in a second, by the clock that stamped it: ahead by so much."""
    topic, now = new_topic(), now_ms() + ahead_ms
    publisher, client = (run(clients.add_client(name, None, now)) for name in ("publisher", "subscriber"))

    def publish_event(n: int) -> None:
        run(publish.publish(topic, publish.Event("create", url(n)), publisher.id, now))

    publish_event(0)
    wanted = subscriptions.Wanted([topic], "https://callback.example", timeout=1000, max=5)
    run(subscriptions.subscribe(client.id, client.name, wanted, now))
    publish_event(1)
    advance(Topic.objects.get(name=f"bus:{topic}").id, now)
    return Subscriber.objects.get(client_id=client.id)


def test_an_event_from_a_time_to_come_is_not_waited_for() -> None:
    subscriber = subscribed(HOUR_MS)
    assert run(overdue(now_ms())) == [subscriber.client_id]
    assert run(due_within(1, now_ms())) == 1
    taken = run(take(subscriber.client_id))
    assert (taken.verdict, taken.age_ms) == ("send", 0)


def test_an_event_from_a_moment_ahead_waits_for_its_batch() -> None:
    """Clocks of two machines differ by that much."""
    subscriber = subscribed(5_000)
    assert run(overdue(now_ms())) == []
    assert run(take(subscriber.client_id)).verdict == "wait"


@pytest.mark.parametrize(("field", "most_ms"), [("leased_until_ts", LEASE_MS), ("retry_ts", LONGEST_PAUSE_MS)])
def test_a_time_to_come_is_set_back_to_the_longest_there_is(field: str, most_ms: int) -> None:
    subscriber = subscribed(0)
    for ahead_ms in (most_ms + HOUR_MS, most_ms // 2):
        told = now_ms() + ahead_ms
        Subscriber.objects.update(**{field: told})
        run(set_back())
        assert run(overdue(now_ms())) == []
        subscriber.refresh_from_db()
        if ahead_ms > most_ms:
            assert getattr(subscriber, field) <= now_ms() + most_ms
        else:
            assert getattr(subscriber, field) == told


def rests(ahead_ms: int, leased_ms: int) -> Webhook:
    """A webhook whose endpoint gets no call for so long, under a lease for so long."""
    wanted = PutWebhook(url="https://example.com/", topics=[new_topic()])
    hook = run(webhooks.put(f"hook-{new_topic()}", wanted, OPEN, now_ms())).webhook
    Webhook.objects.filter(id=hook.id).update(
        retry_ts=now_ms() + ahead_ms, leased_until_ts=now_ms() + leased_ms, lease=1
    )
    return Webhook.objects.get(id=hook.id)


def test_a_renewal_ends_the_pause_of_a_clock_ahead() -> None:
    """It comes before the sweep, and then nothing else tells that the clock was ahead."""
    ahead, right = rests(HOUR_MS + 60_000, HOUR_MS), rests(60_000, leases.LEASE_MS)
    assert run(leases.renew({ahead.id: 1, right.id: 1})) == {ahead.id, right.id}
    before = right.retry_ts
    run(leases.set_back())
    for webhook in (ahead, right):
        webhook.refresh_from_db()
    assert (ahead.retry_ts, right.retry_ts) == (0, before)


def test_a_pause_that_is_longer_than_any_ends_also_without_a_lease() -> None:
    ahead, right = rests(25 * HOUR_MS, 0), rests(23 * HOUR_MS, 0)
    before = right.retry_ts
    run(leases.set_back())
    for webhook in (ahead, right):
        webhook.refresh_from_db()
    assert (ahead.retry_ts, right.retry_ts) == (0, before)


def test_a_webhook_whose_times_are_an_hour_ahead_waits_no_hour() -> None:
    wanted = PutWebhook(url="https://example.com/", topics=[new_topic()])
    name = f"hook-{new_topic()}"
    hook = run(webhooks.put(name, wanted, OPEN, now_ms())).webhook
    ahead = now_ms() + HOUR_MS
    with connection.cursor() as cursor:
        cursor.execute("UPDATE push_webhook SET leased_until_ts = %s, retry_ts = %s", [ahead, ahead])
        row = f"({hook.id}, 1, 1, 't', 1, 1, {ahead + 5_000}, {ahead})"
        columns = "webhook_id, topic_id, seq, topic, attempts, first_ts, next_ts, set_ts"
        cursor.execute(f"INSERT INTO push_webhookwaiting ({columns}) VALUES {row}")
    run(leases.set_back())
    due_ms = run(sources.next_due_ms(hook.id, 0))
    assert due_ms is not None
    assert 0 < due_ms <= 5_000
    with connection.cursor() as cursor:
        cursor.execute("SELECT leased_until_ts, retry_ts FROM push_webhook WHERE id = %s", [hook.id])
        leased_until_ts, retry_ts = cursor.fetchone()
    assert leased_until_ts <= now_ms() + leases.LEASE_MS
    assert retry_ts == 0
