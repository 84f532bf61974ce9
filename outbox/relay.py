"""The relay: moves emitted records to their topics. Each worker has one, in a thread of its own. One drains, the others stand by.

All state is in PostgreSQL. A relay that dies loses nothing, because each of its transactions both takes records from the outbox
and appends them. So two relays can drain at once for a moment. The lock only spares them that.
"""

from __future__ import annotations

import logging
import math
import select
import threading
import time
from collections import deque
from itertools import islice

import psycopg
from django.conf import settings
from django.db import DatabaseError, connection

from base.clock import now_ms
from base.errors import InvalidRequest, Outdated, TopicsError
from base.threads import start_thread
from outbox.drain import LOCK, FoundRecord, Look, TurnLost, drain, look, set_aside
from outbox.rows import MOST_ROWS, first_of
from outbox.snapshots import SnapshotChunk, fail, look_with, next_snapshot, send, tend
from outbox.waiting import due, is_due, next_ts, stay, try_again
from store import disk, server_clock, timeouts
from store.database import prepared
from store.script import Script, Statement, run
from topics import limits, wake
from topics.append.appending import known_topic
from topics.heads import NAMED_HEAD

log = logging.getLogger(__name__)
LEAST_SECONDS, MOST_SECONDS = 0.02, 0.25  # between two looks, while records arrive and a minute after the last
SLOWER = (MOST_SECONDS - LEAST_SECONDS) / 60
STANDBY_SECONDS = 1.0  # between two tries for the lock
AWAY_SECONDS = 1.0  # after PostgreSQL did not answer, or while no record can be written
WHOLE_SECONDS = 60.0  # between two looks at all entries: rows of a restored backup have the ids of other transactions
MOST_LISTED = 50_000  # rows of one look: they are sorted, and the relay holds the list in memory
SNAPSHOT_SECONDS = (
    1.0  # until the next search for a snapshot, after none was found, or a chunk could not be read or appended
)
MOST_TRIES = 20  # of stopped topics, between two looks
MOST_WOKEN = 100  # topics of notifications, between two looks

TRY_TURN = f"SELECT pg_try_advisory_lock({LOCK})"


class Relay:
    """The turn of one relay, from the lock on. It ends with the session that holds the lock."""

    def __init__(self) -> None:
        self.session = connection.connection
        self.most = MOST_ROWS  # rows of the next transaction. Fewer after PostgreSQL refused one of them
        self.listed: deque[FoundRecord] = deque()
        self.seen: str | None = None  # the snapshot of the last whole look
        self.is_whole = True  # the last look listed all that was new
        self.whole_at = -math.inf  # of the last look that began with nothing seen
        self.arrived_at = time.monotonic()  # of the last records
        self.places: dict[str, int] = {}  # of stopped topics: no record waits up to this place
        self.due_ts: int | None = 0  # when the next stopped topic is due
        self.snapshots = Snapshots()

    def round(self) -> bool:
        """Does one bounded step. Returns whether more is left to do at once."""
        server_clock.follow()  # as the tasks of a worker do, which run in other processes
        if connection.connection is not self.session:
            raise TurnLost
        self.hear(0)
        disk.check()
        if not self.listed:
            if time.monotonic() - self.whole_at > WHOLE_SECONDS:
                self.seen, self.whole_at = None, time.monotonic()
                run(tend())
            self.snapshots.send()  # all records that the last look listed are moved
            found = self.snapshots.look(self.seen, MOST_LISTED) or run(look(self.seen, MOST_LISTED))
            self.listed.extend(found.listed)
            self.seen, self.is_whole = found.seen, len(found.listed) < MOST_LISTED
        if self.listed:
            self.arrived_at = time.monotonic()
            self.drain()
        more = self.try_stopped()
        return bool(self.listed) or not self.is_whole or more or self.snapshots.chunk is not None

    def drain(self) -> None:
        count = first_of(each.size for each in islice(self.listed, self.most))
        first = list(islice(self.listed, count))
        if limits.MOST_TOTAL_BYTES:
            run(limits.check_total_bytes(sum(each.size for each in first)))
        try:
            appends = run(drain(first, now_ms()))
        except Outdated:
            return  # the next round looks the topics up again
        except InvalidRequest as error:  # of PostgreSQL, which undid the whole transaction
            if count > 1:
                self.most = count // 2
                return
            run(set_aside(first[0], error, now_ms()))
            self.due_ts = 0
        else:
            self.most = MOST_ROWS
            if appends.refused:
                self.due_ts = 0
        for _ in first:
            self.listed.popleft()

    def try_stopped(self) -> bool:
        """Tries stopped topics that are due. Returns whether one of them has more records to try at once."""
        if self.due_ts is None or not is_due(self.due_ts, now_ms()):
            return False
        more = False
        for name in run(due(now_ms(), MOST_TRIES)):
            try:
                tried = run(try_again(name, self.places.get(name, 0), now_ms()))
            except Outdated:
                more = True
                continue
            except InvalidRequest as error:
                run(stay(name, error, now_ms()))
                continue
            self.places[name] = tried.place
            more |= tried.more
        self.due_ts = run(next_ts())
        if self.due_ts is None:
            self.places.clear()
        return more

    def rest(self) -> None:
        """Waits until it is time for the next look, or until a client says NOTIFY topics."""
        since = time.monotonic() - self.arrived_at
        self.hear(min(LEAST_SECONDS + SLOWER * since, MOST_SECONDS))

    def hear(self, seconds: float) -> None:
        """Waits for notifications, at most this long. One with a topic's name tells of an append by SQL: it wakes the readers."""
        heard = notified(seconds)
        if "" in heard and self.due_ts is not None:
            self.due_ts = 0  # an operator may want a stopped topic to be tried
        for name in sorted(heard - {""})[:MOST_WOKEN]:
            run(wake_readers(name))


class Snapshots:
    """The snapshots of captured tables, chunk by chunk, each table in turn."""

    def __init__(self) -> None:
        self.chunk: SnapshotChunk | None = None
        self.last_id = 0  # of the capture whose chunk was read last
        self.next_at = 0.0  # no table is read before

    def look(self, seen: str | None, most: int) -> Look | None:
        """Looks at the outbox, and reads a chunk of the next table in the same snapshot. Returns None if no table is due."""
        if time.monotonic() < self.next_at:
            return None
        snapshot = run(next_snapshot(self.last_id))
        if snapshot is None:
            self.next_at = time.monotonic() + SNAPSHOT_SECONDS
            return None
        self.last_id = snapshot.id
        try:
            found, self.chunk = run(look_with(snapshot, seen, most))
        except (TopicsError, psycopg.Error, DatabaseError) as error:
            self.next_at = time.monotonic() + SNAPSHOT_SECONDS
            run(fail(snapshot, str(error).strip().partition("\n")[0], now_ms()))  # raises if PostgreSQL is away
            return None
        return found

    def send(self) -> None:
        """Appends the chunk. The caller has moved all records of the look that read it."""
        chunk, self.chunk = self.chunk, None
        if chunk is not None and not run(send(chunk, now_ms())):
            self.next_at = time.monotonic() + SNAPSHOT_SECONDS


def notified(seconds: float) -> set[str]:
    """Returns the texts of the notifications on this thread's connection. Waits for one, at most this long.

    Raises psycopg.Error if the connection ends.
    """
    assert connection.connection is not None
    server, texts = connection.connection.pgconn, set[str]()
    if not (first := server.notifies()):
        select.select([server.socket], [], [], seconds)
        server.consume_input()
        first = server.notifies()
    while first:
        texts.add(first.extra.decode(errors="replace"))
        first = server.notifies()
    return texts


def wake_readers(name: str) -> Script[None]:
    """Wakes the readers of a topic that another session has appended to. Without it, they look within a second."""
    for id, head_seq in (yield Statement(NAMED_HEAD, (name,))):
        topic = yield from known_topic(name)
        if topic is not None and topic.id == id:
            wake.moved(topic, head_seq)


def serve(stopping: threading.Event) -> None:
    """Drains until the process stops. Raises TurnLost, and TopicsError or psycopg.Error if PostgreSQL is away."""
    relay = Relay()
    while not stopping.is_set():
        if not relay.round():
            relay.rest()


def connect() -> None:
    """Opens this thread's connection. Raises psycopg.Error or DatabaseError."""
    session = timeouts.session("relay", settings.TOPICS_WORKER_STATEMENT_TIMEOUT_MS)
    with connection.cursor() as cursor:
        cursor.execute(session)


def listen() -> None:
    """Called with the turn alone: libpq keeps the notifications of a session that does not take them."""
    with connection.cursor() as cursor:
        cursor.execute("LISTEN topics")


class RelayProcess:
    """The relay of this process."""

    def __init__(self) -> None:
        self.stopping = threading.Event()

    def start(self) -> None:
        start_thread("relay", self.run_forever)

    def stop(self) -> None:
        self.stopping.set()

    def run_forever(self) -> None:
        """Takes the turn when it is free, and drains. Continues after every error."""
        told = ""
        while not self.stopping.is_set():
            try:
                if connection.connection is None:
                    connect()
                if not prepared(TRY_TURN, ())[0][0]:
                    self.stopping.wait(STANDBY_SECONDS)
                    continue
                told = ""
                listen()
                serve(self.stopping)
            except TurnLost:
                log.warning("Another relay moves the emitted records")
            except (TopicsError, psycopg.Error, DatabaseError) as error:
                if (line := str(error).strip().partition("\n")[0]) != told:
                    log.warning("The relay waits: %s. It tries again", line)
                    told = line
            except Exception:
                log.exception("The relay failed. It begins again")
            connection.close()
            self.stopping.wait(AWAY_SECONDS)
        connection.close()


process = RelayProcess()
