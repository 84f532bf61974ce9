"""The webhooks that one process serves, against a real PostgreSQL: what the engine keeps of topics and webhooks that are gone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest
from django.db import connection

from base.clock import now_ms
from base.errors import Throttled
from push.webhooks import leases, sources, webhooks
from push.webhooks.config import PutWebhook
from push.webhooks.engine import Engine
from push.webhooks.engine import run as run_engine
from push.webhooks.webhooks import PutOutcome
from store.loop import here
from store.script import Script, Statement, run
from tests.deadlines import DEADLINE
from tests.scripts import put_topic
from topics.append.appending import append
from topics.append.records import Append, NewRecord, check_rows
from topics.cache import topic_called
from topics.config import Config
from topics.delete.topic import delete_topic
from wire.access.keys import OPEN

pytestmark = pytest.mark.django_db(transaction=True)
_numbers = itertools.count(1)


def new_topic(prefix: str = "") -> str:
    name = f"{prefix}engine-{next(_numbers)}"
    put_topic(name, Config(), now_ms())
    return name


def test_a_config_of_a_later_version_keeps_no_process_from_the_others() -> None:
    later, ours = f"later-{new_topic()}", f"ours-{new_topic()}"
    for name in (later, ours):
        run(webhooks.put(name, PutWebhook(url="https://example.com/", topics=[new_topic()]), OPEN, now_ms()))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE push_webhook SET config = config || '{\"later\": 1}' WHERE name = %s", [later])
        taken = {each.name for each in run(leases.take())}
        cursor.execute("SELECT leased_until_ts FROM push_webhook WHERE name = %s", [later])
        assert cursor.fetchone() == (0,)
    assert taken & {later, ours} == {ours}


def appended(topic: str) -> Script[dict[int, int]]:
    """Appends a record, and returns what its wake-up tells."""
    wanted = Append(records=[NewRecord(data=msgspec.Raw(b"1"))])
    done = yield from append(topic, wanted, check_rows(wanted), now_ms())
    return {(yield from topic_called(topic)).id: done.last_seq}


def noted(script: Script[Any], notes: list[tuple[str, int]]) -> Script[Any]:
    """The script, which notes each of its statements and the number of rows that it got."""
    answer = None
    while True:
        try:
            step = script.send(answer)
        except StopIteration as ended:
            return ended.value
        answer = yield step
        if isinstance(step, Statement):
            notes.append((step.sql, len(answer)))


def hooked(*topics: str, **config: Any) -> int:
    """Makes a webhook whose endpoint refuses each connection, and returns its id."""
    return run(put(*topics, **config)).webhook.id


def put(*topics: str, **config: Any) -> Script[PutOutcome]:
    wanted = msgspec.convert({"url": "https://127.0.0.1:9/", "topics": list(topics), **config}, PutWebhook)
    return webhooks.put(f"engine-{next(_numbers)}", wanted, OPEN, now_ms())


def serve(test: Callable[[Engine], Awaitable[None]]) -> None:
    """Runs a test with an engine."""

    async def begin() -> None:
        store = here()
        engine = Engine(store)
        try:
            await asyncio.wait_for(test(engine), DEADLINE)
        finally:
            await engine.close()
            await store.close()

    asyncio.run(begin())


def test_it_forgets_deleted_topics_also_if_their_webhook_ends_later() -> None:
    kept, gone = new_topic(), new_topic()
    one, two = hooked(kept, gone), hooked(gone)

    async def test(engine: Engine) -> None:
        await engine.look()
        while sum(len(each.sources) for each in engine.serving.values()) < 3:
            await asyncio.sleep(0.005)
        names = await engine.store.drive(sources.names_of(list(engine.by_topic)))
        ids = {name: id for id, name in names.items()}
        serving, other = engine.serving[one], engine.serving[two]
        await engine.store.drive(delete_topic(gone, False, now_ms()))
        await engine.moved({ids[gone]: 1})  # as the delete tells it
        while ids[gone] in serving.sources or ids[gone] in other.sources:
            await asyncio.sleep(0.005)
        other.stop()
        await engine.tasks[two]
        await engine.sweep()
        assert engine.by_topic == {ids[kept]: {serving}}

    serve(test)


def test_a_webhook_may_end_while_its_lease_is_renewed() -> None:
    topic = new_topic()
    one, two = hooked(topic), hooked(topic)

    async def test(engine: Engine) -> None:
        await engine.look()
        ending, kept = engine.serving[one], engine.serving[two]
        renew = engine.aside.drive

        async def drive(script: Script[Any]) -> Any:
            done = await renew(script)
            ending.stop()
            await engine.tasks[one]
            return done

        engine.aside.drive = drive  # type: ignore[method-assign]
        kept.lease_ends = before = kept.lease_ends - 1
        await engine.renew()
        assert list(engine.serving) == [two]
        assert kept.lease_ends > before

    serve(test)


def test_a_webhook_whose_topics_cannot_be_found_keeps_no_other_from_its_records() -> None:
    topic, later = new_topic(), new_topic()
    ids = [hooked(topic), hooked(topic)]

    async def test(engine: Engine) -> None:
        await engine.look()
        while sum(len(each.sources) for each in engine.serving.values()) < 2:
            await asyncio.sleep(0.005)
        broken, kept = (engine.serving[id] for id in ids)

        async def join(*_: object, **__: object) -> None:
            raise RuntimeError("a fault of this webhook alone")

        broken.join = join  # type: ignore[method-assign]
        heads = await engine.store.drive(appended(topic))  # its wake-up is lost
        looks = broken.looks, kept.looks
        await engine.sweep()
        assert {source.id: source.head for source in kept.sources.values()} == heads
        assert (broken.looks, kept.looks) == (looks[0] + 1, looks[1] + 1)
        for serving in (broken, kept):
            serving.settings.topics.append(later)
        new = await engine.store.drive(appended(later))
        await engine.moved(new)
        assert new.keys() <= kept.sources.keys()

    serve(test)


def test_leases_are_renewed_while_a_sweep_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("push.webhooks.engine.SWEEP_SECONDS", 0.005)
    id = hooked(new_topic())

    async def test(engine: Engine) -> None:
        ended, sweeping = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(run_engine(engine, ended))
        while id not in engine.serving:
            await asyncio.sleep(0.005)
        serving = engine.serving[id]

        async def join(*_: object, **__: object) -> None:
            sweeping.set()
            await ended.wait()

        serving.join = join  # type: ignore[method-assign]
        await sweeping.wait()
        serving.lease_ends = before = serving.lease_ends - 1
        await engine.look((id,))
        assert serving.lease_ends > before
        ended.set()
        await running

    serve(test)


class Watched(dict[int, Any]):
    """The sources of a webhook. `walks`: how often somebody went through all of them."""

    walks = 0

    def __iter__(self) -> Iterator[int]:
        self.walks += 1
        return super().__iter__()

    def values(self) -> Any:
        self.walks += 1
        return super().values()

    def items(self) -> Any:
        self.walks += 1
        return super().items()


MANY = 30  # topics of a pattern


def test_a_record_and_a_new_topic_cost_as_much_beside_many_topics_as_beside_few() -> None:
    prefix = new_topic() + "."
    busy, *_ = [new_topic(prefix) for _ in range(MANY)]
    id = hooked(f"{prefix}*", order="topic")
    notes: list[tuple[str, int]] = []

    async def test(engine: Engine) -> None:
        drive = engine.store.drive
        engine.store.drive = lambda script: drive(noted(script, notes))  # type: ignore[method-assign]
        await engine.look()
        serving = engine.serving[id]
        while len(serving.sources) < MANY:
            await asyncio.sleep(0.005)
        assert max(rows for _, rows in notes) == MANY
        serving.sources = watched = Watched(serving.sources)
        await engine.moved(await drive(appended(busy)))
        while serving.settled < 1:  # the call has failed, so the record waits
            await asyncio.sleep(0.005)
        notes.clear()
        told, missed = [await drive(appended(f"{prefix}{word}")) for word in ("told", "missed")]
        await engine.moved(told)
        assert told.keys() <= serving.sources.keys()
        await engine.sweep()
        assert missed.keys() <= serving.sources.keys()
        while serving.settled < 3:
            await asyncio.sleep(0.005)
        assert watched.walks == 0
        assert max(rows for _, rows in notes) <= 3

    serve(test)


def test_a_topic_goes_on_when_its_record_that_held_it_up_has_ended() -> None:
    topic = new_topic()
    id = hooked(topic, order="topic", on_exhausted="skip", retry={"schedule_ms": [20], "max_attempts": 2})

    async def test(engine: Engine) -> None:
        await engine.look()
        serving = engine.serving[id]
        for _ in range(2):
            heads = await engine.store.drive(appended(topic))
        await engine.moved(heads)
        while serving.settled == 0 or any(each.stored < each.head for each in serving.sources.values()):
            await asyncio.sleep(0.005)
        assert not serving.behind

    serve(test)


def test_the_number_of_webhooks_is_capped(settings: Any) -> None:
    settings.TOPICS_MAX_WEBHOOKS = 1
    kept = run(put("a")).webhook
    with pytest.raises(Throttled, match=r"the cap of 1 is reached \(webhooks\)"):
        hooked("a")
    assert [each.id for each in run(webhooks.page_of_webhooks("", "", 9, ()))] == [kept.id]
    wanted = msgspec.convert({"url": "https://127.0.0.1:9/", "topics": ["b"]}, PutWebhook)
    assert not run(webhooks.put(kept.name, wanted, OPEN, now_ms())).created


@pytest.mark.parametrize("start", ["earliest", "head"])
def test_the_topics_of_a_pattern_begin_in_one_statement(start: str) -> None:
    prefix = new_topic() + "."
    heads = [run(appended(f"{prefix}{n}")) for n in range(MANY)]
    notes: list[tuple[str, int]] = []
    run(noted(put(f"{prefix}*", **{"from": start}), notes))
    assert sum("INSERT INTO topics_cursor" in sql for sql, _ in notes) == 1
    with connection.cursor() as cursor:
        ids = [id for head in heads for id in head]
        cursor.execute("SELECT seq, count(*) FROM topics_cursor WHERE topic_id = ANY (%s) GROUP BY seq", [ids])
        assert cursor.fetchall() == [(0 if start == "earliest" else 1, MANY)]
