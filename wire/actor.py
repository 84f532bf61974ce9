"""Who makes a change: told where a request comes in, and asked where the change is written down (topics/audit.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware


class Actor(NamedTuple):
    """Who makes a change, what people call them, and the address that they come from."""

    id: str
    name: str
    origin: str


LOCAL = Actor("local", "", "")  # a command at a shell
_acting: ContextVar[Callable[[], Actor]] = ContextVar("acting", default=lambda: LOCAL)


@contextmanager
def acting(actor: Callable[[], Actor]) -> Iterator[None]:
    """What is changed within is this actor's doing. `actor` is asked once something is changed."""
    token = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(token)


# As acting(), for the rest of a task that serves one request: its context ends with it.
act_for: Callable[[Callable[[], Actor]], object] = _acting.set


def actor() -> Actor:
    """Whoever makes the changes right now."""
    return _acting.get()()


@sync_and_async_middleware
def middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Django's middleware: what is changed in the admin is the doing of the user who is logged in."""

    def handle(request: HttpRequest) -> HttpResponse:
        with acting(lambda: visitor(request)):
            return get_response(request)

    async def handle_stream(request: HttpRequest) -> HttpResponse:
        with acting(lambda: visitor(request)):
            return await get_response(request)

    return handle_stream if iscoroutinefunction(get_response) else handle


def visitor(request: HttpRequest) -> Actor:
    return Actor(f"user:{request.user.pk}", request.user.get_username(), origin(request))


def origin(request: HttpRequest) -> str:
    """The address of the connection. What a proxy says in headers is not believed: anybody can say it."""
    return str(request.META.get("REMOTE_ADDR") or "")[:64]
