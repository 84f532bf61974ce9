"""Append and diff under load, compared with the raw limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from bench import footprint
from bench.client import Client
from bench.fill import DATA, fill
from bench.load import Load, get, post
from bench.raw import Raw
from bench.report import Row
from tests.instances import Instance

RECORD = f'{{"data":{DATA},"tag":"order:12345","node":"n1"}}'
ONE = f'{{"records":[{RECORD}]}}'
HUNDRED = f'{{"records":[{",".join([RECORD] * 100)}]}}'
SECONDS = 4


def run(instance: Instance) -> Iterator[Row]:
    yield from footprint.idle(instance)
    client, raw = Client(instance.port), Raw(instance.servers.database_url)
    topics = f"{instance.url}/v0/topics/"
    for name in ("one", "hundred", *(f"many{n}" for n in range(1, 65))):
        client.call("PUT", f"topics/{name}", {})
    client.call("PUT", "topics/synced", {"durability": "fsync"})
    warm_up(topics)
    yield from single_appends(topics, raw)
    yield from batches(topics, raw)
    yield from reads(client, topics, raw)
    yield from sizes(client, topics, instance)
    yield memory(instance, topics)
    yield footprint.backends(instance, "connections to PostgreSQL after this load", 40)


def warm_up(topics: str) -> None:
    post(topics + "one", ONE, 16, 2)
    post(topics + "hundred", HUNDRED, 16, 2)


def row(work: str, asked: float, load: Load, raw: float, unit: str, *, times: int = 1, least: float = 0) -> Row:
    """Returns a row for a rate. `times`: records of a call. `least`: the asked ratio to the raw limit."""
    rate, limit = load.rate * times, raw * times
    wanted = f"≥ {asked:,.0f} {unit}" + (f", ≥ {least} of raw" if least else "")
    measured = f"{rate:,.0f} {unit}, p50 {load.p50_ms:.2f} ms, p99 {load.p99_ms:.1f} ms"
    ok = rate >= asked and rate >= least * limit
    return Row(work, wanted, measured, f"{limit:,.0f}", f"{rate / limit:.2f}", ok)


def single_appends(topics: str, raw: Raw) -> list[Row]:
    rows = []
    for connections, asked, least in ((1, 2_500, 0), (16, 9_000, 0), (64, 15_000, 0.8)):
        limit = raw.appends("one", ONE)
        load = post(topics + "one", ONE, connections, SECONDS)
        rows.append(row(f"append 1 record, disk, {connections} connections", asked, load, limit, "acks/s", least=least))
    limit = raw.appends("many1", ONE)
    rows.append(
        row(
            "the same over 64 topics, 64 connections",
            14_000,
            post(topics + "many", ONE, 64, SECONDS, 64),
            limit,
            "acks/s",
        )
    )
    limit = raw.appends("synced", ONE, fsync=True)
    rows.append(
        row(
            "append 1 record, fsync, 64 connections", 10_000, post(topics + "synced", ONE, 64, SECONDS), limit, "acks/s"
        )
    )
    return rows


def batches(topics: str, raw: Raw) -> list[Row]:
    limit = raw.appends("hundred", HUNDRED)
    load = post(topics + "hundred", HUNDRED, 16, SECONDS)
    result = row("append 100 records, 16 connections", 160_000, load, limit, "records/s", times=100, least=0.7)
    result.asked += ", p99 < 60 ms"
    result.ok = bool(result.ok) and load.p99_ms < 60
    return [result]


def reads(client: Client, topics: str, raw: Raw) -> list[Row]:
    limit = raw.diffs("hundred", 0, 1000)
    load = post(topics + "hundred/diff", '{"from_seq":0,"limit":1000}', 8, SECONDS)
    rows = [row("diff, limit 1000, 8 connections", 1_000_000, load, limit, "records/s", times=1000)]
    head = client.call("GET", "topics/hundred")["head_seq"]
    tail = f'{{"from_seq":{head}}}'
    limit = raw.diffs("hundred", head, 256)
    alone = post(topics + "hundred/diff", tail, 1, SECONDS)
    rows.append(
        Row(
            "diff at the tail, nothing new, 1 connection",
            "p50 < 0.6 ms",
            f"p50 {alone.p50_ms:.2f} ms, p99 {alone.p99_ms:.1f} ms",
            f"{1000 / limit:.2f} ms",
            f"{alone.p50_ms * limit / 1000:.2f}",
            alone.p50_ms < 0.6,
        )
    )
    rows.append(
        row(
            "diff at the tail, nothing new, 8 connections",
            8_000,
            post(topics + "hundred/diff", tail, 8, SECONDS),
            limit,
            "reads/s",
        )
    )
    framework = get(topics + "hundred", 8, SECONDS)
    rows.append(
        Row(
            "GET of a topic, 8 connections",
            "≥ 3,000/s",
            f"{framework.rate:,.0f}/s, p50 {framework.p50_ms:.2f} ms, p99 {framework.p99_ms:.1f} ms",
            ok=framework.rate >= 3_000,
        )
    )
    return rows


def sizes(client: Client, topics: str, instance: Instance) -> list[Row]:
    """Returns rows for append and diff of a small and a large topic, and of a topic among few and many topics."""
    rows = []
    with instance.connect() as connection:
        for name, records in (("small", 10_000), ("large", 10_000_000)):
            client.call("PUT", f"topics/{name}", {})
            fill(connection, name, records, int(time.time() * 1000))
        connection.execute("VACUUM ANALYZE topics_record_logged")
        rows += compared(topics, "10 million records against 10,000", ("small", 5_000), ("large", 5_000_000))
        before = [median(topics + "small", ONE), median(topics + "small/diff", middle(5_000))]
        for n in range(10_000):
            client.call("PUT", f"topics/among:{n}", {})
        after = [median(topics + "small", ONE), median(topics + "small/diff", middle(5_000))]
    rows += [
        ratio(f"{call} p50, 10,000 topics against 77", b, a)
        for call, b, a in zip(("append", "diff"), before, after, strict=True)
    ]
    return rows


def middle(seq: int) -> str:
    return f'{{"from_seq":{seq},"limit":100}}'


def median(url: str, body: str) -> float:
    return post(url, body, 1, SECONDS / 2).p50_ms


def compared(topics: str, work: str, small: tuple[str, int], large: tuple[str, int]) -> list[Row]:
    rows = []
    for call, suffix in (("append", ""), ("diff", "/diff")):
        least, most = (median(topics + name + suffix, middle(seq) if suffix else ONE) for name, seq in (small, large))
        rows.append(ratio(f"{call} p50, {work}", least, most))
    return rows


def ratio(work: str, before: float, after: float) -> Row:
    measured = f"{after:.2f} ms against {before:.2f} ms"
    return Row(work, "within 1.25x", measured, "", f"{after / before:.2f}", after / before <= 1.25)


def memory(instance: Instance, topics: str) -> Row:
    """Returns a row for the resident memory of the web workers before and after a million appends of one record."""
    before, appends = resident(instance), 0.0
    while appends < 1_000_000:
        appends += post(topics + "one", ONE, 64, 10).rate * 10
    after = resident(instance)
    grown = (sum(after) - sum(before)) / sum(before)
    shown = f"{mib(before)} before, {mib(after)} after {appends:,.0f} appends"
    return Row(
        "memory of the web workers over 1 million appends",
        "flat (within 10%)",
        shown,
        "",
        f"{1 + grown:.2f}",
        grown < 0.1,
    )


def resident(instance: Instance) -> list[int]:
    """Returns the resident bytes of each web worker, which is a child of the web server."""
    processes = instance.pids("topics_project.web")
    parents = {pid: int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in processes}
    workers = [pid for pid in processes if parents[pid] in processes]
    return [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 for pid in workers]


def mib(sizes: list[int]) -> str:
    return " + ".join(f"{size / 2**20:.0f}" for size in sizes) + " MiB"
