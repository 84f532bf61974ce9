"""A worker of the Python client does each job, and gives back what it does not do."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any

import pytest
from topics_client import AsyncTopics, Job, Retry, Topics, errors

from tests.clients.proxy import proxy
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, until
from tests.processes import child_process
from tests.watch.wire import Api, new_name

pytestmark = pytest.mark.deep(43)


# Bytes after which a connection ends: more than a claim of jobs that last 10 ms each. Fewer would let no claim through.
CUT = (15_000, 24_000)


def figures(server: Instance, queue: str) -> tuple[int, int, int]:
    """The jobs of a queue that are ready, in flight and delayed."""
    shown: dict[str, int] = Api(server.port).call("GET", f"/v0/topics/{queue}").body["queue"]
    return shown["ready"], shown["in_flight"], shown["delayed"]


def test_each_job_is_done_although_connections_are_cut(server: Instance, queue: str) -> None:
    """The jobs of a claim whose answer was cut come back when their leases end."""
    count = 400
    Api(server.port).append(queue, *range(count))
    done: list[int] = []
    with proxy(server.port, CUT) as cutting, Topics(cutting.url) as topics:
        worker = topics.worker(queue, concurrency=8, lease_ms=500)

        @worker
        def work(job: Job[int]) -> None:
            done.append(job.data)
            time.sleep(0.01)

        thread = threading.Thread(target=worker.run)
        thread.start()
        until(lambda: figures(server, queue) == (0, 0, 0), "the acks of all jobs")
        worker.stop()
        thread.join()
        assert cutting.cuts >= 1
        assert len(cutting.requests) < count
    assert set(done) == set(range(count))


def test_an_async_worker_does_each_job_although_connections_are_cut(server: Instance, queue: str) -> None:
    count = 400
    Api(server.port).append(queue, *range(count))
    done: list[int] = []

    async def main(url: str) -> None:
        async with AsyncTopics(url) as topics:
            worker = topics.worker(queue, concurrency=8, lease_ms=500)

            @worker
            async def work(job: Job[int]) -> None:
                done.append(job.data)
                await asyncio.sleep(0.01)
                if len(set(done)) == count:
                    worker.stop()

            await worker.run()

    with proxy(server.port, CUT) as cutting:
        asyncio.run(main(cutting.url))
        assert cutting.cuts >= 1
        assert len(cutting.requests) < count
    assert set(done) == set(range(count))


def test_a_worker_extends_its_leases_and_waits_without_further_requests(server: Instance, queue: str) -> None:
    others: list[int] = []
    Api(server.port).append(queue, "long")
    with proxy(server.port) as counting, Topics(counting.url) as topics:
        worker = topics.worker(queue, lease_ms=300)

        @worker
        def work(job: Job[str]) -> None:
            claim = {"node": "x", "wait_ms": 1200}
            others.append(Api(server.port).call("POST", f"/v0/topics/{queue}/claim", claim).body["count"])
            worker.stop()

        worker.run()
        extended = [each for each in counting.requests if "/extend" in each]
        assert len(extended) >= 3
        assert len(counting.requests) - len(extended) <= 3  # a claim, an ack, and one claim ahead
    assert others == [0]
    assert figures(server, queue) == (0, 0, 0)


def test_a_job_that_fails_comes_back_and_is_a_dead_letter_in_the_end(server: Instance) -> None:
    queue, api = new_name(), Api(server.port)
    config = {"type": "queue", "max_deliveries": 2, "dead_letter": f"{queue}:dead"}
    assert api.call("PUT", f"/v0/topics/{queue}", config).status == 201
    api.append(queue, "bad", "later")
    seen: list[tuple[str, int]] = []
    with Topics(server.url) as topics:
        worker = topics.worker(queue, concurrency=2, retry_ms=0)

        @worker
        def work(job: Job[str]) -> None:
            seen.append((job.data, job.deliveries))
            if job.data == "bad":
                raise ValueError("é" * 2000)
            if job.deliveries == 1:
                raise Retry("not yet", delay_ms=100)

        thread = threading.Thread(target=worker.run)
        thread.start()
        letters = topics.topic(f"{queue}:dead")
        until(lambda: len(seen) == 4, "both jobs twice")
        (letter,) = until(lambda: try_read(letters), "the dead letter")
        worker.stop()
        thread.join()
    assert sorted(seen) == [("bad", 1), ("bad", 2), ("later", 1), ("later", 2)]
    assert (letter.data, letter.meta["$dead_letter_error"]) == ("bad", f"ValueError: {'é' * 1018}")


def try_read(topic: Any) -> Any:
    try:
        return topic.read().records
    except errors.TopicNotFound:
        return None


def test_a_loop_settles_each_job_when_it_asks_for_the_next(server: Instance, queue: str) -> None:
    Api(server.port).append(queue, "good", "bad", "last")
    with Topics(server.url) as topics:
        worker = topics.worker(queue)
        with closing(iter(worker)) as jobs:
            for job in jobs:
                if job.data == "bad":
                    worker.fail(job, "no good", delay_ms=60_000)
                if job.data == "last":
                    break
    assert figures(server, queue) == (1, 0, 1)

    async def main() -> list[str]:
        async with AsyncTopics(server.url) as topics:
            worker = topics.worker(queue)
            async with aclosing(aiter(worker)) as jobs:
                async for job in jobs:
                    worker.stop()
                    return [job.data]
        return []

    assert asyncio.run(main()) == ["last"]
    assert figures(server, queue) == (1, 0, 1)


def test_a_loop_names_the_delay_of_any_error(server: Instance, queue: str) -> None:
    Api(server.port).append(queue, 1)
    with Topics(server.url) as topics:
        worker = topics.worker(queue, retry_ms=60_000)
        for job in worker:
            worker.fail(job, ValueError("no image"), delay_ms=0)
            worker.stop()
    assert figures(server, queue) == (1, 0, 0)


def test_data_of_another_type_stops_no_other_job(server: Instance, queue: str) -> None:
    @dataclass
    class Image:
        width: int

    Api(server.port).append(queue, {"width": "wide"}, {"width": 7})
    with Topics(server.url) as topics:
        worker = topics.topic(queue).of(Image).worker(retry_ms=60_000)
        widths = []
        for job in worker:
            widths.append(job.data.width)
            worker.stop()
    assert widths == [7]
    assert figures(server, queue) == (0, 0, 1)


def test_sigterm_ends_running_jobs_and_gives_back_the_others(server: Instance, queue: str) -> None:
    Api(server.port).append(queue, *range(8))
    code = f"""
import os, time
from topics_client import Topics
worker = Topics().worker({queue!r}, concurrency=2)
@worker
def work(job):
    os.write(1, b"%d\\n" % job.data)  # print writes the end of the line apart, and two threads write here
    time.sleep(1)
worker.run()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "TOPICS_URL": server.url}
    with child_process([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert {process.stdout.readline(), process.stdout.readline()} == {b"0\n", b"1\n"}
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b""
    assert process.returncode == 0
    assert figures(server, queue) == (6, 0, 0)


TASKS = """
import asyncio, sys
from topics_client import AsyncTopics

async def main():
    async with AsyncTopics() as topics:
        workers = [topics.worker(sys.argv[1]) for _ in range(3)]
        for worker in workers:
            worker(work)
        running = [asyncio.create_task(worker.run()) for worker in workers]
        running.insert(1, asyncio.create_task(follow(topics.topic(sys.argv[2]).group("team"))))
        await asyncio.sleep(0)  # each has begun
        workers[-1].stop()
        await running[-1]
        print("waits", flush=True)
        await asyncio.gather(*running)
        print("ends")

async def work(job):
    pass

async def follow(member):
    async for record in member:
        pass

asyncio.run(main())
"""
LOOPS = """
import sys
from topics_client import Topics
topics = Topics()
first, second = (iter(topics.worker(sys.argv[1])) for _ in range(2))
member = iter(topics.topic(sys.argv[2]).group("team"))
for each in (first, second, member):
    next(each)
first.close()
print("waits", flush=True)
for job in second:
    pass
for record in member:
    pass
print("ends")
"""


@pytest.mark.parametrize("code", [TASKS, LOOPS])
def test_sigterm_ends_all_workers_and_members_of_a_process(server: Instance, queue: str, code: str) -> None:
    log = new_name()
    for topic in (queue, log):
        Api(server.port).append(topic, 1, 2)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "TOPICS_URL": server.url}
    command = [sys.executable, "-c", code, queue, log]
    with child_process(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waits\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b"ends\n"
    assert process.returncode == 0


HANDLERS = """
import asyncio, signal, sys
from topics_client import AsyncTopics

asked = []

def ask(number, frame):
    asked.append(number)

async def main():
    loop = asyncio.get_running_loop()
    for way in (lambda: signal.signal(signal.SIGTERM, ask), lambda: loop.add_signal_handler(signal.SIGTERM, ask, 15, None)):
        way()
        async with AsyncTopics() as topics:
            worker = topics.worker(sys.argv[1])
            worker(print)
            running = asyncio.create_task(worker.run())
            await asyncio.sleep(0)
            signal.raise_signal(signal.SIGTERM)
            await running
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0.01)
    print(asked)

asyncio.run(main())
"""


def test_a_handler_of_the_application_gets_sigterm_too(server: Instance, queue: str) -> None:
    """It ends a web server that runs a worker, for example. Afterwards it is there again."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "TOPICS_URL": server.url}
    with child_process([sys.executable, "-c", HANDLERS, queue], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"[15, 15, 15, 15]\n"
    assert process.returncode == 0


EXITS = """
import signal, sys, time
from topics_client import Topics

signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
worker = Topics().worker(sys.argv[1])

@worker
def work(job):
    print("begins", flush=True)
    while not worker.jobs.is_ending:
        time.sleep(0.01)
    time.sleep(0.5)
    print("ends", flush=True)

worker.run()
"""
ASYNC_EXITS = """
import asyncio, signal, sys
from topics_client import AsyncTopics

async def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    async with AsyncTopics() as topics:
        worker = topics.worker(sys.argv[1])

        @worker
        async def work(job):
            print("begins", flush=True)
            while not worker.jobs.is_ending:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
            print("ends", flush=True)

        await worker.run()

asyncio.run(main())
"""


@pytest.mark.parametrize("code", [EXITS, ASYNC_EXITS])
def test_a_handler_of_the_application_that_exits_cuts_off_no_job(server: Instance, queue: str, code: str) -> None:
    """The job is done and acked, and then the process has the exit code of the handler."""
    Api(server.port).append(queue, 1)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "TOPICS_URL": server.url}
    with child_process([sys.executable, "-c", code, queue], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begins\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b"ends\n"
    assert process.returncode == 7
    assert figures(server, queue) == (0, 0, 0)


STUCK = """
import os, signal, sys, time
from topics_client import Topics

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell without job control ignores SIGINT for its programs
worker = Topics().worker(sys.argv[1], concurrency=2)

@worker
def work(job):
    os.write(1, b"begins\\n")
    while not worker.jobs.is_ending:
        time.sleep(0.01)
    os.write(1, b"is stuck\\n")
    time.sleep(3_600)

worker.run()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_process_with_stuck_jobs(server: Instance, queue: str, number: signal.Signals) -> None:
    Api(server.port).append(queue, 1, 2)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "TOPICS_URL": server.url}
    command = [sys.executable, "-c", STUCK, queue]
    with child_process(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for said in (b"begins\n", b"is stuck\n"):
            assert [process.stdout.readline() for _ in range(2)] == [said] * 2
            process.send_signal(number)
    assert process.returncode == -number


def test_a_worker_waits_while_claims_are_refused(
    server: Instance, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends at once although it shall wait for ten minutes."""
    done: list[int] = []

    def told() -> int:
        return caplog.text.count(f"The worker of {queue} tries again: the server answered ")

    with proxy(server.port) as refusing, Topics(refusing.url) as topics, ThreadPoolExecutor() as threads:
        worker = topics.worker(queue)
        worker(lambda job: done.append(job.data))
        refusing.refusals = [(503, 0), (429, 0)]
        running = threads.submit(worker.run)
        try:
            Api(server.port).append(queue, 0)
            until(lambda: running.done() or done == [0], "the job")
            assert not refusing.refusals
            before = told()
            refusing.refusals = [(503, 600)]
            Api(server.port).append(queue, 1)
            until(lambda: running.done() or told() > before, "the refusal")
        finally:
            worker.stop()
        assert running.result(DEADLINE) is None


def test_an_async_worker_waits_while_claims_are_refused(
    server: Instance, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(url: str) -> None:
        async with AsyncTopics(url) as topics:
            worker = topics.worker(queue)

            @worker
            async def work(job: Job[int]) -> None:
                pass

            running = asyncio.create_task(worker.run())
            while not running.done() and "tries again: the server answered 429" not in caplog.text:
                await asyncio.sleep(0.01)
            worker.stop()
            await asyncio.wait_for(running, DEADLINE)

    with proxy(server.port) as refusing:
        refusing.refusals = [(429, 600)]
        asyncio.run(main(refusing.url))


def test_a_worker_says_what_stops_it(server: Instance) -> None:
    with Topics(server.url) as topics:
        worker = topics.worker(new_name())
        with pytest.raises(RuntimeError, match="function"):
            worker.run()
        worker(lambda job: None)
        with pytest.raises(errors.TopicNotFound):
            worker.run()
        with pytest.raises(ValueError, match="concurrency"):
            topics.worker("thumbnails", concurrency=0)
