"""The calls of a topics server, by the ids of `/v0/schema`, and the lookup of a request's call."""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote


class Operation(enum.Enum):
    """One call of `/v0` or of the push bus.

    `Operation.OTHER` is a call that this version of the gateway does not know. `Operation.UPGRADE` is a request for a
    WebSocket, on any path.

    Example: `Operation("append") is Operation.APPEND`, and `Operation.APPEND.is_write`.
    """

    APPEND = "append"
    GET_LAST_APPEND = "get_last_append"
    READ = "read"
    LIST_RECORDS = "list_records"
    GET_RECORD = "get_record"
    DELETE_RECORDS = "delete_records"
    LIST_TOPICS = "list_topics"
    GET_TOPIC = "get_topic"
    PUT_TOPIC = "put_topic"
    DELETE_TOPIC = "delete_topic"
    LIST_CURSORS = "list_cursors"
    GET_CURSOR = "get_cursor"
    PUT_CURSOR = "put_cursor"
    DELETE_CURSOR = "delete_cursor"
    LIST_GROUPS = "list_groups"
    GET_GROUP = "get_group"
    DELETE_GROUP = "delete_group"
    COMMIT_GROUP = "commit_group"
    LEAVE_GROUP = "leave_group"
    FOLLOW_GROUP = "follow_group"
    MIRROR = "mirror"
    GET_MIRROR = "get_mirror"
    LIST_ROUTERS = "list_routers"
    GET_ROUTER = "get_router"
    PUT_ROUTER = "put_router"
    DELETE_ROUTER = "delete_router"
    CLAIM = "claim"
    ACK = "ack"
    NACK = "nack"
    EXTEND = "extend"
    REDRIVE = "redrive"
    LIST_SCHEDULES = "list_schedules"
    GET_SCHEDULE = "get_schedule"
    PUT_SCHEDULE = "put_schedule"
    DELETE_SCHEDULE = "delete_schedule"
    WORK = "work"
    WATCH = "watch"
    FOLLOW_WATCH = "follow_watch"
    FOLLOW_TOPIC = "follow_topic"
    GET_HEALTH = "get_health"
    GET_READY = "get_ready"
    GET_METRICS = "get_metrics"
    SCHEMA = "schema"
    DOCS = "docs"
    # The push bus, at the root of the port.
    LIST_TOKENS = "list_tokens"
    ADD_TOKEN = "add_token"
    DELETE_TOKEN = "delete_token"
    BUS_TOPICS = "bus_topics"
    PUBLISH = "publish"
    DELETE_BUS_TOPIC = "delete_bus_topic"
    SUBSCRIBE = "subscribe"
    SUBSCRIPTIONS = "subscriptions"
    UNSUBSCRIBE = "unsubscribe"
    UNSUBSCRIBE_ALL = "unsubscribe_all"
    UNSUBSCRIBE_CLIENT = "unsubscribe_client"
    PULSE = "pulse"
    SCALING = "scaling"
    UPGRADE = "upgrade"
    OTHER = "other"

    # Members are singletons. Enum's own hash is a Python call, and each request computes several hashes.
    __hash__ = object.__hash__

    is_read: bool
    """The call changes nothing, so the gateway can repeat the call."""
    is_write: bool
    is_bus: bool
    is_stream: bool
    """The answer does not end."""


def _set(names: str) -> frozenset[Operation]:
    return frozenset(map(Operation, names.split()))


READS = _set(
    "get_last_append read list_records get_record list_topics get_topic list_cursors get_cursor list_groups get_group"
    " get_mirror list_schedules get_schedule"
    " list_routers get_router watch follow_watch follow_topic get_health get_ready get_metrics schema docs list_tokens"
    " bus_topics subscriptions pulse scaling"
)  # `watch` only creates a session, and an unused session expires
STREAMS = _set("follow_watch follow_topic follow_group work")
GROUPS = _set("list_groups get_group delete_group commit_group leave_group follow_group")
MIRRORS = _set("mirror get_mirror")
SCHEDULES = _set("list_schedules get_schedule put_schedule delete_schedule")
LONG_POLLS = _set("read list_records")
LONGEST_POLL_SECONDS = 30.0
BUS = _set(
    "list_tokens add_token delete_token bus_topics publish delete_bus_topic subscribe subscriptions unsubscribe"
    " unsubscribe_all unsubscribe_client pulse scaling"
)
for _each in Operation:
    _each.is_read, _each.is_write = _each in READS, _each not in READS
    _each.is_bus, _each.is_stream = _each in BUS, _each in STREAMS

# By method and path. `:topic` and `:name` are placeholders of a segment.
TABLE = {
    "append": "POST /v0/topics/:topic",
    "get_last_append": "GET /v0/topics/:topic/appends",
    "read": "POST /v0/topics/:topic/diff",
    "list_records": "GET /v0/topics/:topic/records",
    "get_record": "GET /v0/topics/:topic/records/:name",
    "delete_records": "POST /v0/topics/:topic/delete",
    "list_topics": "GET /v0/topics",
    "get_topic": "GET /v0/topics/:topic",
    "put_topic": "PUT /v0/topics/:topic",
    "delete_topic": "DELETE /v0/topics/:topic",
    "list_cursors": "GET /v0/topics/:topic/cursors",
    "get_cursor": "GET /v0/topics/:topic/cursors/:name",
    "put_cursor": "PUT /v0/topics/:topic/cursors/:name",
    "delete_cursor": "DELETE /v0/topics/:topic/cursors/:name",
    "list_groups": "GET /v0/topics/:topic/groups",
    "get_group": "GET /v0/topics/:topic/groups/:name",
    "delete_group": "DELETE /v0/topics/:topic/groups/:name",
    "commit_group": "POST /v0/topics/:topic/groups/:name/commit",
    "leave_group": "POST /v0/topics/:topic/groups/:name/leave",
    "follow_group": "GET /v0/topics/:topic/groups/:name/stream",
    "mirror": "POST /v0/topics/:topic/mirror",
    "get_mirror": "GET /v0/topics/:topic/mirror",
    "list_schedules": "GET /v0/topics/:topic/schedules",
    "get_schedule": "GET /v0/topics/:topic/schedules/:name",
    "put_schedule": "PUT /v0/topics/:topic/schedules/:name",
    "delete_schedule": "DELETE /v0/topics/:topic/schedules/:name",
    "list_routers": "GET /v0/routers",
    "get_router": "GET /v0/routers/:name",
    "put_router": "PUT /v0/routers/:name",
    "delete_router": "DELETE /v0/routers/:name",
    "claim": "POST /v0/topics/:topic/claim",
    "ack": "POST /v0/topics/:topic/ack",
    "nack": "POST /v0/topics/:topic/nack",
    "extend": "POST /v0/topics/:topic/extend",
    "redrive": "POST /v0/topics/:topic/redrive",
    "work": "GET /v0/topics/:topic/work",
    "watch": "POST /v0/watch",
    "follow_watch": "GET /v0/watch/:name",
    "follow_topic": "GET /v0/topics/:topic/events",
    "get_health": "GET /v0/health|GET /healthz",
    "get_ready": "GET /v0/ready|GET /readyz",
    "get_metrics": "GET /v0/metrics",
    "schema": "GET /v0/schema",
    "docs": "GET /v0/docs",
    "list_tokens": "GET /api_tokens",
    "add_token": "POST /api_tokens",
    "delete_token": "DELETE /api_tokens/:name",
    "bus_topics": "GET /topics",
    "publish": "POST /topics/:topic",
    "delete_bus_topic": "DELETE /topic/:topic|DELETE /topics/:topic",
    "subscribe": "POST /subscription|POST /subscriber",
    "subscriptions": "GET /subscriptions|GET /subscribers",
    "unsubscribe": "DELETE /subscriber/topics/:topic",
    "unsubscribe_all": "DELETE /subscriber",
    "unsubscribe_client": "DELETE /subscribers/:name",
    "pulse": "GET /pulse",
    "scaling": "GET /pulse/scaling",
}


class NamedCall(NamedTuple):
    """The call of a request: its operation, and the topic and the other name (cursor, group, router, wid, seq) in its path."""

    operation: Operation
    topic: str | None
    name: str | None


def _tree() -> dict[str, dict]:
    root: dict[str, dict] = {}
    for name, calls in TABLE.items():
        for call in calls.split("|"):
            method, path = call.split(" ")
            at = root
            for segment in path[1:].split("/"):
                at = at.setdefault(segment, {})
            at.setdefault("", {})[method] = Operation(name)
    return root


_TREE = _tree()


@lru_cache(8192)
def place(method: str, path: str) -> NamedCall:
    """Returns the call of a request.

    For an unknown path the operation is `OTHER`, with a topic if the path starts with a topic's path.
    """
    at: dict | None = _TREE
    topic = name = None
    for segment in path[1:].split("/"):
        if at is None:
            break
        if segment and segment[0] != ":" and segment in at:
            at = at[segment]
        elif ":topic" in at:
            at, topic = at[":topic"], unquote(segment)
        elif ":name" in at:
            at, name = at[":name"], unquote(segment)
        else:
            at = None
    found = at.get("", {}).get("GET" if method == "HEAD" else method) if at is not None else None
    return NamedCall(found or Operation.OTHER, topic, name)
