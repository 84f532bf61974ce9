"""`make bench` runs all sections. `python -m bench watch rooms` runs these two.

The sections are log, calls, traces, caps, keys, share, queues, groups, outbox, routers, push, webhooks, console, gateway, watch,
watchers, rooms, sockets and clients. The options belong to the section caps (bench/caps.py).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterable

from tests.runs import begin_run


def prepare() -> None:
    """Set up Django, because the raw limit uses the product's statements. This process stores nothing."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "topics_project.settings")
    os.environ.setdefault("DATABASE_URL", "postgresql:///unused")
    os.environ.setdefault("REDIS_URL", "redis:///0")
    os.environ.setdefault("SECRET_KEY", "of a bench that keeps nothing and signs nothing, ever")
    os.environ.setdefault("TOPICS_DATA", tempfile.mkdtemp(prefix="topics-bench-"))
    import django

    django.setup()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures an instance on this machine.")
    parser.add_argument("sections", nargs="*", help="sections to run (default: all, and write bench/RESULTS.md)")
    parser.add_argument("--pairs", type=int, default=0, help="caps: pairs of loads for each limit (default 5)")
    parser.add_argument(
        "--minutes", type=float, default=0, help="caps: appends for this number of minutes, without the pairs"
    )
    given = parser.parse_args()
    if (given.pairs or given.minutes) and given.sections != ["caps"]:
        parser.error("--pairs and --minutes belong to the section caps: python -m bench caps --pairs 9")
    if given.pairs < 0 or given.minutes < 0 or (given.pairs and given.minutes):
        parser.error("expected one of --pairs and --minutes, above 0")
    return given


def main() -> None:
    given = arguments()
    prepare()
    from bench import (
        calls,
        caps,
        clients,
        console,
        gateway,
        groups,
        keys,
        load,
        log,
        outbox,
        push,
        queues,
        report,
        room,
        routers,
        share,
        sockets,
        streams,
        traces,
        watch,
        webhooks,
    )
    from tests import instances

    parts: dict[str, tuple[str, Callable[[instances.Instance], Iterable[report.Row]]]] = {
        "log": ("The log", log.run),
        "calls": ("Calls", calls.run),
        "traces": ("Traces", traces.run),
        "caps": (
            "Topics with a cap or a TTL",
            lambda instance: caps.run(instance, given.pairs or caps.PAIRS, given.minutes),
        ),
        "keys": ("Idempotency keys of records", keys.run),
        "share": ("A fair share", share.run),
        "queues": ("Queues", queues.run),
        "groups": ("Consumer groups", groups.run),
        "outbox": ("The outbox", outbox.run),
        "routers": ("Routers", routers.run),
        "push": ("The push bus", push.run),
        "webhooks": ("Webhooks", webhooks.run),
        "console": ("The console", console.run),
        "gateway": ("The gateway", gateway.run),
        "watch": ("Watch", lambda instance: streams.run(instance.url)),
        "watchers": (
            "Watchers, with the default caps",
            lambda instance: streams.run(instance.url, ("thousand_watchers",)),
        ),
        "rooms": ("Rooms", room.run),
        "sockets": ("WebSockets", sockets.run),
        "clients": ("The Python client, beside httpx by hand", clients.run),
    }
    settings: dict[str, dict[str, str]] = {
        "push": watch.NO_CAPS | push.SETTINGS,
        "webhooks": watch.NO_CAPS | webhooks.SETTINGS,
        "watchers": {},
        "share": share.SETTINGS,
    }
    wanted = given.sections or list(parts)
    if unknown := set(wanted) - set(parts):
        raise SystemExit(f"bench: no section {', '.join(sorted(unknown))}: there are {', '.join(parts)}")
    load.require_wrk()
    sections: dict[str, list[report.Row]] = {}
    for name in wanted:
        title, measure = parts[name]
        with instances.start(**settings.get(name, watch.NO_CAPS)) as instance:
            time.sleep(2)  # let the start settle
            where = report.machine(instance.servers.database_url)
            print(f"\n{title}: {where}\n{report.table([])}", flush=True)
            sections[title] = []
            for row in measure(instance):
                print(report.line(row), flush=True)
                sections[title].append(row)
    if set(wanted) == set(parts):
        report.write(sections, where, NOTES, questions=QUESTIONS)


QUESTIONS = {  # a user's question, and the row with its answer
    "one record per append, one client": "append 1 record, disk, 1 connections",
    "one record per append, 64 clients": "append 1 record, disk, 64 connections",
    "one record per append, 64 clients, each on disk before its answer": "append 1 record, fsync, 64 connections",
    "a hundred records per append": "append 100 records, 16 connections",
    "reads of a thousand records": "diff, limit 1000, 8 connections",
    "from the append to a watcher": "1 watcher, 100 appends/s",
    "from the append over a router to a watcher": "one hop, 100 appends/s: ack to a watcher of the dest",
    "a thousand watchers of one topic": "1,000 watchers on one topic, as fast as it goes",
    "from the append to a member of a group, while members leave and join": "10 members leave and 10 join, one each 0.5 s",
    "10,000 records forwarded to a hundred topics": "10,000 records to 100 dests: all visible after the last ack",
    "an append to a topic of ten million records, and of ten thousand": "append p50, 10 million records against 10,000",
}
NOTES = """The load comes from `wrk` (Debian's package, one thread). One Python client on one connection times single calls.
Records have about 110 bytes of JSON.

The raw limit is psycopg alone on one connection. In the same run it executes the server's own statement with the same rows
in the same PostgreSQL. The ratio is the measured figure divided by the raw limit. Several connections can beat the raw
limit, because their appends share transactions.

An append of one record on one connection takes about 0.37 ms. Its parts were timed apart, in one process on PostgreSQL 15, as the
10th percentile of 3,000 runs:

| part of an append | µs |
|---|---|
| HTTP: parse the request, write the answer | 15 |
| a task for the call | 23 |
| route, key, caps, body | 33 |
| the call: JSON, checks of the record, the answer's body | 57 |
| the line of appends that share a transaction, and the wake-up of readers | 31 |
| a round trip to PostgreSQL, with an empty statement | 79 |
| the statement in PostgreSQL: the head and the record | 120 |
| its commit, which does not wait for the disk | 7 |

So PostgreSQL has 0.2 ms of it, and a client that wants more from one connection appends several records at once."""


if __name__ == "__main__":
    begin_run("bench", memory=False)
    main()
