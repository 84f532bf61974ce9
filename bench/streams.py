"""All measurements of streams, in a separate process, so that their clients do not share an interpreter with others."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from urllib.parse import urlsplit

import uvloop

from bench import watch
from bench.report import Row, line
from bench.watch import Server

WORKS: list[Callable[[Server], Awaitable[Row]]] = [
    watch.one_watcher,
    watch.hundred_watchers,
    watch.thousand_watchers,
    watch.as_fast_as_it_goes,
    watch.thousand_topics,
    watch.replay,
    watch.idle_streams,
]


async def all_rows(base_url: str, only: tuple[str, ...] = ()) -> list[Row]:
    parts = urlsplit(base_url)
    server = Server(parts.hostname or "127.0.0.1", parts.port or 80)
    return [await work(server) for work in WORKS if not only or work.__name__ in only]


def work_apart(base_url: str, only: tuple[str, ...]) -> list[Row]:
    return uvloop.run(all_rows(base_url, only))


def run(base_url: str, only: tuple[str, ...] = ()) -> list[Row]:
    """Returns the rows of all measurements, or of the named ones. They run in a separate process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        return apart.submit(work_apart, base_url, only).result()


if __name__ == "__main__":
    for row in run(sys.argv[1], tuple(sys.argv[2:])):
        print(line(row))
