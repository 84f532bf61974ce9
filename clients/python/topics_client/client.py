"""The address of a server, its key, and the connections to it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator, Mapping
from types import TracebackType
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from topics_client import objects
from topics_client.calls import Filter
from topics_client.codec import Codec
from topics_client.following import AsyncOnLoss, OnLoss, Start, tell, tell_async
from topics_client.objects import Object
from topics_client.records import Streamed, Tombstone
from topics_client.script import drive, run
from topics_client.topic import AsyncTopic, Topic
from topics_client.watching import Watching
from topics_client.webhooks import AsyncWebhook, Webhook
from topics_client.worker import AsyncWorker, Worker

TIMEOUT = httpx.Timeout(30, connect=5)


def options(url: str | None, key: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of an HTTP client. Raises ValueError if no valid URL is known."""
    url = url or os.environ.get("TOPICS_URL")
    key = key or os.environ.get("TOPICS_KEY")
    if not url:
        raise ValueError("no URL: set TOPICS_URL, or give one, such as Topics('http://127.0.0.1:4000')")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"invalid URL {url!r}: expected http://host:4000 or https://host")
    headers = {**given.pop("headers", {}), "accept": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    return {"timeout": TIMEOUT, **given, "base_url": url.rstrip("/"), "headers": headers}


class Client(httpx.Client):
    """A client with connections of its own in each process: a process and its fork on one would get answers of each other."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.given, self.process = given, os.getpid()

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        if self.process != os.getpid():
            Client.__init__(self, **self.given)  # it forgets the connections, and the other process keeps them
        return super().send(request, **options)


class Topics:
    """A server. `url` and `key` come from TOPICS_URL and TOPICS_KEY if they are not given. Threads and forks can share it.

    Further options are those of `httpx.Client`: `timeout`, `proxy`, `verify`, `cert`, `limits`, …
    """

    def __init__(self, url: str | None = None, key: str | None = None, **given: Any) -> None:
        self.http = Client(**options(url, key, given))

    def topic(self, name: str) -> Topic[Any]:
        """Returns a topic, without a request."""
        return Topic(name, self.http, Codec(Any))

    def worker(self, name: str, **options: Any) -> Worker[Any]:
        """Returns a worker of a queue (Topic.worker)."""
        return self.topic(name).worker(**options)

    def topics(self, prefix: str = "") -> list[Object]:
        """Returns the topics with names that begin with the prefix."""
        return run(objects.every("/v0/topics", "topics", {"prefix": prefix}), self.http)

    def routers(self, **query: str) -> list[Object]:
        """Returns the routers. `query`: `prefix`, `source` or `dest`."""
        return run(objects.every("/v0/routers", "routers", query), self.http)

    def router(self, name: str) -> Object:
        """Returns a router and its state."""
        return run(objects.get(objects.router_path(name)), self.http)

    def put_router(self, name: str, **fields: Any) -> Object:
        """Creates or changes a router. `fields`: see docs/wire.md. Write `from` as `**{"from": "earliest"}`."""
        return run(objects.put(objects.router_path(name), fields), self.http)

    def delete_router(self, name: str) -> Object:
        """Deletes a router. The records that it has forwarded stay."""
        return run(objects.delete(objects.router_path(name)), self.http)

    def webhook(self, name: str) -> Webhook:
        """Returns a webhook, without a request."""
        return Webhook(name, self.http)

    def webhooks(self, prefix: str = "") -> list[Object]:
        """Returns the webhooks with names that begin with the prefix."""
        return run(objects.every("/v0/webhooks", "webhooks", {"prefix": prefix}), self.http)

    def watch(
        self,
        *topics: str,
        start: Start | Mapping[str, Start] = "earliest",
        match: Filter | None = None,
        on_loss: OnLoss = "raise",
        limit: int = 1000,
        consistency: Literal["eventual", "strong"] = "eventual",
    ) -> Generator[Streamed[Any], None, None]:
        """Yields the records of topics as they come, each once and in the order of its topic, through every cut and restart.

        `start`: for all topics, or for each by its name: "earliest", "head", or after a seq. It keeps no cursor: a program that
        starts again gives the last `record.seq` of each `record.topic`. `on_loss`: as in Topic.follow. `limit`: most
        records that come at once. `consistency="strong"`
        shows no record that a crash of the server could take back.
        """
        reader = Watching(topics, Codec(Any), start, match, limit, consistency)
        try:
            while (told := run(reader.next(), self.http)) is not None:
                if isinstance(told, Tombstone):
                    tell(told, on_loss)
                    continue
                yield from told
        finally:
            run(reader.hang_up(), self.http)

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> Topics:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncTopics:
    """A server, as Topics, for `async` code. One event loop uses it."""

    def __init__(self, url: str | None = None, key: str | None = None, **given: Any) -> None:
        self.http = httpx.AsyncClient(**options(url, key, given))

    def topic(self, name: str) -> AsyncTopic[Any]:
        """Returns a topic, without a request."""
        return AsyncTopic(name, self.http, Codec(Any))

    def worker(self, name: str, **options: Any) -> AsyncWorker[Any]:
        """Returns a worker of a queue (Topic.worker)."""
        return self.topic(name).worker(**options)

    async def topics(self, prefix: str = "") -> list[Object]:
        """Returns the topics with names that begin with the prefix."""
        return await drive(objects.every("/v0/topics", "topics", {"prefix": prefix}), self.http)

    async def routers(self, **query: str) -> list[Object]:
        """Returns the routers. `query`: `prefix`, `source` or `dest`."""
        return await drive(objects.every("/v0/routers", "routers", query), self.http)

    async def router(self, name: str) -> Object:
        """Returns a router and its state."""
        return await drive(objects.get(objects.router_path(name)), self.http)

    async def put_router(self, name: str, **fields: Any) -> Object:
        """Creates or changes a router. `fields`: see docs/wire.md. Write `from` as `**{"from": "earliest"}`."""
        return await drive(objects.put(objects.router_path(name), fields), self.http)

    async def delete_router(self, name: str) -> Object:
        """Deletes a router. The records that it has forwarded stay."""
        return await drive(objects.delete(objects.router_path(name)), self.http)

    def webhook(self, name: str) -> AsyncWebhook:
        """Returns a webhook, without a request."""
        return AsyncWebhook(name, self.http)

    async def webhooks(self, prefix: str = "") -> list[Object]:
        """Returns the webhooks with names that begin with the prefix."""
        return await drive(objects.every("/v0/webhooks", "webhooks", {"prefix": prefix}), self.http)

    async def watch(
        self,
        *topics: str,
        start: Start | Mapping[str, Start] = "earliest",
        match: Filter | None = None,
        on_loss: AsyncOnLoss = "raise",
        limit: int = 1000,
        consistency: Literal["eventual", "strong"] = "eventual",
    ) -> AsyncGenerator[Streamed[Any], None]:
        """As Topics.watch. Close it with `contextlib.aclosing` if the loop can end early."""
        reader = Watching(topics, Codec(Any), start, match, limit, consistency)
        try:
            while (told := await drive(reader.next(), self.http)) is not None:
                if isinstance(told, Tombstone):
                    await tell_async(told, on_loss)
                    continue
                for record in told:
                    yield record
        finally:
            await drive(reader.hang_up(), self.http)

    async def close(self) -> None:
        await self.http.aclose()

    async def __aenter__(self) -> AsyncTopics:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
