"""A connection of an event loop to PostgreSQL, for the statements of the hot paths.

Each statement is prepared once and then sent through libpq (psycopg.pq). A statement takes 30 µs of the loop here, and 100 µs
with psycopg's AsyncConnection. Each wait has a limit. If no answer comes, the connection is closed and the caller gets an error.
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

from base.descriptors import reserve
from base.slot import Slot
from store import liveness, planner, serving, timeouts
from store.codec import FINE, Arguments, Rows, dump, load, numbered, refused
from store.database import check_version
from store.session import RELIED_ON

ANSWER_MS = settings.TOPICS_ANSWER_TIMEOUT_MS  # PostgreSQL cancels a statement after this time
# Statements that each new connection runs first, before its limits are set, because recovery from a crash may take long.
on_connect: Slot[str] = Slot()
# Extra wait after ANSWER_MS. Normally PostgreSQL cancels the statement in this time, and the connection stays usable.
GRACE_SECONDS = 1.0
READ_ONLY = b"25006"  # the SQLSTATE of a write where PostgreSQL takes none


class AnswerPart(NamedTuple):
    """A part of an answer, and its arrival (s)."""

    result: pq.abc.PGresult
    at: float


class TransactionOutcome(NamedTuple):
    """The outcome of a transaction: the rows of each statement, and the arrival of the last rows (s)."""

    rows: list[Rows]
    at: float


class Connection:
    """A connection that runs one statement at a time, in the event loop that opened it.

    The server or any caller can close it.
    """

    def __init__(self, opened: psycopg.AsyncConnection) -> None:
        self.opened = opened  # keeps `server` open, and passes on the server's notices
        self.server = opened.pgconn
        self.server.nonblocking = 1
        self.socket = self.server.socket
        self.hangup, self.quiet = select.poll(), select.poll()
        self.hangup.register(self.socket, 0)  # poll() always reports POLLERR and POLLHUP
        self.quiet.register(self.socket, select.POLLIN)
        self.prepared: dict[str, bytes] = {}
        self.parts: list[AnswerPart] = []  # parts of the arriving answer
        self.syncs = 0  # ends of transactions that are still to come, in a pipeline
        self.done: asyncio.Future[list[AnswerPart]] | None = None
        self.liveness = liveness.here()
        self.since, self.most = 0.0, ANSWER_MS / 1000 + GRACE_SECONDS  # start and limit of the wait for an answer
        self.rests_since = 0.0  # start of the idle time, by the loop's clock (pool.py)
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self.socket, self.readable)  # an idle socket becomes readable if the server has hung up

    @property
    def closed(self) -> bool:
        return self.socket < 0

    @property
    def pipelining(self) -> bool:
        return self.server.pipeline_status != pq.PipelineStatus.OFF

    def hung_up(self) -> bool:
        """Returns whether the idle connection has ended. It is readable only if the server has closed it."""
        return self.socket < 0 or bool(self.quiet.poll(0))

    async def execute(self, statement: str, arguments: Arguments = ()) -> Rows:
        """Returns the rows of a statement, which outside of BEGIN and COMMIT is its own transaction. Raises psycopg.Error."""
        name, values = await self.prepare(statement), dump(statement, arguments)
        *_, last = await self.ask(lambda: self.server.send_query_prepared(name, values))
        return load(last.result)

    async def run(self, statements: str) -> None:
        """Run statements without arguments and discard their rows. Raises psycopg.Error."""
        await self.ask(lambda: self.server.send_query(statements.encode()))

    async def together(self, statements: Sequence[tuple[str, Arguments]]) -> tuple[list[Rows], float, float]:
        """Run several statements in one transaction and one round trip.

        Returns the rows of each, the end of the last statement, and the time of the commit (s). Raises psycopg.Error. Then
        nothing was committed, unless the connection was lost.
        """
        prepared = [(await self.prepare(statement), dump(statement, arguments)) for statement, arguments in statements]

        def send() -> None:
            self.server.enter_pipeline_mode()
            for name, values in prepared:
                self.server.send_query_prepared(name, values)
            self.server.send_flush_request()  # the rows arrive before they are on disk
            self.server.pipeline_sync()  # commits the transaction, or rolls all of it back

        *parts, committed = await self.ask(send)
        return [load(part.result) for part in parts], parts[-1].at, committed.at

    async def each(
        self, transactions: Sequence[Sequence[tuple[str, Arguments]]]
    ) -> list[TransactionOutcome | psycopg.Error]:
        """Run several transactions in one round trip. Returns the outcome or the error of each.

        Raises psycopg.Error if the connection was lost. Then it is unknown which transactions were committed.
        """
        outcomes: list[TransactionOutcome | psycopg.Error | None] = []
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
        return outcomes  # type: ignore[return-value]  # every None was replaced

    async def prepare(self, statement: str) -> bytes:
        """Prepare a statement unless it is prepared. Returns its name on the server."""
        name = self.prepared.get(statement)
        if name is None:
            name = b"s%d" % len(self.prepared)
            await self.ask(lambda: self.server.send_prepare(name, numbered(statement)[0]))
            self.prepared[statement] = name
        return name

    async def ask(self, send: Callable[[], None]) -> list[AnswerPart]:
        """Call `send` and wait for the server's whole answer, within the limit. Raises psycopg.Error."""
        answer = await self.talk(send)
        if self.pipelining:
            self.server.exit_pipeline_mode()
        for part in answer:
            if part.result.status not in FINE:
                raise refused(part.result)
        return answer

    async def talk(self, send: Callable[[], None], syncs: int = 1) -> list[AnswerPart]:
        """Like ask(), but refusals of the server are parts of the answer. `syncs`: the number of transactions in a pipeline."""
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
        except BaseException:  # cancelled, or only half of the request was sent: the next answer would be ambiguous
            self.end()
            raise
        finally:
            self.done = None
            self.liveness.leave(self)
        for part in answer:
            if part.result.status not in FINE and fatal(part.result):
                self.end()  # the statement may have been committed, and must not be sent again here
                raise refused(part.result)
        return answer

    def flush(self) -> None:
        """Send the unsent data. If the socket does not take all of them, writable() continues."""
        if self.server.flush():
            self.loop.add_writer(self.socket, self.writable)

    def writable(self) -> None:
        self.loop.remove_writer(self.socket)
        try:
            self.flush()
        except psycopg.Error as error:
            self.fail(error)

    def readable(self) -> None:
        if self.closed:  # closed after this call was scheduled
            return
        server = self.server
        try:
            server.consume_input()
            while not server.is_busy():
                result = server.get_result()
                if result is not None:
                    self.parts.append(AnswerPart(result, time.perf_counter()))
                    self.syncs -= result.status == pq.ExecStatus.PIPELINE_SYNC
                    whole = self.pipelining and not self.syncs
                else:
                    # In a pipeline, None ends the results of each statement. A lost connection returns only None.
                    whole = not self.pipelining or server.status == pq.ConnStatus.BAD
                if whole:
                    self.answer()
                    break
            if self.done is None and server.status == pq.ConnStatus.BAD:
                self.end()
        except psycopg.Error as error:
            self.fail(error)
        # If data and a reset arrive together, uvloop stops watching the socket and makes no more calls. So the next turn of the
        # loop reads the rest, and at last the reset itself.
        if not self.closed and self.hangup.poll(0):
            self.loop.call_soon(self.readable)

    def answer(self) -> None:
        if self.done is not None and not self.done.done() and self.parts:
            parts, self.parts = self.parts, []
            self.done.set_result(parts)

    def give_up(self, error: psycopg.OperationalError) -> None:
        """End the wait with this error, because no answer came (liveness.py)."""
        self.fail(error)

    def fail(self, error: psycopg.Error) -> None:
        self.end()
        if self.done is not None and not self.done.done():
            self.done.set_exception(error)

    def end(self) -> None:
        """Close the connection. Any caller may call this at any time."""
        if not self.closed:
            self.loop.remove_reader(self.socket)
            self.loop.remove_writer(self.socket)
            self.socket = -1
            self.server.finish()

    async def close(self) -> None:
        self.end()
        await self.opened.close()


def by_transaction(parts: list[AnswerPart]) -> Iterator[TransactionOutcome | psycopg.Error]:
    """Yields the outcome or the error of each transaction of a pipeline."""
    rows: list[Rows] = []
    error: psycopg.Error | None = None
    at = 0.0
    for part in parts:
        status = part.result.status
        if status == pq.ExecStatus.PIPELINE_SYNC:
            yield error or TransactionOutcome(rows, at)
            rows, error = [], None
        elif status in FINE:
            rows.append(load(part.result))
            at = part.at
        elif error is None:  # later statements of this transaction only report that they were skipped
            error = refused(part.result)


def fatal(result: pq.abc.PGresult) -> bool:
    """Returns whether the connection ends with this refusal. A skipped statement of a pipeline has no severity.

    It also ends where PostgreSQL takes no writes, because a new connection may lead to a server that does.
    """
    if result.status == pq.ExecStatus.PIPELINE_ABORTED:
        return False
    if result.error_field(pq.DiagnosticField.SQLSTATE) == READ_ONLY:
        return True
    return result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) != b"ERROR"


async def connect(lock_ms: int = settings.TOPICS_LOCK_TIMEOUT_MS, session: str = "") -> Connection:
    """Returns a connection with Django's settings and the settings in `session`. Raises psycopg.Error or NotReady."""
    watched = liveness.here()
    watched.check()
    most = settings.TOPICS_CONNECT_TIMEOUT_MS / 1000 + GRACE_SECONDS
    with reserve.room():
        connecting = asyncio.ensure_future(psycopg.AsyncConnection.connect(**liveness.parameters()))
        connection = Connection(await watched.answered(connecting, most))
    try:
        check_version(connection.server.server_version)
        await connection.run(RELIED_ON)
        await connection.run(on_connect.value)
        if serving.process.holds:
            await connection.run(serving.HOLD)
        await connection.run(f"{planner.SESSION}; {timeouts.session('web', ANSWER_MS, lock_ms)}; {session}")
    except BaseException:
        connection.end()
        raise
    return connection
