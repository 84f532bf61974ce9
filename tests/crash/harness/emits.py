"""Sessions that emit in transactions of every kind, with the record of what each transaction emitted and how it ended."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import psycopg

from tests.crash.harness.client import Unanswered
from tests.crash.harness.evidence import COMMITTED, UNDONE, UNKNOWN, Emit, Transaction, now
from tests.crash.harness.load import Hand, Stage
from tests.crash.harness.topology import KEEP, NODES, TOPICS, Written
from tests.instances import Instance

SHORT, LONG = (0.0, 0.05), (1.0, 8.0)  # seconds that a transaction stays open
EMITTED = [topic.name for topic in TOPICS if topic.written == "emit"]
ALLOWS_TWO_PHASE = "SELECT current_setting('max_prepared_transactions')::int > 0"
PREPARED = "SELECT gid FROM pg_prepared_xacts WHERE gid = %s"
WAITING = "SELECT (SELECT count(*) FROM outbox_emitted) + (SELECT count(*) FROM outbox_waiting)"
# A client that holds a connection while PostgreSQL is away must not wait longer than any fault lasts.
AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)
OPTIONS = {"connect_timeout": 5, "options": "-c statement_timeout=20s"}


class Emitter(Hand):
    """Runs transactions one after the other. Some roll back, some roll back to a savepoint."""

    def __init__(self, stage: Stage, instance: Instance, number: int, hold: tuple[float, float]) -> None:
        super().__init__(stage, f"emitter-{number}")
        self.instance, self.hold, self.number = instance, hold, 0
        self.made = self.evidence.emits
        self.session: psycopg.Connection[Any] | None = None

    def step(self) -> None:
        try:
            if self.session is None:
                self.session = self.instance.connect(**OPTIONS)
            self.transact(self.session)
        except (*AWAY, AssertionError) as error:
            # PostgreSQL is away or read only, its disk is full, or no connection is left. Nothing else may refuse an emit.
            if self.session is not None:
                self.session.close()
                self.session = None
            raise Unanswered(repr(error)) from error

    def transact(self, session: psycopg.Connection[Any]) -> None:
        made = self.begin(session)
        if self.random.random() < 0.15:
            session.execute("ROLLBACK")
            return
        made.outcome = UNKNOWN
        session.execute("COMMIT")
        made.answered, made.outcome = now(), COMMITTED
        if self.random.random() < 0.5:
            session.execute("NOTIFY topics")

    def begin(self, session: psycopg.Connection[Any]) -> Transaction:
        """Emits in a transaction, which stays open. Until it is told to commit, nothing of it may arrive."""
        made = Transaction(self.name)
        self.made.append(made)
        session.execute("BEGIN")
        made.emits += self.emit(session, self.random.choice((1, 1, 2, 4)))
        self.stopping.wait(self.random.uniform(*self.hold))
        if self.random.random() < 0.2:
            undone = Transaction(self.name)
            self.made.append(undone)
            session.execute("SAVEPOINT s")
            undone.emits += self.emit(session, 2)
            session.execute("ROLLBACK TO SAVEPOINT s")
        made.emits += self.emit(session, self.random.choice((0, 1)))
        return made

    def emit(self, session: psycopg.Connection[Any], count: int) -> list[Emit]:
        found = []
        for _ in range(count):
            self.number += 1
            topic, tag = self.random.choice(EMITTED), KEEP
            data = Written(topic, self.name.rsplit("-", 1)[1], self.number, 0, 1, tag, NODES[0]).data()
            found.append(Emit(now(), topic, data))
            session.execute("SELECT topics.emit(%s, to_json(%s::text), %s, %s)", (topic, data, tag, NODES[0]))
        return found


class TwoPhaseEmitter(Emitter):
    """Prepares its transactions, where the server allows it, and commits or rolls them back after a while."""

    prepared: tuple[str, Transaction, str] | None = None  # its name, and how it will end

    def transact(self, session: psycopg.Connection[Any]) -> None:
        if self.prepared is None:
            if session.execute(ALLOWS_TWO_PHASE).fetchone() != (True,):
                super().transact(session)
                return
            made = self.begin(session)
            end = self.random.choice(("COMMIT", "COMMIT", "ROLLBACK"))
            made.outcome = UNDONE if end == "ROLLBACK" else UNKNOWN
            self.prepared = f"{self.name}.{self.number}", made, end
            session.execute(f"PREPARE TRANSACTION '{self.prepared[0]}'")
            self.stopping.wait(self.random.uniform(*self.hold))
        name, made, end = self.prepared
        # Perhaps it was lost before it was prepared, or the answer to its end was lost.
        if session.execute(PREPARED, (name,)).fetchone():
            session.execute(f"{end} PREPARED '{name}'")
            if end == "COMMIT":
                made.answered, made.outcome = now(), COMMITTED
        self.prepared = None


def emitters(stage: Stage, instance: Instance) -> list[Hand]:
    short: list[Hand] = [Emitter(stage, instance, number, SHORT) for number in range(3)]
    return [*short, Emitter(stage, instance, 3, LONG), TwoPhaseEmitter(stage, instance, 4, (0.0, 3.0))]


def allow_two_phase(instance: Instance) -> None:
    """Holds from the next start of PostgreSQL on."""
    with (instance.data / "postgresql" / "postgresql.conf").open("a") as file:
        file.write("\nmax_prepared_transactions = 10\n")


def wait_until_moved(connection: psycopg.Connection[Any], patience: float) -> int:
    """Waits as long as records leave the outbox. Returns how many are left. What is prepared still is rolled back before."""
    for (name,) in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
        with contextlib.suppress(psycopg.errors.UndefinedObject):
            connection.execute(f"ROLLBACK PREPARED '{name}'")
    least, deadline = 10**9, time.monotonic() + patience
    while time.monotonic() < deadline:
        ((left,),) = connection.execute(WAITING).fetchall()
        if left == 0:
            return 0
        if left < least:
            least, deadline = left, time.monotonic() + patience
        time.sleep(0.2)
    return least
