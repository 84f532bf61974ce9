"""A topic that cannot take a record stops itself alone, keeps its order, and goes on when it can."""

from __future__ import annotations

import pytest

from base.clock import now_ms
from base.errors import NotFound, Throttled
from outbox.relay import Relay
from outbox.waiting import LOCK, next_ts, retry, skip, waiting
from store.script import run
from tests.outbox.clients import Client, Clients, finish, read
from tests.scripts import diff, put_topic
from topics import limits
from topics.config import Config
from topics.read.diff import Diff


def emit(client: Client, topic: str, *numbers: int, **named: str) -> None:
    for number in numbers:
        client.execute("SELECT topics.emit(%s, %s::text::json, key => %s)", [topic, number, named.get("key")])


def told() -> dict[str, tuple[int, str | None]]:
    return {each.topic: (each.records, each.code) for each in run(waiting())}


def again(relay: Relay) -> None:
    run(retry(None))
    relay.due_ts = 0
    finish(relay)


def test_a_sealed_topic_stops_no_other(client: Clients, relay: Relay) -> None:
    one = client()
    put_topic("sealed", Config(sealed=True), now_ms())
    emit(one, "sealed", 1, 2)
    emit(one, "open", 1)
    finish(relay)
    emit(one, "sealed", 3)
    emit(one, "open", 2)
    finish(relay)
    assert read("open") == [1, 2]
    assert told() == {"sealed": (3, "topic_sealed")}
    put_topic("sealed", Config(sealed=False), now_ms())
    again(relay)
    assert read("sealed") == [1, 2, 3]
    assert told() == {}


def test_a_sealed_topic_gets_no_loss_of_a_captured_table(client: Clients, relay: Relay) -> None:
    one = client()
    one.execute(
        "DROP SCHEMA IF EXISTS shop CASCADE; CREATE SCHEMA shop; CREATE TABLE shop.t (id int PRIMARY KEY, note text)"
    )
    one.execute("SELECT topics.capture('shop.t', 'sealed')")
    one.execute("INSERT INTO shop.t VALUES (1, 'x')")
    finish(relay)
    put_topic("sealed", Config(sealed=True), now_ms())
    one.execute("INSERT INTO shop.t VALUES (2, repeat('x', 1048576))")
    finish(relay)
    assert diff("sealed", Diff(from_seq=1, limit=1), now_ms()).head_seq == 1
    assert told() == {"sealed": (1, "topic_sealed")}
    put_topic("sealed", Config(sealed=False), now_ms())
    again(relay)
    window = diff("sealed", Diff(from_seq=1, limit=1), now_ms())
    assert (window.lost, window.gap_to, window.head_seq, told()) == ("capture", 2, 2, {})
    one.execute("DROP SCHEMA shop CASCADE; TRUNCATE outbox_capture")


def test_a_pause_that_a_clock_ahead_has_set_is_over(client: Clients, relay: Relay) -> None:
    one = client()
    put_topic("sealed", Config(sealed=True), now_ms())
    emit(one, "sealed", 1)
    finish(relay)
    put_topic("sealed", Config(sealed=False), now_ms())
    one.execute("UPDATE outbox_stopped SET next_ts = next_ts + 3600000")
    relay.due_ts = run(next_ts())
    finish(relay)
    assert (read("sealed"), told()) == ([1], {})


def test_a_full_topic_takes_what_fits(client: Clients, relay: Relay) -> None:
    one = client()
    put_topic("full", Config(cap_records=5, discard="reject"), now_ms())
    emit(one, "full", *range(8))
    finish(relay)
    assert read("full") == [0, 1, 2, 3, 4]
    assert told() == {"full": (3, "topic_full")}
    put_topic("full", Config(cap_records=7), now_ms())
    again(relay)
    assert read("full") == [*range(7)]
    assert told() == {"full": (1, "topic_full")}


def test_a_number_beyond_a_double_stops_a_topic_that_refuses_it(client: Clients, relay: Relay) -> None:
    one = client()
    put_topic("amounts", Config(numbers="double"), now_ms())
    for topic, data in (("amounts", "1"), ("amounts", "[1e400]"), ("amounts", "3"), ("other", "1e400")):
        one.execute("SELECT topics.emit(%s, %s::text::json)", [topic, data])
    finish(relay)
    assert (read("amounts"), told()) == ([1], {"amounts": (2, "invalid_request")})
    run(skip("amounts"))
    again(relay)
    assert (read("amounts"), told()) == ([1, 3], {})


def test_a_cap_on_all_bytes_pauses_every_topic(client: Clients, relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    one = client()
    emit(one, "t", 1)
    finish(relay)
    emit(one, "t", 2)
    emit(one, "other", 1)
    monkeypatch.setattr(limits, "MOST_TOTAL_BYTES", 2)
    monkeypatch.setattr(limits, "_total", [0.0, 0])
    with pytest.raises(Throttled) as error:
        finish(relay)
    assert told() == {"t": (1, "throttled"), "other": (1, "throttled")}
    assert {each.reason for each in run(waiting())} == {error.value.message}
    monkeypatch.undo()
    finish(relay)
    assert (read("t"), read("other"), told()) == ([1, 2], [1], {})


def test_a_refused_record_can_be_skipped(client: Clients, relay: Relay) -> None:
    one = client()
    emit(one, "t", 1, key="k")
    emit(one, "t", 2)
    emit(one, "t", 3, key="k")  # other bytes under the same key
    emit(one, "t", 4)
    finish(relay)
    assert read("t") == [1, 2]
    assert told() == {"t": (2, "idempotency_mismatch")}
    assert run(skip("t")) == ("3", None, "k")
    relay.due_ts = 0
    finish(relay)
    assert read("t") == [1, 2, 4]
    assert one.execute("SELECT action, kind, name, before->>'data' FROM topics_auditentry").fetchall() == [
        ("skip", "outbox", "t", "3")
    ]
    with pytest.raises(NotFound):
        run(skip("t"))
    with pytest.raises(NotFound):
        run(retry("t"))


def test_a_held_topic_stops_no_other(client: Clients, relay: Relay) -> None:
    one, holder = client(), client()
    emit(one, "held", 0)
    finish(relay)
    with holder.transaction():
        holder.execute("SELECT FROM topics_topichead FOR UPDATE")
        emit(one, "held", 1)
        emit(one, "free", 1)
        finish(relay)
        assert read("free") == [1]
        assert told() == {"held": (1, "not_ready")}
    again(relay)
    assert read("held") == [0, 1]


def test_a_topic_that_another_transaction_creates_stops_no_other(client: Clients, relay: Relay) -> None:
    one, creator = client(), client()
    with creator.transaction():
        creator.execute("""SELECT topics.append('new', '[{"data": 0}]')""")
        emit(one, "new", 1)
        emit(one, "free", 1)
        finish(relay)
        emit(one, "new", 2)
        emit(one, "free", 2)
        again(relay)
        assert read("free") == [1, 2]
        assert told() == {"new": (2, "not_ready")}
    again(relay)
    assert read("new") == [0, 1, 2]


def test_a_topic_whose_record_is_being_skipped_stops_no_other(client: Clients, relay: Relay) -> None:
    one, operator = client(), client()
    put_topic("sealed", Config(sealed=True), now_ms())
    emit(one, "sealed", 1)
    finish(relay)
    put_topic("sealed", Config(sealed=False), now_ms())
    run(retry("sealed"))
    with operator.transaction():
        operator.execute(LOCK, ["sealed"])
        emit(one, "sealed", 2)
        emit(one, "free", 1)
        relay.due_ts = 0
        finish(relay)
        assert read("free") == [1]
        assert told() == {"sealed": (2, "topic_sealed")}
    again(relay)
    assert read("sealed") == [1, 2]


def test_a_reconfigured_and_a_deleted_topic_get_their_records(client: Clients, relay: Relay) -> None:
    one = client()
    emit(one, "t", 1)
    finish(relay)
    one.execute("UPDATE topics_topichead SET version = version + 1")  # another process reconfigures it
    emit(one, "t", 2)
    finish(relay)
    assert read("t") == [1, 2]
    one.execute("DELETE FROM topics_topichead; DELETE FROM topics_topic")
    emit(one, "t", 3)
    finish(relay)
    again(relay)
    assert read("t")[-1] == 3


def test_a_relay_that_lost_its_session_begins_again(client: Clients, relay: Relay) -> None:
    from django.db import connection

    from outbox.drain import TurnLost

    emit(client(), "t", 1)
    connection.close()
    with pytest.raises(TurnLost):
        relay.round()
    connection.ensure_connection()
    finish(Relay())
    assert read("t") == [1]


def test_a_record_that_postgresql_refuses_stops_its_topic_alone(client: Clients, relay: Relay) -> None:
    """The error undoes the whole transaction, so the relay searches for the record."""
    one = client()
    one.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF NEW.data::text = '3' THEN RAISE EXCEPTION 'refused' USING ERRCODE = 'data_exception'; END IF; RETURN NEW; END $$"
    )
    one.execute("CREATE TRIGGER refuse BEFORE INSERT ON topics_record_logged FOR EACH ROW EXECUTE FUNCTION refuse()")
    try:
        for number in range(5):
            emit(one, "other", number * 10)
            emit(one, "bad", number)
        finish(relay)
        assert (read("other"), read("bad")) == ([0, 10, 20, 30, 40], [0, 1, 2])
        assert told() == {"bad": (2, "invalid_request")}
    finally:
        one.execute("DROP FUNCTION refuse CASCADE")
    again(relay)
    assert read("bad") == [0, 1, 2, 3, 4]
