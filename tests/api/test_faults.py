"""PostgreSQL or Redis is away: calls that still work, answers of the others, and recovery without help."""

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from http.client import HTTPConnection
from itertools import pairwise
from typing import Any

import pytest

from tests.api import raw
from tests.api.clients import HttpClient
from tests.instances import Instance, until

pytestmark = pytest.mark.deep(41)


@contextlib.contextmanager
def without(server: Instance, pid: int, number: signal.Signals) -> Iterator[None]:
    """One embedded server gone for as long as this lasts: its guard, which would bring it back, sleeps."""
    guards = server.pids("-m embedded")
    for guard in guards:
        os.kill(guard, signal.SIGSTOP)
    try:
        os.kill(pid, number)
        yield
    finally:
        for guard in guards:
            os.kill(guard, signal.SIGCONT)


@pytest.mark.guarantee("S1")
def test_postgresql_goes_and_comes_back(instances) -> None:
    server = instances()
    live = HttpClient(server.port)
    live.append("t", 1)
    postmaster = int((server.data / "postgresql" / "postmaster.pid").read_text().split()[0])

    def calls() -> list[Any]:
        return [
            live.append("t", 2),
            live.append("new", 2),
            live.diff("t"),
            live.get("/v0/topics/t"),
            live.get("/v0/topics"),
            live.get("/v0/topics/t/records"),
            live.get("/v0/topics/t/records/1"),
            live.put("/v0/topics/t", {}),
            live.put("/v0/topics/t/cursors/c", {"seq": 1}),
            live.post("/v0/topics/t/delete", {"before_seq": 1}),
            live.get("/v0/metrics"),
            live.get("/v0/ready"),
            live.get("/readyz"),
            live.delete("/v0/topics/none"),
        ]

    assert {reply.status for reply in calls()} <= {200, 201}
    with without(server, postmaster, signal.SIGINT):
        until(lambda: live.get("/v0/ready").status == 503, "PostgreSQL to be gone")
        for _ in range(2):
            for reply in calls():
                assert (reply.status, reply.code) == (503, "not_ready")
                assert reply.headers["retry-after"] == "1"
        assert live.get("/v0/health").status == 200
    until(lambda: live.get("/v0/ready").status == 200, "PostgreSQL to be back")
    assert {reply.status for _ in range(20) for reply in calls()} <= {200, 201}
    seqs = [record["$seq"] for record in live.diff("t", limit=1000).json["records"]]
    assert seqs == list(range(1, len(seqs) + 1))


def append(connection: HTTPConnection, topic: str) -> int:
    """The status of an append over this connection, which stays open."""
    body = b'{"records": [{"data": 1}]}'
    connection.request("POST", f"/v0/topics/{topic}", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT], ids=["restart", "crash"])
def test_once_postgresql_is_back_every_append_is_taken(instances, number: signal.Signals) -> None:
    """Whatever went with it while it was idle is replaced before anything is sent on it."""
    server = instances(WEB_WORKERS="2")
    live = HttpClient(server.port)
    topics = ["fsync", "disk", "memory", "ephemeral"]
    for topic in topics:
        assert live.put(f"/v0/topics/{topic}", {"durability": topic}).status == 201
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(contextlib.closing(HTTPConnection("127.0.0.1", server.port))) for _ in range(8)
        ]
        kept, fresh = connections[:4], connections[4:]
        assert {append(each, topic) for each in kept for topic in topics} == {200}
        postmaster = int((server.data / "postgresql" / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, number)
        until(lambda: postmaster not in server.pids("postgres"), "PostgreSQL to be gone")
        until(lambda: live.get("/v0/ready").status == 200, "PostgreSQL to be back")
        assert {append(each, topic) for each in [*kept, *fresh] for topic in topics} == {200}


def test_an_append_whose_connection_breaks_under_it_is_not_sent_again(instances) -> None:
    """Nobody knows whether it was committed. One that still waits for its turn has not been sent, and is."""
    server = instances(WEB_WORKERS="1")
    live = HttpClient(server.port)
    live.append("held", 1)
    live.append("free", 1)
    with (
        server.connect() as database,
        server.connect() as other,
        ThreadPoolExecutor() as threads,
        database.transaction(),
    ):
        database.execute(
            "SELECT FROM topics_topichead JOIN topics_topic t ON t.id = topic_id WHERE name = 'held' FOR UPDATE"
        )
        sent = threads.submit(live.append, "held", 2)
        stuck = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        (pid,) = until(lambda: other.execute(stuck).fetchone(), "the append to wait for the head")
        waiting = threads.submit(live.append, "free", 2)
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
        assert (sent.result().status, sent.result().code) == (503, "not_ready")
        assert waiting.result().status == 200
    assert [live.diff(topic).json["head_seq"] for topic in ("held", "free")] == [1, 2]


@pytest.mark.guarantee("S1")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_redis_goes_or_hangs_and_appends_and_reads_still_work(instances, number: signal.Signals) -> None:
    server = instances(TOPICS_PROCESSES="worker,beat")
    live = HttpClient(server.port)
    live.put("/v0/routers/r", {"source": "a", "dest": "b"})
    live.append("a", 0)
    (redis,) = server.pids("redis-server")
    with without(server, redis, number):
        for n in range(1, 30):
            assert live.append("a", n).status == 200
            assert live.diff("a").json["head_seq"] == n + 1
        # A reader moves the router itself, since no worker hears of it.
        assert live.diff("b").json["head_seq"] == 30
        assert live.get("/v0/ready").status == 200
        assert live.put("/v0/topics/c").status == 201
        if number is signal.SIGSTOP:
            os.kill(redis, signal.SIGCONT)
    live.append("a", 30)
    until(lambda: live.get("/v0/routers/r").json["lag"] == 0, "forwarding to catch up")
    assert live.diff("b").json["head_seq"] == 31


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit another process")
def test_without_a_free_descriptor_the_probe_keeps_its_answer(instances: Callable[..., Instance]) -> None:
    """Other clients get a refusal, and the log gets one line a minute. With free descriptors, all is as before."""
    server = instances(WEB_WORKERS="1")
    live = HttpClient(server.port)
    assert live.post("/v0/topics/t", {"records": [{"data": 1}]}).status == 201
    with ExitStack() as kept:
        idle = kept.enter_context(raw.connection(server.port))  # a connection that the server has accepted before
        idle.sendall(raw.request("GET", "/v0/topics/t"))
        assert raw.answer(idle).status == 200
        web = max(server.pids("topics_project.web"))  # the child of the process that forks
        before = resource.prlimit(web, resource.RLIMIT_NOFILE)

        def is_full() -> bool:
            """Sets the limit after each other answer: a connection that was about to end may have had a descriptor then.
            Not after a refusal, because a descriptor of the reserve carries it."""
            refused = live.get("/v0/topics/t")
            if refused.status != 200:
                assert (refused.status, refused.code, refused.headers["connection"]) == (503, "not_ready", "close")
                return True
            used = {int(each) for each in os.listdir(f"/proc/{web}/fd")}
            resource.prlimit(web, resource.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), before[1]))
            return False

        for _ in range(30):
            until(is_full, "no free descriptor")
            assert live.get("/v0/ready").status == 200
        for _ in range(20):
            kept.enter_context(raw.connection(server.port))  # they send nothing, and hold the reserve for 2 seconds
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        own = f"topics web {web}"  # of its connections to PostgreSQL
        with server.connect() as other:
            other.execute(f"{end} AND query = 'SELECT count(*) FROM topics_topic'", [own])  # the probe's
        until(lambda: live.get("/v0/ready").status == 200, "the answer of the probe")
        with server.connect() as other:
            other.execute(end, [own])
        until(lambda: live.get("/v0/ready").status == 200, "another connection to PostgreSQL")
        idle.sendall(raw.request("GET", "/v0/topics/t"))
        assert raw.answer(idle).status == 200
    resource.prlimit(web, resource.RLIMIT_NOFILE, before)
    until(lambda: live.get("/v0/topics/t").status == 200, "the server to take connections again")
    logs = (server.data / "logs" / "web.log").read_text().splitlines()
    told = [datetime.fromisoformat(line[:23]) for line in logs if "Cannot accept a connection" in line]
    assert told
    assert all((later - earlier).total_seconds() > 59 for earlier, later in pairwise(told))
