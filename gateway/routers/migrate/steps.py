"""Moves one topic to another server in repeatable steps: mirror, catch up, fence, flip.

The sealed settings of the two topics store the state of a move (router.py). So a killed run can continue, and
several runs do no harm. Deletes and copies need a sealed topic, so a late run cannot change a topic that has moved.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from base.errors import NotReady
from base.units import amount
from gateway.api import Request, RouterContext
from gateway.blocks import ask
from gateway.routers import copies

NEAR = 1000  # records that may still be missing when the writers are stopped
FOLLOW_MS = 1000
# Kinds of cursors whose owners stay on the source's server.
READERS = {"subscription": "the subscription", "pipeline": "the job of the pipeline", "webhook": "the webhook"}


@dataclass(frozen=True)
class MoveProgress:
    """The progress of a move. `moved`: the dest is live. `fenced_ms`: how long writers waited for the move."""

    head: int
    source_head: int
    moved: bool = False
    fenced_ms: float = 0.0

    def __str__(self) -> str:
        if self.moved:
            return f"moved at seq {amount(self.head)}. Writers waited for {self.fenced_ms:.0f} ms"
        return f"copied up to seq {amount(self.head)} of {amount(self.source_head)}"


async def migrate(
    context: RouterContext, topic: str, source: str, dest: str, *, flip: bool = True
) -> AsyncGenerator[MoveProgress]:
    """Moves the topic. Yields the progress after each page. Without `flip` the run follows the source until the run is stopped.

    Raises NotReady with the obstacle, and TopicsError if a server does not answer.
    """
    original, copy = await copies.look(context, source, topic), await copies.look(context, dest, topic)
    if original is not None and original.is_sealed and copy is not None and not copy.is_sealed:
        if original.is_queue:
            await copies.drop_schedules(context, topic, source)
        yield MoveProgress(copy.head_seq, original.head_seq, moved=True)
        return
    await check(context, topic, source, dest)
    copied = await copies.begin(context, topic, source, dest)
    while True:
        copied = await copies.copy_page(context, topic, source, dest, copied, wait_ms=0 if flip else FOLLOW_MS)
        yield MoveProgress(copied.head, copied.source_head)
        if flip and copied.lag <= NEAR:
            break
    # Compare both sides before the fence, so that the comparison during the fence finds few differences and is short.
    await copies.repair(context, topic, source, dest)
    keys_since = time.monotonic()
    await copies.copy_keys(context, topic, source, dest)
    yield await finish(context, topic, source, dest, keys_since)


async def finish(
    context: RouterContext, topic: str, source: str, dest: str, keys_since: float | None = None
) -> MoveProgress:
    """Stops the writers, copies the remaining records, and opens the dest. `keys_since`: the keys from before are copied.

    Raises NotReady with the obstacle.
    """
    await check(context, topic, source, dest)
    began = time.monotonic()
    await copies.configure(context, topic, source, {"sealed": True}, "create=false")
    original, copy = await copies.look(context, source, topic), await copies.look(context, dest, topic)
    if copy is None and original is not None:
        # take_back() deletes the copy and then opens the source. It did so since the check, and our fence came after that.
        await copies.configure(context, topic, source, {"sealed": False}, "create=false")
    if original is None or copy is None:
        raise NotReady(f"the topic {topic!r} or its copy was deleted")
    copied = copies.CopyProgress(copy.head_seq, copy.last_write_ts or 0, original.head_seq)
    while copied.lag:
        copied = await copies.copy_page(context, topic, source, dest, copied)
    if copy.is_sealed:
        await copies.repair(context, topic, source, dest)
        await copies.copy_cursors(context, topic, source, dest)
        await copies.copy_state(context, topic, source, dest, keys_since)
        await copies.configure(context, topic, dest, {**original.config, "sealed": False}, "create=false")
    fenced_ms = (time.monotonic() - began) * 1000
    if original.is_queue:
        await copies.drop_schedules(context, topic, source)
    return MoveProgress(copied.head, original.head_seq, moved=True, fenced_ms=fenced_ms)


async def take_back(context: RouterContext, topic: str, source: str, dest: str) -> None:
    """Cancels a move before its flip: deletes the copy, then opens the source. Raises NotReady if the topic has already moved.

    The copy is deleted first, and only if the copy is sealed. So a run that is about to open the copy finds no copy. The source
    opens only when no other topic can take writes.
    """
    answer = await ask(context, dest, Request("DELETE", copies.path(topic), "if_sealed=true"), 200, 409)
    if answer.status == 409:
        raise NotReady(f"topic {topic!r} has already moved to the route {dest!r}: a move can end only before its flip")
    await copies.configure(context, topic, source, {"sealed": False}, "create=false")


async def check(context: RouterContext, topic: str, source: str, dest: str) -> None:
    """Raises NotReady if the topic has state that would stay behind, or if the copy is one of another log."""
    for end in ("source", "dest"):
        query = f"{end}={copies.quote(topic, safe='')}&page_size=1"
        page = await (await ask(context, source, Request("GET", "/v0/routers", query), 200, 404)).decoded()
        if routers := page.get("routers"):
            raise NotReady(
                f"the router {routers[0]['router']!r} of the server has {topic!r} as its {end}: delete the router first"
            )
    for route in (source, dest):
        await check_version(context, topic, route)
    original = await copies.look(context, source, topic)
    if original is None:
        raise NotReady(f"topic {topic!r} does not exist on the route {source!r}")
    await check_readers(context, topic, source)
    if original.is_queue and original.config["dead_letter"] is not None:
        await check_dead_letter(context, original.config["dead_letter"], source, dest)
    await copies.check_log(context, topic, source, dest)


async def check_version(context: RouterContext, topic: str, route: str) -> None:
    """Raises NotReady if the route's server is too old to give or take the state of a topic."""
    answer = await ask(context, route, Request("GET", f"{copies.path(topic)}/state/keys"), 200, 404)
    if answer.status == 404 and (await answer.decoded())["error"]["code"] != "topic_not_found":
        raise NotReady(f"the server of the route {route!r} cannot move idempotency keys and groups: upgrade it first")


async def check_readers(context: RouterContext, topic: str, source: str) -> None:
    """Raises NotReady if something on the source's server reads the topic, and would not read it on the other server."""
    async for each in copies.entries(context, source, f"{copies.path(topic)}/cursors", "cursors"):
        if each["kind"] in READERS:
            raise NotReady(f"{READERS[each['kind']]} {each['cursor']!r} of the server reads {topic!r}: delete it first")


async def check_dead_letter(context: RouterContext, dead_letter: str, source: str, dest: str) -> None:
    """Raises NotReady unless a queue's dead letter topic has moved, because its letters go to a topic of the same server."""
    before, after = await copies.look(context, source, dead_letter), await copies.look(context, dest, dead_letter)
    if after is None or after.is_sealed or (before is not None and not before.is_sealed):
        raise NotReady(
            f"its dead letter topic {dead_letter!r} is not on the route {dest!r}: move that topic first, with"
            f" `topics gateway migrate`, or set dead_letter to null"
        )
