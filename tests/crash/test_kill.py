"""kill -9 in the middle of things: what was acked with `fsync` is there, and what is lost is told (docs/guarantees.md)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.clients import HttpClient, Reply
from tests.instances import WHOLE, Instance, until
from tests.log.writers import Acked, read_all

APPENDS = 4_000
RESERVED = """
SELECT count(*) FROM topics_topichead JOIN topics_topic ON id = topic_id
 WHERE reserved_seq > head_seq AND durability <> 'fsync'
"""
WRITERS = 8


@pytest.fixture
def instance(instances: Callable[..., Instance]) -> Instance:
    return instances(**WHOLE)


def write_until_killed(instance: Instance, who: int, acked: Acked) -> None:
    """Appends, noting each that was acked, until there is no server any more."""
    live = HttpClient(instance.port)
    for number in range(APPENDS // WRITERS):
        data = [f"{who}.{number}.{place}" for place in range(number % 3 + 1)]
        try:
            answer = live.append("t", *data)
        except OSError:
            return
        if answer.status != 200:
            return
        acked.append((answer.json["first_seq"], data))


@pytest.mark.guarantee("W3")
def test_nothing_acked_with_fsync_is_lost(instance: Instance) -> None:
    live = HttpClient(instance.port)
    live.put("/v0/topics/t", {"durability": "fsync"})
    live.put("/v0/routers/r", {"source": "t", "dest": "copy", "guarantee": "exactly_once"})
    acked: list[Acked] = [[] for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        for who in range(WRITERS):
            pool.submit(write_until_killed, instance, who, acked[who])
        until(lambda: sum(map(len, acked)) > APPENDS // 4, "a quarter of the appends to be acked", 120)
        instance.kill()
    count = sum(map(len, acked))
    assert APPENDS // 4 < count < APPENDS

    instance.start()
    records = {record["$seq"]: record["data"] for record in read_all(instance.port, "t")}
    for first_seq, data in (append for each in acked for append in each):
        assert [records.get(first_seq + place) for place in range(len(data))] == data
    # No record is stored twice, and an append in flight is stored whole or not at all.
    assert list(records) == list(range(1, len(records) + 1))
    assert len(set(records.values())) == len(records)
    # And the copy holds each of them once.
    assert [record["data"] for record in read_all(instance.port, "copy")] == list(records.values())
    appended = live.append("t", "after").json
    assert appended["first_seq"] == len(records) + 1


def read(instance: Instance, topic: str) -> tuple[str | None, int, list[Any]]:
    """The tombstone's reason, the head, and the records."""
    window = answered(lambda: HttpClient(instance.port).diff(topic))
    reason = window["tombstone"]["reason"] if window["tombstone"] else None
    return reason, window["head_seq"], [record["data"] for record in window["records"]]


@pytest.mark.guarantee("W4")
def test_volatile_records_are_lost_with_a_tombstone(instance: Instance) -> None:
    live = HttpClient(instance.port)
    for durability in ("fsync", "memory", "ephemeral"):
        live.put(f"/v0/topics/{durability}", {"durability": durability})
        assert live.append(durability, 1, 2, 3).status == 200
    live.put("/v0/routers/r", {"source": "memory", "dest": "copy", "from": "earliest"})
    assert read(instance, "copy") == (None, 3, [1, 2, 3])

    # A requested restart: only ephemeral records are deleted.
    instance.stop()
    instance.start()
    assert read(instance, "fsync") == (None, 3, [1, 2, 3])
    assert read(instance, "memory") == (None, 3, [1, 2, 3])
    assert read(instance, "ephemeral") == ("restart", 3, [])
    assert live.append("ephemeral", 4).json["first_seq"] == 4

    # PostgreSQL crashes under the running server. What follows is on disk before, as the heads of topics that rest: an
    # fsync brings all that was logged down.
    with instance.connect() as connection:
        until(lambda: connection.execute(RESERVED).fetchone() == (0,), "the topics to rest", 120)
    live.append("fsync", 4)
    for pid in instance.pids("postgres"):
        if "topics_project" not in command(pid):
            os.kill(pid, signal.SIGKILL)
    until(instance.is_ready, "the server to find its database again", 120)
    assert read(instance, "fsync") == (None, 4, [1, 2, 3, 4])
    assert read(instance, "memory") == ("restart", 3, [])
    assert read(instance, "ephemeral") == ("restart", 4, [])
    assert read(instance, "copy") == ("restart", 3, [])
    assert answered(lambda: live.append("memory", 4))["first_seq"] == 4
    assert read(instance, "copy") == ("restart", 4, [4])


def answered(call: Callable[[], Reply]) -> Any:
    """A connection that the crash ended is found out by using it: that answer is 503, and says to send it again."""
    return until(lambda: (reply := call()).status == 200 and reply.json, "an answer")


def command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline") as line:
            return line.read()
    except FileNotFoundError:
        return "topics_project"
