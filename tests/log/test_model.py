"""The store beside the log in memory (tests/reference.py): any mix of calls, and after each both say the same.

`t` is written to. `dest` is, too, and a router forwards into it what `source` gets: its records are spans, cut by
its own deletes, evictions and ttl. Reclaim and expiry run at any moment and must not be seen.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

import topics
from base.errors import HeadMismatch, IdempotencyMismatch, TopicFull
from routers.routers import RouterConfig
from store.script import run
from tests import reference
from tests.examples import examples
from tests.scripts import (
    append,
    catch_up,
    copy,
    delete_records,
    delete_seqs,
    delete_topic,
    diff,
    known,
    look_up,
    put_router,
    put_topic,
)
from topics.append.copies import Copied, CopiedRecord, CopiedTombstone, Copy, check_copy
from topics.append.records import Append, NewRecord, check_rows
from topics.config import Config
from topics.read import describe as state
from topics.read.diff import Diff, Window, tombstone
from topics.upkeep import reclaim, retention

NOW = 1_748_470_000_000
TOPICS = st.sampled_from(["t", "dest"])
EACH = st.sampled_from(["t", "dest", "source"])
TAGS = st.sampled_from([None, "a", "a:1", "a:2", "b", "ü"])
NODES = st.sampled_from([None, "n1", "n2"])
RECORDS = st.lists(st.tuples(st.integers(0, 40), TAGS, NODES), min_size=1, max_size=6)
PATTERNS = st.sampled_from([("a", False), ("b", False), ("ü", False), ("a:", True)])
ANY_PATTERN = st.sampled_from([(None, False), ("a", False), ("", True), ("a", True)])
CONFIGS = st.fixed_dictionaries(
    {
        "durability": st.sampled_from(["disk", "disk", "memory", "ephemeral"]),
        "ttl_ms": st.sampled_from([0, 500, 1500]),
        "cap_records": st.sampled_from([0, 1, 5, 12]),
        "cap_bytes": st.sampled_from([0, 0, 60, 300]),
        "discard": st.sampled_from(["old", "old", "reject"]),
    }
)
WINDOWS = st.sampled_from([400, 120_000])  # not changed later: when a key is forgotten by a sweep is not told
PAUSES = st.sampled_from([0, 0, 1, 100, 400, 900])  # ms before a call


def call(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


APPEND = call(
    "append",
    topic=TOPICS,
    records=RECORDS,
    key=st.sampled_from([None, None, "k1", "k2"]),
    again=st.sampled_from([True, True, False]),
)
APPEND_NAMED = call(
    "append_named",
    topic=TOPICS,
    records=RECORDS,
    keys=st.lists(st.sampled_from(["k1", "k2", "k3", "k4", "k5", "k6"]), unique=True, min_size=6, max_size=6),
    unnamed=st.sets(st.integers(0, 5)),
    changed=st.sampled_from([False, False, False, True]),
)
FORWARD = call("forward", records=RECORDS)
DELETE_OLDEST = call("delete_oldest", topic=EACH, length=st.integers(1, 8), pattern=ANY_PATTERN)
DELETE_SEQS = call("delete_seqs", topic=EACH, seqs=st.lists(st.integers(0, 80), max_size=12))
DELETE_TAG = call("delete", topic=EACH, before_seq=st.none(), pattern=PATTERNS)
READ = call(
    "read",
    topic=TOPICS,
    from_seq=st.integers(0, 80),
    limit=st.integers(1, 12),
    most_bytes=st.sampled_from([1, 60, 150, 10_000]),
    nodes=st.sampled_from([[], ["n1"], ["n1", "n2"]]),
    pattern=PATTERNS | ANY_PATTERN,
)
MATCHES = call(
    "read_matches",
    topic=TOPICS,
    order=st.sampled_from(["asc", "desc", "tail"]),
    limit=st.integers(1, 12),
    most_bytes=st.sampled_from([1, 60, 150, 10_000]),
    nodes=st.sampled_from([[], ["n1"], ["n1", "n2"]]),
    pattern=PATTERNS | ANY_PATTERN,
    most_examined=st.sampled_from([1, 12, 5_000]),
)
BACKGROUND = call("background", limit=st.integers(1, 4))
CALLS = st.one_of(
    *[APPEND, APPEND_NAMED, FORWARD, DELETE_OLDEST, DELETE_TAG, DELETE_SEQS] * 3,
    call("mirror", topic=TOPICS, limit=st.integers(1, 12)),
    *[READ, MATCHES, BACKGROUND] * 2,
    call("append_behind", topic=TOPICS, records=RECORDS, off=st.integers(-1, 1)),
    call("configure", topic=TOPICS, changes=CONFIGS),
    call("delete_topic", topic=TOPICS),
)
numbers = itertools.count()


def match_of(tag: str | None, glob: bool) -> Any:
    return None if tag is None else ("tag", "Glob", tag + "*") if glob else ("tag", "Eq", tag)


def records_of(window: Window) -> list[tuple[Any, ...]]:
    return [
        (r["$seq"], r["$ts"], json.dumps(r["data"], ensure_ascii=False), r.get("$tag"), r.get("$node"))
        for r in json.loads(f"[{window.records or ''}]")
    ]


def page_of(matches: list[reference.Record], order: str, seq: int, window: Window) -> list[reference.Record]:
    """The matches among the seqs that a page from this seq says that it examined."""
    if order == "asc":
        after = 0 if seq > window.head_seq else seq
        return [r for r in matches if after < r.seq <= window.next_from_seq]
    first = matches[0].seq if matches else 0
    if order == "tail":  # the page says only how far it came if the bound stopped it, so its own records say the rest
        shown = records_of(window)
        return [r for r in matches if r.seq >= (shown[0][0] if shown else window.scanned_to or first)]
    return [r for r in reversed(matches) if window.next_from_seq <= r.seq and (seq == 0 or r.seq < seq)]


def told(window: Window, from_seq: int) -> CopiedTombstone | None:
    """The tombstone that a reader at from_seq sees, as a copy takes it."""
    return msgspec.convert(tombstone(window, from_seq), CopiedTombstone | None)


class Beside:
    """The same calls to both."""

    def __init__(self, t: dict[str, Any], dest: dict[str, Any], idempotency_window_ms: int) -> None:
        self.now = NOW
        self.prefix = f"model{next(numbers)}"
        self.logs = {name: reference.Log() for name in ("t", "dest", "source")}
        self.made = itertools.count()
        self.mirrors: set[str] = set()
        self.sent: dict[tuple[str, str], list[tuple[str, str | None, str | None, int]]] = {}
        for name in self.logs:
            put_topic(self.name(name), Config(), self.now)
        self.link()
        self.configure("t", t | {"idempotency_window_ms": idempotency_window_ms})
        self.configure("dest", dest)

    def link(self) -> None:
        put_router(self.name("r"), RouterConfig(source=self.name("source"), dest=self.name("dest")), self.now)

    def name(self, topic: str) -> str:
        return f"{self.prefix}.{topic}"

    def rows(self, records: list[tuple[int, str | None, str | None]]) -> list[tuple[str, str | None, str | None, int]]:
        new = []
        for length, tag, node in records:
            data = json.dumps(f"{next(self.made)}:" + "x" * length)
            new.append((data, tag, node, len(data)))
        return new

    def write(
        self, topic: str, new: list[tuple[str, str | None, str | None, int]], **more: Any
    ) -> tuple[int, int, bool]:
        wanted = Append([NewRecord(msgspec.Raw(d.encode()), tag=t, node=n) for d, t, n, _ in new], **more)
        done = append(self.name(topic), wanted, check_rows(wanted), self.now)
        return done.first_seq, done.last_seq, done.deduped

    # -- What runs by itself

    def background(self, limit: int) -> None:
        for id in reclaim.due(self.now + reclaim.REST_MS):
            reclaim.reclaim(id, self.now, limit)
        for id in retention.expired_topics(self.now):
            retention.expire(id, self.now)
        retention.OldKeys().drop(self.now, limit)

    # -- Writing

    def append(
        self, topic: str, records: list[tuple[int, str | None, str | None]], key: str | None, again: bool
    ) -> None:
        """`again`: what was sent under this key before, if anything was."""
        new = self.rows(records)
        if again and key is not None:
            new = self.sent.setdefault((topic, key), new)
        try:
            expected = self.logs[topic].append(new, self.now, key)
        except reference.Mismatch:
            with pytest.raises(IdempotencyMismatch):
                self.write(topic, new, idempotency_key=key)
            return
        except reference.Full:
            with pytest.raises(TopicFull):
                self.write(topic, new, idempotency_key=key)
            return
        assert self.write(topic, new, idempotency_key=key) == expected

    def append_named(
        self,
        topic: str,
        records: list[tuple[int, str | None, str | None]],
        keys: list[str],
        unnamed: set[int],
        changed: bool,
    ) -> None:
        """A key for each record. Unless `changed`, each record is the one that was sent under its key before, if any was."""
        new = self.rows(records)
        named = [None if place in unnamed else key for place, key in enumerate(keys[: len(new)])]
        if not changed:
            new = [
                record if key is None else self.sent.setdefault((topic, key), [record])[0]
                for record, key in zip(new, named, strict=True)
            ]
        wanted = Append([NewRecord(msgspec.Raw(d.encode()), tag=t, node=n) for d, t, n, _ in new])
        wanted.idempotency_keys = named
        try:
            seqs, known = self.logs[topic].append_named(new, self.now, named)
        except (reference.Mismatch, reference.Full) as refused:
            with pytest.raises(IdempotencyMismatch if isinstance(refused, reference.Mismatch) else TopicFull):
                append(self.name(topic), wanted, check_rows(wanted), self.now)
            return
        done = append(self.name(topic), wanted, check_rows(wanted), self.now)
        assert done.seqs == seqs
        assert [place for place, seq in enumerate(done.known) if seq is not None] == known
        assert (done.deduped, done.written) == (len(known) == len(new), len(new) - len(known))

    def append_behind(self, topic: str, records: list[tuple[int, str | None, str | None]], off: int) -> None:
        log, new = self.logs[topic], self.rows(records)
        expected_head = max(log.head_seq + off, 0)
        if expected_head != log.head_seq:
            with pytest.raises(HeadMismatch):
                self.write(topic, new, expected_head=expected_head)
        elif log.config.discard == "old":
            assert self.write(topic, new, expected_head=expected_head) == log.append(new, self.now)

    def forward(self, records: list[tuple[int, str | None, str | None]]) -> None:
        """An append to the source, which the router brings to the dest at once."""
        if self.logs["dest"].config.discard == "reject":
            return
        new = self.rows(records)
        self.logs["source"].append(new, self.now)
        self.logs["dest"].append(new, self.now)
        self.write("source", new)
        catch_up(look_up(self.name("dest")).id, self.now)

    # -- Deleting

    def delete_oldest(self, topic: str, length: int, pattern: tuple[str | None, bool]) -> None:
        self.delete(topic, self.logs[topic].earliest_seq + length, pattern)

    def delete(self, topic: str, before_seq: int | None, pattern: tuple[str | None, bool]) -> None:
        log = self.logs[topic]
        deleted = log.delete(self.now, before_seq, *pattern)
        done = delete_records(self.name(topic), before_seq, match_of(*pattern), self.now)
        assert done == (deleted, log.earliest_seq, log.head_seq, log.count, log.bytes)

    def delete_seqs(self, topic: str, seqs: list[int]) -> None:
        log = self.logs[topic]
        deleted = log.delete_seqs(self.now, seqs)
        done = delete_seqs(self.name(topic), seqs, self.now)
        assert done == (deleted, log.earliest_seq, log.head_seq, log.count, log.bytes)

    def delete_topic(self, topic: str) -> None:
        head_seq = self.logs[topic].head_seq
        self.logs[topic] = reference.Log(head_seq=head_seq, recreated_seq=head_seq)
        assert delete_topic(self.name(topic), False, self.now) == (True, [self.name("r")] if topic == "dest" else [])
        put_topic(self.name(topic), Config(), self.now)
        if topic == "dest":
            self.link()

    # -- Copying

    def mirror(self, topic: str, limit: int) -> None:
        """Copy what is new, page by page, delete what was deleted, and read both from every seq."""
        source, mirror = self.name(topic), f"{self.name(topic)}.mirror"
        put_topic(mirror, Config(sealed=True), self.now)
        self.mirrors.add(mirror)
        lost = diff(source, Diff(limit=1), self.now)
        if lost.lost:  # also of what was copied before
            self.copy(mirror, Copy(copy=True, records=[], tombstone=told(lost, 0)))
        seq = diff(mirror, Diff(limit=1), self.now).head_seq
        while True:
            window = diff(source, Diff(from_seq=seq, limit=limit, include_tags=True), self.now)
            records = msgspec.json.decode(f"[{window.records or ''}]", type=list[CopiedRecord])
            wanted = Copy(copy=True, records=records, head_seq=window.next_from_seq, tombstone=told(window, seq))
            copied = [self.copy(mirror, wanted) for _ in range(2)]
            assert [each.head_seq for each in copied] == [window.next_from_seq] * 2
            assert list(copied[1].seqs) == []
            seq = window.next_from_seq
            if window.caught_up:
                break
        gone = {seq for seq, _ in self.shown(mirror)} - {seq for seq, _ in self.shown(source)}
        delete_seqs(mirror, list(gone), self.now, is_copy=True)
        assert self.shown(mirror) == self.shown(source)
        first, second = (run(state.held(name, self.now)).state for name in (source, mirror))
        assert second[4:7] == first[4:7]  # earliest_seq, records, bytes
        assert second.head_seq == first.head_seq
        for from_seq in range(seq + 1):
            theirs, ours = (diff(name, Diff(from_seq=from_seq, limit=limit), self.now) for name in (source, mirror))
            assert (ours.records, ours.next_from_seq, ours.scanned) == (
                theirs.records,
                theirs.next_from_seq,
                theirs.scanned,
            )
            assert ours.lost or not theirs.for_a_start_at(from_seq).lost
            assert ours.lost is None or from_seq < lost.earliest_seq

    def copy(self, name: str, wanted: Copy) -> Copied:
        return copy(name, wanted, check_copy(wanted, self.now), self.now)

    def shown(self, name: str) -> list[tuple[int, str]]:
        """All records of a topic, by seq, as they are shown with their tags."""
        found: list[tuple[int, str]] = []
        seq, caught_up = 0, False
        while not caught_up:
            window = diff(name, Diff(from_seq=seq, limit=1000, include_tags=True), self.now)
            found += [(each["$seq"], json.dumps(each)) for each in json.loads(f"[{window.records or ''}]")]
            seq, caught_up = window.next_from_seq, window.caught_up
        return found

    # -- Configuring

    def configure(self, topic: str, changes: dict[str, Any]) -> None:
        put_topic(self.name(topic), Config(**changes), self.now)
        self.logs[topic].configure(self.now, **changes)

    # -- Reading

    def check_all(self) -> None:
        for topic, log in self.logs.items():
            seq = 0
            while seq < log.head_seq or seq == 0:
                seen = self.read(topic, seq, 7)
                assert seen > seq or seen == log.head_seq
                seq = max(seen, 1)
            edges = {log.earliest_seq - 1, max((seq for seq, _ in log.lost), default=0)}
            for edge in {max(edge - one, 0) for edge in edges for one in (0, 1)}:
                self.read(topic, edge, 3)
            now = run(state.held(self.name(topic), self.now)).state
            assert (now.head_seq, now.earliest_seq) == (log.head_seq, log.earliest_seq)
            assert (now.records, now.bytes) == (log.count, log.bytes)

    def read(
        self,
        topic: str,
        from_seq: int,
        limit: int,
        most_bytes: int = 10_000,
        nodes: list[str] = [],  # noqa: B006
        pattern: tuple[str | None, bool] = (None, False),
    ) -> int:
        """One diff of both. Returns where the next one begins."""
        expected = self.logs[topic].diff(self.now, from_seq, limit, most_bytes, nodes, *pattern)
        wanted = Diff(from_seq=from_seq, limit=limit, node=nodes or None, match=match_of(*pattern), include_tags=True)
        with mock.patch("topics.read.diff.MAX_BYTES", most_bytes):
            window = diff(self.name(topic), wanted, self.now)
        assert records_of(window) == [astuple(r)[:5] for r in expected.records]
        assert (window.scanned, window.next_from_seq) == (expected.scanned, expected.next_from_seq)
        assert (window.head_seq, window.earliest_seq) == (expected.head_seq, expected.earliest_seq)
        assert window.lost == expected.reason
        if window.lost:
            assert window.gap_to == expected.earliest_seq - 1
        return window.next_from_seq

    def read_matches(
        self,
        topic: str,
        order: str,
        limit: int,
        most_bytes: int,
        nodes: list[str],
        pattern: tuple[str | None, bool],
        most_examined: int,
    ) -> None:
        """Every page has exactly the matches among the seqs that it examined, and is only short for a reason."""
        log, seq = self.logs[topic], 0
        log.expire(self.now)
        matches = reference.matching(log.live, nodes, *pattern)
        wanted: dict[str, Any] = {"tail": limit} if order == "tail" else {"order": order, "limit": limit}
        wanted |= {"node": nodes or None, "match": match_of(*pattern), "window": "matches", "include_tags": True}
        with mock.patch.multiple("topics.read.diff", MAX_BYTES=most_bytes, MOST_EXAMINED=most_examined):
            while True:
                window = diff(self.name(topic), Diff(from_seq=seq, **wanted), self.now)
                examined = page_of(matches, order, seq, window)
                assert records_of(window) == [astuple(r)[:5] for r in examined]
                assert len(examined) <= limit
                assert len(examined) <= 1 or sum(r.size for r in examined) <= most_bytes
                assert (window.head_seq, window.earliest_seq) == (log.head_seq, log.earliest_seq)
                if order == "asc":
                    lost = log.diff(self.now, seq, 1, 1, nodes, *pattern).reason
                    assert window.lost == lost
                left = [r for r in matches if r not in examined]
                if order == "tail":
                    left = left[len(left) - max(limit - len(examined), 0) :]
                    assert not left or window.scanned_to or sum(r.size for r in (left[-1], *examined)) > most_bytes
                    return
                if window.left(order) == 0:
                    return
                assert (
                    len(examined) == limit
                    or window.scanned_to
                    or most_bytes < 10_000
                    or (window.lost, seq) != (None, seq)
                )
                assert window.next_from_seq > seq if order == "asc" or seq == 0 else window.next_from_seq < seq
                seq = window.next_from_seq

    def end(self) -> None:
        """At rest only what somebody shows is stored."""
        for mirror in self.mirrors:
            delete_topic(mirror, False, self.now)
        for _ in range(3):  # the records, what remembered them, what that held
            self.now += reclaim.AGAIN_MS
            for topic in self.logs:
                while retention.expire(known(self.name(topic)).id, self.now):
                    pass
            while topics := reclaim.due(self.now + reclaim.REST_MS):
                for id in topics:
                    reclaim.reclaim(id, self.now)
        for log in self.logs.values():
            log.expire(self.now)
        with connection.cursor() as cursor:
            cursor.execute("SELECT data::text FROM topics_record")
            stored = {row[0] for row in cursor.fetchall()}
        assert stored == {record.data for log in self.logs.values() for record in log.live}


@pytest.fixture(params=["", "in steps of three entries"])
def _steps(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[None]:
    """How much a transaction deletes or evicts in a topic with holes."""
    text = Path(topics.__file__).with_name("sql").joinpath("functions/topic_step.sql").read_text()
    with connection.cursor() as cursor:
        cursor.execute(text.replace("2500", "3") if request.param else text)
        yield
        cursor.execute(text)


@pytest.mark.guarantee("W10", "R2")
@pytest.mark.usefixtures("_steps")
@pytest.mark.django_db(transaction=True)
@settings(max_examples=examples(4))
@given(t=CONFIGS, dest=CONFIGS, window_ms=WINDOWS, calls=st.lists(st.tuples(PAUSES, CALLS), min_size=20, max_size=50))
def test_the_store_does_what_the_log_in_memory_does(
    t: dict[str, Any], dest: dict[str, Any], window_ms: int, calls: list[tuple[int, tuple[str, dict[str, Any]]]]
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off; DELETE FROM topics_record; DELETE FROM topics_topichead")
    both = Beside(t, dest, window_ms)
    for pause_ms, (name, arguments) in calls:
        both.now += pause_ms
        getattr(both, name)(**arguments)
        both.check_all()
    both.end()
