"""Append, diff and the other calls on a topic's records (contract.md sections 3 to 5 and 10)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from rest_framework.request import Request
from rest_framework.response import Response

from base.clock import now_ms
from base.errors import InvalidRequest
from topics import recency
from topics.api.shapes import AppendAnswer, DeleteRecordsAnswer, DiffAnswer, RecordAnswer
from topics.append import Append, Appended, append, check_rows
from topics.cache import remembered
from topics.delete import Delete, delete_records
from topics.diff import Diff, Match, Seq, diff, render, seq_before
from topics.lineage import record
from topics.stamps import seen
from watch.longpoll import AGAIN, PENDING, Pending
from wire import metrics
from wire.endpoint import Endpoint, elapsed_ms, parse
from wire.schema import operation

MAX_WAIT_MS = 30_000


def parse_append(body: bytes) -> Append:
    return parse(body, Append)


def parse_diff(body: bytes) -> Diff:
    return parse(body, Diff)


def render_appended(topic: str, done: Appended, with_seqs: bool, started: float) -> bytes:
    """The body of an append's answer."""
    first, last = done.first_seq, done.last_seq
    seqs = f'"seqs":{msgspec.json.encode(list(range(first, last + 1))).decode()},' if with_seqs else ""
    return (
        f'{{"topic":"{topic}","first_seq":{first},"last_seq":{last},{seqs}"head_seq":{done.head_seq},'
        f'"count":{last - first + 1},"created":{"true" if done.created else "false"},'
        f'"deduped":{"true" if done.deduped else "false"},"performance":{{"server_total_ms":{elapsed_ms(started)},'
        f'"wal_append_ms":{done.wal_append_ms:.3f},"fsync_ms":{done.fsync_ms:.3f}}}}}'
    ).encode()


class AppendQuery(msgspec.Struct):
    return_seqs: bool = True


class Appending(Endpoint):
    """POST /v0/topics/:topic."""

    @operation(
        "append", body=Append, query=AppendQuery, answers={200: AppendAnswer, 201: AppendAnswer}, errors=(409, 422)
    )
    def post(self, request: Request, topic: str) -> Response:
        """Append records, all or none."""
        self.check(topic, "write")
        with_seqs = self.query(AppendQuery).return_seqs
        wanted = self.body(Append)
        if wanted.idempotency_key is None:
            wanted.idempotency_key = request.headers.get("Idempotency-Key")
        wanted.check_names(self.key)
        done = append(topic, wanted, check_rows(wanted), now_ms())
        if not done.deduped:
            metrics.appended(done.last_seq - done.first_seq + 1)
        return Response(render_appended(topic, done, with_seqs, self.started), status=201 if done.created else 200)


class Reading(Endpoint):
    """What answers as a diff does."""

    def read(self, topic: str, wanted: Diff) -> Response:
        if wanted.from_ts is not None:
            if wanted.from_seq:
                raise InvalidRequest("say from_seq or from_ts, not both")
            wanted.from_seq = seq_before(topic, wanted.from_ts, now_ms())
        window = diff(topic, wanted, now_ms())
        known = remembered.get(topic)
        if wanted.wait_ms and AGAIN in self.request.META and not window.tells(wanted.from_seq):
            seconds = min(wanted.wait_ms, MAX_WAIT_MS) / 1000
            self.request.META[PENDING] = Pending(known.id if known else 0, window.head_seq, seconds)
        else:
            metrics.read(window.scanned)
        if known is not None:
            recency.note(known.id, now_ms())
        shown = window.seen_by(self.key)
        return Response(render(topic, shown, wanted.from_seq, elapsed_ms(self.started)))


class TopicDiff(Reading):
    """POST /v0/topics/:topic/diff."""

    @operation("diff", body=Diff, answers={200: DiffAnswer})
    def post(self, request: Request, topic: str) -> Response:
        """Read the records above a seq."""
        self.check(topic, "read")
        return self.read(topic, self.body(Diff))


class RecordsQuery(msgspec.Struct):
    """A diff as a query. `match` is a tag, or the predicate as JSON: ["tag","Glob","x*"]."""

    from_seq: Seq = 0
    from_ts: Seq | None = None
    limit: Annotated[int, Meta(ge=1, le=2**63 - 1)] = 256
    node: list[str] = []
    match: str | None = None
    include_tags: bool = False
    include_meta: bool = True
    wait_ms: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0

    def diff(self) -> Diff:
        """Raises InvalidRequest."""
        given = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("match", "node")}
        match: Match | None = self.match
        if self.match is not None and self.match.startswith("["):
            match = parse(self.match.encode(), Match)  # type: ignore[arg-type]
        return Diff(**given, node=self.node or None, match=match)


class TopicRecords(Reading):
    """GET /v0/topics/:topic/records."""

    @operation("records", query=RecordsQuery, answers={200: DiffAnswer})
    def get(self, request: Request, topic: str) -> Response:
        """Read the records above a seq with a plain GET."""
        self.check(topic, "read")
        return self.read(topic, self.query(RecordsQuery).diff())


class OneRecord(Endpoint):
    """GET /v0/topics/:topic/records/:seq."""

    @operation("record", answers={200: RecordAnswer})
    def get(self, request: Request, topic: str, seq: str) -> Response:
        """One record, and the way it came here."""
        self.check(topic, "read")
        if not (seq.isascii() and seq.isdigit() and 0 < int(seq[:20]) < 2**63):
            raise InvalidRequest(f"{seq[:30]!r} is no seq", seq=seq[:30])
        found = record(topic, int(seq), now_ms())
        routers = [self.key.shown(router) for router in found.routers]
        path = {"topic": self.key.shown(found.home), "seq": found.home_seq, "routers": routers}
        tail = msgspec.json.encode({"path": path, "performance": self.performance()})
        return Response(seen(found.record, self.key.prefixes)[:-1].encode() + b"," + tail[1:])


class DeleteRecords(Endpoint):
    """POST /v0/topics/:topic/delete."""

    @operation("delete_records", body=Delete, answers={200: DeleteRecordsAnswer})
    def post(self, request: Request, topic: str) -> Response:
        """Delete what is there now, below a seq or by tag: silently, and for good."""
        self.check(topic, "delete")
        wanted = self.body(Delete)
        done = delete_records(topic, wanted.before_seq, wanted.match, now_ms())
        return self.answer(DeleteRecordsAnswer(topic=topic, **done._asdict(), performance=self.performance()))
