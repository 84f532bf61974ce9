"""Writers and readers over HTTP, for tests that run many of them, also in processes of their own."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

from tests.api.clients import HttpClient

Acked = list[tuple[int, list[str]]]  # first seq and data of an append that was acked


def write(port: int, topic: str, who: str, appends: int) -> Acked:
    """Appends of one to five records, one after the other."""
    live, acked = HttpClient(port), []
    for number in range(appends):
        data = [f"{who}.{number}.{place}" for place in range(number % 5 + 1)]
        answer = live.append(topic, *data)
        assert answer.status == 200, answer.body
        acked.append((answer.json["first_seq"], data))
    return acked


def write_in_threads(port: int, topic: str, who: str, threads: int, appends: int) -> Acked:
    with ThreadPoolExecutor(threads) as pool:
        work = [pool.submit(write, port, topic, f"{who}.{thread}", appends) for thread in range(threads)]
        return [append for each in work for append in each.result()]


def write_in_processes(port: int, topic: str, processes: int, threads: int, appends: int) -> Acked:
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        work = [pool.submit(write_in_threads, port, topic, str(each), threads, appends) for each in range(processes)]
        return [append for each in work for append in each.result()]


def read_all(port: int, topic: str, from_seq: int = 0, **body: Any) -> list[dict[str, Any]]:
    """Every record from there to the head."""
    live, records, caught_up = HttpClient(port), [], False
    while not caught_up:
        answer = live.diff(topic, from_seq=from_seq, limit=1000, **body)
        assert answer.status == 200, answer.body
        window = answer.json
        records += window["records"]
        from_seq, caught_up = window["next_from_seq"], window["caught_up"]
    return records
