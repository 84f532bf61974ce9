"""A batch appends each of its records once, in order, and tells what happened to each."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest
from topics_client import AsyncTopics, QueueFull, Topics, errors
from topics_client.batch import Batch

from tests.clients.proxy import proxy
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, free_port, until
from tests.processes import child_process
from tests.watch.wire import Api, new_name


def test_each_record_is_appended_once_although_connections_are_cut(server: Instance) -> None:
    topic, count = new_name(), 2000
    with proxy(server.port, (1000, 8000)) as cutting, Topics(cutting.url) as topics:
        with topics.topic(topic).batch(max_records=20) as batch:
            outcomes = [batch.append({"id": n}, tag=f"t:{n % 7}") for n in range(1, count + 1)]
        assert cutting.cuts > 20
        assert len(cutting.requests) <= count / 20 + 2 * cutting.cuts + 1
    assert [outcome.result() for outcome in outcomes] == list(range(1, count + 1))
    with Topics(server.url) as topics:
        found = [(r.seq, r.data["id"], r.tag) for r in topics.topic(topic).follow(wait=False)]
    assert found == [(n, n, f"t:{n % 7}") for n in range(1, count + 1)]


def test_an_async_batch_appends_each_record_once(server: Instance) -> None:
    topic, count = new_name(), 2000

    async def append(url: str) -> list[int]:
        async with AsyncTopics(url) as topics:
            async with topics.topic(topic).batch(max_records=20, queue=100) as batch:
                outcomes = [await batch.append({"id": n}) for n in range(1, count + 1)]
            return [outcome.result() for outcome in outcomes]

    with proxy(server.port, (1000, 8000)) as cutting:
        assert asyncio.run(append(cutting.url)) == list(range(1, count + 1))
        assert cutting.cuts > 20


def test_a_record_that_is_refused_stops_no_other(server: Instance) -> None:
    topic = new_name()

    def check(outcomes: list[int | BaseException]) -> None:
        assert [type(outcome) for outcome in outcomes] == [int, errors.RecordTooLarge, int, errors.InvalidRequest, int]

    bodies = ["a", "x" * (1 << 20), "b", "c", "d"]
    metas: list[dict[str, object] | None] = [None, None, None, {"$dead_letter_from": "q"}, None]
    with Topics(server.url) as topics:
        batch = topics.topic(topic).batch(max_bytes=1 << 22)
        with pytest.raises(errors.RecordTooLarge), batch:
            futures = [batch.append(body, meta=meta) for body, meta in zip(bodies, metas, strict=True)]
        check([future.exception() or future.result() for future in futures])
        assert [record.data for record in topics.topic(topic).read().records] == ["a", "b", "d"]


def test_a_record_is_as_it_was_at_its_append(server: Instance) -> None:
    """A value without JSON is the fault of its own append alone."""
    topic, meta = new_name(), {"n": 0}

    async def append() -> list[int]:
        async with AsyncTopics(server.url) as topics:
            async with topics.topic(topic).batch(max_ms=3_600_000) as batch:
                outcomes = []
                for meta["n"] in range(3, 6):
                    outcomes.append(await batch.append(None, meta=meta))
                    with pytest.raises(UnicodeEncodeError):
                        await batch.append(None, meta={"text": "\ud800"})
            return [outcome.result() for outcome in outcomes]

    with Topics(server.url) as topics:
        with topics.topic(topic).batch(max_ms=3_600_000) as batch:
            outcomes = []
            for meta["n"] in range(3):
                outcomes.append(batch.append(None, meta=meta))
                with pytest.raises(UnicodeEncodeError):
                    batch.append(None, tag="\ud800")
        assert [outcome.result() for outcome in outcomes] == [1, 2, 3]
        assert asyncio.run(append()) == [4, 5, 6]
        assert [record.meta for record in topics.topic(topic).read().records] == [{"n": n} for n in range(6)]


def test_max_bytes_counts_the_whole_record(server: Instance) -> None:
    with Topics(server.url) as topics, topics.topic(new_name()).batch(max_ms=3_600_000, max_bytes=2000) as batch:
        outcome = batch.append(1, meta={str(n): "x" * 250 for n in range(8)})
        assert outcome.result(DEADLINE) == 1


def test_a_lonely_record_is_sent_after_its_time(server: Instance) -> None:
    with Topics(server.url) as topics, topics.topic(new_name()).batch(max_ms=20) as batch:
        assert batch.append(1).result(DEADLINE) == 1
        with pytest.raises(ValueError, match="max_records"):
            topics.topic("orders").batch(max_records=10_001)


def test_a_full_queue_refuses_or_blocks(server: Instance) -> None:
    """The server is frozen at first: its port takes connections and answers none."""
    topic = new_name()
    with Topics(f"http://127.0.0.1:{free_port()}") as away:
        batch = away.topic(topic).batch(queue=2, full="refuse")
        outcome = batch.append(1)
        batch.append(2)
        with pytest.raises(QueueFull):
            batch.append(3)
        with pytest.raises(TimeoutError, match="no answer within 0 s"):
            outcome.result(0)
    with Topics(server.url) as topics:
        blocking = topics.topic(topic).batch(queue=2, max_records=1)
        for n in (1, 2):
            blocking.append(n)
        third = threading.Thread(target=blocking.append, args=(3,))
        third.start()
        assert Api(server.port).call("GET", f"/v0/topics/{topic}").status == 404
        assert third.is_alive()
        with blocking:
            until(lambda: not third.is_alive(), "room in the queue")
        assert [record.data for record in topics.topic(topic).read().records] == [1, 2, 3]
        with pytest.raises(RuntimeError, match="ended"):
            blocking.append(4)


def test_a_thread_that_waits_for_room_at_the_end_of_the_batch_is_refused(server: Instance) -> None:
    """Nobody would send its record, and its future would never be settled."""
    refused: list[RuntimeError] = []

    def append(batch: Batch[int]) -> None:
        try:
            batch.append(2)
        except RuntimeError as error:
            refused.append(error)

    with Topics(server.url) as topics:
        batch = topics.topic(new_name()).batch(queue=1, max_ms=3_600_000)
        waiting = threading.Thread(target=append, args=(batch,), daemon=True)
        with batch:
            first = batch.append(1)
            waiting.start()
            until(lambda: len(vars(batch.changed)["_waiters"]) == 2, "both threads to wait")
        waiting.join(DEADLINE)
    assert (first.result(0), len(refused), batch.waiting.unsettled) == (1, 1, 0)


def test_a_task_that_waits_for_room_at_the_end_of_the_batch_is_refused(server: Instance) -> None:
    async def append(url: str) -> tuple[int, int]:
        async with AsyncTopics(url) as topics:
            async with topics.topic(new_name()).batch(queue=1, max_ms=3_600_000) as batch:
                first = await batch.append(1)
                waiting = asyncio.create_task(batch.append(2))
                await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="has ended"):
                await waiting
            return first.result(), batch.waiting.unsettled

    assert asyncio.run(append(server.url)) == (1, 0)


def test_a_fork_is_told_that_the_batch_is_not_its_own(server: Instance) -> None:
    """It has no thread that sends. The process that appended a record sends it once, and alone learns its outcome."""
    topic = new_name()
    code = f"""
import os, sys
from topics_client import Topics

with Topics() as topics, topics.topic({topic!r}).batch(max_ms=3_600_000) as batch:
    outcome = batch.append("waits")
    if os.fork() == 0:
        for call in (lambda: batch.append("child"), lambda: outcome.result({DEADLINE}), lambda: outcome.exception({DEADLINE})):
            try:
                call()
            except RuntimeError as error:
                print(error)
        sys.exit()
    os.wait()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "TOPICS_URL": server.url}
    command = [sys.executable, "-W", "ignore", "-c", code]  # Python 3.12 and later warn of a fork beside threads
    with child_process(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = process.stdout.read()
    begin = "the batch belongs to the process that was forked: "
    hints = ["open one in this process", "get the outcome there", "get the outcome there"]
    assert told.decode().splitlines() == [begin + hint for hint in hints]
    assert process.returncode == 0
    with Topics(server.url) as topics:
        assert [record.data for record in topics.topic(topic).read().records] == ["waits"]


def test_records_of_a_task_that_ends_with_its_event_loop_are_sent(server: Instance) -> None:
    """asyncio.run cancels all tasks at its end, also the one of the batch. What it has sent already is uncertain."""
    topic, futures = new_name(), list[asyncio.Future[int]]()

    async def append() -> None:
        async with AsyncTopics(server.url) as topics, topics.topic(topic).batch(max_ms=3_600_000, queue=1) as batch:
            futures.append(await batch.append("sent"))
            with pytest.raises(RuntimeError, match="has ended"):
                await batch.append("no room")

    async def main() -> None:
        task = asyncio.create_task(append())
        while not futures:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(main())
    assert futures[0].result() == 1


def test_a_record_is_given_up_if_its_send_is_cancelled() -> None:
    async def append(url: str) -> bool:
        async with AsyncTopics(url) as topics, topics.topic(new_name()).batch(max_ms=0) as batch:
            settled = await batch.append(1)
            while batch.waiting.records:
                await asyncio.sleep(0)
            batch.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await settled
            return settled.cancelled()

    assert asyncio.run(append(f"http://127.0.0.1:{free_port()}"))
