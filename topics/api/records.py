"""Append, diff and the other calls on a topic's records (docs/wire.md)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from base.bigint import bigint
from base.clock import now_ms
from base.errors import (
    BatchTooLarge,
    DeadLetterCycle,
    HeadMismatch,
    IdempotencyMismatch,
    InvalidRequest,
    RecordTooLarge,
    TopicFull,
    TopicNotFound,
    TopicNotSealed,
    TopicSealed,
)
from contract.appending import AppendOptionFields
from contract.cloudevents import OF_READS, OF_RECORD
from contract.operations import Operation
from store.script import Script
from topics.api import events
from topics.api.shapes import AppendAnswer, DeleteRecordsAnswer, DiffAnswer, RecordAnswer, WritePerformance
from topics.append.appending import append
from topics.append.copies import Copy, check_copy, copy, is_copy
from topics.append.keys import take_header
from topics.append.records import Append, check_rows
from topics.append.statements import Appended
from topics.append.traced import traced
from topics.delete.records import Delete, delete_records, delete_seqs
from topics.read.diff import Diff, Read, diff, match_of, render
from topics.read.lineage import record
from topics.read.stamps import seen
from topics.sealed import DESCRIBED, told
from wire import metrics
from wire.answer import Answer
from wire.endpoint import Call, Endpoint, Variant
from wire.request.parse import Request, header_text
from wire.schema import Clamped

TAG = "records"


def render_appended(topic: str, done: Appended, with_seqs: bool, used: Clamped, started: float) -> bytes:
    """Returns the body of an append's answer."""
    first, last, head, created, deduped, wal_append_ms, fsync_ms, _, known = done
    count = last - first + 1
    all_seqs: Sequence[int] = range(first, last + 1)
    of_keys = ""
    if known:
        all_seqs = done.seqs
        first, last, count = all_seqs[0], all_seqs[-1], len(all_seqs)
        of_keys = f'"deduplicated":{numbers([index for index, seq in enumerate(known) if seq is not None])},'
    clamped = "" if used is UNSET else f'"clamped":{msgspec.json.encode(used).decode()},'
    seqs = f'"seqs":{numbers(all_seqs)},' if with_seqs else ""
    return (
        f'{{"topic":"{topic}","first_seq":{first},"last_seq":{last},{seqs}"head_seq":{head},"count":{count},'
        f'"created":{"true" if created else "false"},"deduped":{"true" if deduped else "false"},{of_keys}{clamped}'
        f'"performance":{{"server_total_ms":{(time.perf_counter() - started) * 1000:.3f},'
        f'"wal_append_ms":{wal_append_ms:.3f},"fsync_ms":{fsync_ms:.3f}}}}}'
    ).encode()


def numbers(values: Sequence[int]) -> str:
    """Returns whole numbers as a JSON array."""
    return f"[{values[0]}]" if len(values) == 1 else msgspec.json.encode(list(values)).decode()


class AppendQuery(AppendOptionFields, Request):
    """The query of an append."""


@Endpoint(
    Operation.APPEND,
    scope="write",
    body=Append,
    variant=Variant(Copy, is_copy),
    translation=events.SENT,
    query=AppendQuery,
    answers={200: AppendAnswer, 201: AppendAnswer},
    errors=(
        TopicNotFound,
        HeadMismatch,
        DeadLetterCycle,
        IdempotencyMismatch,
        TopicSealed,
        TopicNotSealed,
        TopicFull,
        BatchTooLarge,
        RecordTooLarge,
    ),
    tells=DESCRIBED,
    headers={
        "Idempotency-Key": "The name of the append, 1 to 256 characters in UTF-8, if the body has no `idempotency_key`. "
        "With `idempotency_keys`, the record n without a key gets the key `KEY#n`, from 0.",
        "ce-specversion": "`1.0`: the request is a CloudEvent in the binary mode. Its other attributes are headers `ce-…`, too, "
        "and the body is its data.",
    },
    example={
        "node": "shop-1",
        "records": [
            {"data": {"id": 7, "total": 19.95}, "tag": "order:7"},
            {"data": {"id": 8}, "tag": "order:8", "meta": {"source": "app"}},
        ],
    },
    needs_body=True,
    tag=TAG,
)
def append_records(call: Call[Append | Copy, AppendQuery], topic: str) -> Script[Answer]:
    """Append records, all or none.

    With `copy`: write records of another server into a sealed topic, with their seqs of that server. A copy also needs the
    scope `admin`.
    """
    wanted = call.body
    if isinstance(wanted, Copy):
        return (yield from copy_records(call, topic, wanted))
    if wanted.copy:
        raise InvalidRequest('the field copy is written with escapes: write it as "copy"', field="copy")
    if wanted.idempotency_key is None and (key := call.headers.get(b"idempotency-key")) is not None:
        take_header(wanted, header_text("Idempotency-Key", key))
    wanted.check_key(call.key)
    rows = traced(check_rows(wanted), call.headers.get(b"traceparent"))
    done = yield from append(topic, wanted, rows, now_ms())
    if not done.deduped:
        metrics.appended(done.written)
    with_seqs = wanted.return_seqs and call.query.return_seqs
    used = wanted.config.clamped() if done.created and wanted.config is not None else UNSET
    body = render_appended(topic, done, with_seqs, used, call.started)
    return Answer(201 if done.created else 200, body, told(done.sealed))


def copy_records(call: Call[Any, AppendQuery], topic: str, wanted: Copy) -> Script[Answer]:
    call.key.check("admin")
    if not call.query.return_seqs:
        raise InvalidRequest("a copy takes no return_seqs: leave it out", field="return_seqs")
    now = now_ms()
    done = yield from copy(topic, wanted, check_copy(wanted, now), now)
    metrics.appended(len(done.seqs))
    answer = AppendAnswer(
        topic=topic,
        first_seq=done.seqs[0] if done.seqs else done.head_seq + 1,
        last_seq=done.seqs[-1] if done.seqs else done.head_seq,
        seqs=list(done.seqs),
        head_seq=done.head_seq,
        count=len(done.seqs),
        created=False,
        deduped=False,
        copied=len(done.seqs),
        performance=WritePerformance(call.performance().server_total_ms, done.wal_append_ms, done.fsync_ms),
    )
    return call.answer(answer, headers=told(True))


def read(call: Call[Any, Any], topic: str, wanted: Diff) -> Script[Answer]:
    window = yield from diff(topic, wanted)
    metrics.read(window.scanned)
    if call.key.prefixes:
        window = window.seen_by(call.key)
    body = render(topic, window, wanted, (time.perf_counter() - call.started) * 1000)
    return events.in_media(call.accept, topic, Answer(200, body, told(window.sealed)))


@Endpoint(
    Operation.READ,
    scope="read",
    body=Diff,
    answers={200: (DiffAnswer, events.BATCH)},
    media=OF_READS,
    errors=(TopicNotFound,),
    tells=DESCRIBED | events.DESCRIBED,
    example={"from_seq": 0, "limit": 10, "include_tags": True},
    tag=TAG,
    instead="GET /v0/topics/:topic/records takes the same fields as a query",
)
def read_by_diff(call: Call[Diff, None], topic: str) -> Script[Answer]:
    """Read the records above a seq, below it, or the last ones."""
    return read(call, topic, call.body)


class RecordsQuery(Read):
    """A diff as a query, with a limit that counts matches."""

    node: list[str] = []
    """Nodes of the reader. The answer leaves out the records of these nodes. You can repeat it up to 1000 times."""
    match: str | None = None
    """Only records with this tag, or with a tag that matches a predicate in JSON: `["tag","Glob","order:*"]`."""

    def diff(self) -> Diff:
        """Returns the body of a diff with the same fields. Raises InvalidRequest."""
        given = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("match", "node")}
        match = None if self.match is None else match_of(self.match)
        return Diff(**given, node=self.node or None, match=match, window="matches")


@Endpoint(
    Operation.LIST_RECORDS,
    scope="read",
    query=RecordsQuery,
    answers={200: (DiffAnswer, events.BATCH)},
    media=OF_READS,
    errors=(TopicNotFound,),
    tells=DESCRIBED | events.DESCRIBED,
    instead="POST /v0/topics/:topic appends, POST /v0/topics/:topic/delete deletes",
    tag=TAG,
)
def read_by_get(call: Call[None, RecordsQuery], topic: str) -> Script[Answer]:
    """Read the records above a seq, below it, or the last ones with a plain GET. `limit` counts matches."""
    return read(call, topic, call.query.diff())


@Endpoint(
    Operation.GET_RECORD,
    scope="read",
    answers={200: (RecordAnswer, events.ONE)},
    media=OF_RECORD,
    errors=(TopicNotFound,),
    tells=DESCRIBED | events.DESCRIBED,
    tag=TAG,
)
def one_record(call: Call[None, None], topic: str, seq: str) -> Script[Answer]:
    """Get one record with its lineage."""
    number = bigint(seq)
    if not number:  # the first seq is 1
        raise InvalidRequest(f"invalid seq {seq[:30]!r}: expected a whole number from 1", seq=seq[:30])
    found = yield from record(topic, number, now_ms())
    routers = [call.key.shown(router) for router in found.routers]
    path = {"topic": call.key.shown(found.home), "seq": found.home_seq, "routers": routers}
    tail = msgspec.json.encode({"path": path, "performance": call.performance()})
    body = seen(found.record, call.key.prefixes)[:-1].encode() + b"," + tail[1:]
    return events.in_media(call.accept, topic, Answer(200, body, told(found.sealed)))


@Endpoint(
    Operation.DELETE_RECORDS,
    scope="delete",
    body=Delete,
    answers={200: DeleteRecordsAnswer},
    errors=(TopicNotFound, TopicSealed, TopicNotSealed),
    tells=DESCRIBED,
    example={"match": ["tag", "Eq", "order:8"]},
    needs_body=True,
    tag=TAG,
    instead="DELETE /v0/topics/:topic deletes the topic itself",
)
def delete(call: Call[Delete, None], topic: str) -> Script[Answer]:
    """Delete live records below a seq, by tag or by seq, permanently and without a tombstone."""
    wanted = call.body
    if wanted.copy:
        call.key.check("admin")
    if wanted.seqs is None:
        done = yield from delete_records(topic, wanted.before_seq, wanted.match, now_ms(), is_copy=wanted.copy)
    else:
        if wanted.before_seq is not None or wanted.match is not None:
            raise InvalidRequest("seqs excludes before_seq and match: send seqs alone", field="seqs")
        done = yield from delete_seqs(topic, wanted.seqs, now_ms(), is_copy=wanted.copy)
    answer = DeleteRecordsAnswer(topic=topic, **done._asdict(), performance=call.performance())
    return call.answer(answer, headers=told(wanted.copy))
