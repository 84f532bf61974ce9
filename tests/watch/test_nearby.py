"""Wake-ups between processes of one server, with and without records. Two event loops stand in for two processes."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
import redis
from django.conf import settings

from base.clock import now_ms
from base.neighbours import Neighbours
from tests.deadlines import DEADLINE
from tests.scripts import append, look_up, put_topic
from topics import wake
from topics.append.records import Append, NewRecord, check_rows
from topics.append.written import Written
from topics.cache import CachedTopic
from topics.config import Config
from watch import nearby
from watch.nearby import Nearby


def written(name: str, *texts: bytes) -> Written:
    """Appends records, and returns them as the process that appended them has them."""
    wanted = Append([NewRecord(nearby.msgspec.Raw(text), "tag", "ü") for text in texts])
    rows = check_rows(wanted)
    done = append(name, wanted, rows, now_ms())
    return Written(look_up(name), done.first_seq - 1, [rows], 5, 7.5)


class Two:
    """A process that sends, and one that listens."""

    def __init__(self) -> None:
        self.neighbours = Neighbours(2)
        self.heard: list[tuple[Any, ...]] = []
        self.sender = Nearby(self.neighbours, 0, lambda *_: None)
        self.receiver = Nearby(self.neighbours, 1, lambda *told: self.heard.append(told))
        wake.leave(self.receiver.hint)
        self.receiver.listen(True)

    async def all_heard(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.heard) < count:
                await asyncio.sleep(0.001)

    def close(self) -> None:
        wake.listen(self.receiver.hint)
        for each in (self.sender, self.receiver, *self.neighbours.inboxes, *self.neighbours.outboxes):
            each.close()


def told(topic: CachedTopic, *announced: Written) -> list[tuple[Any, ...]]:
    async def run() -> list[tuple[Any, ...]]:
        two = Two()
        try:
            for each in announced:
                wake.moved(topic, each.base + each.records, each)
            await two.all_heard(1)
            return two.heard
        finally:
            two.close()

    return asyncio.run(run())


def test_a_small_append_brings_its_records(transactional_db: None, name: str) -> None:
    sent = written(name, b'{"a" : 1.0E+05}', b"null")
    assert told(sent.topic, sent) == [(sent.topic.id, 2, sent)]


def test_a_large_one_and_two_at_once_are_read(transactional_db: None, name: str) -> None:
    large = written(name, b'"%b"' % (b"x" * nearby.MOST_BYTES))
    assert told(large.topic, large) == [(large.topic.id, 1, None)]
    one, two = written(name, b"1"), written(name, b"2")
    assert told(one.topic, one, two) == [(one.topic.id, 3, None)]


def test_an_append_of_another_thread_is_told(transactional_db: None, name: str) -> None:
    sent = written(name, b"1")

    async def run() -> list[tuple[Any, ...]]:
        two = Two()
        try:
            await asyncio.to_thread(wake.moved, sent.topic, 1, sent)
            await two.all_heard(1)
            return two.heard
        finally:
            two.close()

    assert asyncio.run(run()) == [(sent.topic.id, 1, sent)]


def test_long_names_leave_less_room_for_records(transactional_db: None, name: str) -> None:
    sent = written(name + "-" * (255 - len(name)), b"1")
    messages = list(nearby.packed(dict.fromkeys(range(nearby.MOST_HEADS), (1, sent))))
    brought = [records for _, _, records in messages if records is not None]
    assert 0 < sum(len(each.name) + 1 for each in brought) <= nearby.MOST_BYTES


def test_redis_gets_few_messages_while_only_neighbours_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "CHANNEL", f"test-{os.getpid()}")
    client = redis.Redis.from_url(settings.REDIS_URL)

    def is_needed() -> bool:
        return wake.process.send(client, {1: 1}, set())

    async def run() -> None:
        two = Two()
        try:
            assert not is_needed(), "nobody listens"
            with client.pubsub() as neighbour, client.pubsub() as elsewhere:
                neighbour.subscribe(wake.CHANNEL)
                neighbour.get_message(timeout=DEADLINE)
                assert not is_needed()
                elsewhere.subscribe(wake.CHANNEL)
                elsewhere.get_message(timeout=DEADLINE)
                assert is_needed()
                two.receiver.listen(False)
                elsewhere.unsubscribe(wake.CHANNEL)
                elsewhere.get_message(timeout=DEADLINE)
                assert is_needed(), "a neighbour that does not listen to us hears of it from Redis"
        finally:
            two.close()

    asyncio.run(run())


def test_a_process_that_knows_another_version_reads(transactional_db: None, name: str) -> None:
    sent = written(name, b"1")
    put_topic(name, Config(dedupe_node=False), now_ms())
    assert look_up(name).version != sent.topic.version
    assert told(sent.topic, sent) == [(sent.topic.id, 1, None)]


def test_a_process_without_streams_gets_nothing_and_a_full_one_loses_a_hint() -> None:
    async def run() -> None:
        two = Two()
        try:
            two.receiver.listen(False)
            wake.announce(1, 1, routed=False)
            assert two.sender.heads == {}
            two.receiver.listen(True)
            two.receiver.loop.remove_reader(two.neighbours.inboxes[1])
            for _ in range(10_000):
                two.neighbours.send(0, b"[]")
        finally:
            two.close()

    asyncio.run(run())


def test_many_heads_are_several_messages() -> None:
    async def run() -> set[int]:
        two = Two()
        try:
            for topic_id in range(2 * nearby.MOST_HEADS + 1):
                wake.announce(topic_id, 1, routed=False)
            await two.all_heard(2 * nearby.MOST_HEADS + 1)
            return {topic_id for topic_id, *_ in two.heard}
        finally:
            two.close()

    assert asyncio.run(run()) == set(range(2 * nearby.MOST_HEADS + 1))
