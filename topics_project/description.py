"""Descriptions in the API schema of /v0 as a whole, and of the names in paths (wire/documents/openapi.py builds the schema)."""

from __future__ import annotations

from typing import Any

NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$"
ABOUT = """\
Durable event topics, routers and push delivery over HTTP.

The examples run in the order of this page. The first examples create the topic `example-orders` and append to it. No example
deletes it. The examples of queues need a queue: `PUT /v0/topics/example-jobs` with `{"type": "queue"}`.
State is written into a sealed topic: `PUT /v0/topics/example-copy` with `{"sealed": true}`.

Read next:

- [/](/): the pages of this server. [/admin/](/admin/): the operators' console. [/v0/schema](/v0/schema): this page for generators
- [/docs/wire.md](/docs/wire.md): the API on one page, with keys, pages of lists, errors and limits
- [/docs/watch.md](/docs/watch.md): follow topics in a browser. [/docs/routers.md](/docs/routers.md): forwarding
- [/docs/guarantees.md](/docs/guarantees.md): the guarantees
- [/docs/push.md](/docs/push.md): the push bus, at the root of this port
"""
ABOUT_STREAMS = """\
The streams and the WebSocket of topics. The calls of HTTP are in the OpenAPI document, `/v0/schema`.

A stream is a GET with `Accept: text/event-stream`. Its messages are server-sent events, and `name` is the field `event`. A
refusal is an HTTP status with the body of every refusal. The pages `/docs/watch.md`, `/docs/groups.md`, `/docs/queues.md` and
`/docs/websocket.md` explain the order of messages, and how to continue after a cut.
"""
TAGS = {
    "topics": "A topic is a named log of records.",
    "records": "Append, read and delete records.",
    "cursors": "A cursor stores the position of a reader. The server computes its lag.",
    "queues": "Workers claim the records of a queue as jobs, and ack the jobs that are done.",
    "routers": "A router forwards the records of one topic to another.",
    "webhooks": "A webhook sends the records of topics to a URL, in signed calls.",
    "watch": "Follow topics over one stream of server-sent events.",
    "groups": "The members of a group share the records of a topic.",
    "mirrors": "A mirror copies the records of a topic between servers.",
    "server": "Health, readiness and metrics of the server.",
}
# The names in paths. Examples that delete use other names (wire/endpoint.py), so every example works at any time.
NAMES: dict[str, dict[str, Any]] = {
    "topic": {
        "description": "The topic's name: 1 to 255 of `A-Z a-z 0-9 . _ : -` with a letter or digit first.",
        "schema": {"type": "string", "pattern": NAME},
        "example": "example-orders",
    },
    "cursor": {
        "description": "The cursor's name, with the same characters as a topic's name.",
        "schema": {"type": "string", "pattern": NAME},
        "example": "billing",
    },
    "group": {
        "description": "The group's name, with the same characters as a topic's name.",
        "schema": {"type": "string", "pattern": NAME},
        "example": "billing",
    },
    "schedule": {
        "description": "The schedule's name, with the same characters as a topic's name.",
        "schema": {"type": "string", "pattern": NAME},
        "example": "nightly",
    },
    "webhook": {
        "description": "The webhook's name, with the same characters as a topic's name.",
        "schema": {"type": "string", "pattern": NAME},
        "example": "example-shop",
    },
    "router": {
        "description": "The router's name, with the same characters as a topic's name, and `>`.",
        "schema": {"type": "string", "pattern": NAME.replace("_:-", "_:>-")},
        "example": "example-orders-to-audit",
    },
    "seq": {
        "description": "The record's `$seq`, from 1.",
        "schema": {"type": "integer", "format": "int64", "minimum": 1, "maximum": 2**63 - 1},
        "example": 1,
    },
    "kind": {
        "description": "The kind of state.",
        "schema": {
            "type": "string",
            "enum": ["keys", "groups", "sites", "writes", "leases", "queue", "done", "schedules"],
        },
        "example": "keys",
    },
    "wid": {
        "description": "The session's id from `POST /v0/watch`. /v0/docs fills in the last id that it received.",
        "schema": {"type": "string", "pattern": "^wid_[A-Za-z0-9_-]{22}$"},
        "example": "wid_AAAAAAAAAAAAAAAAAAAAAA",
    },
}
