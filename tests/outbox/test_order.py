"""Nothing is lost, nothing comes twice, and the order is the promised one, however transactions overlap (docs/concurrency.md)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from django.db import connection
from hypothesis import example, given, settings
from hypothesis import strategies as st

from base.clock import now_ms
from embedded.folder import make
from embedded.postgres import Postgres
from outbox import relay as relays
from outbox import rows
from outbox.drain import LOOK, look
from outbox.relay import Relay, connect
from outbox.waiting import oldest_ms
from store.codec import numbered
from store.planner import SESSION
from store.script import run
from tests.examples import examples
from tests.instances import RUN_FOLDER, copy_migrated
from tests.outbox.clients import Clients, empty_outbox, finish, read
from topics.cache import forget_all
from topics_project.settings import database

pytestmark = pytest.mark.deep(38)


WRITERS = 4
# A step of a writer, or of the relay. Steps of one writer: it begins when it has to.
STEPS = st.lists(
    st.tuples(
        st.integers(0, WRITERS - 1),
        st.sampled_from(
            ("emit", "emit", "emit", "save", "back", "commit", "commit", "abort", "kill", "relay", "relay")
        ),
    ),
    max_size=60,
)


class Writer:
    """A client whose transactions emit numbers, and the numbers that its open transaction would commit."""

    def __init__(self, session: Clients) -> None:
        self.session, self.made = session, session()
        self.written: list[int] = []
        self.saved: int | None = None

    def emit(self, number: int) -> None:
        if self.made.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            self.made.execute("BEGIN")
        self.made.execute("SELECT topics.emit(%s, %s::text::json)", ["t" if number % 5 else "other", number])
        self.written.append(number)

    def save(self) -> None:
        if self.written and self.saved is None:
            self.made.execute("SAVEPOINT s")
            self.saved = len(self.written)

    def back(self) -> None:
        if self.saved is not None:
            self.made.execute("ROLLBACK TO SAVEPOINT s")
            del self.written[self.saved :]

    def end(self, how: str) -> list[int]:
        """Ends the transaction. Returns the committed numbers."""
        written, self.written, self.saved = self.written, [], None
        if how == "kill":
            with suppress(psycopg.Error):
                self.made.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            self.made = self.session()
            return []
        self.made.execute("COMMIT" if how == "commit" else "ROLLBACK")
        return written if how == "commit" else []


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks and transactions that see a part of the records, so that commits come between them."""
    monkeypatch.setattr(relays, "MOST_LISTED", 5)
    monkeypatch.setattr(rows, "MOST_ROWS", 2)


@pytest.fixture(scope="module")
def tracking() -> Iterator[str]:
    """The URL of a PostgreSQL that tracks the times of commits, with a migrated database."""
    folder = Path(tempfile.mkdtemp(prefix="topics-tracking-", dir=os.environ[RUN_FOLDER]))
    copy_migrated(folder)
    make(folder)
    with (folder / "postgresql" / "postgresql.conf").open("a") as file:
        file.write("track_commit_timestamp = on\n")
    server = Postgres(folder)
    server.start()
    yield server.url
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def tracked(client: Clients, tracking: str) -> Iterator[Clients]:
    """`client` for that PostgreSQL. Django's connection is a session of it, too."""
    ours = connection.settings_dict
    connection.close()
    connection.settings_dict = ours | database(tracking)
    yield client
    connection.close()
    connection.settings_dict = ours
    forget_all()


class Played(NamedTuple):
    """The committed numbers in the order of commits and calls. `before`: by number, those committed when it was emitted."""

    committed: list[int]
    before: dict[int, set[int]]


def play(steps: list[tuple[int, str]], client: Clients) -> Played:
    """Takes the steps on empty topics. Then all writers commit, and the relay moves all records."""
    client().execute("TRUNCATE topics_topic, topics_topichead, topics_record, topics_lasthead CASCADE")
    empty_outbox()
    relay, writers, numbers = Relay(), [Writer(client) for _ in range(WRITERS)], count(1)
    played = Played([], {})

    def take(step: tuple[int, str]) -> None:
        writer, what = writers[step[0]], step[1]
        match what:
            case "emit":
                number = next(numbers)
                played.before[number] = {*played.committed, *writer.written}
                writer.emit(number)
            case "save" | "back":
                getattr(writer, what)()
            case "relay":
                relay.round()
            case _:
                played.committed.extend(writer.end(what))

    for step in steps:
        take(step)
    for n in range(WRITERS):
        take((n, "commit"))
    finish(relay)
    for writer in writers:
        writer.made.close()
    return played


def arrived(committed: list[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the committed numbers of each topic, and those that have arrived there."""
    for name, wanted in (("t", [n for n in committed if n % 5]), ("other", [n for n in committed if not n % 5])):
        yield wanted, read(name) if wanted else []


@pytest.mark.guarantee("W11")
def test_the_order_is_kept(client: Clients, small: None) -> None:
    @settings(max_examples=examples(25))
    @example(
        [(0, "emit"), (0, "emit"), (0, "emit"), (0, "commit"), (0, "emit"), (0, "relay")]
    )  # the look is older than 4
    @given(STEPS)
    def tried(steps: list[tuple[int, str]]) -> None:
        played = play(steps, client)
        for committed, found in arrived(played.committed):
            assert Counter(found) == Counter(committed)
            place = {number: n for n, number in enumerate(found)}
            for number in found:
                assert all(place[other] < place[number] for other in played.before[number] if other in place)

    tried()


@pytest.mark.guarantee("W11")
def test_the_order_is_that_of_commits_if_postgresql_tracks_their_times(tracked: Clients, small: None) -> None:
    """No writer commits before the one before it has its answer. So one order is the right one."""

    @settings(max_examples=examples(15))
    @given(STEPS)
    def tried(steps: list[tuple[int, str]]) -> None:
        for committed, found in arrived(play(steps, tracked).committed):
            assert found == committed

    tried()


def test_a_transaction_that_stays_open_holds_up_nobody(client: Clients, relay: Relay) -> None:
    """Its own records come when it commits, also from between the others."""
    one, long = client(), client()
    with long.transaction():
        long.execute("SELECT topics.emit('t', '\"late\"')")
        for n in range(3):
            one.execute("SELECT topics.emit('t', %s::text::json)", [n])
            finish(relay)
            assert read("t")[-1] == n
    finish(relay)
    assert read("t") == [0, 1, 2, "late"]


def test_a_look_reads_no_dead_entries(client: Clients, relay: Relay) -> None:
    """While a transaction is open, what was moved stays in the index. A look reads what came after it."""
    one, long = client(), client()
    with long.transaction():
        long.execute("SELECT pg_current_xact_id()")
        one.execute("SELECT topics.emit('t', '1') FROM generate_series(1, 3000)")
        finish(relay)
        finish(relay)
        one.execute("SELECT topics.emit('t', '0')")
        one.execute(SESSION)
        text = numbered(LOOK)[0].decode().replace("$1", f"'{relay.seen}'").replace("$2", "100")
        plan = one.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}").fetchone()
        assert plan is not None
        buffers = plan[0][0]["Plan"]
        assert buffers["Shared Hit Blocks"] + buffers["Shared Read Blocks"] < 20


def test_the_age_of_the_oldest_record_is_that_of_the_relays_last_look(client: Clients, relay: Relay) -> None:
    """While a relay drains, nothing reads the table. Its index has all that was moved while a transaction is open."""
    connect()
    one, other = client(), client()
    one.execute("SELECT topics.emit('t', '1')")
    relay.listed.extend(run(look(None, 10)).listed)
    with other.transaction():
        other.execute("LOCK TABLE outbox_emitted IN ACCESS EXCLUSIVE MODE")
        assert run(oldest_ms(now_ms() + 1000)) > 500
    finish(relay)
    finish(relay)
    with other.transaction():
        other.execute("LOCK TABLE outbox_emitted IN ACCESS EXCLUSIVE MODE")
        assert run(oldest_ms(now_ms() + 1000)) == 0
    one.execute("SELECT topics.emit('t', '1')")
    connection.close()  # the relay dies
    assert run(oldest_ms(now_ms() + 1000)) > 500
