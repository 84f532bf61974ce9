"""An endpoint, declared once: method, path, scope, shapes and script.

The event loop's door (door.py) and a view of Django REST framework (view.py) are made of the same declaration, and so is the
schema. Both doors check, parse and answer here; a client cannot tell them apart.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from base.errors import TopicsError, UnsupportedMediaType
from store.script import Script
from wire.actor import Actor
from wire.answer import Answer, elapsed_ms
from wire.dialect import V0, Dialect
from wire.keys import OPEN, Key
from wire.parse import STRICT, NoFields, is_json, parse, parse_query
from wire.schema import JSON, Performance, Shape

Body = TypeVar("Body")
Query = TypeVar("Query")
Handler = Callable[..., Script[Answer]]


class Asked(Generic[Body, Query]):
    """One request: who asks, what for, and when it came. `body` and `query` are parsed before the handler is called."""

    __slots__ = ("accept", "body", "headers", "key", "origin", "query", "raw_body", "raw_query", "started")
    body: Body
    query: Query

    def __init__(
        self,
        key: Key,
        headers: dict[bytes, bytes],
        raw_query: bytes,
        raw_body: bytes,
        origin: str,
        started: float | None = None,
        accept: str = JSON,
    ) -> None:
        """`origin`: the address that the request comes from. `accept`: the media type that is wanted, one of the endpoint's."""
        self.key, self.headers, self.origin, self.accept = key, headers, origin, accept
        self.raw_query, self.raw_body = raw_query, raw_body
        self.started = time.perf_counter() if started is None else started

    def actor(self) -> Actor:
        """Whose doing it is, for the audit log."""
        return Actor(self.key.id, self.key.name, self.origin)

    def performance(self) -> Performance:
        return Performance(elapsed_ms(self.started))

    def answer(self, data: msgspec.Struct, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
        return Answer(status, msgspec.json.encode(data), headers)


class Variant(NamedTuple):
    """Another shape that a body can have, and whether a body has it."""

    shape: Shape
    fits: Callable[[bytes], bool]


@dataclass(eq=False)
class Operation:
    """What is known of one method of one path, of which the schema is made.

    `path` as Django writes it, from the root. `scope`: what a key needs; None: nobody needs a key. `answers`: the shape of each
    status, several where the client may choose among media types. `errors`: what it may be refused with, beyond what any call
    may be. `headers`: those that count here, each with a sentence. `tells`: those that an answer or a 409 can have, likewise.
    `variant`: another shape of the body. `example`: a body that works as it stands. `names`: the values that the path needs in
    place of the usual examples, and those of the query. `needs_body`: an empty one is refused.
    """

    method: str
    path: str
    id: str
    _: KW_ONLY
    scope: str | None
    answers: dict[int, Shape | str | tuple[Shape | str, ...]]
    body: Shape | None = None
    variant: Variant | None = None
    query: Shape | None = None
    errors: Sequence[type[TopicsError]] = ()
    tag: str = "topics"
    headers: Mapping[str, str] = field(default_factory=dict)
    tells: Mapping[str, str] = field(default_factory=dict)
    example: Any = None
    names: Mapping[str, str] = field(default_factory=dict)
    needs_body: bool = False
    summary: str = ""

    def bodies(self) -> Iterator[Shape]:
        """The shapes that its body can have."""
        if self.body is not None:
            yield self.body
        if self.variant is not None:
            yield self.variant.shape

    def shapes(self) -> Iterator[Shape]:
        """The shapes of its answers, but for those that are no JSON."""
        for answers in self.answers.values():
            every = answers if isinstance(answers, tuple) else (answers,)
            yield from (each for each in every if not isinstance(each, str))


@dataclass(eq=False)
class Endpoint(Operation):
    """An operation that both doors serve, and the decorator that declares it: the handler's docstring is what the schema shows.

    `media`: the first is the default. `instead`: what whoever comes by a method that the path does not have may have looked for.
    `dialect`: whose API it belongs to, /v0 unless said otherwise; all endpoints of a path are of one.
    """

    _: KW_ONLY
    media: Sequence[str] = (JSON,)
    instead: str = ""
    dialect: Dialect = V0
    handler: Handler = field(init=False)

    def __call__(self, handler: Handler) -> Endpoint:
        self.handler = handler
        self.summary = inspect.cleandoc(handler.__doc__ or "")
        self.route = f"/{self.path}"  # as the metrics name it
        # Where it takes no body, or no query: whether it is told to who sends one all the same.
        self.is_strict = self.dialect.is_strict and (STRICT or self.scope == "delete")
        return self

    def script(self, asked: Asked[Any, Any], arguments: Sequence[str]) -> Script[Answer]:
        """The request's script. Raises Unauthorized, Forbidden, InvalidRequest or UnsupportedMediaType."""
        if self.scope is None:
            asked.key = OPEN
        else:
            if self.scope not in asked.key.scopes:
                asked.key.check(self.scope)
            if arguments and asked.key.prefixes:
                asked.key.check_name(arguments[0])  # the topic, or the router, is what a path names first
        if self.query is not None:
            asked.query = parse_query(asked.raw_query, self.query) if asked.raw_query else self.query()
        elif asked.raw_query and self.is_strict:
            parse_query(asked.raw_query, NoFields)
        if self.body is not None:
            if asked.raw_body and not is_json(asked.headers.get(b"content-type")):
                raise UnsupportedMediaType("send the body as Content-Type: application/json")
            shape = self.body
            if self.variant is not None and self.variant.fits(asked.raw_body):
                shape = self.variant.shape
            asked.body = parse(asked.raw_body, shape)
        elif asked.raw_body and self.is_strict:
            parse(asked.raw_body, NoFields)
        return self.handler(asked, *arguments)
