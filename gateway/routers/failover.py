"""FailoverRouter: one of two routes is live, the other is its spare. Two servers never accept writes at once (docs/gateway.md).

Gateways share only the state on the servers. The last record of a small topic on the witness names the live route. With
`expected_head`, exactly one gateway can append the next record. After reading the record, a gateway can write to the live
server for `leaseMs`, counted from before the read. A gateway that sees a new decision waits for `leaseMs` before its first
write to the new live server. By then all other gateways have stopped writing to the old server. A gateway that cannot reach the
witness stops writing, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
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
from gateway.errors import NodeUnreachable, UpstreamTimeout

log = logging.getLogger(__name__)
JSON = ((b"content-type", b"application/json"),)
Milliseconds = Annotated[int, Meta(ge=100, le=3_600_000)]


class FailoverConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Configuration of the router.

    `live` and `spare` are routes. `live` is live until a decision changes the live route. `witness` is the route whose server
    stores the decision, in the topic `decisionTopic`. `switch`: `command` waits for an operator. `health` switches
    automatically after `afterMs` without an answer from the live server.
    """

    live: str
    spare: str
    witness: str
    decision_topic: str
    switch: Literal["command", "health"] = "command"
    after_ms: Milliseconds = 10_000
    lease_ms: Milliseconds = 5_000


class Decided(msgspec.Struct):
    """The data of a record of the decision topic."""

    live: str


class Decision:
    """The live route, for all connections of one process.

    `epoch` is the seq of the decision's record, or 0 without a record.
    """

    def __init__(self, config: FailoverConfig) -> None:
        self.config = config
        self.lease = config.lease_ms / 1000
        self.live, self.epoch = config.live, -1  # -1: no decision was read yet
        self.valid_until = 0.0  # this process may write to `live` until then
        self.writes_from = 0.0  # and only from then on
        self.down_since: float | None = None  # time of the live server's first failure since its last answer
        self.looking = asyncio.Lock()

    async def look(self, context: RouterContext, now: float) -> None:
        """Reads the decision if half of the lease is over.

        Raises NotReady if the lease is over and the witness does not answer.
        """
        if now < self.valid_until - self.lease / 2:
            return
        async with self.looking:
            began = time.monotonic()
            if began < self.valid_until - self.lease / 2:
                return  # another request has just read the decision
            try:
                epoch, live, age = await self.read(context)
            except TopicsError as error:
                if began < self.valid_until:
                    return
                raise NotReady(f"Cannot read from the witness which server is live: {error.message}.") from error
            if epoch != self.epoch:
                self.take(epoch, live, began - age)
            self.valid_until = began + self.lease

    def take(self, epoch: int, live: str, decided: float) -> None:
        """Stores a new decision. Other gateways can write to the former server for one lease after the decision."""
        self.writes_from = decided + self.lease if epoch else 0.0
        if self.epoch >= 0:
            log.warning("The route %r is now live (decision %d)", live, epoch)
        self.epoch, self.live, self.down_since = epoch, live, None

    async def read(self, context: RouterContext) -> tuple[int, str, float]:
        """Returns the last decision: its epoch, the live route, and its age by the witness's clock (s). Raises TopicsError."""
        topic = f"/v0/topics/{self.config.decision_topic}"
        head = await ask(context, self.config.witness, Request("GET", topic, "touch=false"), 200, 404)
        if head.status == 404 or (seq := (await head.decoded())["head_seq"]) == 0:
            return 0, self.config.live, 0.0
        answer = await ask(context, self.config.witness, Request("GET", f"{topic}/records", f"from_seq={seq - 1}"), 200)
        page = await answer.decoded()
        if not page["records"]:
            raise NotReady(f"the last record of {self.config.decision_topic} was deleted: append a decision")
        record = page["records"][-1]
        try:
            live = msgspec.convert(record["data"], Decided).live
        except msgspec.ValidationError as error:
            raise NotReady(f"the last record of {self.config.decision_topic} is not a decision: {error}") from error
        if live not in (self.config.live, self.config.spare):
            raise NotReady(f"the decision names {live!r}: expected one of the two routes")
        return record["$seq"], live, max(0.0, seconds_of(answer) - record["$ts"] / 1000 - 1)

    async def switch(self, context: RouterContext) -> None:
        """Makes the other route live. If several gateways switch, exactly one succeeds. Raises TopicsError."""
        if self.epoch < 0:
            raise NotReady("the live server is not yet known from the witness")
        other = self.config.spare if self.live == self.config.live else self.config.live
        await ask(context, other, Request("GET", "/v0/ready"), 200)
        body = {
            "records": [{"data": {"live": other}}],
            "expected_head": self.epoch,
            "config": {"durability": "fsync"},
        }
        request = Request("POST", f"/v0/topics/{self.config.decision_topic}", "", JSON, msgspec.json.encode(body))
        await ask(context, self.config.witness, request, 200, 201, 409)  # 409: another gateway was first
        self.valid_until = 0.0


class FailoverRouter:
    def __init__(self, decision: Decision) -> None:
        self.decision = decision

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        """Sends the request to the live route.

        Raises NotReady if no server may accept the write, and any error of the live server.
        """
        decision = self.decision
        try:
            await decision.look(context, time.monotonic())
        except NotReady:
            if operation.is_write:
                raise
        if not operation.is_write:
            return context.respond_with(await self.send(request, context))
        now = time.monotonic()
        if now < decision.writes_from:
            wait = NotReady("The gateway has switched servers. It waits until no gateway writes to the former server.")
            wait.retry_after = int(decision.writes_from - now) + 1
            raise wait
        try:
            async with asyncio.timeout(decision.valid_until - now):  # a later answer might come from a former server
                return context.respond_with(await self.send(request, context))
        except TimeoutError as error:
            raise UpstreamTimeout(decision.live, "no answer within the lease", maybe_written=True) from error

    async def send(self, request: Request, context: RouterContext) -> Response:
        """Returns the live server's answer. With `health`, a server without an answer for `afterMs` is replaced."""
        decision, live = self.decision, self.decision.live
        try:
            answer = await context.send_request(context.any_node(live), request)
        except (NodeUnreachable, UpstreamTimeout):
            await self.failed(context, live)
            raise
        if live == decision.live:
            decision.down_since = None
        return answer

    async def failed(self, context: RouterContext, live: str) -> None:
        decision, now = self.decision, time.monotonic()
        if live != decision.live or decision.config.switch != "health":
            return
        decision.down_since = decision.down_since or now
        if now - decision.down_since >= decision.config.after_ms / 1000 and not decision.looking.locked():
            async with decision.looking:
                try:
                    await decision.switch(context)
                except TopicsError as error:
                    log.error(
                        "The route %r does not answer, and the other route cannot take over: %s", live, error.message
                    )

    def static_routes(self) -> Mapping[Operation, str]:
        return {}

    def close(self) -> None: ...


def seconds_of(answer: Response) -> float:
    """Returns the server's time, to the second. Without a `Date` header the time is 0, so a decision counts as new."""
    date = answer.header(b"date")
    try:
        return parsedate_to_datetime(date.decode("latin-1")).timestamp() if date else 0.0
    except ValueError:
        return 0.0


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
        return Decision(config)

    def create_router(self, context: RouterFactoryContext, data: Decision) -> FailoverRouter:
        return FailoverRouter(data)

    def close(self, data: Decision) -> None: ...
