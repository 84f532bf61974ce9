"""An endpoint, declared once: method, path, scope, shapes and script.

One declaration makes the fast path (fast_path.py), which serves clients in the event loop, a view of Django REST framework
(view.py), which serves people with a browser, and the schema. Both check, parse and answer here.
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
from wire.api import V0, Api
from wire.keys import OPEN, Key
from wire.parse import STRICT, NoFields, is_json, parse, parse_query
from wire.schema import JSON, Performance, Shape

Body = TypeVar("Body")
Query = TypeVar("Query")
Handler = Callable[..., Script[Answer]]


class Call(Generic[Body, Query]):
    """One request: its key, its contents and its start time. `body` and `query` are parsed before the handler is called."""

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
        """`origin`: the address of the connection. `accept`: the media type of the answer, one of the endpoint's."""
        self.key, self.headers, self.origin, self.accept = key, headers, origin, accept
        self.raw_query, self.raw_body = raw_query, raw_body
        self.started = time.perf_counter() if started is None else started

    def actor(self) -> Actor:
        """Returns the actor for the audit log."""
        return Actor(self.key.id, self.key.name, self.origin)

    def performance(self) -> Performance:
        return Performance(elapsed_ms(self.started))

    def answer(self, data: msgspec.Struct, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
        return Answer(status, msgspec.json.encode(data), headers)


class Variant(NamedTuple):
    """Another shape that a body can have, and a test for it."""

    shape: Shape
    fits: Callable[[bytes], bool]


@dataclass(eq=False)
class Operation:
    """The declaration of one method of one path. The schema is made from it.

    `path`: in Django's syntax, from the root. `scope`: the scope that a key needs. With None, the call needs no key.
    `answers`: the shape for each status, or several shapes if the client can choose a media type.
    `errors`: the refusals beyond those of every call. `headers`: the request headers that the call reads, each with a sentence.
    `tells`: the headers that an answer or a 409 can have, each with a sentence. `variant`: another shape of the body.
    `example`: a valid body. `names`: example values for the path (instead of the usual ones) and for the query.
    `needs_body`: the call refuses an empty body.
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
        """Yields the shapes that the body can have."""
        if self.body is not None:
            yield self.body
        if self.variant is not None:
            yield self.variant.shape

    def shapes(self) -> Iterator[Shape]:
        """Yields the shapes of its JSON answers."""
        for answers in self.answers.values():
            every = answers if isinstance(answers, tuple) else (answers,)
            yield from (each for each in every if not isinstance(each, str))


@dataclass(eq=False)
class Endpoint(Operation):
    """An operation of the API, and the decorator that declares it. The schema shows the handler's docstring.

    `media`: media types of the answer. The first is the default. `instead`: a hint in the answer to a method that the path does
    not have. `api`: the API of the endpoint, by default /v0. All endpoints of a path have the same API.
    """

    _: KW_ONLY
    media: Sequence[str] = (JSON,)
    instead: str = ""
    api: Api = V0
    handler: Handler = field(init=False)

    def __call__(self, handler: Handler) -> Endpoint:
        self.handler = handler
        self.summary = inspect.cleandoc(handler.__doc__ or "")
        self.route = f"/{self.path}"  # the route's name in the metrics
        # Whether a call without body or query fields refuses a request that sends one.
        self.is_strict = self.api.is_strict and (STRICT or self.scope == "delete")
        # msgspec learns the fields of a struct when it makes the first decoder. If two threads did that at once, the process
        # could crash. This code runs at the import, before the process has threads.
        for shape in filter(None, (*self.bodies(), self.query)):
            msgspec.json.Decoder(shape)
        return self

    def check(self, key: Key, arguments: Sequence[str]) -> None:
        """Raises Forbidden if the key may not make this call. `arguments`: the values in its path."""
        if self.scope is not None and self.scope not in key.scopes:
            key.check(self.scope)
        if arguments and key.prefixes:
            key.check_name(arguments[0])  # the first name in a path is the topic or the router

    def script(self, call: Call[Any, Any], arguments: Sequence[str]) -> Script[Answer]:
        """Returns the request's script. Raises Forbidden, InvalidRequest or UnsupportedMediaType."""
        if self.scope is None:
            call.key = OPEN
        else:
            self.check(call.key, arguments)
        if self.query is not None:
            call.query = parse_query(call.raw_query, self.query) if call.raw_query else self.query()
        elif call.raw_query and self.is_strict:
            parse_query(call.raw_query, NoFields)
        if self.body is not None:
            if call.raw_body and not is_json(call.headers.get(b"content-type")):
                raise UnsupportedMediaType("unsupported Content-Type: send application/json")
            shape = self.body
            if self.variant is not None and self.variant.fits(call.raw_body):
                shape = self.variant.shape
            call.body = parse(call.raw_body, shape)
        elif call.raw_body and self.is_strict:
            parse(call.raw_body, NoFields)
        return self.handler(call, *arguments)
