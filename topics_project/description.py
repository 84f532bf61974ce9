"""Descriptions in the API schema of /v0 as a whole, and of the names in paths (wire/openapi.py builds the schema)."""

from __future__ import annotations

from typing import Any

NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$"
ABOUT = """\
Durable event topics, routers and push delivery over HTTP.

The examples work as they stand, from the top down: the first ones make the topic `example-orders` and fill it, and none of
them removes it again.

What to read next:

- [/](/) what else this server shows, [/admin/](/admin/) the operators' console, [/v0/schema](/v0/schema) this page for generators
- `docs/wire.md` the same as one page, with what holds everywhere: keys, pages of lists, errors, limits
- `docs/watch.md` following topics in a browser, `docs/routers.md` forwarding, `docs/guarantees.md` what is promised
- `docs/push.md` the push bus, which has its paths at the root of the same port
"""
TAGS = {
    "topics": "A log of records with a name.",
    "records": "Append them, read them, delete them.",
    "cursors": "A seq that a reader keeps here under a name, and how far it is behind.",
    "routers": "Forward what one topic holds to another.",
    "watch": "Follow topics over one stream of server-sent events.",
    "server": "Whether it lives, whether it can serve, and what it counts.",
}
# The names in paths. Examples that delete use other names (wire/endpoint.py), so every example works at any time.
NAMES: dict[str, dict[str, Any]] = {
    "topic": {
        "description": "The topic's name: 1 to 255 of `A-Z a-z 0-9 . _ : -`, the first a letter or digit.",
        "schema": {"type": "string", "pattern": NAME},
        "example": "example-orders",
    },
    "cursor": {
        "description": "The cursor's name, made like a topic's.",
        "schema": {"type": "string", "pattern": NAME},
        "example": "billing",
    },
    "router": {
        "description": "The router's name: made like a topic's, and may hold `>`, too.",
        "schema": {"type": "string", "pattern": NAME.replace("_:-", "_:>-")},
        "example": "example-orders-to-audit",
    },
    "seq": {
        "description": "The record's `$seq`, from 1.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
        "example": 1,
    },
    "wid": {
        "description": "The session, as `POST /v0/watch` answered it. /v0/docs puts the last one there that it was given.",
        "schema": {"type": "string", "pattern": "^wid_[A-Za-z0-9_-]{22}$"},
        "example": "wid_AAAAAAAAAAAAAAAAAAAAAA",
    },
}
