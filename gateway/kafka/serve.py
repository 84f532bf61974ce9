"""The calls of `/v0` for topics of a Kafka cluster: a handler for each call, and the form of answers and refusals."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from confluent_kafka import KafkaException, TopicPartition

from base.clock import process
from base.errors import (
    InvalidRequest,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    NotReady,
    RecordNotFound,
    TopicNotEmpty,
    TopicNotFound,
    TopicNotSealed,
    TopicsError,
    UnsupportedMediaType,
)
from contract.operations import Operation, called
from gateway.api import Request, Response
from gateway.configuration.shapes import KafkaDefinition
from gateway.errors import NotSupported
from gateway.kafka import listing, streams
from gateway.kafka.client import MaybeAbsent, absent, outcome, watched_settings
from gateway.kafka.messages import messages_of
from gateway.kafka.pages import OffsetRange, rendered
from gateway.kafka.shapes import (
    OFFERS_NOT,
    AppendOptions,
    DeleteOptions,
    DescribeOptions,
    GivenAppend,
    GivenCursor,
    GivenDelete,
    ListOptions,
    NoOptions,
    PutOptions,
    RecordsOptions,
    TopicListOptions,
    TopicSettings,
    WantedPage,
    body_as,
    match_of,
    query_as,
)
from gateway.kafka.topics import BATCH_BYTES, BATCH_SLACK, KafkaTopic
from gateway.kafka.version import ClusterVersion
from gateway.proxy.answers import refusal

log = logging.getLogger(__name__)
NO_METHODS = [(b"allow", b"OPTIONS")]
JSON = (b"content-type", b"application/json")
RECORD_KEYS = "idempotency_keys: Kafka remembers a key for a whole append: send idempotency_key"
MOST_KEY_CHARACTERS = 256
Answer = dict[str, Any]
Handler = Callable[[ClusterVersion, Request], Awaitable[Response]]
HANDLERS: dict[Operation, Handler] = {}


def handles(operation: Operation) -> Callable[[Handler], Handler]:
    def declared(handler: Handler) -> Handler:
        HANDLERS[operation] = handler
        return handler

    return declared


class KafkaEngine:
    """Answers requests with a Kafka cluster (proxy/upstreams.py, ClusterEngine)."""

    offers_not: Mapping[Operation, str] = OFFERS_NOT

    def __init__(self, definition: KafkaDefinition, folder: Path, seconds: float) -> None:
        """`seconds`: the longest time for a call of Kafka. Raises OSError, ValueError for an invalid file."""
        self.is_up = True
        self.url = f"kafka://{definition.bootstrap_servers}"
        self.defaults, self.seconds = definition.topic_defaults, seconds
        self.settings = watched_settings(definition, folder)
        self.version = self.made()

    def made(self) -> ClusterVersion:
        return ClusterVersion(self.settings.value, self.defaults, self.seconds)

    def renew(self) -> None:
        """Uses changed files: later calls have new clients, and the streams move to them."""
        if self.settings.value != self.version.settings:
            old, self.version = self.version, self.made()
            old.retire(self.version)

    async def answer(self, request: Request, seconds: float) -> Response:
        """Returns the answer to a request. Raises TopicsError, within the time."""
        if request.operation is Operation.OPTIONS:
            return allowed(request)
        handler = HANDLERS.get(request.operation)
        if handler is None:
            methods = allowed(request).headers
            if methods == NO_METHODS:
                raise NotFound(f"unknown path: {request.path}")
            refused = refusal(MethodNotAllowed(f"{request.path} takes {methods[0][1].decode()}"))
            return refused.replace(headers=[*refused.headers, *methods])
        check_accept(request)
        version = self.version
        try:
            async with asyncio.timeout(seconds):
                with version.clients.used():
                    return await called_with(version, handler, request)
        except TimeoutError as error:
            written = {"maybe_written": True} if request.operation.is_write else {}
            raise NotReady(f"Kafka did not answer within {seconds:g} s", **written) from error

    async def is_ready(self, seconds: float) -> bool:
        version = self.version
        with version.clients.used():
            await version.pages.readers.rest()
            found = await version.clients.run(reaches, version, seconds)
        if found != self.is_up:
            self.is_up = found
            log.warning("The Kafka cluster at %s %s", self.url, "answers again" if found else "does not answer")
        return found

    def close(self) -> None:
        """Closes the clients after the calls under way."""
        self.version.retire()


async def called_with(version: ClusterVersion, handler: Handler, request: Request) -> Response:
    """Returns the answer of a handler. If Kafka did not find the topic, looks whether the topic exists."""
    try:
        return await handler(version, request)
    except MaybeAbsent:
        if request.topic is not None:
            version.topics.forget(topic_in(request))
            await version.topics.get(topic_in(request))
        raise


def reaches(version: ClusterVersion, seconds: float) -> bool:
    try:
        version.clients.admin.list_topics(topic="", timeout=seconds)
    except KafkaException:
        return False
    return True


def check_accept(request: Request) -> None:
    """Raises NotAcceptable if the client does not accept JSON. Streams look for themselves."""
    accept = request.header(b"accept")
    if not accept or request.operation.is_stream:
        return
    if not any(each in accept for each in (b"application/json", b"application/*", b"*/*", b"text/html")):
        raise NotAcceptable("the answer is JSON: allow application/json in Accept")


def allowed(request: Request) -> Response:
    """Returns the answer to OPTIONS: the methods of a path."""
    methods = [each for each in ("GET", "POST", "PUT", "DELETE") if called(each, request.path).operation in HANDLERS]
    methods[1:1] = ["HEAD"] if "GET" in methods else []
    return Response(204, [(b"allow", ", ".join([*methods, "OPTIONS"]).encode())])


async def body_of(request: Request, shape: type[Any]) -> Any:
    """Returns the body as a struct. Raises InvalidRequest, UnsupportedMediaType."""
    body = await request.body()
    content_type = (request.header(b"content-type") or b"").partition(b";")[0].strip().lower()
    if body and content_type != b"application/json":
        raise UnsupportedMediaType("the body must be JSON: send Content-Type: application/json")
    return body_as(body, shape)


def topic_in(request: Request) -> str:
    assert request.topic is not None
    return unquote(request.topic)


def answered(started: float, body: Answer, status: int = 200, **performance: float) -> Response:
    told = {"server_total_ms": elapsed(started), **performance}
    return Response.json(status, {**body, "performance": told})


def elapsed(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)


# -- Records ---------------------------------------------------------------------------------------------------------------


@handles(Operation.APPEND)
async def append(kafka: ClusterVersion, request: Request) -> Response:
    started = time.perf_counter()
    wanted: GivenAppend = await body_of(request, GivenAppend)
    options = query_as(request.query, AppendOptions)
    key = key_of(request, wanted)
    if wanted.expected_head is not None:
        raise NotSupported(
            "expected_head: Kafka appends without a look at the head: route the topic to a server of topics",
            field="expected_head",
        )
    if wanted.copy:
        raise NotSupported(OFFERS_NOT[Operation.GET_STATE], field="copy")
    name = topic_in(request)
    topic, created = await topic_for(kafka, name, wanted)
    messages = messages_of(wanted.records, wanted.node, topic.most_bytes)
    sending, deduped = time.perf_counter(), False
    try:
        if key is not None:
            first, deduped = await kafka.keyed.lane(name).append(topic, messages, key)
        else:
            first = await kafka.lanes.lane(name, topic.durability).append(name, messages, topic.most_bytes)
    except TopicNotFound:
        kafka.topics.forget(name)  # another gateway has deleted it
        raise
    last = first + len(messages)
    body: Answer = {"topic": name, "first_seq": first + 1, "last_seq": last}
    if wanted.return_seqs and options.return_seqs:
        body["seqs"] = list(range(first + 1, last + 1))
    body |= {"head_seq": last, "count": len(messages), "created": created, "deduped": deduped}
    times = {"wal_append_ms": elapsed(sending), "fsync_ms": 0.0}
    if topic.durability == "fsync":
        times["fsync_ms"] = times["wal_append_ms"]  # Kafka writes and flushes in one step
    return answered(started, body, 201 if created else 200, **times)


def key_of(request: Request, wanted: GivenAppend) -> str | None:
    """Returns the idempotency key of an append. Raises InvalidRequest, NotSupported."""
    if wanted.idempotency_keys is not None:
        raise NotSupported(RECORD_KEYS, field="idempotency_keys")
    key, header = wanted.idempotency_key, request.header(b"idempotency-key")
    if key is None and header is not None:
        try:
            key = header.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"the header Idempotency-Key is not UTF-8 (byte {error.start})") from error
    if key is not None and not 0 < len(key) <= MOST_KEY_CHARACTERS:
        raise InvalidRequest(f"the idempotency key has {len(key)} characters: expected 1 to {MOST_KEY_CHARACTERS}")
    if key is not None and "\0" in key:
        raise InvalidRequest("the idempotency key contains a NUL character: remove it")
    return key


async def topic_for(kafka: ClusterVersion, name: str, wanted: GivenAppend) -> tuple[KafkaTopic, bool]:
    """Returns the topic of an append, and whether the append has created it. Raises TopicsError."""
    topic = await kafka.topics.find(name)
    if topic is not None:
        return topic, False
    if not wanted.create:
        raise absent(name)
    messages_of(wanted.records, wanted.node, BATCH_BYTES - BATCH_SLACK)  # a bad append creates no topic
    created = await kafka.topics.create(name, wanted.config or TopicSettings())
    return await kafka.topics.get(name), created


async def page(kafka: ClusterVersion, request: Request, wanted: WantedPage, started: float) -> Response:
    name = topic_in(request)
    found = await kafka.pages.diff(name, wanted)
    return Response(200, [JSON], rendered(name, found, wanted, elapsed(started)))


@handles(Operation.READ)
async def read(kafka: ClusterVersion, request: Request) -> Response:
    started = time.perf_counter()
    query_as(request.query, NoOptions)
    return await page(kafka, request, await body_of(request, WantedPage), started)


@handles(Operation.LIST_RECORDS)
async def list_records(kafka: ClusterVersion, request: Request) -> Response:
    started = time.perf_counter()
    given = query_as(request.query, RecordsOptions)
    wanted = WantedPage(**{**msgspec.structs.asdict(given), "match": match_of(given.match)})
    return await page(kafka, request, wanted, started)


@handles(Operation.GET_RECORD)
async def get_record(kafka: ClusterVersion, request: Request) -> Response:
    started, name, seq = time.perf_counter(), topic_in(request), request.name or ""
    query_as(request.query, NoOptions)
    if not (seq.isascii() and seq.isdigit() and len(seq) <= 19 and 0 < int(seq) < 2**63):
        raise InvalidRequest(f"invalid seq {seq[:80]!r}: expected a whole number from 1")
    found = await kafka.pages.record(name, int(seq))
    if found is None:
        raise RecordNotFound.of(topic=name, seq=int(seq))
    told = {
        "path": {"topic": name, "seq": found.seq, "routers": []},
        "performance": {"server_total_ms": elapsed(started)},
    }
    return Response(200, [JSON], found.json(tags=True, meta=True)[:-1] + b"," + msgspec.json.encode(told)[1:])


@handles(Operation.DELETE_RECORDS)
async def delete_records(kafka: ClusterVersion, request: Request) -> Response:
    started, name = time.perf_counter(), topic_in(request)
    wanted: GivenDelete = await body_of(request, GivenDelete)
    if wanted.match is not None or wanted.seqs is not None or wanted.copy:
        raise NotSupported("Kafka deletes only the oldest records: use before_seq, or a ttl_ms", field="match")
    if wanted.before_seq is None:
        raise InvalidRequest("before_seq is missing: delete the records below which seq?", field="before_seq")
    await kafka.topics.get(name)
    extent = await kafka.pages.extent(name)
    before = min(max(wanted.before_seq - 1, extent.low), extent.high)
    if before > extent.low:
        place = TopicPartition(name, 0, before)
        asked = kafka.clients.admin.delete_records([place], request_timeout=kafka.clients.seconds)
        await outcome(asked[TopicPartition(name, 0)], name)
    left = OffsetRange(before, extent.high)
    return answered(started, {"topic": name, "deleted": before - extent.low, **sizes(left), "head_seq": left.head_seq})


@handles(Operation.WATCH)
async def watch(kafka: ClusterVersion, request: Request) -> Response:
    started = time.perf_counter()
    wanted: streams.GivenWatch = await body_of(request, streams.GivenWatch)
    options = query_as(request.query, streams.WatchOptions)
    return answered(started, await streams.begin(kafka.pages, wanted, lenient=options.lenient))


@handles(Operation.FOLLOW_WATCH)
async def follow_watch(kafka: ClusterVersion, request: Request) -> Response:
    query_as(request.query, streams.StreamOptions)
    return streams.follow(kafka, request)


@handles(Operation.FOLLOW_TOPIC)
async def follow_topic(kafka: ClusterVersion, request: Request) -> Response:
    return await streams.events(kafka, request, topic_in(request))


# -- Topics ----------------------------------------------------------------------------------------------------------------


def sizes(extent: OffsetRange) -> Answer:
    """The size of a topic. Kafka counts offsets and not records, and does not tell the bytes."""
    return {"earliest_seq": extent.earliest_seq, "count": extent.high - extent.low, "bytes": 0}


@handles(Operation.PUT_TOPIC)
async def put_topic(kafka: ClusterVersion, request: Request) -> Response:
    started, name = time.perf_counter(), topic_in(request)
    settings: TopicSettings = await body_of(request, TopicSettings)
    options = query_as(request.query, PutOptions)
    settings.given()
    topic = await kafka.topics.find(name)
    created = False
    if topic is None:
        if not options.create:
            raise absent(name)
        created = await kafka.topics.create(name, settings)
        topic = await kafka.topics.get(name)
    if not created:
        topic = await kafka.topics.change(topic, settings)
    return answered(started, {"topic": name, "created": created, "config": topic.shown}, 201 if created else 200)


@handles(Operation.GET_TOPIC)
async def get_topic(kafka: ClusterVersion, request: Request) -> Response:
    started, name = time.perf_counter(), topic_in(request)
    query_as(request.query, DescribeOptions)
    topic = await kafka.topics.get(name)
    extent = await kafka.pages.extent(name)
    last = await kafka.pages.record(name, extent.head_seq)
    body = {
        "topic": name,
        "type": "log",
        "head_seq": extent.head_seq,
        "next_seq": extent.head_seq + 1,
        **sizes(extent),
        "config": topic.shown,
        "effective_priority": 0,
        "last_write_ts": None if last is None else last.ts,
        "last_read_ts": None,
    }
    return answered(started, body)


@handles(Operation.DELETE_TOPIC)
async def delete_topic(kafka: ClusterVersion, request: Request) -> Response:
    started, name = time.perf_counter(), topic_in(request)
    options = query_as(request.query, DeleteOptions)
    topic = await kafka.topics.find(name)
    if topic is not None and options.if_sealed:
        raise TopicNotSealed(f"topic {name!r} is not sealed: leave out if_sealed")
    if topic is not None and options.if_empty:
        extent = await kafka.pages.extent(name)
        if extent.high > extent.low:
            raise TopicNotEmpty(f"topic {name!r} holds records: leave out if_empty, or delete them first")
    deleted = await kafka.topics.delete(name)
    return answered(started, {"topic": name, "deleted": deleted, "routers_removed": []})


@handles(Operation.LIST_TOPICS)
async def list_topics(kafka: ClusterVersion, request: Request) -> Response:
    started = time.perf_counter()
    options = query_as(request.query, TopicListOptions)
    names = [each for each in await kafka.topics.names() if each.startswith(options.prefix)]
    chosen, body = listing.page_of(names, options)
    body["topics"] = [each for each in await asyncio.gather(*(listed(kafka, name) for name in chosen)) if each]
    return answered(started, body)


async def listed(kafka: ClusterVersion, name: str) -> Answer | None:
    """Returns an entry of a list, or None for a topic that was deleted meanwhile."""
    try:
        topic, extent = await asyncio.gather(kafka.topics.get(name), kafka.pages.extent(name))
    except TopicsError as error:
        if isinstance(error, NotReady):
            raise
        return None
    told = {"topic": name, "head_seq": extent.head_seq, **sizes(extent)}
    return {**told, "durable": topic.durability == "fsync", "effective_priority": 0}


# -- Cursors ---------------------------------------------------------------------------------------------------------------


def cursor_in(request: Request) -> str:
    return unquote(request.name or "")


@handles(Operation.PUT_CURSOR)
async def put_cursor(kafka: ClusterVersion, request: Request) -> Response:
    started = time.perf_counter()
    query_as(request.query, NoOptions)
    place: GivenCursor = await body_of(request, GivenCursor)
    found, created = await kafka.cursors.put(topic_in(request), cursor_in(request), place)
    return answered(started, {**found, "created": created}, 201 if created else 200)


@handles(Operation.GET_CURSOR)
async def get_cursor(kafka: ClusterVersion, request: Request) -> Response:
    started = time.perf_counter()
    query_as(request.query, NoOptions)
    return answered(started, await kafka.cursors.get(topic_in(request), cursor_in(request)))


@handles(Operation.LIST_CURSORS)
async def list_cursors(kafka: ClusterVersion, request: Request) -> Response:
    started, topic = time.perf_counter(), topic_in(request)
    options = query_as(request.query, ListOptions)
    names, body = listing.page_of(await kafka.cursors.names(topic), options)
    found = await asyncio.gather(*(kafka.cursors.find(topic, name) for name in names))
    return answered(started, {"topic": topic, "cursors": [each for each in found if each is not None], **body})


@handles(Operation.DELETE_CURSOR)
async def delete_cursor(kafka: ClusterVersion, request: Request) -> Response:
    started, topic, cursor = time.perf_counter(), topic_in(request), cursor_in(request)
    query_as(request.query, NoOptions)
    deleted = await kafka.cursors.delete(topic, cursor)
    return answered(started, {"topic": topic, "cursor": cursor, "deleted": deleted})


# -- The cluster -----------------------------------------------------------------------------------------------------------


@handles(Operation.GET_HEALTH)
async def get_health(kafka: ClusterVersion, request: Request) -> Response:
    uptime = int((time.monotonic() - process.started) * 1000)
    return answered(time.perf_counter(), {"status": "ok", "version": "kafka", "uptime_ms": uptime})


@handles(Operation.GET_READY)
async def get_ready(kafka: ClusterVersion, request: Request) -> Response:
    started = time.perf_counter()
    return answered(
        started, {"status": "ready", "wal_replay_complete": True, "topics": len(await kafka.topics.names())}
    )


@handles(Operation.SCHEMA)
async def schema(kafka: ClusterVersion, request: Request) -> Response:
    return Response.json(200, listing.schema(frozenset(HANDLERS)))
