"""An endpoint: a call (contract/operations.py) with its scope, shapes and script.

One declaration makes the fast path (fast_path.py), which serves clients in the event loop, a view of Django REST framework
(browsable/view.py), which serves people with a browser, and the schema. Both check, parse and answer here.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from base.errors import InvalidRequest, TopicsError, UnsupportedMediaType
from base.names import check_no_nul
from contract.operations import MethodPath, Operation
from store.script import Script
from wire.access.actor import Actor
from wire.access.keys import OPEN, Key
from wire.answer import Answer, elapsed_ms
from wire.api import V0, Api
from wire.request.parse import STRICT, NoFields, is_json, parse, parse_query
from wire.schema import JSON, Format, Performance, Shape

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
        """`origin`: the address of the client. `accept`: the media type of the answer, one of the endpoint's."""
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


class Translation(NamedTuple):
    """Other formats of a body. `is_sent` tests the headers of a request, and `as_json` returns its body as the JSON of the call.

    `as_json` raises InvalidRequest, BatchTooLarge or UnsupportedMediaType.
    """

    formats: tuple[Format, ...]
    is_sent: Callable[[Mapping[bytes, bytes]], bool]
    as_json: Callable[[Mapping[bytes, bytes], bytes], bytes]


class Variant(NamedTuple):
    """Another shape that a body can have, and a test for it."""

    shape: Shape
    fits: Callable[[bytes], bool]


def refuse(before: Script[None], error: TopicsError) -> Script[Answer]:
    """Raises the error of `before`, or `error`."""
    yield from before
    raise error


def pattern(of: MethodPath) -> str:
    """Returns a path in Django's syntax, from the root: `v0/topics/<str:topic>`."""
    return of.path[1:].replace("{", "<str:").replace("}", ">")


@dataclass(eq=False)
class Declaration:
    """The declaration of one call. The schema is made from it.

    `scope`: the scope that a key needs. With None, the call needs no key.
    `answers`: the shape for each status, or several shapes and formats if the client can choose a media type.
    `errors`: the refusals beyond those of every call. `headers`: the request headers that the call reads, each with a sentence.
    `tells`: the headers that an answer or a 409 can have, each with a sentence. `variant`: another shape of the body.
    `translation`: formats of the body beside JSON. `events`: the events of a stream by name, with the shapes of their data.
    `example`: a valid body. `names`: example values for the path (instead of the usual ones) and for the query.
    `needs_body`: the call refuses an empty body.
    """

    operation: Operation
    _: KW_ONLY
    scope: str | None
    answers: dict[int, Shape | str | tuple[Shape | Format | str, ...]]
    body: Shape | None = None
    variant: Variant | None = None
    translation: Translation | None = None
    query: Shape | None = None
    errors: Sequence[type[TopicsError]] = ()
    tag: str = "topics"
    headers: Mapping[str, str] = field(default_factory=dict)
    tells: Mapping[str, str] = field(default_factory=dict)
    events: Mapping[str, Shape] = field(default_factory=dict)
    example: Any = None
    names: Mapping[str, str] = field(default_factory=dict)
    needs_body: bool = False
    summary: str = ""

    def __post_init__(self) -> None:
        self.id: str = self.operation.value
        self.method, self.path = self.operation.paths[0].method, pattern(self.operation.paths[0])

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
            yield from (each for each in every if not isinstance(each, str | Format))

    def formats(self) -> Iterator[Format]:
        """Yields the formats of its body and of its answers beside JSON and text."""
        if self.translation is not None:
            yield from self.translation.formats
        for answers in self.answers.values():
            yield from (each for each in answers if isinstance(each, Format)) if isinstance(answers, tuple) else ()


@dataclass(eq=False)
class Endpoint(Declaration):
    """A call of the API, and the decorator that declares it. The schema shows the handler's docstring.

    `media`: media types of the answer. The first is the default. `instead`: a hint in the answer to a method that the path does
    not have. `api`: the API of the endpoint, by default /v0. All endpoints of a path have the same API.
    `before_body`: a script that runs before the refusal of an invalid body, and raises an error that is told instead.
    """

    _: KW_ONLY
    media: Sequence[str] = (JSON,)
    instead: str = ""
    api: Api = V0
    before_body: Callable[..., Script[None]] | None = None
    handler: Handler = field(init=False)

    def __call__(self, handler: Handler) -> Endpoint:
        self.handler = handler
        self.summary = inspect.cleandoc(handler.__doc__ or "")
        self.route = f"/{self.path}"  # the route's name in the metrics
        # Whether a call without body or query fields refuses a request that sends one.
        self.is_strict = self.api.is_strict and (STRICT or self.method == "DELETE" or self.scope == "delete")
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
        check_no_nul(arguments)  # a call that only reads checks no name: it would ask PostgreSQL for this one
        if self.query is not None:
            call.query = parse_query(call.raw_query, self.query) if call.raw_query else self.query()
        elif call.raw_query and self.is_strict:
            parse_query(call.raw_query, NoFields)
        if self.body is not None:
            if self.translation is not None and self.translation.is_sent(call.headers):
                call.raw_body = self.translation.as_json(call.headers, call.raw_body)
            elif call.raw_body and not is_json(call.headers.get(b"content-type")):
                raise UnsupportedMediaType("unsupported Content-Type: send application/json")
            shape = self.body
            if self.variant is not None and self.variant.fits(call.raw_body):
                shape = self.variant.shape
            try:
                call.body = parse(call.raw_body, shape)
            except InvalidRequest as error:
                if self.before_body is None:
                    raise
                return refuse(self.before_body(*arguments), error)
        elif call.raw_body and self.is_strict:
            parse(call.raw_body, NoFields)
        return self.handler(call, *arguments)
