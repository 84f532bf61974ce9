"""DuplicateRouter: a primary answers every request, and other servers get exact copies of its topics (docs/gateway.md).

The primary's log is the queue of records to copy. So a gateway stores nothing, and its end loses nothing. A process looks at a
topic at once after it forwarded a write, and sweeps every second: it compares the servers' lists. A list costs more with each
topic, so no write needs one. The gateway forwards deletes and settings at once. If a gateway dies in between, the copy differs
from the primary, and a later sweep repairs the copy.

A primary that was restored from a backup gives seqs a second time, to other records. Its copies then hold the only records
that the backup lacks. So the gateway compares contents, and never writes to a copy of another log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from base.errors import InvalidRequest, NotReady, TopicsError
from base.patterns import matches
from gateway.api import (
    Operation,
    PluginConfigError,
    Request,
    Response,
    RouterContext,
    RouterFactoryContext,
    RouterResponse,
    VirtualNode,
)
from gateway.blocks import ask
from gateway.routers import copies

log = logging.getLogger(__name__)
SWEEP_SECONDS = 1.0
PAGES_A_TURN = 20  # of one topic, before the next topic's turn
# Sweeps with different counts before a comparison record by record, because a copy trims itself a little later.
SETTLED_SWEEPS = 3
MOST_PENDING = 1000  # deletes and settings that wait for a copy
MOST_PENDING_BYTES = 16 * 1024 * 1024  # of their bodies, which a process holds
AUDITED = 50  # topics per sweep whose settings and newest records are compared

CopyWork = Callable[[RouterContext, str], Awaitable[None]]  # on the copy of one route


class DuplicateConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The primary and its copies."""

    primary: str
    """The route that answers."""
    copies: list[str]
    """The routes that get copies."""
    topics: list[str] = msgspec.field(default_factory=lambda: ["*"])
    """Names of topics that are copied. A name may end in `*`."""


class ServerTopic(NamedTuple):
    """A topic of a server. `first`: the seq of its first record. `records`: the number of shown records."""

    head: int
    first: int
    records: int

    @classmethod
    def of(cls, found: copies.CopiedTopic) -> ServerTopic:
        return cls(found.head_seq, found.earliest_seq, found.count)


@dataclass
class TopicCopy:
    """The copies on one route, in the view of one process.

    `lag`: the number of missing records. `differing`: topics whose records differ from the primary's. `blocked`: topics that
    cannot be copied, with the reason. `lacking`: topics whose copies lack records below their heads, with the reason. `refused`:
    copies of another log, with the copy's head and the reason.
    """

    route: str
    lag: int = 0
    differing: set[str] = field(default_factory=set)
    blocked: dict[str, str] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    refused: dict[str, tuple[int, copies.OtherLog]] = field(default_factory=dict)
    pending: deque[tuple[str, int, Callable[[RouterContext], Awaitable[None]]]] = field(default_factory=deque)
    pending_bytes: int = 0
    is_full: bool = False  # as many works as may wait were waiting, and others were not added since
    due: set[str] = field(default_factory=set)  # topics to look at before the next sweep
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    sweeps_at: float = 0.0  # time of the loop
    # With the number of sweeps that saw the same state.
    unsettled: dict[str, tuple[ServerTopic, ServerTopic, int]] = field(default_factory=dict)
    audited: str = ""  # the last topic whose settings were compared
    # Both sides at the last check of the log.
    checked: dict[str, tuple[ServerTopic, ServerTopic]] = field(default_factory=dict)
    compared: str = ""  # the last topic whose records were compared
    # The next record to compare, and the difference found there with the number of times. Deletes arrive a moment later.
    positions: dict[str, int] = field(default_factory=dict)
    doubted: dict[str, tuple[copies.Difference, int]] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)  # topics that the audit found unsealed, and so are not copies


class Duplication:
    """The copies of one DuplicateRouter."""

    def __init__(self, config: DuplicateConfig) -> None:
        self.config = config
        self.copies = {route: TopicCopy(route) for route in config.copies}

    def numbers(self, of: Callable[[TopicCopy], float]) -> dict[str, float]:
        return {route: of(copy) for route, copy in self.copies.items()}

    def takes(self, topic: str) -> bool:
        return any(matches(pattern, topic) for pattern in self.config.topics)

    def wake(self, topic: str) -> None:
        """Starts a look at each copy of a topic, because a write has passed."""
        for copy in self.copies.values():
            copy.due.add(topic)
            copy.woken.set()

    def later(self, topic: str, work: CopyWork, size: int = 0) -> None:
        """Adds work on each copy of a topic, after the waiting work. `size`: the bytes of the body that it holds.

        Beyond MOST_PENDING and MOST_PENDING_BYTES, the comparisons have to find it.
        """
        for copy in self.copies.values():
            if len(copy.pending) < MOST_PENDING and copy.pending_bytes + size <= MOST_PENDING_BYTES:
                copy.pending.append((topic, size, lambda context, route=copy.route: work(context, route)))  # type: ignore[misc]
                copy.pending_bytes += size
            elif not copy.is_full:
                copy.is_full = True
                log.warning(
                    "%d writes wait for the route %r. Later ones are left to the comparisons",
                    len(copy.pending),
                    copy.route,
                )
        self.wake(topic)

    async def follow(self, context: RouterContext, copy: TopicCopy) -> None:
        """Keeps one route's copies equal to the primary, until the task is cancelled."""
        now = asyncio.get_running_loop().time
        while True:
            copy.woken.clear()
            due, copy.due = copy.due, set()
            is_time = now() >= copy.sweeps_at
            try:
                await self.pass_on(context, copy)
                if is_time:
                    await self.sweep(context, copy)
                else:
                    await self.bring_some(context, copy, due)
            except TopicsError as error:
                log.warning("Copying to the route %r stopped: %s. The gateway retries", copy.route, error.message)
            if is_time:
                copy.sweeps_at = now() + SWEEP_SECONDS
            if not copy.due:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(copy.woken.wait(), copy.sweeps_at - now())

    async def pass_on(self, context: RouterContext, copy: TopicCopy) -> None:
        """Repeats the waiting deletes and settings in the copies. Raises TopicsError if a server does not answer."""
        while copy.pending:
            try:
                topic, size, work = copy.pending[0]  # stays first until an answer arrives, and is retried
                if topic not in copy.refused:
                    await copies.check_log(context, topic, self.config.primary, copy.route)
                    await work(context)
            except copies.OtherLog:
                pass  # a delete could remove the last copy of a record
            except NotReady as error:
                if error.detail.get("status", 500) >= 500:
                    raise
                log.warning("A write was not copied to the route %r: %s", copy.route, error.message)
            copy.pending.popleft()
            copy.pending_bytes -= size
        copy.is_full = False

    async def bring_some(self, context: RouterContext, copy: TopicCopy, topics: Iterable[str]) -> None:
        """Copies missing records of some topics, until it is time for a sweep, which brings the rest.

        A sweep also reports topics that cannot be copied. Raises TopicsError if a server does not answer.
        """
        now = asyncio.get_running_loop().time
        for topic in topics:
            if now() >= copy.sweeps_at:
                return
            original, there = await self.both(context, copy, topic)
            if original is None or (there is not None and there.head_seq == original.head_seq):
                continue
            try:
                known = None if there is None else ServerTopic.of(there)
                await self.bring(context, copy, topic, ServerTopic.of(original), known)
            except TopicsError as error:
                log.debug("The copy of %r on the route %r is left to the next sweep: %s", topic, copy.route, error)

    async def both(
        self, context: RouterContext, copy: TopicCopy, topic: str
    ) -> tuple[copies.CopiedTopic | None, copies.CopiedTopic | None]:
        """Returns the primary's topic and its copy. Raises TopicsError."""
        return await asyncio.gather(
            copies.look(context, self.config.primary, topic), copies.look(context, copy.route, topic)
        )

    async def sweep(self, context: RouterContext, copy: TopicCopy) -> None:
        """Compares the lists of both servers, and copies missing records. Raises TopicsError."""
        originals = {name: each async for name, each in listed(context, self.config.primary) if self.takes(name)}
        copied = {name: each async for name, each in listed(context, copy.route) if self.takes(name)}
        # Nothing is written to a refused copy. So it changes only if an operator deletes it.
        copy.refused = {
            topic: each for topic, each in copy.refused.items() if topic in copied and each[0] == copied[topic].head
        }
        lag, blocked = 0, dict[str, str]()
        for topic, original in originals.items():
            there = copied.get(topic)
            try:
                lag += await self.bring(context, copy, topic, original, there)
            except copies.OtherLog as error:
                blocked[topic] = error.message
                if there is not None:
                    copy.refused[topic] = there.head, error
                lag += original.records  # of this log, the copy may have none
            except TopicsError as error:
                blocked[topic] = error.message
                lag += max(0, original.head - (there.head if there is not None else 0))
        for topic in copied.keys() - originals.keys():
            blocked[topic] = "the topic does not exist on the primary"
        await self.audit(context, copy, originals, copied, sorted(originals.keys() & copied.keys() - blocked.keys()))
        equal = [
            topic
            for topic in sorted(originals.keys() & copied.keys() - blocked.keys() - copy.opened)
            if originals[topic].head == copied[topic].head
        ]
        await self.compare_block(context, copy, equal, originals, copied)
        blocked |= dict.fromkeys(copy.opened & copied.keys(), "the topic is not sealed, so not a copy")
        for topic, why in blocked.items():
            if copy.blocked.get(topic) != why:
                log.warning("The copy of %r on the route %r differs: %s", topic, copy.route, why)
        copy.lag, copy.blocked = lag, blocked
        copy.differing &= originals.keys()
        for of_topics in (copy.checked, copy.positions, copy.doubted, copy.unsettled, copy.lacking):
            for gone in of_topics.keys() - originals.keys():
                del of_topics[gone]

    async def check(
        self, context: RouterContext, copy: TopicCopy, topic: str, original: ServerTopic, there: ServerTopic
    ) -> None:
        """Raises OtherLog if the topic is a copy of another log. A copy that has not changed is not checked again."""
        if topic in copy.refused:
            raise copy.refused[topic][1]
        if copy.checked.get(topic) != (original, there):
            await copies.check_log(context, topic, self.config.primary, copy.route)
            copy.checked[topic] = original, there

    async def compare_block(
        self,
        context: RouterContext,
        copy: TopicCopy,
        topics: list[str],
        originals: Mapping[str, ServerTopic],
        copied: Mapping[str, ServerTopic],
    ) -> None:
        """Compares the contents of up to 1,000 seqs of one topic, in turn. `topics`: those with equal heads, sorted.

        So each record is compared from time to time. This finds what the other comparisons cannot see, for example a primary
        that was restored and reached the copy's head before a sweep looked.
        """
        if not topics:
            return
        waiting = [topic for topic in topics if topic in copy.doubted]
        topic = (waiting or [topic for topic in topics if topic > copy.compared] or topics)[0]
        copy.compared, head, from_seq = topic, originals[topic].head, copy.positions.get(topic, 0)
        upto = head if originals[topic].records <= copies.PAGE else min(from_seq + copies.PAGE, head)
        primary = self.config.primary
        found = await copies.difference(context, topic, primary, copy.route, upto, from_seq)
        before, times = copy.doubted.pop(topic, (found, 0))
        times = times + 1 if found == before else 1
        if any(found) and not found.changed and times < SETTLED_SWEEPS:
            copy.doubted[topic] = found, times
            return
        try:
            await copies.settle(context, topic, primary, copy.route, found)
            copy.lacking.pop(topic, None)
            copy.positions[topic] = 0 if upto >= head else upto
        except copies.OtherLog as error:
            copy.refused[topic] = copied[topic].head, error
        except NotReady as error:
            if topic not in copy.lacking:
                log.warning("%s", error.message)
            copy.lacking[topic] = error.message

    async def bring(
        self, context: RouterContext, copy: TopicCopy, topic: str, original: ServerTopic, there: ServerTopic | None
    ) -> int:
        """Copies missing records, up to 20 pages. Returns the number of remaining records. A copy that advanced is due again.

        `there`: the copy, or None without one. Raises TopicsError.
        """
        primary, route = self.config.primary, copy.route
        if there is not None:
            if topic in copy.refused or (original.head, original.first) != (there.head, there.first):
                await self.check(context, copy, topic, original, there)  # the audit checks idle topics
            await copies.trim(context, topic, primary, route, original.first, there.first, there.head)
            if there.head == original.head:
                await self.compare(context, copy, topic, original, there)
                return 0
        begun = copied = await copies.begin(context, topic, primary, route)
        for _ in range(PAGES_A_TURN):
            copied = await copies.copy_page(context, topic, primary, route, copied)
            if not copied.lag:
                break
        if copied.head > begun.head:
            copy.due.add(topic)
        return copied.lag

    async def compare(
        self, context: RouterContext, copy: TopicCopy, topic: str, original: ServerTopic, there: ServerTopic
    ) -> None:
        """Repairs a copy whose number of records keeps differing from the primary's."""
        if original.records == there.records:
            copy.unsettled.pop(topic, None)
            copy.differing.discard(topic)
            return
        before = copy.unsettled.get(topic)
        sweeps = before[2] + 1 if before is not None and before[:2] == (original, there) else 1
        copy.unsettled[topic] = original, there, sweeps
        if sweeps >= SETTLED_SWEEPS:
            copy.differing.add(topic)
            await copies.repair(context, topic, self.config.primary, copy.route)
            del copy.unsettled[topic]

    async def audit(
        self,
        context: RouterContext,
        copy: TopicCopy,
        originals: Mapping[str, ServerTopic],
        copied: Mapping[str, ServerTopic],
        topics: list[str],
    ) -> None:
        """Compares the settings and the newest records of some topics, in turn, and repairs the settings of copies."""
        behind = [topic for topic in topics if topic > copy.audited]
        chosen = (behind or topics)[:AUDITED]
        copy.audited = chosen[-1] if chosen else ""
        for topic in chosen:
            original, there = await self.both(context, copy, topic)
            if there is not None and not there.is_sealed:
                copy.opened.add(topic)
                continue
            copy.opened.discard(topic)
            try:
                await self.check(context, copy, topic, originals[topic], copied[topic])
            except copies.OtherLog as error:
                copy.refused[topic] = copied[topic].head, error  # the next sweep tells it
                continue
            if original is not None and there is not None:
                wanted = copies.settings(original)
                if wanted != there.config:
                    await copies.configure(context, topic, copy.route, wanted, "create=false")


async def listed(context: RouterContext, route: str) -> AsyncIterator[tuple[str, ServerTopic]]:
    """Yields the topics of a route, with heads and counts."""
    async for each in copies.entries(context, route, "/v0/topics", "topics"):
        yield each["topic"], ServerTopic(each["head_seq"], each["earliest_seq"], each["count"])


class DuplicateRouter:
    def __init__(self, duplication: Duplication) -> None:
        self.duplication = duplication

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        duplication = self.duplication
        node = context.virtual_node or context.any_node(duplication.config.primary)
        is_passed_on = operation in PASSED_ON and node.route == duplication.config.primary
        if not is_passed_on or request.topic is None or not duplication.takes(request.topic):
            return context.respond_with(await context.send_request(node, request))
        if operation is Operation.APPEND:
            answer = await context.send_request(node, request)
            if answer.status in (200, 201):
                duplication.wake(request.topic)
            return context.respond_with(answer)
        await request.body()  # the body is forwarded later
        if operation is Operation.PUT_TOPIC and context.virtual_node is None and "sealed" in await request.json():
            raise InvalidRequest(
                "sealed: topics of the primary cannot be sealed here. Seal the topic at its server", field="sealed"
            )
        # The primary continues if the client leaves, and so does this.
        change = asyncio.create_task(self.change(operation, request, node, context))
        return context.respond_with(await asyncio.shield(change))

    async def change(
        self, operation: Operation, request: Request, node: VirtualNode, context: RouterContext
    ) -> Response:
        """Returns the primary's answer to a change, which is then repeated in the copies. Raises TopicsError."""
        topic, is_unknown = request.topic or "", True
        try:
            answer = await context.send_request(node, request)
            await answer.read()
            is_unknown = answer.status >= 500
        finally:
            if is_unknown and operation is Operation.DELETE_TOPIC:
                self.duplication.later(topic, if_gone(self.duplication.config.primary, topic))
        if answer.status in (200, 201):
            work = passed_on(operation, topic, request, answer)
            self.duplication.later(topic, work, len(await request.body()))
        return answer

    def static_routes(self) -> Mapping[Operation, str]:
        primary = self.duplication.config.primary
        return {operation: primary for operation in Operation if operation not in PASSED_ON}


PASSED_ON = frozenset((Operation.APPEND, Operation.DELETE_RECORDS, Operation.PUT_TOPIC, Operation.DELETE_TOPIC))


def if_gone(primary: str, topic: str) -> CopyWork:
    """Returns the work that deletes a copy unless the primary has the topic: the answer to a delete was lost."""

    async def delete_if_gone(context: RouterContext, route: str) -> None:
        if await copies.look(context, primary, topic) is None:
            await delete_copy(context, topic, route)

    return delete_if_gone


async def delete_copy(context: RouterContext, topic: str, route: str) -> None:
    await ask(context, route, Request("DELETE", copies.path(topic), "if_sealed=true"), 200, 409)


def passed_on(operation: Operation, topic: str, request: Request, answer: Response) -> CopyWork:
    """Returns the work that repeats the primary's write in a copy. Both bodies were read."""

    async def delete_records(context: RouterContext, route: str) -> None:
        await copies.forward_delete(context, request, answer, route)

    async def delete_topic(context: RouterContext, route: str) -> None:
        await delete_copy(context, topic, route)

    async def configure(context: RouterContext, route: str) -> None:
        settings = copies.of_a_copy(await request.json())
        put = Request("PUT", copies.path(topic), "create=false", copies.JSON, msgspec.json.encode(settings))
        await ask(context, route, put, 200, 404)  # a missing copy is later created with all settings

    works = {
        Operation.DELETE_RECORDS: delete_records,
        Operation.DELETE_TOPIC: delete_topic,
        Operation.PUT_TOPIC: configure,
    }
    return works[operation]


class DuplicateRouterFactory:
    """Sends every request to a primary, and keeps exact copies of its topics on other servers."""

    def initialize(self, context: RouterFactoryContext, config: DuplicateConfig) -> Duplication:
        for name, routes in (("primary", [config.primary]), ("copies", config.copies)):
            for route in routes:
                if route not in context.route_names:
                    raise PluginConfigError(f"{name}: route {route!r} does not exist.")
        if not config.copies or len(set(config.copies)) < len(config.copies) or config.primary in config.copies:
            raise PluginConfigError("copies: expected one or more routes other than the primary, each once.")
        if unused := set(context.route_names) - {config.primary, *config.copies}:
            raise PluginConfigError(f"routes: {', '.join(sorted(unused))} is never used: remove it.")
        made = Duplication(config)
        context.gauge("copy_lag_records", "Records that a copy lacks", lambda: made.numbers(lambda copy: copy.lag))
        context.gauge(
            "copy_differing_topics",
            "Topics whose copy shows other records, or cannot follow",
            lambda: made.numbers(lambda copy: len(copy.differing | copy.blocked.keys() | copy.lacking.keys())),
        )
        for copy in made.copies.values():
            context.background(lambda own, copy=copy: made.follow(own, copy))  # type: ignore[misc]
        return made

    def create_router(self, context: RouterFactoryContext, data: Duplication) -> DuplicateRouter:
        return DuplicateRouter(data)
