"""The Python client appends, reads and follows: each record once, in order, through cut connections and killed servers."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest
from topics_client import AsyncTopics, New, RecordsLost, Topics, Unreachable, calls, errors, script
from topics_client.codec import Codec
from topics_client.following import Following
from topics_client.script import Pause, answered, built, run

from tests.clients.proxy import proxy
from tests.crashes import take_back
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, free_port, until
from tests.processes import child_process
from tests.watch.wire import Api, new_name

pytestmark = pytest.mark.deep(54)


CUTS = 40
BYTES = (300, 6000)  # of a connection, both ways
PAGE = 10  # records, some 1,000 bytes


def filled(server: Instance, topic: str, count: int) -> None:
    with Topics(server.url) as topics:
        for first in range(1, count + 1, 1000):
            last = min(first + 999, count)
            Api(server.port).append(topic, *({"id": n} for n in range(first, last + 1)))
        assert topics.topic(topic).read(count - 1).head_seq == count


def test_an_append_is_stored_once_although_connections_are_cut(server: Instance) -> None:
    topic = new_name()
    with proxy(server.port, (100, 2000)) as cutting, Topics(cutting.url) as topics:
        seqs = [topics.topic(topic).append({"id": n}, tag=f"order:{n}").seq for n in range(1, 41)]
        assert cutting.cuts > 6
    assert seqs == list(range(1, 41))
    with Topics(server.url) as topics:
        window = topics.topic(topic).read()
    assert [(record.seq, record.data["id"], record.tag) for record in window.records] == [
        (n, n, f"order:{n}") for n in range(1, 41)
    ]


def test_a_follower_sees_each_record_once_although_connections_are_cut(server: Instance) -> None:
    """A second follower of the cursor continues where the first one ended."""
    topic, count = new_name(), 1000
    filled(server, topic, count)
    seen: list[int] = []
    with proxy(server.port, BYTES) as cutting, Topics(cutting.url) as topics:
        orders = topics.topic(topic)
        with closing(orders.follow(cursor="billing", limit=PAGE, commit_ms=0, wait=False)) as records:
            for record in records:
                if record.seq == 55:
                    break  # within the loop of this record: it is not done
                seen.append(record.seq)
        seen += [record.seq for record in orders.follow(cursor="billing", limit=PAGE, wait=False)]
        assert cutting.cuts >= CUTS
        assert len(cutting.requests) <= 2 * count / PAGE + 55 + 2 * cutting.cuts
    assert seen == list(range(1, count + 1))


def test_an_async_follower_sees_each_record_once_although_connections_are_cut(server: Instance) -> None:
    topic, count = new_name(), 1000
    filled(server, topic, count)

    async def follow(url: str) -> list[int]:
        seen = []
        async with AsyncTopics(url) as topics:
            orders = topics.topic(topic)
            async with aclosing(orders.follow(cursor="billing", limit=PAGE, commit_ms=0, wait=False)) as records:
                async for record in records:
                    if record.seq == 55:
                        break
                    seen.append(record.seq)
            return seen + [r.seq async for r in orders.follow(cursor="billing", limit=PAGE, wait=False)]

    with proxy(server.port, BYTES) as cutting:
        assert asyncio.run(follow(cutting.url)) == list(range(1, count + 1))
        assert cutting.cuts >= CUTS
        assert len(cutting.requests) <= 2 * count / PAGE + 55 + 2 * cutting.cuts


def test_producer_and_consumer_survive_kills_of_the_whole_server(instances: Callable[..., Instance]) -> None:
    server, topic, count, kills = instances(), new_name(), 400, 3
    assert Api(server.port).call("PUT", f"/v0/topics/{topic}", {"durability": "fsync"}).status == 201
    seen: list[tuple[int, int]] = []
    appended: list[int] = []

    def produce() -> None:
        with Topics(server.url) as topics:
            for n in range(1, count + 1):
                appended.append(topics.topic(topic).append({"id": n}).seq)
                if n in (100, 200, 300):
                    turn.acquire()

    def consume() -> None:
        with Topics(server.url) as topics:
            for record in topics.topic(topic).follow(cursor="billing"):
                seen.append((record.seq, record.data["id"]))
                if len(seen) == count:
                    return

    turn = threading.Semaphore(0)
    threads = [threading.Thread(target=work, daemon=True) for work in (produce, consume)]
    for thread in threads:
        thread.start()
    for kill in range(1, kills + 1):
        until(lambda reached=kill * 100: len(appended) >= reached, "the producer")
        turn.release()
        server.kill()
        server.start()
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive()
    # After a crash of PostgreSQL, seqs are skipped.
    assert [seq for seq, _ in seen] == appended
    assert [number for _, number in seen] == list(range(1, count + 1))


def test_a_waiting_follower_makes_no_further_requests(server: Instance) -> None:
    topic = new_name()
    filled(server, topic, 1)
    with proxy(server.port) as counting, Topics(counting.url) as topics:
        records = topics.topic(topic).follow(cursor="billing")
        assert next(records).seq == 1
        got: list[int] = []
        thread = threading.Thread(target=lambda: got.append(next(records).seq))
        thread.start()
        until(lambda: len(counting.requests) == 4, "the long poll")
        Api(server.port).append(topic, {"id": 2})
        thread.join(DEADLINE)
        assert got == [2]
        assert [each.split()[0] for each in counting.requests] == ["GET", "POST", "PUT", "POST"]


def test_a_follower_of_a_sealed_topic_pauses_between_its_reads(server: Instance) -> None:
    """The server does not hold back the answers of a sealed topic."""
    topic = new_name()
    filled(server, topic, 1)
    assert Api(server.port).call("PUT", f"/v0/topics/{topic}", {"sealed": True}).status == 200
    with Topics(server.url) as topics:
        reader = Following(topic, Codec(Any), None, 1, None, 100, 0, True)
        steps: list[Any] = []
        for script in (reader.begin(), reader.next()):
            answer = None
            while not (steps and isinstance(steps[-1], Pause)):
                try:
                    steps.append(script.send(answer))
                except StopIteration:
                    break
                if not isinstance(steps[-1], Pause):
                    response = topics.http.send(built(topics.http, steps[-1]))
                    answer = type("Answer", (), {"status": response.status_code, "body": response.content})
        assert [type(step).__name__ for step in steps] == ["Request", "Pause"]


def test_losses_raise_or_are_told_or_ignored(server: Instance) -> None:
    topic = new_name()
    assert Api(server.port).call("PUT", f"/v0/topics/{topic}", {"cap_records": 5}).status == 201
    with Topics(server.url) as topics:
        orders = topics.topic(topic)
        for n in range(1, 9):
            orders.append(n)
        with pytest.raises(RecordsLost) as raised:
            next(orders.follow(cursor="billing"))
        assert (raised.value.tombstone.gap_from, raised.value.tombstone.gap_to) == (1, 3)
        events: list[Any] = []
        for record in orders.follow(cursor="billing", on_loss=events.append, wait=False):
            events.append(record.data)
        assert [getattr(each, "reason", each) for each in events] == ["cap", 4, 5, 6, 7, 8]
        assert [record.data for record in orders.follow(on_loss="ignore", wait=False)] == [4, 5, 6, 7, 8]
        with pytest.raises(ValueError, match="on_loss"):
            next(orders.follow(on_loss="skip"))  # type: ignore[arg-type]


def test_a_crash_that_takes_records_back_is_told_and_the_cursor_continues(server: Instance) -> None:
    topic = new_name()
    filled(server, topic, 10)
    with Topics(server.url) as topics:
        orders = topics.topic(topic)
        assert len(list(orders.follow(cursor="billing", wait=False))) == 10
        with server.connect() as database:
            take_back(database.execute, topic, 7)
        last = Api(server.port).append(topic, {"id": 11})
        events: list[Any] = []
        assert [r.seq for r in orders.follow(cursor="billing", on_loss=events.append, wait=False)] == [last]
        assert [(each.reason, each.lost_from) for each in events] == [("restart", 8)]
        assert list(orders.follow(cursor="billing", wait=False)) == []


def test_a_consumer_that_was_replaced_ends(server: Instance) -> None:
    topic = new_name()
    filled(server, topic, 3)
    with Topics(server.url) as topics:
        records = topics.topic(topic).follow(cursor="billing", commit_ms=0)
        next(records)
        assert Api(server.port).call("PUT", f"/v0/topics/{topic}/cursors/billing", {"seq": 3}).status == 201
        with pytest.raises(errors.CursorMoved) as raised:
            next(records)
        assert raised.value.detail["seq"] == 3


def test_a_cursor_is_not_committed_with_each_page(server: Instance) -> None:
    topic = new_name()
    filled(server, topic, 6)
    with Topics(server.url) as topics:
        orders = topics.topic(topic)
        with closing(orders.follow(cursor="billing", limit=2, commit_ms=60_000, wait=False)) as records:
            assert [next(records).seq for _ in range(5)] == [1, 2, 3, 4, 5]
            assert orders.cursor("billing") is None
        left = orders.cursor("billing")
    assert left is not None
    assert left.seq == 4  # the loop ended within record 5


def test_a_new_cursor_begins_where_start_says(server: Instance) -> None:
    topic = new_name()
    filled(server, topic, 4)
    with Topics(server.url) as topics:
        orders = topics.topic(topic)
        for start, seqs in {"earliest": [1, 2, 3, 4], "head": [], 2: [3, 4]}.items():
            for cursor in (None, f"c-{start}"):
                found = [r.seq for r in orders.follow(cursor=cursor, start=start, wait=False)]  # type: ignore[arg-type]
                assert found == seqs
        assert [r.seq for r in orders.follow(match="none", wait=False)] == []
        pages = list(orders.pages(cursor="pages", limit=3, wait=False))
        assert [len(page.records) for page in pages] == [3, 1]
        assert list(orders.pages(cursor="pages", wait=False)) == []


class Struct(msgspec.Struct):
    id: int


@dataclass
class Plain:
    id: int


class Model(pydantic.BaseModel):
    id: int


@pytest.mark.parametrize("kind", [Struct, Plain, Model])
def test_data_can_have_a_type(server: Instance, kind: Any) -> None:
    topic = new_name()
    with Topics(server.url) as topics:
        orders = topics.topic(topic).of(kind)
        orders.append(kind(id=7))
        assert [record.data for record in orders.follow(wait=False)] == [kind(id=7)]
        Api(server.port).append(topic, {"id": "seven"})
        with pytest.raises(errors.InvalidAnswer):
            orders.read(1)


def test_each_error_code_has_a_class() -> None:
    codes = set(re.findall(r"^\| \d+ \| `(\w+)`", (ROOT / "docs" / "errors.md").read_text(), re.M))
    assert errors.Refused.by_code.keys() == codes


def test_refusals_have_classes_and_details(server: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPICS_URL", server.url)
    with Topics() as topics:
        with pytest.raises(errors.TopicNotFound) as raised:
            topics.topic("absent").read()
        assert (raised.value.status, raised.value.detail) == (404, {"topic": "absent"})
        with pytest.raises(errors.InvalidRequest):
            topics.topic("not a name").append(1)
        orders = topics.topic(new_name())
        orders.append(1, idempotency_key="order-1")
        assert orders.append(1, idempotency_key="order-1").deduped
        with pytest.raises(errors.IdempotencyMismatch):
            orders.append(2, idempotency_key="order-1")
        with pytest.raises(errors.HeadMismatch):
            orders.append(2, expected_head=0)
    with Topics(f"{server.url}/docs/") as topics, pytest.raises(errors.TopicsError):
        topics.topic("orders").read()
    monkeypatch.delenv("TOPICS_URL")
    with pytest.raises(ValueError, match="TOPICS_URL"):
        Topics()
    with pytest.raises(ValueError, match="expected http"):
        Topics("127.0.0.1:4000")


def test_a_name_that_leads_to_another_path_is_refused(server: Instance) -> None:
    """httpx takes `..` out of a path, so the delete of such a cursor would be one of its topic."""
    with Topics(server.url) as topics:
        orders = topics.topic(new_name())
        orders.append(1)
        for call in (
            lambda: orders.delete_cursor(".."),
            lambda: orders.delete_schedule("."),
            topics.topic("").delete,
            lambda: topics.delete_router(".."),
            topics.webhook("..").delete,
        ):
            with pytest.raises(ValueError, match="invalid name"):
                call()
        assert orders.info()["head_seq"] == 1


def test_a_server_that_is_away_is_tried_for_the_time_of_the_caller() -> None:
    from topics_client import calls
    from topics_client.script import run

    with Topics(f"http://127.0.0.1:{free_port()}") as topics, pytest.raises(Unreachable):
        run(calls.diff("orders", Codec(Any), 0, 1, None, 0, patience=0.2), topics.http)


def test_one_of_two_consumers_that_commit_the_same_seq_ends(server: Instance) -> None:
    topic = new_name()
    filled(server, topic, 2)
    with Topics(server.url) as topics:
        orders = topics.topic(topic)
        first, second = (orders.follow(cursor="billing", commit_ms=0) for _ in range(2))
        assert [next(first).seq, next(second).seq, next(first).seq] == [1, 1, 2]
        with pytest.raises(errors.CursorMoved):
            next(second)


def test_a_commit_whose_answer_was_lost_is_no_other_consumer(server: Instance) -> None:
    """The first try of a commit arrives, and its answer is cut off."""
    topic = new_name()
    filled(server, topic, 1)
    steps = calls.set_cursor(topic, "billing", 1, expected_seq=0)
    with Topics(server.url) as topics:
        assert topics.http.send(built(topics.http, next(steps))).status_code == 201
        assert isinstance(steps.throw(Unreachable("the answer was cut off")), Pause)
        again = topics.http.send(built(topics.http, steps.send(None)))
        assert again.status_code == 409
        with pytest.raises(StopIteration) as ended:
            steps.send(answered(again))
    assert ended.value.value == 1


def test_an_append_is_not_sent_again_if_the_machine_sleeps_within_a_pause(
    server: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic could have forgotten its idempotency key. The first try arrives, and its answer is cut off."""
    topic = new_name()
    steps = calls.append(topic, Codec(Any), [New(1)])
    with Topics(server.url) as topics:
        assert topics.http.send(built(topics.http, next(steps))).is_success
        assert isinstance(steps.throw(Unreachable("the answer was cut off")), Pause)
        later = script.clock() + 3600
        monkeypatch.setattr(script, "clock", lambda: later)
        with pytest.raises(Unreachable, match="cut off"):
            steps.send(None)
        assert len(topics.topic(topic).read().records) == 1


def test_a_fork_has_connections_of_its_own(server: Instance) -> None:
    """On one connection, each of both would get answers of the other."""
    topic = new_name()
    code = f"""
import os
import httpx
from topics_client import Topics

orders = Topics(limits=httpx.Limits(keepalive_expiry=None)).topic({topic!r})
orders.append("before")
if os.fork():
    os.wait()
print(orders.append("after").seq, flush=True)
"""
    with proxy(server.port) as counting:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "TOPICS_URL": counting.url}
        with child_process([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert list(map(int, process.stdout)) == [2, 3]
        assert counting.connections == 2


@pytest.mark.parametrize("is_set", [False, True])
def test_a_consumer_goes_on_in_a_topic_that_was_created_again(server: Instance, is_set: bool) -> None:
    """Its cursor went with the former topic, or was set in the new one."""
    topic, api = new_name(), Api(server.port)
    filled(server, topic, 2)
    with Topics(server.url) as topics:
        reader = Following(topic, Codec(Any), "billing", "earliest", None, 100, 0, False)
        run(reader.begin(), topics.http)
        for data in ({"id": 2}, "new"):
            window = run(reader.next(), topics.http)
            assert window is not None
            assert window.records[-1].data == data
            reader.finish(window)
            run(reader.commit(), topics.http)
            assert api.call("DELETE", f"/v0/topics/{topic}").status == 200
            api.call("PUT", f"/v0/topics/{topic}", {})
            if is_set:
                api.call("PUT", f"/v0/topics/{topic}/cursors/billing", {"seq": reader.done})
            api.append(topic, "new")


@pytest.mark.parametrize("is_set", [False, True])
def test_a_consumer_with_a_commit_to_make_goes_on_in_a_topic_that_was_created_again(
    server: Instance, is_set: bool
) -> None:
    """Also if somebody has set the cursor in the new topic."""
    topic, api = new_name(), Api(server.port)
    events: list[Any] = []
    filled(server, topic, 3)
    with Topics(server.url) as topics:
        orders = topics.topic(topic)
        records = orders.follow(cursor="billing", commit_ms=0, on_loss=events.append, wait=False)
        assert [next(records).seq, next(records).seq] == [1, 2]
        assert api.call("DELETE", f"/v0/topics/{topic}").status == 200
        api.call("PUT", f"/v0/topics/{topic}", {})
        api.append(topic, "new")
        if is_set:
            api.call("PUT", f"/v0/topics/{topic}/cursors/billing", {"seq": 3})
        assert [next(records).seq, next(records).seq] == [3, 4]
        assert [each.reason for each in events] == ["recreated"]
        with pytest.raises(StopIteration):
            next(records)
        left = orders.cursor("billing")
    assert left is not None
    assert left.seq == 4


def test_a_consumer_commits_no_seq_of_a_former_topic(server: Instance) -> None:
    """It ends before the first record of the new topic, which can begin at seq 1 again on Kafka."""
    topic, api = new_name(), Api(server.port)
    filled(server, topic, 2)
    with Topics(server.url) as topics:
        orders = topics.topic(topic)
        records = orders.follow(cursor="billing", commit_ms=0)
        assert [next(records).seq, next(records).seq] == [1, 2]
        assert api.call("DELETE", f"/v0/topics/{topic}").status == 200
        api.append(topic, "new")
        with pytest.raises(RecordsLost):
            next(records)
        assert orders.cursor("billing") is None
