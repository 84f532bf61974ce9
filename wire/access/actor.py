"""The actor of a change: set at the start of a request, read when the audit log records the change (topics/audit.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware

from wire.access import client


class Actor(NamedTuple):
    """The author of a change: an id, a name for people, and the address of the client."""

    id: str
    name: str
    origin: str


LOCAL = Actor("local", "", "")  # a command at a shell
_acting: ContextVar[Callable[[], Actor]] = ContextVar("acting", default=lambda: LOCAL)


@contextmanager
def acting(actor: Callable[[], Actor]) -> Iterator[None]:
    """Attribute changes in this block to an actor. `actor` is called only if something is changed."""
    token = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(token)


# Like acting(), for the rest of a task that serves one request. The task's context ends with the task.
act_for: Callable[[Callable[[], Actor]], object] = _acting.set


def actor() -> Actor:
    """Returns the current actor."""
    return _acting.get()()


@sync_and_async_middleware
def middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Django middleware that attributes changes in the admin to the logged-in user."""

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
    """Returns the address of the client."""
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "").encode("latin-1")
    return client.origin(str(request.META.get("REMOTE_ADDR") or ""), {b"x-forwarded-for": forwarded})
