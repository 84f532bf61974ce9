"""Everybody at once, on a whole instance: two hundred routers moved by four workers that are killed again and again, while
topics are appended to, read, deleted and routed anew. In the end no record is lost or doubled, and nobody met a deadlock.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.clients import ApiClient, HttpClient
from tests.instances import Instance, until

pytestmark = pytest.mark.deep


SOURCES = [f"s{number}" for number in range(10)]
KINDS: list[dict[str, Any]] = [
    {},
    {"filter": ["tag", "Glob", "even:*"]},
    {"guarantee": "exactly_once"},
    {"preserve_node": False, "preserve_tag": False},
]
APPENDS = 25  # by each of three writers


def build(live: ApiClient) -> dict[str, tuple[str, bool]]:
    """Two hundred routers; returns each dest's source, and whether it gets the even records only."""
    dests: dict[str, tuple[str, bool]] = {}
    for source in SOURCES:
        for number in range(16):
            kind = KINDS[number % len(KINDS)]
            dest = f"{source}.d{number}"
            put(live, f"{source}.r{number}", source, dest, **kind)
            dests[dest] = source, "filter" in kind
        for number in range(4):  # a hop further
            put(live, f"{source}.q{number}", f"{source}.d{number}", f"{source}.e{number}")
            dests[f"{source}.e{number}"] = source, number == 1
    return dests


def put(live: ApiClient, router: str, source: str, dest: str, **config: Any) -> None:
    reply = live.put(f"/v0/routers/{router}", {"source": source, "dest": dest, **config})
    assert reply.status in (200, 201), reply.json


def read(live: ApiClient, topic: str, from_seq: int = 0) -> tuple[list[str], int]:
    found, caught_up = [], False
    while not caught_up:
        window = live.diff(topic, from_seq=from_seq, limit=1000).json
        assert window["tombstone"] is None
        found += [record["data"] for record in window["records"]]
        from_seq, caught_up = window["next_from_seq"], window["caught_up"]
    return found, from_seq


def append(live: ApiClient, chance: random.Random, who: int) -> None:
    for turn in range(APPENDS):
        for source in chance.sample(SOURCES, 3):
            records = [
                {"data": f"{who}.{turn}.{n}", "tag": f"{'even' if n % 2 == 0 else 'odd'}:{n}"}
                for n in range(chance.randint(1, 20))
            ]
            reply = live.post(f"/v0/topics/{source}", {"records": records, "node": f"n{who}"})
            assert reply.status == 200, reply.json


def follow(live: ApiClient, chance: random.Random, dests: list[str], over: threading.Event) -> None:
    """What a reader sees is never taken back, and comes once."""
    seen: dict[str, tuple[list[str], int]] = {}
    while not over.is_set():
        dest = chance.choice(dests)
        before, from_seq = seen.get(dest, ([], 0))
        more, from_seq = read(live, dest, from_seq)
        assert not set(before) & set(more)
        seen[dest] = before + more, from_seq
    for dest, (records, _from_seq) in seen.items():
        assert read(live, dest)[0][: len(records)] == records


def meddle(live: ApiClient, chance: random.Random, over: threading.Event) -> None:
    """Routers and topics beside the two hundred come and go, on the same sources and on cycles with them."""
    while not over.is_set():
        source, number = chance.choice(SOURCES), chance.randint(0, 2)
        dest, router = f"x{number}", f"x.{source}.{number}"
        what = chance.randint(0, 5)
        if what <= 1:
            config = {"allow_fan_in": True, "allow_cycle": True, "from": chance.choice(["earliest", "head"])}
            reply = live.put(f"/v0/routers/{router}", {"source": source, "dest": dest, **config})
        elif what == 2:
            reply = live.put(
                f"/v0/routers/x{number}", {"source": dest, "dest": "x3", "allow_cycle": True, "allow_fan_in": True}
            )
        elif what == 3:
            reply = live.delete(f"/v0/routers/{router}")
        elif what == 4:
            reply = live.post(f"/v0/topics/{dest}/delete", {"match": ["tag", "Glob", "even:*"]})
        else:
            reply = live.delete(f"/v0/topics/{dest}")
        assert reply.status < 500, reply.body


def kill_workers(instance: Instance, chance: random.Random, over: threading.Event) -> None:
    while not over.wait(0.7):
        if workers := instance.pids("-A topics_project.celery worker"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)


def together(jobs: list[Callable[[], None]]) -> None:
    """All at once; whatever one of them raises fails the test."""
    failed: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=[job]) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


@pytest.mark.guarantee("F1")
def test_nothing_is_lost_or_doubled(instances: Callable[..., Instance]) -> None:
    instance = instances(WORKER_PROCESSES="4", TOPICS_PROCESSES="worker,beat", WEB_WORKERS="2")
    live, chance, over = HttpClient(instance.port), random.Random(4), threading.Event()
    dests = build(live)
    assert len(dests) == 200

    def write() -> None:
        try:
            together([lambda who=who: append(live, random.Random(who), who) for who in range(3)])
        finally:
            over.set()

    names = list(dests)
    together(
        [
            write,
            lambda: follow(live, random.Random(11), names, over),
            lambda: follow(live, random.Random(12), names, over),
            lambda: meddle(live, random.Random(13), over),
            lambda: meddle(live, random.Random(14), over),
            lambda: kill_workers(instance, chance, over),
        ]
    )
    until(lambda: lags(live) == [], "every router to have caught up", 60)
    written = {source: read(live, source)[0] for source in SOURCES}
    for dest, (source, even) in dests.items():
        wanted = [data for data in written[source] if not even or int(data.rpartition(".")[2]) % 2 == 0]
        assert read(live, dest)[0] == wanted, dest
    log = (instance.data / "logs" / "postgresql.log").read_text()
    assert "deadlock" not in log
    assert "Traceback" not in (instance.data / "logs" / "web.log").read_text()


def lags(live: ApiClient) -> list[tuple[str, int]]:
    """Routers that are behind. Looking moves none of them."""
    routers = live.get("/v0/routers?page_size=1000").json["routers"]
    return [(router["router"], router["lag"]) for router in routers if router["lag"]]
