"""Appends under conditions: an idempotency key, an expected head, the caps of a topic that rejects, or a sealed topic.

PostgreSQL judges them behind the locks of the heads (sql/functions/topic_append_judged.sql). Appends that arrive together share a
call, and a refused append does not affect the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

from base.errors import HeadMismatch, IdempotencyMismatch, InvalidRequest, TopicFull, TopicsError
from store.codec import Rows as Answer
from store.script import Done, Script, Statement
from topics import sealed, wake
from topics.append.keys import key_records
from topics.append.plain import Outcome, Write
from topics.append.records import Append, Rows
from topics.append.statements import MAKE_ROOM, SYNC, Appended, apart, appending, array, expecting, room, texts
from topics.cache import CachedTopic

JUDGE = """
SELECT * FROM topic_append_judged(
    %(now)s, %(volatile)s, %(ids)s, %(of)s, %(versions)s, %(counts)s, %(bytes)s, %(heads)s, %(keys)s, %(digests)s, %(since)s,
    %(sealed)s, %(cap_records)s, %(cap_bytes)s, %(expired)s,
    %(data)s, %(tags)s, %(nodes)s, %(metas)s, %(places)s, %(sizes)s, %(runs)s, %(ns)s, %(record_keys)s, %(record_digests)s,
    %(unique)s)
"""


NO_RECORD_KEYS = dict.fromkeys(("record_keys", "record_digests"))


class Verdict(NamedTuple):
    """A row of topic_append_judged: the verdict on the append `n` (from 1), and the topic's state before the call.

    The verdicts `known` and `differs` are on a record of this append, and `head_seq` is its place (from 1).
    """

    n: int
    verdict: str
    first_seq: int | None
    last_seq: int | None
    head_seq: int
    records: int
    bytes: int


class AtHead(Write):
    """An append that expects a head and has no other condition: the statement that moves the head compares it.

    The answer is None if it was not done. Judged then tells why.
    """

    def __init__(self, topic: CachedTopic, wanted: Append, rows: Rows, now: int) -> None:
        super().__init__(topic, rows, now)
        self.wanted = wanted

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        """The first append to each topic. The others would find another head than the first append did."""
        first: dict[int, Self] = {}
        for each in cls.current(batch):
            first.setdefault(each.topic.id, each)
        return [list(first.values())]

    @classmethod
    def writes(cls, batch: Sequence[Self], now: int) -> Statement:
        return Statement(*expecting([(each.topic, each.rows, each.wanted.expected_head) for each in batch], now))


class Judged(AtHead):
    """An append under any conditions. The answer is the append, the error that refuses it, or None.

    None: the caller looks up the topic and tries again.
    """

    left_waits = True

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        """The first append under each key and unique tag. One that expects a head must be the first to its topic, too."""
        chosen: list[Self] = []
        taken: set[tuple[int, str, str]] = set()
        topics: set[int] = set()
        for each in batch:
            id = each.topic.id
            keys = {(id, "key", key) for key in keys_of(each.wanted)}
            if each.topic.unique_tags:
                keys |= {(id, "tag", tag) for tag in each.rows.tags if tag is not None}
            if (each.wanted.expected_head is not None and id in topics) or not taken.isdisjoint(keys):
                continue
            topics.add(id)
            taken |= keys
            chosen.append(each)
        return [chosen]

    @classmethod
    def writes(cls, batch: Sequence[Self], now: int) -> Statement:
        return Statement(JUDGE, parameters([(each.topic, each.wanted, each.rows) for each in batch], now))

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[Outcome]:
        """Wakes the readers that wait for the topics."""
        told, (wal_append_ms, fsync_ms) = cls.told(batch, done, started)
        found: list[Outcome] = [None] * len(batch)
        last: dict[int, tuple[CachedTopic, int]] = {}
        for verdict, records in verdicts(told):
            each = batch[verdict.n - 1]
            outcome = found[verdict.n - 1] = outcome_of(verdict, records, each.topic, each.wanted, each.rows)
            if isinstance(outcome, Appended) and not outcome.deduped:
                found[verdict.n - 1] = outcome._replace(wal_append_ms=wal_append_ms, fsync_ms=fsync_ms)
                last[each.topic.id] = each.topic, max(outcome.last_seq, last.get(each.topic.id, (None, 0))[1])
        for topic, last_seq in last.values():
            wake.moved(topic, last_seq)
        return found


def judge(topic: CachedTopic, wanted: Append, rows: Rows, now: int) -> Script[Appended | None]:
    """Append under conditions. Returns None if the topic has another version. Raises TopicsError if the append is refused."""
    prepare(topic, wanted, rows)
    outcome = yield Judged(topic, wanted, rows, now)
    if isinstance(outcome, TopicsError):
        raise outcome
    done: Appended | None = outcome
    return done


def append_once(topic: CachedTopic, wanted: Append, rows: Rows, now: int) -> Script[Appended | None]:
    """Append in the transaction of the caller. The caller wakes the readers after the commit.

    Returns None if the topic has another version. Raises TopicsError if the append is refused.
    """
    started = time.perf_counter()
    prepare(topic, wanted, rows)
    yield Statement(SYNC, ("on" if topic.durability == "fsync" else "off",))
    done: Outcome = None
    if wanted.plain and not topic.judges:
        for _, base, *_ in (yield Statement(*appending([(topic, rows)], now))):
            last = base + len(rows.data)
            done = Appended(base + 1, last, last, False, False, 0.0, 0.0)
    else:
        for verdict, records in verdicts((yield Statement(JUDGE, parameters([(topic, wanted, rows)], now)))):
            done = outcome_of(verdict, records, topic, wanted, rows)
    if isinstance(done, TopicsError):
        raise done
    if done is not None and topic.evicts:
        yield Statement(MAKE_ROOM, room(topic, [rows], now))
    return done and done._replace(wal_append_ms=(time.perf_counter() - started) * 1000)


def prepare(topic: CachedTopic, wanted: Append, rows: Rows) -> None:
    """Gives each job of a queue with `unique_tags` a key of its own, if the append has a key.

    Raises InvalidRequest if two jobs have one tag.
    """
    if not topic.unique_tags:
        return
    key_records(wanted)
    places: dict[str, int] = {}
    for place, tag in enumerate(rows.tags):
        if tag is not None and (first := places.setdefault(tag, place)) != place:
            raise InvalidRequest(
                f"records[{first}] and records[{place}] both have the tag {tag!r}, and the queue has unique_tags: "
                "send one job for each tag",
                field="records",
            )


def verdicts(told: Answer) -> Iterator[tuple[Verdict, list[Verdict]]]:
    """Returns the verdict on each append, with the verdicts on its records, which come first."""
    records: dict[int, list[Verdict]] = {}
    for verdict in map(Verdict._make, told):
        if verdict.verdict in ("known", "differs"):
            records.setdefault(verdict.n, []).append(verdict)
        else:
            yield verdict, records.get(verdict.n, [])


def outcome_of(verdict: Verdict, records: list[Verdict], topic: CachedTopic, wanted: Append, rows: Rows) -> Outcome:
    """Returns the append, without its times, the error that refuses it, or None if it has to be sent again."""
    first, last, head = verdict.first_seq, verdict.last_seq, verdict.head_seq
    match verdict.verdict:
        case "done":
            assert first is not None
            assert last is not None
            return Appended(first, last, last, False, False, 0.0, 0.0, known=known(records, topic, wanted, rows))
        case "kept":  # also in a sealed topic: a retry of an append that is there gets the answer of the first one
            # Without seqs: this call has written no record, and the topic knows each.
            return Appended(
                first or head + 1,
                last or head,
                head,
                False,
                True,
                0.0,
                0.0,
                topic.sealed,
                known(records, topic, wanted, rows),
            )
        case "other":
            return sealed.marked(mismatch(verdict, records, wanted), topic.sealed)
        case "sealed":
            return sealed.refused(topic.name)
        case "head":
            return HeadMismatch.of(head_seq=verdict.head_seq, expected_head=wanted.expected_head)
        case "full":
            return full(topic, verdict.records, verdict.bytes, rows)
    return None


def known(records: list[Verdict], topic: CachedTopic, wanted: Append, rows: Rows) -> Sequence[int | None]:
    """Returns Appended.known."""
    if wanted.idempotency_keys is None and not topic.unique_tags:
        return ()
    seqs = {record.head_seq: record.first_seq for record in records}
    return [seqs.get(place) for place in range(1, len(rows.data) + 1)]


def mismatch(verdict: Verdict, records: list[Verdict], wanted: Append) -> IdempotencyMismatch:
    """Returns the error of a key that names other records than the append has."""
    key, where = wanted.idempotency_key, {}
    if wanted.idempotency_keys is not None:
        verdict = min((record for record in records if record.verdict == "differs"), key=lambda record: record.head_seq)
        place = verdict.head_seq - 1
        key, where = wanted.idempotency_keys[place], {"index": place}
    return IdempotencyMismatch.of(key=key, first_seq=verdict.first_seq, last_seq=verdict.last_seq, **where)


def full(topic: CachedTopic, records: int, bytes: int, rows: Rows) -> TopicFull:
    """Returns the error of a topic that rejects these rows. The topic holds that many records and bytes."""
    if topic.cap_records and records + len(rows.data) > topic.cap_records:
        return TopicFull(
            f"topic {topic.name!r} has no room: {records} of at most {topic.cap_records} records",
            cap_records=topic.cap_records,
        )
    return TopicFull(
        f"topic {topic.name!r} has no room: {bytes} of at most {topic.cap_bytes} bytes", cap_bytes=topic.cap_bytes
    )


def parameters(appends: Sequence[tuple[CachedTopic, Append, Rows]], now: int) -> dict[str, Any]:
    """The arguments of JUDGE for these appends, all of one durability."""
    with_keys = any(wanted.idempotency_keys is not None for _, wanted, _ in appends)
    topics = [topic for topic, _, _ in appends]
    keys = [wanted.idempotency_key for _, wanted, _ in appends]
    heads = [wanted.expected_head for _, wanted, _ in appends]
    digests = [None if wanted.idempotency_key is None else rows.digest() for _, wanted, rows in appends]
    expired = [topic.expired_ts(now) if topic.rejects or topic.unique_tags else None for topic in topics]
    unique = [topic.unique_tags for topic in topics]
    return {
        "now": now,
        "volatile": topics[0].volatile,
        "ids": array(sorted({topic.id for topic in topics})),
        "of": array([topic.id for topic in topics]),
        "versions": array([topic.version for topic in topics]),
        "counts": array([len(rows.data) for _, _, rows in appends]),
        "bytes": array([rows.bytes for _, _, rows in appends]),
        "heads": texts([None if head is None else str(head) for head in heads]),
        "keys": texts(keys),
        "digests": texts(digests),
        "since": array([now - topic.idempotency_window_ms for topic in topics]),
        "sealed": array([topic.sealed for topic in topics]),
        "cap_records": array([topic.cap_records or None if topic.rejects else None for topic in topics]),
        "cap_bytes": array([topic.cap_bytes or None if topic.rejects else None for topic in topics]),
        "expired": array(expired) if any(expired) else None,
        **apart([rows for _, _, rows in appends]),
        **(record_keys(appends) if with_keys else NO_RECORD_KEYS),
        "unique": array(unique) if any(unique) else None,
    }


def record_keys(appends: Sequence[tuple[CachedTopic, Append, Rows]]) -> dict[str, str]:
    """The arguments of JUDGE with an entry for each record: its key and its digest."""
    keys: list[str | None] = []
    digests: list[str | None] = []
    for _, wanted, rows in appends:
        named = wanted.idempotency_keys
        keys += named or [None] * len(rows.data)
        digests += rows.digests() if named else [None] * len(rows.data)
    return {"record_keys": texts(keys), "record_digests": texts(digests)}


def keys_of(wanted: Append) -> Iterator[str]:
    """Returns the key of the append and the keys of its records."""
    return (key for key in (wanted.idempotency_key, *(wanted.idempotency_keys or ())) if key is not None)
