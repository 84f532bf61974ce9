"""The console on a very large store: its pages, the graph, and the cost of open pages for appends."""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import psycopg

from base.clock import now_ms
from bench import load
from bench.cpu import Cpu
from bench.fill import DATA
from bench.report import Row
from tests.instances import Instance
from tests.project.signing_in import ask, log_in

TOPICS, ROUTERS, GRAPH = 10_000, 1_000, 500
RECORDS = int(os.environ.get("RECORDS", "1000000"))  # records of one topic
LARGE = "fill.09999"
TABS = 20
SECONDS = 10.0

FILL_TOPICS = """
WITH made AS (
    INSERT INTO topics_topic (name, type, ttl_ms, cap_records, cap_bytes, discard, durability, auto_priority, auto_create,
                              idempotency_window_ms, dedupe_node, lease_ms, claim_jitter_ms, max_deliveries, leases_durable,
                              created_ts)
    SELECT 'fill.' || lpad(n::text, 5, '0'), 'log', 0, 0, 0, 'old', 'disk', true, true, 120000, true, 30000, 0, 0, false, %s
      FROM generate_series(1, %s) n
    RETURNING id)
INSERT INTO topics_topichead (topic_id, head_seq, floor_seq, cap_lost_seq, ttl_lost_seq, restart_lost_seq, source_lost_seq,
                              holes_seq, count, bytes, total, last_ts, last_read_ts, version)
SELECT id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 FROM made
"""
# One record each millisecond, until now.
FILL_RECORDS = """
WITH head AS (
    UPDATE topics_topichead SET head_seq = %(n)s, count = %(n)s, bytes = %(n)s * %(size)s, total = %(n)s * %(size)s,
           last_ts = %(now)s, reserved_seq = %(n)s
     WHERE topic_id = (SELECT id FROM topics_topic WHERE name = %(name)s) RETURNING topic_id)
INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, node, tag, data)
SELECT topic_id, n, %(now)s - %(n)s + n, n * %(size)s, %(size)s, 'n1', 'order:' || n %% 10000, %(data)s::json
  FROM head, generate_series(1, %(n)s) n
"""


def fill(instance: Instance) -> None:
    """Create topics, fill one of them, and create routers between some of them in five layers."""
    with instance.connect() as connection:
        connection.execute(FILL_TOPICS, [now_ms(), TOPICS])
        connection.execute(
            FILL_RECORDS, {"n": RECORDS, "size": len(DATA), "now": now_ms(), "name": LARGE, "data": DATA}
        )
        for table in ("topics_record_logged", "topics_topichead", "topics_topic"):
            connection.execute(psycopg.sql.SQL("ANALYZE {}").format(psycopg.sql.Identifier(table)))
    chosen, layer = random.Random(7), GRAPH // 5
    client = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=60)
    for number in range(ROUTERS):
        place = chosen.randrange(4)
        source, dest = (f"fill.{each * layer + chosen.randrange(layer) + 1:05}" for each in (place, place + 1))
        body = json.dumps({"source": source, "dest": dest, "allow_fan_in": True})
        client.request("PUT", f"/v0/routers/r{number}", body, {"Content-Type": "application/json"})
        answer = client.getresponse()
        assert answer.status == 201, answer.read()
        answer.read()
    client.close()


def session(instance: Instance) -> str:
    """Logs in to the admin. Returns the session cookie."""
    answer = log_in(instance, (instance.data / "admin-password").read_text().strip())
    parts = answer.headers["set-cookie"].replace(",", ";").split(";")
    return next(part for part in parts if "sessionid=" in part).strip()


def page_ms(instance: Instance, path: str, cookie: str, times: int = 9) -> float:
    """Returns the median latency of `times` requests (ms), after a first request with cold caches."""
    took = []
    for _ in range(times + 1):
        began = time.perf_counter()
        assert ask(instance, "GET", path, Cookie=cookie).status == 200, path
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took[1:])


def first_event_ms(instance: Instance, path: str, cookie: str) -> float:
    """Returns the time from the request of a stream to its first event (ms). It includes authentication and one rendering."""
    client = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=60)
    began = time.perf_counter()
    client.request("GET", path, headers={"Cookie": cookie})
    answer = client.getresponse()
    while not answer.readline().startswith(b"data:"):
        pass
    took = (time.perf_counter() - began) * 1000
    client.close()
    return took


@contextmanager
def tabs(instance: Instance, cookie: str) -> Iterator[None]:
    """Keep streams of the console's busiest pages open."""
    paths = [
        "/admin/stream/overview/3h",
        "/admin/stream/graph/prefix=",
        f"/admin/stream/topic/{quote('3h/' + LARGE, safe='')}",
    ]
    clients = []

    def drain(answer: http.client.HTTPResponse) -> None:
        try:
            while answer.read1(65536):
                pass
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # the main thread closed the connection

    for number in range(TABS):
        client = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=60)
        client.request("GET", paths[number % len(paths)], headers={"Cookie": cookie})
        threading.Thread(target=drain, args=(client.getresponse(),), daemon=True).start()
        clients.append(client)
    try:
        yield
    finally:
        for client in clients:
            if client.sock is not None:
                client.sock.shutdown(socket.SHUT_RDWR)  # otherwise the reading thread keeps the socket open
            client.close()


def run(instance: Instance) -> Iterator[Row]:
    fill(instance)
    cookie, pages = session(instance), {}
    for name, path in {
        "overview": "/admin/",
        "list of topics": "/admin/topics/topic/",
        "list of topics, by head": "/admin/topics/topic/?o=-4",
        "list of topics, part of a name": "/admin/topics/topic/?q=00777",
        "list of routers": "/admin/routers/router/",
        "a topic": f"/admin/topic/{LARGE}/",
        "a router": "/admin/router/r1/",
        "graph, laid out before": "/admin/graph/",
        "limits": "/admin/limits/",
        "jobs": "/admin/tasks/",
        "audit log": "/admin/topics/auditentry/",
    }.items():
        pages[name] = page_ms(instance, path, cookie)
        yield asked(f"page: {name}", 300, pages[name])
    with instance.connect() as connection:
        connection.execute("DELETE FROM console_layout")
    began = time.perf_counter()
    ask(instance, "GET", "/admin/graph/", Cookie=cookie)
    yield asked(
        f"graph of {GRAPH} topics and {ROUTERS} routers: first picture", 1500, (time.perf_counter() - began) * 1000
    )
    live = statistics.median(first_event_ms(instance, f"/admin/stream/graph/prefix=&n={n}", cookie) for n in range(5))
    yield asked(f"graph of {GRAPH} topics and {ROUTERS} routers: live update", 200, live)
    records = f"/admin/topic/{LARGE}/records/"
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - RECORDS / 2000))
    for name, query in (
        ("next page", f"?before={RECORDS // 2}"),
        ("jump to a time", f"?at={when}"),
        ("jump to a tag", "?tag=order:77"),
    ):
        yield asked(f"record browser, {RECORDS:,} records: {name}", 100, page_ms(instance, records + query, cookie))
    yield cost_of_tabs(instance, cookie)


def asked(work: str, most_ms: float, measured_ms: float) -> Row:
    return Row(work, f"< {most_ms:.0f} ms", f"{measured_ms:.0f} ms", ok=measured_ms < most_ms)


def cost_of_tabs(instance: Instance, cookie: str) -> Row:
    """Returns a row for the CPU time of open pages, as a share of the CPU time of appends at full load.

    If appends use all cores, open pages take this share from them. The unit is CPU time, because other processes of the machine
    disturb it less than rates.
    """
    body, url = json.dumps({"records": [{"data": json.loads(DATA)}]}), f"{instance.url}/v0/topics/appended"
    load.post(url, body, 16, 1.0)
    alone = computed(instance, lambda: time.sleep(SECONDS))
    with tabs(instance, cookie):
        time.sleep(2.0)  # the first pictures are drawn
        beside = computed(instance, lambda: time.sleep(SECONDS))
    appending = computed(instance, lambda: load.post(url, body, 16, SECONDS))
    share = max(beside - alone, 0) / appending
    measured = f"{share:.1%} ({(beside - alone) / 1000:.0f} of {appending / 1000:.0f} ms of CPU a second)"
    return Row(f"{TABS} open tabs, beside appends on 16 connections", "< 5% of the CPU", measured, ok=share < 0.05)


def computed(instance: Instance, during: Callable[[], object]) -> float:
    """Returns the CPU time of the web processes and PostgreSQL during a call (µs a second)."""
    cpu, began = Cpu(instance), time.monotonic()
    before = cpu.now()
    during()
    return (sum(cpu.now()) - sum(before)) / (time.monotonic() - began)
