"""Stores what became of records, in one transaction with their dead letters. So a record becomes one dead letter at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from base.errors import Incompatible
from store.script import Script, Statement, atomically
from topics import wake
from topics.append.judged import append_once
from topics.append.records import Append, Rows
from topics.audit import as_json
from topics.cache import CachedTopic, forget_known, known_topic
from topics.config import create_topic

SETTLE = """
SELECT webhook_settle(%(id)s, %(lease)s, %(settled)s, %(done)s, %(waiting)s, %(positions)s, %(log)s, %(failures)s, %(rest_ms)s,
                      %(error)s, %(pause)s, %(records)s, %(dead)s)
"""
NOTHING = "[]"


class WaitingRecord(NamedTuple):
    """A record that waits from now on. Without `delay_ms`, behind an earlier record of its line."""

    topic_id: int
    seq: int
    topic: str
    line: str | None
    attempts: int
    first_ts: int
    delay_ms: int | None
    status: int | None = None
    error: str | None = None


class WebhookLetter(NamedTuple):
    """A dead letter: the record as a call had it, and the `meta` that says what happened."""

    data: msgspec.Raw
    tag: str | None
    meta: dict[str, Any]


class Settling(NamedTuple):
    """The outcomes of one settle. `done`: records (topic_id, seq, line, is_failed) that leave the waiting ones, or are given up.
    `positions`: (topic_id, seq, records that were delivered). `records`: delivered. `dead`: records without an attempt left."""

    done: list[tuple[int, int, str | None, bool]]
    waiting: list[WaitingRecord]
    positions: list[tuple[int, int, int]]
    log: list[dict[str, Any]]
    letters: list[WebhookLetter]
    failures: int
    rest_ms: int
    error: str | None
    pause: str | None
    records: int
    dead: int


def named(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return as_json([dict(zip(names, row, strict=True)) for row in rows]) if rows else NOTHING


def statement(id: int, lease: int, settled: int, what: Settling) -> Statement:
    wanted = {
        "id": id,
        "lease": lease,
        "settled": settled,
        "done": named(("topic_id", "seq", "line", "failed"), what.done),
        "waiting": named(WaitingRecord._fields, what.waiting),
        "positions": named(("topic_id", "seq", "records"), what.positions),
        "log": as_json(what.log) if what.log else NOTHING,
        "failures": what.failures,
        "rest_ms": what.rest_ms,
        "error": what.error,
        "pause": what.pause,
        "records": what.records,
        "dead": what.dead,
    }
    return Statement(SETTLE, wanted)


def settle(id: int, lease: int, settled: int, what: Settling, dead: str, now: int) -> Script[bool]:
    """Stores the outcomes. `dead`: the dead letter topic, which is created if it is absent. Returns False if the lease is over.

    Raises TopicsError if the dead letter topic takes no records. Then nothing is stored.
    """
    if not what.letters:
        ((stored,),) = yield statement(id, lease, settled, what)
        return stored is not False
    while True:
        topic = yield from known_topic(dead)
        if topic is None:
            yield from create_topic(dead, {}, now, noted=True)
            continue
        try:
            burying = bury(topic, statement(id, lease, settled, what), what.letters, now)
            held, head = yield from atomically(burying, topic.id)
        except Reconfigured:
            forget_known(topic)
            continue
        if head is not None:
            wake.moved(topic, head)
        return held


class Reconfigured(Exception):
    """The dead letter topic has another version: nothing was stored."""


def bury(
    topic: CachedTopic, settling: Statement, letters: list[WebhookLetter], now: int
) -> Script[tuple[bool, int | None]]:
    """Returns whether the lease holds, and the head of the dead letter topic if letters were appended. Raises Reconfigured."""
    if topic.unique_tags:
        raise Incompatible("the topic has unique_tags, so letters of one tag would be lost")
    ((stored,),) = yield settling
    if not stored:  # None: an earlier call, whose answer was lost, has stored the outcomes and the letters
        return stored is None, None
    done = yield from append_once(topic, Append(records=[]), as_rows(letters), now)
    if done is None:
        raise Reconfigured
    return True, done.last_seq


def as_rows(letters: list[WebhookLetter]) -> Rows:
    metas = [msgspec.Raw(msgspec.json.encode(letter.meta)) for letter in letters]
    sizes = [len(letter.data) + len(meta) for letter, meta in zip(letters, metas, strict=True)]
    nodes: list[str | None] = [None] * len(letters)
    return Rows(
        [letter.data for letter in letters], [letter.tag for letter in letters], nodes, metas, sizes, sum(sizes)
    )
