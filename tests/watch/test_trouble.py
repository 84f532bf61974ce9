"""Streams while servers die, stop and come back, and beside readers that do not read."""

import contextlib
import http.client
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api import raw
from tests.deadlines import DEADLINE
from tests.instances import Instance, start, until
from tests.watch.wire import Api, Event, Refused, Stream, names, new_name, seqs
from wire.process.shutdown import PATIENCE_SECONDS

pytestmark = pytest.mark.deep(66)


@pytest.fixture(scope="module")
def troubled() -> Iterator[Instance]:
    with start(WEB_WORKERS="2") as instance:
        yield instance


@pytest.fixture
def api(troubled: Instance) -> Api:
    until(troubled.is_ready, "the instance to be whole again")
    return Api(troubled.port)


def durable(api: Api, name: str) -> None:
    """A crash of PostgreSQL may take back the end of a topic that is less."""
    api.done("PUT", f"/v0/topics/{name}", {"durability": "fsync"})


def append_again(api: Api, name: str, value: object, key: str) -> int:
    """Until it is acked, and once only."""

    def acked() -> int | None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            answer = api.call("POST", f"/v0/topics/{name}", {"records": [{"data": value}], "idempotency_key": key})
            return answer.body["last_seq"] if answer.status < 300 else None
        return None

    return until(acked, "an append")


def opened(api: Api, url: str, last_id: str | None) -> Stream:
    def stream() -> Stream | None:
        try:
            return api.stream(url, last_id)
        except (OSError, http.client.HTTPException):
            return None
        except Refused as refused:
            if refused.status != 503:
                raise
            return None

    return until(stream, "a stream")


def web_workers(instance: Instance) -> list[int]:
    """The web processes that serve: the children of the one that started them."""
    ours = instance.pids("topics_project.web")
    parents = {pid: int((Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[1]) for pid in ours}
    return [pid for pid in ours if parents[pid] in ours]


@pytest.mark.guarantee("R3")
def test_killed_web_processes(troubled: Instance, api: Api, name: str) -> None:
    durable(api, name)
    api.append(name, 1)
    url, last_id, got = api.watch({name: {}}), None, list[Event]()
    for round in range(3):
        with opened(api, url, last_id) as stream:
            got += stream.until_seq(name, append_again(api, name, round, f"{round}"))
            for pid in web_workers(troubled):
                os.kill(pid, signal.SIGKILL)
            got += stream.rest()
            last_id = stream.last_id
    head = append_again(api, name, "last", "last")
    with opened(api, url, last_id) as stream:
        got += stream.until_seq(name, head)
    assert seqs(got) == list(range(1, head + 1))


def test_redis_away(troubled: Instance, api: Api, name: str) -> None:
    api.append(name, 1)
    url = api.watch({name: {}})
    (redis,) = troubled.pids("redis-server")
    streams = [api.stream(url) for _ in range(6)]  # of both processes
    try:
        for stream in streams:
            stream.until_event("caught-up")
        os.kill(redis, signal.SIGSTOP)
        for seq in range(2, 6):
            api.append(name, seq)
            for stream in streams:
                assert seqs(stream.until_seq(name, seq)) == [seq]
    finally:
        os.kill(redis, signal.SIGCONT)
    api.append(name, 6)
    for stream in streams:
        assert seqs(stream.until_seq(name, 6)) == [6]
    os.kill(redis, signal.SIGKILL)  # its guard starts another
    api.append(name, 7)
    for stream in streams:
        assert seqs(stream.until_seq(name, 7)) == [7]
        stream.close()


def end_postgresql(instance: Instance, number: signal.Signals) -> None:
    """Its guard starts another."""
    pid = int((instance.data / "postgresql" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, number)
    until(lambda: not Path(f"/proc/{pid}").exists(), "PostgreSQL to be gone")


def test_postgresql_restarts(troubled: Instance, api: Api, name: str) -> None:
    durable(api, name)
    api.append(name, 1)
    urls = [api.watch({name: {}}, heartbeat_ms=1000) for _ in range(6)]
    streams = [api.stream(url) for url in urls]
    for stream in streams:
        stream.until_event("caught-up")
    head = 1
    for number, kill in enumerate((signal.SIGINT, signal.SIGQUIT)):  # fast, and as a crash
        end_postgresql(troubled, kill)
        head = append_again(api, name, number, f"after {number}")
        for stream in streams:
            assert seqs(stream.until_seq(name, head)) == [head]
    for stream in streams:
        stream.close()
    with opened(api, urls[0], None) as stream:
        assert set(names(stream.until_event("caught-up"))) <= {"record", "caught-up"}


def test_streams_begin_once_postgresql_is_back(instances) -> None:
    """Also where nobody asks for anything else."""
    instance: Instance = instances(WEB_WORKERS="1")
    api, name = Api(instance.port), new_name()
    api.append(name, 1)
    one, two = (api.watch({name: {}}, heartbeat_ms=1000) for _ in range(2))
    with api.stream(one) as stream:
        while len(stream.comments) < 3:  # so long that its key was looked at again
            stream.take(stream.read())
        end_postgresql(instance, signal.SIGINT)
        until(instance.is_ready, "PostgreSQL to be back")
        with api.stream(two) as another:
            another.until_event("caught-up")


def resident_kb(instance: Instance) -> int:
    total = 0
    for pid in web_workers(instance):
        lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return total


@pytest.mark.guarantee("R5")
def test_readers_that_do_not_read(troubled: Instance, api: Api, name: str) -> None:
    """They cost no memory and keep nobody waiting; in the end they have it all."""
    payload = "x" * 10_000
    api.append(name, 0)
    lazy = [api.stream(api.watch({name: {}})) for _ in range(20)]
    with api.stream(api.watch({name: {}})) as eager:
        head = api.append(name, *[payload] * 1000)
        eager.until_seq(name, head)
        before = resident_kb(troubled)
        for _ in range(3):  # 30 MB, and 600 MB for all
            head = api.append(name, *[payload] * 1000)
            eager.until_seq(name, head)
        grown = resident_kb(troubled) - before
    assert grown < 150_000, f"{grown} kB"
    assert seqs(lazy[0].until_seq(name, head)) == list(range(1, head + 1))
    for stream in lazy:
        stream.close()


def deaf(port: int, url: str) -> socket.socket:
    """A client that asks for a stream and never reads, with little room of its own."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    client.connect(("127.0.0.1", port))
    client.sendall(f"GET {url} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
    return client


def waiting_to_be_sent(port: int) -> list[int]:
    """Bytes that the kernel keeps for each connection to this port."""
    queues = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, queue, *_ = line.split()
        if local.endswith(f":{port:04X}") and state == "01":
            queues.append(int(queue.partition(":")[0], 16))
    return queues


def append_much(api: Api, name: str, megabytes: int) -> int:
    """Returns the head. The kernel and the server hold less than a megabyte for a stream, so 3 of them stall any stream."""
    return [api.append(name, *["x" * 1000] * 1000) for _ in range(megabytes)][-1]


@pytest.mark.guarantee("S2")
def test_deaf_readers_cost_little_and_give_it_back(instances) -> None:
    """What is on its way to each is bounded, in the process and in the kernel, and nobody waits for them."""
    instance: Instance = instances(WEB_WORKERS="1", TOPICS_MAX_STALLED_BYTES="0")
    api, name = Api(instance.port), new_name()
    api.append(name, 0)
    with api.stream(api.watch({name: {}})) as eager:
        eager.until_seq(name, append_much(api, name, 3))
        before = resident_kb(instance)
        clients = [deaf(instance.port, api.watch({name: {}}, max_batch_bytes=10**9)) for _ in range(60)]
        eager.until_seq(name, append_much(api, name, 3))
        until(lambda: min(sorted(waiting_to_be_sent(instance.port))[-60:]) > 100_000, "all of them to be stalled")
        eager.until_seq(name, append_much(api, name, 3))
        assert max(waiting_to_be_sent(instance.port)) < 500_000
        grown = resident_kb(instance) - before
        assert grown < 60 * 700 + 10_000, f"{grown} kB"
        for client in clients:
            client.close()

        def given_back() -> bool:
            for _ in range(50):  # memory goes back while there is something to do
                api.call("GET", f"/v0/topics/{name}")
            return resident_kb(instance) - before < 20_000

        until(given_back, "the memory to be given back")


def test_the_longest_stalled_are_cut_when_they_hold_too_much(instances) -> None:
    """They lose nothing by it, and who reads slowly is left alone."""
    instance: Instance = instances(WEB_WORKERS="1", TOPICS_MAX_STALLED_BYTES=str(5 * 1024 * 1024))
    api, name = Api(instance.port), new_name()
    head = append_much(api, name, 5)
    large = {"max_batch_bytes": 262_144}  # a stalled stream holds one event
    urls = [api.watch({name: {}}, **large) for _ in range(30)]
    with contextlib.ExitStack() as stack:
        # It waits for longer than the others, as the first of all. With little room, its kernel takes some bytes after each read.
        slow, got = stack.enter_context(api.stream(api.watch({name: {}}, **large), room=16_384)), list[Event]()
        clients = [stack.enter_context(contextlib.closing(deaf(instance.port, url))) for url in urls]
        gone: set[int] = set()

        def cut() -> bool:
            got.extend(slow.take(slow.read(8_000)))
            for place, client in enumerate(clients):
                if client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):  # reset; looked at without reading from it
                    gone.add(place)
            return len(gone) >= 15

        until(cut, "the longest stalled to be cut")
        assert len(gone) <= 25
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_048_576)
        got += slow.until_seq(name, head)
        assert seqs(got) == list(range(1, head + 1))
        for place in list(gone)[:3]:  # has seen nothing, and does not say where it was
            with opened(api, urls[place], None) as stream:
                assert seqs(stream.until_seq(name, head)) == list(range(1, head + 1))
        first = next(event for event in got if event.name == "record")
        with opened(api, urls[next(iter(gone))], first.id) as stream:
            assert seqs(stream.until_seq(name, head)) == list(range(first.seqs[-1] + 1, head + 1))


def test_places_are_kept_while_postgresql_is_away(instances) -> None:
    """A stream that ends meanwhile goes on where it was, and the log is not filled with it."""
    instance: Instance = instances(WEB_WORKERS="1")
    api, name = Api(instance.port), new_name()
    durable(api, name)
    api.append(name, *range(10))
    url, idle = (api.watch({name: {}}, heartbeat_ms=1000) for _ in range(2))
    with api.stream(idle) as waiting:
        with api.stream(url) as stream:
            stream.until_seq(name, 10)
            pid = int((instance.data / "postgresql" / "postmaster.pid").read_text().split()[0])
            os.kill(pid, signal.SIGSTOP)
            backends = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
            for each in backends:  # whoever waits for them is told that they are gone, and asks for others in vain
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            seen = len(stream.comments)
            while len(stream.comments) == seen:  # nothing was sent for a second: it counts as arrived (SETTLE_SECONDS)
                stream.take(stream.read())
        try:
            seen = len(waiting.comments)
            while len(waiting.comments) < seen + 4:
                waiting.take(waiting.read())
        finally:
            os.kill(pid, signal.SIGCONT)
        until(instance.is_ready, "PostgreSQL to be back")
        head = append_again(api, name, "after", "after")
        with opened(api, url, None) as stream:
            assert seqs(stream.until_seq(name, head)) == [head]
    log = (instance.data / "logs" / "web.log").read_text()
    assert log.count("Traceback") == 0, log
    assert log.count("Streams wait") <= 2, log


def test_a_lagging_reader_behind_a_small_window(api: Api, name: str) -> None:
    """One that reads byte by byte through a tiny buffer gets the same frames."""
    head = api.append(name, *["y" * 100] * 500)
    url = api.watch({name: {}}, limit=10)
    with socket.create_connection(("127.0.0.1", api.port)) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.sendall(f"GET {url} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
        data = b""
        while b"event: caught-up" not in data:
            data += slow.recv(300)
    assert data.count(b'"$seq":') == head


def holds_one(port: int, path: str) -> bool:
    """Whether a web process has all the requests in flight that it lets a key have, by GETs that never meet each other.

    Each asks twice, since the end of an answer may reach us before the process has counted it.
    """
    with contextlib.ExitStack() as stack:
        # Open together, so that each process is likely to have one of them.
        looks = [stack.enter_context(raw.connection(port)) for _ in range(3)]
        return any(is_refused(each, path) and is_refused(each, path) for each in looks)


def is_refused(opened: socket.socket, path: str) -> bool:
    opened.sendall(raw.request("GET", path))
    return raw.answer(opened).status == 429


def test_shutdown_is_told(instances) -> None:
    instance: Instance = instances(WEB_WORKERS="2", TOPICS_MAX_IN_FLIGHT_PER_KEY="1")
    api, one, two = Api(instance.port), new_name(), new_name()
    for topic in (one, two):
        api.append(topic, 1)
    urls = [api.watch({one: {}, two: {}}) for _ in range(20)]
    streams = [api.stream(url) for url in urls]
    plain = [api.stream(f"/v0/topics/{one}/events") for _ in range(4)]
    for stream in streams:
        stream.until(lambda event: event.place == {one: 1, two: 1} and event.name == "caught-up")
    poll: list[object] = []
    asked = {"from_seq": 1, "wait_ms": 30_000}

    def wait() -> None:
        """Again where a look below was in the way."""
        while (status := api.call("POST", f"/v0/topics/{one}/diff", asked).status) == 429:
            pass
        poll.append(status)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: holds_one(instance.port, f"/v0/topics/{one}"), "the poll to be under way", tick=0)
    assert instance.process is not None
    instance.process.send_signal(signal.SIGTERM)
    ids = []
    for stream in streams:
        error = stream.rest()[-1]
        assert (error.name, error.data["code"]) == ("error", "shutting_down")
        assert stream.broken
        ids.append(error.id)
        stream.close()
    for stream in plain:
        error = stream.rest()[-1]
        assert (error.name, error.data["code"], error.id) == ("error", "shutting_down", None)
        assert stream.broken
        stream.close()
    waiting.join(DEADLINE)
    assert poll == [200]
    assert instance.process.wait(DEADLINE) == 0
    until(lambda: not instance.pids(), "every process to end")
    instance.start()
    api.append(one, 2)
    for url, last_id in zip(urls, ids, strict=True):
        with api.stream(url, last_id) as stream:
            events = stream.until_seq(one, 2)
            assert seqs(events) == [2]


def test_no_new_work_while_it_ends(instances) -> None:
    """A worker that waits for a reader that does not read turns everybody else away meanwhile."""
    instance: Instance = instances(WEB_WORKERS="1")
    api, name = Api(instance.port), new_name()
    head = api.append(name, *["x" * 10_000] * 5000)
    kept = http.client.HTTPConnection("127.0.0.1", api.port, timeout=DEADLINE)
    with api.stream(api.watch({name: {}})) as lazy, contextlib.closing(kept):
        lazy.read(100)
        kept.request("GET", f"/v0/topics/{name}")
        assert kept.getresponse().read()
        (worker,) = web_workers(instance)
        # It gets the signal, and then no core for longer than it waits: who asks after that is answered all the same.
        os.kill(worker, signal.SIGTERM)
        until(lambda: api.call("GET", f"/v0/topics/{name}").status == 503, "the end to begin")
        os.kill(worker, signal.SIGSTOP)
        time.sleep(PATIENCE_SECONDS + 1)
        kept.request("GET", f"/v0/topics/{name}")
        os.kill(worker, signal.SIGCONT)
        response = kept.getresponse()
        assert (response.status, response.headers["retry-after"]) == (503, "1")
        assert b"shutting_down" in response.read()
    until(lambda: not Path(f"/proc/{worker}").exists(), "the worker to end")
    assert head == 5000
