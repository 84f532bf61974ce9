"""Under load of every kind, no process holds more connections than docs/guides/sizing.md says."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.conf import settings

from tests.crash.asking import ask
from tests.instances import Instance

pytestmark = pytest.mark.deep


BACKENDS = """
SELECT application_name, count(*) FROM pg_stat_activity
 WHERE application_name ~ '^topics (web|push|worker) [0-9]+$' GROUP BY application_name
"""
HOLD = (
    "SELECT FROM topics_topichead JOIN topics_topic t ON t.id = topic_id WHERE name IN ('t0', 't1', 'dest') FOR UPDATE"
)
CLIENTS, ROUNDS = 40, 2
SIZING = Path(settings.BASE_DIR) / "docs" / "guides" / "sizing.md"


def said(process: str) -> int:
    found = re.search(rf"^\| {process} \|[^|]*\| (\d+)", SIZING.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def sample(instance: Instance, most: dict[str, int], over: threading.Event) -> None:
    """Keeps the most connections of each process, until `over`."""
    with instance.connect() as database:
        while not over.is_set():
            for name, count in database.execute(BACKENDS).fetchall():
                most[name] = max(most.get(name, 0), count)


def client(instance: Instance, number: int) -> None:
    """Calls of every kind: reads, reads of a router's dest, appends of each durability, transactions, and pages."""
    port, topic = instance.port, f"t{number % 10}"
    durability = ("fsync", "disk", "memory")[number % 3]
    for turn in range(ROUNDS):
        ask(port, "PUT", f"/v0/topics/{topic}-{turn}", {"durability": durability})
        ask(port, "POST", f"/v0/topics/{topic}", {"records": [{"data": 1}]})
        ask(port, "POST", f"/v0/topics/{topic}-{turn}", {"records": [{"data": 1}], "expected_head": 0})
        for name in (topic, "dest", "source"):
            ask(port, "POST", f"/v0/topics/{name}/diff", {})
        ask(port, "GET", "/v0/topics")
        ask(port, "GET", "/v0/ready")
        instance.get("/admin/login/")
        ask(port, "DELETE", f"/v0/topics/{topic}-{turn}")


def test_a_process_holds_at_most_its_share(instances: Callable[..., Instance]) -> None:
    instance = instances(WEB_WORKERS="1", TOPICS_LOCK_TIMEOUT_MS="1000", TOPICS_PROCESSES="worker,push,beat")
    assert ask(instance.port, "PUT", "/v0/routers/r", {"source": "source", "dest": "dest"}).status in (200, 201)
    for number in range(10):
        ask(instance.port, "PUT", f"/v0/topics/t{number}", {})
    most: dict[str, int] = {}
    over = threading.Event()
    sampler = threading.Thread(target=sample, args=(instance, most, over))
    sampler.start()
    try:
        with ThreadPoolExecutor(CLIENTS) as threads:
            list(threads.map(lambda number: client(instance, number), range(CLIENTS)))
            # Another client holds heads: writers and reads of the dest wait on connections of their own.
            with instance.connect() as holder, holder.transaction():
                holder.execute(HOLD)
                list(threads.map(lambda number: client(instance, number), range(CLIENTS)))
    finally:
        over.set()
        sampler.join()
    print(most)
    web = [count for name, count in most.items() if name.startswith("topics web")]
    assert 8 < max(web) <= said("web")
    assert all(count <= said("push") for name, count in most.items() if name.startswith("topics push"))
    assert all(count <= said("worker") for name, count in most.items() if name.startswith("topics worker"))
