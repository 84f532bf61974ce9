"""django-eventstream over the log: GET /v0/topics/:topic/events, with a storage and channel manager made of topics.

A channel is a topic, an event a record, an event's id the record's seq. Nothing is ever queued for a listener: it is
told that there is more, and reads the log, by the connections that all streams share.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django_eventstream import views
from django_eventstream.channelmanager import DefaultChannelManager
from django_eventstream.event import Event
from django_eventstream.storage import EventDoesNotExist, StorageBase

from base.errors import NotReady
from topics.cache import remembered
from topics.diff import Window
from watch import frames
from watch.feeds import View, read_window
from watch.hub import Hub, hub
from watch.registry import registry
from wire.keys import OPEN, Key, keyring

T = TypeVar("T")
# Whose stream it is. django-eventstream does not tell its storage, whose threads inherit it from endable()'s tasks.
reader: ContextVar[Key] = ContextVar("reader", default=OPEN)
RETRY_SECONDS = 0.5  # before a topic is read again that could not be read
MOST_BYTES = 1024 * 1024


class Seq(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")


class Holder:
    """Who holds a key, as django-eventstream knows a user."""

    is_authenticated = True

    def __init__(self, key: Key) -> None:
        self.key, self.pk = key, key.id


class ChannelManager(DefaultChannelManager):
    """EVENTSTREAM_CHANNELMANAGER_CLASS: a key reads the topics within its prefixes, for as long as it holds."""

    def can_read_channel(self, user: Any, channel: str) -> bool:
        key = user.key if isinstance(user, Holder) else None
        return key is not None and keyring.holds(key) and "read" in key.scopes and key.allows(channel)


class Storage(StorageBase):
    """EVENTSTREAM_STORAGE_CLASS: events are records. Called in threads of django-eventstream's streams."""

    def get_events(self, channel: str, last_id: int, limit: int = 100) -> list[Event]:
        """The records after last_id. Raises EventDoesNotExist where some of them were lost."""
        try:
            window = in_loop(self.window(channel, last_id, limit))
        except NotReady:
            listeners.read_later(channel, RETRY_SECONDS)
            return []
        if window is None:
            return []
        if not window.caught_up:
            listeners.read_later(channel, 0)
        if window.lost is not None:
            raise EventDoesNotExist(f"{window.lost} up to {window.gap_to}", window.gap_to)
        shown = window.seen_by(reader.get()).records or ""
        records = msgspec.json.decode(f"[{shown}]", type=list[msgspec.Raw])
        return [event(channel, bytes(record)) for record in records]

    def get_current_id(self, channel: str) -> int:
        found = in_loop(hub().find([channel]))
        return found[channel][1] if channel in found else 0

    async def window(self, channel: str, last_id: int, limit: int) -> Window | None:
        found = await hub().find([channel])
        if channel not in found:
            return None
        view = View(limit, MOST_BYTES, None, None, None, tags=True, meta=True, data=True, strong=False)
        key = (found[channel][0], last_id, view)
        return await hub().readers.read(lambda connection: read_window(connection, channel, key))


def event(channel: str, record: bytes) -> Event:
    return Event(channel, "message", record.decode(), id=msgspec.json.decode(record, type=Seq).seq)


def in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Do something in the hub's event loop, from a thread."""
    return asyncio.run_coroutine_threadsafe(work, hub().loop).result()


class Listening:
    """A stream of django-eventstream: it follows its topic by id while that is there, else by name."""

    def __init__(self, hub: Hub, listener: views.Listener, name: str) -> None:
        self.hub, self.listener, self.name = hub, listener, name
        self.head_seq = -1
        topic = remembered.get(name)
        self.topic_id = topic.id if topic else 0  # no topic has 0: the next look finds it gone, and then by name
        hub.follow(self.topic_id, self)

    def heard(self, head_seq: int) -> None:
        if head_seq != self.head_seq:
            self.head_seq = head_seq
            self.read_again()

    def read_again(self) -> None:
        """What makes django-eventstream read its storage: it thinks that its queue was too short."""
        self.listener.overflow = True
        self.listener.aevent.set()

    def vanished(self) -> None:
        self.hub.leave(self.topic_id, self)
        self.hub.seekers[self] = None

    def appeared(self, topic_id: int) -> None:
        self.hub.seekers.pop(self, None)
        self.topic_id = topic_id
        self.hub.follow(topic_id, self)
        self.read_again()

    def stop(self) -> None:
        self.hub.leave(self.topic_id, self)
        self.hub.seekers.pop(self, None)


class Listeners(views.ListenerManager):
    """The place of django-eventstream's listeners, which are followers of topics here."""

    def __init__(self) -> None:
        super().__init__()
        self.open: dict[views.Listener, Listening] = {}

    def add_listener(self, listener: views.Listener) -> None:
        (name,) = listener.channels
        self.open[listener] = Listening(hub(), listener, name)

    def remove_listener(self, listener: views.Listener) -> None:
        self.open.pop(listener).stop()

    def add_to_queues(self, channel: str, event: Event) -> None:
        """A message from Redis (wake.py): topic ids, each with its head."""
        words = iter(map(int, event.data.split()))
        for topic_id, head_seq in zip(words, words, strict=True):
            hub().moved(topic_id, head_seq)

    def read_later(self, channel: str, seconds: float) -> None:
        """Have the channel's listeners read once more; from any thread."""
        hub().loop.call_soon_threadsafe(hub().loop.call_later, seconds, self.read_again, channel)

    def read_again(self, channel: str) -> None:
        for listening in list(self.open.values()):
            if listening.name == channel:
                listening.read_again()


listeners = views.listener_manager = Listeners()


class Plain:
    """One open stream, which others may end."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.ended: asyncio.Future[bytes] = hub().loop.create_future()

    def end(self, code: str, message: str) -> None:
        if not self.ended.done():
            self.ended.set_result(frames.event("error", code=code, error=message))


async def endable(parts: AsyncGenerator[bytes, None], key: Key) -> AsyncIterator[bytes]:
    """The parts of a stream, until it is ended. With its last words it leaves the client's last id as it is: an
    EventSource then goes on from there, which it could not after one of django-eventstream's own errors."""
    streams, plain = registry(hub()).streams, Plain(key)
    streams[plain] = None
    try:
        while True:
            reader.set(key)
            part = asyncio.ensure_future(anext(parts))
            await asyncio.wait((part, plain.ended), return_when=asyncio.FIRST_COMPLETED)
            if plain.ended.done():
                yield plain.ended.result()
                return
            try:
                yield part.result()
            except StopAsyncIteration:
                return
    finally:
        del streams[plain]
        part.cancel()
        await asyncio.wait((part,))
        await parts.aclose()


def events(request: HttpRequest, topic: str) -> HttpResponseBase:
    """The view, once serve.py has seen who asks and that the topic is there."""
    key = request.scope["topics.key"]
    request.user = Holder(key)
    response = views.events(request, channels=[topic])
    if isinstance(response, StreamingHttpResponse):
        response.streaming_content = endable(response.streaming_content, key)
    return response
