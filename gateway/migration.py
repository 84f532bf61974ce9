"""Moves one topic to another server in repeatable steps: mirror, catch up, fence, flip.

The sealed settings of the two topics store the state of a move (gateway/routers/migrate.py). So a killed run can continue, and
several runs do no harm. Deletes and copies need a sealed topic, so a late run cannot change a topic that has moved.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from base.errors import NotReady
from base.units import amount
from gateway import copies
from gateway.api import Request, RouterContext
from gateway.blocks import ask

NEAR = 1000  # records that may still be missing when the writers are stopped
FOLLOW_MS = 1000


@dataclass(frozen=True)
class Progress:
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
) -> AsyncGenerator[Progress]:
    """Moves the topic. Yields the progress after each page. Without `flip` the run follows the source until the run is stopped.

    Raises NotReady with the obstacle, and TopicsError if a server does not answer.
    """
    await check(context, topic, source)
    original, copy = await copies.look(context, source, topic), await copies.look(context, dest, topic)
    if original is not None and original.is_sealed and copy is not None and not copy.is_sealed:
        yield Progress(copy.head_seq, original.head_seq, moved=True)
        return
    copied = await copies.begin(context, topic, source, dest)
    while True:
        copied = await copies.copy_page(context, topic, source, dest, copied, wait_ms=0 if flip else FOLLOW_MS)
        yield Progress(copied.head, copied.source_head)
        if flip and copied.lag <= NEAR:
            break
    # Compare both sides before the fence, so that the comparison during the fence finds few differences and is short.
    await copies.repair(context, topic, source, dest)
    yield await finish(context, topic, source, dest)


async def finish(context: RouterContext, topic: str, source: str, dest: str) -> Progress:
    """Stops the writers, copies the remaining records, and opens the dest."""
    began = time.monotonic()
    await copies.configure(context, topic, source, {"sealed": True}, "create=false")
    original, copy = await copies.look(context, source, topic), await copies.look(context, dest, topic)
    if original is None or copy is None:
        raise NotReady(f"the topic {topic!r} or its copy was deleted")
    copied = copies.Copied(copy.head_seq, copy.last_write_ts or 0, original.head_seq)
    while copied.lag:
        copied = await copies.copy_page(context, topic, source, dest, copied)
    if copy.is_sealed:
        await copies.repair(context, topic, source, dest)
        await copies.copy_cursors(context, topic, source, dest)
        await copies.configure(context, topic, dest, {**original.config, "sealed": False}, "create=false")
    return Progress(copied.head, original.head_seq, moved=True, fenced_ms=(time.monotonic() - began) * 1000)


async def take_back(context: RouterContext, topic: str, source: str, dest: str) -> None:
    """Cancels a move before its flip: deletes the copy, then opens the source. Raises NotReady if the topic has already moved.

    The copy is deleted first, and only if the copy is sealed. So a run that is about to open the copy finds no copy. The source
    opens only when no other topic can take writes.
    """
    answer = await ask(context, dest, Request("DELETE", copies.path(topic), "if_sealed=true"), 200, 409)
    if answer.status == 409:
        raise NotReady(f"topic {topic!r} has already moved to the route {dest!r}: a move can end only before its flip")
    await copies.configure(context, topic, source, {"sealed": False}, "create=false")


async def check(context: RouterContext, topic: str, source: str) -> None:
    """Raises NotReady if one of the server's own routers has the topic as source or dest, because the router cannot move."""
    for end in ("source", "dest"):
        query = f"{end}={copies.quote(topic, safe='')}&page_size=1"
        page = await (await ask(context, source, Request("GET", "/v0/routers", query), 200, 404)).decoded()
        if routers := page.get("routers"):
            raise NotReady(
                f"the router {routers[0]['router']!r} of the server has {topic!r} as its {end}: delete the router first"
            )
