"""FailoverRouter: one of two routes is live, the other is its spare. Two servers never accept writes at once (docs/gateway.md).

Gateways share only the state on the servers. The last record of a small topic on the witness is the decision: it names the
live route, and how long a gateway may write there after it asked (lease.py). With `expected_head`, exactly one gateway can
append the next decision. Each process asks the witness several times per lease, beside the requests of clients. So no request
waits for the witness, and a process that cannot reach the witness stops writing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from base.errors import NotReady, TopicsError
from gateway.api import (
    Operation,
    PluginConfigError,
    Request,
    Response,
    RouterContext,
    RouterFactoryContext,
    RouterResponse,
)
from gateway.blocks import ask
from gateway.errors import NotOffered, UpstreamTimeout
from gateway.routers import copies
from gateway.routers.lease import Decided, DecisionRecord, Proposal, WriteLease

log = logging.getLogger(__name__)
Milliseconds = Annotated[int, Meta(ge=100, le=3_600_000)]
TAIL = 100  # decisions per look. A look misses decisions only if more are appended between two looks
LOOKS = 4  # per lease
LONGEST_LOOK_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 1.0
PROBES = 4  # of the live server per `afterMs`. As many failures in a row switch


class FailoverConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The two routes, and when they change places."""

    live: str
    """The route that is live until a decision says otherwise."""
    spare: str
    """The other route."""
    witness: str
    """The route to the server with the decisions: the spare, or better a third server. It has an `ApiKey` filter with a key
    of scope `admin`."""
    decision_topic: str
    """The topic on the witness. Its last record names the live route."""
    switch: Literal["command", "health"] = "command"
    """`command`: you switch. `health`: a gateway switches when the live server has not answered for `afterMs` and the spare
    is ready."""
    after_ms: Milliseconds = 10_000
    """Each gateway asks `/v0/ready` four times in this time. Four failures in a row switch, unless the server gave any answer
    meanwhile."""
    lease_ms: Milliseconds = 5_000
    """How long a gateway may write to the live server after it asked the witness."""


def clock() -> float:
    """Returns the seconds of this machine's own clock, which nothing sets. On Linux it also runs while the machine sleeps, so a
    lease ends meanwhile."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Decision:
    """The live route, for all connections of one process."""

    def __init__(self, config: FailoverConfig) -> None:
        self.config = config
        self.lease = WriteLease(config.live, config.spare, config.lease_ms)
        self.why = "The gateway has not yet read from the witness which server is live."  # the reason for no lease
        self.looked = asyncio.Event()  # the first look has ended, with an answer or without
        self.seen = asyncio.Event()  # this process knows of a new decision, and must read it
        self.failures = 0  # probes of the live server without an answer, in a row

    @property
    def live(self) -> str:
        return self.lease.live

    def until(self) -> float:
        """Returns the end of this process's lease. Raises NotReady if the process may not send writes now."""
        now, lease = clock(), self.lease
        if lease.allows(now):
            return lease.valid_until
        if now < lease.valid_until:
            refused = NotReady("The gateway waits until no gateway writes to the former server.")
            refused.retry_after = int(lease.writes_from - now) + 1
            raise refused
        raise NotReady(self.why)

    async def follow(self, context: RouterContext) -> None:
        """Keeps the lease, until the task is cancelled. A hung witness delays only this task."""
        while True:
            self.seen.clear()
            # The decision's lease ends, however long the lease of this gateway's configuration is.
            known = self.lease.known
            length = known.lease if known is not None else self.config.lease_ms / 1000
            try:
                async with asyncio.timeout(min(length / 2, LONGEST_LOOK_SECONDS)):
                    proposal = await self.look(context)
                    if proposal is not None and await self.append(context, proposal):
                        continue
                self.why = "The gateway did not ask the witness in time which server is live."
            except (TopicsError, TimeoutError) as error:
                self.why = f"Cannot read from the witness which server is live: {said(error)}."
            finally:
                self.looked.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.seen.wait(), min(length / LOOKS, LONGEST_PAUSE_SECONDS))

    async def look(self, context: RouterContext) -> Proposal | None:
        """Reads the decision. Returns a decision that must be appended first. Raises TopicsError."""
        asked, topic, witness = clock(), self.config.decision_topic, self.config.witness
        answer = await ask(context, witness, copies.post(f"{copies.path(topic)}/diff", {"tail": TAIL}), 200, 404)
        if answer.status == 404:
            # A deleted topic with this name may have left its numbering.
            proposal = self.lease.see((), 0, asked, clock())
            await copies.configure(context, topic, witness, {"durability": "fsync"})
            made = await copies.look(context, witness, topic)
            return proposal._replace(head=made.head_seq) if proposal and made else None
        page, before = await answer.decoded(), self.lease.known
        tail = [DecisionRecord.of(each) for each in page["records"]]
        proposal, known = self.lease.see(tail, page["head_seq"], asked, clock()), self.lease.known
        if known is not None and known != before:
            self.failures = 0
            if before is not None:
                log.warning("The route %r is now live (decision %d)", self.live, known.seq)
        return proposal

    async def append(self, context: RouterContext, proposal: Proposal) -> bool:
        """Appends a decision. Returns False if another gateway was first. Raises TopicsError."""
        body = {"records": [{"data": proposal.decided}], "expected_head": proposal.head}
        request = copies.post(copies.path(self.config.decision_topic), body)
        return (await ask(context, self.config.witness, request, 200, 201, 409)).status != 409

    async def switch(self, context: RouterContext) -> None:
        """Makes the other route live. Raises TopicsError."""
        known = self.lease.known
        if known is None:
            raise NotReady("the live server is not yet known from the witness")
        other = next(route for route in self.lease.routes if route != self.live)
        await ask(context, other, Request("GET", "/v0/ready"), 200)
        await self.append(context, Proposal(known.seq, Decided(other, self.lease.longest(()))))
        self.seen.set()

    async def watch(self, context: RouterContext) -> None:
        """Replaces a live server that gives no answer, until the task is cancelled.

        Failures are counted, and not measured. So a process that was stopped for a while counts one failure.
        """
        pause = self.config.after_ms / 1000 / PROBES
        while True:
            live, began = self.live, asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(pause):
                    await context.send_request(context.any_node(live), Request("GET", "/v0/ready"))
                self.failures = 0
            except (TopicsError, TimeoutError):
                self.failures += live == self.live
            if self.failures >= PROBES:
                try:
                    async with asyncio.timeout(self.config.lease_ms / 1000):
                        await self.switch(context)
                except (TopicsError, TimeoutError) as error:
                    log.error(
                        "The route %r does not answer, and the other route cannot take over: %s", live, said(error)
                    )
            await asyncio.sleep(began + pause - asyncio.get_running_loop().time())


def said(error: TopicsError | TimeoutError) -> str:
    return error.message if isinstance(error, TopicsError) else "no answer"


class FailoverRouter:
    def __init__(self, decision: Decision) -> None:
        self.decision = decision

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        """Sends the request to the live route.

        A request to a node's own address goes there, if it changes nothing, and the node does not only keep decisions: the
        key of its route could change them. Raises NotReady if no server may accept the write, and any error of the server.
        """
        decision = self.decision
        if (node := context.virtual_node) is not None:
            if operation.is_write or node.route not in decision.lease.routes:
                raise NotOffered(
                    operation.value, "a node of a FailoverRouter takes only reads, and that of the witness none"
                )
            return context.respond_with(await context.send_request(node, request))
        await decision.looked.wait()
        if not operation.is_write:
            return context.respond_with(await self.send(request, context))
        until, live = decision.until(), decision.live
        late = UpstreamTimeout(live, "no answer within the lease", maybe_written=True)
        try:
            async with asyncio.timeout(until - clock()):  # a later answer might come from a former server
                answer = await self.send(request, context)
        except TimeoutError as error:
            raise late from error
        if clock() >= until:  # this process, or this machine, did not run for a while
            raise late
        return context.respond_with(answer)

    async def send(self, request: Request, context: RouterContext) -> Response:
        live = self.decision.live
        answer = await context.send_request(context.any_node(live), request)
        if live == self.decision.live:
            self.decision.failures = 0
        return answer

    def still_leads_to(self, route: str, request: Request) -> bool:
        """Returns whether a new request would take this route. Without a lease no stream gives out jobs or shares.

        Another gateway may have switched meanwhile, and the other server would give its workers the same jobs.
        """
        decision = self.decision
        return route == decision.live and (not request.operation.is_write or decision.lease.allows(clock()))


class FailoverRouterFactory:
    """Sends requests to the live one of two routes. An operator or the live server's health switches the routes."""

    decides_identifiers = True  # a watch of the former server must not continue there

    def initialize(self, context: RouterFactoryContext, config: FailoverConfig) -> Decision:
        for field in ("live", "spare", "witness"):
            if getattr(config, field) not in context.route_names:
                raise PluginConfigError(f"{field}: route {getattr(config, field)!r} does not exist.")
        if config.live == config.spare:
            raise PluginConfigError("spare: expected another route than `live`.")
        if config.live == config.witness:
            raise PluginConfigError(
                "witness: expected another route than `live`, because a stopped server cannot report itself."
            )
        used: set[Any] = {config.live, config.spare, config.witness}
        if unused := set(context.route_names) - used:
            raise PluginConfigError(f"routes: {', '.join(sorted(unused))} is never used: remove it.")
        made = Decision(config)
        context.background(made.follow)
        if config.switch == "health":
            context.background(made.watch)
        return made

    def create_router(self, context: RouterFactoryContext, data: Decision) -> FailoverRouter:
        return FailoverRouter(data)
