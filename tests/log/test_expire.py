"""Expiring in the background goes by bounded rounds: what one leaves, the next ones find."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from django.db import connections, transaction

from base.clock import now_ms
from tests.deadlines import DEADLINE
from tests.instances import until
from tests.log.test_eras import connected
from tests.scripts import append, delete_topic, put_topic
from topics import tasks
from topics.append.records import Append, NewRecord, check_rows
from topics.cache import forget
from topics.config import Config
from topics.models import Expiry, TopicHead
from topics.upkeep import retention

pytestmark = pytest.mark.django_db
LONG_AGO = 1_748_470_000_000
NAMES = ["one", "two", "three"]


def counts() -> list[int]:
    heads = TopicHead.objects.filter(topic__name__in=NAMES)
    return sorted(heads.values_list("count", flat=True))


@pytest.fixture(autouse=True)
def _three_topics_over_their_time() -> None:
    for name in NAMES:
        forget(name)
        put_topic(name, Config(ttl_ms=1), LONG_AGO)
        wanted = Append([NewRecord(msgspec.Raw(b"1"))] * 2)
        append(name, wanted, check_rows(wanted), LONG_AGO)


def test_it_works() -> None:
    tasks.expire()
    assert counts() == [0, 0, 0]


@pytest.mark.django_db(transaction=True)
def test_topics_do_not_wait_for_one_that_an_application_holds() -> None:
    def work() -> None:
        try:
            until(lambda: tasks.expire() or counts() == [0, 0, 2], "rounds that pass the topic")
        finally:
            connections.close_all()

    with connected() as other, ThreadPoolExecutor(1) as thread, other.transaction():
        other.execute(
            "SELECT FROM topics_topichead WHERE topic_id = (SELECT id FROM topics_topic WHERE name = 'two') FOR UPDATE"
        )
        thread.submit(work).result(DEADLINE)
    tasks.expire()
    assert counts() == [0, 0, 0]


@pytest.mark.django_db(transaction=True)
def test_nothing_is_left_of_a_topic_that_is_deleted_while_a_round_notes_it() -> None:
    def delete() -> None:
        try:
            delete_topic("two", False, now_ms())
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread, transaction.atomic():
        retention.expired_topics(now_ms())
        thread.submit(delete).result(DEADLINE)
    assert Expiry.objects.count() == len(NAMES)
    tasks.expire()
    assert counts() == [0, 0]
    assert not Expiry.objects.exists()


def test_a_round_ends_after_its_time_and_the_next_ones_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "ROUND_SECONDS", 0)
    tasks.expire()
    assert counts() in ([0, 2, 2], [2, 2, 2])
    until(lambda: tasks.expire() or counts() == [0, 0, 0], "rounds of a step each to reach every topic")
