"""Exact copies of a topic on another server: the same records, with the same seqs, times, nodes and tags.

A copy is a sealed topic, which accepts copies but no writes of clients. One page of `diff` at the source becomes one append
with `copy`. The server skips seqs up to the copy's head. So any number of processes can copy at once, and a restarted process
continues at the copy's head.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import accumulate
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from base.errors import NotReady
from gateway.api import Request, Response, RouterContext
from gateway.blocks import ask
from gateway.edits import encoded
from gateway.names import Raws

PAGE = 1000  # records per page, the maximum of a diff
MOST_SEQS = 5000  # seqs per delete
JSON = ((b"content-type", b"application/json"),)


class Topic(msgspec.Struct):
    """A topic in a server's answer."""

    head_seq: int
    earliest_seq: int
    count: int
    config: dict[str, Any]
    last_write_ts: int | None = None

    @property
    def is_sealed(self) -> bool:
        return self.config.get("sealed") is True


class Tombstone(msgspec.Struct):
    gap_from: int
    lost_from: int | None = None


class Page(msgspec.Struct):
    """The answer to a diff. `records` are the bytes that the source sent."""

    next_from_seq: int
    head_seq: int
    records: msgspec.Raw
    tombstone: msgspec.Raw = msgspec.Raw(b"null")


class Seq(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")


class Timed(msgspec.Struct):
    ts: int = msgspec.field(name="$ts")


class Copied(NamedTuple):
    """The progress of a copy: its head and last time (ms), and the source's head at that moment."""

    head: int
    ts: int
    source_head: int

    @property
    def lag(self) -> int:
        return max(0, self.source_head - self.head)


async def look(context: RouterContext, route: str, topic: str) -> Topic | None:
    """Returns the state of a topic on the route's server, or None if the topic does not exist. Raises TopicsError."""
    answer = await ask(context, route, Request("GET", path(topic), "touch=false"), 200, 404)
    return None if answer.status == 404 else await answer.decoded(Topic)


async def begin(context: RouterContext, topic: str, source: str, dest: str) -> Copied:
    """Creates a sealed copy with the settings of the source, or continues an existing copy. Returns the progress.

    Raises NotReady if the source has no such topic, or if the topic at `dest` is not sealed.
    """
    original, copy = await look(context, source, topic), await look(context, dest, topic)
    if original is None:
        raise NotReady(f"topic {topic!r} does not exist on the route {source!r}")
    if copy is not None and not copy.is_sealed:
        raise NotReady(f"topic {topic!r} on the route {dest!r} is not sealed, and no copy: delete the topic first")
    if copy is not None:
        return Copied(copy.head_seq, copy.last_write_ts or 0, original.head_seq)
    await configure(context, topic, dest, settings(original))
    copy = await look(context, dest, topic)
    if copy is not None and copy.head_seq > 0:
        # A deleted topic with this name left its numbering. The copy must start without it, to take the seqs of its source.
        await ask(context, dest, Request("DELETE", path(topic), "if_sealed=true&keep_head=false"), 200)
        await configure(context, topic, dest, settings(original))
    return Copied(0, 0, original.head_seq)


def settings(original: Topic) -> dict[str, Any]:
    """Returns the settings of a copy.

    A copy has no caps. With a cap, a late delete would make the copy evict records that the source still has. `trim` removes
    the records that the source has evicted.
    """
    return {**original.config, "sealed": True, "cap_records": 0, "cap_bytes": 0}


async def configure(context: RouterContext, topic: str, route: str, config: dict[str, Any], query: str = "") -> None:
    await ask(context, route, Request("PUT", path(topic), query, JSON, msgspec.json.encode(config)), 200, 201)


async def copy_page(
    context: RouterContext, topic: str, source: str, dest: str, copy: Copied, wait_ms: int = 0
) -> Copied:
    """Copies at most a page of records after the copy's head. `wait_ms`: how long to wait if the source has no new record."""
    page = await read(context, topic, source, copy.head, wait_ms)
    lost = msgspec.json.decode(page.tombstone, type=Tombstone | None)
    if lost is not None and lost.lost_from is not None and lost.lost_from < lost.gap_from:
        # A crash of the source took records back. This copy may still have them.
        await delete(context, topic, dest, [seq async for seq in live(context, topic, dest, lost.lost_from - 1)])
    if page.next_from_seq == copy.head and lost is None:
        return copy._replace(source_head=page.head_seq)
    records, ts = rising(page.records, copy.ts)
    body: dict[str, Any] = {"copy": True, "records": records, "head_seq": page.next_from_seq}
    if lost is not None:
        body["tombstone"] = page.tombstone
    await ask(context, dest, post(path(topic), body), 200)
    return Copied(page.next_from_seq, ts, page.head_seq)


def rising(records: msgspec.Raw, last: int) -> tuple[msgspec.Raw, int]:
    """Returns the records with times that never decrease, and the last time.

    Times decrease if the source's clock was set back. A copy gives such a record the time of the record before.
    """
    times = [record.ts for record in msgspec.json.decode(records, type=list[Timed])]
    risen = list(accumulate(times, max, initial=last))[1:]
    if risen == times:
        return records, (times or [last])[-1]
    changed = msgspec.json.decode(records, type=list[Raws])
    for record, ts in zip(changed, risen, strict=True):
        record["$ts"] = encoded(ts)
    return encoded(changed), risen[-1]


async def read(context: RouterContext, topic: str, route: str, from_seq: int, wait_ms: int = 0) -> Page:
    body = {"from_seq": from_seq, "limit": PAGE, "include_tags": True, "wait_ms": wait_ms}
    answer = await ask(context, route, post(f"{path(topic)}/diff", body), 200)
    return await answer.decoded(Page)


async def live(
    context: RouterContext, topic: str, route: str, from_seq: int, upto: int | None = None
) -> AsyncGenerator[int]:
    """Yields the seqs of shown records above `from_seq`, up to `upto`."""
    while True:
        page = await read(context, topic, route, from_seq)
        for record in msgspec.json.decode(page.records, type=list[Seq]):
            if upto is not None and record.seq > upto:
                return
            yield record.seq
        if page.next_from_seq == from_seq or page.next_from_seq >= page.head_seq:
            return
        from_seq = page.next_from_seq


class Difference(NamedTuple):
    """The seqs that only the copy shows, and the number of seqs that only the source shows."""

    surplus: list[int]
    missing: int


async def difference(context: RouterContext, topic: str, source: str, dest: str, upto: int) -> Difference:
    """Compares the shown records of both sides up to a seq. Reads both sides completely, page by page."""
    surplus, missing = list[int](), 0
    async with (
        aclosing(live(context, topic, source, 0, upto)) as ours,
        aclosing(live(context, topic, dest, 0, upto)) as theirs,
    ):
        original, copy = await anext(ours, None), await anext(theirs, None)
        while original is not None or copy is not None:
            if original == copy:
                original, copy = await anext(ours, None), await anext(theirs, None)
            elif copy is None or (original is not None and original < copy):
                missing, original = missing + 1, await anext(ours, None)
            else:
                surplus.append(copy)
                copy = await anext(theirs, None)
    return Difference(surplus, missing)


async def trim(
    context: RouterContext, topic: str, source: str, dest: str, source_first: int, first: int, head: int
) -> bool:
    """Removes the records below the source's first record from a copy. Returns whether the copy had such seqs.

    `source_first` and `first` are the first seqs of the source and of the copy, `head` is the copy's head. Readers of the copy
    get the source's tombstone, if any.
    """
    until = min(source_first, head + 1)
    if first >= until:
        return False
    answer = await ask(context, source, post(f"{path(topic)}/diff", {"from_seq": 0, "limit": 1}), 200)
    tombstone = (await answer.decoded(Page)).tombstone
    if bytes(tombstone) != b"null":
        await ask(context, dest, post(path(topic), {"copy": True, "records": [], "tombstone": tombstone}), 200)
    await ask(context, dest, post(f"{path(topic)}/delete", {"copy": True, "before_seq": until}), 200)
    return True


async def repair(context: RouterContext, topic: str, source: str, dest: str) -> None:
    """Deletes the copy's records that the source no longer shows.

    Raises NotReady if the copy lacks records. A copy cannot insert records below its head, and must be created again.
    """
    original, copy = await look(context, source, topic), await look(context, dest, topic)
    if original is None or copy is None:
        return
    if await trim(context, topic, source, dest, original.earliest_seq, copy.earliest_seq, copy.head_seq):
        copy = await look(context, dest, topic)
    if copy is None or original.count == copy.count:
        return
    found = await difference(context, topic, source, dest, min(original.head_seq, copy.head_seq))
    await delete(context, topic, dest, found.surplus)
    if found.missing:
        raise NotReady(
            f"the copy of {topic!r} on the route {dest!r} lacks {found.missing} records: delete the copy, and copy again"
        )


async def delete(context: RouterContext, topic: str, dest: str, seqs: Sequence[int]) -> None:
    """Deletes these records of a copy."""
    for first in range(0, len(seqs), MOST_SEQS):
        body = {"copy": True, "seqs": list(seqs[first : first + MOST_SEQS])}
        await ask(context, dest, post(f"{path(topic)}/delete", body), 200)


async def forward_delete(context: RouterContext, request: Request, answer: Response, dest: str) -> None:
    """Repeats a client's delete in a copy.

    The head in the source's answer limits the delete, because the copy may have later records.
    """
    body = await request.json(Raws)
    head = (await answer.decoded(Raws))["head_seq"]
    bound = msgspec.json.decode(head, type=int) + 1
    before = msgspec.json.decode(body.get("before_seq", b"null"), type=int | None)
    body |= {"copy": encoded(True), "before_seq": encoded(bound if before is None else min(before, bound))}
    if "seqs" in body:
        del body["before_seq"]
    await ask(context, dest, post(request.path, body), 200, 404)


async def entries(context: RouterContext, route: str, path: str, key: str) -> AsyncGenerator[dict[str, Any]]:
    """Yields every entry of a list of the route's server. `key`: the field of the answer that holds the entries."""
    cursor = ""
    while True:
        query = f"page_size=1000&cursor={quote(cursor, safe='')}"
        page = await (await ask(context, route, Request("GET", path, query), 200)).decoded()
        for entry in page[key]:
            yield entry
        cursor = page.get("next_cursor", "")
        if not cursor:
            return


async def copy_cursors(context: RouterContext, topic: str, source: str, dest: str) -> None:
    """Copies the positions of named cursors from the source.

    A cursor that moves at the same time keeps its new position, because another process has already opened the copy.
    """
    async for each in entries(context, source, f"{path(topic)}/cursors", "cursors"):
        if each["kind"] == "named":
            target = f"{path(topic)}/cursors/{quote(each['cursor'], safe='')}"
            there = await ask(context, dest, Request("GET", target), 200, 404)
            stands_at = (await there.decoded())["seq"] if there.status == 200 else 0
            body = msgspec.json.encode({"seq": each["seq"], "expected_seq": stands_at})
            await ask(context, dest, Request("PUT", target, "", JSON, body), 200, 201, 409)


def path(topic: str) -> str:
    return f"/v0/topics/{quote(topic, safe='')}"


def post(path: str, body: Any) -> Request:
    return Request("POST", path, "", JSON, msgspec.json.encode(body))
