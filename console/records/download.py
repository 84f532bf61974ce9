"""Downloads of the record browser: NDJSON or CSV, streamed page by page, so the length costs no memory.

A download is a stream and counts against the caps of streams. The download waits for its client before each read of a page of
records. If a download fails or the process shuts down, the server closes the connection before the end of the body. A client
therefore notices the missing end.
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import msgspec
from django.conf import settings

from base.clock import now_ms
from base.errors import Forbidden, InvalidRequest, NotFound, TopicNotFound
from base.names import check_topic_name
from console.live.visitor import enter
from console.records import records
from console.records.browse import filter_of
from console.records.records import RecordFilter, ShownRecord
from http1 import Response
from store.database import mend
from store.script import run
from store.threads import pages
from topics.read.describe import Held, held
from watch.outflow import Outflow, outflows
from watch.registry import registry
from wire.request.parse import query_pairs
from wire.streams import StreamCall

log = logging.getLogger(__name__)

PREFIX = "/admin/download/"
PATH = re.compile(r"/admin/download/([^/]+)\.(ndjson|csv)")
PERMISSION = "console.export_records"
PAGE = 500  # records per read
PAGE_BYTES = 1024 * 1024  # bytes of text per read; the record that reaches this limit is the last of its page
KINDS = {"ndjson": b"application/x-ndjson", "csv": b"text/csv; charset=utf-8"}
COLUMNS = ("seq", "ts", "node", "tag", "meta", "data", "home_topic", "home_seq")
# A spreadsheet takes a cell for a formula if the cell begins with one of these characters.
FORMULA = tuple("=+-@\t\r\n＝＋－＠")


class DownloadFilter(NamedTuple):
    """The page's filter and the range of seqs. None: no limit."""

    chosen: RecordFilter
    first: int | None
    last: int | None


def wanted(query: bytes) -> DownloadFilter:
    """Returns the range and filter in a query string. Raises InvalidRequest."""
    given = {name: value for name, value in query_pairs(query) if value}
    chosen = filter_of(*map(given.get, ("tag", "node", "data")))
    return DownloadFilter(chosen, seq_of(given, "from"), seq_of(given, "upto"))


def seq_of(given: dict[str, str], name: str) -> int | None:
    """Returns the seq in this parameter, or None if the parameter is absent. Raises InvalidRequest."""
    seq = given.get(name)
    if seq is None:
        return None
    if not (seq.isdecimal() and len(seq) < 19):
        raise InvalidRequest(f"Invalid {name}: expected a seq, a whole number from 0")
    return int(seq)


class Sending:
    """A running download, for the registry of streams."""

    is_ending = False

    def end(self, code: str, message: str) -> None:
        """This process is about to exit. A file has no room for a message."""
        self.is_ending = True


class Unfinished(Exception):
    """The body stops before its end."""


async def stream(call: StreamCall) -> None:
    """Serves GET /admin/download/TOPIC.ndjson (or .csv) to its end. Raises TopicsError before the response starts."""
    path = PATH.fullmatch(call.path)
    if path is None:
        raise NotFound("unknown path")
    if not settings.TOPICS_CONSOLE_DOWNLOADS:
        raise Forbidden("downloads are switched off: set TOPICS_CONSOLE_DOWNLOADS to 1")
    key = await enter(call, PERMISSION)
    name, kind = path[1], path[2]
    check_topic_name(name)
    asked = wanted(call.query)
    topic = await pages.run(look_up, name)
    headers = [
        (b"content-type", KINDS[kind]),
        (b"content-disposition", f'attachment; filename="{name.replace(":", "_")}.{kind}"'.encode()),
        (b"cache-control", b"no-store"),
    ]
    floor = max(topic.state.earliest_seq - 1, (asked.first or 0) - 1)
    head = topic.state.head_seq
    last = head if asked.last is None else min(asked.last, head)
    sending, outflow, writer = Sending(), Outflow(call.writer), call.writer
    async with registry().place(key):
        with registry().listed(sending, None), outflows.flowing(outflow):
            try:
                writer.begin(Response(200, headers))
                async for body in lines(topic.state.id, name, floor, last, kind, asked.chosen):
                    if writer.gone.done():
                        return
                    if sending.is_ending:
                        raise Unfinished
                    await outflow.send(body)
                writer.end()
            except Exception as error:
                # The status is already sent. Only a broken connection shows the client that the rest is missing.
                log.warning("A download of %s stopped: %s. Its connection was closed.", name, error or "shutting down")
                outflow.cut()


async def lines(
    topic_id: int, name: str, floor: int, start: int, kind: str, chosen: RecordFilter
) -> AsyncIterator[bytes]:
    """Yields the file, one page of records at a time, with the newest first as in the browser."""
    if kind == "csv":
        yield (",".join(COLUMNS) + "\r\n").encode()
    while start > floor:
        page = await pages.run(read, topic_id, name, floor, start, chosen)
        yield b"".join(as_json(row) if kind == "ndjson" else as_csv(row) for row in page.rows)
        start = page.lowest - 1


def look_up(name: str) -> Held:
    mend()
    return run(held(name, now_ms()))


def read(topic_id: int, name: str, floor: int, start: int, chosen: RecordFilter) -> records.RecordsPage:
    """Raises TopicNotFound if the topic was deleted meanwhile: the page may lack records, and the rest does."""
    mend()
    page = records.page(topic_id, name, floor, start, start, False, chosen, PAGE, PAGE_BYTES)
    if look_up(name).state.id != topic_id:
        raise TopicNotFound(f"topic {name!r} was deleted, and another one has its name", topic=name)
    return page


def as_json(row: ShownRecord) -> bytes:
    """Returns a record on one line, with data and meta as they were sent. A line break between JSON tokens becomes a space."""
    fields: dict[str, Any] = {"$seq": row.seq, "$ts": row.ts}
    if row.node is not None:
        fields["$node"] = row.node
    if row.tag is not None:
        fields["$tag"] = row.tag
    if row.meta is not None:
        fields["meta"] = msgspec.Raw(row.meta.encode())
    fields["data"] = msgspec.Raw(row.data.encode())
    return msgspec.json.encode(fields).replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"


def as_csv(row: ShownRecord) -> bytes:
    text = io.StringIO()
    cells = (row.seq, row.ts, row.node, row.tag, row.meta, row.data, row.home, row.home_seq)
    csv.writer(text).writerow([safe(cell) for cell in cells])
    return text.getvalue().encode()


def safe(cell: Any) -> Any:
    """Returns text that spreadsheets do not take for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
