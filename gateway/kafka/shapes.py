"""Bodies and queries of the calls that a Kafka cluster takes, and what Kafka cannot do."""

from __future__ import annotations

from itertools import repeat
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, Meta, UnsetType

from base.bounds import check_token
from base.errors import InvalidRequest
from base.surrogates import lone_surrogate
from contract.operations import LONGEST_WAIT_MS, Operation, Resource, about
from gateway.errors import NotSupported

Typed = TypeVar("Typed")
Seq = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Amount = Annotated[int, Meta(ge=0, le=2**62)]
Match = tuple[Literal["tag"], Literal["Eq", "Glob"], str] | str
MAX_TAG_BYTES, MAX_NODE_BYTES, MAX_NODES = 256, 128, 1000
MAX_LIMIT, DEFAULT_LIMIT = 1000, 256
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


NO_META = msgspec.Raw(b"null")
no_meta = repeat(NO_META).__next__  # always NO_META; a Python function would take longer than reading a record


class GivenFields(msgspec.Struct, forbid_unknown_fields=True):
    """A body or a query."""


class GivenRecord(GivenFields):
    """A record of an append."""

    data: msgspec.Raw
    tag: str | None = None
    node: str | None = None
    meta: msgspec.Raw = msgspec.field(default_factory=no_meta)


class TopicSettings(GivenFields):
    """Any subset of a topic's config. Fields that Kafka has nothing for are refused unless they have their default."""

    type: Literal["log", "queue"] | UnsetType = UNSET
    ttl_ms: Amount | UnsetType = UNSET
    cap_records: Amount | UnsetType = UNSET
    cap_bytes: Amount | UnsetType = UNSET
    discard: Literal["old", "reject"] | UnsetType = UNSET
    durability: Literal["fsync", "disk", "memory", "ephemeral"] | UnsetType = UNSET
    durable: bool | UnsetType = UNSET
    priority: int | UnsetType | None = UNSET
    auto_priority: bool | UnsetType = UNSET
    auto_create: bool | UnsetType = UNSET
    idempotency_window_ms: Amount | UnsetType = UNSET
    dedupe_node: bool | UnsetType = UNSET
    numbers: Literal["any", "double"] | UnsetType = UNSET
    lease_ms: int | UnsetType = UNSET
    claim_jitter_ms: int | UnsetType = UNSET
    max_deliveries: int | UnsetType = UNSET
    dead_letter: str | UnsetType | None = UNSET
    leases_durable: bool | UnsetType = UNSET
    unique_tags: bool | UnsetType = UNSET
    sealed: bool | UnsetType = UNSET

    def given(self) -> dict[str, Any]:
        """Returns `ttl_ms`, `cap_bytes` and `durability` if they are set. Raises NotSupported for what Kafka cannot do."""
        found = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        if (durable := found.pop("durable", None)) is not None:
            found.setdefault("durability", "fsync" if durable else "disk")
        for name, value in found.items():
            if name in INERT and value != INERT[name]:
                raise NotSupported(f"{name}: {CANNOT.get(name, TO_A_SERVER)}", field=name)
        if found.get("durability") == "ephemeral":
            raise NotSupported("durability: Kafka keeps all records over a restart: use memory", field="durability")
        return {name: value for name, value in found.items() if name not in INERT}


# The fields without a meaning in Kafka, with the only value that a topic there has.
INERT: dict[str, Any] = {
    "type": "log",
    "cap_records": 0,
    "discard": "old",
    "priority": None,
    "auto_priority": True,
    "auto_create": True,
    "idempotency_window_ms": 120_000,
    "dedupe_node": True,
    "numbers": "any",
    "lease_ms": 30000,
    "claim_jitter_ms": 0,
    "max_deliveries": 0,
    "dead_letter": None,
    "leases_durable": False,
    "unique_tags": False,
    "sealed": False,
}
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


class GivenAppend(GivenFields):
    records: list[GivenRecord]
    node: str | None = None
    idempotency_key: str | None = None
    idempotency_keys: list[str | None] | None = None
    create: bool = True
    config: TopicSettings | None = None
    disable_backpressure: bool = False
    expected_head: Seq | None = None
    return_seqs: bool = True
    copy: bool = False


class AppendOptions(GivenFields):
    return_seqs: bool = True


class PutOptions(GivenFields):
    create: bool = True


class DescribeOptions(GivenFields):
    touch: bool = True


class DeleteOptions(GivenFields):
    if_empty: bool = False
    if_sealed: bool = False
    keep_head: bool = True


class ListOptions(GivenFields):
    prefix: str = ""
    page_size: Annotated[int, Meta(ge=1)] = 100
    cursor: str = ""


class NoOptions(GivenFields):
    """A query of a call that takes no fields."""


class DeleteBefore(GivenFields):
    before_seq: Seq | None = None
    match: Match | None = None
    seqs: list[Seq] | None = None
    copy: bool = False


class CursorPlace(GivenFields):
    seq: Seq | None = None
    from_ts: Seq | None = None
    at: Literal["earliest", "head"] | None = None
    expected_seq: Seq | None = None


class CursorListOptions(GivenFields):
    page_size: Annotated[int, Meta(ge=1)] = 100
    cursor: str = ""


class WantedPage(GivenFields):
    """The body of a diff. A query has the same fields, except `window`."""

    from_seq: Seq = 0
    from_ts: Seq | None = None
    limit: Annotated[int, Meta(ge=1, le=2**63 - 1)] = DEFAULT_LIMIT
    order: Literal["asc", "desc"] = "asc"
    tail: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    include_tags: bool = False
    include_meta: bool = True
    wait_ms: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    node: str | list[str] | None = None
    match: Match | None = None
    window: Literal["matches", "seqs"] = "seqs"

    def check(self) -> None:
        """Raises InvalidRequest for fields that exclude each other."""
        has = {"from_seq": self.from_seq > 0, "from_ts": self.from_ts is not None, "wait_ms": self.wait_ms > 0}
        others: dict[str, bool] = {}
        chosen = "tail" if self.tail is not None else "order: desc" if self.order == "desc" else "from_ts"
        if self.tail is not None:
            others = has | {"order": self.order == "desc", "limit": self.limit != DEFAULT_LIMIT}
        elif self.order == "desc":
            others = {"from_ts": has["from_ts"], "wait_ms": has["wait_ms"]}
        elif self.from_ts is not None:
            others = {"from_seq": has["from_seq"]}
        for field, is_given in others.items():
            if is_given:
                raise InvalidRequest(f"{field} and {chosen} exclude each other: send one", field=field)

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
        self.op: str | None = None
        self.text = ""
        if match is not None:
            self.op, self.text = ("Eq", match) if isinstance(match, str) else (match[1], match[2])
        if match is not None:
            check_token("match", self.text, MAX_TAG_BYTES + (self.op == "Glob"))
        if self.op == "Glob":
            if self.text.count("*") != 1 or not self.text.endswith("*"):
                raise InvalidRequest(
                    f"invalid Glob {self.text[:80]!r}: expected a prefix without *, and one * at its end"
                )
            self.text = self.text[:-1]
        nodes = [node] if isinstance(node, str) else node or []
        if len(nodes) > MAX_NODES:
            raise InvalidRequest(f"{len(nodes)} nodes: expected at most {MAX_NODES}")
        for each in nodes:
            check_token("node", each, MAX_NODE_BYTES)
        self.nodes = frozenset(nodes)

    @property
    def takes_all(self) -> bool:
        return self.op is None and not self.nodes

    def takes(self, tag: str | None, node: str | None) -> bool:
        if node is not None and node in self.nodes:
            return False
        if self.op is None:
            return True
        return tag is not None and (tag == self.text if self.op == "Eq" else tag.startswith(self.text))


def match_of(text: str | None) -> Match | None:
    """Returns the condition on tags in a query: a tag, or the condition as JSON. Raises InvalidRequest."""
    if text is not None and text.startswith("["):
        return body_as(text.encode(), Match)  # type: ignore[arg-type]
    if text is not None and text.endswith("*"):
        raise InvalidRequest(
            f'match={text[:80]} can mean a prefix or a tag: send ["tag","Glob",…] for the prefix, or ["tag","Eq",…] for the tag',
            field="match",
        )
    return text


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
