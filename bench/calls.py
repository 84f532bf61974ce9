"""Compares each call of /v0 with an empty handler, which gets the same requests from the same wrk in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from bench import empty, held, mix
from bench.client import Client
from bench.cpu import Cpu
from bench.load import Load, Requests, post, send
from bench.log import HUNDRED, ONE, RECORD
from bench.raw import Raw
from bench.report import Row
from tests.instances import Instance

SECONDS = 3.0
APPLICATION = "empty handler"
T = TypeVar("T")
MANY = 64  # topics for appends to many
EXPECTED = 1000  # topics for appends that expect a head


def run(instance: Instance) -> Iterator[Row]:
    client = Client(instance.port)
    with empty.serving() as nothing, instance.connect() as database:
        calls = Calls(instance, nothing, Cpu(instance))
        prepare(client)
        post(calls.topic("one"), ONE, 16, 2)  # warm
        yield from reads(calls, client)
        yield from alone(calls, client, Raw(instance.servers.database_url))
        yield from appends(calls, Raw(instance.servers.database_url))
        # PostgreSQL cleans up after the previous rows now, so that this work does not slow the next rows.
        database.execute("VACUUM ANALYZE")
        yield from conditional_appends(calls, client)
        yield from held.run(instance)
        yield from creations(calls)
        database.execute("VACUUM ANALYZE")
        yield mix.run(instance)  # before the deletes, because the cleanup after the deletes takes minutes
        yield from deletes(calls, client)


class Calls:
    """Sends the same load to the instance and to the empty handler, in turn."""

    def __init__(self, instance: Instance, nothing: str, cpu: Cpu) -> None:
        self.root, self.nothing, self.cpu = f"{instance.url}/v0/", nothing, cpu

    def topic(self, name: str) -> str:
        return f"{self.root}topics/{name}"

    def beside(self, work: str, asked: float, requests: Requests, connections: int) -> Row:
        """Returns a row for a call. `asked`: the share of the empty handler's rate that the call has to reach."""
        load, limit, used = self.measured(requests, connections)
        ratio = load.rate / limit
        measured = f"{load.rate:,.0f}/s, p50 {load.p50_ms:.2f} ms; {used}"
        return Row(work, f"≥ {asked:g} of the {APPLICATION}", measured, f"{limit:,.0f}", f"{ratio:.2f}", ratio >= asked)

    def rate(self, work: str, asked: float, requests: Requests, connections: int, records: int = 1) -> Row:
        """Returns a row for a call. `asked`: the calls or records a second that it has to reach. `records`: records of a call."""
        load, limit, used = self.measured(requests, connections)
        rate, unit = load.rate * records, "/s" if records == 1 else " records/s"
        measured = f"{rate:,.0f}{unit}, p50 {load.p50_ms:.2f} ms; {used}"
        return Row(work, f"≥ {asked:,.0f}{unit}", measured, f"{limit:,.0f}", f"{load.rate / limit:.2f}", rate >= asked)

    def measured(self, requests: Requests, connections: int) -> tuple[Load, float, str]:
        """Returns the load, the empty handler's rate for the same requests, and our CPU time for each call, in words."""
        nothing = requests.to(self.nothing)
        (load, used), limit = between(
            lambda: send(nothing, connections, SECONDS / 2).rate, lambda: self.ours(requests, connections)
        )
        return load, limit, used

    def ours(self, requests: Requests, connections: int) -> tuple[Load, str]:
        before = self.cpu.now()
        load = send(requests, connections, SECONDS)
        return load, self.cpu.each(before, load.rate * SECONDS)


def between(limit: Callable[[], float], ours: Callable[[], T]) -> tuple[T, float]:
    """Returns the result of `ours`, and the mean of the limits before and after it, because a machine's speed varies."""
    before = limit()
    measured = ours()
    return measured, (before + limit()) / 2


def prepare(client: Client) -> None:
    for name in ("one", "hundred", *(f"many{n}" for n in range(1, MANY + 1))):
        client.call("PUT", f"topics/{name}", {})
    client.append("hundred", [{"n": n} for n in range(1000)])


def reads(calls: Calls, client: Client) -> Iterator[Row]:
    head = client.call("GET", "topics/hundred")["head_seq"]
    topic = calls.topic("hundred")
    tail = Requests("POST", f"{topic}/diff", f'{{"from_seq":{head}}}')
    yield calls.beside("health, 32 connections", 0.6, Requests("GET", f"{calls.root}health"), 32)
    yield calls.beside("diff at the tail, 32 connections", 0.45, tail, 32)
    yield calls.beside("diff, limit 1", 0.45, Requests("POST", f"{topic}/diff", '{"from_seq":7,"limit":1}'), 32)
    yield calls.beside("GET of a topic", 0.45, Requests("GET", topic), 32)
    yield calls.beside("GET of records, limit 1", 0.25, Requests("GET", f"{topic}/records?from_seq=7&limit=1"), 32)
    since = f'{{"from_ts":{int(time.time() * 1000) - 60_000},"limit":1}}'
    yield calls.beside("diff from a time, limit 1", 0.25, Requests("POST", f"{topic}/diff", since), 32)
    yield calls.beside("PUT of a cursor", 0.25, Requests("PUT", f"{topic}/cursors/c", '{"seq":7}'), 32)


def appends(calls: Calls, raw: Raw) -> Iterator[Row]:
    one = Requests("POST", calls.topic("one"), ONE)
    yield calls.beside("append 1 record, 64 connections", 0.6, one, 64)
    many = Requests("POST", calls.topic("many$n"), ONE, most=MANY)
    yield calls.beside("the same over 64 topics", 0.6, many, 64)
    hundred = Requests("POST", calls.topic("hundred"), HUNDRED)
    (load, used), limit = between(lambda: raw.appends("hundred", HUNDRED) * 100, lambda: calls.ours(hundred, 16))
    rate = load.rate * 100
    measured = f"{rate:,.0f} records/s, p50 {load.p50_ms:.2f} ms; {used}"
    yield Row(
        "append 100 records, 16 connections",
        "≥ 1.6 of raw",
        measured,
        f"{limit:,.0f} raw",
        f"{rate / limit:.2f}",
        rate >= 1.6 * limit,
    )


def conditional_appends(calls: Calls, client: Client) -> Iterator[Row]:
    keyed = Requests("POST", calls.topic("one"), f'{{"idempotency_key":"key $n","records":[{RECORD}]}}')
    yield calls.beside("append with an idempotency key, 32 connections", 0.25, keyed, 32)
    # These topics exist and have records. The creation of a topic and its first append have their own rows.
    expecting = Requests(
        "POST", calls.topic("expected:$n"), f'{{"expected_head":$round,"records":[{RECORD}]}}', most=EXPECTED
    )
    for n in range(1, EXPECTED + 1):
        client.append(f"expected:{n}", [{"n": n}])
    yield calls.beside("append with expected_head", 0.25, expecting, 32)


def creations(calls: Calls) -> Iterator[Row]:
    yield calls.rate("PUT of a new topic, 32 connections", 3000, Requests("PUT", calls.topic("put:$n"), "{}"), 32)
    yield calls.rate("append that creates a topic", 3000, Requests("POST", calls.topic("made:$n"), ONE), 32)
    hundred = Requests("POST", calls.topic("filled:$n"), HUNDRED)
    yield calls.rate("100 records into a new topic each", 80_000, hundred, 32, 100)


def deletes(calls: Calls, client: Client) -> Iterator[Row]:
    for start in range(0, 60_000, 1000):
        records = [{"data": n, "tag": f"t:{n}"} for n in range(start + 1, start + 1001)]
        client.call("POST", "topics/tagged?return_seqs=false", {"records": records})
    by_tag = Requests("POST", calls.topic("tagged/delete"), '{"match":"t:$n"}')
    yield calls.rate("delete by tag of one record, 32 connections", 4000, by_tag, 32)
    yield calls.rate(
        "delete before_seq", 4000, Requests("POST", calls.topic("hundred/delete"), '{"before_seq":$n}'), 32
    )


def alone(calls: Calls, client: Client, raw: Raw) -> Iterator[Row]:
    head = client.call("GET", "topics/hundred")["head_seq"]
    tail = Requests("POST", calls.topic("hundred/diff"), f'{{"from_seq":{head}}}')
    append = Requests("POST", calls.topic("one"), ONE)
    yield one_connection(calls, "append 1 record", append, lambda: raw.appends("one", ONE))
    yield one_connection(calls, "diff at the tail", tail, lambda: raw.diffs("hundred", head, 256))


def one_connection(calls: Calls, work: str, requests: Requests, statement: Callable[[], float]) -> Row:
    """Returns a row for the latency of a call, compared with its statement plus the empty handler."""
    nothing = requests.to(calls.nothing)
    p50, limit = between(
        lambda: 1000 / statement() + send(nothing, 1, SECONDS / 2).p50_ms, lambda: send(requests, 1, SECONDS).p50_ms
    )
    wanted = f"p50 ≤ raw + {APPLICATION} + 0.15 ms"
    measured, ok = f"p50 {p50:.2f} ms", p50 <= limit + 0.15
    return Row(f"{work}, 1 connection", wanted, measured, f"{limit:.2f} ms", f"{p50 / limit:.2f}", ok)
