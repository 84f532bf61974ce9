"""Exact copies of a topic on another server: the same records, with the same seqs, times, nodes and tags.

A copy is a sealed topic, which accepts copies but no writes of clients. One page of `diff` at the source becomes one append
with `copy`. The server skips seqs up to the copy's head. So any number of processes can copy at once, and a restarted process
continues at the copy's head.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from itertools import accumulate
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from base.errors import NotReady
from contract.deleting import MOST_SEQS
from gateway.api import Request, Response, RouterContext
from gateway.blocks import ask
from gateway.rewrite.edits import encoded, is_absent
from gateway.rewrite.names import Raws

PAGE = 1000  # records per page, the maximum of a diff
MOST_SKEW_MS = 10_000  # between the clocks of the source's hosts, which date idempotency keys
JSON = ((b"content-type", b"application/json"),)
# In this order: the row of a queue counts its leases.
STATE = ("keys", "groups", "sites", "writes", "leases", "queue", "done", "schedules")


class CopiedTopic(msgspec.Struct):
    """A topic in a server's answer."""

    head_seq: int
    earliest_seq: int
    count: int
    config: dict[str, Any]
    last_write_ts: int | None = None

    @property
    def is_sealed(self) -> bool:
        return self.config.get("sealed") is True

    @property
    def is_queue(self) -> bool:
        return self.config.get("type") == "queue"


class SourceTombstone(msgspec.Struct):
    gap_from: int
    lost_from: int | None = None


class SourcePage(msgspec.Struct):
    """The answer to a diff. `records` are the bytes that the source sent."""

    next_from_seq: int
    head_seq: int
    records: msgspec.Raw
    tombstone: msgspec.Raw = msgspec.Raw(b"null")


class RecordSeq(msgspec.Struct):
    seq: int = msgspec.field(name="$seq")


class Timed(msgspec.Struct):
    ts: int = msgspec.field(name="$ts")


class Whole(RecordSeq):
    """A record with everything that a copy keeps. `data` and `meta` are the bytes that a server sent."""

    ts: int = msgspec.field(name="$ts")
    data: msgspec.Raw
    meta: msgspec.Raw = msgspec.Raw()
    tag: str | None = msgspec.field(name="$tag", default=None)
    node: str | None = msgspec.field(name="$node", default=None)

    def is_copy_of(self, original: Whole) -> bool:
        """Returns whether this record can be a copy of the original. `rising` may have given the copy a later time."""
        return self.ts >= original.ts and (self.data, self.meta, self.tag, self.node) == (
            original.data,
            original.meta,
            original.tag,
            original.node,
        )


class CopyProgress(NamedTuple):
    """The progress of a copy: its head and last time (ms), and the source's head at that moment."""

    head: int
    ts: int
    source_head: int

    @property
    def lag(self) -> int:
        return self.source_head - self.head


class OtherLog(NotReady):
    """A copy has records of another log than the source's: the source was deleted, or restored from a backup."""

    def __init__(self, topic: str, source: str, dest: str, why: str) -> None:
        super().__init__(
            f"topic {topic!r} on the route {dest!r} is a copy of another log than on the route {source!r}: {why}. Save the"
            " records that only the copy has, and delete the copy (a move: end it with --back). Then copy again"
        )


async def look(context: RouterContext, route: str, topic: str) -> CopiedTopic | None:
    """Returns the state of a topic on the route's server, or None if the topic does not exist. Raises TopicsError."""
    answer = await ask(context, route, Request("GET", path(topic), "touch=false"), 200, 404)
    return None if answer.status == 404 else await answer.decoded(CopiedTopic)


async def begin(context: RouterContext, topic: str, source: str, dest: str) -> CopyProgress:
    """Creates a sealed copy with the settings of the source, or continues an existing copy. Returns the progress.

    Raises NotReady if the source has no such topic, or if the topic at `dest` is not sealed.
    """
    copy, original = await look(context, dest, topic), await look(context, source, topic)  # heads can only rise
    if original is None:
        raise NotReady(f"topic {topic!r} does not exist on the route {source!r}")
    if copy is not None and not copy.is_sealed:
        raise NotReady(f"topic {topic!r} on the route {dest!r} is not sealed, and no copy: delete the topic first")
    if copy is not None:
        return CopyProgress(copy.head_seq, copy.last_write_ts or 0, original.head_seq)
    await configure(context, topic, dest, settings(original))
    copy = await look(context, dest, topic)
    if copy is not None and copy.head_seq > 0:
        # A deleted topic with this name left its numbering. The copy must start without it, to take the seqs of its source.
        await ask(context, dest, Request("DELETE", path(topic), "if_sealed=true&keep_head=false"), 200)
        await configure(context, topic, dest, settings(original))
    return CopyProgress(0, 0, original.head_seq)


async def check_log(context: RouterContext, topic: str, source: str, dest: str) -> None:
    """Raises OtherLog if the copy has records of another log.

    From the seq at which two logs part, they differ at every seq that both have. So the last seq that both show decides. If all
    such seqs were deleted on one side, `repair` removes the copy's records of the other log.
    """
    copy, original = await look(context, dest, topic), await look(context, source, topic)  # heads can only rise
    if copy is None or not copy.is_sealed or original is None:
        return
    there = newest(context, topic, dest, copy.head_seq)
    ours = newest(context, topic, source, copy.head_seq)
    async with aclosing(there), aclosing(ours):
        copied, record = await anext(there, None), await anext(ours, None)
        while copied is not None and record is not None and copied.seq != record.seq:
            if copied.seq > record.seq:
                copied = await anext(there, None)
            else:
                record = await anext(ours, None)
    if copy.head_seq > original.head_seq:
        raise OtherLog(topic, source, dest, f"its head is {copy.head_seq}, and the source's is {original.head_seq}")
    if copied is not None and record is not None and not copied.is_copy_of(record):
        raise OtherLog(topic, source, dest, f"its record {copied.seq} differs")


async def newest(context: RouterContext, topic: str, route: str, upto: int) -> AsyncGenerator[Whole]:
    """Yields the shown records up to a seq, the newest first."""
    limit, from_seq = 1, upto + 1
    while from_seq > 1:
        body = {"from_seq": from_seq, "limit": limit, "order": "desc", "include_tags": True}
        page = await (await ask(context, route, post(f"{path(topic)}/diff", body), 200)).decoded(SourcePage)
        for record in msgspec.json.decode(page.records, type=list[Whole]):
            yield record
        if page.next_from_seq >= from_seq:
            return
        limit, from_seq = PAGE, page.next_from_seq


def settings(original: CopiedTopic) -> dict[str, Any]:
    """Returns the settings of a copy.

    A copy has no caps. With a cap, a late delete would make the copy evict records that the source still has. `trim` removes
    the records that the source has evicted.
    """
    return {**original.config, "sealed": True, "cap_records": 0, "cap_bytes": 0}


def of_a_copy(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a client's changes of settings for a copy, which has its own seal and caps (settings)."""
    return {name: value for name, value in changes.items() if name not in ("sealed", "cap_records", "cap_bytes")}


async def configure(context: RouterContext, topic: str, route: str, config: dict[str, Any], query: str = "") -> None:
    await ask(context, route, Request("PUT", path(topic), query, JSON, msgspec.json.encode(config)), 200, 201)


async def copy_page(
    context: RouterContext, topic: str, source: str, dest: str, copy: CopyProgress, wait_ms: int = 0
) -> CopyProgress:
    """Copies at most a page of records after the copy's head. `wait_ms`: how long to wait if the source has no new record."""
    page = await read(context, topic, source, copy.head, wait_ms)
    if page.head_seq < copy.head:
        raise OtherLog(topic, source, dest, f"its head is {copy.head}, and the source's is {page.head_seq}")
    lost = msgspec.json.decode(page.tombstone, type=SourceTombstone | None)
    if lost is not None and lost.lost_from is not None and lost.lost_from < lost.gap_from:
        # A crash of the source took records back. This copy may still have them.
        await delete(context, topic, dest, [each.seq async for each in live(context, topic, dest, lost.lost_from - 1)])
    if page.next_from_seq == copy.head and lost is None:
        return copy._replace(source_head=page.head_seq)
    records, ts = rising(page.records, copy.ts)
    body: dict[str, Any] = {"copy": True, "records": records, "head_seq": page.next_from_seq}
    if lost is not None:
        body["tombstone"] = page.tombstone
    await ask(context, dest, post(path(topic), body), 200)
    return CopyProgress(page.next_from_seq, ts, page.head_seq)


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


async def read(context: RouterContext, topic: str, route: str, from_seq: int, wait_ms: int = 0) -> SourcePage:
    body = {"from_seq": from_seq, "limit": PAGE, "include_tags": True, "wait_ms": wait_ms}
    answer = await ask(context, route, post(f"{path(topic)}/diff", body), 200)
    return await answer.decoded(SourcePage)


async def live(
    context: RouterContext, topic: str, route: str, from_seq: int, upto: int | None = None
) -> AsyncGenerator[Whole]:
    """Yields the shown records above `from_seq`, up to `upto`."""
    while True:
        page = await read(context, topic, route, from_seq)
        for record in msgspec.json.decode(page.records, type=list[Whole]):
            if upto is not None and record.seq > upto:
                return
            yield record
        if page.next_from_seq == from_seq or page.next_from_seq >= page.head_seq:
            return
        from_seq = page.next_from_seq


class Difference(NamedTuple):
    """The seqs that only the copy shows, the seqs that only the source shows, and the seqs of records that differ."""

    surplus: list[int]
    missing: list[int]
    changed: list[int]


async def difference(
    context: RouterContext, topic: str, source: str, dest: str, upto: int, from_seq: int = 0
) -> Difference:
    """Compares the shown records of both sides between two seqs, with their contents. Reads both sides, page by page."""
    found = Difference([], [], [])
    async with (
        aclosing(live(context, topic, source, from_seq, upto)) as ours,
        aclosing(live(context, topic, dest, from_seq, upto)) as theirs,
    ):
        original, copy = await anext(ours, None), await anext(theirs, None)
        while original is not None or copy is not None:
            if copy is None or (original is not None and original.seq < copy.seq):
                assert original is not None
                found.missing.append(original.seq)
                original = await anext(ours, None)
            elif original is None or copy.seq < original.seq:
                found.surplus.append(copy.seq)
                copy = await anext(theirs, None)
            else:
                if not copy.is_copy_of(original):
                    found.changed.append(copy.seq)
                original, copy = await anext(ours, None), await anext(theirs, None)
    return found


async def settle(context: RouterContext, topic: str, source: str, dest: str, found: Difference) -> None:
    """Deletes the copy's records that the source no longer shows.

    Raises OtherLog if records differ, and then deletes nothing. Raises NotReady if the copy lacks records. A copy cannot insert
    records below its head, and must be created again.
    """
    if found.changed:
        raise OtherLog(
            topic, source, dest, f"of the compared records {len(found.changed)} differ, first {found.changed[0]}"
        )
    await delete(context, topic, dest, found.surplus)
    if found.missing:
        raise NotReady(
            f"the copy of {topic!r} on the route {dest!r} lacks records, {len(found.missing)} of the compared ones, first"
            f" {found.missing[0]}: delete the copy, and copy again"
        )


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
    tombstone = (await answer.decoded(SourcePage)).tombstone
    if bytes(tombstone) != b"null":
        await ask(context, dest, post(path(topic), {"copy": True, "records": [], "tombstone": tombstone}), 200)
    await ask(context, dest, post(f"{path(topic)}/delete", {"copy": True, "before_seq": until}), 200)
    return True


async def repair(context: RouterContext, topic: str, source: str, dest: str) -> None:
    """Compares a copy with its source if their numbers of records differ, and settles the difference."""
    original, copy = await look(context, source, topic), await look(context, dest, topic)
    if original is None or copy is None:
        return
    if await trim(context, topic, source, dest, original.earliest_seq, copy.earliest_seq, copy.head_seq):
        copy = await look(context, dest, topic)
    if copy is None or original.count == copy.count:
        return
    found = await difference(context, topic, source, dest, min(original.head_seq, copy.head_seq))
    await settle(context, topic, source, dest, found)


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
    if not is_absent(body, "seqs"):
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


class StatePage(msgspec.Struct):
    """A page of state. `rows` are the bytes that the source sent."""

    rows: msgspec.Raw
    next_cursor: str = ""


async def copy_state(context: RouterContext, topic: str, source: str, dest: str, keys_since: float | None) -> None:
    """Copies what a server keeps beside the records and cursors of a topic: keys, groups, sites, leases and schedules.

    Both topics must be sealed. Then the source's state is final, and no other process has opened the copy. `keys_since`: when
    the last copy_keys began, by this process's monotonic clock.
    """
    for kind in STATE:
        if kind == "keys":
            await copy_keys(context, topic, source, dest, keys_since)
        else:
            await copy_kind(context, topic, source, dest, kind)


async def copy_keys(context: RouterContext, topic: str, source: str, dest: str, since: float | None = None) -> None:
    """Copies the idempotency keys, or only those since a time by this process's monotonic clock.

    There can be many keys, so a move copies them before writers wait, and then those that came meanwhile.
    """
    max_age = "" if since is None else f"max_age_ms={(time.monotonic() - since) * 1000 + MOST_SKEW_MS:.0f}&"
    await copy_kind(context, topic, source, dest, "keys", max_age)


async def copy_kind(context: RouterContext, topic: str, source: str, dest: str, kind: str, query: str = "") -> None:
    target, cursor = f"{path(topic)}/state/{kind}", ""
    while True:
        asked = Request("GET", target, f"{query}cursor={quote(cursor, safe='')}")
        page = await (await ask(context, source, asked, 200)).decoded(StatePage)
        if bytes(page.rows) != b"[]":
            await ask(context, dest, post(target, {"rows": page.rows}), 200)
        cursor = page.next_cursor
        if not cursor:
            return


async def drop_schedules(context: RouterContext, topic: str, source: str) -> None:
    """Deletes the schedules of a moved queue at its source. There, each would be refused every minute."""
    names = [each["schedule"] async for each in entries(context, source, f"{path(topic)}/schedules", "schedules")]
    for name in names:
        await ask(context, source, Request("DELETE", f"{path(topic)}/schedules/{quote(name, safe='')}"), 200)


def path(topic: str) -> str:
    return f"/v0/topics/{quote(topic, safe='')}"


def post(path: str, body: Any) -> Request:
    return Request("POST", path, "", JSON, msgspec.json.encode(body))
