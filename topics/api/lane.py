"""The fast lane: append and diff without the framework between.

The same key check, parser, domain statements and renderer as the views of records.py, which answer whatever
the lane leaves alone (it returns None). A client cannot tell the doors apart; one set of tests runs through both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from django.conf import settings

from base.errors import TopicsError
from routers import advance
from store.connection import Connection
from store.readers import Readers
from topics import recency
from topics.api.dests import Dests
from topics.api.records import MAX_WAIT_MS, parse_append, parse_diff, render_appended
from topics.append import Append, check_rows
from topics.batch import Batches
from topics.cache import LOOKUP, Known, absent, forget, remember, remembered
from topics.diff import DIFF, Diff, Window, parameters, render
from watch.longpoll import Pending, patiently
from wire import metrics
from wire.endpoint import Answer, error_answer, is_json
from wire.keys import Key

READERS = 4  # connections of this process for reads of topics that nothing leads into
PREFIX = "/v0/topics/"
APPEND_ROUTE, DIFF_ROUTE = "/v0/topics/<str:topic>", "/v0/topics/<str:topic>/diff"


class Lane:
    """One process's connections for the two hot calls. Lives in its event loop."""

    def __init__(self) -> None:
        self.batches = {
            "fsync": Batches(fsync=True, volatile=False),
            "disk": Batches(fsync=False, volatile=False),
            "memory": Batches(fsync=False, volatile=True),
        }
        self.batches["ephemeral"] = self.batches["memory"]
        self.readers, self.dests = Readers(READERS), Dests()
        # What has to answer for this process to be ready: a round trip each, which raises NotReady.
        writers = [batches.check for batches in set(self.batches.values())]
        self.checks: list[Callable[[], Awaitable[None]]] = [self.readers.check, self.dests.readers.check, *writers]
        self.capped = settings.TOPICS_MAX_TOTAL_BYTES > 0  # the views look at the sum

    async def close(self) -> None:
        for batches in set(self.batches.values()):
            await batches.close()
        await self.readers.close()
        await self.dests.readers.close()

    async def check(self) -> None:
        """A round trip on the very connections that serve. Raises NotReady."""
        await asyncio.gather(*(check() for check in self.checks))

    async def handle(
        self, method: str, path: str, query: bytes, headers: dict[bytes, bytes], body: bytes, key: Key, started: float
    ) -> Answer | None:
        """The answer, or None when this request is one for the views."""
        if method != "POST" or not path.startswith(PREFIX) or not is_json(headers.get(b"content-type")):
            return None
        if headers.get(b"accept", b"*/*") not in (b"*/*", b"application/json"):
            return None
        name, slash, call = path[len(PREFIX) :].partition("/")
        if name and call == "diff" and not query:
            route, work = DIFF_ROUTE, self.diff(name, body, key, started)
        elif name and not slash and query in (b"", b"return_seqs=false") and b"idempotency-key" not in headers:
            route, work = APPEND_ROUTE, self.append(name, body, not query, key, started)
        else:
            return None
        try:
            answer = await work
        except TopicsError as error:
            answer = error_answer(error, started)
        if answer is not None:  # what is left to the views counts there
            metrics.request("POST", route, answer.status)
        return answer

    async def append(self, name: str, body: bytes, with_seqs: bool, key: Key, started: float) -> Answer | None:
        key.check("write")
        key.check_name(name)
        wanted: Append = parse_append(body)
        wanted.check_names(key)
        if not wanted.plain or self.capped:
            return None
        rows = check_rows(wanted)
        while True:
            topic = remembered.get(name) or await self.look_up(name)
            if topic is None or topic.rejects:
                return None
            done = await self.batches[topic.durability].append(topic, rows)
            if done is not None:
                metrics.appended(len(rows.data))
                return Answer(200, render_appended(name, done, with_seqs, started))
            forget(name)

    async def diff(self, name: str, body: bytes, key: Key, started: float) -> Answer | None:
        key.check("read")
        key.check_name(name)
        wanted: Diff = parse_diff(body)
        if wanted.from_ts is not None:
            return None

        seconds = min(wanted.wait_ms, MAX_WAIT_MS) / 1000

        async def read(again: bool) -> tuple[Window, Pending | None]:
            topic = await self.known(name)
            window = await self.read(topic, wanted)
            waits = again and seconds and not window.tells(wanted.from_seq)
            return window, Pending(topic.id, window.head_seq, seconds) if waits else None

        window = await patiently(read)
        metrics.read(window.scanned)
        window = window.seen_by(key)
        return Answer(200, render(name, window, wanted.from_seq, (time.perf_counter() - started) * 1000))

    async def known(self, name: str) -> Known:
        """The topic as remembered, else as it is now. Raises TopicNotFound."""
        topic = remembered.get(name) or await self.look_up(name)
        if topic is None:
            raise absent(name)
        return topic

    async def read(self, topic: Known, wanted: Diff) -> Window:
        def work(connection: Connection) -> Awaitable[Window]:
            return self.window(connection, topic.name, wanted)

        return await (self.dests.read(topic.id, work) if topic.derived else self.readers.read(work))

    async def window(self, connection: Connection, name: str, wanted: Diff) -> Window:
        while True:
            topic = remembered.get(name) or await fetch(connection, name)
            if topic is None:
                raise absent(name)
            now = int(time.time() * 1000)
            if topic.derived:
                await catch_up(connection, topic, now)
            arguments = parameters(topic, wanted, now)
            if found := await connection.execute(DIFF, arguments):
                recency.note(topic.id, now)
                return Window(*found[0])
            forget(name)

    async def look_up(self, name: str) -> Known | None:
        return await self.readers.read(lambda connection: fetch(connection, name))


async def catch_up(connection: Connection, topic: Known, now: int) -> None:
    """Bring a dest up to date with everything upstream before it is read."""
    steps = advance.catching_up(topic.id, now)
    statement = next(steps)
    while True:
        rows = await connection.execute(*statement)
        try:
            statement = steps.send(rows)
        except StopIteration as done:
            advance.announce(done.value)
            return


async def fetch(connection: Connection, name: str) -> Known | None:
    """The topic as it is now; None when it is absent."""
    found = await connection.execute(LOOKUP, [name])
    return remember(found[0]) if found else None
