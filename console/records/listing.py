"""The record browser's rows and bars as HTML. A template would be slow: fifty rows with a dozen values each took most of the
page's time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote_plus, urlencode

from django.http import QueryDict
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from base import units
from base.clock import now_ms
from console.records.browse import excerpt, indented
from console.records.records import RecordsPage, ShownRecord, Slice
from console.templatetags.console import amount, name

SUMMARY = 160  # characters of a folded record
MOST_LINES = 20_000  # characters of data, and of meta, in the unfolded record
PLACES = ("seq", "at", "before", "after")  # parameters for the page's position

ROW = (
    '<tr{}><td class="number"><a href="{}">{}</a></td><td>{}</td><td>{}</td><td>{}</td><td class="data"><details>'
    '<summary><bdi>{}</bdi></summary><pre class="json">{}{}</pre>{}{}</details></td>{}</tr>'
)
BAR = (
    '<a href="{}"{} aria-label="{} seqs from {}" title="{} seqs from {}">'
    '<svg viewBox="0 0 1 100" preserveAspectRatio="none"><rect width="1" height="{}"/></svg></a>'
)
META = '<p class="quiet">meta</p><pre class="json">{}</pre>'


def elsewhere(query: QueryDict, parameter: str) -> str:
    """Returns this page's query without its position, up to the value of `parameter`."""
    left_out = (*PLACES, parameter)
    kept = [(key, value) for key, values in query.lists() for value in values if key not in left_out]
    return f"?{urlencode([*kept, (parameter, '')])}"


def draw_rows(topic: str, rows: Sequence[ShownRecord], goal: int | None, query: QueryDict) -> SafeString:
    """Returns the rows of the list. `goal`: the seq that the operator entered."""
    records_url, by_tag = reverse("admin:console_records", args=[topic]), elsewhere(query, "tag")
    named, now = any_forwarded(rows), now_ms()
    return format_html_join(
        "", ROW, (cells(row, f"{records_url}{row.seq}/", by_tag, row.seq == goal, named, now) for row in rows)
    )


def any_forwarded(rows: Sequence[ShownRecord]) -> bool:
    """Returns True if a record came from another topic. Only then does the list have a column for the origin."""
    return any(row.path for row in rows)


def cells(row: ShownRecord, url: str, by_tag: str, chosen: bool, named: bool, now: int) -> tuple[SafeString | str, ...]:
    """Returns the values of ROW."""
    data, meta = (excerpt(indented(text or "", MOST_LINES), MOST_LINES) for text in (row.data, row.meta))
    is_cut = row.is_cut or data.is_cut or meta.is_cut
    home = format_html('<a href="{}">{}</a>', url, name(row.home or "a deleted topic")) if row.path else ""
    return (
        SafeString(' aria-selected="true"') if chosen else "",
        url,
        amount(row.seq),
        written(row.ts, now),
        "" if row.tag is None else format_html('<a href="{}">{}</a>', by_tag + quote_plus(row.tag), name(row.tag)),
        "" if row.node is None else name(row.node),
        row.data if len(row.data) <= SUMMARY else row.data[: SUMMARY - 1] + "…",
        data.text,
        "\n…" if is_cut else "",
        format_html(META, meta.text) if row.meta else "",
        format_html('<p>The list shows the beginning of this record. <a href="{}">Show the whole record</a></p>', url)
        if is_cut
        else "",
        format_html("<td>{}</td>", home) if named else "",
    )


def written(ts: int, now: int) -> SafeString:
    """Returns the time of a record to the millisecond, with its age as a tooltip."""
    exact = f"{datetime.fromtimestamp(ts / 1000, UTC):%Y-%m-%d %H:%M:%S}.{ts % 1000:03}"
    return format_html(
        '<time datetime="{}Z" title="{} ago">{}</time>', exact.replace(" ", "T"), units.duration(now - ts), exact
    )


def draw_bars(slices: Sequence[Slice], page: RecordsPage, query: QueryDict) -> SafeString:
    """Returns a bar for each slice of time. Slices with seqs of this page are marked."""
    by_seq = elsewhere(query, "seq")
    return format_html_join("", BAR, (bar(each, page, by_seq) for each in slices))


def bar(each: Slice, page: RecordsPage, by_seq: str) -> tuple[SafeString | str, ...]:
    """Returns the values of BAR."""
    here = each.last_seq >= page.lowest and each.first_seq <= page.highest
    seqs, first = amount(each.seqs), amount(each.first_seq)
    here_class = SafeString(' class="here"') if here else ""
    return (f"{by_seq}{each.last_seq}", here_class, each.seqs, each.first_seq, seqs, first, f"{each.height:.1f}")
