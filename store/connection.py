"""A connection of an event loop to PostgreSQL, for the statements of the hot paths: each is prepared once and then goes
straight through libpq (psycopg.pq). psycopg's own AsyncConnection takes 100 µs of the loop for what takes 30 here.

Nobody waits here without a limit: an answer that does not come ends the connection, and whoever asked is told.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import psycopg
from django.conf import settings
from psycopg import pq

from store import liveness, timeouts
from store.codec import FINE, Arguments, Rows, dump, load, numbered, refused
from store.database import check_version

# Plans are for all sizes of a batch and all states of the tables: by index, found once.
SESSION = """
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_mergejoin = off
"""
ANSWER_MS = settings.TOPICS_ANSWER_TIMEOUT_MS  # after which PostgreSQL gives a statement up
# What each new connection runs first: the log adds its look for a crash of PostgreSQL (topics/apps.py).
on_connect: list[str] = []
GRACE_SECONDS = 1.0  # that we wait longer than that: normally PostgreSQL says so itself, and the connection goes on


class Part(NamedTuple):
    """A part of an answer, and when it was here (s)."""

    result: pq.abc.PGresult
    at: float


class Outcome(NamedTuple):
    """What came of a transaction: the rows of each statement, and when the last of them were here (s)."""

    rows: list[Rows]
    at: float


class Connection:
    """One statement at a time. Lives in the event loop that opened it; closed once the server or anybody ends it."""

    def __init__(self, opened: psycopg.AsyncConnection) -> None:
        self.opened = opened  # keeps `server` open, and says what the server notices
        self.server = opened.pgconn
        self.server.nonblocking = 1
        self.socket = self.server.socket
        self.hangup = select.poll()
        self.hangup.register(self.socket, 0)  # POLLERR and POLLHUP are told without being asked for
        self.prepared: dict[str, bytes] = {}
        self.parts: list[Part] = []  # of the answer that is coming in
        self.syncs = 0  # how many ends of transactions it has, in a pipeline
        self.done: asyncio.Future[list[Part]] | None = None
        self.liveness = liveness.here()
        self.since, self.most = 0.0, ANSWER_MS / 1000 + GRACE_SECONDS  # of the wait for an answer
        self.rests_since = 0.0  # while it is idle: by the loop's clock (readers.py)
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self.socket, self.readable)  # also while nothing is asked: then the server has hung up

    @property
    def closed(self) -> bool:
        return self.socket < 0

    @property
    def pipelining(self) -> bool:
        return self.server.pipeline_status != pq.PipelineStatus.OFF

    def fileno(self) -> int:
        return self.socket

    async def execute(self, statement: str, arguments: Arguments = ()) -> Rows:
        """The rows of a statement, a transaction of its own outside of BEGIN and COMMIT. Raises psycopg.Error."""
        name, values = await self.prepare(statement), dump(statement, arguments)
        *_, last = await self.ask(lambda: self.server.send_query_prepared(name, values))
        return load(last.result)

    async def run(self, statements: str) -> None:
        """Statements without arguments, whose rows nobody wants. Raises psycopg.Error."""
        await self.ask(lambda: self.server.send_query(statements.encode()))

    async def together(self, statements: Sequence[tuple[str, Arguments]]) -> tuple[list[Rows], float, float]:
        """The rows of several statements in one transaction and one round trip; when the last of them was through, and when it
        was committed (s). Raises psycopg.Error: then nothing was committed, unless the connection was lost."""
        prepared = [(await self.prepare(statement), dump(statement, arguments)) for statement, arguments in statements]

        def send() -> None:
            self.server.enter_pipeline_mode()
            for name, values in prepared:
                self.server.send_query_prepared(name, values)
            self.server.send_flush_request()  # the rows are here before the disk has them
            self.server.pipeline_sync()  # ends the transaction: committed, or rolled back whole

        *parts, committed = await self.ask(send)
        return [load(part.result) for part in parts], parts[-1].at, committed.at

    async def each(self, transactions: Sequence[Sequence[tuple[str, Arguments]]]) -> list[Outcome | psycopg.Error]:
        """Several transactions in one round trip, and what came of each. Raises psycopg.Error when the connection was lost:
        then nobody knows what of it was committed."""
        outcomes: list[Outcome | psycopg.Error | None] = []
        prepared: list[list[tuple[bytes, list[bytes | None]]]] = []
        for statements in transactions:
            try:
                prepared.append([(await self.prepare(sql), dump(sql, arguments)) for sql, arguments in statements])
                outcomes.append(None)
            except psycopg.DataError as error:
                outcomes.append(error)

        def send() -> None:
            self.server.enter_pipeline_mode()
            for statements in prepared:
                for name, values in statements:
                    self.server.send_query_prepared(name, values)
                self.server.pipeline_sync()

        if prepared:
            answered = iter(by_transaction(await self.talk(send, syncs=len(prepared))))
            self.server.exit_pipeline_mode()
            outcomes = [next(answered) if each is None else each for each in outcomes]
        return outcomes  # type: ignore[return-value]  # none is None any more

    async def prepare(self, statement: str) -> bytes:
        """The name that the server knows a statement by."""
        name = self.prepared.get(statement)
        if name is None:
            name = b"s%d" % len(self.prepared)
            await self.ask(lambda: self.server.send_prepare(name, numbered(statement)[0]))
            self.prepared[statement] = name
        return name

    async def ask(self, send: Callable[[], None]) -> list[Part]:
        """Send something, and wait for the server's whole answer, but not for ever. Raises psycopg.Error."""
        answer = await self.talk(send)
        if self.pipelining:
            self.server.exit_pipeline_mode()
        for part in answer:
            if part.result.status not in FINE:
                raise refused(part.result)
        return answer

    async def talk(self, send: Callable[[], None], syncs: int = 1) -> list[Part]:
        """As ask(), and what the server refuses is part of the answer. `syncs`: the transactions that a pipeline has."""
        if self.closed:
            raise psycopg.OperationalError("the connection is closed")
        self.liveness.check()
        assert self.done is None, "one statement at a time"
        self.done, self.syncs = self.loop.create_future(), syncs
        self.liveness.enter(self)
        try:
            send()
            self.flush()
            answer = await self.done
            self.liveness.heard = self.loop.time()
        except BaseException:  # cancelled, or what was sent is half sent: nobody can tell what comes next
            self.end()
            raise
        finally:
            self.done = None
            self.liveness.leave(self)
        for part in answer:
            if part.result.status not in FINE and fatal(part.result):
                self.end()  # what was sent may have been committed, and must not be sent again here
                raise refused(part.result)
        return answer

    def flush(self) -> None:
        """Send what is left to send, as the socket takes it."""
        if self.server.flush():
            self.loop.add_writer(self.socket, self.writable)

    def writable(self) -> None:
        self.loop.remove_writer(self.socket)
        try:
            self.flush()
        except psycopg.Error as error:
            self.fail(error)

    def readable(self) -> None:
        if self.closed:  # since this call was put off
            return
        server = self.server
        try:
            server.consume_input()
            while not server.is_busy():
                result = server.get_result()
                if result is not None:
                    self.parts.append(Part(result, time.perf_counter()))
                    self.syncs -= result.status == pq.ExecStatus.PIPELINE_SYNC
                    whole = self.pipelining and not self.syncs
                else:
                    # In a pipeline each statement's results end so, and a lost connection's for ever.
                    whole = not self.pipelining or server.status == pq.ConnStatus.BAD
                if whole:
                    self.answer()
                    break
            if self.done is None and server.status == pq.ConnStatus.BAD:
                self.end()
        except psycopg.Error as error:
            self.fail(error)
        # After data and a reset in one, uvloop stops watching the socket and calls nobody again. What is left to read then, at
        # last the reset itself, is read in the next turn of the loop.
        if not self.closed and self.hangup.poll(0):
            self.loop.call_soon(self.readable)

    def answer(self) -> None:
        if self.done is not None and not self.done.done() and self.parts:
            parts, self.parts = self.parts, []
            self.done.set_result(parts)

    def give_up(self, error: psycopg.OperationalError) -> None:
        """No answer comes (liveness.py)."""
        self.fail(error)

    def fail(self, error: psycopg.Error) -> None:
        self.end()
        if self.done is not None and not self.done.done():
            self.done.set_exception(error)

    def end(self) -> None:
        """Close it, from wherever."""
        if not self.closed:
            self.loop.remove_reader(self.socket)
            self.loop.remove_writer(self.socket)
            self.socket = -1
            self.server.finish()

    async def close(self) -> None:
        self.end()
        await self.opened.close()


def by_transaction(parts: list[Part]) -> Iterator[Outcome | psycopg.Error]:
    """What came of each transaction of a pipeline."""
    rows: list[Rows] = []
    error: psycopg.Error | None = None
    at = 0.0
    for part in parts:
        status = part.result.status
        if status == pq.ExecStatus.PIPELINE_SYNC:
            yield error or Outcome(rows, at)
            rows, error = [], None
        elif status in FINE:
            rows.append(load(part.result))
            at = part.at
        elif error is None:  # the statements behind it in its transaction are only said to be left out
            error = refused(part.result)


def fatal(result: pq.abc.PGresult) -> bool:
    """Whether the connection ends with this refusal. A statement left out of a pipeline has no severity."""
    if result.status == pq.ExecStatus.PIPELINE_ABORTED:
        return False
    return result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) != b"ERROR"


async def connect(lock_ms: int = settings.TOPICS_LOCK_TIMEOUT_MS, session: str = "") -> Connection:
    """A connection with Django's settings, and those in `session`. Raises psycopg.Error or NotReady."""
    watched = liveness.here()
    watched.check()
    most = settings.TOPICS_CONNECT_TIMEOUT_MS / 1000 + GRACE_SECONDS
    connecting = asyncio.ensure_future(psycopg.AsyncConnection.connect(**liveness.parameters()))
    connection = Connection(await watched.answered(connecting, most))
    try:
        check_version(connection.server.server_version)
        for statements in on_connect:  # before any limit: to recover from a crash may take its time
            await connection.run(statements)
        await connection.run(f"{SESSION}; {timeouts.session('web', ANSWER_MS, lock_ms)}; {session}")
    except BaseException:
        connection.end()
        raise
    return connection
