"""Every call of a topics server, declared once.

The server binds a handler to each call (wire/endpoint.py). The gateway finds the call of a request here, and derives from it what
the call may do. So a call that is added here is known to both.
"""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import NamedTuple

from base.errors import NotFound
from contract import paths


class Resource(enum.Enum):
    """The state that a call reads or changes."""

    RECORDS = enum.auto()
    TOPICS = enum.auto()
    CURSORS = enum.auto()
    JOBS = enum.auto()
    SCHEDULES = enum.auto()
    GROUPS = enum.auto()
    MIRRORS = enum.auto()
    COPIES = enum.auto()
    """All state of a topic, for a copy of the topic."""
    ROUTERS = enum.auto()
    WEBHOOKS = enum.auto()
    SESSIONS = enum.auto()
    SERVER = enum.auto()
    BUS = enum.auto()


class Effect(enum.Flag):
    """The effects of a call. A call without a flag changes something."""

    WRITE = 0
    READ = enum.auto()
    """It changes nothing, so a gateway can repeat it."""
    WAIT = enum.auto()
    """It can wait for records or for jobs (a long poll)."""
    STREAM = enum.auto()
    """Its answer does not end."""
    LARGE = enum.auto()
    """Its body can have TOPICS_MAX_BODY_BYTES, not just TOPICS_MAX_CALL_BYTES."""


LONGEST_WAIT_MS = 30_000  # of a long poll
# Bytes of `data` and `meta` in one event of a stream: the default, and the most. With the fields around its records, an event of
# the default size has less than 64 KiB, because widely used clients refuse longer lines (docs/watch.md).
EVENT_BYTES, MOST_EVENT_BYTES = 36 * 1024, 256 * 1024


class MethodPath(NamedTuple):
    """A method and a path, with names in braces: `/v0/topics/{topic}`."""

    method: str
    path: str

    @property
    def segments(self) -> list[str | None]:
        """Returns the words of the path, with None for each name."""
        return [None if each.startswith("{") else each for each in self.path[1:].split("/")]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each[1:-1] for each in self.path.split("/") if each.startswith("{"))


class Operation(enum.Enum):
    """One call of `/v0` or of the push bus. Its value is its id in `/v0/schema`.

    `Operation.OPTIONS` asks for the methods of a known path. `Operation.UPGRADE` is a request for a WebSocket, on any path.
    `Operation.OTHER` is a call that this version does not know.

    Example: `Operation("append") is Operation.APPEND`, and `Operation.APPEND.is_write`.
    """

    APPEND = "append", "POST /v0/topics/{topic}", Resource.RECORDS, Effect.LARGE
    GET_LAST_APPEND = "get_last_append", "GET /v0/topics/{topic}/appends", Resource.RECORDS, Effect.READ
    READ = "read", "POST /v0/topics/{topic}/diff", Resource.RECORDS, Effect.READ | Effect.WAIT
    LIST_RECORDS = "list_records", "GET /v0/topics/{topic}/records", Resource.RECORDS, Effect.READ | Effect.WAIT
    GET_RECORD = "get_record", "GET /v0/topics/{topic}/records/{seq}", Resource.RECORDS, Effect.READ
    DELETE_RECORDS = "delete_records", "POST /v0/topics/{topic}/delete", Resource.RECORDS
    FOLLOW_TOPIC = "follow_topic", "GET /v0/topics/{topic}/events", Resource.RECORDS, Effect.READ | Effect.STREAM
    LIST_TOPICS = "list_topics", "GET /v0/topics", Resource.TOPICS, Effect.READ
    GET_TOPIC = "get_topic", "GET /v0/topics/{topic}", Resource.TOPICS, Effect.READ
    PUT_TOPIC = "put_topic", "PUT /v0/topics/{topic}", Resource.TOPICS
    DELETE_TOPIC = "delete_topic", "DELETE /v0/topics/{topic}", Resource.TOPICS
    LIST_CURSORS = "list_cursors", "GET /v0/topics/{topic}/cursors", Resource.CURSORS, Effect.READ
    GET_CURSOR = "get_cursor", "GET /v0/topics/{topic}/cursors/{cursor}", Resource.CURSORS, Effect.READ
    PUT_CURSOR = "put_cursor", "PUT /v0/topics/{topic}/cursors/{cursor}", Resource.CURSORS
    DELETE_CURSOR = "delete_cursor", "DELETE /v0/topics/{topic}/cursors/{cursor}", Resource.CURSORS
    CLAIM = "claim", "POST /v0/topics/{topic}/claim", Resource.JOBS, Effect.WAIT
    ACK = "ack", "POST /v0/topics/{topic}/ack", Resource.JOBS
    NACK = "nack", "POST /v0/topics/{topic}/nack", Resource.JOBS
    EXTEND = "extend", "POST /v0/topics/{topic}/extend", Resource.JOBS
    REDRIVE = "redrive", "POST /v0/topics/{topic}/redrive", Resource.JOBS
    WORK = "work", "GET /v0/topics/{topic}/work", Resource.JOBS, Effect.STREAM
    LIST_SCHEDULES = "list_schedules", "GET /v0/topics/{topic}/schedules", Resource.SCHEDULES, Effect.READ
    GET_SCHEDULE = "get_schedule", "GET /v0/topics/{topic}/schedules/{schedule}", Resource.SCHEDULES, Effect.READ
    PUT_SCHEDULE = "put_schedule", "PUT /v0/topics/{topic}/schedules/{schedule}", Resource.SCHEDULES
    DELETE_SCHEDULE = "delete_schedule", "DELETE /v0/topics/{topic}/schedules/{schedule}", Resource.SCHEDULES
    LIST_GROUPS = "list_groups", "GET /v0/topics/{topic}/groups", Resource.GROUPS, Effect.READ
    GET_GROUP = "get_group", "GET /v0/topics/{topic}/groups/{group}", Resource.GROUPS, Effect.READ
    DELETE_GROUP = "delete_group", "DELETE /v0/topics/{topic}/groups/{group}", Resource.GROUPS
    COMMIT_GROUP = "commit_group", "POST /v0/topics/{topic}/groups/{group}/commit", Resource.GROUPS
    LEAVE_GROUP = "leave_group", "POST /v0/topics/{topic}/groups/{group}/leave", Resource.GROUPS
    FOLLOW_GROUP = "follow_group", "GET /v0/topics/{topic}/groups/{group}/stream", Resource.GROUPS, Effect.STREAM
    MIRROR = "mirror", "POST /v0/topics/{topic}/mirror", Resource.MIRRORS, Effect.LARGE
    GET_MIRROR = "get_mirror", "GET /v0/topics/{topic}/mirror", Resource.MIRRORS, Effect.READ
    GET_STATE = "get_state", "GET /v0/topics/{topic}/state/{kind}", Resource.COPIES, Effect.READ
    PUT_STATE = "put_state", "POST /v0/topics/{topic}/state/{kind}", Resource.COPIES, Effect.LARGE
    LIST_ROUTERS = "list_routers", "GET /v0/routers", Resource.ROUTERS, Effect.READ
    GET_ROUTER = "get_router", "GET /v0/routers/{router}", Resource.ROUTERS, Effect.READ
    PUT_ROUTER = "put_router", "PUT /v0/routers/{router}", Resource.ROUTERS
    DELETE_ROUTER = "delete_router", "DELETE /v0/routers/{router}", Resource.ROUTERS
    LIST_WEBHOOKS = "list_webhooks", "GET /v0/webhooks", Resource.WEBHOOKS, Effect.READ
    GET_WEBHOOK = "get_webhook", "GET /v0/webhooks/{webhook}", Resource.WEBHOOKS, Effect.READ
    PUT_WEBHOOK = "put_webhook", "PUT /v0/webhooks/{webhook}", Resource.WEBHOOKS
    DELETE_WEBHOOK = "delete_webhook", "DELETE /v0/webhooks/{webhook}", Resource.WEBHOOKS
    PAUSE_WEBHOOK = "pause_webhook", "POST /v0/webhooks/{webhook}/pause", Resource.WEBHOOKS
    RESUME_WEBHOOK = "resume_webhook", "POST /v0/webhooks/{webhook}/resume", Resource.WEBHOOKS
    TEST_WEBHOOK = "test_webhook", "POST /v0/webhooks/{webhook}/test", Resource.WEBHOOKS
    ROTATE_WEBHOOK = "rotate_webhook", "POST /v0/webhooks/{webhook}/rotate", Resource.WEBHOOKS
    LIST_DELIVERIES = "list_deliveries", "GET /v0/webhooks/{webhook}/deliveries", Resource.WEBHOOKS, Effect.READ
    REPLAY_WEBHOOK = "replay_webhook", "POST /v0/webhooks/{webhook}/replay", Resource.WEBHOOKS
    WATCH = (
        "watch",
        "POST /v0/watch",
        Resource.SESSIONS,
        Effect.READ,
    )  # creates a session, and an unused session expires
    FOLLOW_WATCH = "follow_watch", "GET /v0/watch/{wid}", Resource.SESSIONS, Effect.READ | Effect.STREAM
    GET_HEALTH = "get_health", "GET /v0/health|GET /healthz", Resource.SERVER, Effect.READ
    GET_READY = "get_ready", "GET /v0/ready|GET /readyz", Resource.SERVER, Effect.READ
    GET_METRICS = "get_metrics", "GET /v0/metrics", Resource.SERVER, Effect.READ
    SCHEMA = "schema", "GET /v0/schema", Resource.SERVER, Effect.READ
    DOCS = "docs", "GET /v0/docs", Resource.SERVER, Effect.READ
    LIST_NODES = "list_nodes", "GET /v0/nodes", Resource.SERVER, Effect.READ  # of a gateway alone
    # The push bus, at the root of the port.
    LIST_TOKENS = "list_tokens", "GET /api_tokens", Resource.BUS, Effect.READ
    ADD_TOKEN = "add_token", "POST /api_tokens", Resource.BUS
    DELETE_TOKEN = "delete_token", "DELETE /api_tokens/{token}", Resource.BUS
    BUS_TOPICS = "bus_topics", "GET /topics", Resource.BUS, Effect.READ
    PUBLISH = "publish", "POST /topics/{topic}", Resource.BUS, Effect.LARGE
    DELETE_BUS_TOPIC = "delete_bus_topic", "DELETE /topic/{topic}|DELETE /topics/{topic}", Resource.BUS
    SUBSCRIBE = "subscribe", "POST /subscription|POST /subscriber", Resource.BUS
    SUBSCRIPTIONS = "subscriptions", "GET /subscriptions|GET /subscribers", Resource.BUS, Effect.READ
    UNSUBSCRIBE = "unsubscribe", "DELETE /subscriber/topics/{topic}", Resource.BUS
    UNSUBSCRIBE_ALL = "unsubscribe_all", "DELETE /subscriber", Resource.BUS
    UNSUBSCRIBE_CLIENT = "unsubscribe_client", "DELETE /subscribers/{subscriber}", Resource.BUS
    PULSE = "pulse", "GET /pulse", Resource.BUS, Effect.READ
    SCALING = "scaling", "GET /pulse/scaling", Resource.BUS, Effect.READ
    OPTIONS = "options", "", Resource.SERVER, Effect.READ
    UPGRADE = "upgrade", "", Resource.SERVER
    OTHER = "other", "", Resource.SERVER

    paths: tuple[MethodPath, ...]
    """The first one is the call's own. The others are for older clients and for probes."""
    resource: Resource
    is_read: bool
    is_write: bool
    waits: bool
    is_stream: bool
    is_bus: bool
    is_large: bool

    def __new__(cls, id: str, calls: str, resource: Resource, effect: Effect = Effect.WRITE) -> Operation:
        made = object.__new__(cls)
        made._value_ = id
        made.paths = tuple(MethodPath(*each.split(" ")) for each in calls.split("|") if each)
        made.resource, made.is_bus = resource, resource is Resource.BUS
        made.is_read, made.is_write = Effect.READ in effect, Effect.READ not in effect
        made.waits, made.is_stream = Effect.WAIT in effect, Effect.STREAM in effect
        made.is_large = Effect.LARGE in effect
        return made

    # Members are singletons. Enum's own hash is a Python call, and each request computes several hashes.
    __hash__ = object.__hash__


def about(*resources: Resource) -> frozenset[Operation]:
    """Returns the calls that read or change one of the resources."""
    return frozenset(each for each in Operation if each.resource in resources)


class NamedCall(NamedTuple):
    """The call of a request: its operation, and the topic and the other name (cursor, group, router, wid, seq) in its path."""

    operation: Operation
    topic: str | None
    name: str | None


class Methods(NamedTuple):
    """The operations of a path by method, and the kinds of the names in the path."""

    names: tuple[str, ...]
    operations: dict[str, Operation]


def _tree() -> paths.Tree[Methods]:
    by_path: dict[str, Methods] = {}
    tree = paths.Tree[Methods]()
    for operation in Operation:
        for each in operation.paths:
            methods = by_path.setdefault(each.path, Methods(each.names, {}))
            methods.operations[each.method] = operation
            tree.add(each.segments, methods)
    return tree


_TREE = _tree()


@lru_cache(8192)
def called(method: str, path: str) -> NamedCall:
    """Returns the call of a request.

    For an unknown path the operation is `OTHER`. For another method of a known path, the names in the path are known, too.
    """
    try:
        found = _TREE.find(paths.decoded(path))
    except NotFound:
        found = None
    if found is None:
        return NamedCall(Operation.OTHER, None, None)
    methods, given = found
    topic = name = None
    for kind, value in zip(methods.names, given, strict=True):
        if kind == "topic":
            topic = value
        else:
            name = value
    if method == "OPTIONS":
        return NamedCall(Operation.OPTIONS, topic, name)
    return NamedCall(methods.operations.get("GET" if method == "HEAD" else method, Operation.OTHER), topic, name)
