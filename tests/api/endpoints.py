"""Every endpoint: the scope that it needs, and a valid call."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from django.urls import URLPattern, URLResolver, get_resolver

SCOPES = ("read", "write", "commit", "delete", "webhooks", "admin")
# The scopes of a key that lacks a scope. `admin` includes `commit` and `webhooks`, so a key without one of them has no `admin`.
INCLUDED = ("commit", "webhooks")
LACKING = {
    scope: "+".join(each for each in SCOPES if each != scope and not (scope in INCLUDED and each == "admin"))
    for scope in SCOPES
}
Endpoint = tuple[str, str]


class Call(NamedTuple):
    """The scopes a call asks for, and a body and query that are right. `names`: whether its path names a topic or router.

    `of_queue`, `of_sealed`: whether the call needs a queue, or a sealed topic.
    """

    scopes: tuple[str, ...]
    body: Any = None
    names: bool = True
    query: str = ""
    of_queue: bool = False
    of_sealed: bool = False

    def topic(self, name: str) -> str:
        """The topic for the call, of those that a test has made under a name."""
        return f"{name}-q" if self.of_queue else f"{name}-s" if self.of_sealed else name


MIRRORED = {
    "here": "iad",
    "source": "fra",
    "from_seq": 0,
    "next_from_seq": 1,
    "records": [{"$seq": 1, "$ts": 1, "data": 1}],
}
# Each method of each path under /v0. A new endpoint has to say here what it asks for, else the first test fails.
TABLE: dict[Endpoint, Call] = {
    ("GET", "topics"): Call(("read",), names=False),
    ("PUT", "topics/<topic>"): Call(("admin",), {}),
    ("GET", "topics/<topic>"): Call(("read",)),
    ("DELETE", "topics/<topic>"): Call(("delete",)),
    ("POST", "topics/<topic>"): Call(("write",), {"records": [{"data": 1}]}),
    ("GET", "topics/<topic>/appends"): Call(("write",), query="?key_prefix=0123456789abcdef"),
    ("POST", "topics/<topic>/diff"): Call(("read",), {}),
    ("POST", "topics/<topic>/delete"): Call(("delete",), {"before_seq": 1}),
    ("GET", "topics/<topic>/records"): Call(("read",)),
    ("GET", "topics/<topic>/records/<seq>"): Call(("read",)),
    ("GET", "topics/<topic>/cursors"): Call(("read",)),
    ("PUT", "topics/<topic>/cursors/<cursor>"): Call(("commit",), {"at": "head"}),
    ("GET", "topics/<topic>/cursors/<cursor>"): Call(("read",)),
    ("DELETE", "topics/<topic>/cursors/<cursor>"): Call(("delete",)),
    ("GET", "topics/<topic>/groups"): Call(("read",)),
    ("GET", "topics/<topic>/groups/<group>"): Call(("read",)),
    ("DELETE", "topics/<topic>/groups/<group>"): Call(("delete",)),
    ("POST", "topics/<topic>/groups/<group>/commit"): Call(("read", "write"), {"session": "{session}"}),
    ("POST", "topics/<topic>/groups/<group>/leave"): Call(("read", "write"), {"session": "{session}"}),
    ("POST", "topics/<topic>/mirror"): Call(("write", "commit"), MIRRORED),
    ("GET", "topics/<topic>/mirror"): Call(("read",)),
    ("POST", "topics/<topic>/claim"): Call(("read", "write"), {"node": "w"}, of_queue=True),
    ("POST", "topics/<topic>/ack"): Call(("write",), {"node": "w", "seqs": [1]}, of_queue=True),
    ("POST", "topics/<topic>/nack"): Call(("write",), {"node": "w", "seqs": [1]}, of_queue=True),
    ("POST", "topics/<topic>/extend"): Call(("write",), {"node": "w", "seqs": [1], "lease_ms": 1000}, of_queue=True),
    ("POST", "topics/<topic>/redrive"): Call(("read", "write", "delete"), {}),
    ("GET", "topics/<topic>/schedules"): Call(("read",), of_queue=True),
    ("PUT", "topics/<topic>/schedules/<schedule>"): Call(("write",), {"not_before": 2**42, "data": 1}, of_queue=True),
    ("GET", "topics/<topic>/schedules/<schedule>"): Call(("read",), of_queue=True),
    ("DELETE", "topics/<topic>/schedules/<schedule>"): Call(("delete",), of_queue=True),
    ("GET", "topics/<topic>/state/<kind>"): Call(("admin",)),
    ("POST", "topics/<topic>/state/<kind>"): Call(("admin",), {"rows": []}, of_sealed=True),
    ("GET", "routers"): Call(("read",), names=False),
    ("PUT", "routers/<router>"): Call(("admin",), {"source": "{topic}", "dest": "{topic}-d"}),
    ("GET", "routers/<router>"): Call(("read",)),
    ("DELETE", "routers/<router>"): Call(("delete",)),
    ("GET", "webhooks"): Call(("webhooks",), names=False),
    ("PUT", "webhooks/<webhook>"): Call(("webhooks", "read"), {"url": "https://example.com/", "topics": ["{topic}"]}),
    ("GET", "webhooks/<webhook>"): Call(("webhooks",)),
    ("DELETE", "webhooks/<webhook>"): Call(("webhooks",)),
    ("POST", "webhooks/<webhook>/pause"): Call(("webhooks",), {}),
    ("POST", "webhooks/<webhook>/resume"): Call(("webhooks",), {}),
    ("POST", "webhooks/<webhook>/test"): Call(("webhooks",), {}),
    ("POST", "webhooks/<webhook>/rotate"): Call(("webhooks",), {}),
    ("GET", "webhooks/<webhook>/deliveries"): Call(("webhooks",)),
    ("POST", "webhooks/<webhook>/replay"): Call(("webhooks",), {"topic": "{topic}"}),
    ("POST", "watch"): Call(("read",), {"topics": {"{topic}": {}}}),
    ("GET", "metrics"): Call(("read",), names=False),
}
# Streams are served by their paths alone, without a view (tests/watch).
STREAMS: dict[Endpoint, Call] = {
    ("GET", "topics/<topic>/events"): Call(("read",)),
    ("GET", "topics/<topic>/groups/<group>/stream"): Call(("read", "write")),
    ("GET", "topics/<topic>/work"): Call(("read", "write"), query="?node=w", of_queue=True),
    ("GET", "watch/<wid>"): Call(("read",), names=False),
}
# Served to everybody, so that a load balancer and a person with a browser need no key.
PUBLIC = {("GET", "health"), ("GET", "ready"), ("GET", "schema"), ("GET", "docs")}


def endpoints(patterns: list[Any] | None = None, prefix: str = "") -> set[Endpoint]:
    """Every method of every path under /v0, as the URL conf has them. Streams are not in it."""
    found: set[Endpoint] = set()
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(pattern, URLResolver):
            found |= endpoints(pattern.url_patterns, prefix + str(pattern.pattern))
        elif isinstance(pattern, URLPattern) and (prefix + str(pattern.pattern)).startswith("v0/"):
            path = re.sub(r"<\w+:(\w+)>", r"<\1>", prefix + str(pattern.pattern)).removeprefix("v0/")
            view = getattr(pattern.callback, "cls", None)
            methods = ["get"] if view is None else [each for each in METHODS if hasattr(view, each)]
            found |= {(method.upper(), path) for method in methods}
    return found


METHODS = ("get", "post", "put", "delete", "patch")


def filled(value: Any, **names: str | int) -> Any:
    """The value with names where they stand for something: {topic}."""
    match value:
        case dict():
            return {filled(key, **names): filled(each, **names) for key, each in value.items()}
        case list() | tuple():
            return [filled(each, **names) for each in value]
        case str():
            for name, meant in names.items():
                if isinstance(meant, int) and value == f"{{{name}}}":
                    return meant
                value = value.replace(f"{{{name}}}", str(meant))
    return value
