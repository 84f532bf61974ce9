"""Members of the Python client share the records of a topic: each record once, in the order of its key."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from contextlib import aclosing, closing
from typing import Any

import pytest
from topics_client import AsyncTopics, RecordsLost, Topics, errors

from tests.clients.proxy import proxy
from tests.deadlines import DEADLINE
from tests.instances import ROOT, Instance, until
from tests.processes import child_process
from tests.watch.wire import Api, new_name

KEYS = 20


def filled(server: Instance, count: int) -> str:
    topic = new_name()
    records = [{"data": n, "tag": f"k:{n % KEYS}"} for n in range(1, count + 1)]
    assert Api(server.port).call("POST", f"/v0/topics/{topic}", {"records": records}).status == 201
    return topic


def check(seen: list[tuple[int, str]], count: int) -> None:
    """Each record came once, and those of a key in order."""
    assert sorted(seq for seq, _ in seen) == list(range(1, count + 1))
    by_key = defaultdict(list)
    for seq, tag in seen:
        by_key[tag].append(seq)
    assert all(seqs == sorted(seqs) for seqs in by_key.values())


def test_members_see_each_record_once_although_connections_are_cut(server: Instance) -> None:
    """One member leaves in the middle, and others take its shares over where it was."""
    count = 3000
    topic = filled(server, count)
    seen: list[tuple[int, str]] = []

    def consume(url: str, most: int) -> None:
        with Topics(url) as topics:
            member = topics.topic(topic).group("billing", commit_ms=20, partitions=16)
            members.append(member)
            for mine, record in enumerate(member, 1):
                seen.append((record.seq, record.tag or ""))
                if mine == most or len(seen) >= count:
                    member.stop()

    members: list[Any] = []
    with proxy(server.port, (30_000, 60_000)) as cutting:
        first = threading.Thread(target=consume, args=(cutting.url, 500))
        second = threading.Thread(target=consume, args=(cutting.url, count))
        first.start()
        second.start()
        first.join(DEADLINE)
        second.join(DEADLINE)
        assert not first.is_alive()
        assert not second.is_alive()
        assert cutting.cuts >= 1
        assert len(cutting.requests) < 500
    check(seen, count)
    with Topics(server.url) as topics:
        last = Api(server.port).append(topic, "last")
        with closing(iter(topics.topic(topic).group("billing"))) as records:
            assert next(records).seq == last


def test_an_async_member_sees_each_record_once_although_connections_are_cut(server: Instance) -> None:
    count = 2000
    topic = filled(server, count)
    seen: list[tuple[int, str]] = []

    async def consume(url: str, most: int) -> None:
        async with AsyncTopics(url) as topics:
            member = topics.topic(topic).group("billing", commit_ms=20, partitions=16)
            async with aclosing(aiter(member)) as records:
                async for record in records:
                    seen.append((record.seq, record.tag or ""))
                    if len(seen) == most:
                        member.stop()

    with proxy(server.port, (30_000, 60_000)) as cutting:
        asyncio.run(consume(cutting.url, 700))
        asyncio.run(consume(cutting.url, count))
        assert cutting.cuts >= 1
    check(seen, count)


def test_sigterm_leaves_the_group_and_commits_what_is_done(server: Instance) -> None:
    """At once, although the member waits for the server, and again between two records."""
    topic = filled(server, 3)
    code = f"""
from topics_client import Topics
for record in Topics().topic({topic!r}).group("billing", partitions=1):
    print(record.seq, flush=True)
    if record.seq == 5:
        import os, signal
        os.kill(os.getpid(), signal.SIGTERM)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "TOPICS_URL": server.url}
    for expected, ends_itself in (([1, 2, 3], False), ([4, 5], True)):
        with child_process([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert [int(process.stdout.readline()) for _ in expected] == expected
            if not ends_itself:
                until(lambda: state(server, topic)["shares"][0]["seq"] == 3, "the commit before the wait")
                process.send_signal(signal.SIGTERM)
            assert process.stdout.read() == b""
        assert process.returncode == 0
        assert state(server, topic)["members"] == []
        Api(server.port).append(topic, *range(4, 7))
    assert state(server, topic)["shares"][0]["seq"] == 5


def test_a_handler_of_the_application_that_exits_cuts_off_no_record(server: Instance) -> None:
    topic = filled(server, 2)
    code = f"""
import os, signal, sys
from topics_client import Topics
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
for record in Topics().topic({topic!r}).group("billing", partitions=1):
    print("begins", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("ends", flush=True)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "TOPICS_URL": server.url}
    with child_process([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"begins\nends\n"
    assert process.returncode == 7
    shown = state(server, topic)
    assert (shown["shares"][0]["seq"], shown["members"]) == (1, [])


def state(server: Instance, topic: str) -> Any:
    return Api(server.port).call("GET", f"/v0/topics/{topic}/groups/billing").body


def test_a_member_hands_out_no_further_record_of_a_share_that_it_has_lost(server: Instance) -> None:
    """Another stream of the same name takes its shares, while it has read all records."""
    topic = filled(server, 9)
    with Topics(server.url) as topics:
        slow = iter(topics.topic(topic).group("billing", member="w", partitions=1, commit_ms=0))
        assert [next(slow).seq for _ in range(3)] == [1, 2, 3]
        fast = iter(topics.topic(topic).group("billing", member="w", partitions=1, commit_ms=0))
        assert [next(fast).seq for _ in range(4)] == [3, 4, 5, 6]  # 3 was not done
        # The commit of 3 is refused. So the first member joins again, and continues where the second one has committed.
        assert next(slow).seq == 6
        fast.close()
        Api(server.port).call("DELETE", f"/v0/topics/{topic}")
        with pytest.raises(errors.TopicNotFound):
            list(slow)


def test_a_member_is_told_of_losses(server: Instance) -> None:
    topic = new_name()
    assert Api(server.port).call("PUT", f"/v0/topics/{topic}", {"cap_records": 2}).status == 201
    Api(server.port).append(topic, *range(5))
    with Topics(server.url) as topics:
        with pytest.raises(RecordsLost):
            next(iter(topics.topic(topic).group("raises", partitions=1)))
        lost: list[Any] = []
        with closing(iter(topics.topic(topic).group("told", partitions=1, on_loss=lost.append))) as records:
            assert [next(records).seq for _ in range(2)] == [4, 5]
        assert [(each.topic, each.share, each.gap_from, each.gap_to) for each in lost] == [(topic, 0, 1, 3)]
