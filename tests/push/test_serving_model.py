"""Webhooks against a model: random records, failures, orders and kills. Each record is delivered or becomes a dead letter, in the
order of its line, and is sent again at most once for each kill. The endpoint is in this process. The store is real."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from base.clock import now_ms
from base.errors import InvalidRequest, TopicNotFound
from push.delivery.caller import Caller, CallTarget, Outcome
from push.delivery.throttle import clock
from push.webhooks import leases, outcomes, webhooks
from push.webhooks.config import PutWebhook
from push.webhooks.deliveries import LogFilter, page_of_deliveries, send_test
from push.webhooks.serving import MOST_COUNTED, WebhookServing
from push.webhooks.settle import Settling, WebhookLetter, settle
from push.webhooks.signing import new_secret
from store.loop import Loop, here
from store.script import Statement, run
from tests.deadlines import DEADLINE
from tests.examples import examples
from topics.append.appending import append
from topics.append.records import Append, NewRecord, check_rows
from topics.config import Config, create_topic, put_topic
from topics.read.diff import Diff, read_window
from wire.access.keys import OPEN

pytestmark = pytest.mark.django_db(transaction=True)
ATTEMPTS = 3
ALWAYS = 10**6
_numbers = itertools.count(1)
RECORDS = st.lists(
    st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([0, 0, 0, 1, 2, ALWAYS])), min_size=1, max_size=12
)


@dataclass
class Endpoint:
    """Answers each record with an error as often as the test says. `kill` is called after the call with each of these numbers."""

    failures: list[int]
    kills: list[int]
    kill: Callable[[], object] = lambda: None
    calls: list[list[int]] = field(default_factory=list)
    good: list[int] = field(default_factory=list)

    async def post(
        self, to: CallTarget, headers: list[tuple[bytes, bytes]], body: bytes, seconds: float, check: Callable[[], None]
    ) -> Outcome:
        await asyncio.sleep(0)
        check()
        found = json.loads(body)
        records = [each["data"] for each in found.get("records", [found])]
        self.calls.append(records)
        if len(self.calls) in self.kills:
            self.kill()
        if any(self.failures[each] >= sum(each in call for call in self.calls) for each in records):
            return Outcome(500, "answered 500", 1.0)
        self.good += records
        return Outcome(200, None, 1.0)


class Killable(WebhookServing):
    async def end(self) -> None:
        """Ends like a process that is killed: what was not settled is not."""
        for call in list(self.calls):
            call.cancel()
        await asyncio.gather(*self.calls, return_exceptions=True)


@settings(max_examples=examples(25))
@given(
    records=RECORDS,
    order=st.sampled_from(["tag", "topic", "none"]),
    batch=st.sampled_from([1, 1, 3]),
    concurrency=st.integers(1, 4),
    kills=st.lists(st.integers(1, 20), max_size=2, unique=True),
)
def test_serving(
    records: list[tuple[str | None, int]], order: str, batch: int, concurrency: int, kills: list[int]
) -> None:
    if batch > 1:  # a batch fails as a whole, so one record can bury its neighbours
        records = [(tag, min(failures, 1)) for tag, failures in records]
    name = f"model-{next(_numbers)}"
    config = {
        "url": "https://example.com/",
        "topics": [name],
        "from": "earliest",
        "order": order,
        "concurrency": concurrency,
        "retry": {"schedule_ms": [0], "max_attempts": ATTEMPTS if batch == 1 else 100},
        **({"format": "batch", "max_batch": batch} if batch > 1 else {}),
    }
    rows = [NewRecord(data=msgspec.Raw(b"%d" % n), tag=tag) for n, (tag, _) in enumerate(records)]
    wanted = Append(records=rows)
    run(append(name, wanted, check_rows(wanted), now_ms()))
    run(webhooks.put(name, msgspec.convert(config, PutWebhook), OPEN, now_ms()))
    endpoint = Endpoint([failures for _, failures in records], kills)
    asyncio.run(serve_until_done(name, endpoint))

    dead = [n for n, (_, failures) in enumerate(records) if failures == ALWAYS]
    assert letters(name) == dead if order == "topic" else sorted(letters(name)) == dead
    for n, (_, failures) in enumerate(records):
        again = sum(n in call for call in endpoint.calls)
        if failures == ALWAYS:
            assert ATTEMPTS <= again <= ATTEMPTS + len(kills)
        elif batch == 1:
            assert failures + 1 <= again <= failures + 1 + len(kills)
        assert (endpoint.good.count(n) > 0) == (failures != ALWAYS)
        assert endpoint.good.count(n) <= 1 + len(kills)
    lines = {"topic": {None, "a", "b"}} if order == "topic" else {"a": {"a"}, "b": {"b"}} if order == "tag" else {}
    for tags in lines.values():
        first = list(dict.fromkeys(n for n in endpoint.good if records[n][0] in tags))
        assert first == sorted(first), "records of a line arrive in their order"


def test_the_attempts_and_the_failures_stop_at_their_end() -> None:
    """One more would be no integer of PostgreSQL, and nothing of the webhook could be settled."""
    name = f"model-{next(_numbers)}"
    wanted = Append(records=[NewRecord(data=msgspec.Raw(b"0"))])
    run(append(name, wanted, check_rows(wanted), now_ms()))
    retry = {"schedule_ms": [0], "max_age_ms": 86_400_000}
    config = {"url": "https://example.com/", "topics": [name], "retry": retry}
    hook = run(webhooks.put(name, msgspec.convert(config, PutWebhook), OPEN, now_ms())).webhook
    with connection.cursor() as cursor:
        cursor.execute("UPDATE push_webhook SET failures = %s WHERE id = %s", [MOST_COUNTED, hook.id])
        columns = "webhook_id, topic_id, seq, topic, attempts, first_ts, next_ts"
        values = "%s, id, 1, name, %s, %s, 0"
        cursor.execute(
            f"INSERT INTO push_webhookwaiting ({columns}) SELECT {values} FROM topics_topic WHERE name = %s",
            [hook.id, MOST_COUNTED, now_ms(), name],
        )
    endpoint = Endpoint([2], [])
    asyncio.run(asyncio.wait_for(serve_until_done(name, endpoint), DEADLINE))
    assert endpoint.calls == [[0]] * 3
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT attempt FROM push_webhooklog WHERE webhook_id = %s", [hook.id])
        assert cursor.fetchall() == [(MOST_COUNTED,)]


def test_a_loss_of_more_records_than_an_integer_counts_holds_up_nothing() -> None:
    """As behind a topic that was copied with its seqs, and has lost all before them."""
    name, lost = f"model-{next(_numbers)}", 3 * 10**9
    run(create_topic(name, {}, now_ms(), noted=False))
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE topics_topichead h SET (head_seq, floor_seq, cap_lost_seq, reserved_seq) = ROW(n, n, n, n) "
            "FROM topics_topic t, (SELECT %(lost)s::bigint AS n) wanted WHERE t.id = topic_id AND name = %(name)s",
            {"lost": lost, "name": name},
        )
    wanted = Append(records=[NewRecord(data=msgspec.Raw(b"0"))])
    assert run(append(name, wanted, check_rows(wanted), now_ms())).last_seq == lost + 1
    config = {"url": "https://example.com/", "topics": [name], "from": "earliest"}
    hook = run(webhooks.put(name, msgspec.convert(config, PutWebhook), OPEN, now_ms())).webhook
    endpoint = Endpoint([0], [])
    asyncio.run(asyncio.wait_for(serve_until_done(name, endpoint), DEADLINE))
    assert endpoint.good == [0]
    (row,) = run(page_of_deliveries(hook.id, LogFilter(state="lost"), 2**62, 9))
    assert (row.first_seq, row.last_seq, row.records) == (1, lost, MOST_COUNTED)


def test_a_webhook_whose_name_leaves_no_room_for_dead_letters_is_paused() -> None:
    """A PUT refuses such a name. An earlier version did not."""
    topic = f"model-{next(_numbers)}"
    wanted = Append(records=[NewRecord(data=msgspec.Raw(b"0"))])
    run(append(topic, wanted, check_rows(wanted), now_ms()))
    retry = {"schedule_ms": [0], "max_attempts": ATTEMPTS}
    config = {"url": "https://example.com/", "topics": [topic], "from": "earliest", "retry": retry}
    longest = "w" * (255 - len("webhooks.dead."))
    name = f"{longest}w"
    run(webhooks.put(longest, msgspec.convert({**config, "from": "head"}, PutWebhook), OPEN, now_ms()))
    with pytest.raises(InvalidRequest, match="leaves no room"):
        run(webhooks.put(name, msgspec.convert(config, PutWebhook), OPEN, now_ms()))
    run(webhooks.put(name, msgspec.convert({**config, "on_exhausted": "skip"}, PutWebhook), OPEN, now_ms()))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE push_webhook SET config = config - 'on_exhausted' WHERE name = %s", [name])
    endpoint = Endpoint([ALWAYS], [])
    asyncio.run(asyncio.wait_for(serve_until_let_go(name, endpoint), DEADLINE))
    assert endpoint.calls == [[0]] * ATTEMPTS
    paused = run(webhooks.find(name))
    assert paused.pause_reason == "the attempts of a record are over: answered 500"
    assert run(webhooks.waiting([paused.id]))[paused.id].records == 1


@pytest.mark.parametrize("order", ["tag", "topic"])
@pytest.mark.parametrize("together", [True, False])
def test_a_record_whose_dead_letter_is_refused_stays_before_the_others_of_its_line(
    monkeypatch: pytest.MonkeyPatch, order: str, together: bool
) -> None:
    """`together`: the next record of the line is in memory, too. Otherwise it is appended after the refusal."""
    monkeypatch.setattr(outcomes, "REFUSED_MS", 20)
    name = f"model-{next(_numbers)}"
    dead, tagged = f"webhooks.dead.{name}", [NewRecord(data=msgspec.Raw(b"%d" % n), tag="a") for n in range(2)]
    run(put_topic(dead, Config(sealed=True), now_ms()))
    first, later = (tagged, []) if together else (tagged[:1], tagged[1:])
    run(append(name, Append(records=first), check_rows(Append(records=first)), now_ms()))
    retry = {"schedule_ms": [0], "max_attempts": 1}
    config = {"url": "https://example.com/", "topics": [name], "from": "earliest", "order": order, "retry": retry}
    run(webhooks.put(name, msgspec.convert(config, PutWebhook), OPEN, now_ms()))
    endpoint = Endpoint([ALWAYS, 0], [])

    async def test() -> None:
        async with serving_of(name, endpoint) as (store, serving):
            while not serving.settled:
                await asyncio.sleep(0.005)
            if later:
                wanted = Append(records=later)
                done = await store.drive(append(name, wanted, check_rows(wanted), now_ms()))
                serving.heard(*serving.sources, done.last_seq)
            while len(endpoint.calls) < 5 and not endpoint.good:
                await asyncio.sleep(0.005)
            assert endpoint.good == []
            await store.drive(put_topic(dead, Config(sealed=False), now_ms()))
            while not endpoint.good:
                await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(test(), DEADLINE))
    assert (letters(name), endpoint.good) == ([0], [1])


@pytest.mark.guarantee("H1")
def test_a_settle_that_is_repeated_appends_its_letters_once() -> None:
    """As after a commit whose answer was lost."""
    name = f"model-{next(_numbers)}"
    config = {"url": "https://example.com/", "topics": [name]}
    run(webhooks.put(name, msgspec.convert(config, PutWebhook), OPEN, now_ms()))
    (webhook,) = [each for each in run(leases.take()) if each.name == name]
    letter = WebhookLetter(msgspec.Raw(b"0"), None, {})
    what = Settling([(1, 1, None, True)], [], [], [], [letter], 0, 0, None, None, 0, 1)
    for _ in range(2):
        script = settle(webhook.id, webhook.lease, webhook.settled, what, f"webhooks.dead.{name}", now_ms())
        assert run(script) is True
    assert letters(name) == [0]
    assert (
        run(settle(webhook.id, webhook.lease + 1, webhook.settled + 1, what, f"webhooks.dead.{name}", now_ms()))
        is False
    )
    assert letters(name) == [0]


class Signed(Endpoint):
    """Keeps how many signatures each call has."""

    signatures: list[int]

    async def post(
        self, to: CallTarget, headers: list[tuple[bytes, bytes]], body: bytes, seconds: float, check: Callable[[], None]
    ) -> Outcome:
        self.signatures.append(len(dict(headers)[b"webhook-signature"].split()))
        return Outcome(200, None, 1.0)


def test_the_former_secret_signs_for_its_time_also_while_one_process_serves_the_webhook() -> None:
    name = f"model-{next(_numbers)}"
    run(
        webhooks.put(
            name, msgspec.convert({"url": "https://example.com/", "topics": [name]}, PutWebhook), OPEN, now_ms()
        )
    )
    run(webhooks.rotate(name, new_secret(), now_ms() - webhooks.PREVIOUS_MS + 2_000))
    endpoint = Signed([], [])
    endpoint.signatures = []

    async def test() -> None:
        async with serving_of(name, endpoint) as (store, serving):
            while endpoint.signatures[-1:] != [1]:
                await store.drive(send_test(name))
                serving.look_again()
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(test(), DEADLINE))
    assert endpoint.signatures == sorted(endpoint.signatures, reverse=True)


def test_a_record_that_a_call_makes_due_during_a_look_is_sent() -> None:
    """The call comes between the look in PostgreSQL and its answer. Nothing else wakes the webhook."""
    name = f"model-{next(_numbers)}"
    config = {"url": "https://example.com/", "topics": [name]}
    run(webhooks.put(name, msgspec.convert(config, PutWebhook), OPEN, now_ms()))
    endpoint = Signed([], [])
    endpoint.signatures = []
    tests: list[object] = []

    async def test() -> None:
        store, asked = here(), clock()
        drive = store.drive
        (webhook,) = [each for each in await drive(leases.take()) if each.name == name]
        serving = WebhookServing(store, cast("Caller", endpoint), webhook, asked, lambda source, serving: None)

        async def late(script: Any) -> Any:
            answer = await drive(script)
            if script.__name__ == "next_due_ms" and not tests:
                tests.append(await drive(send_test(name)))
                serving.look_again()
            return answer

        store.drive = late  # type: ignore[method-assign]
        task = asyncio.create_task(serving.serve())
        try:
            while not endpoint.signatures:
                await asyncio.sleep(0.005)
        finally:
            serving.stop()
            await task
            await store.close()

    asyncio.run(asyncio.wait_for(test(), DEADLINE))


class Busy(Endpoint):
    """Wants no calls for an hour, in the answer to the first call. The second one is under way then, and succeeds."""

    async def post(
        self, to: CallTarget, headers: list[tuple[bytes, bytes]], body: bytes, seconds: float, check: Callable[[], None]
    ) -> Outcome:
        self.calls.append([json.loads(body)["data"]])
        if len(self.calls) == 1:
            return Outcome(429, "answered 429", 1.0, retry_after="3600")
        await asyncio.sleep(0.05)
        return Outcome(200, None, 1.0)


def test_a_success_of_a_call_under_way_ends_no_pause_that_the_endpoint_asked_for() -> None:
    name = f"model-{next(_numbers)}"
    wanted = Append(records=[NewRecord(data=msgspec.Raw(b"%d" % n)) for n in range(4)])
    run(append(name, wanted, check_rows(wanted), now_ms()))
    config = {"url": "https://example.com/", "topics": [name], "from": "earliest", "order": "none", "concurrency": 2}
    hook = run(webhooks.put(name, msgspec.convert(config, PutWebhook), OPEN, now_ms())).webhook
    endpoint = Busy([], [])

    async def test() -> None:
        async with serving_of(name, endpoint) as (store, _):
            # A call begins with the outcome of another, so the third one would come before this is stored.
            while not await store.drive(page_of_deliveries(hook.id, LogFilter(state="delivered"), 2**62, 9)):
                await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(test(), DEADLINE))
    assert endpoint.calls == [[0], [1]]
    with connection.cursor() as cursor:
        cursor.execute("SELECT retry_ts, failures FROM push_webhook WHERE id = %s", [hook.id])
        ((retry_ts, failures),) = cursor.fetchall()
    assert (retry_ts > now_ms(), failures) == (True, 0)


@asynccontextmanager
async def serving_of(name: str, endpoint: Endpoint) -> AsyncIterator[tuple[Loop, WebhookServing]]:
    """Serves the webhook within this block."""
    store = here()
    try:
        asked = clock()
        (webhook,) = [each for each in await store.drive(leases.take()) if each.name == name]
        serving = WebhookServing(store, cast("Caller", endpoint), webhook, asked, lambda source, serving: None)
        task = asyncio.create_task(serving.serve())
        try:
            yield store, serving
        finally:
            serving.stop()
            await task
    finally:
        await store.close()


async def serve_until_let_go(name: str, endpoint: Endpoint) -> None:
    store = here()
    try:
        asked = clock()
        (webhook,) = [each for each in await store.drive(leases.take()) if each.name == name]
        await WebhookServing(store, cast("Caller", endpoint), webhook, asked, lambda source, serving: None).serve()
    finally:
        await store.close()


async def serve_until_done(name: str, endpoint: Endpoint) -> None:
    store = here()
    try:
        while not await is_done(store, name):
            asked = clock()
            (webhook,) = [each for each in await store.drive(leases.take()) if each.name == name]
            serving = Killable(store, cast("Caller", endpoint), webhook, asked, lambda source, serving: None)
            task = asyncio.create_task(serving.serve())
            endpoint.kill = serving.stop
            while not task.done() and not await is_done(store, name):
                await asyncio.sleep(0.005)
            serving.stop()
            await task
            await store.drive(leases.release(webhook.id, webhook.lease))
    finally:
        await store.close()


async def is_done(store: Loop, name: str) -> bool:
    def look() -> Any:
        rows = yield Statement(
            """
            SELECT c.seq = h.head_seq AND NOT EXISTS (SELECT FROM push_webhookwaiting WHERE webhook_id = w.id)
              FROM push_webhook w JOIN topics_topic t ON t.name = w.name JOIN topic_heads h ON h.topic_id = t.id
              JOIN topic_cursors c ON c.topic_id = t.id AND c.kind = 'webhook' WHERE w.name = %s
            """,
            (name,),
        )
        return rows[0][0]

    return bool(await store.drive(look()))


def letters(name: str) -> list[int]:
    try:
        _, window = run(read_window(f"webhooks.dead.{name}", Diff(), now_ms()))
    except TopicNotFound:
        return []
    return [each["data"] for each in json.loads(f"[{window.records or ''}]")]
