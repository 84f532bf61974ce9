"""A crash of PostgreSQL under load takes the unflushed tail of the log. Whoever read it is told, and no seq is given out
twice."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.api.clients import HttpClient
from tests.instances import WHOLE, Instance, until
from tests.watch.wire import Api

WRITERS = 6
CRASHES = 3
MOST_CRASHES = 20  # until a reader was shown what one of them took
LAST = "the last"
SEEN = 300  # records that readers get between two crashes

History = dict[int, set[str]]  # all that anybody was told of a seq


@pytest.fixture
def instance(instances: Callable[..., Instance]) -> Instance:
    return instances(**WHOLE)


class Witness:
    """Notes what was acked and read of one topic, and complains of what nobody was told of."""

    def __init__(self, instance: Instance) -> None:
        self.live = HttpClient(instance.port)
        self.history: History = {}
        self.unexplained: list[tuple[int, int]] = []
        self.read = 0
        self.tombstones = 0
        self.ending = threading.Event()
        self.failed = threading.Event()
        self.lock = threading.Lock()

    def note(self, seq: int, data: str) -> None:
        with self.lock:
            self.history.setdefault(seq, set()).add(data)

    def ask(self, call: Callable[[], Any]) -> Any:
        """The body of an answer; None when there is none, or it is no 200."""
        try:
            answer = call()
        except OSError:
            answer = None
        if answer is None or answer.status != 200:
            time.sleep(0.01)  # the service needs the cores to come back
            return None
        return answer.json

    def fail(self) -> None:
        """Ends the writers, and the readers that would wait for LAST."""
        self.ending.set()
        self.failed.set()

    def wait_for_reads(self) -> None:
        before = self.read
        until(lambda: self.read > before + SEEN, "records to be written and read", 120)

    def write(self, who: int) -> None:
        number = 0
        while not self.ending.is_set():
            number += 1
            data = [f"{who}.{number}.{place}" for place in range(number % 3 + 1)]
            if done := self.ask(partial(self.live.append, "t", *data)):
                for place, each in enumerate(data):
                    self.note(done["first_seq"] + place, each)

    def follow(self) -> None:
        """Reads from a cursor of its own, right behind the writers."""
        seq = 0
        while not self.ending.is_set():
            window = self.ask(partial(self.live.diff, "t", from_seq=seq, wait_ms=200))
            if window is None:
                continue
            lost = window["tombstone"]
            if lost:
                self.tombstones += 1
                assert lost["reason"] == "restart", lost
            after = lost["gap_to"] if lost else seq
            for record in window["records"]:
                if record["$seq"] != after + 1:
                    self.unexplained.append((after, record["$seq"]))
                after = record["$seq"]
                self.note(after, record["data"])
            self.read += len(window["records"])
            seq = window["next_from_seq"]

    def log(self, topic: str = "t") -> dict[int, str]:
        """The data of each record that is there now. A connection that met the crash may refuse the first reads."""
        records: dict[int, str] = {}
        seq, is_caught_up = 0, False
        while not is_caught_up:
            read = partial(self.live.diff, topic, from_seq=seq, limit=1000)
            window = until(partial(self.ask, read), "the log to be read")
            records |= {record["$seq"]: record["data"] for record in window["records"]}
            seq, is_caught_up = window["next_from_seq"], window["caught_up"]
        return records


class Mirror:
    """Holds what a topic shows, and undoes what a tombstone says is no more."""

    def __init__(self) -> None:
        self.held: dict[int, str] = {}
        self.undone = 0

    def undo(self, tombstone: dict[str, Any]) -> None:
        gone = [seq for seq in self.held if seq >= tombstone.get("lost_from", tombstone["gap_from"])]
        self.undone += len(gone)
        for seq in gone:
            del self.held[seq]

    def hold(self, records: list[dict[str, Any]]) -> None:
        self.held |= {record["$seq"]: record["data"] for record in records}

    def follow(self, witness: Witness, topic: str) -> None:
        """By diffs, up to LAST."""
        seq = 0
        while LAST not in self.held.values() and not witness.failed.is_set():
            window = witness.ask(partial(witness.live.diff, topic, from_seq=seq, wait_ms=100))
            if window is None:
                continue
            witness.read += len(window["records"])
            if window["tombstone"]:
                self.undo(window["tombstone"])
            self.hold(window["records"])
            seq = window["next_from_seq"]

    def watch(self, api: Api, topic: str) -> None:
        """By one stream, up to LAST."""
        with api.stream(api.watch({topic: {}})) as stream:
            for event in stream.events():
                if event.name == "tombstone":
                    self.undo(event.data)
                elif event.name == "record":
                    self.hold(event.data["records"])
                    if event.data["records"][-1]["data"] == LAST:
                        return


def kill_a_backend(instance: Instance) -> None:
    """Kill one process of PostgreSQL, and wait until the postmaster has ended all others and has recovered."""
    with instance.connect() as connection:
        pid = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " ORDER BY query_start DESC NULLS LAST LIMIT 1"
        ).fetchone()
        assert pid is not None
        os.kill(pid[0], signal.SIGKILL)
        until(lambda: not answers(connection), "the postmaster to end this connection")
    until(lambda: recovered(instance), "PostgreSQL to recover")


def answers(connection: psycopg.Connection[Any]) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def recovered(instance: Instance) -> bool:
    try:
        instance.connect().close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.guarantee("R1")
def test_what_a_crash_took_back_can_be_undone(instance: Instance) -> None:
    """Readers that were shown records which the crash took, of a topic and of a routed copy, are told from where on to undo."""
    witness, api = Witness(instance), Api(instance.port)
    assert witness.live.put("/v0/topics/t").status == 201
    assert witness.live.put("/v0/routers/r", {"source": "t", "dest": "copy", "from": "earliest"}).status == 201
    mirrors = {name: Mirror() for name in ("t", "copy", "watched t", "watched copy")}
    with ThreadPoolExecutor(WRITERS + len(mirrors)) as pool:
        try:
            work = [pool.submit(witness.write, who) for who in range(WRITERS)]
            work += [pool.submit(mirrors[topic].follow, witness, topic) for topic in ("t", "copy")]
            for topic in "t", "copy":
                work.append(pool.submit(mirrors[f"watched {topic}"].watch, api, topic))
            for _ in range(MOST_CRASHES):
                witness.wait_for_reads()
                if any(mirror.undone for mirror in mirrors.values()):
                    break
                kill_a_backend(instance)
        finally:
            witness.ending.set()
        for writer in work[:WRITERS]:
            writer.result()
        until(lambda: witness.ask(partial(witness.live.append, "t", LAST)), "the last append")
        for each in work:
            each.result()
    for topic in "t", "copy":
        log = witness.log(topic)
        end = min(seq for seq, data in log.items() if data == LAST)  # one without an answer was sent again
        for name in topic, f"watched {topic}":
            held = mirrors[name].held
            assert {seq: data for seq, data in held.items() if log.get(seq) != data} == {}, name
            assert held.keys() >= {seq for seq in log if seq <= end}, name
    assert sum(mirror.undone for mirror in mirrors.values()) > 0


@pytest.mark.guarantee("W5")
def test_no_seq_is_given_out_twice(instance: Instance) -> None:
    witness = Witness(instance)
    assert witness.live.put("/v0/topics/t").status == 201
    with ThreadPoolExecutor(WRITERS + 2) as pool:
        try:
            work = [pool.submit(witness.write, who) for who in range(WRITERS)]
            work += [pool.submit(witness.follow) for _ in range(2)]
            for _ in range(CRASHES):
                witness.wait_for_reads()
                kill_a_backend(instance)
            witness.wait_for_reads()
        finally:
            witness.ending.set()
        for each in work:
            each.result()

    twice = {seq: told for seq, told in witness.history.items() if len(told) > 1}
    assert not twice
    assert not witness.unexplained
    # The log now holds the records that every reader got, except those that a crash took.
    records = witness.log()
    assert all(records.get(seq) in (None, *told) for seq, told in witness.history.items())
    taken = [seq for seq in witness.history if seq not in records]
    with instance.connect() as connection:
        gaps = connection.execute("SELECT first_seq, last_seq FROM topics_span WHERE home_id IS NULL").fetchall()
    assert all(any(first <= seq <= last for first, last in gaps) for seq in taken)
    assert len(gaps) == CRASHES
