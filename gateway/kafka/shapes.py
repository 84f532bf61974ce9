"""Bodies and queries of the calls that a Kafka cluster takes, and what Kafka cannot do."""

from __future__ import annotations

from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec

from base.errors import InvalidRequest
from base.surrogates import lone_surrogate
from contract.appending import AppendFields, AppendOptionFields, NewRecordFields
from contract.config import DEFAULTS, TopicConfig
from contract.cursors import CursorFields
from contract.deleting import DeleteFields, DeleteTopicFields
from contract.listing import ListFields, ListTopicsFields
from contract.operations import LONGEST_WAIT_MS, Operation, Resource, about
from contract.reading import Match, PageFields, match_in_query, nodes_of, predicate_of
from contract.topics import GetTopicFields, PutTopicFields
from gateway.errors import NotSupported

Typed = TypeVar("Typed")
MAX_TAG_BYTES, MAX_NODE_BYTES, MAX_NODES = 256, 128, 1000
MAX_LIMIT = 1000
TO_A_SERVER = "route the topic to a server of topics"

# The calls that Kafka has nothing for, each with the alternative.
OFFERS_NOT: dict[Operation, str] = {
    **dict.fromkeys(about(Resource.JOBS, Resource.SCHEDULES), f"Kafka has no queues of jobs: {TO_A_SERVER}"),
    **dict.fromkeys(about(Resource.GROUPS), "a Kafka topic has one share: use a named cursor, or a consumer of Kafka"),
    **dict.fromkeys(
        about(Resource.MIRRORS),
        "a mirror needs positions that Kafka does not keep: copy the topic with Kafka's MirrorMaker",
    ),
    **dict.fromkeys(about(Resource.COPIES), "Kafka takes no records with given seqs: copy the topic with a consumer"),
    **dict.fromkeys(about(Resource.ROUTERS), f"a router forwards between topics of one server: {TO_A_SERVER}"),
    **dict.fromkeys(about(Resource.WEBHOOKS), f"a webhook reads topics of its server: {TO_A_SERVER}"),
    **dict.fromkeys(about(Resource.BUS), f"the push bus is a part of a server: {TO_A_SERVER}"),
    Operation.GET_LAST_APPEND: "the gateway remembers keys by their names alone: read the last records",
    Operation.GET_METRICS: "Kafka's brokers have metrics of their own, and the gateway has /gateway/metrics",
    Operation.DOCS: "this is a page of a server: read docs/wire.md",
    Operation.UPGRADE: f"a WebSocket ends at a server: {TO_A_SERVER}",
}


class GivenFields(msgspec.Struct, forbid_unknown_fields=True):
    """A body or a query."""


class GivenRecord(NewRecordFields, GivenFields):
    """A record of an append."""


class TopicSettings(TopicConfig, GivenFields):
    """Any subset of a topic's config. Fields that Kafka has nothing for are refused unless they have their default."""

    def given(self) -> dict[str, Any]:
        """Returns `ttl_ms`, `cap_bytes` and `durability` if they are set. Raises NotSupported for what Kafka cannot do."""
        found = TopicConfig.given(self)
        for name, value in found.items():
            if name in INERT and value != INERT[name]:
                raise NotSupported(f"{name}: {CANNOT.get(name, TO_A_SERVER)}", field=name)
        if found.get("durability") == "ephemeral":
            raise NotSupported("durability: Kafka keeps all records over a restart: use memory", field="durability")
        return {name: value for name, value in found.items() if name not in INERT}


# The fields without a meaning in Kafka, with the only value that a topic there has.
INERT = {name: value for name, value in DEFAULTS.items() if name not in ("ttl_ms", "cap_bytes", "durability")}
CANNOT = {
    "type": f"Kafka has no queues of jobs: {TO_A_SERVER}",
    "cap_records": "Kafka counts no records: use cap_bytes",
    "discard": "Kafka discards the oldest records and refuses none: use old",
    "priority": "a stream of several Kafka topics has no priorities: leave it out",
    "idempotency_window_ms": "a key of a topic on Kafka is remembered for 120000 ms: leave it out",
    "dedupe_node": "a reader leaves out no nodes unless it names them: leave it out",
    "numbers": "Kafka looks into no record: leave it out, and send large numbers as strings",
    "sealed": "deny writes to the topic with an ACL of Kafka, or with a filter Deny",
}


class GivenAppend(AppendFields, GivenFields):
    """The body of an append."""

    records: list[GivenRecord]
    config: TopicSettings | None = None


class AppendOptions(AppendOptionFields, GivenFields):
    """The query of an append."""


class PutOptions(PutTopicFields, GivenFields):
    """The query of a PUT of a topic."""


class DescribeOptions(GetTopicFields, GivenFields):
    """The query of a GET of a topic."""


class DeleteOptions(DeleteTopicFields, GivenFields):
    """The query of a delete of a topic."""


class ListOptions(ListFields, GivenFields):
    """The query of a list."""


class TopicListOptions(ListTopicsFields, GivenFields):
    """The query of the list of topics."""


class NoOptions(GivenFields):
    """A query of a call that takes no fields."""


class GivenDelete(DeleteFields, GivenFields):
    """The body of a record delete."""


class GivenCursor(CursorFields, GivenFields):
    """The new position of a cursor."""


class WantedPage(PageFields, GivenFields):
    """The body of a diff. A query has the same fields, except `window`."""

    def clamped(self) -> dict[str, int]:
        """Returns the fields that are too large, each with the value that counts."""
        pairs = {
            "limit": (self.limit, MAX_LIMIT),
            "tail": (self.tail or 0, MAX_LIMIT),
            "wait_ms": (self.wait_ms, LONGEST_WAIT_MS),
        }
        return {name: most for name, (asked, most) in pairs.items() if asked > most}


class RecordsOptions(WantedPage):
    """A diff as a query."""

    node: list[str] = []
    match: str | None = None
    window: Literal["matches"] = "matches"


class TagMatch:
    """A condition on tags and nodes, as a read has it. Raises InvalidRequest for an invalid one."""

    def __init__(self, match: Match | None, node: str | list[str] | None) -> None:
        self.op, self.text = predicate_of(match, MAX_TAG_BYTES)
        self.nodes = frozenset(nodes_of(node, MAX_NODES, MAX_NODE_BYTES))

    @property
    def takes_all(self) -> bool:
        return self.op is None and not self.nodes

    def takes(self, tag: str | None, node: str | None) -> bool:
        if node is not None and node in self.nodes:
            return False
        if self.op is None:
            return True
        return (
            tag is not None
            and self.text is not None
            and (tag == self.text if self.op == "Eq" else tag.startswith(self.text))
        )


def match_of(text: str | None) -> Match | None:
    """Returns the condition on tags in a query: a tag, or the condition as JSON. Raises InvalidRequest."""
    return None if text is None else match_in_query(text, lambda json: body_as(json, Match))  # type: ignore[arg-type]


def body_as(body: bytes, shape: type[Typed]) -> Typed:
    """Returns a body as a struct. Raises InvalidRequest."""
    try:
        if not body.isascii():
            body.decode()
        return msgspec.json.decode(body or b"{}", type=shape)
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the body is not UTF-8 (byte {error.start})") from error
    except msgspec.MsgspecError as error:
        raise InvalidRequest(lone_surrogate(body) or f"invalid body: {error}") from error
    except RecursionError as error:
        raise InvalidRequest("the JSON is nested too deeply") from error


def query_as(query: str, shape: type[Typed]) -> Typed:
    """Returns a query as a struct. `node` takes all its values, other fields the last. Raises InvalidRequest."""
    if not query:
        return shape()
    given: dict[str, Any] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidRequest("the query is not UTF-8") from error
    for name, value in pairs:
        if "\0" in value:
            raise InvalidRequest(f"{name} contains a NUL character: remove it")
        if name == "node":
            given.setdefault(name, []).append(value)
        elif name not in ("_", "token"):
            given[name] = value
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"invalid query: {error}") from error
