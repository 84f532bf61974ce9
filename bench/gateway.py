"""Calls through a gateway, compared with the same calls without the gateway."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import gateway_streams
from bench.client import Client
from bench.cpu import used
from bench.load import Load, Requests, post, send
from bench.log import ONE
from bench.report import Row
from bench.watch import NO_CAPS
from tests import instances
from tests.gateway.running import Running, by_topic, cluster, static, union
from tests.instances import Instance

SECONDS = 3.0
CONNECTIONS = 32
LISTED = 10_000  # topics of each server of a union
ROUNDS = 3  # each round has a load without the gateway and a load through it
STATIC, TOPIC = (0.65, 40.0, 0.15), (0.5, 130.0, None)  # asked: share of the rate, µs of CPU, ms of additional latency
WITHOUT_KEYS = "TopicRouter, addKeys: false"
PORTS = {"StaticRouter": STATIC, "TopicRouter": TOPIC, WITHOUT_KEYS: TOPIC}


def run(instance: Instance) -> Iterator[Row]:
    post(f"{instance.url}/v0/topics/bench", ONE, 16, 1)  # warm
    configurations = {
        "StaticRouter": static(instance.port),
        "TopicRouter": one_route(instance.port),
        WITHOUT_KEYS: one_route(instance.port, addKeys=False),
    }
    for router, configuration in configurations.items():
        with tempfile.TemporaryDirectory() as folder:
            gateway = Running(Path(folder), configuration).start()
            try:
                yield from calls(router, instance, gateway)
            finally:
                gateway.kill()
    with instances.start(**NO_CAPS) as other:
        yield from gateway_streams.run(instance, other)
        yield first_page(instance, other)


def one_route(port: int, **more: bool) -> dict[str, Any]:
    """Returns a TopicRouter with one route, because the gateway refuses two routes to one cluster."""
    configuration = by_topic(port, port, prefixes={"b": "eu"}, default=None)
    configuration["clusterDefinitions"] = [cluster("eu", port, **more)]
    router = configuration["routerDefinitions"][0]
    router["routes"] = router["routes"][:1]
    return configuration


def first_page(instance: Instance, other: Instance) -> Row:
    """Returns a row for the first page of a list of two servers with 10,000 topics each."""
    with tempfile.TemporaryDirectory() as folder:
        for each in (instance, other):
            client = Client(each.port)
            for first in range(0, LISTED, 100):
                fill(client, first)
        gateway = Running(Path(folder), union(instance.port, other.port)).start()
        try:
            asking = Client(gateway.port)
            took = []
            for _ in range(50):
                started = time.perf_counter()
                page = asking.call("GET", "topics")
                took.append((time.perf_counter() - started) * 1000)
                assert len(page["topics"]) == 100
        finally:
            gateway.kill()
    p50 = statistics.median(took)
    return Row(f"UnionRouter of two, {LISTED:,} topics each: first page", "< 50 ms", f"p50 {p50:.1f} ms", ok=p50 < 50)


def fill(client: Client, first: int) -> None:
    for number in range(first, first + 100):
        client.call("PUT", f"topics/listed-{number:05}", {})


def calls(router: str, instance: Instance, gateway: Running) -> Iterator[Row]:
    append = Requests("POST", f"{instance.url}/v0/topics/bench", ONE)
    yield beside(router, "append 1 record", append, gateway)
    if router == WITHOUT_KEYS:
        return
    diff = Requests("POST", f"{instance.url}/v0/topics/bench/diff", '{"from_seq": 9007199254740991}')
    yield beside(router, "diff at the tail", diff, gateway)


def beside(router: str, name: str, requests: Requests, gateway: Running) -> Row:
    rate, cpu, more = PORTS[router]
    assert gateway.process is not None
    through = requests.to(f"http://127.0.0.1:{gateway.port}")
    direct, load, spent, answered = [], [], 0.0, 0.0
    for _ in range(ROUNDS):
        direct.append(send(requests, CONNECTIONS, SECONDS))
        before = used([gateway.process.pid])
        load.append(send(through, CONNECTIONS, SECONDS))
        spent += used([gateway.process.pid]) - before
        answered += load[-1].rate * SECONDS
    alone, over = send(requests, 1, SECONDS), send(through, 1, SECONDS)
    ratio = mean(load) / mean(direct)
    later = over.p50_ms - alone.p50_ms
    each = spent / answered
    asked = f"≥ {rate:g} of the rate, ≤ {cpu:.0f} µs of CPU" + (f", p50 + < {more:g} ms" if more else "")
    measured = f"{mean(load):,.0f}/s, {each:.0f} µs of CPU a request, p50 + {later:.2f} ms"
    ok = ratio >= rate and each <= cpu and (more is None or later < more)
    return Row(
        f"{router}: {name}, {CONNECTIONS} connections",
        asked,
        measured,
        f"{mean(direct):,.0f} direct",
        f"{ratio:.2f}",
        ok,
    )


def mean(loads: list[Load]) -> float:
    return sum(each.rate for each in loads) / len(loads)
